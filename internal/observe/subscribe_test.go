package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/follow"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/store/storetest"
)

// late is a store whose answers to the user's log queries come late: hook
// runs before an answer is handed out.
type late struct {
	store.Store
	hook func()
}

func (l *late) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	page, err := l.Store.Log(ctx, sc, q)
	if hook := l.hook; hook != nil && !sc.All() {
		hook()
	}
	return page, err
}

// Who reads the log while the others are told more than he has read gets that
// from the log, too.
func TestJoiningLate(t *testing.T) {
	l := &late{}
	synctest.Test(t, func(t *testing.T) {
		l.Store = storetest.NewModel()
		h := hubOf(l, 0, 0)
		defer h.Close()
		n := newNotes(t, l)
		first := pull(t, h.Subscribe(t.Context(), ana, Filter{}, Now))
		defer first.stop()
		first.want(0)
		times := 0
		l.hook = func() {
			if times++; times <= 3 {
				n.say(2)
				time.Sleep(time.Second) // the first one has been told
			}
		}
		second := pull(t, h.Subscribe(t.Context(), ana, Filter{}, ""))
		defer second.stop()
		second.want(2)
		second.want(2)
		n.say(1)
		second.want(1)
		first.want(5)
	})
}

// counting counts what is asked of a store, and fails when it is told to.
type counting struct {
	store.Store
	mu    sync.Mutex
	logs  int
	waits int
	fail  error
}

func (c *counting) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	c.mu.Lock()
	c.logs++
	err := c.fail
	c.mu.Unlock()
	if err != nil {
		return store.LogPage{}, err
	}
	return c.Store.Log(ctx, sc, q)
}

func (c *counting) Wait(ctx context.Context, after uint64) (uint64, error) {
	c.mu.Lock()
	c.waits++
	c.mu.Unlock()
	return c.Store.Wait(ctx, after)
}

func (c *counting) breakDown(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

func (c *counting) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logs + c.waits
}

// Nobody observing, the log is not read; an idle observer asks for nothing;
// a hundred of them read it no oftener than one.
func TestCost(t *testing.T) {
	c := &counting{Store: storetest.NewModel()}
	bubble2(t, c, func(t *testing.T, h hub, n *notes) {
		n.say(10)
		time.Sleep(time.Minute)
		if c.asked() != 0 {
			t.Errorf("%d calls, and nobody observes", c.asked())
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var got atomic.Int64
		for range 100 {
			wg.Go(func() {
				for b, err := range h.Subscribe(ctx, ana, Filter{}, Now) {
					if err != nil {
						t.Error(err)
					}
					got.Add(int64(len(b.Changes)))
				}
			})
		}
		synctest.Wait()
		before := c.asked()
		time.Sleep(time.Hour)
		if c.asked() != before {
			t.Errorf("idle observers made %d calls", c.asked()-before)
		}
		n.say(1)
		time.Sleep(time.Second)
		if d := c.asked() - before; d > 4 || got.Load() != 100 {
			t.Errorf("one change led to %d calls, and %d were told", d, got.Load())
		}
		for i := range 10 { // what is compared with the version before, is looked up once at most
			if i == 1 {
				before = c.asked()
			}
			n.put(record.ConversationURI(n.conv), fmt.Sprintf(`{"title":"%d"}`, i))
			time.Sleep(time.Second)
		}
		if d := c.asked() - before; d > 3*9 || got.Load() != 1100 {
			t.Errorf("nine changes led to %d calls, and %d were told", d, got.Load())
		}
		cancel()
		wg.Wait()
		synctest.Wait()
		before = c.asked()
		n.say(10)
		time.Sleep(time.Minute)
		if c.asked() != before {
			t.Error("the log is followed, and nobody observes")
		}
	})
}

func bubble2(t *testing.T, c *counting, test func(t *testing.T, h hub, n *notes)) {
	synctest.Test(t, func(t *testing.T) {
		c.Store = storetest.NewModel() // of the bubble
		h := hubOf(c, 0, 0)
		defer h.Close()
		test(t, h, newNotes(t, c))
	})
}

// When the store fails, observers are told so, with where to go on; the next
// one begins anew.
func TestStoreFails(t *testing.T) {
	c := &counting{}
	bubble2(t, c, func(t *testing.T, h hub, n *notes) {
		broken := fault.New(fault.Unavailable, "disk_gone", "no disk")
		c.breakDown(broken)
		pull(t, h.Subscribe(t.Context(), ana, Filter{}, "")).fails("disk_gone")
		c.breakDown(nil)
		live := pull(t, h.Subscribe(t.Context(), ana, Filter{}, ""))
		at := live.want(0)
		c.breakDown(broken)
		n.say(1)
		if e := live.fails("disk_gone"); e.Details["cursor"] != string(at.Cursor) {
			t.Errorf("%v, want the cursor %s", e.Details, at.Cursor)
		}
		c.breakDown(nil)
		again := pull(t, h.Subscribe(t.Context(), ana, Filter{}, at.Cursor))
		again.want(1)
		n.say(1)
		again.want(1)
		again.stop()
		n.say(150)
		stops := pull(t, h.Subscribe(t.Context(), ana, Filter{}, ""))
		stops.want(100)
		c.breakDown(errors.New("odd"))
		stops.fails("internal")
	})
}

// A context that is done ends a subscription without an error, live or not.
func TestContext(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, h hub, n *notes) {
		ctx, cancel := context.WithCancel(t.Context())
		n.say(150)
		reading := pull(t, h.Subscribe(ctx, ana, Filter{}, ""))
		reading.want(100)
		live := pull(t, h.Subscribe(ctx, ana, Filter{}, Now))
		live.want(0)
		cancel()
		if _, err, more := live.next(); more {
			t.Error(err)
		}
		if _, err, more := reading.next(); more {
			t.Error(err)
		}
		for b, err := range h.Subscribe(ctx, ana, Filter{}, "") {
			t.Error(b, err)
		}
	})
}

// A subscription that is ranged over twice begins twice.
func TestTwice(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, h hub, n *notes) {
		n.say(3)
		seq := h.Subscribe(t.Context(), ana, Filter{}, "")
		for range 2 {
			p := pull(t, seq)
			p.want(3)
			p.stop()
		}
	})
}

func TestRefusals(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, h hub, n *notes) {
		n.say(3)
		many := make([]string, 1001)
		for i := range many {
			many[i] = "a"
		}
		for _, c := range []struct {
			name string
			sc   store.Scope
			f    Filter
			from Cursor
			code string
		}{
			{"no scope", store.Scope{}, Filter{}, "", "scope_missing"},
			{"no cursor", ana, Filter{}, "yesterday", "cursor_invalid"},
			{"a chat's cursor", ana, Filter{}, "3", "cursor_invalid"},
			{"another query's", ana, Filter{}, Cursor((&store.Query{}).Cursor(store.Position{Num: 1})), "cursor_invalid"},
			{"beyond the end", ana, Filter{}, follow.Behind(4), "cursor_invalid"},
			{"far beyond", ana, Filter{}, follow.Behind(1<<64 - 1), "cursor_invalid"},
			{"a broken glob", ana, Filter{Tools: []string{"[a"}}, "", "filter_invalid"},
			{"an empty glob", ana, Filter{Tools: []string{""}}, "", "filter_invalid"},
			{"no such kind", ana, Filter{Kinds: []string{"message_added", "message_add"}}, "", "filter_invalid"},
			{"a broken kind", ana, Filter{Kinds: []string{"[m"}}, "", "filter_invalid"},
			{"too much", ana, Filter{Tools: many}, "", "filter_invalid"},
		} {
			for _, err := range h.Subscribe(context.Background(), c.sc, c.f, c.from) {
				if !fault.HasCode(err, c.code) || fault.Of(err).Remedy == "" {
					t.Errorf("%s: %v, want %s", c.name, err, c.code)
				}
			}
		}
		p := pull(t, h.Subscribe(t.Context(), ana, Filter{}, follow.Behind(3)))
		p.want(0)
		p.stop()
	})
}

// A conversation of another user cannot be followed by naming it.
func TestForeignConversation(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, h hub, n *notes) {
		n.say(1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			n.say(1)
			time.Sleep(time.Second)
			cancel()
		}()
		for b, err := range h.Subscribe(ctx, store.ForUser("eve"), Filter{Conversations: []id.ID{n.conv}}, "") {
			if err != nil || len(b.Changes) > 0 {
				t.Error(b, err)
			}
		}
	})
}
