package api

import (
	"context"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/runtime"
	"steward/internal/server/auth"
)

// approvals answers with the questions that wait for the caller's decision.
func (f *server) approvals(ctx context.Context, c *call, _ struct{}) (map[string][]effect.Question, error) {
	list, err := f.Node.Approvals(ctx, c.User)
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
	return f.Node.Approval(ctx, c.User, in.ID, p)
}

// answer records the caller's decision on a question. The size limit leaves room for
// arguments that the person has edited.
func (f *server) answer(ctx context.Context, c *call, in struct {
	ID   string `path:"id"`
	Body struct {
		Approve *bool `json:"approve"`
		auth.Answer
	} `body:"" size:"4194304"`
}) (none, error) {
	missing := ""
	switch {
	case in.Body.Approve == nil:
		missing = "approve"
	case in.Body.Hash == "":
		missing = "hash"
	}
	if missing != "" {
		return none{}, fault.New(fault.Invalid, "member_missing", "the member %s is missing", missing).Detail("member", "/"+missing)
	}
	v, err := in.Body.Verdict(c.Caller, in.ID, *in.Body.Approve)
	if err == nil {
		err = f.Node.Decide(ctx, c.User, v)
	}
	return none{}, err
}

// grants answers with the caller's standing approvals.
func (f *server) grants(ctx context.Context, c *call, in struct {
	All bool `query:"all"`
}) (map[string][]runtime.GrantView, error) {
	list, err := f.Node.Grants(ctx, c.User, in.All)
	return the("grants", all(list)), err
}

// inGrant is the path parameter that names a standing approval.
type inGrant struct {
	ID id.ID `path:"id" what:"grant"`
}

func (f *server) grant(ctx context.Context, c *call, in inGrant) (runtime.GrantView, error) {
	return f.Node.Grant(ctx, c.User, in.ID)
}

// grantChange is a request to change a standing approval.
type grantChange struct {
	inGrant
	Body auth.GrantChange `body:""`
}

// previewGrant answers with the standing approval as it would be after a change.
func (f *server) previewGrant(ctx context.Context, c *call, in grantChange) (runtime.GrantEdited, error) {
	ed, err := in.Body.Edit(c.Caller)
	if err != nil {
		return runtime.GrantEdited{}, err
	}
	return f.Node.ShowGrantEdit(ctx, c.User, in.ID, ed)
}

func (f *server) editGrant(ctx context.Context, c *call, in grantChange) (runtime.GrantView, error) {
	ed, err := in.Body.Edit(c.Caller)
	if err != nil {
		return runtime.GrantView{}, err
	}
	return f.Node.EditGrant(ctx, c.User, in.ID, ed)
}

func (f *server) revokeGrant(ctx context.Context, c *call, in inGrant) (none, error) {
	return none{}, f.Node.RevokeGrant(ctx, c.User, in.ID)
}
