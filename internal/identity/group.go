package identity

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// TypeGroup is the type of the resources that record groups and their members.
// They are in the system space.
const TypeGroup = "identity.Group"

// Group is a set of users who share a space.
type Group struct {
	Name     string    `json:"name"`
	Display  string    `json:"display,omitzero"` // the name that people read
	Members  []string  `json:"members"`          // sorted
	Managers []string  `json:"managers"`         // the members who may add and remove members; sorted
	Created  time.Time `json:"created"`
}

// Has reports whether the user is a member.
func (g Group) Has(user string) bool { return slices.Contains(g.Members, user) }

// Manages reports whether the user may add and remove members.
func (g Group) Manages(user string) bool { return slices.Contains(g.Managers, user) }

const (
	termMember = "group_member"
	maxMembers = 10000
)

// CheckGroup checks the name of a group, which is like that of a user
// (group_invalid).
func CheckGroup(name string) error {
	if CheckUser(name) != nil {
		return fault.New(fault.Invalid, "group_invalid", "invalid group name %.80q", name).
			WithHint("use 1 to 64 lower-case letters, digits and . _ - @, beginning with a letter or digit")
	}
	return nil
}

func groupURI(name string) resource.URI { return resource.Root(TypeGroup, name) }

func readGroup(res resource.Resource) (Group, error) {
	g := Group{Members: []string{}, Managers: []string{}}
	if err := json.Unmarshal(res.Body, &g); err != nil {
		return Group{}, broken(res.URI, err)
	}
	g.Name = res.URI.ID()
	return g, nil
}

func (g Group) change(cond store.If) store.Change {
	body, err := json.Marshal(g)
	if err != nil {
		panic(err) // strings and a time of ours: cannot fail
	}
	c := store.Change{URI: groupURI(g.Name), If: cond, Body: body}
	for _, u := range g.Members {
		c.Terms = append(c.Terms, store.Term{Name: termMember, Value: u})
	}
	return c
}

// Groups returns all groups, by name.
func (r *Registry) Groups(ctx context.Context) ([]Group, error) {
	return r.groups(ctx, store.Query{Type: TypeGroup})
}

// groupsOf returns the groups that a user is in.
func (r *Registry) groupsOf(ctx context.Context, user string) ([]Group, error) {
	return r.groups(ctx, store.Query{Type: TypeGroup, Term: store.Term{Name: termMember, Value: user}})
}

func (r *Registry) groups(ctx context.Context, q store.Query) ([]Group, error) {
	out, err := all(ctx, r, q, readGroup)
	slices.SortFunc(out, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// Group returns a group. Errors: group_not_found, and the store's.
func (r *Registry) Group(ctx context.Context, name string) (Group, error) {
	g, _, err := r.group(ctx, name)
	return g, err
}

func (r *Registry) group(ctx context.Context, name string) (Group, uint64, error) {
	if CheckGroup(name) != nil {
		return Group{}, 0, NoGroup(name)
	}
	res, err := r.store.Get(ctx, system, groupURI(name))
	if fault.Is(err, fault.NotFound) {
		return Group{}, 0, NoGroup(name)
	}
	if err != nil {
		return Group{}, 0, err
	}
	g, err := readGroup(res)
	return g, res.Version, err
}

// NoGroup returns the error for a group that does not exist (group_not_found).
func NoGroup(name string) error {
	return fault.New(fault.NotFound, "group_not_found", "there is no group %.80q", name).
		WithHint("steward groups list shows the groups")
}

// NewGroup describes a group to create.
type NewGroup struct {
	Name     string   `json:"name"`
	Display  string   `json:"display"`
	Members  []string `json:"members"`
	Managers []string `json:"managers"` // also become members
	// Inherit gives the new members the resources that an earlier group of this
	// name left behind.
	Inherit bool `json:"inherit"`
}

// AddGroup creates a group on behalf of by. Errors: group_invalid,
// group_exists and group_left (Conflict; an earlier group of this name left
// resources), display_invalid, user_invalid, group_full, and the store's.
func (r *Registry) AddGroup(ctx context.Context, by string, n NewGroup) (Group, error) {
	if err := CheckGroup(n.Name); err != nil {
		return Group{}, err
	}
	if err := checkText("display_invalid", "the name of a group", n.Display, maxDisplay); err != nil {
		return Group{}, err
	}
	g := Group{Name: n.Name, Display: n.Display, Created: time.Now().UTC().Truncate(time.Microsecond)}
	g.Managers = slices.Compact(slices.Sorted(slices.Values(n.Managers)))
	g.Members = slices.Compact(slices.Sorted(slices.Values(slices.Concat(n.Members, n.Managers))))
	for _, u := range g.Members {
		if err := r.checkNamed(ctx, u); err != nil {
			return Group{}, err
		}
	}
	if err := g.check(); err != nil {
		return Group{}, err
	}
	if !n.Inherit {
		if err := r.checkNoLeftovers(ctx, n.Name); err != nil {
			return Group{}, err
		}
	}
	_, err := r.store.Commit(ctx, systemBy(by), store.Batch{Changes: []store.Change{g.change(store.If{Absent: true})}})
	if fault.Is(err, fault.Conflict) {
		return Group{}, fault.New(fault.Conflict, "group_exists", "the group %s already exists", n.Name).
			WithHint("steward groups show %s shows it", n.Name)
	}
	if err != nil {
		return Group{}, err
	}
	r.changed()
	return r.Group(ctx, n.Name)
}

func (g Group) check() error {
	if len(g.Members) > maxMembers {
		return fault.New(fault.Invalid, "group_full", "a group has at most %d members", maxMembers).WithHint("create another group")
	}
	return nil
}

// checkNoLeftovers refuses a name if an earlier group of that name left resources in
// its space: new members must not see what was never shared with them.
func (r *Registry) checkNoLeftovers(ctx context.Context, name string) error {
	if _, err := r.Group(ctx, name); !fault.Is(err, fault.NotFound) {
		return err // if it exists, the commit reports that
	}
	// Deleted resources count too: their history and events can still be read.
	sc := store.Scope{Actor: "system", Read: []resource.Space{resource.GroupSpace(name)}}
	for _, err := range store.Entries(ctx, r.store, sc, store.LogQuery{Limit: 1}) {
		if err != nil {
			return err
		}
		return fault.New(fault.Conflict, "group_left", "a group %s existed before, and its shared data remains, at least in the log", name).
			WithHint("choose another name, or use --inherit to give the new members access to it")
	}
	return nil
}

// RemoveGroup deletes a group on behalf of by. Its resources are kept, but
// nobody can read them. Errors: group_not_found, and the store's.
func (r *Registry) RemoveGroup(ctx context.Context, by, name string) error {
	if _, _, err := r.group(ctx, name); err != nil {
		return err
	}
	_, err := r.store.Commit(ctx, systemBy(by), store.Batch{Changes: []store.Change{{Op: store.Delete, URI: groupURI(name)}}})
	if err == nil {
		r.changed()
	}
	return err
}

// Join makes a user a member of a group on behalf of by. manages says whether
// the user may manage the members. Errors: user_invalid, group_not_found,
// group_full, and the store's.
func (r *Registry) Join(ctx context.Context, by, name, user string, manages bool) (Group, error) {
	if err := r.checkNamed(ctx, user); err != nil {
		return Group{}, err
	}
	return r.setGroup(ctx, by, name, func(g *Group) error {
		g.Members = with(g.Members, user)
		g.Managers = without(g.Managers, user)
		if manages {
			g.Managers = with(g.Managers, user)
		}
		return g.check()
	})
}

// Leave ends a user's membership on behalf of by. In this process it takes
// effect at once.
// Errors: group_not_found, not_a_member, and the store's.
func (r *Registry) Leave(ctx context.Context, by, name, user string) (Group, error) {
	return r.setGroup(ctx, by, name, func(g *Group) error {
		if !g.Has(user) {
			return fault.New(fault.NotFound, "not_a_member", "%.80s is not in the group %s", user, name).
				WithHint("steward groups show %s shows its members", name)
		}
		g.Members, g.Managers = without(g.Members, user), without(g.Managers, user)
		return nil
	})
}

func (r *Registry) setGroup(ctx context.Context, by, name string, change func(*Group) error) (Group, error) {
	for {
		g, version, err := r.group(ctx, name)
		if err != nil {
			return Group{}, err
		}
		members, managers := g.Members, g.Managers
		if err := change(&g); err != nil {
			return Group{}, err
		}
		if slices.Equal(members, g.Members) && slices.Equal(managers, g.Managers) {
			return g, nil
		}
		_, err = r.store.Commit(ctx, systemBy(by), store.Batch{Changes: []store.Change{g.change(store.If{Version: version})}})
		if fault.Is(err, fault.Conflict) {
			continue // another change came first: retry
		}
		if err != nil {
			return Group{}, err
		}
		r.changed()
		return g, nil
	}
}

func with(list []string, s string) []string {
	return slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(list), s))))
}

func without(list []string, s string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(x string) bool { return x == s })
}
