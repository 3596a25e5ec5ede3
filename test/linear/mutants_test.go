//go:build long

package linear

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/turn"
	"steward/test/storetest"
)

// forgetful is a node that omits every seventh sent message.
type forgetful struct {
	*runtime.Node
	mu   sync.Mutex
	sent int
	lost []id.ID
}

func (f *forgetful) Send(ctx context.Context, user string, t turn.Input) (turn.Accepted, error) {
	acc, err := f.Node.Send(ctx, user, t)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sent++; f.sent%7 == 0 && err == nil {
		f.lost = append(f.lost, acc.Message)
	}
	return acc, err
}

func (f *forgetful) Messages(ctx context.Context, user string, conv id.ID, after store.Cursor, limit int) ([]conversation.Entry, store.Cursor, error) {
	page, next, err := f.Node.Conversations.Messages(ctx, store.ForUser(user), conv, after, limit, false)
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(page, func(e conversation.Entry) bool { return slices.Contains(f.lost, e.ID) }), next, err
}

// stale is a node that answers every third read with the previous result.
type stale struct {
	*runtime.Node
	mu   sync.Mutex
	read int
	page []conversation.Entry
}

func (s *stale) Messages(ctx context.Context, user string, conv id.ID, after store.Cursor, limit int) ([]conversation.Entry, store.Cursor, error) {
	page, next, err := s.Node.Conversations.Messages(ctx, store.ForUser(user), conv, after, limit, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read++; s.read%3 == 0 {
		return s.page, next, err
	}
	s.page = page
	return page, next, err
}

// shuffled is a node that swaps two of the user's messages.
type shuffled struct{ *runtime.Node }

func (s shuffled) Messages(ctx context.Context, user string, conv id.ID, after store.Cursor, limit int) ([]conversation.Entry, store.Cursor, error) {
	page, next, err := s.Node.Conversations.Messages(ctx, store.ForUser(user), conv, after, limit, false)
	var said []int
	for i, e := range page {
		if e.Role == message.User {
			said = append(said, i)
		}
	}
	if n := len(said); n > 1 {
		page[said[n-1]], page[said[n-2]] = page[said[n-2]], page[said[n-1]]
	}
	return page, next, err
}

// lazy is a node that claims to mark a message but does not.
type lazy struct{ reading }

func (lazy) Mark(context.Context, string, id.ID, conversation.Verdict, ...id.ID) (int, error) {
	return 0, nil
}

// stubborn is a node that does not switch branches.
type stubborn struct{ reading }

func (stubborn) Switch(context.Context, string, id.ID, string) error { return nil }

// A checker that accepts everything is worthless. This test shows that it finds
// the faults of these nodes.
func TestMutantsAreCaught(t *testing.T) {
	mutants := map[string]func(*runtime.Node) node{
		"forgetful": func(n *runtime.Node) node { return &forgetful{Node: n} },
		"stale":     func(n *runtime.Node) node { return &stale{Node: n} },
		"shuffled":  func(n *runtime.Node) node { return shuffled{n} },
		"lazy":      func(n *runtime.Node) node { return lazy{reading{n}} },
		"stubborn":  func(n *runtime.Node) node { return stubborn{reading{n}} },
	}
	for _, name := range slices.Sorted(maps.Keys(mutants)) {
		t.Run(name, func(t *testing.T) {
			seed := uint64(len(name)) + uint64(strings.Count(name, "a"))
			h, first := run(t, storetest.NewModel(), seed, few, mutants[name])
			if got := h.check(first); got != porcupine.Illegal {
				t.Errorf("seed %d: the checker says %s", seed, got)
			}
		})
	}
}
