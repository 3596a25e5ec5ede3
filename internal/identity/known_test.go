package identity_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/store"
	"steward/test/storetest"
)

// counted counts the look-ups of a store.
type counted struct {
	store.Store
	queries, logs int
}

func (c *counted) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	c.queries++
	return c.Store.Query(ctx, sc, q)
}

func (c *counted) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	c.logs++
	return c.Store.Log(ctx, sc, q)
}

// A shared registry looks a key up once, and asks for changes once a second. It refuses a key that another node
// has revoked or erased within a second, and one that it has revoked itself at once.
func TestKnownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, shared := t.Context(), storetest.NewModel()
		st := &counted{Store: shared}
		here, there := identity.NewShared(st), identity.New(shared)
		create := func() (identity.Key, string) {
			t.Helper()
			k, secret, err := there.Create(ctx, identity.Local, "ada", "", time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			return k, secret
		}
		opens := func(secret string) {
			t.Helper()
			if user, err := here.Authenticate(ctx, secret); err != nil || user != "ada" {
				t.Errorf("a key opens for %q, %v", user, err)
			}
		}
		refused := func(secret, code string) {
			t.Helper()
			if _, err := here.Authenticate(ctx, secret); !fault.HasCode(err, code) {
				t.Errorf("the error is %v, want the code %s", err, code)
			}
		}
		if _, err := there.AddUser(ctx, identity.Local, "ada", identity.AccountChange{}); err != nil {
			t.Fatal(err)
		}
		first, secret := create()
		opens(secret)
		queries, logs := st.queries, st.logs
		for range 1000 {
			opens(secret)
		}
		if st.queries != queries || st.logs != logs {
			t.Errorf("the same key again takes %d queries and %d looks at the log", st.queries-queries, st.logs-logs)
		}
		time.Sleep(time.Second)
		opens(secret)
		if st.queries != queries || st.logs != logs+1 {
			t.Errorf("after a second it takes %d queries and %d looks at the log", st.queries-queries, st.logs-logs)
		}

		if err := there.Revoke(ctx, identity.Local, first.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		refused(secret, "key_revoked")

		second, secret := create()
		opens(secret)
		if err := here.Revoke(ctx, identity.Local, second.ID); err != nil {
			t.Fatal(err)
		}
		refused(secret, "key_revoked")

		_, secret = create()
		opens(secret)
		if err := there.CloseUser(ctx, identity.Local, "ada"); err != nil {
			t.Fatal(err)
		}
		if err := there.ForgetUser(ctx, identity.Local, "ada"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		refused(secret, "key_unknown")
	})
}
