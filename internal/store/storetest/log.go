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

func logFilters(e *env) {
	e.must(ada, put(conv("a"), ""), put(message("a", "1"), ""), put(conv("b"), ""), put(message("b", "2"), ""))
	e.must(bob, put(message("a", "bobs"), ""))
	e.must(ada, store.Change{Op: store.Delete, URI: message("a", "1")})
	e.wantLog(ada, store.LogQuery{Under: conv("a")}, "a/1", "1/1", "1/2")
	e.wantLog(ada, store.LogQuery{Under: conv("a"), Since: 1}, "1/1", "1/2")
	e.wantLog(ada, store.LogQuery{Under: conv("a"), Reverse: true}, "1/2", "1/1", "a/1")
	e.wantLog(ada, store.LogQuery{Under: message("a", "1")}, "1/1", "1/2")
	e.wantLog(ada, store.LogQuery{Under: conv("none")})
	e.wantLog(system, store.LogQuery{Under: conv("a")}, "a/1", "1/1", "bobs/1", "1/2")
	e.wantLog(bob, store.LogQuery{}, "bobs/1")
}

func logOfOne(e *env) {
	u := conv("c")
	for i := range 4 {
		e.must(ada, put(u, fmt.Sprint(i)), put(message("c", "m"), ""))
	}
	e.must(ada, store.Change{Op: store.Delete, URI: u})
	e.wantLog(ada, store.LogQuery{Of: u}, "c/1", "c/2", "c/3", "c/4", "c/5")
	e.wantLog(ada, store.LogQuery{Of: u, Reverse: true}, "c/5", "c/4", "c/3", "c/2", "c/1")
	e.wantLog(ada, store.LogQuery{Of: u, Since: 3}, "c/3", "c/4", "c/5")
	e.wantLog(ada, store.LogQuery{Of: u, Since: 3, Reverse: true}, "c/5", "c/4", "c/3")
	e.wantLog(ada, store.LogQuery{Of: u, Under: u}, "c/1", "c/2", "c/3", "c/4", "c/5")
	e.wantLog(ada, store.LogQuery{Of: u, Under: message("c", "m")})
	e.wantLog(ada, store.LogQuery{Of: conv("none")})
	for i, en := range e.log(ada, store.LogQuery{Of: u}) {
		e.failIf(en.Version != uint64(i+1) || i < 4 && string(en.Body) != fmt.Sprint(i), "version %d is %+v", i+1, en)
	}
}

// logByType: of the changes, those of one type of resource.
func logByType(e *env) {
	task := message("a", "1").Child("plan.Task", "t")
	e.must(ada, put(conv("a"), ""), put(message("a", "1"), ""), put(task, ""), put(message("b", "2"), ""))
	e.must(bob, put(message("a", "bobs"), ""))
	e.must(ada, store.Change{Op: store.Delete, URI: message("a", "1")}, put(task, ""))
	q := store.LogQuery{Type: "common.Message"}
	e.wantLog(ada, q, "1/1", "2/1", "1/2")
	e.wantLog(bob, q, "bobs/1")
	e.wantLog(system, q, "1/1", "2/1", "bobs/1", "1/2")
	e.wantLog(ada, store.LogQuery{Type: "plan.Task"}, "t/1", "t/2")
	e.wantLog(ada, store.LogQuery{Type: "plan.Task", Reverse: true}, "t/2", "t/1")
	e.wantLog(ada, store.LogQuery{Type: "plan.Task", Since: 3}, "t/2")
	e.wantLog(ada, store.LogQuery{Type: "plan.Task", Since: 3, Under: conv("b")})
	e.wantLog(ada, store.LogQuery{Type: "common.Message", Under: conv("a")}, "1/1", "1/2")
	e.wantLog(ada, store.LogQuery{Type: "never.Seen"})
	e.wantLog(ada, store.LogQuery{Type: "never.Seen", Under: conv("a"), Reverse: true})
	e.wantLog(ada, store.LogQuery{Type: "plan.Task", Of: task}, "t/1", "t/2")
	e.wantLog(ada, store.LogQuery{Type: "common.Message", Of: task})
	e.wantLog(ada, store.LogQuery{Type: "never.Seen", Of: task})
	// A cursor stands behind what was looked through, whatever was looked for.
	tasks, next := e.follow(ada, store.LogQuery{Type: "plan.Task"})
	e.must(ada, put(message("b", "3"), ""))
	q.After = next
	got, next := e.follow(ada, q)
	e.failIf(len(tasks) != 2 || fmt.Sprint(entryNames(got)) != "[3/1]", "got %v and %v", tasks, got)
	e.must(ada, put(conv("later"), ""))
	none, next := e.follow(ada, store.LogQuery{Type: "never.Seen", After: next})
	rest, _ := e.follow(ada, store.LogQuery{After: next})
	e.failIf(len(none)+len(rest) != 0, "the cursor of a page without entries stands still: %v, %v", none, rest)
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
