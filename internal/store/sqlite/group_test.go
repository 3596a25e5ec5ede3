package sqlite

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/storetest"
)

// group hands batches to the writer as one group, in this order, and returns
// them done.
func group(s *Store, sc store.Scope, batches ...store.Batch) []*pendingCommit {
	jobs := make([]*pendingCommit, len(batches))
	for i, b := range batches {
		jobs[i] = &pendingCommit{scope: sc, batch: b, done: make(chan struct{})}
	}
	w := s.writer
	w.mu.Lock()
	w.queue = append(w.queue, jobs...)
	w.mu.Unlock()
	w.nudge()
	for _, j := range jobs {
		<-j.done
	}
	return jobs
}

func batch(changes ...store.Change) store.Batch { return store.Batch{Changes: changes} }

// A group does what its batches would do one after the other.
func TestGroupLikeSingles(t *testing.T) {
	s := open1(t, dbPath(t))
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		sc := store.ForUser(fmt.Sprint(round))
		root := conv(fmt.Sprint(round))
		uris := []resource.URI{root, root.Child("a.B", "1"), root.Child("a.B", "2"), root.Child("a.B", "1").Child("c.D", "3")}
		uri := rapid.SampledFrom(uris)
		word := rapid.SampledFrom([]string{"", "x", "y"})
		change := rapid.Custom(func(t *rapid.T) store.Change {
			c := store.Change{URI: uri.Draw(t, "uri"), Op: rapid.SampledFrom([]store.Op{store.Put, store.Put, store.Delete, store.Unlist}).Draw(t, "op")}
			if rapid.IntRange(0, 3).Draw(t, "if") == 0 {
				c.If.Version = rapid.Uint64Range(1, 5).Draw(t, "version")
			}
			if c.Op == store.Put {
				c.Body, c.State = []byte(word.Draw(t, "body")), word.Draw(t, "state")
				c.Terms = []store.Term{{Name: "k", Value: word.Draw(t, "term")}}
			}
			if c.Op != store.Delete {
				c.Place = &store.Place{List: root, Pos: rapid.Int64Range(0, 2).Draw(t, "pos")}
			}
			return c
		})
		model := storetest.NewModel()
		for range rapid.IntRange(1, 4).Draw(t, "groups") {
			var batches []store.Batch
			for range rapid.IntRange(1, 6).Draw(t, "batches") {
				batches = append(batches, batch(rapid.SliceOfN(change, 0, 3).Draw(t, "changes")...))
			}
			for i, j := range group(s, sc, batches...) {
				want, err := model.Commit(context.Background(), sc, batches[i])
				if fault.Of(j.err) == nil != (err == nil) || err == nil && !reflect.DeepEqual(j.receipt.Versions, want.Versions) {
					t.Fatalf("batch %d: got %+v, %v, want %+v, %v", i, j.receipt, j.err, want, err)
				}
			}
		}
		for _, q := range []store.Query{{}, {List: root}, {State: "x"}, {Term: store.Term{Name: "k", Value: "y"}}} {
			got, want := items(t, s, sc, q), items(t, model, sc, q)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("query %+v gives %v, want %v", q, got, want)
			}
		}
	})
}

// items makes a query's answer comparable between stores.
func items(t *rapid.T, st store.Store, sc store.Scope, q store.Query) []string {
	var out []string
	for it, err := range store.Items(context.Background(), st, sc, q) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(it.URI, it.Version, it.State, string(it.Body), it.Pos))
	}
	return out
}

// breakOn makes SQLite fail when a body is written to the log.
func breakOn(t *testing.T, s *Store, body, how string) {
	t.Helper()
	err := s.writer.c.exec(fmt.Sprintf(`CREATE TEMP TRIGGER breaks BEFORE INSERT ON log WHEN new.body = CAST('%s' AS BLOB)
		BEGIN SELECT RAISE(%s, 'broken on purpose'); END`, body, how))
	if err != nil {
		t.Fatal(err)
	}
}

// A batch on which SQLite fails takes no other with it, and leaves nothing.
func TestGroupWithFailure(t *testing.T) {
	for _, how := range []string{"ABORT", "FAIL", "ROLLBACK"} {
		t.Run(how, func(t *testing.T) {
			path := dbPath(t)
			s := open1(t, path)
			commit(t, s, put(conv("old"), "1"))
			breakOn(t, s, "bad", how)
			jobs := group(s, ada,
				batch(put(conv("a"), "good"), put(conv("old"), "2")),
				batch(put(conv("b"), "good"), put(conv("b2"), "bad"), store.Change{URI: conv("x"), State: "new word"}),
				batch(store.Change{URI: conv("old"), If: store.If{Version: 1}}),
				batch(store.Change{URI: conv("c"), State: "newer word", Place: &store.Place{List: conv("new list"), Pos: 1}}),
			)
			for i, want := range []string{"", "store_broken", "conflict", ""} {
				if j := jobs[i]; want == "" && j.err != nil || want != "" && !fault.HasCode(j.err, want) {
					t.Errorf("batch %d: %v, want %q", i, j.err, want)
				}
			}
			if jobs[0].receipt.Seq != 3 || jobs[3].receipt.Seq != 4 || jobs[1].receipt.Seq != 0 {
				t.Errorf("receipts %+v, %+v, %+v", jobs[0].receipt, jobs[1].receipt, jobs[3].receipt)
			}
			_, err := s.Commit(t.Context(), ada, batch(put(conv("d"), "bad")))
			wantCode(t, err, "store_broken")
			if head, err := s.Wait(t.Context(), 0); err != nil || head != 4 {
				t.Errorf("head %d, %v", head, err)
			}
			commit(t, s, store.Change{URI: conv("e"), State: "new word", Place: &store.Place{List: conv("new list"), Pos: 2}})
			want := "[a c e old]"
			check := func(s *Store) {
				t.Helper()
				log, tree := contents(t, s)
				var names []string
				for _, it := range tree {
					names = append(names, it.URI.ID())
				}
				if fmt.Sprint(names) != want || len(log) != 5 || log[4].Seq != 5 {
					t.Errorf("there is %v and %v", names, log)
				}
				p, err := s.Query(t.Context(), ada, store.Query{List: conv("new list")})
				if err != nil || len(p.Items) != 2 {
					t.Errorf("the list has %v, %v", p.Items, err)
				}
				if p, err := s.Query(t.Context(), ada, store.Query{State: "new word"}); err != nil || len(p.Items) != 1 {
					t.Errorf("in the state are %v, %v", p.Items, err)
				}
			}
			check(s)
			close1(t, s)
			check(open1(t, path))
		})
	}
}

// A caller that gives up while its batch still waits can rely on its not
// being carried out; one whose batch is in work gets the true outcome.
func TestCancelledWhileWaiting(t *testing.T) {
	path := dbPath(t)
	s := open1(t, path)
	other := must(openConn(path, 0x2))
	if err := other.exec("BEGIN IMMEDIATE"); err != nil { // the writer has to wait
		t.Fatal(err)
	}
	first := &pendingCommit{scope: ada, batch: batch(put(conv("taken"), "")), done: make(chan struct{})}
	if err := s.enqueue(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	for first.state.Load() != taken {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := s.Commit(ctx, ada, batch(put(conv("withdrawn"), "")))
		answer <- err
	}()
	for queued := 0; queued == 0; runtime.Gosched() {
		s.writer.mu.Lock()
		queued = len(s.writer.queue)
		s.writer.mu.Unlock()
	}
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("withdrawn: %v", err)
	}
	if err := errors.Join(other.exec("ROLLBACK"), other.close()); err != nil {
		t.Fatal(err)
	}
	if <-first.done; first.err != nil {
		t.Errorf("taken: %v", first.err)
	}
	commit(t, s) // the withdrawn one has been passed over by now
	if _, tree := contents(t, s); len(tree) != 1 || tree[0].URI != conv("taken") {
		t.Errorf("there is %v", tree)
	}
}

// A clock that jumps back repeats the last time.
func TestClockJumpsBack(t *testing.T) {
	path := dbPath(t)
	s := open1(t, path)
	first := commit(t, s, put(conv("c"), ""))
	s.writer.p.begin(first.At.Add(time.Hour))
	ahead := commit(t, s, put(conv("c"), ""))
	if !ahead.At.Equal(first.At.Add(time.Hour)) {
		t.Errorf("stamped %v", ahead.At)
	}
	if again := commit(t, s, put(conv("c"), "")); !again.At.Equal(ahead.At) {
		t.Errorf("stamped %v behind %v", again.At, ahead.At)
	}
	close1(t, s)
	s = open1(t, path)
	if again := commit(t, s, put(conv("c"), "")); !again.At.Equal(ahead.At) {
		t.Errorf("reopened: stamped %v behind %v", again.At, ahead.At)
	}
}
