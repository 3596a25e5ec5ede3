package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"steward/internal/effect"
	"steward/internal/face/httpauth"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/pattern"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
)

// wireApproval is a question as a frame tells it.
type wireApproval struct {
	ID        string          `json:"id"`
	Hash      string          `json:"hash"`
	Reason    string          `json:"reason"`
	Expires   time.Time       `json:"expires"`
	Rule      string          `json:"rule"`
	Labels    []string        `json:"labels"`
	Read      []string        `json:"read"`
	Approvers string          `json:"approvers"`
	Foreign   bool            `json:"foreign"`
	Pattern   pattern.Pattern `json:"pattern"`
	NoGrant   string          `json:"no_grant"`
	Arguments []tool.Argument `json:"arguments"`

	Agent string          `json:"agent"`
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args"`
}

func (a *wireApproval) view() *runtime.ApprovalView {
	return &runtime.ApprovalView{ID: a.ID, Hash: a.Hash, Reason: a.Reason, Expires: a.Expires, Rule: a.Rule,
		Labels: a.Labels, Read: a.Read, Approvers: a.Approvers, Foreign: a.Foreign, Pattern: a.Pattern, NoGrant: a.NoGrant, Arguments: a.Arguments,
		Agent: a.Agent, Tool: a.Tool, Args: argsText(a.Args)}
}

// Decide implements terminal.Node.
func (r *remote) Decide(ctx context.Context, _ id.ID, v runtime.Verdict) error {
	return decideOver(ctx, r, v)
}

// Question implements terminal.Node.
func (r *remote) Question(ctx context.Context, which string, p pattern.Pattern) (effect.Question, error) {
	return questionOver(ctx, r, which, p)
}

// Question implements terminal.Node.
func (l *local) Question(ctx context.Context, which string, p pattern.Pattern) (effect.Question, error) {
	return l.node.Approval(ctx, l.user, which, p)
}

// questionOver looks at a question over the API, as it is shown with a pattern.
func questionOver(ctx context.Context, api caller, which string, p pattern.Pattern) (effect.Question, error) {
	path := "/approvals/" + url.PathEscape(which)
	if p != nil {
		b, err := json.Marshal(p)
		if err != nil {
			return effect.Question{}, err
		}
		path += "?pattern=" + url.QueryEscape(string(b))
	}
	var q effect.Question
	err := api.call(ctx, http.MethodGet, path, nil, &q)
	return q, err
}

// decideOver answers a question over the API.
func decideOver(ctx context.Context, api caller, v runtime.Verdict) error {
	in := struct {
		Approve bool `json:"approve"`
		httpauth.Answer
	}{v.Approve, httpauth.Answer{Hash: v.Hash, Reason: v.Reason, Standing: string(v.Standing), Pattern: v.Pattern, Args: v.Args}}
	if !v.Until.IsZero() {
		in.Until = v.Until.Format(time.RFC3339)
	}
	return api.call(ctx, http.MethodPost, "/approvals/"+url.PathEscape(v.ID), in, nil)
}

// deciding runs do with the API of the Steward that serves; where none does,
// with what can be decided over the stored data alone: no run goes on by that.
// alone says which it is.
func (a *app) deciding(ctx context.Context, do func(api caller, alone bool) error) error {
	set, err := a.settings()
	if err != nil {
		return err
	}
	if _, err := os.Stat(database(set.Data)); errors.Is(err, os.ErrNotExist) {
		return noConversation()
	}
	log := a.logger(set, a.stderr)
	return a.withStore(ctx, set, log, func(st *sqlite.Store) error {
		n := decider{reader: reader{shelf: a.shelf(st), store: st},
			effects: effect.New(effect.Options{Store: st, Directory: identity.New(st), Log: log, ApprovalTimeout: set.Timeouts.Approval})}
		return do(within(n, nil, nil, a.user(), slog.New(slog.DiscardHandler)), true)
	}, func(r *remote) error { return do(r, false) })
}

// decider answers, of the API, what can be decided without a node.
type decider struct {
	reader
	effects *effect.Engine
}

func (d decider) Approvals(ctx context.Context, user string) ([]effect.Question, error) {
	return d.effects.Questions(ctx, user)
}

func (d decider) Approval(ctx context.Context, user, which string, p pattern.Pattern) (effect.Question, error) {
	return d.effects.Question(ctx, store.ForUser(user), which, p)
}

func (d decider) Decide(ctx context.Context, user string, v runtime.Verdict) error {
	return runtime.Decide(ctx, d.effects, user, v)
}

func (d decider) Grants(ctx context.Context, user string, all bool) ([]runtime.GrantView, error) {
	list, err := d.effects.Grants(ctx, user, all)
	out := make([]runtime.GrantView, len(list))
	for i := range list {
		out[i] = runtime.ShowGrant(list[i], nil)
	}
	return out, err
}

func (d decider) Grant(ctx context.Context, user string, grant id.ID) (runtime.GrantView, error) {
	g, err := d.effects.Grant(ctx, user, grant)
	return runtime.ShowGrant(g, nil), err
}

func (d decider) ShowGrantEdit(ctx context.Context, user string, grant id.ID, ed effect.GrantEdit) (runtime.GrantEdited, error) {
	e, err := d.effects.ShowGrantEdit(ctx, user, grant, ed)
	return runtime.GrantEdited{Grant: runtime.ShowGrant(e.Grant, nil), Wider: e.Wider, Hash: e.Hash}, err
}

func (d decider) EditGrant(ctx context.Context, user string, grant id.ID, ed effect.GrantEdit) (runtime.GrantView, error) {
	g, err := d.effects.EditGrant(ctx, user, grant, ed)
	return runtime.ShowGrant(g, nil), err
}

func (d decider) RevokeGrant(ctx context.Context, user string, grant id.ID) error {
	_, err := d.effects.Revoke(ctx, user, grant)
	return err
}
