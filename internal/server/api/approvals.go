package api

import (
	"context"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/server/auth"
	"steward/internal/store"
)

// approvals answers with the questions that wait for the caller's decision.
func (f *server) approvals(ctx context.Context, c *call, _ struct{}) (map[string][]effect.Question, error) {
	list, err := f.Node.Effects.Questions(ctx, c.User)
	return the("approvals", all(list)), err
}

// approval answers with one question, as it would be shown with the given pattern.
func (f *server) approval(ctx context.Context, c *call, in struct {
	ID      string `path:"id"`
	Pattern string `query:"pattern"`
}) (effect.Question, error) {
	var p intent.Pattern
	if in.Pattern != "" {
		if err := auth.Unmarshal([]byte(in.Pattern), &p); err != nil {
			return effect.Question{}, err
		}
	}
	return f.Node.Effects.Question(ctx, store.ForUser(c.User), in.ID, p)
}

// answer records the caller's decision on a question. The size limit leaves room for
// arguments that the person has edited.
func (f *server) answer(ctx context.Context, c *call, in struct {
	ID   string `path:"id"`
	Body struct {
		Approve *bool `json:"approve"`
		auth.Answer
	} `body:"" size:"4194304"`
}) (noContent, error) {
	missing := ""
	switch {
	case in.Body.Approve == nil:
		missing = "approve"
	case in.Body.Hash == "":
		missing = "hash"
	}
	if missing != "" {
		return noContent{}, fault.New(fault.Invalid, "member_missing", "the member %s is missing", missing).Detail("member", "/"+missing)
	}
	v, err := in.Body.Verdict(c.Caller, in.ID, *in.Body.Approve)
	if err == nil {
		err = f.Node.Effects.Decide(ctx, store.ForUser(c.User), v)
	}
	return noContent{}, err
}

// grants answers with the caller's standing approvals.
func (f *server) grants(ctx context.Context, c *call, in struct {
	All bool `query:"all"`
}) (map[string][]effect.GrantView, error) {
	list, err := f.Node.Effects.Grants(ctx, c.User, in.All)
	views := make([]effect.GrantView, len(list))
	for i := range list {
		views[i] = f.Node.Effects.ViewGrant(list[i])
	}
	return the("grants", views), err
}

// inGrant is the path parameter that names a standing approval.
type inGrant struct {
	ID id.ID `path:"id" what:"grant"`
}

func (f *server) grant(ctx context.Context, c *call, in inGrant) (effect.GrantView, error) {
	g, err := f.Node.Effects.Grant(ctx, c.User, in.ID)
	return f.Node.Effects.ViewGrant(g), err
}

// grantChange is a request to change a standing approval.
type grantChange struct {
	inGrant
	Body auth.GrantChange `body:""`
}

// previewGrant answers with the standing approval as it would be after a change.
func (f *server) previewGrant(ctx context.Context, c *call, in grantChange) (effect.EditedView, error) {
	ed, err := in.Body.Edit(c.Caller)
	if err != nil {
		return effect.EditedView{}, err
	}
	edited, err := f.Node.Effects.ShowGrantEdit(ctx, c.User, in.ID, ed)
	return f.Node.Effects.ViewEdited(edited), err
}

func (f *server) editGrant(ctx context.Context, c *call, in grantChange) (effect.GrantView, error) {
	ed, err := in.Body.Edit(c.Caller)
	if err != nil {
		return effect.GrantView{}, err
	}
	g, err := f.Node.Effects.EditGrant(ctx, c.User, in.ID, ed)
	return f.Node.Effects.ViewGrant(g), err
}

func (f *server) revokeGrant(ctx context.Context, c *call, in inGrant) (noContent, error) {
	return noContent{}, f.Node.Effects.Revoke(ctx, c.User, in.ID)
}
