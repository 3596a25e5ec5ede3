package events

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
	"steward/test/leak"
	"steward/test/storetest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// people is a directory that can be changed.
type people struct {
	mu    sync.Mutex
	known map[string]policy.Principal
	shut  map[string]bool
}

func (p *people) Principal(_ context.Context, user string) (policy.Principal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut[user] {
		return policy.Principal{}, fault.New(fault.Denied, "user_disabled", "the user %s is disabled", user)
	}
	who := p.known[user]
	who.User = user
	return who, nil
}

func (p *people) set(user string, roles, groups []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = map[string]policy.Principal{}
	}
	p.known[user] = policy.Principal{Roles: roles, Groups: groups}
}

func (p *people) disable(user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut == nil {
		p.shut = map[string]bool{}
	}
	p.shut[user] = true
}

// judge allows all but what a test wants otherwise.
type judge func(q policy.Question) (policy.Decision, error)

func (j judge) Authorize(_ context.Context, q policy.Question) (policy.Decision, error) {
	if q.Point != policy.PointAccess {
		return policy.Decision{}, fmt.Errorf("asked at %s", q.Point)
	}
	if j == nil {
		return policy.Decision{Verdict: policy.Allow}, nil
	}
	return j(q)
}

// world is a store, who there is, and an engine over them.
type world struct {
	t  testing.TB
	st store.Store
	*Engine
	people *people
}

func newWorld(t testing.TB, o Options) *world {
	t.Helper()
	if o.Follow == nil {
		o.Follow = over(storetest.NewModel(), 0, 0)
	}
	w := &world{t: t, st: o.Follow.Store(), people: &people{}}
	w.people.set("ana", []string{policy.RoleMember}, []string{"team"})
	w.people.set("bob", []string{policy.RoleMember}, []string{"team"})
	w.people.set("root", []string{policy.RoleAdmin}, nil)
	w.people.set("bot", []string{policy.RoleService}, nil)
	o.Directory, o.Log = w.people, slog.New(slog.DiscardHandler)
	if o.Authorizer == nil {
		o.Authorizer = judge(nil)
	}
	var err error
	if w.Engine, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// over follows the log of a store, so many entries waiting and in a batch at most.
func over(st store.Store, queue, size int) *follow.Log {
	return follow.New(follow.Options{Store: st, About: About, Queue: queue, Size: size})
}

// Close ends all subscriptions.
func (w *world) Close() { w.opt.Follow.Close() }

// put commits changes by a user to a space of his, and returns the last entry.
func (w *world) put(user string, sp resource.Space, changes ...store.Change) store.Receipt {
	w.t.Helper()
	return w.putAs(user, sp, changes...)
}

func (w *world) putAs(actor string, sp resource.Space, changes ...store.Change) store.Receipt {
	w.t.Helper()
	r, err := w.st.Commit(context.Background(), store.Scope{Actor: actor, Read: []resource.Space{sp}, Write: sp}, store.Batch{Changes: changes})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func note(name string) store.Change {
	return store.Change{URI: noteURI(name), Body: []byte(`{"text":"` + name + `","pin":1234}`)}
}

func noteURI(name string) resource.URI { return resource.Root("note.Note", name) }

// listener is a subscription whose batches a test takes one by one.
type listener struct {
	t      testing.TB
	got    chan Batch
	ended  chan error // what it ended with; nil for without an error
	cancel context.CancelFunc
}

func (w *world) listen(user string, f Filter, from Cursor) *listener {
	return w.listenAs(Caller{User: user}, f, from)
}

func (w *world) listenAs(who Caller, f Filter, from Cursor) *listener {
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{t: w.t, got: make(chan Batch), ended: make(chan error, 1), cancel: cancel}
	go func() {
		for b, err := range w.Subscribe(ctx, who, f, from) {
			if err != nil {
				l.ended <- err
				return
			}
			select {
			case l.got <- b:
			case <-ctx.Done():
			}
		}
		l.ended <- nil
	}()
	w.t.Cleanup(cancel)
	return l
}

// batch waits for a batch.
func (l *listener) batch() Batch {
	l.t.Helper()
	select {
	case b := <-l.got:
		return b
	case err := <-l.ended:
		l.t.Fatalf("the subscription has ended: %v", err)
	}
	panic("unreachable")
}

// next waits for events, so many in all, over batches without any.
func (l *listener) next(n int) []Event {
	l.t.Helper()
	var out []Event
	for len(out) < n {
		out = append(out, l.batch().Events...)
	}
	if len(out) > n {
		l.t.Fatalf("%d events, want %d: %v", len(out), n, names(out))
	}
	return out
}

// names waits for so many events and returns what they are about.
func (l *listener) names(n int) []string {
	l.t.Helper()
	return names(l.next(n))
}

func names(list []Event) []string {
	var out []string
	for _, x := range list {
		word := map[DetailType]string{Put: "+", Get: "?", Delete: "-"}[x.Detail]
		for _, r := range x.Resources {
			out = append(out, word+r.URI.ID())
		}
	}
	return out
}

// begun waits until it follows what is new.
func (l *listener) begun() *listener {
	l.t.Helper()
	l.batch()
	return l
}

// fault waits for the end, which has to have a code.
func (l *listener) fault(code string) *fault.Error {
	l.t.Helper()
	for {
		select {
		case <-l.got:
		case err := <-l.ended:
			if !fault.HasCode(err, code) {
				l.t.Fatalf("it ended with %v, want %s", err, code)
			}
			return fault.Of(err)
		}
	}
}

func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func wantCode(t testing.TB, err error, kind fault.Kind, code string) {
	t.Helper()
	if !fault.HasCode(err, code) || !fault.Is(err, kind) {
		t.Fatalf("got %v, want %s %s", err, kind, code)
	}
}
