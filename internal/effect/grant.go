package effect

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
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

// covers reports whether the grant allows an action.
func (g *Grant) covers(in *intent.Intent, conversation string, labels message.Labels, now time.Time) bool {
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
	_, ok := g.Pattern.Covers([]byte(in.Args))
	return ok
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
		return "the tool is not there"
	case t.Spec().Asks:
		return in.Tool + " is to be asked about each time"
	case in.Version == "":
		return in.Tool + " has no version that a standing approval could name"
	case in.Undoes != "":
		return "it takes something back"
	case in.Approvers != "":
		return "the group " + in.Approvers + " answers each time"
	case in.Labels.Has(message.Secret):
		return "it was decided after something secret had been read"
	}
	return ""
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
		return g, fault.New(fault.Conflict, "grant_not_possible", "no standing approval can be given: %s", q.NoGrant).
			WithHint("approve it once")
	}
	return g, g.valid(now)
}

// valid refuses a grant that cannot stand.
func (g *Grant) valid(now time.Time) error {
	switch {
	case g.Standing != InConversation && g.Standing != Always:
		return fault.New(fault.Invalid, "approval_invalid", "%.40q is no way in which an approval stands", g.Standing).
			WithHint("use conversation or always")
	case g.Standing == InConversation && g.Conversation == "":
		return fault.New(fault.Conflict, "grant_not_possible", "it was not asked in a conversation").WithHint("approve it once, or always")
	case !g.Expires.IsZero() && !now.Before(g.Expires):
		return fault.New(fault.Invalid, "grant_expiry_past", "the approval would end before it begins").WithHint("name a time to come")
	case g.Labels.Has(message.Secret):
		return fault.New(fault.Invalid, "grant_invalid", "no standing approval covers what is decided after something secret had been read").
			WithHint("leave secret out")
	}
	return nil
}
