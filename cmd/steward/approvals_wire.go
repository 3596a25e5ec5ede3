package main

import (
	"context"
	"encoding/json"
	"time"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/face/httpauth"
	"steward/internal/id"
	"steward/internal/pattern"
	"steward/internal/runtime"
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
	return r.decide(ctx, v)
}

// Question implements terminal.Node.
func (r *remote) Question(ctx context.Context, which string, p pattern.Pattern) (effect.Question, error) {
	return r.question(ctx, which, p)
}

// question looks at a question, as it is shown with a pattern.
func (s *session) question(ctx context.Context, which string, p pattern.Pattern) (q effect.Question, err error) {
	in := client.Params{"id": which}
	if p != nil {
		b, err := json.Marshal(p)
		if err != nil {
			return q, err
		}
		in["pattern"] = string(b)
	}
	err = s.Call(ctx, "GET /approvals/{id}", in, nil, &q)
	return q, err
}

// decide answers a question.
func (s *session) decide(ctx context.Context, v runtime.Verdict) error {
	in := struct {
		Approve bool `json:"approve"`
		httpauth.Answer
	}{v.Approve, httpauth.Answer{Hash: v.Hash, Reason: v.Reason, Standing: string(v.Standing), Pattern: v.Pattern, Args: v.Args}}
	if !v.Until.IsZero() {
		in.Until = v.Until.Format(time.RFC3339)
	}
	return s.Call(ctx, "POST /approvals/{id}", client.Params{"id": v.ID}, in, nil)
}
