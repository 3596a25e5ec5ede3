package store

import (
	"context"
	"iter"

	"steward/internal/resource"
)

// Items yields everything that q selects, page by page; q.Limit is the page size.
// It stops after the first error. Whether a concurrent change is seen depends on
// its position in the result.
func Items(ctx context.Context, st Store, sc Scope, q Query) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for {
			page, err := st.Query(ctx, sc, q)
			if err != nil {
				yield(Item{}, err)
				return
			}
			for _, it := range page.Items {
				if !yield(it, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			q.After = page.Next
		}
	}
}

// Entries yields the entries that q selects up to the present end of the log,
// page by page; q.Limit is the page size. It stops after the first error.
func Entries(ctx context.Context, st Store, sc Scope, q LogQuery) iter.Seq2[resource.Entry, error] {
	return func(yield func(resource.Entry, error) bool) {
		for {
			page, err := st.Log(ctx, sc, q)
			if err != nil {
				yield(resource.Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			if !page.More {
				return
			}
			q.After = page.Next
		}
	}
}
