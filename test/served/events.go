package served

import (
	"context"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/events"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// Events are a node's events over a store that a test writes to.
type Events struct {
	*events.Engine
	t      *testing.T
	st     store.Store
	Follow *follow.Log
}

// NewEvents follows a store until the test ends. beat is the time between
// events that say nothing; 0: the default.
func NewEvents(t *testing.T, st store.Store, beat time.Duration) *Events {
	t.Helper()
	e := &Events{t: t, st: st, Follow: follow.New(follow.Options{Store: st, About: events.About})}
	var err error
	e.Engine, err = events.New(events.Options{Follow: e.Follow, Authorizer: policy.Fixed{}, Directory: e, Beat: beat, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Follow.Close)
	return e
}

// Principal implements events.Directory: everybody is known.
func (*Events) Principal(_ context.Context, user string) (policy.Principal, error) {
	return policy.Principal{User: user}, nil
}

// Publish publishes as a user.
func (e *Events) Publish(ctx context.Context, user string, x events.Publication) (events.Published, error) {
	return e.Engine.Publish(ctx, events.Caller{User: user}, x)
}

// Subscribe subscribes as a user.
func (e *Events) Subscribe(ctx context.Context, user string, f events.Filter, from events.Cursor) iter.Seq2[events.Batch, error] {
	return e.Engine.Subscribe(ctx, events.Caller{User: user}, f, from)
}

// Observe observes as a user.
func (e *Events) Observe(ctx context.Context, user string, f events.ChangeFilter, from events.Cursor) iter.Seq2[events.Batch, error] {
	return e.Engine.Observe(ctx, store.ForUser(user), f, from)
}

// Commit commits changes of a user.
func (e *Events) Commit(user string, changes ...store.Change) {
	e.t.Helper()
	if _, err := e.st.Commit(context.Background(), store.ForUser(user), store.Batch{Changes: changes}); err != nil {
		e.t.Fatal(err)
	}
}

// Put writes a note of a user.
func (e *Events) Put(user, name string) {
	e.t.Helper()
	e.Commit(user, store.Change{URI: resource.Root("note.Note", name), Body: []byte(`{"n":12345678901234567890}`), State: "new"})
}

// Keys let a user in with any key until Gone is set.
type Keys struct {
	User string
	Gone atomic.Pointer[error]
}

// Authenticate implements auth.Keys.
func (k *Keys) Authenticate(context.Context, string) (string, error) {
	if err := k.Gone.Load(); err != nil {
		return "", *err
	}
	return k.User, nil
}
