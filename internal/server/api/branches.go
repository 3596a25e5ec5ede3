package api

import (
	"context"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/store"
)

// onBranch is the path parameters that name a branch.
type onBranch struct {
	inConversation
	Branch string `path:"branch"`
}

func viewBranch(b record.Branch, preferred bool) client.NewBranch {
	return client.NewBranch{ID: b.ID, Title: b.Title, Created: b.Created, Used: b.Used, Parent: b.Parent, Preferred: preferred,
		Revision: b.View.Revision, Cut: b.View.Start.Pos != 0, Summary: b.View.Summary, Deleted: b.Deleted}
}

// branchName checks the name of a branch, which is "main" or an id.
func branchName(name string) error {
	if x, ok := id.Parse(name); name != record.MainBranch && (!ok || x.Zero()) {
		return fault.New(fault.NotFound, "branch_not_found", "this conversation has no branch %.80q", name).
			WithHint("GET %s/conversations/{id}/branches lists its branches", Prefix)
	}
	return nil
}

func (f *server) branches(ctx context.Context, c *call, in struct {
	inConversation
	Deleted bool `query:"deleted"`
}) (map[string][]client.Branch, error) {
	list, err := f.Node.Conversations.Paths(ctx, store.ForUser(c.User), in.Conv, in.Deleted)
	out := make([]client.Branch, len(list))
	for i, p := range list {
		out[i] = client.Branch{NewBranch: viewBranch(p.Branch, p.Preferred), Stem: p.Stem, Messages: p.Messages, Own: p.Own, Begins: p.Begins}
	}
	return the("branches", out), err
}

func (f *server) fork(ctx context.Context, c *call, in struct {
	inConversation
	Body struct {
		Message id.ID  `json:"message"`
		Before  bool   `json:"before"`
		Title   string `json:"title"`
	} `body:""`
}) (client.NewBranch, error) {
	name, err := title(in.Body.Title)
	if err != nil {
		return client.NewBranch{}, err
	}
	if err := c.Store(ctx, max(c.r.ContentLength, 0)); err != nil {
		return client.NewBranch{}, err
	}
	b, err := f.Node.Fork(ctx, c.User, in.Conv, conversation.Fork{Message: in.Body.Message, Before: in.Body.Before, Title: name})
	return viewBranch(b, true), err
}

func (f *server) changeBranch(ctx context.Context, c *call, in struct {
	onBranch
	Body struct {
		Title     *string `json:"title"`
		Preferred bool    `json:"preferred"`
	} `body:""`
}) (noContent, error) {
	err := branchName(in.Branch)
	if err == nil && in.Body.Title == nil && !in.Body.Preferred {
		err = fault.New(fault.Invalid, "change_missing", "no change was requested").WithHint(`send {"title":…}, {"preferred":true} or both`)
	}
	if err == nil && in.Body.Title != nil {
		var name string
		if name, err = title(*in.Body.Title); err == nil {
			err = f.Node.TitleBranch(ctx, c.User, in.Conv, in.Branch, name)
		}
	}
	if err == nil && in.Body.Preferred {
		err = f.Node.Switch(ctx, c.User, in.Conv, in.Branch)
	}
	return noContent{}, err
}

func (f *server) deleteBranch(ctx context.Context, c *call, in struct {
	onBranch
	Erase bool `query:"erase"`
}) (noContent, error) {
	err := branchName(in.Branch)
	if err == nil {
		err = f.Node.DeleteBranch(ctx, c.User, in.Conv, in.Branch)
	}
	if err == nil && in.Erase {
		err = f.Node.Erase(ctx, c.User, in.Conv, in.Branch)
	}
	return noContent{}, err
}

func (f *server) copyBranch(ctx context.Context, c *call, in onBranch) (map[string]id.ID, error) {
	if err := branchName(in.Branch); err != nil {
		return nil, err
	}
	if err := c.Store(ctx, 0); err != nil {
		return nil, err
	}
	made, err := f.Node.CopyBranch(ctx, c.User, in.Conv, in.Branch)
	return the("conversation_id", made), err
}

// rewound is a branch that continues from an earlier message.
type rewound struct {
	client.NewBranch
	Withdrawn int `json:"withdrawn"`
}

func (f *server) rewind(ctx context.Context, c *call, in struct {
	inConversation
	Body struct {
		Message  id.ID `json:"message"`
		Withdraw bool  `json:"withdraw"`
	} `body:""`
}) (rewound, error) {
	if in.Body.Message.Zero() {
		return rewound{}, fault.New(fault.Invalid, "message_missing", "the message to go back to is missing").WithHint(`name the message: {"message":"…"}`)
	}
	b, withdrawn, err := f.Node.Rewind(ctx, c.User, in.Conv, in.Body.Message, in.Body.Withdraw)
	return rewound{viewBranch(b, true), withdrawn}, err
}

func (f *server) tidy(ctx context.Context, c *call, in struct {
	inConversation
	Body struct {
		How   runtime.Tidying `json:"how"`
		Tools []string        `json:"tools"`
	} `body:""`
}) (map[string]int, error) {
	n, err := f.Node.Tidy(ctx, c.User, in.Conv, in.Body.How, in.Body.Tools)
	return the("changed", n), err
}
