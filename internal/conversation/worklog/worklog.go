// Package worklog describes what agents did in a person's words, with one entry per
// tool call. It is a view of the messages, intents, requests and marks that are
// stored anyway. Nothing is stored for it, so it can neither miss a call nor disagree
// with what happened.
//
// A page is made from messages, newest first: those of one branch, or those in the
// log. For each call, the page finds the message with its result, the intent or the
// request that settled it later, and the mark that says whether the result is still
// valid. Everything that is shown is masked first (package mask).
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

// Outcome is the outcome of a call.
type Outcome string

// The outcomes. Partial is an action that was started and of which it is unknown
// whether it was done; when a person resolves it, it becomes a success or a failure.
// A result whose end was cut off is a success. A call that was denied, stopped or
// never answered is a failure.
const (
	Success Outcome = "success"
	Failure Outcome = "failure"
	Partial Outcome = "partial"
	Pending Outcome = "pending" // it runs, is queued, or waits for a person
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Success, Failure, Partial, Pending} }

// Entry is one tool call in the work log. Secrets are masked in it.
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
	Parameters   map[string]any `json:"parameters,omitempty"` // the arguments that the tool's spec keeps
	Outcome      Outcome        `json:"outcome"`
	Error        string         `json:"error,omitzero"`   // why it failed, or what it waits for: one line
	Impact       []string       `json:"impact,omitempty"` // what the call affects, as the tool's spec says
	Call         resource.URI   `json:"call"`
	Messages     []id.ID        `json:"messages"`          // the message that makes the call, and the one with its result
	Obsolete     bool           `json:"obsolete,omitzero"` // a later call or a person made the result obsolete
}

// MarshalJSON implements json.Marshaler. Took is in milliseconds.
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
	Interaction  id.ID  // including what was merged into it, on all branches
	Tool         string // a name, or a glob such as files.*
	Outcome      Outcome
	Since        time.Time // calls made at this time or later
	Until        time.Time // calls made before this time
}

// check returns an error for an invalid filter.
func (f *Filter) check() error {
	if f.Outcome != "" && !slices.Contains(Outcomes(), f.Outcome) {
		return fault.New(fault.Invalid, "outcome_unknown", "unknown outcome %.40q", string(f.Outcome)).
			WithHint("use success, failure, partial or pending")
	}
	if _, err := path.Match(f.Tool, ""); err != nil {
		return fault.New(fault.Invalid, "tool_pattern_invalid", "invalid pattern for tool names %.80q", f.Tool).
			WithHint("write a name, or a glob such as files.*")
	}
	return nil
}

// wants reports whether the filter selects a call by its tool and time.
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
	zone  *time.Location
}

// New returns an engine over the store. spec finds the spec of a tool by its name; it
// may be nil. Calls of unknown tools are described in general words. zone is that of the
// person who reads the log; nil: unknown.
func New(s store.Store, spec func(name string) (tool.Spec, bool), zone *time.Location) *Engine {
	if spec == nil {
		spec = func(string) (tool.Spec, bool) { return tool.Spec{}, false }
	}
	return &Engine{store: s, spec: spec, zone: zone}
}

// Limits of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 1000
	maxScan      = 5000 // messages examined for one page
)

// Log returns a page of entries, newest first, and a cursor for the next page, which
// is empty at the end. Log examines at most 5,000 messages at a time, so a page may be
// short or even empty and still have a cursor. limit is at most MaxLimit; 0 means
// DefaultLimit. In the log of a conversation, what an asked agent did comes with the
// call that asked it, and does not count towards the limit.
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
	r := &reader{Engine: e, ctx: ctx, sc: sc, filter: f, limit: min(limit, MaxLimit), resumed: at, known: map[id.ID]*conversationInfo{}}
	next, err := r.run()
	if err != nil {
		return nil, "", err
	}
	return r.out, next, nil
}

// ref returns the identity of a call.
func ref(message id.ID, block int) string { return message.String() + "/" + strconv.Itoa(block) }
