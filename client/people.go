package client

import (
	"context"
	"slices"
	"time"
)

// User is a user of Steward.
type User struct {
	User     string    `json:"user"`
	Display  string    `json:"display,omitzero"`
	Roles    []string  `json:"roles"`
	Disabled bool      `json:"disabled,omitzero"`
	Created  time.Time `json:"created,omitzero"` // zero: the user has no account record
	Groups   []string  `json:"groups,omitzero"`  // only if a single user was requested
}

// Users returns all users. It requires an admin.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	return whole[User](ctx, c, "GET /users", "users", nil)
}

// User returns one user with the user's groups.
func (c *Client) User(ctx context.Context, name string) (User, error) {
	return ask[User](ctx, c, "GET /users/{user}", Params{"user": name}, nil)
}

// AddUser adds a user. about holds the user's settings: display, roles, disabled.
func (c *Client) AddUser(ctx context.Context, name string, about map[string]any) (User, error) {
	in := map[string]any{"user": name}
	for member, value := range about {
		in[member] = value
	}
	return ask[User](ctx, c, "POST /users", nil, in)
}

// SetUser changes settings of a user, named as for AddUser.
func (c *Client) SetUser(ctx context.Context, name string, change map[string]any) (User, error) {
	return ask[User](ctx, c, "PATCH /users/{user}", Params{"user": name}, change)
}

// DeleteUser erases a user and everything that belongs to the user.
func (c *Client) DeleteUser(ctx context.Context, name string) error {
	return c.Call(ctx, "DELETE /users/{user}", Params{"user": name}, nil, nil)
}

// EraseEvent erases an event that the caller has published. Admins may also erase events of another
// user.
func (c *Client) EraseEvent(ctx context.Context, event, user string) error {
	return c.Call(ctx, "DELETE /events/{id}", Params{"id": event, "user": user}, nil, nil)
}

// Group is a group of users who share a space.
type Group struct {
	Name     string    `json:"name"`
	Display  string    `json:"display,omitzero"`
	Members  []string  `json:"members"`
	Managers []string  `json:"managers"` // the members who choose the other members
	Created  time.Time `json:"created"`
}

// Has reports whether a user is a member.
func (g Group) Has(user string) bool { return slices.Contains(g.Members, user) }

// Groups returns the groups that are visible to the caller.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	return whole[Group](ctx, c, "GET /groups", "groups", nil)
}

// Group returns one group.
func (c *Client) Group(ctx context.Context, name string) (Group, error) {
	return ask[Group](ctx, c, "GET /groups/{group}", Params{"group": name}, nil)
}

// NewGroup describes a group to add.
type NewGroup struct {
	Name     string   `json:"name"`
	Display  string   `json:"display"`
	Members  []string `json:"members"`
	Managers []string `json:"managers"`
	Inherit  bool     `json:"inherit"` // take over what a removed group of this name has left
}

// AddGroup adds a group.
func (c *Client) AddGroup(ctx context.Context, g NewGroup) (Group, error) {
	return ask[Group](ctx, c, "POST /groups", nil, g)
}

// RemoveGroup removes a group. Whatever its members shared is kept.
func (c *Client) RemoveGroup(ctx context.Context, name string) error {
	return c.Call(ctx, "DELETE /groups/{group}", Params{"group": name}, nil, nil)
}

// JoinGroup makes a user a member or a manager of a group.
func (c *Client) JoinGroup(ctx context.Context, group, user string, manages bool) (Group, error) {
	return ask[Group](ctx, c, "PUT /groups/{group}/members/{user}", Params{"group": group, "user": user}, map[string]bool{"manages": manages})
}

// LeaveGroup removes a user from a group.
func (c *Client) LeaveGroup(ctx context.Context, group, user string) (Group, error) {
	return ask[Group](ctx, c, "DELETE /groups/{group}/members/{user}", Params{"group": group, "user": user}, nil)
}

// Key is a credential of a user.
type Key struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Name    string    `json:"name,omitzero"`
	Hint    string    `json:"hint"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	Usable  bool      `json:"usable"`
	Only    string    `json:"only,omitzero"`    // the one thing that it opens, such as "metrics"; empty: everything of its user
	Secret  string    `json:"secret,omitempty"` // returned only when the key is created
}

// Keys returns the keys of one user, or of all users.
func (c *Client) Keys(ctx context.Context, user string) ([]Key, error) {
	return whole[Key](ctx, c, "GET /keys", "keys", Params{"user": user})
}

// CreateKey creates a key. A zero expires means that the key never expires.
func (c *Client) CreateKey(ctx context.Context, user, name string, expires time.Time) (Key, error) {
	return c.CreateLimitedKey(ctx, user, name, "", expires)
}

// CreateLimitedKey creates a key that opens one thing only, such as "metrics"; with "", everything of its user.
func (c *Client) CreateLimitedKey(ctx context.Context, user, name, only string, expires time.Time) (Key, error) {
	in := map[string]any{"user": user, "name": name}
	if only != "" {
		in["only"] = only
	}
	if !expires.IsZero() {
		in["expires"] = expires
	}
	return ask[Key](ctx, c, "POST /keys", nil, in)
}

// RevokeKey revokes a key at once.
func (c *Client) RevokeKey(ctx context.Context, key string) error {
	return c.Call(ctx, "DELETE /keys/{id}", Params{"id": key}, nil, nil)
}

// SignInLink signs a browser in, once.
type SignInLink struct {
	User    string    `json:"user"`
	Secret  string    `json:"secret"`
	Path    string    `json:"path"` // below the URL of the server
	Expires time.Time `json:"expires"`
}

// NewLink makes a link that signs a browser in as a user, within a duration of at most 7 days; empty: as the
// caller, within 15 minutes.
func (c *Client) NewLink(ctx context.Context, user, within string) (SignInLink, error) {
	return ask[SignInLink](ctx, c, "POST /links", nil, map[string]string{"user": user, "within": within})
}

// Session is a browser that is signed in.
type Session struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Browser string    `json:"browser"`
	Created time.Time `json:"created"`
	Seen    time.Time `json:"seen"` // of the last use, within the hour
}

// Sessions returns the browsers that are signed in as a user; empty: as the caller.
func (c *Client) Sessions(ctx context.Context, user string) ([]Session, error) {
	return whole[Session](ctx, c, "GET /sessions", "sessions", Params{"user": user})
}

// EndSession signs a browser out.
func (c *Client) EndSession(ctx context.Context, session, user string) error {
	return c.Call(ctx, "DELETE /sessions/{id}", Params{"id": session, "user": user}, nil, nil)
}
