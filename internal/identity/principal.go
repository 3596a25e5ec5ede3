package identity

import (
	"context"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/policy"
)

var _ policy.Directory = (*Registry)(nil)

// person is what is known of a user, for a while.
type person struct {
	policy.Principal
	disabled bool
	profile  []byte // as it is stored; nil: there is none
	until    time.Time
}

// Principal implements policy.Directory: the roles of a user and the groups
// that he is in, both sorted; do not modify them. A change made through this
// registry is seen at once, one made by another process within ten seconds.
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

const enableHint = "an admin can enable him again: steward users enable %s"

// Version is a number that grows whenever a Principal may have changed, so
// that decisions which were made with an older one are made again.
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
	fresh, err := r.meet(ctx, user)
	if err != nil {
		return person{}, err
	}
	fresh.until = now.Add(cacheFor)
	r.remember(fresh, before)
	return fresh, nil
}

// remember keeps what was read of a person, unless a change overtook the
// reading.
func (r *Registry) remember(p person, before uint64) {
	r.crowd.Lock()
	defer r.crowd.Unlock()
	if r.version.Load() != before {
		return
	}
	old, ok := r.people[p.User]
	switch {
	case !ok && len(r.people) >= cacheSize:
		clear(r.people) // rare, and cheaper than keeping an order
		r.version.Add(1)
	case ok && (old.disabled != p.disabled || !slices.Equal(old.Roles, p.Roles) || !slices.Equal(old.Groups, p.Groups)):
		r.version.Add(1) // another process has changed it
	}
	r.people[p.User] = p
}

// meet reads who a user is.
func (r *Registry) meet(ctx context.Context, user string) (person, error) {
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

// changed forgets what is known of people: somebody is another one now.
func (r *Registry) changed() {
	r.crowd.Lock()
	defer r.crowd.Unlock()
	clear(r.people)
	r.version.Add(1)
}
