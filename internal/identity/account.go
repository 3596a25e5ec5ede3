package identity

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
)

// TypeAccount is the type of the resources with users' accounts. They are in the
// system space, so that users cannot change their own.
const TypeAccount = "identity.Account"

// Account says who a user is. Without a recorded account, a user is a member and
// the local user an admin.
type Account struct {
	User     string    `json:"user"`
	Display  string    `json:"display,omitzero"` // the name that people read
	Roles    []string  `json:"roles"`            // sorted; never empty
	Disabled bool      `json:"disabled,omitzero"`
	Created  time.Time `json:"created,omitzero"` // zero: no account is recorded
}

// Admin reports whether the account may manage people.
func (a Account) Admin() bool { return !a.Disabled && slices.Contains(a.Roles, policy.RoleAdmin) }

// AccountChange is a change of an account. Nil members stay unchanged.
type AccountChange struct {
	Display  *string   `json:"display"`
	Roles    *[]string `json:"roles"` // empty: member
	Disabled *bool     `json:"disabled"`
}

const maxDisplay = 100 // characters

// defaultAccount returns the account of a user without a recorded one.
func defaultAccount(user string) Account {
	switch user {
	case Local:
		return Account{User: user, Roles: []string{policy.RoleAdmin}}
	case Anonymous:
		return Account{User: user, Roles: []string{policy.RoleGuest, policy.RoleService}}
	}
	return Account{User: user, Roles: []string{policy.RoleMember}}
}

// Roles returns all roles.
func Roles() []string {
	return []string{policy.RoleAdmin, policy.RoleGuest, policy.RoleMember, policy.RoleService}
}

// checkRoles returns the roles sorted and without duplicates; member if there are
// none.
func checkRoles(roles []string) ([]string, error) {
	for _, r := range roles {
		if !slices.Contains(Roles(), r) {
			return nil, fault.New(fault.Invalid, "role_unknown", "unknown role %.80q", r).
				WithHint("the roles are %s", strings.Join(Roles(), ", "))
		}
	}
	if len(roles) == 0 {
		return []string{policy.RoleMember}, nil
	}
	return slices.Compact(slices.Sorted(slices.Values(roles))), nil
}

// account reads a user's account. Version 0 means that none is recorded.
func (r *Registry) account(ctx context.Context, user string) (Account, uint64, error) {
	res, err := r.store.Get(ctx, system, accountURI(user))
	if fault.Is(err, fault.NotFound) {
		return defaultAccount(user), 0, nil
	}
	if err != nil {
		return Account{}, 0, err
	}
	a, err := readAccount(res)
	return a, res.Version, err
}

func accountURI(user string) resource.URI { return resource.Root(TypeAccount, user) }

func readAccount(res resource.Resource) (Account, error) {
	var a Account
	err := json.Unmarshal(res.Body, &a)
	if err == nil {
		a.Roles, err = checkRoles(a.Roles)
	}
	if err != nil {
		return Account{}, broken(res.URI, err)
	}
	a.User = res.URI.ID()
	return a, nil
}

func (a Account) change(cond store.If) store.Change {
	body, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings and a time of ours: cannot fail
	}
	return store.Change{URI: accountURI(a.User), If: cond, Body: body}
}

// Account returns who a user is. Errors: user_invalid, and the store's.
func (r *Registry) Account(ctx context.Context, user string) (Account, error) {
	if err := CheckUser(user); err != nil {
		return Account{}, err
	}
	a, _, err := r.account(ctx, user)
	return a, err
}

// Known is Account for a user of Accounts. Errors: user_not_found, and the store's.
func (r *Registry) Known(ctx context.Context, user string) (Account, error) {
	accounts, err := r.Accounts(ctx)
	if err != nil {
		return Account{}, err
	}
	i := slices.IndexFunc(accounts, func(a Account) bool { return a.User == user })
	if i < 0 {
		return Account{}, fault.New(fault.NotFound, "user_not_found", "there is no user %.80q", user).
			WithHint("steward users list shows the users")
	}
	return accounts[i], nil
}

// Accounts returns all known users, by name: those with an account or a key, the
// members of groups, and the local user.
func (r *Registry) Accounts(ctx context.Context) ([]Account, error) {
	known := map[string]Account{Local: defaultAccount(Local)}
	keys, err := r.List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		known[k.User] = defaultAccount(k.User)
	}
	groups, err := r.Groups(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		for _, u := range g.Members {
			known[u] = defaultAccount(u)
		}
	}
	recorded, err := r.recorded(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range recorded {
		known[a.User] = a.Account
	}
	out := make([]Account, 0, len(known))
	for _, a := range known {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b Account) int { return strings.Compare(a.User, b.User) })
	return out, nil
}

// versioned is a recorded account.
type versioned struct {
	Account
	version uint64
}

func (r *Registry) recorded(ctx context.Context) ([]versioned, error) {
	return all(ctx, r, store.Query{Type: TypeAccount}, func(res resource.Resource) (versioned, error) {
		a, err := readAccount(res)
		return versioned{a, res.Version}, err
	})
}

// AddUser records an account on behalf of by. Errors: user_invalid,
// user_exists (Conflict), those of SetUser, and the store's.
func (r *Registry) AddUser(ctx context.Context, by, user string, c AccountChange) (Account, error) {
	return r.setUser(ctx, by, user, c, true)
}

// SetUser changes a user's account on behalf of by, and records one if there is
// none. The change takes effect at once in this process. Errors: user_invalid, role_unknown,
// display_invalid, last_admin, local_user and own_user_only (Denied), and the store's.
func (r *Registry) SetUser(ctx context.Context, by, user string, c AccountChange) (Account, error) {
	return r.setUser(ctx, by, user, c, false)
}

// CloseUser disables a user who is to be deleted. Errors:
// user_not_found, and those of SetUser.
func (r *Registry) CloseUser(ctx context.Context, by, user string) error {
	if _, err := r.Known(ctx, user); err != nil {
		return err
	}
	off := true
	_, err := r.SetUser(ctx, by, user, AccountChange{Disabled: &off})
	return err
}

// ForgetUser permanently erases a user's keys, sessions and account, and removes the user
// from all groups.
func (r *Registry) ForgetUser(ctx context.Context, by, user string) error {
	groups, err := r.groupsOf(ctx, user)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if _, err := r.Leave(ctx, by, g.Name, user); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	keys, err := r.List(ctx, user)
	if err != nil {
		return err
	}
	b := store.Batch{Changes: []store.Change{{Op: store.Erase, URI: accountURI(user)}}} // done last, so that a failed ForgetUser can be repeated
	for _, k := range keys {
		if err := r.Revoke(ctx, by, k.ID); err != nil {
			return err
		}
		b.Changes = append(b.Changes, store.Change{Op: store.Erase, URI: resource.Root(TypeKey, k.ID.String())})
	}
	for _, typ := range []string{TypeSession, TypeLink} {
		for it, err := range store.Items(ctx, r.store, system, store.Query{Type: typ, Term: store.Term{Name: termUser, Value: user}}) {
			if err != nil {
				return err
			}
			b.Changes = append(b.Changes, store.Change{Op: store.Erase, URI: it.URI})
		}
	}
	_, err = r.store.Commit(ctx, systemBy(by), b)
	r.changed()
	return err
}

func (r *Registry) setUser(ctx context.Context, by, user string, c AccountChange, add bool) (Account, error) {
	if err := r.checkNamed(ctx, user); err != nil {
		return Account{}, err
	}
	if err := CheckActsFor(by, user); err != nil {
		return Account{}, err
	}
	for {
		was, version, err := r.account(ctx, user)
		if err != nil {
			return Account{}, err
		}
		if add && version > 0 {
			return Account{}, fault.New(fault.Conflict, "user_exists", "%s already has an account", user).
				WithHint("steward users set %s changes it", user)
		}
		now, err := c.apply(was)
		if err != nil {
			return Account{}, err
		}
		if version > 0 && now.same(was) {
			return was, nil
		}
		err = r.commitAccount(ctx, by, was, now, version)
		if fault.Is(err, fault.Conflict) {
			continue // another change came first
		}
		if err != nil {
			return Account{}, err
		}
		return now, nil
	}
}

func (c AccountChange) apply(a Account) (Account, error) {
	if a.Created.IsZero() {
		a.Created = time.Now().UTC().Truncate(time.Microsecond)
	}
	if c.Display != nil {
		if err := checkText("display_invalid", "the name of a user", *c.Display, maxDisplay); err != nil {
			return a, err
		}
		a.Display = *c.Display
	}
	if c.Roles != nil {
		roles, err := checkRoles(*c.Roles)
		if err != nil {
			return a, err
		}
		a.Roles = roles
	}
	if c.Disabled != nil {
		a.Disabled = *c.Disabled
	}
	if a.Disabled && a.User == Local {
		return a, fault.New(fault.Denied, "local_user", "the local user cannot be disabled").
			WithHint("reduce their role instead: steward users set %s --role guest", Local)
	}
	return a, nil
}

func (a Account) same(b Account) bool {
	return a.Display == b.Display && a.Disabled == b.Disabled && slices.Equal(a.Roles, b.Roles)
}

// commitAccount records an account. If the user stops being an admin, the batch
// also requires that another admin exists.
func (r *Registry) commitAccount(ctx context.Context, by string, was, now Account, version uint64) error {
	cond := store.If{Version: version, Absent: version == 0}
	b := store.Batch{Changes: []store.Change{now.change(cond)}}
	if was.Admin() && !now.Admin() {
		other, err := r.otherAdmin(ctx, now.User)
		if err != nil {
			return err
		}
		b.Changes = append(b.Changes, other)
	}
	if _, err := r.store.Commit(ctx, systemBy(by), b); err != nil {
		return err
	}
	r.changed()
	return nil
}

// otherAdmin returns the condition that another user is still an admin.
func (r *Registry) otherAdmin(ctx context.Context, than string) (store.Change, error) {
	recorded, err := r.recorded(ctx)
	if err != nil {
		return store.Change{}, err
	}
	local := false
	for _, a := range recorded {
		local = local || a.User == Local
		if a.User != than && a.Admin() {
			return store.Change{Op: store.Check, URI: accountURI(a.User), If: store.If{Version: a.version}}, nil
		}
	}
	if !local && than != Local {
		return store.Change{Op: store.Check, URI: accountURI(Local), If: store.If{Absent: true}}, nil
	}
	return store.Change{}, fault.New(fault.Denied, "last_admin", "%s is the last admin", than).
		WithHint("make another user an admin first: steward users set NAME --role admin")
}

func systemBy(actor string) store.Scope {
	sc := system
	if actor != "" {
		sc.Actor = actor
	}
	return sc
}
