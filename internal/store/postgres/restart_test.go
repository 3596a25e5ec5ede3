//go:build linux && long

package postgres

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/store"
	"steward/test/postgres"
)

// The server crashes and restarts again and again, in the middle of commits of two
// nodes: what was acknowledged is there, once; what was not is there once or not
// at all; and everything goes on.
func TestRestartsInTheMiddleOfCommits(t *testing.T) {
	t.Parallel()
	c, err := postgres.Start(true)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	name := c.Database(t, "")
	if err := Prepare(context.Background(), c.URL(postgres.Owner, name), postgres.App); err != nil {
		t.Fatal(err)
	}
	const writers, restarts = 8, 10
	over := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	acknowledged, unknown := map[string]uint64{}, map[string]bool{}
	nodes := []*Store{open(t, c.URL(postgres.App, name)), open(t, c.URL(postgres.App, name))}
	for w := range writers {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				u := conv(fmt.Sprint(w, "-", i))
				r, err := nodes[w%2].Commit(context.Background(), ada, store.Batch{Changes: []store.Change{{URI: u, If: store.If{Absent: true}}}})
				mu.Lock()
				switch {
				case err == nil:
					acknowledged[u.ID()] = r.Seq
				case fault.HasCode(err, "commit_unknown"), fault.HasCode(err, "store_unreachable"):
					unknown[u.ID()] = true
				default:
					t.Errorf("%s: %v", u, err)
				}
				mu.Unlock()
			}
		})
	}
	for i := range restarts {
		time.Sleep(300 * time.Millisecond)
		c.Stop([]syscall.Signal{syscall.SIGQUIT, syscall.SIGINT}[i%2])
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(300 * time.Millisecond)
	close(over)
	all.Wait()
	last, found := uint64(0), map[string]uint64{}
	for e, err := range store.Entries(t.Context(), nodes[0], ada, store.LogQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if last++; e.Seq != last {
			t.Fatalf("entry %d follows %d", e.Seq, last-1)
		}
		if at := found[e.URI.ID()]; at != 0 {
			t.Errorf("%s was written twice, at %d and %d", e.URI, at, e.Seq)
		}
		found[e.URI.ID()] = e.Seq
	}
	for u, seq := range acknowledged {
		if found[u] != seq {
			t.Errorf("%s was acknowledged at %d, and is at %d", u, seq, found[u])
		}
	}
	for u := range found {
		if acknowledged[u] == 0 && !unknown[u] {
			t.Errorf("%s was refused, and is there", u)
		}
	}
	if v := verified(t, nodes[1]); v.Flaw != nil {
		t.Errorf("%+v", v.Flaw)
	}
	t.Logf("%d commits over %d restarts, %d of unknown outcome", len(acknowledged), restarts, len(unknown))
}
