package main

import (
	"context"
	"net/http"
	"slices"
	"time"

	"steward/internal/conversation"
	"steward/internal/face/terminal"
	"steward/internal/id"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/worklog"
)

// paths serves the branches and views of a chat: it reads what is stored, and
// has everything else done through the API, here or by the Steward that serves.
type paths struct {
	shelf
	caller
	store store.Store
}

var (
	_ terminal.Paths = paths{}
	_ terminal.Views = paths{}
)

// pathsOf returns those of a backend.
func pathsOf(b backend) paths {
	if r, ok := b.(*remote); ok {
		return paths{r.shelf, r, r.store}
	}
	l := b.(*local)
	return paths{l.shelf, l, l.store}
}

// Branches implements terminal.Paths.
func (p paths) Branches(ctx context.Context, conv id.ID) ([]runtime.Path, error) {
	return runtime.Paths(ctx, p.store, p.engine, p.scope(), conv, false)
}

// Siblings implements terminal.Paths.
func (p paths) Siblings(ctx context.Context, conv, msg id.ID) ([]conversation.Sibling, error) {
	return p.engine.Siblings(ctx, p.scope(), conv, msg)
}

// Switch implements terminal.Paths.
func (p paths) Switch(ctx context.Context, conv id.ID, branch string) error {
	return talk{caller: p, conv: conv}.do(ctx, http.MethodPatch, "/branches/"+branch, map[string]any{"preferred": true}, nil)
}

// Fork implements terminal.Paths.
func (p paths) Fork(ctx context.Context, conv id.ID, f conversation.Fork) error {
	return talk{caller: p, conv: conv}.post(ctx, "/branches", map[string]any{"message": f.Message, "before": f.Before, "title": f.Title}, nil)
}

// Rewind implements terminal.Paths.
func (p paths) Rewind(ctx context.Context, conv, msg id.ID, withdraw bool) (int, error) {
	var out madeBranch
	err := talk{caller: p, conv: conv}.post(ctx, "/rewind", map[string]any{"message": msg, "withdraw": withdraw}, &out)
	return out.Withdrawn, err
}

// Pin implements terminal.Views.
func (p paths) Pin(ctx context.Context, conv id.ID, pinned bool, msgs ...id.ID) error {
	return talk{caller: p, conv: conv}.post(ctx, "/messages/pin", map[string]any{"messages": msgs, "pinned": pinned}, nil)
}

// Tidy implements terminal.Views.
func (p paths) Tidy(ctx context.Context, conv id.ID, how runtime.Tidying) error {
	return talk{caller: p, conv: conv}.post(ctx, "/tidy", map[string]any{"how": how}, nil)
}

// mostChatLog is how many calls a chat tells of.
const mostChatLog = 20

// chatLog tells what the tools of a conversation did last.
func (a *app) chatLog(p paths) func(context.Context, id.ID, int) (string, error) {
	return func(ctx context.Context, conv id.ID, width int) (string, error) {
		specs, err := a.specs()
		if err != nil {
			return "", err
		}
		e := worklog.New(p.store, func(name string) (tool.Spec, bool) {
			s, ok := specs[name]
			return s, ok
		})
		list, err := newest(ctx, e, p.scope(), worklog.Filter{Conversation: conv}, mostChatLog)
		if err != nil || len(list) == 0 {
			return "", err
		}
		slices.Reverse(list)
		return logTable(list, width, false, time.Now()), nil
	}
}
