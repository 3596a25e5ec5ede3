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
