package api

import (
	"context"

	"steward/client"
)

// Setup reads and changes the settings of this Steward; package app implements it. What it changes is in force
// when it returns.
type Setup interface {
	Settings(ctx context.Context) (client.Settings, error)
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

func (f *server) addServer(ctx context.Context, c *call, in struct {
	Body client.NewServer `body:""`
}) (noContent, error) {
	if err := f.managesSettings(c); err != nil {
		return noContent{}, err
	}
	return noContent{}, f.Setup.AddServer(ctx, c.User, in.Body)
}

func (f *server) removeServer(ctx context.Context, c *call, in inName) (noContent, error) {
	if err := f.managesSettings(c); err != nil {
		return noContent{}, err
	}
	return noContent{}, f.Setup.RemoveServer(ctx, c.User, in.Name)
}
