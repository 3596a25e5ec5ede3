package llm

import (
	"context"
	"iter"
	"math"
	"runtime/debug"
	"time"
)

// A node reads only a few large replies at a time, because each of them takes many times its size
// in memory until it is stored and delivered.
const (
	largeReply   = 1 << 20 // bytes
	largeReplies = 2
	calmAfter    = 30 * time.Second // memory is returned to the system after this long without a large reply
)

// places are the slots for the large replies of a node.
type places struct {
	taken chan struct{}
	calm  *time.Timer
}

func newPlaces() *places {
	return &places{make(chan struct{}, largeReplies), time.AfterFunc(math.MaxInt64, debug.FreeOSMemory)}
}

func (p *places) leave() {
	<-p.taken
	p.calm.Reset(calmAfter)
}

// large is a model whose large replies wait for a slot.
type large struct {
	next   Model
	places *places
}

// share is the memory that one reply uses. It is not safe for concurrent use.
type share struct {
	places *places
	bytes  int
	placed bool
}

type shareKey struct{}

// Stream implements Model.
func (m *large) Stream(ctx context.Context, r *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s := &share{places: m.places}
		defer func() {
			if s.placed {
				s.places.leave()
			}
		}()
		ctx := context.WithValue(ctx, shareKey{}, s)
		for ev, err := range m.next.Stream(ctx, r) {
			if err == nil && Hold(ctx, len(ev.Text)) != nil {
				err = stopped(ctx, nil)
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Hold counts bytes that are held for the reply of the request whose context ctx is. Once a reply
// is large, Hold waits for a slot, or for the end of ctx.
func Hold(ctx context.Context, n int) error {
	s, _ := ctx.Value(shareKey{}).(*share)
	if s == nil || s.placed {
		return nil
	}
	if s.bytes += n; s.bytes < largeReply {
		return nil
	}
	select {
	case s.places.taken <- struct{}{}:
		s.placed = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
