package client

import (
	"context"
	"time"
)

// NewServer is an MCP server to add: one that is reached over HTTP, or one that is known by name.
type NewServer struct {
	Name    string            `json:"name"`
	URL     string            `json:"url,omitzero"`
	Token   string            `json:"token,omitzero"`    // it is stored as a secret, and sent to this server
	Known   string            `json:"known,omitzero"`    // the name of a KnownServer, in place of a URL
	Secrets map[string]string `json:"secrets,omitempty"` // those that a KnownServer needs, by name; they are stored, and never returned
}

// KnownServer is an MCP server that needs nothing but its name and its secrets.
type KnownServer struct {
	Name    string        `json:"name"`
	Title   string        `json:"title"` // what its tools reach
	At      string        `json:"at"`    // its address, or the program that is started
	Program bool          `json:"program,omitzero"`
	Added   bool          `json:"added,omitzero"`
	Needs   []KnownSecret `json:"needs,omitempty"`
	Source  string        `json:"source"` // where it is described
}

// KnownSecret is a secret that a server needs.
type KnownSecret struct {
	Name  string `json:"name"`
	About string `json:"about"` // what it is and where to get it
	Have  bool   `json:"have,omitzero"`
}

// Server is an MCP server of the settings.
type Server struct {
	Name      string `json:"name"`
	At        string `json:"at"` // its address, or the program that is started
	Program   bool   `json:"program,omitzero"`
	Removable bool   `json:"removable,omitzero"` // it is in the file that Steward writes
	SignsIn   bool   `json:"signs_in,omitzero"`  // a person may have to sign in there
	SignedIn  bool   `json:"signed_in,omitzero"`
	Lacks     string `json:"lacks,omitzero"` // what it has asked for in vain
}

// Servers are the MCP servers of the settings, and those that can be added by name.
type Servers struct {
	Servers []Server      `json:"servers"`
	Known   []KnownServer `json:"known"`
}

// Servers returns the MCP servers of the settings. It requires an admin.
func (c *Client) Servers(ctx context.Context) (Servers, error) {
	return ask[Servers](ctx, c, "GET /mcp/servers", nil, nil)
}

// AddServer adds an MCP server, whose tools are then approved as an agent is. It requires an admin, and for a server
// that is a program the machine's own user.
func (c *Client) AddServer(ctx context.Context, in NewServer) error {
	return c.Call(ctx, "POST /mcp/servers", nil, in, nil)
}

// RemoveServer removes an MCP server. It requires an admin.
func (c *Client) RemoveServer(ctx context.Context, name string) error {
	return c.Call(ctx, "DELETE /mcp/servers/{name}", Params{"name": name}, nil, nil)
}

// States of a sign-in.
const (
	SignInOpen   = "open"   // a person is asked
	SignInDone   = "done"   // the token is stored
	SignInFailed = "failed" // see Error
)

// SignIn is a sign-in at an MCP server: a person opens a page there and consents.
type SignIn struct {
	Server string    `json:"server"`
	State  string    `json:"state"`
	URL    string    `json:"url,omitzero"`  // the page to open
	Code   string    `json:"code,omitzero"` // to type there, if the consent is given on another device
	Until  time.Time `json:"until,omitzero"`
	Error  string    `json:"error,omitzero"`
}

// BeginSignIn begins a sign-in at an MCP server, in place of one that is open. With device, the person types a code
// on another device. It requires an admin.
func (c *Client) BeginSignIn(ctx context.Context, server string, device bool) (SignIn, error) {
	return ask[SignIn](ctx, c, "POST /mcp/servers/{name}/signin", Params{"name": server}, map[string]bool{"device": device})
}

// SignInState returns the state of a sign-in. With wait, it waits for a while until the sign-in has ended.
func (c *Client) SignInState(ctx context.Context, server string, wait bool) (SignIn, error) {
	return ask[SignIn](ctx, c, "GET /mcp/servers/{name}/signin", Params{"name": server, "wait": yes(wait)}, nil)
}

// AnswerSignIn completes a sign-in with the address to which the server has sent the browser, if that browser cannot
// reach the machine that Steward runs on.
func (c *Client) AnswerSignIn(ctx context.Context, server, address string) (SignIn, error) {
	return ask[SignIn](ctx, c, "PUT /mcp/servers/{name}/signin", Params{"name": server}, map[string]string{"address": address})
}

// Skill is an approved skill: instructions for a kind of work.
type Skill struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Source      string    `json:"source"` // where it came from
	Hash        string    `json:"hash"`
	Approved    time.Time `json:"approved"`
	Text        string    `json:"text,omitzero"`    // of its SKILL.md, only if it alone was requested
	Files       []string  `json:"files,omitempty"`  // likewise
	Changed     string    `json:"changed,omitzero"` // why it cannot be used: its files are not what was approved
}

// FoundSkill is a skill in a source, which is not approved as it is.
type FoundSkill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Hash        string `json:"hash"`            // an approval names it
	State       string `json:"state"`           // new, changed, or approved as it is
	Diff        string `json:"diff"`            // all that differs from what was approved
	Hidden      bool   `json:"hidden,omitzero"` // what looks like a secret is not shown in Diff
}

// Skills returns the approved skills. Skills require the machine's own user.
func (c *Client) Skills(ctx context.Context) ([]Skill, error) {
	return whole[Skill](ctx, c, "GET /skills", "skills", nil)
}

// Skill returns an approved skill with its text.
func (c *Client) Skill(ctx context.Context, name string) (Skill, error) {
	return ask[Skill](ctx, c, "GET /skills/{name}", Params{"name": name}, nil)
}

// FindSkills reads the skills of a source: a folder or a .zip on the machine, or the address of a git repository.
// Nothing of them is run or stored.
func (c *Client) FindSkills(ctx context.Context, source string) ([]FoundSkill, error) {
	out, err := ask[struct{ Skills []FoundSkill }](ctx, c, "POST /skills/find", nil, map[string]string{"source": source})
	return out.Skills, err
}

// ApproveSkill stores a skill of a source, if it still has the hash that was shown.
func (c *Client) ApproveSkill(ctx context.Context, source, name, hash string) error {
	return c.Call(ctx, "POST /skills", nil, map[string]string{"source": source, "name": name, "hash": hash}, nil)
}

// RemoveSkill removes a skill.
func (c *Client) RemoveSkill(ctx context.Context, name string) error {
	return c.Call(ctx, "DELETE /skills/{name}", Params{"name": name}, nil, nil)
}
