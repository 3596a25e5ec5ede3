package identity_test

import (
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/test/storetest"
)

// TestShares: a share is found by its secret until it expires, is ended, or its user is disabled, and by nobody
// else's name.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		reg := identity.New(storetest.NewModel())
		conv := id.New()
		found := func(user, secret string) string {
			s, err := reg.Shared(ctx, user, secret)
			if err != nil {
				return fault.Of(err).Code
			}
			if s.User != user || s.Conversation != conv {
				t.Errorf("%+v", s)
			}
			return "found"
		}
		is := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s, not %s", got, want)
			}
		}
		_, _, err := reg.NewShare(ctx, identity.Share{User: "ana", Conversation: conv}, 400*24*time.Hour)
		is(fault.Of(err).Code, "share_expiry_invalid")
		make := func() (identity.Share, string) {
			s, secret, err := reg.NewShare(ctx, identity.Share{User: "ana", Conversation: conv, Private: true}, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			return s, secret
		}
		s, secret := make()
		is(found("ana", secret), "found")
		is(found("eve", secret), "share_ended")
		is(found("ana", identity.NewSecret()), "share_ended")
		is(found("ana", "x"), "share_ended")
		if list, err := reg.Shares(ctx, "ana", conv); err != nil || len(list) != 1 || list[0].ID != s.ID || !list[0].Private {
			t.Errorf("%+v %v", list, err)
		}
		is(fault.Of(reg.EndShare(ctx, "eve", s.ID)).Code, "share_not_found")
		if err := reg.EndShare(ctx, "ana", s.ID); err != nil {
			t.Error(err)
		}
		is(found("ana", secret), "share_ended")
		_, secret = make()
		time.Sleep(time.Hour)
		is(found("ana", secret), "share_ended")
		if list, err := reg.Shares(ctx, "ana", conv); err != nil || len(list) != 0 {
			t.Errorf("%+v %v", list, err)
		}
		_, secret = make()
		off := true
		if _, err := reg.SetUser(ctx, identity.Local, "ana", identity.AccountChange{Disabled: &off}); err != nil {
			t.Fatal(err)
		}
		is(found("ana", secret), "share_ended")
	})
}
