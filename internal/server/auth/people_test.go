package auth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/policy"
	"steward/internal/server/auth"
	"steward/test/storetest"
)

// let runs a request through a guard and returns the caller, or the code of
// the refusal.
func let(t *testing.T, g *auth.Guard, secret string) (auth.Caller, string) {
	t.Helper()
	r := httptest.NewRequest("GET", "http://localhost/", nil)
	r.RemoteAddr = "127.0.0.1:1234"
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	var c auth.Caller
	code := ""
	g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var err error
		if c, err = auth.From(r.Context()); err != nil {
			t.Error(err)
		}
	}), func(_ http.ResponseWriter, _ *http.Request, err error) { code = fault.Of(err).Code }).ServeHTTP(httptest.NewRecorder(), r)
	return c, code
}

func TestWhoACallerIs(t *testing.T) {
	ctx := t.Context()
	reg := identity.New(storetest.NewModel())
	set := func(user string, disabled bool, roles ...string) {
		t.Helper()
		if _, err := reg.SetUser(ctx, "local", user, identity.AccountChange{Roles: &roles, Disabled: &disabled}); err != nil {
			t.Fatal(err)
		}
	}
	secrets := map[string]string{}
	for _, user := range []string{"ana", "bo", "robot", "nobody"} {
		_, secret, err := reg.Create(ctx, "local", user, "", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		secrets[user] = secret
	}
	const token = "the token"
	guard := auth.New(auth.Options{Keys: reg, People: reg, Token: fixed(token)})
	set("ana", false, policy.RoleAdmin)
	set("bo", false, policy.RoleGuest)
	set("robot", false, policy.RoleService, policy.RoleMember)
	if _, err := reg.AddGroup(ctx, "local", identity.NewGroup{Name: "family", Members: []string{"bo"}}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		secret   string
		user     string
		admin    bool
		attended bool
		roles    []string
		groups   []string
	}{
		"token":   {token, "local", true, true, []string{"admin"}, nil},
		"admin":   {secrets["ana"], "ana", true, true, []string{"admin"}, nil},
		"guest":   {secrets["bo"], "bo", false, true, []string{"guest"}, []string{"family"}},
		"service": {secrets["robot"], "robot", false, false, []string{"member", "service"}, nil},
		"member":  {secrets["nobody"], "nobody", false, true, []string{"member"}, nil},
	} {
		got, code := let(t, guard, c.secret)
		p := got.Principal()
		if code != "" || p.User != c.user || got.Admin != c.admin || got.Attended() != c.attended || !slices.Equal(p.Roles, c.roles) || !slices.Equal(p.Groups, c.groups) {
			t.Errorf("%s: %+v %s", name, got, code)
		}
		if err := got.Recheck(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	ana, _ := let(t, guard, secrets["ana"])
	bo, _ := let(t, guard, secrets["bo"])
	near, _ := let(t, guard, token)
	set("local", false, policy.RoleMember)
	set("bo", true)
	if c, code := let(t, guard, secrets["bo"]); code != "user_disabled" {
		t.Errorf("a disabled user is let in: %+v", c)
	}
	if err := bo.Recheck(ctx); !fault.HasCode(err, "user_disabled") {
		t.Errorf("and stays: %v", err)
	}
	if err := near.Recheck(ctx); !fault.HasCode(err, "caller_changed") {
		t.Errorf("who is no admin any more stays: %v", err)
	}
	if c, _ := let(t, guard, token); !c.Admin {
		t.Error("the token has lost its power")
	}
	if err := ana.Recheck(ctx); err != nil {
		t.Error(err)
	}
	set("robot", false, policy.RoleAdmin)
	set("ana", false, policy.RoleMember)
	if err := ana.Recheck(ctx); !fault.HasCode(err, "caller_changed") {
		t.Errorf("who is no admin any more stays: %v", err)
	}
}

// lost is a directory that always fails.
type lost struct{}

func (lost) Principal(context.Context, string) (policy.Principal, error) {
	return policy.Principal{}, fault.New(fault.Unavailable, "disk_full", "no room")
}

func TestNobodyIsLetInUnknown(t *testing.T) {
	guard := auth.New(auth.Options{Keys: keys{"sk-steward-x": "ana"}, People: lost{}, Token: fixed("token")})
	if c, code := let(t, guard, "sk-steward-x"); code != "disk_full" {
		t.Errorf("%+v %s", c, code)
	}
	if c, code := let(t, guard, "token"); code != "" || !c.Admin || c.User != "local" {
		t.Errorf("%+v %s", c, code)
	}
	if c, _ := let(t, auth.New(auth.Options{Keys: keys{"sk-steward-x": "local"}}), "sk-steward-x"); !c.Admin || c.Recheck(t.Context()) != nil {
		t.Errorf("%+v", c)
	}
}
