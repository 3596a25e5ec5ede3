package main

import (
	"context"
	"slices"
	"time"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/runtime"
	"steward/internal/server/terminal"
	"steward/internal/store"
)

// paths serves the branches and views of a chat: it reads what is stored, and
// has everything else done through the API.
type paths struct {
	shelf
	api   *session
	store store.Store
}

var (
	_ terminal.Paths = paths{}
	_ terminal.Views = paths{}
)

// pathsOf returns those of a backend.
func pathsOf(b backend) paths {
	if r, ok := b.(*remote); ok {
		return paths{r.shelf, r.session, r.store}
	}
	l := b.(*local)
	return paths{l.shelf, l.own, l.store}
}

// Branches implements terminal.Paths.
func (p paths) Branches(ctx context.Context, conv id.ID) ([]runtime.Path, error) {
	k := runtime.NewRecords(runtime.RecordsOptions{Store: p.store, Conversations: p.engine})
	return k.Paths(ctx, p.user, conv, false)
}

// Siblings implements terminal.Paths.
func (p paths) Siblings(ctx context.Context, conv, msg id.ID) ([]conversation.Sibling, error) {
	return p.engine.Siblings(ctx, p.scope(), conv, msg)
}

// Switch implements terminal.Paths.
func (p paths) Switch(ctx context.Context, conv id.ID, branch string) error {
	return p.api.ChangeBranch(ctx, conv.String(), branch, map[string]any{"preferred": true})
}

// Fork implements terminal.Paths.
func (p paths) Fork(ctx context.Context, conv id.ID, f conversation.Fork) error {
	in := map[string]any{"message": f.Message, "before": f.Before, "title": f.Title}
	return p.api.Call(ctx, "POST /conversations/{id}/branches", client.Params{"id": conv.String()}, in, nil)
}

// Rewind implements terminal.Paths.
func (p paths) Rewind(ctx context.Context, conv, msg id.ID, withdraw bool) (int, error) {
	var out struct{ Withdrawn int }
	in := map[string]any{"message": msg, "withdraw": withdraw}
	err := p.api.Call(ctx, "POST /conversations/{id}/rewind", client.Params{"id": conv.String()}, in, &out)
	return out.Withdrawn, err
}

// Pin implements terminal.Views.
func (p paths) Pin(ctx context.Context, conv id.ID, pinned bool, msgs ...id.ID) error {
	own := make([]string, len(msgs))
	for i, m := range msgs {
		own[i] = m.String()
	}
	return p.api.Pin(ctx, conv.String(), pinned, own...)
}

// Tidy implements terminal.Views.
func (p paths) Tidy(ctx context.Context, conv id.ID, how runtime.Tidying) error {
	_, err := p.api.Tidy(ctx, conv.String(), string(how))
	return err
}

// mostChatLog is how many calls a chat tells of.
const mostChatLog = 20

// chatLog tells what the tools of a conversation did last.
func (p paths) chatLog(ctx context.Context, conv id.ID, width int) (string, error) {
	list, err := p.api.Log(ctx, client.LogQuery{Conversation: conv.String()}, mostChatLog)
	if err != nil || len(list) == 0 {
		return "", err
	}
	slices.Reverse(list)
	return logTable(list, width, false, time.Now()), nil
}
