package main

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/runtime"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/server/api"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
	"steward/internal/worklog"
)

// stored answers, of the API, what can be answered from the database alone:
// what is stored is told, and what waits for a person is decided. It looks for
// no models and takes up no work.
type stored struct {
	api.Node // nil: what only a node can do is not asked of it
	shelf
	app     *app
	store   *sqlite.Store
	people  *identity.Registry
	effects *effect.Engine
	index   *fts.Index
}

var _ api.Node = (*stored)(nil)

func (a *app) stored(st *sqlite.Store, set *settings.Loaded, log *slog.Logger) *stored {
	people := identity.New(st)
	return &stored{shelf: a.shelf(st), app: a, store: st, people: people, index: newIndex(set.Data, st, log),
		effects: effect.New(effect.Options{Store: st, Directory: people, Log: log, ApprovalTimeout: set.Timeouts.Approval})}
}

// session is the API over what is stored.
func (s *stored) session(a *app) *session {
	return a.within(api.Options{Node: s, People: s.people},
		func() error { return errors.Join(s.index.Close(), s.store.Close()) })
}

func (s *stored) Conversations(ctx context.Context, user string, after store.Cursor, limit int) ([]record.Conversation, store.Cursor, error) {
	return s.engine.List(ctx, store.ForUser(user), after, limit)
}

func (s *stored) Conversation(ctx context.Context, user string, conv id.ID) (record.Conversation, error) {
	return s.engine.Get(ctx, store.ForUser(user), conv)
}

func (s *stored) ReadMessages(ctx context.Context, user string, conv id.ID, q runtime.Reading) ([]conversation.Entry, store.Cursor, error) {
	return runtime.ReadMessages(ctx, s.engine, store.ForUser(user), conv, q)
}

func (s *stored) FindCall(ctx context.Context, user, callID string) ([]conversation.Called, error) {
	return s.engine.FindCall(ctx, store.ForUser(user), callID)
}

func (s *stored) Paths(ctx context.Context, user string, conv id.ID, deleted bool) ([]runtime.Path, error) {
	return runtime.Paths(ctx, s.store, s.engine, store.ForUser(user), conv, deleted)
}

func (s *stored) Siblings(ctx context.Context, user string, conv, msg id.ID) ([]conversation.Sibling, error) {
	return s.engine.Siblings(ctx, store.ForUser(user), conv, msg)
}

func (s *stored) Audit(ctx context.Context, user string, conv, interaction id.ID, tool string) ([]conversation.Optimization, error) {
	return s.engine.Audit(ctx, store.ForUser(user), conv, interaction, tool)
}

func (s *stored) ExportAs(ctx context.Context, user string, conv id.ID, o conversation.ExportOptions, w io.Writer) error {
	return s.engine.ExportAs(ctx, store.ForUser(user), conv, o, w)
}

func (s *stored) Search(ctx context.Context, user string, q search.Query) (search.Page, error) {
	return s.index.Search(ctx, store.ForUser(user), q)
}

// log tells what the tools did, by the specs of those that Steward brings along.
func (s *stored) log() (*worklog.Engine, error) {
	specs, err := s.app.specs()
	return worklog.New(s.store, func(name string) (tool.Spec, bool) {
		spec, ok := specs[name]
		return spec, ok
	}), err
}

func (s *stored) WorkLog(ctx context.Context, user string, f worklog.Filter, after store.Cursor, limit int) ([]worklog.Entry, store.Cursor, error) {
	e, err := s.log()
	if err != nil {
		return nil, "", err
	}
	return e.Log(ctx, store.ForUser(user), f, after, limit)
}

func (s *stored) WorkLogEntry(ctx context.Context, user, ref string) (worklog.Entry, []*message.Message, error) {
	e, err := s.log()
	if err != nil {
		return worklog.Entry{}, nil, err
	}
	return e.Show(ctx, store.ForUser(user), ref)
}

func (s *stored) Requests(ctx context.Context, user string, all bool, limit int) ([]runtime.RequestView, error) {
	return runtime.Requests(ctx, s.store, store.ForUser(user), all, limit)
}

func (s *stored) EverybodysRequests(ctx context.Context, all bool, limit int) ([]runtime.RequestView, error) {
	return runtime.Requests(ctx, s.store, store.ForNode(resource.System), all, limit)
}

func (s *stored) RequestTree(ctx context.Context, user, which string) (runtime.RequestView, error) {
	price, err := s.app.pricing()
	if err != nil {
		return runtime.RequestView{}, err
	}
	return runtime.RequestTree(ctx, s.store, store.ForUser(user), which, price)
}

func (s *stored) Intents(ctx context.Context, user string, f runtime.IntentFilter, after store.Cursor, limit int) ([]runtime.IntentView, store.Cursor, error) {
	return runtime.Intents(ctx, s.store, store.ForUser(user), f, after, limit)
}

func (s *stored) Intent(ctx context.Context, user, which string) (runtime.IntentView, error) {
	return runtime.Intent(ctx, s.store, store.ForUser(user), which)
}

func (s *stored) Approvals(ctx context.Context, user string) ([]effect.Question, error) {
	return s.effects.Questions(ctx, user)
}

func (s *stored) Approval(ctx context.Context, user, which string, p intent.Pattern) (effect.Question, error) {
	return s.effects.Question(ctx, store.ForUser(user), which, p)
}

func (s *stored) Decide(ctx context.Context, user string, v runtime.Verdict) error {
	return runtime.Decide(ctx, s.effects, user, v)
}

func (s *stored) Grants(ctx context.Context, user string, all bool) ([]runtime.GrantView, error) {
	list, err := s.effects.Grants(ctx, user, all)
	out := make([]runtime.GrantView, len(list))
	for i := range list {
		out[i] = runtime.ShowGrant(list[i], nil)
	}
	return out, err
}

func (s *stored) Grant(ctx context.Context, user string, grant id.ID) (runtime.GrantView, error) {
	g, err := s.effects.Grant(ctx, user, grant)
	return runtime.ShowGrant(g, nil), err
}

func (s *stored) ShowGrantEdit(ctx context.Context, user string, grant id.ID, ed effect.GrantEdit) (runtime.GrantEdited, error) {
	e, err := s.effects.ShowGrantEdit(ctx, user, grant, ed)
	return runtime.GrantEdited{Grant: runtime.ShowGrant(e.Grant, nil), Wider: e.Wider, Hash: e.Hash}, err
}

func (s *stored) EditGrant(ctx context.Context, user string, grant id.ID, ed effect.GrantEdit) (runtime.GrantView, error) {
	g, err := s.effects.EditGrant(ctx, user, grant, ed)
	return runtime.ShowGrant(g, nil), err
}

func (s *stored) RevokeGrant(ctx context.Context, user string, grant id.ID) error {
	_, err := s.effects.Revoke(ctx, user, grant)
	return err
}
