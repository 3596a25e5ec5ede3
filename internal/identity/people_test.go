package identity_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/storetest"
)

func ptr[T any](v T) *T { return &v }

// must returns the value of a call that must not fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func roles(r ...string) identity.AccountChange { return identity.AccountChange{Roles: &r} }

// principal returns roles and groups in one line.
func principal(t testing.TB, reg *identity.Registry, user string) string {
	t.Helper()
	who, err := reg.Principal(context.Background(), user)
	if err != nil {
		return fault.Of(err).Code
	}
	if who.User != user {
		t.Errorf("asked for %s, got %s", user, who.User)
	}
	return strings.Join(who.Roles, ",") + " in " + strings.Join(who.Groups, ",")
}

func TestPrincipals(t *testing.T) {
	ctx := t.Context()
	st := storetest.NewModel()
	reg := identity.New(st)
	is := func(user, want string) {
		t.Helper()
		if got := principal(t, reg, user); got != want {
			t.Errorf("%s is %q, want %q", user, got, want)
		}
	}
	is("local", "admin in ")
	is("ana", "member in ")
	is("Ana", "user_invalid")

	v := reg.Version()
	a := must(reg.AddUser(ctx, "local", "ana", identity.AccountChange{Display: ptr("Ana Ω"), Roles: &[]string{"service", "guest", "service"}}))
	if a.Display != "Ana Ω" || !slices.Equal(a.Roles, []string{"guest", "service"}) || a.Created.IsZero() || a.Admin() {
		t.Errorf("%+v", a)
	}
	is("ana", "guest,service in ")
	must(reg.AddGroup(ctx, "local", identity.NewGroup{Name: "family", Display: "The family", Members: []string{"ana", "bo", "ana"}, Managers: []string{"local"}}))
	is("ana", "guest,service in family")
	is("local", "admin in family")
	if reg.Version() == v {
		t.Error("the version has not grown")
	}
	v = reg.Version()
	must(reg.SetUser(ctx, "local", "ana", roles("guest", "service")))
	must(reg.Join(ctx, "local", "family", "bo", false))
	if reg.Version() != v {
		t.Error("what changes nothing counts as a change")
	}
	must(reg.SetUser(ctx, "local", "ana", roles()))
	is("ana", "member in family")
	must(reg.SetUser(ctx, "local", "ana", identity.AccountChange{Disabled: ptr(true)}))
	is("ana", "user_disabled")
	must(reg.SetUser(ctx, "local", "ana", identity.AccountChange{Disabled: ptr(false), Display: ptr("")}))
	is("ana", "member in family")

	g := must(reg.Join(ctx, "local", "family", "bo", true))
	if !g.Manages("bo") || !g.Has("ana") || g.Manages("ana") || !slices.IsSorted(g.Members) {
		t.Errorf("%+v", g)
	}
	g = must(reg.Join(ctx, "local", "family", "bo", false))
	if g.Manages("bo") || !g.Has("bo") {
		t.Errorf("%+v", g)
	}
	must(reg.Leave(ctx, "bo", "family", "bo"))
	is("bo", "member in ")

	_, _, err := reg.Create(ctx, "local", "robot", "", never)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range must(reg.Accounts(ctx)) {
		names = append(names, a.User+":"+strings.Join(a.Roles, ","))
	}
	if got := strings.Join(names, " "); got != "ana:member local:admin robot:member" {
		t.Errorf("the users are %s", got)
	}
	page := must(st.Log(ctx, store.ForNode(resource.System), store.LogQuery{Of: resource.Root(identity.TypeGroup, "family")}))
	if last := page.Entries[len(page.Entries)-1]; last.Actor != "bo" {
		t.Errorf("the log says that %s did it", last.Actor)
	}
	if err := reg.RemoveGroup(ctx, "local", "family"); err != nil {
		t.Fatal(err)
	}
	is("ana", "member in ")
	is("local", "admin in ")
}

func TestPeopleRefuses(t *testing.T) {
	ctx := t.Context()
	st := storetest.NewModel()
	reg := identity.New(st)
	must(reg.AddUser(ctx, "local", "ana", roles()))
	must(reg.AddGroup(ctx, "local", identity.NewGroup{Name: "family", Members: []string{"ana"}}))
	for name, c := range map[string]struct {
		call func() error
		kind fault.Kind
		code string
	}{
		"account, bad name": {func() error { _, err := reg.Account(ctx, "a/b"); return err }, fault.Invalid, "user_invalid"},
		"add, bad name":     {func() error { _, err := reg.AddUser(ctx, "local", "Ana", roles()); return err }, fault.Invalid, "user_invalid"},
		"add, there":        {func() error { _, err := reg.AddUser(ctx, "local", "ana", roles()); return err }, fault.Conflict, "user_exists"},
		"role":              {func() error { _, err := reg.SetUser(ctx, "local", "ana", roles("king")); return err }, fault.Invalid, "role_unknown"},
		"display": {func() error {
			_, err := reg.SetUser(ctx, "local", "ana", identity.AccountChange{Display: ptr("a\nb")})
			return err
		}, fault.Invalid, "display_invalid"},
		"local disabled": {func() error {
			_, err := reg.SetUser(ctx, "local", "local", identity.AccountChange{Disabled: ptr(true)})
			return err
		}, fault.Denied, "local_user"},
		"last admin":      {func() error { _, err := reg.SetUser(ctx, "local", "local", roles("member")); return err }, fault.Denied, "last_admin"},
		"group, bad name": {func() error { _, err := reg.AddGroup(ctx, "local", identity.NewGroup{Name: "a b"}); return err }, fault.Invalid, "group_invalid"},
		"group, bad display": {func() error {
			_, err := reg.AddGroup(ctx, "local", identity.NewGroup{Name: "x", Display: "\x00"})
			return err
		}, fault.Invalid, "display_invalid"},
		"group, bad member": {func() error {
			_, err := reg.AddGroup(ctx, "local", identity.NewGroup{Name: "x", Members: []string{"A"}})
			return err
		}, fault.Invalid, "user_invalid"},
		"group, there":   {func() error { _, err := reg.AddGroup(ctx, "local", identity.NewGroup{Name: "family"}); return err }, fault.Conflict, "group_exists"},
		"join, no group": {func() error { _, err := reg.Join(ctx, "local", "none", "ana", false); return err }, fault.NotFound, "group_not_found"},
		"join, bad name": {func() error { _, err := reg.Join(ctx, "local", "family", "A", false); return err }, fault.Invalid, "user_invalid"},
		"leave, not in":  {func() error { _, err := reg.Leave(ctx, "local", "family", "bo"); return err }, fault.NotFound, "not_a_member"},
		"remove, none":   {func() error { return reg.RemoveGroup(ctx, "local", "../x") }, fault.NotFound, "group_not_found"},
		"remove, gone":   {func() error { return reg.RemoveGroup(ctx, "local", "gone") }, fault.NotFound, "group_not_found"},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, c.call(), c.kind, c.code) })
	}
	if got := principal(t, reg, "ana"); got != "member in family" {
		t.Errorf("ana is %s now", got)
	}
}

func TestDisabledUsersKeysAreRefused(t *testing.T) {
	ctx := t.Context()
	reg := identity.New(storetest.NewModel())
	_, secret, err := reg.Create(ctx, "local", "ana", "", never)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // repeated, because a cache must not let the user in
		must(reg.SetUser(ctx, "local", "ana", identity.AccountChange{Disabled: ptr(true)}))
		_, err = reg.Authenticate(ctx, secret)
		wantCode(t, err, fault.Unauthentic, "user_disabled")
		must(reg.SetUser(ctx, "local", "ana", identity.AccountChange{Disabled: ptr(false)}))
		if user, err := reg.Authenticate(ctx, secret); err != nil || user != "ana" {
			t.Fatal(user, err)
		}
	}
}

func TestGroupsLeaveNothingToStrangers(t *testing.T) {
	ctx := t.Context()
	x := resource.Root(identity.TypeGroup, "family").Child("home.Note", "x")
	for name, then := range map[string][]store.Change{
		"kept": nil,
		// Members of the space can still read its versions and events.
		"deleted": {{URI: x, Op: store.Delete}},
		"erased":  {{URI: x, Op: store.Erase}},
	} {
		t.Run(name, func(t *testing.T) {
			st := storetest.NewModel()
			reg := identity.New(st)
			must(reg.AddGroup(ctx, "local", identity.NewGroup{Name: "family", Members: []string{"ana"}}))
			must(st.Commit(ctx, store.ForGroup("ana", "family"), store.Batch{Changes: []store.Change{{URI: x, Body: []byte("{}")}}}))
			must(st.Commit(ctx, store.ForGroup("ana", "family"), store.Batch{Changes: then}))
			if err := reg.RemoveGroup(ctx, "local", "family"); err != nil {
				t.Fatal(err)
			}
			_, err := reg.AddGroup(ctx, "local", identity.NewGroup{Name: "family", Members: []string{"eve"}})
			wantCode(t, err, fault.Conflict, "group_left")
			if got := principal(t, reg, "eve"); got != "member in " {
				t.Errorf("eve is %s", got)
			}
			must(reg.AddGroup(ctx, "local", identity.NewGroup{Name: "family", Members: []string{"ana"}, Inherit: true}))
		})
	}
}

// Whatever changes are made, in any order and concurrently, one enabled admin
// remains.
func TestTheLastAdminStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		reg := identity.New(storetest.NewModel())
		users := []string{"local", "ana", "bo", "cy"}
		type step struct {
			user   string
			change identity.AccountChange
		}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			s := step{user: rapid.SampledFrom(users).Draw(t, "user")}
			if rapid.Bool().Draw(t, "switch") {
				s.change.Disabled = ptr(rapid.Bool().Draw(t, "disabled"))
			} else {
				s.change.Roles = &[]string{rapid.SampledFrom(identity.Roles()).Draw(t, "role")}
			}
			return s
		}), 1, 30).Draw(t, "steps")
		left := func() {
			for _, a := range must(reg.Accounts(ctx)) {
				if a.Admin() {
					return
				}
			}
			t.Fatal("no admin is left")
		}
		atOnce := rapid.IntRange(1, 4).Draw(t, "at once")
		for part := range slices.Chunk(steps, atOnce) {
			var wg sync.WaitGroup
			for _, s := range part {
				wg.Go(func() {
					_, err := reg.SetUser(ctx, "local", s.user, s.change)
					if err != nil && !fault.HasCode(err, "last_admin") && !fault.HasCode(err, "local_user") {
						t.Errorf("%s: %v", s.user, err)
					}
				})
			}
			wg.Wait()
			left()
			for _, u := range users {
				a, err := reg.Account(ctx, u)
				if err != nil {
					t.Fatal(err)
				}
				p, err := reg.Principal(ctx, u)
				if a.Disabled != fault.HasCode(err, "user_disabled") || !a.Disabled && !slices.Equal(a.Roles, p.Roles) {
					t.Fatalf("%s has the account %+v and is %+v, %v", u, a, p, err)
				}
			}
		}
	})
}

func TestPrincipalsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		st := newWatched()
		here, there := identity.New(st), identity.New(st.Store)
		for range 100 {
			principal(t, here, "ana")
		}
		if st.reads != 3 { // the account, the groups and the profile
			t.Errorf("%d reads for one user", st.reads)
		}
		v := here.Version()
		must(there.SetUser(ctx, "local", "ana", roles("guest"))) // another process
		time.Sleep(11 * time.Second)
		if got := principal(t, here, "ana"); got != "guest in " || here.Version() == v {
			t.Errorf("ana is %s still, and the version %d", got, here.Version())
		}
		v = here.Version()
		time.Sleep(11 * time.Second)
		if principal(t, here, "ana"); here.Version() != v {
			t.Error("looking again counts as a change")
		}
		for i := range 1100 {
			principal(t, here, "u"+strings.Repeat("x", i%60)+strings.Repeat("y", i/60%4)+string(rune('a'+i/240)))
		}
		if here.Version() == v {
			t.Error("who was forgotten may have changed, and the version says nothing")
		}
	})
}

// A look-up is not cached if a change was made during it.
func TestChangeOvertakesLookUp(t *testing.T) {
	st := newWatched()
	reg := identity.New(st)
	st.then = func() { must(reg.SetUser(context.Background(), "local", "ana", roles("guest"))) }
	if got := principal(t, reg, "ana"); got != "member in " {
		t.Fatal(got) // the state when the store was read
	}
	if got := principal(t, reg, "ana"); got != "guest in " {
		t.Errorf("ana is %s", got)
	}
}

func TestPeopleStoreErrors(t *testing.T) {
	ctx := t.Context()
	full := fault.New(fault.Unavailable, "disk_full", "no room")
	st := newWatched()
	reg := identity.New(st)
	must(reg.AddGroup(ctx, "local", identity.NewGroup{Name: "family", Members: []string{"ana"}}))
	_, secret, err := reg.Create(ctx, "local", "bo", "", never)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"principal": func() error { _, err := reg.Principal(ctx, "cy"); return err },
		"auth":      func() error { _, err := reg.Authenticate(ctx, secret); return err },
		"account":   func() error { _, err := reg.Account(ctx, "cy"); return err },
		"accounts":  func() error { _, err := reg.Accounts(ctx); return err },
		"set":       func() error { _, err := reg.SetUser(ctx, "local", "cy", roles("guest")); return err },
		"groups":    func() error { _, err := reg.Groups(ctx); return err },
		"group":     func() error { _, err := reg.Group(ctx, "family"); return err },
		"add":       func() error { _, err := reg.AddGroup(ctx, "local", identity.NewGroup{Name: "x"}); return err },
		"inherit": func() error {
			_, err := reg.AddGroup(ctx, "local", identity.NewGroup{Name: "x", Inherit: true})
			return err
		},
		"remove": func() error { return reg.RemoveGroup(ctx, "local", "family") },
		"join":   func() error { _, err := reg.Join(ctx, "local", "family", "bo", false); return err },
		"leave":  func() error { _, err := reg.Leave(ctx, "local", "family", "ana"); return err },
	}
	st.fail = failing("", full)
	for name, call := range calls {
		if err := call(); !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
	}
	st.fail = nil
	put := func(uri resource.URI, body string) {
		must(st.Store.Commit(ctx, store.ForNode(resource.System), store.Batch{Changes: []store.Change{{URI: uri, Body: []byte(body),
			Terms: []store.Term{{Name: "group_member", Value: "dee"}}}}}))
	}
	put(resource.Root(identity.TypeAccount, "dee"), `{"roles":["king"]}`)
	_, err = reg.Principal(ctx, "dee")
	wantCode(t, err, fault.Internal, "store_broken")
	put(resource.Root(identity.TypeAccount, "dee"), `{`)
	_, err = reg.Accounts(ctx)
	wantCode(t, err, fault.Internal, "store_broken")
	_, err = reg.SetUser(ctx, "local", "local", roles("guest"))
	wantCode(t, err, fault.Internal, "store_broken")
	put(resource.Root(identity.TypeAccount, "dee"), `{}`)
	put(resource.Root(identity.TypeGroup, "odd"), `[`)
	_, err = reg.Principal(ctx, "dee")
	wantCode(t, err, fault.Internal, "store_broken")
	_, err = reg.Accounts(ctx)
	wantCode(t, err, fault.Internal, "store_broken")
}

func TestNobodyIsAnonymousByName(t *testing.T) {
	r, ctx := identity.New(storetest.NewModel()), t.Context()
	p, err := r.Principal(ctx, identity.Anonymous)
	if err != nil || !slices.Equal(p.Roles, []string{policy.RoleGuest, policy.RoleService}) || len(p.Groups) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, _, err := r.Create(ctx, identity.Local, identity.Anonymous, "", time.Time{}); !fault.HasCode(err, "user_invalid") {
		t.Errorf("a key: %v", err)
	}
	if _, err := r.SetUser(ctx, identity.Local, identity.Anonymous, identity.AccountChange{}); !fault.HasCode(err, "user_invalid") {
		t.Errorf("an account: %v", err)
	}
	if _, err := r.AddGroup(ctx, identity.Local, identity.NewGroup{Name: "family", Members: []string{identity.Anonymous}}); !fault.HasCode(err, "user_invalid") {
		t.Errorf("a group: %v", err)
	}
}
