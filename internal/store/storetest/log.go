package storetest

import (
	"fmt"

	"steward/internal/resource"
	"steward/internal/store"
)

func logOrder(e *env) {
	for i := range 5 {
		e.must(ada, put(conv(fmt.Sprint(i)), ""))
	}
	e.wantLog(ada, store.LogQuery{}, "0/1", "1/1", "2/1", "3/1", "4/1")
	e.wantLog(ada, store.LogQuery{Reverse: true}, "4/1", "3/1", "2/1", "1/1", "0/1")
	e.wantLog(ada, store.LogQuery{Since: 3}, "3/1", "4/1")
	e.wantLog(ada, store.LogQuery{Since: 3, Reverse: true}, "4/1", "3/1")
	e.wantLog(ada, store.LogQuery{Since: 5})
	e.wantLog(ada, store.LogQuery{Since: 1 << 63})
	e.wantLog(ada, store.LogQuery{Since: 1<<64 - 1, Reverse: true})
	for i, en := range e.log(ada, store.LogQuery{}) {
		e.failIf(en.Seq != uint64(i+1), "entry %d has the number %d", i, en.Seq)
	}
}

// logFollows: a cursor at the end finds what comes later, and only that.
func logFollows(e *env) {
	for _, q := range []store.LogQuery{{}, {Under: conv("c")}, {Of: message("c", "m")}, {Since: 100}} {
		first, err := e.st.Log(e.ctx, ada, q)
		if err != nil || first.More || first.Next == "" {
			e.Fatalf("log %+v gives %+v, %v", q, first, err)
		}
	}
	var q store.LogQuery
	var got []string
	for i := range 4 {
		e.must(bob, put(conv(fmt.Sprint("bob", i)), "")) // nothing of which ada hears
		if i%2 == 1 {
			e.must(ada, put(message("c", "m"), ""), put(conv("c"), ""), put(conv("d"), ""))
		}
		q.Limit = 2
		var entries []resource.Entry
		entries, q.After = e.follow(ada, q)
		got = append(got, entryNames(entries)...)
	}
	if want := "[m/1 c/1 d/1 m/2 c/2 d/2]"; fmt.Sprint(got) != want {
		e.Errorf("following gives %v, want %s", got, want)
	}
	// The same cursor with a filter.
	e.must(ada, put(conv("d"), ""), put(message("c", "m"), ""))
	q.Under = conv("c")
	if entries, _ := e.follow(ada, q); fmt.Sprint(entryNames(entries)) != "[m/3]" {
		e.Errorf("with a filter, following gives %v", entries)
	}
}

// logOfSmallSubtree: few entries far apart in a long log.
func logOfSmallSubtree(e *env) {
	var want []string
	for i := range 20 {
		filler := make([]store.Change, 30)
		for k := range filler {
			filler[k] = put(message("filler", fmt.Sprint(i, " ", k)), "")
		}
		e.must(ada, filler...)
		e.must(ada, put(message("c", fmt.Sprint("m", i%3)), ""))
		want = append(want, fmt.Sprintf("m%d/%d", i%3, i/3+1))
	}
	e.wantLog(ada, store.LogQuery{Under: conv("c")}, want...)
	e.wantLog(ada, store.LogQuery{Under: conv("c"), Since: 62}, want[2:]...)
	e.wantLog(ada, store.LogQuery{Under: conv("c"), Type: "common.Message"}, want...)
	e.wantLog(ada, store.LogQuery{Under: conv("c"), Type: "common.Conversation"})
	e.wantLog(ada, store.LogQuery{Under: conv("c"), Type: "never.Seen"})
	e.wantLog(bob, store.LogQuery{Under: conv("c")})
	if got := e.log(ada, store.LogQuery{Under: conv("filler")}); len(got) != 600 {
		e.Errorf("%d entries, want 600", len(got))
	}
	reversed := e.log(ada, store.LogQuery{Under: conv("c"), Reverse: true})
	for i, en := range reversed {
		if name := entryNames([]resource.Entry{en})[0]; name != want[len(want)-1-i] {
			e.Errorf("entry %d from the end is %s, want %s", i, name, want[len(want)-1-i])
		}
	}
}
