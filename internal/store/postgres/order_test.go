//go:build linux

package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/store"
	"steward/test/postgres"
	"steward/test/storetest/contract"
)

// nodes are several stores of one database, used in turn, as by clients of
// several nodes.
type nodes struct {
	*Store
	other *Store
	turn  atomic.Int64
}

func (n *nodes) next() *Store {
	if n.turn.Add(1)%2 == 0 {
		return n.other
	}
	return n.Store
}

func (n *nodes) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	return n.next().Commit(ctx, sc, b)
}

func (n *nodes) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	return n.next().Query(ctx, sc, q)
}

func (n *nodes) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	return n.next().Log(ctx, sc, q)
}

func (n *nodes) Wait(ctx context.Context, after uint64) (uint64, error) {
	return n.next().Wait(ctx, after)
}

func (n *nodes) Seal(ctx context.Context) (store.Head, error) { return n.next().Seal(ctx) }

func (n *nodes) Close() error {
	if err := n.other.Close(); err != nil {
		return err
	}
	return n.Store.Close()
}

// Two nodes that share a database are one store: what one has acknowledged, the
// other shows, in the same order. A page of the second's log does not look far.
func TestContractOfTwoNodes(t *testing.T) {
	t.Parallel()
	suite := contract.Brief
	if long {
		suite = contract.Run
	}
	suite(t, func(t *testing.T) store.Store {
		c, name := database(t)
		n := &nodes{Store: open(t, c.URL(postgres.App, name)), other: open(t, c.URL(postgres.App, name))}
		n.other.window = 3
		return n
	})
}

// A commit is held back when its entries have their numbers already. Nobody else
// gets a number until it is through, so that nobody sees a later entry first.
func TestOrderIsCommitOrder(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	slow, quick, reader := open(t, c.URL(postgres.App, name)), open(t, c.URL(postgres.App, name)), open(t, c.URL(postgres.App, name))
	held, release := make(chan struct{}), make(chan struct{})
	slow.hold = sync.OnceFunc(func() {
		close(held)
		<-release
	})
	var both sync.WaitGroup
	var first, second store.Receipt
	both.Go(func() { first = commit(t, slow, put(conv("slow"), "1")) })
	<-held
	both.Go(func() { second = commit(t, quick, put(conv("quick"), "2")) })
	// The second is waiting for the lock of the log: PostgreSQL says so.
	for blocked := 0; blocked == 0; {
		err := reader.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'", name).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
	}
	page, err := reader.Log(t.Context(), ada, store.LogQuery{})
	if err != nil || len(page.Entries) != 0 {
		t.Fatalf("before the first commit, a reader sees %v (%v)", page.Entries, err)
	}
	close(release)
	both.Wait()
	if first.Seq != 1 || second.Seq != 2 {
		t.Errorf("the first commit has the number %d, the second %d", first.Seq, second.Seq)
	}
	if page, err = reader.Log(t.Context(), ada, store.LogQuery{After: page.Next}); err != nil || len(page.Entries) != 2 || page.Entries[0].URI != conv("slow") {
		t.Errorf("the cursor goes on with %v (%v)", page.Entries, err)
	}
}

// Writers of several nodes, and followers that always continue from their cursor:
// each follower sees every number once, in order.
func TestFollowersSeeEveryEntryInOrder(t *testing.T) {
	t.Parallel()
	const writers, each = 3, 60
	c, name := database(t)
	var all sync.WaitGroup
	for range 2 {
		s := open(t, c.URL(postgres.App, name))
		all.Go(func() {
			var q store.LogQuery
			for seen := uint64(0); seen < writers*each; {
				if _, err := s.Wait(t.Context(), seen); err != nil {
					t.Error(err)
					return
				}
				p, err := s.Log(t.Context(), ada, q)
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range p.Entries {
					if e.Seq != seen+1 {
						t.Errorf("entry %d follows %d", e.Seq, seen)
					}
					seen = e.Seq
				}
				q.After = p.Next
			}
		})
	}
	for w := range writers {
		s := open(t, c.URL(postgres.App, name))
		all.Go(func() {
			for i := range each {
				commit(t, s, put(conv(fmt.Sprint(w, " ", i)), ""))
			}
		})
	}
	all.Wait()
}

// A commit that another node's lock keeps waiting is not lost: the lock ends with
// its session, which PostgreSQL ends if it does nothing.
func TestAStoppedNodeDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	s := open(t, c.URL(postgres.App, name))
	stopped := open(t, c.URL(postgres.App, name), quiet)
	if _, err := stopped.writer.conn.Exec(t.Context(), "SET idle_in_transaction_session_timeout = 300"); err != nil {
		t.Fatal(err)
	}
	resumed := make(chan struct{})
	held := make(chan struct{})
	stopped.hold = sync.OnceFunc(func() {
		close(held)
		<-resumed
	})
	u := conv("fenced")
	commit(t, s, put(u, "1"))
	outcome := make(chan error, 1)
	go func() {
		_, err := stopped.Commit(context.Background(), ada, store.Batch{Changes: []store.Change{{URI: u, Body: []byte("stale"), If: store.If{Version: 1}}}})
		outcome <- err
	}()
	<-held
	commit(t, s, store.Change{URI: u, Body: []byte("2"), If: store.If{Version: 1}})
	close(resumed)
	wantCode(t, <-outcome, "conflict")
	if got, err := s.Get(t.Context(), ada, u); err != nil || string(got.Body) != "2" {
		t.Errorf("%q, %v", got.Body, err)
	}
}

// quiet keeps a store from speaking to the server by itself.
func quiet(o *Options) { o.sealEvery = time.Hour }

// A connection that breaks in the middle of a commit: before the server has heard
// of it, and after it has committed. The batch is there once either way, and the
// caller gets its receipt.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	for what, cut := range map[string]postgres.Cut{"Before": postgres.BeforeWords, "After": postgres.AfterWords} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, name := database(t)
			proxy := postgres.NewProxy(t, c)
			s, other := open(t, proxy.URL(postgres.App, name), quiet), open(t, c.URL(postgres.App, name))
			commit(t, s, put(conv("before"), ""))
			holds := 0
			s.hold = func() {
				if holds++; holds == 1 {
					proxy.Next(cut)
				}
			}
			absent := store.Change{URI: conv("c"), Body: []byte("once"), If: store.If{Absent: true}}
			r := commit(t, s, absent)
			if r.Seq != 2 || r.Versions[0] != 1 {
				t.Errorf("receipt %+v", r)
			}
			if want := map[postgres.Cut]int{postgres.BeforeWords: 2, postgres.AfterWords: 1}[cut]; holds != want {
				t.Errorf("the batch was written %d times, want %d", holds, want)
			}
			page, err := other.Log(t.Context(), ada, store.LogQuery{})
			if err != nil || len(page.Entries) != 2 || string(page.Entries[1].Body) != "once" {
				t.Errorf("the log has %v (%v)", page.Entries, err)
			}
			if r := commit(t, s, put(conv("after"), "")); r.Seq != 3 {
				t.Errorf("the next commit has the number %d", r.Seq)
			}
		})
	}
}

// A network that swallows the answer to a commit is noticed when the patience for
// the commit is over. The outcome is looked up all the same.
func TestAnOutcomeIsLookedUpLate(t *testing.T) {
	t.Parallel()
	const patience = 500 * time.Millisecond // far less than PostgreSQL's with a transaction that does nothing
	c, name := database(t)
	proxy := postgres.NewProxy(t, c)
	s := open(t, proxy.URL(postgres.App, name), quiet, func(o *Options) { o.Patience = patience })
	commit(t, s, put(conv("before"), "")) // after which the statement is prepared, and is the only word of the next
	s.hold = sync.OnceFunc(func() {
		time.Sleep(patience)
		proxy.Next(postgres.AfterWords)
	})
	if r := commit(t, s, put(conv("c"), "")); r.Seq != 2 {
		t.Errorf("receipt %+v", r)
	}
	if r := commit(t, s, put(conv("d"), "")); r.Seq != 3 {
		t.Errorf("the next commit has the number %d", r.Seq)
	}
}

// If the server does not come back, the outcome stays unknown, and the error says so.
func TestAnOutcomeThatStaysUnknown(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	proxy := postgres.NewProxy(t, c)
	s := open(t, proxy.URL(postgres.App, name), quiet, func(o *Options) { o.Patience = 50 * time.Millisecond })
	commit(t, s, put(conv("before"), ""))
	s.hold = sync.OnceFunc(func() {
		proxy.Next(postgres.AfterWords)
		proxy.Refuse(true)
	})
	_, err := s.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{put(conv("c"), "")}})
	wantCode(t, err, "commit_unknown")
	_, err = s.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{put(conv("d"), "")}})
	wantCode(t, err, "store_unreachable")
	proxy.Break()
	_, err = s.Get(t.Context(), ada, conv("c"))
	wantCode(t, err, "store_unreachable")
}
