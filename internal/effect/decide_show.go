package effect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// Question is everything a person is shown about an action that waits for approval.
type Question struct {
	ID           string          `json:"id"`        // URI text of the intent
	Short        string          `json:"intent_id"` // IntentID, short enough to type
	Tool         string          `json:"tool"`
	Version      string          `json:"version,omitzero"`
	Args         jsontext.Value  `json:"args"` // canonical: exactly the bytes that the tool will receive
	User         string          `json:"user"`
	Agent        string          `json:"agent,omitzero"`
	Lineage      []string        `json:"lineage,omitzero"` // on whose behalf the agent acts
	Conversation string          `json:"conversation,omitzero"`
	Labels       []string        `json:"labels,omitzero"` // of everything the model was shown
	Read         []string        `json:"read,omitzero"`   // untrusted sources read before, in this turn: tool and arguments
	Reason       string          `json:"reason,omitzero"`
	Undoes       string          `json:"undoes,omitzero"` // URI text of the intent whose effect this undoes
	Rule         string          `json:"rule,omitzero"`
	Policy       string          `json:"policy,omitzero"` // version of the policy
	Approvers    string          `json:"approvers,omitzero"`
	Preview      string          `json:"preview,omitzero"` // what would change, such as a diff; see tool.Previewer
	Pattern      intent.Pattern  `json:"pattern,omitzero"` // what a standing approval would cover
	Asked        time.Time       `json:"asked"`
	Expires      time.Time       `json:"expires"`
	Hash         string          `json:"hash"`               // over all of the above; an answer repeats it
	Called       string          `json:"called,omitzero"`    // the agent in words, if its path says nothing
	NoGrant      string          `json:"no_grant,omitzero"`  // why no standing approval can be given
	Yours        bool            `json:"yours"`              // the person it is shown to may answer it
	Arguments    []tool.Argument `json:"arguments,omitzero"` // sizes and marks of Args, in the same order

	// What a person reads first. It follows from what is above, and is not in the hash.
	Summary string  `json:"summary,omitzero"` // what the call does, in a sentence
	Why     string  `json:"why,omitzero"`     // why it is asked about, on one line
	Values  []Value `json:"values,omitzero"`  // arguments that the sentence and the preview do not show, what matters first
	More    int     `json:"more,omitzero"`    // how many other arguments there are that are not among Values
	Widths  []Width `json:"widths,omitzero"`  // what a standing approval is offered for, the narrowest first; none: see NoGrant
}

// DescribeLabels describes in words what had been read when the action was decided on.
func DescribeLabels(labels, read []string) string {
	var parts []string
	switch {
	case len(read) > 0:
		parts = append(parts, "after reading "+strings.Join(read, ", "))
	case slices.Contains(labels, message.Untrusted.String()):
		parts = append(parts, "after reading content that others may have written")
	}
	if slices.Contains(labels, message.Private.String()) {
		parts = append(parts, "with private data in view")
	}
	if slices.Contains(labels, message.Secret.String()) {
		parts = append(parts, "with secrets in view")
	}
	return strings.Join(parts, ", ")
}

// show builds the question of an intent. p is the person's own pattern, or nil for one
// that covers just this call.
func (e *Engine) show(ctx context.Context, sc store.Scope, uri resource.URI, in *intent.Intent, p intent.Pattern) (Question, error) {
	q := Question{ID: uri.String(), Short: IntentID(uri).String(), Tool: in.Tool, Version: in.Version,
		Args: jsontext.Value(in.Args), User: in.User, Agent: in.Agent, Lineage: in.Lineage,
		Labels: in.Labels.Names(), Reason: in.Reason, Rule: in.Rule, Policy: in.Policy, Approvers: in.Approvers,
		Asked: in.Created, Expires: in.Expires, Conversation: conversationOf(uri)}
	if q.Undoes = in.Undoes; q.Undoes != "" { // the tool and arguments are those of the original action
		q.Reason = strings.TrimSuffix("this undoes an earlier action; "+q.Reason, "; ")
	}
	var err error
	if in.Labels.Has(message.Untrusted) {
		if q.Read, err = e.read(ctx, sc, uri); err != nil {
			return q, err
		}
	}
	if q.Pattern, err = p.Over([]byte(in.Args)); err != nil {
		return q, err
	}
	t, _ := e.toolOf(uri, in)
	if p != nil && divisible(in, t) && !coversCall(q.Pattern, t, []byte(in.Args)) {
		return q, fault.New(fault.Conflict, "grant_other", "the pattern does not cover every command that was asked about").
			WithHint("widen it, or approve once")
	}
	var previewed bool
	if q.Preview, previewed, err = e.preview(ctx, t, in); err != nil {
		return q, err
	}
	b, err := json.Marshal(q, json.Deterministic(true))
	if err != nil {
		return q, fault.New(fault.Internal, "intent_broken", "cannot show the question: %w", err)
	}
	sum := sha256.Sum256(b)
	q.Hash = hex.EncodeToString(sum[:])
	q.NoGrant = grantable(in, t)
	if e.opt.Called != nil {
		q.Called = e.opt.Called(ctx, in.Agent)
	}
	var spec tool.Spec
	if t != nil {
		spec = t.Spec()
	} else if e.opt.Spec != nil {
		if known, ok := e.opt.Spec(in.Tool); ok && known.Version == in.Version {
			spec = known
		}
	}
	q.Arguments = tool.Arguments(q.Args, spec.Input)
	if err := q.words(in, spec, previewed, e.zone(in.User)); err != nil {
		return q, fault.New(fault.Internal, "intent_broken", "cannot show the question: %w", err)
	}
	if q.NoGrant == "" {
		q.Widths, err = widths(t, q.Args, e.zone(in.User))
	}
	return q, err
}

// maxPreview bounds Question.Preview.
const maxPreview = 32 << 10

// preview returns what an action would change, as far as its tool can show that. whole reports whether it
// is the whole preview that the tool gives for this call.
func (e *Engine) preview(ctx context.Context, t tool.Tool, in *intent.Intent) (text string, whole bool, err error) {
	p, ok := tool.PreviewerOf(t)
	if !ok || in.Undoes != "" {
		return "", false, nil
	}
	text, err = p.Preview(ctx, tool.Invocation{Args: []byte(in.Args), Key: in.Key, User: in.User, Agent: in.Agent})
	if ctx.Err() != nil {
		return "", false, ctx.Err()
	}
	whole = err == nil && text != ""
	if err != nil {
		text = "At present it would fail: " + fault.Of(err).Message
	}
	text = e.mask(strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > maxPreview {
		text, whole = cut(text, maxPreview)+"\n[Cut here.]", false
	}
	return text, whole, nil
}

// toolOf finds the tool of an intent: the waiting run's, or else by name.
func (e *Engine) toolOf(uri resource.URI, in *intent.Intent) (tool.Tool, bool) {
	if w := e.waiter(uri); w != nil {
		return w.call.c.Tool, true
	}
	if e.opt.Tool == nil {
		return nil, false
	}
	return e.opt.Tool(in.Agent, in.Tool)
}

// Limits on what Question.Read shows.
const (
	maxRead     = 5
	maxReadText = 200
)

// read returns the tools and arguments that returned untrusted content in the turn before
// the intent's message.
func (e *Engine) read(ctx context.Context, sc store.Scope, uri resource.URI) ([]string, error) {
	place, ok := uri.Find(record.TypeInteraction)
	if !ok {
		return nil, nil
	}
	var all []*message.Message
	for it, err := range store.Items(ctx, e.opt.Store, sc, store.Query{Under: place, Type: record.TypeMessage}) {
		if err != nil {
			return nil, err
		}
		m, err := record.DecodeMessage(it.URI, it.Body)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	own := record.IDOf(uri, record.TypeMessage)
	slices.SortStableFunc(all, func(a, b *message.Message) int { return cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()) })
	args := map[message.Ref]string{}
	var out []string
	for _, m := range all {
		if m.ID == own {
			break
		}
		for i, b := range m.Blocks {
			if call, ok := b.(*message.ToolCall); ok {
				args[message.Ref{Message: m.ID, Block: i}] = string(call.Args)
			}
		}
		res := m.Result()
		if res == nil || !message.LabelsOf(m.Blocks).Has(message.Untrusted) {
			continue
		}
		what := strings.ToValidUTF8(res.Name+" "+clipped(args[res.Call]), "\uFFFD")
		if what = strings.TrimSpace(what); !slices.Contains(out, what) {
			out = append(out, what)
		}
	}
	if n := len(out); n > maxRead {
		out = append(out[:maxRead:maxRead], "and more")
	}
	return out, nil
}

// clipped returns arguments shortened to fit a line, or "" if there are none.
func clipped(args string) string {
	if strings.TrimSpace(args) == "{}" {
		return ""
	}
	if len(args) > maxReadText {
		return cut(args, maxReadText) + "…"
	}
	return args
}
