package effect

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// The resources of standing approvals and of questions to groups, and their states.
const (
	typeGrant    = "effect.Grant"
	typeQuestion = "effect.Question"

	stateActive = "active" // of a grant: not revoked
	stateOpen   = "open"   // of a question
)

// Standing is the duration of an approval.
type Standing string

// The durations.
const (
	Once           Standing = ""
	InConversation Standing = "conversation" // for calls that the pattern covers, in this conversation
	Always         Standing = "always"       // likewise, in all conversations
)

// Grant is a standing approval: what a person has allowed in advance. It covers calls of
// exactly this tool in exactly this version, by this agent for this user, with arguments
// that match Pattern, from a model that was shown no labels beyond Labels. If it was given
// for a call that a plan had fixed before any untrusted content was read, it does not
// cover calls that were decided on afterwards.
type Grant struct {
	ID           id.ID          `json:"id"`
	User         string         `json:"user"`
	Tool         string         `json:"tool"`
	Version      string         `json:"version"`
	Agent        string         `json:"agent,omitzero"`
	Lineage      []string       `json:"lineage,omitzero"`
	Pattern      intent.Pattern `json:"pattern"`
	Labels       message.Labels `json:"labels,omitzero"`
	Fixed        bool           `json:"fixed,omitzero"` // only calls that were fixed before anything untrusted was read
	Standing     Standing       `json:"standing"`
	Conversation string         `json:"conversation,omitzero"` // URI text of the conversation in which it was asked
	Expires      time.Time      `json:"expires,omitzero"`      // zero: never
	By           string         `json:"by"`
	Created      time.Time      `json:"created"`
	Changed      time.Time      `json:"changed,omitzero"`
	Intent       string         `json:"intent"` // URI text of the action that was asked about
	Revoked      time.Time      `json:"revoked,omitzero"`

	version uint64 // of the resource
}

// grantURI returns the URI of a grant.
func grantURI(grant id.ID) resource.URI { return resource.Root(typeGrant, grant.String()) }

// covers reports whether the grant allows an action. Of what the model was shown, labels and sources say what it
// was and whose.
func (g *Grant) covers(t tool.Tool, in *intent.Intent, conversation string, labels message.Labels, sources []string, now time.Time) bool {
	if !labels.Has(message.Untrusted) && slices.Equal(sources, []string{message.SourceMemory}) {
		labels &^= message.Private // what the person has said before counts as what the person says now, which has no label
	}
	if g.Tool != in.Tool || g.Version != in.Version || g.User != in.User || g.Agent != in.Agent || !slices.Equal(g.Lineage, in.Lineage) {
		return false
	}
	if !g.Revoked.IsZero() || !g.Expires.IsZero() && !now.Before(g.Expires) || !g.Labels.Has(labels) {
		return false
	}
	if g.Fixed && !in.Fixed {
		return false
	}
	if g.Standing != Always && (g.Conversation == "" || g.Conversation != conversation) {
		return false
	}
	return coversCall(g.Pattern, t, []byte(in.Args))
}

// coversCall reports whether a pattern covers a call: if the tool divides it, each part. A pattern that
// names the very argument that is divided covers exactly that. Nothing else covers what must be approved whole.
func coversCall(p intent.Pattern, t tool.Tool, args []byte) bool {
	_, whole := p.Covers(args)
	d, divides := tool.DividerOf(t)
	if !divides {
		return whole
	}
	argument, parts, ok := d.Parts(args)
	if !ok || len(parts) == 0 {
		return false
	}
	if whole && len(p[argument].Is) > 0 {
		return true
	}
	return !slices.ContainsFunc(parts, func(part tool.Part) bool {
		_, covered := p.Covers(part.Args)
		return part.Whole || !covered
	})
}

// put returns the change that records a grant if cond holds.
func (g *Grant) put(cond store.If) (store.Change, error) {
	body, err := json.Marshal(g, json.Deterministic(true))
	if err != nil {
		return store.Change{}, fault.New(fault.Invalid, "grant_invalid", "the grant cannot be recorded: %w", err)
	}
	c := store.Change{Op: store.Put, URI: grantURI(g.ID), If: cond, Body: body}
	if g.Revoked.IsZero() {
		c.State = stateActive
	}
	return c, nil
}

func decodeGrant(r resource.Resource) (Grant, error) {
	var g Grant
	if err := json.Unmarshal(r.Body, &g); err != nil {
		return g, fault.New(fault.Internal, "store_broken", "the grant %s cannot be read: %w", r.URI, err)
	}
	g.version = r.Version
	return g, nil
}

// grantable returns why no standing approval can be given for an action, or "".
func grantable(in *intent.Intent, t tool.Tool) string {
	switch {
	case t == nil:
		return "the tool is not available, or Steward is not running"
	case t.Spec().Asks:
		return in.Tool + " always requires approval"
	case in.Version == "":
		return in.Tool + " has no version that a standing approval could refer to"
	case in.Undoes != "":
		return "it undoes another action"
	case in.Approvers != "":
		return "the group " + in.Approvers + " must approve each time"
	case !divisible(in, t):
		return "the commands that it would run cannot be determined from the text"
	case in.Labels.Has(message.Secret):
		return "it was decided after a secret had been read"
	}
	return ""
}

// divisible reports whether the parts of a call can be told, if the tool divides calls.
func divisible(in *intent.Intent, t tool.Tool) bool {
	d, divides := tool.DividerOf(t)
	if !divides {
		return true
	}
	_, _, ok := d.Parts([]byte(in.Args))
	return ok
}

// grantID derives the ID of the grant that an answer gives, so that repeating the answer
// creates no second grant.
func grantID(question, hash string, st Standing) id.ID {
	return id.Derive("grant", question, hash, string(st))
}

// grantFor builds the grant that an answer gives.
func grantFor(q *Question, in *intent.Intent, d Decision, now time.Time) (Grant, error) {
	g := Grant{ID: grantID(q.ID, q.Hash, d.Standing), User: in.User, Tool: in.Tool, Version: in.Version,
		Agent: in.Agent, Lineage: in.Lineage, Pattern: q.Pattern, Labels: in.Labels, Fixed: in.Fixed && in.Labels.Has(message.Untrusted), Standing: d.Standing,
		Conversation: q.Conversation, Expires: d.Until.UTC(), By: in.Approval.By, Created: now, Intent: q.ID}
	if q.NoGrant != "" {
		return g, fault.New(fault.Conflict, "grant_not_possible", "a standing approval is not possible: %s", q.NoGrant).
			WithHint("approve only this call")
	}
	return g, g.valid(now)
}

// valid refuses a grant that cannot stand.
func (g *Grant) valid(now time.Time) error {
	switch {
	case g.Standing != InConversation && g.Standing != Always:
		return fault.New(fault.Invalid, "approval_invalid", "unknown duration of an approval %.40q", g.Standing).
			WithHint("use conversation or always")
	case g.Standing == InConversation && g.Conversation == "":
		return fault.New(fault.Conflict, "grant_not_possible", "it was not asked in a conversation").WithHint("approve it once, or always")
	case !g.Expires.IsZero() && !now.Before(g.Expires):
		return fault.New(fault.Invalid, "grant_expiry_past", "the expiry of the approval is in the past").WithHint("give a time in the future")
	case g.Labels.Has(message.Secret):
		return fault.New(fault.Invalid, "grant_invalid", "a standing approval cannot cover actions decided after a secret has been read").
			WithHint("leave secret out")
	}
	return nil
}

// hasGrants reports whether a user has standing approvals.
func (e *Engine) hasGrants(ctx context.Context, user string) bool {
	list, err := e.Grants(context.WithoutCancel(ctx), user, false)
	return err == nil && len(list) > 0
}

// granted returns the approval from a grant that covers the action, or nil. No grant
// covers an action that a group decides on, or a tool that is to be asked about each time.
// If the grants cannot be read, it returns nil.
func (f *execution) granted(ctx context.Context, d policy.Decision) *intent.Approval {
	if d.Approvers != "" || f.spec.Asks || f.spec.Version == "" || isSuccessor(f.uri) {
		return nil
	}
	list, err := f.e.Grants(context.WithoutCancel(ctx), f.in.User, false)
	if err != nil {
		f.e.log.WarnContext(ctx, "cannot read standing approvals: asking the user", "user", f.in.User, "error", err)
	}
	now := time.Now().UTC()
	for i := range list {
		g := &list[i]
		if !g.covers(f.c.Tool, &f.in, conversationOf(f.uri), f.c.Labels, f.c.Sources, now) {
			continue
		}
		until := now.Add(f.e.opt.ApprovalTimeout)
		if !g.Expires.IsZero() && g.Expires.Before(until) {
			until = g.Expires
		}
		return &intent.Approval{By: g.By, At: now, ArgsHash: f.in.ArgsHash, Version: f.in.Version,
			Expires: until, Grant: grantURI(g.ID).String()}
	}
	return nil
}

func conversationOf(uri resource.URI) string {
	if conv, ok := uri.Find(record.TypeConversation); ok {
		return conv.String()
	}
	return ""
}

// consume returns the precondition of the commit that begins an approved action: the grant
// that approved it is unchanged. It first checks that the grant still covers the action;
// if not, why says why.
func (f *execution) consume(ctx context.Context) (checks []store.Change, why string, err error) {
	a := f.in.Approval
	if a == nil || a.Grant == "" {
		return nil, "", nil
	}
	uri, err := resource.Parse(a.Grant)
	if err != nil {
		return nil, "", fault.New(fault.Internal, "intent_broken", "invalid grant in a recorded intent: %w", err)
	}
	const gone = "the standing approval no longer covers it"
	r, err := f.e.opt.Store.Get(context.WithoutCancel(ctx), store.ForUser(f.in.User), uri)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, gone, nil
	case err != nil:
		return nil, "", err
	}
	g, err := decodeGrant(r)
	if err != nil {
		return nil, "", err
	}
	if f.spec.Asks || !g.covers(f.c.Tool, &f.in, conversationOf(f.uri), f.c.Labels, f.c.Sources, time.Now()) {
		return nil, gone, nil
	}
	return []store.Change{{Op: store.Check, URI: uri, If: store.If{Version: g.version}}}, "", nil
}

// Grants returns a user's standing approvals, newest first. With all, it includes revoked
// and expired ones.
func (e *Engine) Grants(ctx context.Context, user string, all bool) ([]Grant, error) {
	q := store.Query{Type: typeGrant, State: stateActive}
	if all {
		q.State = ""
	}
	var list []Grant
	now := time.Now()
	for it, err := range store.Items(ctx, e.opt.Store, store.ForUser(user), q) {
		if err != nil {
			return nil, err
		}
		g, err := decodeGrant(it.Resource)
		if err != nil {
			return nil, err
		}
		if all || g.Expires.IsZero() || now.Before(g.Expires) {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b Grant) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID.String(), b.ID.String()))
	})
	return list, nil
}

// Grant returns one of a user's standing approvals (error code grant_not_found).
func (e *Engine) Grant(ctx context.Context, user string, grant id.ID) (Grant, error) {
	r, err := e.opt.Store.Get(ctx, store.ForUser(user), grantURI(grant))
	if fault.Is(err, fault.NotFound) {
		return Grant{}, fault.New(fault.NotFound, "grant_not_found", "there is no standing approval %s", grant).
			WithHint("steward grants list shows the standing approvals")
	}
	if err != nil {
		return Grant{}, err
	}
	return decodeGrant(r)
}
