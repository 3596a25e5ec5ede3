package client

import (
	"context"
	"time"
)

// Setting is one effective setting. Secrets are masked.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"` // default, or a file with the line, a variable or a flag
	Doc   string `json:"doc,omitzero"`

	Type    string   `json:"type,omitzero"` // what its values are, in words
	Choices []string `json:"choices,omitempty"`
	Default string   `json:"default,omitzero"`

	Right  string `json:"right,omitzero"`   // who may change it here: admin, or owner for the machine's own user; empty: it is changed in the settings file
	Fixed  string `json:"fixed,omitzero"`   // what sets it in place of the user's file, so that a change here would have no effect
	AtOnce bool   `json:"at_once,omitzero"` // a change is in force at once, not from the next start on
	Waits  bool   `json:"waits,omitzero"`   // it has changed, and this value is in force from the next start on
}

// Settings are all effective settings of this Steward.
type Settings struct {
	Files    []string  `json:"files"`
	Notices  []string  `json:"notices"`
	Settings []Setting `json:"settings"`
}

// Settings returns every effective setting and where it comes from. It requires an admin.
func (c *Client) Settings(ctx context.Context) (Settings, error) {
	return ask[Settings](ctx, c, "GET /settings", nil, nil)
}

// SetSetting changes a setting in the user's file. It requires an admin, and for some the machine's own user.
func (c *Client) SetSetting(ctx context.Context, key, value string) (Setting, error) {
	return ask[Setting](ctx, c, "PUT /settings/{key}", Params{"key": key}, map[string]string{"value": value})
}

// UnsetSetting removes a setting from the user's file, so that its default counts.
func (c *Client) UnsetSetting(ctx context.Context, key string) (Setting, error) {
	return ask[Setting](ctx, c, "DELETE /settings/{key}", Params{"key": key}, nil)
}

// Budget limits what models may use. Zero means no limit.
type Budget struct {
	Tokens int64   `json:"tokens,omitzero"` // in and out
	Cost   float64 `json:"cost,omitzero"`   // USD
}

// Spending is what somebody has used of a budget today.
type Spending struct {
	Name   string  `json:"name"` // of the user or the agent
	Calls  int     `json:"calls"`
	Tokens int64   `json:"tokens"`
	Cost   float64 `json:"cost"`         // USD
	Limit  Budget  `json:"limit"`        // of a user in a day, of an agent in one run
	Own    bool    `json:"own,omitzero"` // the limit is of this user alone
}

// Budgets are the limits of what models may use, and what was used today.
type Budgets struct {
	Answer Budget     `json:"answer"` // of one answer
	Day    Budget     `json:"day"`    // of one user in a day, unless the user has a limit of their own
	Begins time.Time  `json:"begins"` // of today
	Ends   time.Time  `json:"ends"`
	Users  []Spending `json:"users"` // only the caller, unless the caller is an admin
	Agents []Spending `json:"agents"`
}

// Budgets returns the caller's budget and what is used of it; for an admin, those of all users.
func (c *Client) Budgets(ctx context.Context) (Budgets, error) {
	return ask[Budgets](ctx, c, "GET /budgets", nil, nil)
}

// Provider is a provider of models.
type Provider struct {
	Name      string   `json:"name"`
	Title     string   `json:"title"`
	Access    string   `json:"access"` // key, server, local or built in
	Connected bool     `json:"connected"`
	Found     string   `json:"found,omitzero"`    // how it was found
	KeyFrom   string   `json:"key_from,omitzero"` // where its key comes from; empty: it has none
	BaseURL   string   `json:"base_url,omitzero"`
	Off       bool     `json:"off,omitzero"`
	Error     string   `json:"error,omitzero"` // why it does not list its models
	Models    []string `json:"models,omitempty"`
}

// LocalModel is a model that people can run themselves.
type LocalModel struct {
	Name     string  `json:"name"`
	Download float64 `json:"download_gb"`
	Memory   float64 `json:"memory_gb"`
	Fits     bool    `json:"fits"` // into the memory of this machine
}

// Providers are the providers of models, and what answers by default.
type Providers struct {
	Providers []Provider          `json:"providers"`
	Aliases   map[string][]string `json:"aliases"`
	Offline   bool                `json:"offline"` // only the built-in provider answers by default
	Local     []LocalModel        `json:"local"`
	LocalHow  string              `json:"local_how"` // the command that fetches one
	LocalFrom string              `json:"local_from"`
}

// Providers returns the providers of models. It requires an admin.
func (c *Client) Providers(ctx context.Context) (Providers, error) {
	return ask[Providers](ctx, c, "GET /providers", nil, nil)
}

// Connection is what connects a provider.
type Connection struct {
	Provider  string `json:"provider,omitzero"` // empty: it is recognised by the key
	Key       string `json:"key,omitzero"`      // it is stored as a secret, and never returned
	BaseURL   string `json:"base_url,omitzero"`
	Model     string `json:"model,omitzero"`     // to try, with or without the name of the provider before it; empty: the provider's default
	Unchecked bool   `json:"unchecked,omitzero"` // store it even if the trial call fails
}

// Tried is what the trial call of a model has shown.
type Tried struct {
	Model   string        `json:"model"`
	Tools   bool          `json:"tools"` // it uses tools
	Took    time.Duration `json:"took_ns"`
	Default bool          `json:"default"` // it is the default model now
	Failed  string        `json:"failed,omitzero"`
}

// ConnectProvider tries a provider and, if it answers, keeps it. It requires an admin.
func (c *Client) ConnectProvider(ctx context.Context, in Connection) (Tried, error) {
	return ask[Tried](ctx, c, "POST /providers", nil, in)
}

// DisconnectProvider turns a provider off and removes the key that Steward has stored for it.
func (c *Client) DisconnectProvider(ctx context.Context, name string) error {
	return c.Call(ctx, "DELETE /providers/{name}", Params{"name": name}, nil, nil)
}

// TestModel calls a model once, with a tool that it should use. It requires an admin.
func (c *Client) TestModel(ctx context.Context, model string) (Tried, error) {
	return ask[Tried](ctx, c, "POST /models/test", nil, map[string]string{"model": model})
}

// UseModel makes a model the one that answers by default.
func (c *Client) UseModel(ctx context.Context, model string) error {
	return c.Call(ctx, "PUT /models/default", nil, map[string]string{"model": model}, nil)
}

// FindModels reads the settings and looks for local models again. It requires an admin.
func (c *Client) FindModels(ctx context.Context) error {
	return c.Call(ctx, "POST /models/find", nil, nil, nil)
}

// Policies are the policies in force.
type Policies struct {
	Version string       `json:"version"`
	Broken  string       `json:"broken,omitzero"` // why the files in the folder are not in force
	Files   []PolicyFile `json:"files,omitzero"`  // only for admins
}

// PolicyFile is a file of policies.
type PolicyFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
	New  bool   `json:"new,omitzero"` // of a file to try or to write: it must not replace another
}

// Policies returns the policies in force.
func (c *Client) Policies(ctx context.Context) (Policies, error) {
	return ask[Policies](ctx, c, "GET /policy", nil, nil)
}

// NewChannel is an account at a messenger to set up.
type NewChannel struct {
	Kind      string            `json:"kind"`
	Name      string            `json:"name,omitzero"` // in the settings; empty: its kind
	Token     string            `json:"token"`         // it is stored as a secret, and never returned
	BaseURL   string            `json:"base_url,omitzero"`
	Settings  map[string]string `json:"settings,omitempty"` // what the service needs besides
	Unchecked bool              `json:"unchecked,omitzero"` // store it even if the service does not say who the account is
}

// ChannelAccount is what a service calls an account.
type ChannelAccount struct {
	Account string `json:"account"`
}

// AddChannel sets up an account at a messenger, which is used after the next start. It requires an admin.
func (c *Client) AddChannel(ctx context.Context, in NewChannel) (ChannelAccount, error) {
	return ask[ChannelAccount](ctx, c, "POST /channels", nil, in)
}

// TestChannel asks the service who an account is. It requires an admin.
func (c *Client) TestChannel(ctx context.Context, name string) (ChannelAccount, error) {
	return ask[ChannelAccount](ctx, c, "POST /channels/{name}/test", Params{"name": name}, nil)
}

// RemoveChannel turns an account off from the next start on, and forgets its token. It requires an admin.
func (c *Client) RemoveChannel(ctx context.Context, name string) error {
	return c.Call(ctx, "DELETE /channels/{name}", Params{"name": name}, nil, nil)
}

// PolicyTrial says what a changed file of policies would decide otherwise.
type PolicyTrial struct {
	Tried   int            `json:"tried"` // recorded actions that were decided again
	Changes []PolicyChange `json:"changes"`
}

// PolicyChange is an action that would be decided otherwise.
type PolicyChange struct {
	Intent string    `json:"intent"`
	About  string    `json:"about"`
	At     time.Time `json:"at"`
	Now    string    `json:"now"` // allow, ask or deny
	Then   string    `json:"then"`
	Reason string    `json:"reason,omitzero"`
}

// TryPolicy decides the caller's newest actions again, as if a file of policies were another. It requires an admin.
func (c *Client) TryPolicy(ctx context.Context, f PolicyFile) (PolicyTrial, error) {
	return ask[PolicyTrial](ctx, c, "POST /policy/try", nil, f)
}

// WritePolicy writes a file of policies, which is then in force. It requires an admin.
func (c *Client) WritePolicy(ctx context.Context, f PolicyFile) error {
	return c.Call(ctx, "PUT /policy/file", nil, f, nil)
}
