package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"steward/client"
	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
)

func viewKey(k identity.Key) client.Key {
	return client.Key{ID: k.ID.String(), User: k.User, Name: k.Name, Hint: k.Hint, Created: k.Created, Expires: k.Expires, Revoked: k.Revoked, Only: k.Only, Usable: k.Usable(time.Now())}
}

// managesKeys refuses callers who may not manage keys.
func managesKeys(c *call) error {
	return admins(c, "keys are managed on the machine that Steward runs on", "use steward keys there")
}

func (f *server) keys(ctx context.Context, c *call, in struct {
	User string `query:"user"`
}) (map[string][]client.Key, error) {
	if err := managesKeys(c); err != nil {
		return nil, err
	}
	list, err := f.People.List(ctx, in.User)
	out := make([]client.Key, len(list))
	for i, k := range list {
		out[i] = viewKey(k)
	}
	return the("keys", out), err
}

func (f *server) createKey(ctx context.Context, c *call, in struct {
	Body struct {
		User    string    `json:"user"`
		Name    string    `json:"name"`
		Expires time.Time `json:"expires"`
		Only    string    `json:"only"`
	} `body:""`
}) (client.Key, error) {
	if err := managesKeys(c); err != nil {
		return client.Key{}, err
	}
	k, secret, err := f.People.CreateOnly(ctx, c.User, in.Body.User, in.Body.Name, in.Body.Only, in.Body.Expires)
	out := viewKey(k)
	out.Secret = secret
	return out, err
}

func (f *server) revokeKey(ctx context.Context, c *call, in struct {
	ID id.ID `path:"id" what:"key"`
}) (noContent, error) {
	if err := managesKeys(c); err != nil {
		return noContent{}, err
	}
	return noContent{}, f.People.Revoke(ctx, c.User, in.ID)
}

// createLink makes a link by which a browser signs in as the caller or, if an administrator asks, as another user.
func (f *server) createLink(ctx context.Context, c *call, in struct {
	Body struct {
		User   string `json:"user"`
		Within string `json:"within"`
	} `body:""`
}) (client.SignInLink, error) {
	user, within := cmp.Or(in.Body.User, c.User), 15*time.Minute
	if user != c.User {
		if err := managesKeys(c); err != nil {
			return client.SignInLink{}, err
		}
	}
	if in.Body.Within != "" {
		var err error
		if within, err = time.ParseDuration(in.Body.Within); err != nil {
			return client.SignInLink{}, fault.New(fault.Invalid, "link_expiry_invalid", "%.40q is not a duration", in.Body.Within).WithHint("write 15m or 24h")
		}
	}
	secret, err := f.People.NewLink(ctx, c.User, user, within)
	return client.SignInLink{User: user, Secret: secret, Path: "/in#" + secret, Expires: time.Now().Add(within).UTC().Truncate(time.Second)}, err
}

// sessions answers with the browsers that are signed in as the caller or, if an administrator asks, as another
// user.
func (f *server) sessions(ctx context.Context, c *call, in struct {
	User string `query:"user"`
}) (map[string][]client.Session, error) {
	user := cmp.Or(in.User, c.User)
	if user != c.User {
		if err := managesKeys(c); err != nil {
			return nil, err
		}
	}
	list, err := f.People.Sessions(ctx, user)
	out := make([]client.Session, len(list))
	for i, s := range list {
		out[i] = client.Session{ID: s.ID.String(), User: s.User, Browser: s.Browser, Created: s.Created, Seen: s.Seen}
	}
	return the("sessions", out), err
}

func (f *server) endSession(ctx context.Context, c *call, in struct {
	ID   id.ID  `path:"id" what:"session"`
	User string `query:"user"`
}) (noContent, error) {
	user := cmp.Or(in.User, c.User)
	if user != c.User {
		if err := managesKeys(c); err != nil {
			return noContent{}, err
		}
	}
	return noContent{}, f.People.EndSession(ctx, c.User, user, in.ID)
}

func (f *server) profile(ctx context.Context, c *call, _ struct{}) (identity.Profile, error) {
	return f.People.Profile(ctx, c.User)
}

func (f *server) setProfile(ctx context.Context, c *call, in struct {
	Body identity.Profile `body:""`
}) (identity.Profile, error) {
	return f.People.SetProfile(ctx, c.User, in.Body)
}

// personaList are the personas that a user can choose, and the choices by agent.
type personaList struct {
	Personas map[string]identity.Persona `json:"personas"`
	Chosen   map[string]string           `json:"chosen"`
}

func personasOf(p identity.Profile, err error) (personaList, error) {
	if p.Persona == nil {
		p.Persona = map[string]string{}
	}
	return personaList{p.AllPersonas(), p.Persona}, err
}

func (f *server) personas(ctx context.Context, c *call, _ struct{}) (personaList, error) {
	return personasOf(f.People.About(ctx, c.User, f.Own))
}

func (f *server) choosePersona(ctx context.Context, c *call, in struct {
	Body struct {
		Agent   string `json:"agent"`
		Persona string `json:"persona"`
	} `body:""`
}) (personaList, error) {
	return personasOf(f.People.ChoosePersona(ctx, c.User, f.Own, cmp.Or(in.Body.Agent, identity.AnyAgent), in.Body.Persona))
}

// Admins manage users and groups. Other users see themselves and their own groups. The
// managers of a group choose its members.

// managesPeople refuses callers who may not manage people.
func managesPeople(c *call) error {
	return admins(c, "only admins manage users and groups", "ask an admin")
}

func (f *server) users(ctx context.Context, c *call, _ struct{}) (map[string][]identity.Account, error) {
	if err := managesPeople(c); err != nil {
		return nil, err
	}
	list, err := f.People.Accounts(ctx)
	return the("users", list), err
}

// inUser is the path parameter that names a user.
type inUser struct {
	User string `path:"user"`
}

type userView struct {
	identity.Account
	Groups []string `json:"groups"`
}

// user answers with a user. Only the user and admins may call it.
func (f *server) user(ctx context.Context, c *call, in inUser) (userView, error) {
	if err := managesPeople(c); err != nil && in.User != c.User {
		return userView{}, err
	}
	a, err := f.People.Account(ctx, in.User)
	if err != nil {
		return userView{}, err
	}
	groups, err := f.People.Groups(ctx)
	out := userView{a, []string{}}
	for _, g := range groups {
		if g.Has(in.User) {
			out.Groups = append(out.Groups, g.Name)
		}
	}
	return out, err
}

func (f *server) addUser(ctx context.Context, c *call, in struct {
	Body struct {
		User string `json:"user"`
		identity.AccountChange
	} `body:""`
}) (identity.Account, error) {
	if err := managesPeople(c); err != nil {
		return identity.Account{}, err
	}
	return f.People.AddUser(ctx, c.User, in.Body.User, in.Body.AccountChange)
}

func (f *server) setUser(ctx context.Context, c *call, in struct {
	inUser
	Body identity.AccountChange `body:""`
}) (identity.Account, error) {
	if err := managesPeople(c); err != nil {
		return identity.Account{}, err
	}
	return f.People.SetUser(ctx, c.User, in.User, in.Body)
}

// deleteUser erases a user and all their data. It can be retried after a failure: it locks
// the user out first and removes the account last.
func (f *server) deleteUser(ctx context.Context, c *call, in inUser) (noContent, error) {
	if err := managesPeople(c); err != nil {
		return noContent{}, err
	}
	if in.User == c.User {
		return noContent{}, fault.New(fault.Denied, "own_user", "you cannot delete your own user").WithHint("another admin can do it")
	}
	err := f.People.CloseUser(ctx, c.User, in.User)
	if err == nil {
		err = f.Node.EraseUser(ctx, c.User, in.User)
	}
	if err == nil {
		err = f.People.ForgetUser(ctx, c.User, in.User)
	}
	return noContent{}, err
}

// publish appends an event to the log.
func (f *server) publish(ctx context.Context, c *call, in struct {
	Event events.Publication `body:"" size:"131072"`
}) (events.Published, error) {
	if err := c.Store(ctx, max(c.r.ContentLength, 0)); err != nil {
		return events.Published{}, err
	}
	return f.Node.Publish(ctx, c.User, in.Event)
}

// eraseEvent erases an event that the caller has published. Admins may name another user.
func (f *server) eraseEvent(ctx context.Context, c *call, in ofUser) (noContent, error) {
	which, ok := id.Parse(in.ID)
	if !ok || which.Zero() {
		return noContent{}, fault.New(fault.Invalid, "id_invalid", "%.80q is not the id of an event", in.ID).WithHint("steward events watch --json shows the ids")
	}
	user := cmp.Or(in.User, c.User)
	if user != c.User {
		if err := managesPeople(c); err != nil {
			return noContent{}, err
		}
		if err := identity.CheckActsFor(c.User, user); err != nil {
			return noContent{}, err
		}
	}
	return noContent{}, f.Node.EraseEvent(ctx, c.User, user, which)
}

func (f *server) groups(ctx context.Context, c *call, _ struct{}) (map[string][]identity.Group, error) {
	list, err := f.People.Groups(ctx)
	hidden := func(g identity.Group) bool { return !c.Admin && !g.Has(c.User) }
	return the("groups", all(slices.DeleteFunc(list, hidden))), err
}

// inGroup is the path parameter that names a group.
type inGroup struct {
	Group string `path:"group"`
}

// seen returns a group if the caller may see it.
func (f *server) seen(ctx context.Context, c *call, name string) (identity.Group, error) {
	g, err := f.People.Group(ctx, name)
	if err == nil && !c.Admin && !g.Has(c.User) {
		return identity.Group{}, identity.NoGroup(name)
	}
	return g, err
}

func (f *server) group(ctx context.Context, c *call, in inGroup) (identity.Group, error) {
	return f.seen(ctx, c, in.Group)
}

func (f *server) addGroup(ctx context.Context, c *call, in struct {
	Body identity.NewGroup `body:""`
}) (identity.Group, error) {
	if err := managesPeople(c); err != nil {
		return identity.Group{}, err
	}
	return f.People.AddGroup(ctx, c.User, in.Body)
}

func (f *server) removeGroup(ctx context.Context, c *call, in inGroup) (noContent, error) {
	_, err := f.seen(ctx, c, in.Group)
	if err == nil {
		err = managesPeople(c)
	}
	if err == nil {
		err = f.People.RemoveGroup(ctx, c.User, in.Group)
	}
	return noContent{}, err
}

// join makes a user a member, or a member a manager.
func (f *server) join(ctx context.Context, c *call, in struct {
	inGroup
	inUser
	Body struct {
		Manages bool `json:"manages"`
	} `body:"optional"`
}) (identity.Group, error) {
	g, err := f.seen(ctx, c, in.Group)
	if err == nil && !c.Admin && !g.Manages(c.User) {
		err = notManager(g)
	}
	if err != nil {
		return identity.Group{}, err
	}
	return f.People.Join(ctx, c.User, g.Name, in.User, in.Body.Manages)
}

func notManager(g identity.Group) error {
	return fault.New(fault.Denied, "manager_only", "only its managers can change the members of the group %s", g.Name).
		WithHint("ask one of them, or an admin")
}

// leave ends a membership. Users may always end their own.
func (f *server) leave(ctx context.Context, c *call, in struct {
	inGroup
	inUser
}) (identity.Group, error) {
	g, err := f.seen(ctx, c, in.Group)
	if err == nil && !c.Admin && !g.Manages(c.User) && in.User != c.User {
		err = notManager(g)
	}
	if err != nil {
		return identity.Group{}, err
	}
	return f.People.Leave(ctx, c.User, g.Name, in.User)
}
