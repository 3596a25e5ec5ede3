package llm

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"steward/internal/fault"
)

// lasting is a model whose replies are large, or small, and end when told.
type lasting struct {
	size int
	end  chan struct{}
}

func (m lasting) Stream(context.Context, *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if yield(Event{Kind: TextDelta, Text: strings.Repeat("x", m.size)}, nil) {
			<-m.end
			yield(Event{Kind: Done, Reply: &Reply{}}, nil)
		}
	}
}

func TestAFewLargeRepliesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places, end := newPlaces(), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var begun, ended, failed atomic.Int32
		read := func(ctx context.Context, size int) {
			for ev, err := range (&large{lasting{size, end}, places}).Stream(ctx, nil) {
				switch {
				case fault.Is(err, fault.Cancelled):
					failed.Add(1)
				case err != nil:
					t.Error(err)
				case ev.Kind == Done:
					ended.Add(1)
				default:
					begun.Add(1)
				}
			}
		}
		for range largeReplies + 2 {
			go read(t.Context(), largeReply)
		}
		synctest.Wait()
		go read(ctx, largeReply) // waits too, until it is stopped
		go read(ctx, largeReply-1)
		synctest.Wait()
		if n := begun.Load(); n != largeReplies+1 {
			t.Errorf("%d replies have come", n)
		}
		cancel()
		synctest.Wait()
		if n := failed.Load(); n != 1 {
			t.Errorf("%d replies were stopped", n)
		}
		close(end)
		synctest.Wait()
		if n := ended.Load(); n != largeReplies+3 || len(places.taken) != 0 {
			t.Errorf("%d replies have ended, %d places are taken", n, len(places.taken))
		}
	})
}
