package audit

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Decision says who decided about an intent, and by which rule.
type Decision struct {
	Tool      string    `json:"tool"`
	Version   string    `json:"tool_version,omitzero"`
	State     string    `json:"state"`
	Reason    string    `json:"reason,omitzero"`
	User      string    `json:"user,omitzero"` // on whose behalf
	Agent     string    `json:"agent,omitzero"`
	Lineage   []string  `json:"lineage,omitzero"` // the agents on whose behalf that agent acts
	Rule      string    `json:"rule,omitzero"`    // the rule of the policy that decided
	Policy    string    `json:"policy,omitzero"`  // the policy's version
	Labels    []string  `json:"labels,omitzero"`  // of what the model was shown
	Approvers string    `json:"approvers,omitzero"`
	Approved  string    `json:"approved_by,omitzero"`
	At        time.Time `json:"approved_at,omitzero"`
	Grant     string    `json:"by_grant,omitzero"` // the standing approval that applied
	Denied    string    `json:"denied_by,omitzero"`
	Resolved  string    `json:"resolved_by,omitzero"`
	Message   string    `json:"message,omitzero"` // the message and block that called
	ArgsHash  string    `json:"args_hash"`
	Args      string    `json:"args,omitzero"`        // with bodies
	Edited    string    `json:"args_before,omitzero"` // with bodies: the arguments before a person changed them
}

// Shown is what a model was shown before it wrote a message: the earlier messages
// of the turn, in order, and the message after which the turn began.
type Shown struct {
	After    id.ID          `json:"after,omitzero"` // the message before the turn; View says how earlier messages were shown
	Messages []ShownMessage `json:"messages,omitzero"`
	View     *record.View   `json:"view,omitzero"` // how the branch was shown; nil: all of it
	Model    string         `json:"model,omitzero"`
}

// ShownMessage is a message that a model was shown.
type ShownMessage struct {
	URI  resource.URI `json:"uri"`
	Role message.Role `json:"role"`
	Text string       `json:"text,omitzero"` // with bodies
}

// explain adds what the body of an entry says about decisions, grants and what a
// model was shown. It skips a body that cannot be read.
func (l *Log) explain(ctx context.Context, sc store.Scope, s *store.Sealed, e *Entry, bodies bool) error {
	if s.Op != resource.OpPut || s.Body == nil {
		return nil
	}
	switch e.Type {
	case "effect.Intent":
		if in, err := intent.Decode(s.Body); err == nil {
			e.Decision = l.decision(&in, bodies)
		}
	case "effect.Grant":
		if masked := l.mask(string(s.Body)); json.Valid([]byte(masked)) {
			e.Grant = json.RawMessage(masked)
		}
	case record.TypeMessage:
		m, err := record.DecodeMessage(s.URI, s.Body)
		if err != nil || m.Role != message.Assistant {
			return nil
		}
		e.Shown, err = l.shown(ctx, sc, s, m, bodies)
		return err
	}
	return nil
}

func (l *Log) mask(s string) string {
	if l.opt.Mask == nil {
		return s
	}
	return l.opt.Mask(s)
}

func (l *Log) decision(in *intent.Intent, bodies bool) *Decision {
	d := &Decision{
		Tool: in.Tool, Version: in.Version, State: string(in.State), Reason: l.mask(in.Reason), User: in.User, Agent: in.Agent,
		Lineage: in.Lineage, Rule: in.Rule, Policy: in.Policy, Labels: in.Labels.Names(), Approvers: in.Approvers,
		Denied: in.DeniedBy, ArgsHash: in.ArgsHash, Message: in.Call.String(),
	}
	if in.Approval != nil {
		d.Approved, d.At, d.Grant = in.Approval.By, in.Approval.At, in.Approval.Grant
	}
	if in.Resolved != nil {
		d.Resolved = in.Resolved.By
	}
	if bodies {
		d.Args = l.mask(in.Args)
		if in.Approval != nil {
			d.Edited = l.mask(in.Approval.Edited)
		}
	}
	return d
}

// shown reads the messages of a turn before a message.
func (l *Log) shown(ctx context.Context, sc store.Scope, s *store.Sealed, m *message.Message, bodies bool) (*Shown, error) {
	out := &Shown{Model: m.Model, After: m.Prev}
	turn, ok := s.URI.Find(record.TypeInteraction)
	if !ok {
		return out, nil
	}
	var before []store.Item
	for it, err := range store.Items(ctx, l.store, sc, store.Query{Under: turn, Type: record.TypeMessage}) {
		if err != nil {
			return nil, err
		}
		if it.Seq < s.Seq {
			before = append(before, it)
		}
	}
	slices.SortFunc(before, func(a, b store.Item) int { return int(int64(a.Seq) - int64(b.Seq)) })
	for i, it := range before {
		one, err := record.DecodeMessage(it.URI, it.Body)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			out.After = one.Prev
		}
		sm := ShownMessage{URI: it.URI, Role: one.Role}
		if bodies {
			sm.Text = l.mask(textOf(one))
		}
		out.Messages = append(out.Messages, sm)
	}
	var err error
	out.View, err = l.view(ctx, sc, turn, s.Seq)
	return out, err
}

// textOf returns the text of a message, including calls and results.
func textOf(m *message.Message) string {
	var b strings.Builder
	for _, block := range m.Blocks {
		switch v := block.(type) {
		case *message.Text:
			b.WriteString(v.Text)
		case *message.ToolCall:
			b.WriteString(v.Name + " " + string(v.Args))
		case *message.ToolResult:
			b.WriteString(textOf(&message.Message{Blocks: v.Content}))
		default:
			continue
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// view returns how a turn's branch was shown when an entry was written; nil: all of
// it.
func (l *Log) view(ctx context.Context, sc store.Scope, turn resource.URI, seq uint64) (*record.View, error) {
	branch := record.MainBranch
	for it, err := range store.Items(ctx, l.store, sc, store.Query{Under: turn, Type: record.TypeRun}) {
		if err != nil {
			return nil, err
		}
		var run record.Run
		if record.Decode(it.URI, it.Body, &run) == nil && run.Branch != "" {
			branch = run.Branch
		}
	}
	q := store.LogQuery{Of: turn.Parent().Child(record.TypeBranch, branch), Reverse: true, Limit: 20}
	for e, err := range store.Entries(ctx, l.store, sc, q) {
		if err != nil {
			return nil, err
		}
		if e.Seq > seq || e.Op != resource.OpPut || e.Body == nil {
			continue
		}
		var b record.Branch
		if record.Decode(e.URI, e.Body, &b) != nil || reflect.DeepEqual(b.View, record.View{}) {
			return nil, nil
		}
		return &b.View, nil
	}
	return nil, nil
}
