package contract

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// Writers measures how fast 1, 16 and 64 writers commit, for every store the same
// way. A commit is one message of 300 bytes, with its place in the list of a
// conversation of the writer's own, as a chat writes it. Reported are commits a
// second, and the time of a commit: the median and the 99th percentile.
func Writers(b *testing.B, s store.Store) {
	body := bytes.Repeat([]byte("0123456789"), 30)
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			var next atomic.Int64
			took := make([][]time.Duration, writers)
			var all sync.WaitGroup
			b.ResetTimer()
			begun := time.Now()
			for w := range writers {
				all.Go(func() {
					conversation := resource.Root("common.Conversation", id.New().String())
					for pos := int64(0); next.Add(1) <= int64(b.N); pos++ {
						started := time.Now()
						_, err := s.Commit(b.Context(), ada, store.Batch{Request: id.New(), Changes: []store.Change{{
							URI: conversation.ChildID("common.Message", id.New()), If: store.If{Absent: true}, Body: body,
							Place: &store.Place{List: conversation, Pos: pos},
						}}})
						if err != nil {
							b.Error(err)
							return
						}
						took[w] = append(took[w], time.Since(started))
					}
				})
			}
			all.Wait()
			elapsed := time.Since(begun)
			times := slices.Sorted(slices.Values(slices.Concat(took...)))
			b.ReportMetric(float64(len(times))/elapsed.Seconds(), "commits/s")
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// Messages measures 100,000 messages of 300 bytes in ten conversations: how long it
// takes to write them, 100 in a commit, to read the newest 50 of a conversation, and
// to read a whole conversation from a store that was just opened; and how much room
// they take.
func Messages(b *testing.B, open func(readOnly bool) store.Store, size func() int64) {
	const all, lists, each = 100_000, 10, 100
	s := open(false)
	body := bytes.Repeat([]byte("0123456789"), 30)
	conversations := make([]resource.URI, lists)
	for i := range conversations {
		conversations[i] = resource.Root("common.Conversation", id.New().String())
	}
	empty := size()
	begun := time.Now()
	for n := 0; n < all; n += each {
		c := conversations[n/each%lists]
		changes := make([]store.Change, each)
		for i := range changes {
			changes[i] = store.Change{URI: c.ChildID("common.Message", id.New()), If: store.If{Absent: true}, Body: body, Place: &store.Place{List: c, Pos: int64(n + i)}}
		}
		if _, err := s.Commit(b.Context(), ada, store.Batch{Request: id.New(), Changes: changes}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(time.Since(begun).Seconds(), "write-s")
	b.ReportMetric(float64(size()-empty)/(1<<20), "MB")
	var pages []time.Duration
	for i := range 500 {
		begun := time.Now()
		page, err := s.Query(b.Context(), ada, store.Query{List: conversations[i%lists], Reverse: true, Limit: 50})
		if err != nil || len(page.Items) != 50 {
			b.Fatal(len(page.Items), err)
		}
		pages = append(pages, time.Since(begun))
	}
	slices.Sort(pages)
	b.ReportMetric(float64(pages[250].Microseconds())/1000, "page-p50-ms")
	b.ReportMetric(float64(pages[475].Microseconds())/1000, "page-p95-ms")
	begun = time.Now()
	s = open(true)
	n := 0
	for _, err := range store.Items(b.Context(), s, ada, store.Query{List: conversations[0], Limit: store.MaxLimit}) {
		if n++; err != nil {
			b.Fatal(err)
		}
	}
	if n != all/lists {
		b.Fatal(n)
	}
	b.ReportMetric(float64(time.Since(begun).Microseconds())/1000, "open-ms")
	b.ReportMetric(0, "ns/op")
}
