package api

import (
	"context"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/identity"
)

// owns refuses callers other than the machine's own user, who alone decides which programs run and which
// instructions its assistant gets.
func (f *server) owns(c *call) error {
	if err := f.managesSettings(c); err != nil {
		return err
	}
	if c.User != identity.Local {
		return fault.New(fault.Denied, "admin_only", "only the machine's own user can do this").WithHint("do it on the machine that Steward runs on, with steward link to sign in")
	}
	return nil
}

func (f *server) servers(ctx context.Context, c *call, _ struct{}) (client.Servers, error) {
	if err := f.managesSettings(c); err != nil {
		return client.Servers{}, err
	}
	return f.Setup.Servers(ctx)
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

func (f *server) beginSignIn(ctx context.Context, c *call, in struct {
	inName
	Body struct {
		Device bool `json:"device"`
	} `body:""`
}) (client.SignIn, error) {
	if err := f.managesSettings(c); err != nil {
		return client.SignIn{}, err
	}
	return f.Setup.BeginSignIn(ctx, c.User, in.Name, in.Body.Device)
}

func (f *server) signInState(ctx context.Context, c *call, in struct {
	inName
	Wait bool `query:"wait"`
}) (client.SignIn, error) {
	if err := f.managesSettings(c); err != nil {
		return client.SignIn{}, err
	}
	return f.Setup.SignInState(ctx, in.Name, in.Wait)
}

func (f *server) answerSignIn(ctx context.Context, c *call, in struct {
	inName
	Body struct {
		Address string `json:"address"`
	} `body:""`
}) (client.SignIn, error) {
	if err := f.managesSettings(c); err != nil {
		return client.SignIn{}, err
	}
	return f.Setup.AnswerSignIn(ctx, in.Name, in.Body.Address)
}

func (f *server) skills(ctx context.Context, c *call, _ struct{}) (map[string][]client.Skill, error) {
	if err := f.owns(c); err != nil {
		return nil, err
	}
	list, err := f.Setup.Skills(ctx)
	return the("skills", all(list)), err
}

func (f *server) skill(ctx context.Context, c *call, in inName) (client.Skill, error) {
	if err := f.owns(c); err != nil {
		return client.Skill{}, err
	}
	return f.Setup.Skill(ctx, in.Name)
}

func (f *server) findSkills(ctx context.Context, c *call, in struct {
	Body struct {
		Source string `json:"source"`
	} `body:""`
}) (map[string][]client.FoundSkill, error) {
	if err := f.owns(c); err != nil {
		return nil, err
	}
	list, err := f.Setup.FindSkills(ctx, in.Body.Source)
	return the("skills", all(list)), err
}

func (f *server) approveSkill(ctx context.Context, c *call, in struct {
	Body struct {
		Source string `json:"source"`
		Name   string `json:"name"`
		Hash   string `json:"hash"`
	} `body:""`
}) (noContent, error) {
	if err := f.owns(c); err != nil {
		return noContent{}, err
	}
	return noContent{}, f.Setup.ApproveSkill(ctx, c.User, in.Body.Source, in.Body.Name, in.Body.Hash)
}

func (f *server) removeSkill(ctx context.Context, c *call, in inName) (noContent, error) {
	if err := f.owns(c); err != nil {
		return noContent{}, err
	}
	return noContent{}, f.Setup.RemoveSkill(ctx, c.User, in.Name)
}
