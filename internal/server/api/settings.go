package api

import (
	"context"

	"steward/client"
	"steward/internal/identity"
	"steward/internal/requests"
	"steward/internal/store"
)

// Setup reads and changes the settings of this Steward; package app implements it. What it changes is in force
// when it returns.
type Setup interface {
	Settings(ctx context.Context) (client.Settings, error)
	Set(ctx context.Context, user, key string, value *string) (client.Setting, error) // nil: it is removed from the file
	Budgets(ctx context.Context) (client.Budgets, func(user string) (limit client.Budget, own bool))
	Providers(ctx context.Context) (client.Providers, error)
	Connect(ctx context.Context, user string, in client.Connection) (client.Tried, error)
	Disconnect(ctx context.Context, user, provider string) error
	Try(ctx context.Context, user, model string) (client.Tried, error)
	Use(ctx context.Context, user, model string) error
	AddChannel(ctx context.Context, user string, in client.NewChannel) (client.ChannelAccount, error)
	TestChannel(ctx context.Context, name string) (client.ChannelAccount, error)
	RemoveChannel(ctx context.Context, user, name string) error
	AddServer(ctx context.Context, user string, in client.NewServer) error
	RemoveServer(ctx context.Context, user, name string) error
	Servers(ctx context.Context) (client.Servers, error)
	BeginSignIn(ctx context.Context, user, server string, device bool) (client.SignIn, error)
	SignInState(ctx context.Context, server string, wait bool) (client.SignIn, error)
	AnswerSignIn(ctx context.Context, server, address string) (client.SignIn, error)
	Skills(ctx context.Context) ([]client.Skill, error)
	Skill(ctx context.Context, name string) (client.Skill, error)
	FindSkills(ctx context.Context, source string) ([]client.FoundSkill, error)
	ApproveSkill(ctx context.Context, user, source, name, hash string) error
	RemoveSkill(ctx context.Context, user, name string) error
	Find(ctx context.Context) error // looks for models again
}

// managesSettings refuses callers who may neither see nor change the settings.
func (f *server) managesSettings(c *call) error {
	if err := admins(c, "only admins see and change the settings", "ask an admin"); err != nil {
		return err
	}
	if f.Setup == nil {
		return unsupported("settings", "this Steward does not serve its settings")
	}
	return nil
}

func (f *server) settings(ctx context.Context, c *call, _ struct{}) (client.Settings, error) {
	if err := f.managesSettings(c); err != nil {
		return client.Settings{}, err
	}
	return f.Setup.Settings(ctx)
}

// inKey is the path parameter that names a setting.
type inKey struct {
	Key string `path:"key"`
}

func (f *server) setSetting(ctx context.Context, c *call, in struct {
	inKey
	Body struct {
		Value string `json:"value"`
	} `body:""`
}) (client.Setting, error) {
	if err := f.managesSettings(c); err != nil {
		return client.Setting{}, err
	}
	return f.Setup.Set(ctx, c.User, in.Key, &in.Body.Value)
}

func (f *server) unsetSetting(ctx context.Context, c *call, in inKey) (client.Setting, error) {
	if err := f.managesSettings(c); err != nil {
		return client.Setting{}, err
	}
	return f.Setup.Set(ctx, c.User, in.Key, nil)
}

// budgets answers with the caller's budget and what was used of it today; for an admin, with those of all users.
func (f *server) budgets(ctx context.Context, c *call, _ struct{}) (client.Budgets, error) {
	if f.Setup == nil {
		return client.Budgets{}, unsupported("settings", "this Steward does not serve its settings")
	}
	out, limitOf := f.Setup.Budgets(ctx)
	out.Users, out.Agents = []client.Spending{}, []client.Spending{}
	q := requests.UsageQuery{From: out.Begins, By: "user"}
	if c.Admin {
		q.All = func(user string) bool { return identity.CheckActsFor(c.User, user) == nil }
	}
	of := func(row *client.UsageRow, name string) client.Spending {
		return client.Spending{Name: name, Calls: row.Calls, Tokens: row.Usage.Input + row.Usage.Output, Cost: row.Cost}
	}
	used, err := f.Node.UsageReport(ctx, c.User, q)
	if err != nil {
		return out, err
	}
	by := map[string]client.UsageRow{}
	for _, row := range used.Rows {
		by[row.Key] = row
	}
	names := []string{c.User}
	if c.Admin {
		accounts, err := f.People.Accounts(ctx)
		if err != nil {
			return out, err
		}
		for _, a := range accounts {
			if a.User != c.User && q.All(a.User) && len(names) < store.MaxLimit {
				names = append(names, a.User)
			}
		}
	}
	for _, name := range names {
		row := by[name]
		s := of(&row, name)
		s.Limit, s.Own = limitOf(name)
		out.Users = append(out.Users, s)
	}
	q.By = "agent"
	if used, err = f.Node.UsageReport(ctx, c.User, q); err != nil {
		return out, err
	}
	limits := map[string]client.Budget{}
	for _, a := range f.Node.Agents(ctx) {
		limits[a.Path] = client.Budget{Tokens: a.Limits.Tokens, Cost: a.Limits.Cost}
	}
	for i := range used.Rows {
		s := of(&used.Rows[i], used.Rows[i].Key)
		s.Limit = limits[s.Name]
		out.Agents = append(out.Agents, s)
	}
	return out, nil
}

func (f *server) providers(ctx context.Context, c *call, _ struct{}) (client.Providers, error) {
	if err := f.managesSettings(c); err != nil {
		return client.Providers{}, err
	}
	return f.Setup.Providers(ctx)
}

func (f *server) connectProvider(ctx context.Context, c *call, in struct {
	Body client.Connection `body:""`
}) (client.Tried, error) {
	if err := f.managesSettings(c); err != nil {
		return client.Tried{}, err
	}
	return f.Setup.Connect(ctx, c.User, in.Body)
}

func (f *server) disconnectProvider(ctx context.Context, c *call, in inName) (noContent, error) {
	if err := f.managesSettings(c); err != nil {
		return noContent{}, err
	}
	return noContent{}, f.Setup.Disconnect(ctx, c.User, in.Name)
}

// inModel is a body that names a model.
type inModel struct {
	Body struct {
		Model string `json:"model"`
	} `body:""`
}

func (f *server) testModel(ctx context.Context, c *call, in inModel) (client.Tried, error) {
	if err := f.managesSettings(c); err != nil {
		return client.Tried{}, err
	}
	return f.Setup.Try(ctx, c.User, in.Body.Model)
}

func (f *server) useModel(ctx context.Context, c *call, in inModel) (noContent, error) {
	if err := f.managesSettings(c); err != nil {
		return noContent{}, err
	}
	return noContent{}, f.Setup.Use(ctx, c.User, in.Body.Model)
}

// findModels reads the settings and looks for local models again.
func (f *server) findModels(ctx context.Context, c *call, _ struct{}) (noContent, error) {
	if err := f.managesSettings(c); err != nil {
		return noContent{}, err
	}
	return noContent{}, f.Setup.Find(ctx)
}

func (f *server) addChannel(ctx context.Context, c *call, in struct {
	Body client.NewChannel `body:""`
}) (client.ChannelAccount, error) {
	if err := f.managesSettings(c); err != nil {
		return client.ChannelAccount{}, err
	}
	return f.Setup.AddChannel(ctx, c.User, in.Body)
}

// inName is the path parameter that names what is set up.
type inName struct {
	Name string `path:"name"`
}

func (f *server) testChannel(ctx context.Context, c *call, in inName) (client.ChannelAccount, error) {
	if err := f.managesSettings(c); err != nil {
		return client.ChannelAccount{}, err
	}
	return f.Setup.TestChannel(ctx, in.Name)
}

func (f *server) removeChannel(ctx context.Context, c *call, in inName) (noContent, error) {
	if err := f.managesSettings(c); err != nil {
		return noContent{}, err
	}
	return noContent{}, f.Setup.RemoveChannel(ctx, c.User, in.Name)
}
