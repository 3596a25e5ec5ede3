package fts_test

import (
	"context"
	"sync"
	"testing"

	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/store"
)

// Several processes open a new file at the same moment. In some orders SQLite refuses a lock without
// waiting for it.
func TestANewFileIsOpenedByManyAtOnce(t *testing.T) {
	for range 5 {
		w := newWorld(t)
		w.talk("ana", "fruit").say("a damson")
		var wg sync.WaitGroup
		for range 8 {
			ix := w.another(fts.Options{})
			wg.Go(func() {
				page, err := ix.Search(context.Background(), store.ForUser("ana"), search.Query{Text: "damson"})
				if err != nil || len(page.Hits) != 1 {
					t.Errorf("%d hits, %v", len(page.Hits), err)
				}
				if err := ix.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
