package follow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/lifetime/telemetry"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/leak"
	_ "steward/test/seed"
	"steward/test/storetest"
)

func TestMain(m *testing.M) { leak.Main(m) }

func anas(context.Context) ([]resource.Space, error) { return []resource.Space{"user:ana"}, nil }

func put(t testing.TB, st store.Store, user string, uris ...resource.URI) uint64 {
	t.Helper()
	var b store.Batch
	for _, u := range uris {
		b.Changes = append(b.Changes, store.Change{URI: u, Body: []byte(`"x"`)})
	}
	r, err := st.Commit(context.Background(), store.ForUser(user), b)
	if err != nil {
		t.Fatal(err)
	}
	return r.Seq
}

func at(path ...string) resource.URI {
	u := resource.Root("a.A", path[0])
	for _, p := range path[1:] {
		u = u.Child("b.B", p)
	}
	return u
}

// The lag of a Log is that of its reader, and there is none without subscribers.
func TestLag(t *testing.T) {
	st := storetest.NewModel()
	newest := uint64(0)
	x := telemetry.New("test", nil)
	l := New(Options{Store: st, Lag: x.Follow("events", func() uint64 { return newest + 7 })})
	defer l.Close()
	lag := func(want int) {
		t.Helper()
		w := httptest.NewRecorder()
		x.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if line := fmt.Sprintf("steward_follower_lag_entries{follower=\"events\"} %d\n", want); !strings.Contains(w.Body.String(), line) {
			t.Errorf("%s is missing in\n%s", line, w.Body.String())
		}
	}
	newest = put(t, st, "ana", at("1"))
	lag(0)
	for b, err := range l.Subscribe(t.Context(), Filter{Spaces: anas}, Start) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Caught && newest == 1 {
			newest = put(t, st, "ana", at("2"))
			continue
		}
		if newest == 2 && slices.ContainsFunc(b.Entries, func(e *Entry) bool { return e.Seq == newest }) {
			lag(7)
			break
		}
	}
	lag(0)
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		name     string
		want     bool
	}{
		{nil, "a.A", true}, {[]string{"a.A"}, "a.A", true}, {[]string{"a.A"}, "a.AB", false}, {[]string{"b.B", "a.*"}, "a.AB", true},
		{[]string{"*"}, "", true}, {[]string{"a*"}, "b", false}, {[]string{""}, "a", false},
	} {
		if got := Match(c.patterns, c.name); got != c.want {
			t.Errorf("%q, %q: %v", c.patterns, c.name, got)
		}
	}
}

// What waits is bounded, in entries and in bytes; what did not fit is read in
// the log, from behind what is in the queue.
func TestQueue(t *testing.T) {
	page := func(w *queue, size int, seqs ...uint64) {
		for _, n := range seqs {
			w.add(&Entry{Entry: resource.Entry{Seq: n, Body: make([]byte, size)}})
		}
	}
	next := func(w *queue, most int, pos, at uint64, late bool, want ...uint64) {
		t.Helper()
		list, got, now := w.take(most, pos)
		var seqs []uint64
		for _, e := range list {
			seqs = append(seqs, e.Seq)
		}
		if !slices.Equal(seqs, want) || got != at || now.late != late || now.err != nil {
			t.Errorf("%v, %d, %+v; want %v, %d, %v", seqs, got, now, want, at, late)
		}
	}
	w := &queue{most: 3}
	next(w, 5, 7, 7, false)
	page(w, 5, 12, 14)
	next(w, 1, 20, 12, false, 12)
	if w.bytes != 5 {
		t.Errorf("%d bytes wait", w.bytes)
	}
	next(w, 5, 20, 20, false, 14)
	page(w, 5, 22, 23)
	page(w, 5, 31, 32) // the second one does not fit
	page(w, 5, 41)     // comes too late
	next(w, 1, 50, 22, false, 22)
	next(w, 5, 50, 31, true, 23, 31)
	w = &queue{most: 100}
	page(w, maxBytes, 1)
	page(w, 1, 2)
	next(w, 9, 5, 1, true, 1)
}

// One reader serves all, and ends with the last subscriber.
func TestOneReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := storetest.NewModel()
		defer st.Close()
		l := New(Options{Store: st})
		defer l.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var mu sync.Mutex
		got := 0
		for range 50 {
			all.Go(func() {
				for b, err := range l.Subscribe(ctx, Filter{Spaces: anas}, Now) {
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					got += len(b.Entries)
					mu.Unlock()
				}
			})
		}
		synctest.Wait()
		r := l.live
		put(t, st, "ana", at("1"), at("2"))
		put(t, st, "bob", at("3"))
		synctest.Wait()
		if got != 100 || l.live != r || len(r.queues) != 50 {
			t.Errorf("%d entries, %d subscribers", got, len(r.queues))
		}
		cancel()
		all.Wait()
		synctest.Wait()
		if l.live != nil || len(r.index) != 0 {
			t.Error("the log is still read")
		}
	})
}

// Who begins late, where he may read something else now, or is slow, misses
// nothing: each gets what the log has for him, whatever he filters.
func TestDeliveriesMatchTheLog(t *testing.T) {
	places := []resource.URI{{}, at("1"), at("1", "2"), at("1", "2", "3"), at("2")}
	rapid.Check(t, func(rt *rapid.T) {
		st := storetest.NewModel()
		defer st.Close()
		// An entry of the type c.C is about another place, too.
		about := func(e *resource.Entry) []resource.URI {
			if e.URI.Type() != "c.C" {
				return nil
			}
			return []resource.URI{places[int(e.URI.ID()[0]-'0')]}
		}
		l := New(Options{Store: st, About: about, Queue: rapid.SampledFrom([]int{1, 3, 100}).Draw(rt, "queue"), Size: rapid.SampledFrom([]int{1, 4, 256}).Draw(rt, "size")})
		defer l.Close()
		seed := rapid.Uint64().Draw(rt, "seed")
		filters := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) Filter {
			return Filter{Spaces: anas, Recheck: time.Millisecond, Own: rapid.Bool().Draw(rt, "own"), Prefixes: rapid.SliceOfN(rapid.SampledFrom(places), 0, 3).Draw(rt, "prefixes"),
				Types: rapid.SampledFrom([][]string{nil, {"a.A"}, {"b.*", "x"}, {"c.C"}}).Draw(rt, "types")}
		}), 1, 5).Draw(rt, "filters")
		var end atomic.Uint64
		var all sync.WaitGroup
		got := make([][]uint64, len(filters))
		for i, f := range filters {
			all.Go(func() { got[i] = collect(l, f, rand.New(rand.NewPCG(seed, uint64(i))), &end) })
		}
		r := rand.New(rand.NewPCG(seed, 99))
		for range r.IntN(60) {
			user := []string{"ana", "ana", "bob"}[r.IntN(3)]
			u := places[1+r.IntN(4)].Child("b.B", user)
			if r.IntN(3) == 0 {
				u = resource.Root("b.B", user).Child("c.C", fmt.Sprint(r.IntN(5), ".", r.IntN(3)))
			}
			put(t, st, user, u)
		}
		end.Store(put(t, st, "ana", resource.Root("z.End", "1")))
		all.Wait()
		for i, f := range filters {
			var want []uint64
			for e, err := range store.Entries(t.Context(), st, store.ForUser("ana"), store.LogQuery{}) {
				if err != nil {
					rt.Fatal(err)
				}
				if f.fits(l.about(&e)) {
					want = append(want, e.Seq)
				}
			}
			if !slices.Equal(got[i], want) {
				rt.Fatalf("%+v was handed %v, want %v", f, got[i], want)
			}
		}
	})
}

// collect reads from the start to the end, breaking off and coming back.
func collect(l *Log, f Filter, r *rand.Rand, end *atomic.Uint64) (got []uint64) {
	for from := Start; ; {
		left := 1 + r.IntN(4)
		for b, err := range l.Subscribe(context.Background(), f, from) {
			if err != nil {
				panic(err)
			}
			for _, e := range b.Entries {
				got = append(got, e.Seq)
			}
			from = b.Cursor
			pos, err := from.Position()
			if err != nil {
				panic(err)
			}
			if last := end.Load(); last > 0 && pos >= last {
				return got
			}
			if left--; left == 0 {
				break
			}
		}
	}
}

// The spaces are asked for again before anything is handed on.
func TestSpacesThatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := storetest.NewModel()
		defer st.Close()
		l := New(Options{Store: st})
		defer l.Close()
		var mu sync.Mutex
		list, failed := []resource.Space{"user:ana", "user:bob"}, error(nil)
		f := Filter{Recheck: time.Second, Spaces: func(context.Context) ([]resource.Space, error) {
			mu.Lock()
			defer mu.Unlock()
			return list, failed
		}}
		set := func(spaces []resource.Space, err error) {
			mu.Lock()
			defer mu.Unlock()
			list, failed = spaces, err
		}
		got := make(chan resource.Space, 100)
		ended := make(chan error)
		go func() {
			for b, err := range l.Subscribe(context.Background(), f, Now) {
				if err != nil {
					ended <- err
					return
				}
				for _, e := range b.Entries {
					got <- e.Space
				}
			}
		}()
		synctest.Wait()
		set([]resource.Space{"user:bob", "user:eve"}, nil)
		put(t, st, "ana", at("1"))
		put(t, st, "bob", at("2"))
		put(t, st, "eve", at("3"))
		for _, want := range []resource.Space{"user:bob", "user:eve"} {
			if sp := <-got; sp != want {
				t.Errorf("%s, want %s", sp, want)
			}
		}
		set(nil, errors.New("gone"))
		if err := <-ended; fault.Of(err).Details["cursor"] != string(Behind(3)) {
			t.Error(err)
		}
	})
}

// A projection is brought up to date when the log rests, when it is far behind,
// when somebody needs it, and never while nothing happens.
func TestProject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := storetest.NewModel()
		ctx, cancel := context.WithCancel(t.Context())
		began, caught := time.Now(), []time.Duration(nil)
		hurry := make(chan struct{}, 1)
		var end sync.WaitGroup
		end.Go(func() {
			Project(ctx, st, Projection{Quiet: 5 * time.Second, Backlog: 16, Hurry: hurry, CatchUp: func(context.Context) error {
				caught = append(caught, time.Since(began))
				return nil
			}})
		})
		for i := range 4 { // at 0, 3, 6 and 9 seconds
			put(t, st, "ana", at(fmt.Sprint(i)))
			time.Sleep(3 * time.Second)
		}
		time.Sleep(time.Hour) // nothing happens
		put(t, st, "ana", at("more"))
		hurry <- struct{}{}
		synctest.Wait()
		if len(caught) != 2 || caught[0] < 10*time.Second || caught[0] > 20*time.Second || caught[1] != time.Hour+12*time.Second {
			t.Errorf("caught up after %v", caught)
		}
		for i := range 20 { // it never rests
			put(t, st, "ana", at(fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(caught) != 3 {
			t.Errorf("caught up after %v", caught)
		}
		time.Sleep(time.Minute)
		before := len(caught)
		for i := range 150 { // it neither rests nor grows fast, for ten minutes
			put(t, st, "ana", at(fmt.Sprint(i)))
			time.Sleep(4 * time.Second)
		}
		synctest.Wait()
		if n := len(caught) - before; n < 9 || n > 10 {
			t.Errorf("caught up %d times in ten minutes, after %v", n, caught)
		}
		cancel()
		end.Wait()
	})
}
