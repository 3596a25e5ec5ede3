package events

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

// What the figures of docs/operations/benchmarks.md are made of: 1,000 subscribers, each
// of one of 100 conversations, so that each entry is for ten of them, while 32
// writers commit as fast as SQLite takes it, one entry at a time.
const (
	benchTalks   = 100
	benchTen     = 10
	benchWriters = 32
)

// bench is one run: who commits, and when which entry reached whom.
type bench struct {
	st        *sqlite.Store
	talks     []resource.URI
	committed []atomic.Int64 // by number of entry: when Commit returned
	reached   [][]arrival    // by subscriber; each his own
	wanted    []atomic.Int64 // by conversation: entries that were written
}

type arrival struct {
	seq uint64
	at  int64
}

// BenchmarkDelivery is the log alone, what a bare loop of our own would make
// of it (one reader, a map, a channel for each subscriber: no policy, no
// cursors, and whoever is slow stops all), and the engine.
func BenchmarkDelivery(b *testing.B) {
	for _, c := range []struct {
		name   string
		follow func(*testing.B, *bench, context.Context, *sync.WaitGroup)
	}{{"log", nil}, {"bare", followBare}, {"events", followEvents}} {
		b.Run(c.name, func(b *testing.B) {
			st, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "steward.db")})
			if err != nil {
				b.Fatal(err)
			}
			defer st.Close()
			x := &bench{st: st, committed: make([]atomic.Int64, b.N+2), reached: make([][]arrival, benchTalks*benchTen), wanted: make([]atomic.Int64, benchTalks)}
			for range benchTalks {
				x.talks = append(x.talks, record.ConversationURI(id.New()))
			}
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			var all sync.WaitGroup
			if c.follow != nil {
				c.follow(b, x, ctx, &all)
			}
			b.ResetTimer()
			x.write(b)
			took := b.Elapsed()
			if c.follow != nil {
				x.await(b, cancel, &all)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/took.Seconds(), "entries/s")
			x.report(b)
		})
	}
}

func (x *bench) write(b *testing.B) {
	var next atomic.Int64
	var wg sync.WaitGroup
	sc := store.ForUser("ana")
	body := []byte(`{"role":"assistant","blocks":[{"type":"text","text":"What an entry of a usual size holds is a sentence or two of text."}]}`)
	for range benchWriters {
		wg.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= b.N {
					return
				}
				talk := n % benchTalks
				r, err := x.st.Commit(context.Background(), sc, store.Batch{Changes: []store.Change{{URI: x.talks[talk].ChildID(record.TypeMessage, id.New()), Body: body}}})
				if err != nil {
					b.Error(err)
					return
				}
				x.committed[r.Seq].Store(time.Now().UnixNano())
				x.wanted[talk].Add(1)
			}
		})
	}
	wg.Wait()
}

// await ends the subscribers when all has reached them.
func (x *bench) await(b *testing.B, cancel func(), all *sync.WaitGroup) {
	last := time.Now()
	all.Wait() // each ends when he has all
	b.ReportMetric(time.Since(last).Seconds()*1000, "ms-behind")
	cancel()
	for i, list := range x.reached {
		if int64(len(list)) != x.wanted[i/benchTen].Load() {
			b.Fatalf("subscriber %d was told %d of %d", i, len(list), x.wanted[i/benchTen].Load())
		}
		if !slices.IsSortedFunc(list, func(a, b arrival) int { return int(a.seq) - int(b.seq) }) {
			b.Fatalf("subscriber %d was told in another order", i)
		}
	}
}

// report prints the delay from the commit to the delivery.
func (x *bench) report(b *testing.B) {
	var delays []int64
	for _, list := range x.reached {
		for _, a := range list {
			delays = append(delays, max(0, a.at-x.committed[a.seq].Load()))
		}
	}
	if len(delays) == 0 {
		return
	}
	slices.Sort(delays)
	b.ReportMetric(float64(delays[len(delays)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(delays[len(delays)*99/100])/1e6, "p99-ms")
	b.ReportMetric(float64(delays[len(delays)-1])/1e6, "max-ms")
}

// share is how many of n entries are for a conversation.
func share(n, talk int) int { return (n + benchTalks - 1 - talk) / benchTalks }

func followEvents(b *testing.B, x *bench, ctx context.Context, all *sync.WaitGroup) {
	w := newWorld(b, Options{Follow: over(x.st, 0, 0)})
	var ready sync.WaitGroup
	for i := range x.reached {
		ready.Add(1)
		all.Go(func() {
			f := Filter{Prefixes: []resource.URI{x.talks[i/benchTen]}}
			begun, most := false, share(b.N, i/benchTen)
			for batch, err := range w.Subscribe(ctx, Caller{User: "ana"}, f, Now) {
				if err != nil {
					b.Error(err)
				}
				if !begun {
					begun = true
					ready.Done()
				}
				now := time.Now().UnixNano()
				for j := range batch.Events {
					x.reached[i] = append(x.reached[i], arrival{batch.Events[j].Seq, now})
				}
				if len(x.reached[i]) >= most {
					return
				}
			}
		})
	}
	ready.Wait()
}

func followBare(b *testing.B, x *bench, ctx context.Context, all *sync.WaitGroup) {
	to := map[resource.URI][]chan resource.Entry{}
	for i := range x.reached {
		ch := make(chan resource.Entry, 4096)
		to[x.talks[i/benchTen]] = append(to[x.talks[i/benchTen]], ch)
		all.Go(func() {
			for most := share(b.N, i/benchTen); len(x.reached[i]) < most; {
				e := <-ch
				x.reached[i] = append(x.reached[i], arrival{e.Seq, time.Now().UnixNano()})
			}
		})
	}
	go func() {
		var at uint64
		q := store.LogQuery{Limit: 500}
		for {
			if _, err := x.st.Wait(ctx, at); err != nil {
				return
			}
			page, err := x.st.Log(ctx, store.ForNode(""), q)
			if err != nil {
				return
			}
			for _, e := range page.Entries {
				for _, ch := range to[e.URI.Parent()] {
					ch <- e
				}
				at = e.Seq
			}
			q.After = page.Next
		}
	}()
}
