package identity

import (
	"context"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/policy"
)

var _ policy.Directory = (*Registry)(nil)

// person is the cached data of a user.
type person struct {
	policy.Principal
	disabled bool
	profile  []byte // as stored; nil: none
	until    time.Time
}

// Principal implements policy.Directory. It returns the roles and groups of a
// user, both sorted; do not modify them. A change by another process is seen
// within ten seconds, a change through this registry at once.
// Errors: user_invalid, user_disabled (Denied), and the store's.
func (r *Registry) Principal(ctx context.Context, user string) (policy.Principal, error) {
	p, err := r.person(ctx, user)
	if err == nil && p.disabled {
		err = fault.New(fault.Denied, "user_disabled", "the user %s is disabled", user).WithHint(enableHint, user)
	}
	if err != nil {
		return policy.Principal{}, err
	}
	return p.Principal, nil
}

const enableHint = "an admin can enable the user again: steward users enable %s"

// Version returns a number that increases whenever a Principal may have changed.
// Decisions made at an older version must be made again.
func (r *Registry) Version() uint64 { return r.version.Load() }

func (r *Registry) person(ctx context.Context, user string) (person, error) {
	now := time.Now()
	r.crowd.RLock()
	p, ok := r.people[user]
	r.crowd.RUnlock()
	if ok && now.Before(p.until) {
		return p, nil
	}
	before := r.version.Load()
	fresh, err := r.loadPerson(ctx, user)
	if err != nil {
		return person{}, err
	}
	fresh.until = now.Add(cacheFor)
	r.remember(fresh, before)
	return fresh, nil
}

// remember caches a person, unless there was a change since the version before.
func (r *Registry) remember(p person, before uint64) {
	r.crowd.Lock()
	defer r.crowd.Unlock()
	if r.version.Load() != before {
		return
	}
	old, ok := r.people[p.User]
	switch {
	case !ok && len(r.people) >= cacheSize:
		clear(r.people) // rare, and simpler than evicting the oldest
		r.version.Add(1)
	case ok && (old.disabled != p.disabled || !slices.Equal(old.Roles, p.Roles) || !slices.Equal(old.Groups, p.Groups)):
		r.version.Add(1) // another process has changed it
	}
	r.people[p.User] = p
}

// loadPerson reads a user's data from the store.
func (r *Registry) loadPerson(ctx context.Context, user string) (person, error) {
	if err := CheckUser(user); err != nil && user != Anonymous {
		return person{}, err
	}
	a, _, err := r.account(ctx, user)
	if err != nil {
		return person{}, err
	}
	groups, err := r.groupsOf(ctx, user)
	if err != nil {
		return person{}, err
	}
	p := person{Principal: policy.Principal{User: user, Roles: a.Roles}, disabled: a.Disabled}
	if p.profile, err = r.readProfile(ctx, user); err != nil {
		return person{}, err
	}
	for _, g := range groups {
		p.Groups = append(p.Groups, g.Name)
	}
	return p, nil
}

// changed clears the cache after a change.
func (r *Registry) changed() {
	r.crowd.Lock()
	defer r.crowd.Unlock()
	clear(r.people)
	r.version.Add(1)
}
