package identity_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/resource"
	"steward/internal/store"
)

// A link signs one browser in, once; the session lasts while it is used, and until somebody ends it.
func TestALinkSignsABrowserInOnce(t *testing.T) {
	ctx := t.Context()
	m := newWatched()
	reg := identity.New(m)
	link := must(reg.NewLink(ctx, "local", "ana", time.Hour))
	s, secret, err := reg.SignIn(ctx, link, "Firefox "+strings.Repeat("x", 500))
	if err != nil || s.User != "ana" || len(s.Browser) > 120 {
		t.Fatalf("%+v, %v", s, err)
	}
	_, _, err = reg.SignIn(ctx, link, "")
	wantCode(t, err, fault.Unauthentic, "link_unknown")
	if got := must(reg.AuthenticateSession(ctx, secret)); got.User != "ana" || got.ID != s.ID {
		t.Errorf("%+v", got)
	}
	_, err = reg.Authenticate(ctx, secret) // a cookie is no key
	wantCode(t, err, fault.Unauthentic, "key_unknown")
	for _, x := range []string{"", "x", link, identity.NewSecret()} {
		_, err = reg.AuthenticateSession(ctx, x)
		wantCode(t, err, fault.Unauthentic, "session_ended")
	}
	kept := must(m.Store.Get(ctx, store.ForNode(resource.System), resource.Root(identity.TypeSession, s.ID.String())))
	if strings.Contains(string(kept.Body), secret) || strings.Contains(string(kept.Body), link) {
		t.Errorf("a secret is kept: %s", kept.Body)
	}
	wantCode(t, reg.EndSession(ctx, "local", "bob", s.ID), fault.NotFound, "session_not_found")
	wantCode(t, reg.EndSession(ctx, "local", "ana", id.New()), fault.NotFound, "session_not_found")
	if err := reg.EndSession(ctx, "ana", "ana", s.ID); err != nil {
		t.Fatal(err)
	}
	_, err = reg.AuthenticateSession(ctx, secret)
	wantCode(t, err, fault.Unauthentic, "session_ended")
}

func TestSessionsEndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		reg := identity.New(newWatched())
		late := must(reg.NewLink(ctx, "local", "ana", time.Hour))
		time.Sleep(time.Hour)
		_, _, err := reg.SignIn(ctx, late, "")
		wantCode(t, err, fault.Unauthentic, "link_expired")

		_, secret, err := reg.SignIn(ctx, must(reg.NewLink(ctx, "local", "ana", time.Hour)), "")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // each use counts
			time.Sleep(identity.SessionIdle - time.Hour)
			if _, err := reg.AuthenticateSession(ctx, secret); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(identity.SessionIdle)
		_, err = reg.AuthenticateSession(ctx, secret)
		wantCode(t, err, fault.Unauthentic, "session_ended")
		if list := must(reg.Sessions(ctx, "ana")); len(list) != 0 {
			t.Errorf("%+v", list)
		}
	})
}

func TestWhoMayMakeLinks(t *testing.T) {
	ctx := t.Context()
	reg := identity.New(newWatched())
	_, err := reg.NewLink(ctx, "ana", "local", time.Hour)
	wantCode(t, err, fault.Denied, "own_user_only")
	_, err = reg.NewLink(ctx, "local", "no such name!", time.Hour)
	wantCode(t, err, fault.Invalid, "user_invalid")
	for _, d := range []time.Duration{0, -time.Hour, 8 * 24 * time.Hour} {
		_, err = reg.NewLink(ctx, "local", "ana", d)
		wantCode(t, err, fault.Invalid, "link_expiry_invalid")
	}
	own := must(reg.NewLink(ctx, "local", "local", time.Hour))
	s, _, err := reg.SignIn(ctx, own, "")
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, reg.EndSession(ctx, "ana", "local", s.ID), fault.Denied, "own_user_only")
}

// A user who is disabled has no session, and one who is forgotten leaves none.
func TestSessionsOfUsersWhoAreGone(t *testing.T) {
	ctx := t.Context()
	reg := identity.New(newWatched())
	_, secret, err := reg.SignIn(ctx, must(reg.NewLink(ctx, "local", "ana", time.Hour)), "")
	if err != nil {
		t.Fatal(err)
	}
	open := must(reg.NewLink(ctx, "local", "ana", time.Hour))
	yes, no := true, false
	must(reg.SetUser(ctx, "local", "ana", identity.AccountChange{Disabled: &yes}))
	_, err = reg.AuthenticateSession(ctx, secret)
	wantCode(t, err, fault.Unauthentic, "user_disabled")
	_, _, err = reg.SignIn(ctx, open, "")
	wantCode(t, err, fault.Unauthentic, "user_disabled")
	must(reg.SetUser(ctx, "local", "ana", identity.AccountChange{Disabled: &no}))
	if err := reg.ForgetUser(ctx, "local", "ana"); err != nil {
		t.Fatal(err)
	}
	_, err = reg.AuthenticateSession(ctx, secret)
	wantCode(t, err, fault.Unauthentic, "session_ended")
	_, _, err = reg.SignIn(ctx, open, "")
	wantCode(t, err, fault.Unauthentic, "link_unknown")
}

func TestAUserHasAtMostFiftyLinks(t *testing.T) {
	ctx := t.Context()
	reg := identity.New(newWatched())
	var links []string
	for range 51 {
		links = append(links, must(reg.NewLink(ctx, "local", "ana", time.Hour)))
	}
	_, _, err := reg.SignIn(ctx, links[0], "")
	wantCode(t, err, fault.Unauthentic, "link_unknown")
	for _, i := range []int{1, 50} {
		if _, _, err := reg.SignIn(ctx, links[i], ""); err != nil {
			t.Error(i, err)
		}
	}
}

func TestAUserHasAtMostFiftySessions(t *testing.T) {
	ctx := t.Context()
	reg := identity.New(newWatched())
	var first string
	for i := range 51 {
		_, secret, err := reg.SignIn(ctx, must(reg.NewLink(ctx, "local", "ana", time.Hour)), "")
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = secret
		}
	}
	if n := len(must(reg.Sessions(ctx, "ana"))); n != 50 {
		t.Errorf("%d sessions", n)
	}
	_, err := reg.AuthenticateSession(ctx, first)
	wantCode(t, err, fault.Unauthentic, "session_ended")
}
