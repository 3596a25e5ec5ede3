package contract

import (
	"fmt"

	"steward/internal/resource"
	"steward/internal/store"
)

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
