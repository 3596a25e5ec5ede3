package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/server/httpauth"
)

// People is what the server needs to manage users and groups;
// identity.Registry is one.
type People interface {
	Accounts(ctx context.Context) ([]identity.Account, error)
	Account(ctx context.Context, user string) (identity.Account, error)
	AddUser(ctx context.Context, by, user string, c identity.AccountChange) (identity.Account, error)
	SetUser(ctx context.Context, by, user string, c identity.AccountChange) (identity.Account, error)
	CloseUser(ctx context.Context, by, user string) error
	ForgetUser(ctx context.Context, by, user string) error
	Membership
}

// Eraser is the part of Node that erases what is a user's.
type Eraser interface {
	EraseUser(ctx context.Context, by, user string) error
	EraseEvent(ctx context.Context, by, user string, which id.ID) error
}

// Membership is who is in which group.
type Membership interface {
	Groups(ctx context.Context) ([]identity.Group, error)
	Group(ctx context.Context, name string) (identity.Group, error)
	AddGroup(ctx context.Context, by string, n identity.NewGroup) (identity.Group, error)
	RemoveGroup(ctx context.Context, by, name string) error
	Join(ctx context.Context, by, name, user string, manages bool) (identity.Group, error)
	Leave(ctx context.Context, by, name, user string) (identity.Group, error)
}

// accounts are the routes about users and groups. Admins manage them; others
// see themselves and the groups that they are in, and who manages a group says
// who is in it.
func (f *server) accounts() map[string]serve {
	return map[string]serve{
		"GET /users":               f.users,
		"POST /users":              f.addUser,
		"GET /users/{user}":        f.user,
		"PATCH /users/{user}":      f.setUser,
		"DELETE /users/{user}":     f.deleteUser,
		"DELETE /events/{id}?user": f.eraseEvent,

		"GET /groups":                           f.groups,
		"POST /groups":                          f.addGroup,
		"GET /groups/{group}":                   f.group,
		"DELETE /groups/{group}":                f.removeGroup,
		"PUT /groups/{group}/members/{user}":    f.join,
		"DELETE /groups/{group}/members/{user}": f.leave,
	}
}

// manages refuses callers who may not manage people.
func (f *server) manages(c httpauth.Caller) error {
	if f.People == nil {
		return fault.New(fault.Unsupported, "people_unsupported", "this Steward knows no users")
	}
	if !c.Admin {
		return fault.New(fault.Denied, "admin_only", "only admins manage users and groups").WithHint("ask an admin")
	}
	return nil
}

func (f *server) users(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	if err := f.manages(c); err != nil {
		return err
	}
	list, err := f.People.Accounts(r.Context())
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, struct {
		Users []identity.Account `json:"users"`
	}{list})
}

// user tells of a user: to himself and to admins.
func (f *server) user(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	name := r.PathValue("user")
	if err := f.manages(c); err != nil && (f.People == nil || name != c.User) {
		return err
	}
	a, err := f.People.Account(r.Context(), name)
	if err != nil {
		return err
	}
	all, err := f.People.Groups(r.Context())
	if err != nil {
		return err
	}
	out := struct {
		identity.Account
		Groups []string `json:"groups"`
	}{a, []string{}}
	for _, g := range all {
		if g.Has(name) {
			out.Groups = append(out.Groups, g.Name)
		}
	}
	return reply(w, http.StatusOK, out)
}

func (f *server) addUser(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	if err := f.manages(c); err != nil {
		return err
	}
	var in struct {
		User string `json:"user"`
		identity.AccountChange
	}
	if err := httpauth.Decode(w, r, maxBody, &in); err != nil {
		return err
	}
	a, err := f.People.AddUser(r.Context(), c.User, in.User, in.AccountChange)
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, a)
}

func (f *server) setUser(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	if err := f.manages(c); err != nil {
		return err
	}
	var in identity.AccountChange
	if err := httpauth.Decode(w, r, maxBody, &in); err != nil {
		return err
	}
	a, err := f.People.SetUser(r.Context(), c.User, r.PathValue("user"), in)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, a)
}

// deleteUser erases a user with everything. After a failure it can be asked
// again: the user is let in no more, and the account goes last.
func (f *server) deleteUser(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	if err := f.manages(c); err != nil {
		return err
	}
	user := r.PathValue("user")
	if user == c.User {
		return fault.New(fault.Denied, "own_user", "nobody deletes the own user").WithHint("another admin can do it")
	}
	err := f.People.CloseUser(r.Context(), c.User, user)
	if err == nil {
		err = f.Node.EraseUser(r.Context(), c.User, user)
	}
	if err == nil {
		err = f.People.ForgetUser(r.Context(), c.User, user)
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// eraseEvent erases what the caller has published, or, for admins, another user.
func (f *server) eraseEvent(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	which, ok := id.Parse(r.PathValue("id"))
	if !ok || which.Zero() {
		return fault.New(fault.Invalid, "id_invalid", "%.80q is no id of an event", r.PathValue("id")).WithHint("steward events watch --json tells the ids")
	}
	user := cmp.Or(r.URL.Query().Get("user"), c.User)
	if user != c.User {
		if err := f.manages(c); err != nil {
			return err
		}
	}
	if err := f.Node.EraseEvent(r.Context(), c.User, user, which); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (f *server) groups(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	out := struct {
		Groups []identity.Group `json:"groups"`
	}{[]identity.Group{}}
	if f.People != nil {
		list, err := f.People.Groups(r.Context())
		if err != nil {
			return err
		}
		out.Groups = append(out.Groups, slices.DeleteFunc(list, func(g identity.Group) bool { return !c.Admin && !g.Has(c.User) })...)
	}
	return reply(w, http.StatusOK, out)
}

// seen returns a group that the caller may know of.
func (f *server) seen(r *http.Request, c httpauth.Caller) (identity.Group, error) {
	name := r.PathValue("group")
	none := fault.New(fault.NotFound, "group_not_found", "there is no group %.80q", name).
		WithHint("steward groups list shows those that there are")
	if f.People == nil {
		return identity.Group{}, none
	}
	g, err := f.People.Group(r.Context(), name)
	if err == nil && !c.Admin && !g.Has(c.User) {
		err = none
	}
	return g, err
}

func (f *server) group(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	g, err := f.seen(r, c)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, g)
}

func (f *server) addGroup(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	if err := f.manages(c); err != nil {
		return err
	}
	var in identity.NewGroup
	if err := httpauth.Decode(w, r, maxBody, &in); err != nil {
		return err
	}
	g, err := f.People.AddGroup(r.Context(), c.User, in)
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, g)
}

func (f *server) removeGroup(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	if _, err := f.seen(r, c); err != nil {
		return err
	}
	if err := f.manages(c); err != nil {
		return err
	}
	if err := f.People.RemoveGroup(r.Context(), c.User, r.PathValue("group")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// join makes a user a member, or a member a manager. The body may be left out.
func (f *server) join(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	g, err := f.seen(r, c)
	if err != nil {
		return err
	}
	if !c.Admin && !g.Manages(c.User) {
		return notManager(g)
	}
	var in struct {
		Manages bool `json:"manages"`
	}
	body, err := httpauth.ReadBody(w, r, maxBody)
	if err == nil && len(body) > 0 {
		err = httpauth.Unmarshal(body, &in)
	}
	if err != nil {
		return err
	}
	if g, err = f.People.Join(r.Context(), c.User, g.Name, r.PathValue("user"), in.Manages); err != nil {
		return err
	}
	return reply(w, http.StatusOK, g)
}

func notManager(g identity.Group) error {
	return fault.New(fault.Denied, "manager_only", "who is in the group %s, its managers say", g.Name).
		WithHint("ask one of them, or an admin")
}

// leave ends a membership. Everybody may end his own.
func (f *server) leave(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	g, err := f.seen(r, c)
	if err != nil {
		return err
	}
	user := r.PathValue("user")
	if !c.Admin && !g.Manages(c.User) && user != c.User {
		return notManager(g)
	}
	if g, err = f.People.Leave(r.Context(), c.User, g.Name, user); err != nil {
		return err
	}
	return reply(w, http.StatusOK, g)
}
