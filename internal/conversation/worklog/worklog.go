// Package worklog tells what the agents did, in a person's words: one entry
// per tool call. It is a view: entries are made of the messages, intents and
// marks that are stored anyway, and nothing is stored for them.
package worklog

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// Outcome is what became of a call.
type Outcome string

// The outcomes. Partial is an action that was begun and of which nobody knows
// whether it was done; a person's word, once given, makes it a success or a
// failure. A result of which the end was cut off is a success. What was
// denied, stopped or never answered is a failure: it was not done.
const (
	Success Outcome = "success"
	Failure Outcome = "failure"
	Partial Outcome = "partial"
	Pending Outcome = "pending" // it runs, is queued, or waits for a person
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Success, Failure, Partial, Pending} }

// Entry is one tool call as the work log tells it. Secrets are masked in it.
// Its JSON is that of the API and of --json.
type Entry struct {
	ID           string         `json:"id"` // "MESSAGE/BLOCK": the identity of the call
	At           time.Time      `json:"at"`
	Took         time.Duration  `json:"-"` // until its outcome was recorded; zero while it is pending
	Conversation id.ID          `json:"conversation_id"`
	Title        string         `json:"title,omitzero"` // the conversation's
	Interaction  id.ID          `json:"interaction_id,omitzero"`
	Request      id.ID          `json:"request_id,omitzero"`
	Actor        string         `json:"actor,omitzero"` // who: a user's name, "agent:NAME" or "system"
	Tool         string         `json:"tool"`
	Summary      string         `json:"summary"`              // what was done, on one line
	Parameters   map[string]any `json:"parameters,omitempty"` // those arguments that the tool's spec keeps
	Outcome      Outcome        `json:"outcome"`
	Error        string         `json:"error,omitzero"`   // why it failed, or what it waits for: one line
	Impact       []string       `json:"impact,omitempty"` // what the call affects, as the tool's spec says
	Call         resource.URI   `json:"call"`
	Messages     []id.ID        `json:"messages"`          // the message that makes the call, and the one with its result
	Obsolete     bool           `json:"obsolete,omitzero"` // the result does not hold any more: a later call or a person said so
}

// MarshalJSON implements json.Marshaler: Took is told in milliseconds.
func (e Entry) MarshalJSON() ([]byte, error) {
	type plain Entry
	return json.Marshal(struct {
		plain
		Took int64 `json:"took_ms,omitzero"`
	}{plain(e), e.Took.Milliseconds()})
}

// Filter selects entries. The zero value selects all.
type Filter struct {
	Conversation id.ID // its preferred branch, unless AllBranches is set
	AllBranches  bool
	Interaction  id.ID  // with what was merged into it, on every branch
	Tool         string // a name, or a glob such as files.*
	Outcome      Outcome
	Since        time.Time // calls made at this time or later
	Until        time.Time // calls made before this time
}

// check refuses a filter that says nothing sensible.
func (f *Filter) check() error {
	if f.Outcome != "" && !slices.Contains(Outcomes(), f.Outcome) {
		return fault.New(fault.Invalid, "outcome_unknown", "there is no outcome %.40q", string(f.Outcome)).
			WithHint("use success, failure, partial or pending")
	}
	if _, err := path.Match(f.Tool, ""); err != nil {
		return fault.New(fault.Invalid, "tool_pattern_invalid", "%.80q is no pattern for tool names", f.Tool).
			WithHint("write a name, or a glob such as files.*")
	}
	return nil
}

// wants judges what the call itself tells.
func (f *Filter) wants(name string, at time.Time) bool {
	if name = tool.FromWire(name); f.Tool != "" {
		if ok, _ := path.Match(f.Tool, name); !ok && f.Tool != name {
			return false
		}
	}
	return !at.Before(f.Since) && (f.Until.IsZero() || at.Before(f.Until))
}

// Engine reads the work log. Safe for concurrent use.
type Engine struct {
	store store.Store
	spec  func(name string) (tool.Spec, bool)
}

// New returns an engine over the store. spec returns the spec of a tool by its
// name; calls of tools that it does not know are told in general words. Nil:
// it knows none.
func New(s store.Store, spec func(name string) (tool.Spec, bool)) *Engine {
	if spec == nil {
		spec = func(string) (tool.Spec, bool) { return tool.Spec{}, false }
	}
	return &Engine{store: s, spec: spec}
}

// Limits of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 1000
	maxScan      = 5000 // messages looked through for one page
)

// Log returns a page of entries, the newest first, and a cursor to go on
// with; empty: there is no more. No more than 5,000 messages are looked
// through in one go, so that a page of a sparse filter may be short or empty
// and have a cursor none the less. Entries tell what is known at the time of
// the call. Limit: at most MaxLimit; 0 means DefaultLimit. What an agent did
// that a call of the conversation asked stands with that call, beyond the limit.
//
// Error codes: outcome_unknown, tool_pattern_invalid, cursor_invalid,
// conversation_not_found, interaction_not_found, and those of the store.
func (e *Engine) Log(ctx context.Context, sc store.Scope, f Filter, after store.Cursor, limit int) ([]Entry, store.Cursor, error) {
	if err := f.check(); err != nil {
		return nil, "", err
	}
	at, err := openCursor(&f, after)
	if err != nil {
		return nil, "", err
	}
	if limit <= 0 {
		limit = DefaultLimit
	}
	r := &reader{Engine: e, ctx: ctx, sc: sc, filter: f, limit: min(limit, MaxLimit), resumed: at, known: map[id.ID]*talk{}}
	next, err := r.run()
	if err != nil {
		return nil, "", err
	}
	return r.out, next, nil
}

// ref writes the identity of a call.
func ref(message id.ID, block int) string { return message.String() + "/" + strconv.Itoa(block) }
