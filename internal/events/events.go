// Package events publishes what happens to resources. Each entry of the log is an event
// (RESOURCE_PUT, RESOURCE_DELETE), and so is whatever people, agents and services publish, and each
// read that is audited (RESOURCE_GET). Subscribers receive, in the order of the log, the events
// that they choose and may read. Observers of conversations receive the changes that an entry made
// to them. The log is the only source of truth: a slow or returning subscriber catches up by
// reading it.
package events

import (
	"encoding/json"
	"log/slog"
	"time"

	"steward/internal/id"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// DetailType says what happened to the resources of an event.
type DetailType string

// The detail types.
const (
	Put    DetailType = "RESOURCE_PUT"
	Get    DetailType = "RESOURCE_GET"    // it was read, and reads of it are audited
	Delete DetailType = "RESOURCE_DELETE" // it was deleted, or erased for good
)

// DetailTypes returns all detail types.
func DetailTypes() []DetailType { return []DetailType{Put, Get, Delete} }

// Event is one event. Its resources must not be modified. docs/reference/events.md describes the
// members of its JSON.
type Event struct {
	ID        id.ID        `json:"id"`
	Seq       uint64       `json:"seq"`    // of its log entry
	Source    string       `json:"source"` // who it is from: "user:NAME", "agent:PATH", "service:NAME" or "system"
	Time      time.Time    `json:"time"`
	Detail    DetailType   `json:"detail_type"`
	Published bool         `json:"published,omitzero"`  // the source claims it; otherwise Steward itself has observed it
	URI       resource.URI `json:"uri"`                 // of the log entry: the changed resource, or the event itself
	Request   id.ID        `json:"request_id,omitzero"` // the request that led to it
	Resources []Resource   `json:"resources"`
}

// Cursor returns the position after the event.
func (e *Event) Cursor() Cursor { return follow.Behind(e.Seq) }

// Resource is a resource that an event is about.
type Resource struct {
	URI     resource.URI    `json:"uri"`
	Type    string          `json:"type"`
	Space   resource.Space  `json:"space,omitzero"`
	Version uint64          `json:"version,omitzero"` // the version that was put; zero in published events
	State   string          `json:"state,omitzero"`
	Body    json.RawMessage `json:"body,omitempty"` // only if the subscriber asked for bodies and may see this one
}

// Cursor is a position between events. An empty cursor is the present position.
type Cursor = follow.Cursor

// The cursors that a caller can use without having received them.
const (
	Now   = follow.Now
	Start = follow.Start
)

// Caller identifies on whose behalf something is done.
type Caller struct {
	User    string
	Agent   string   // the path of the acting agent; empty: the user
	Lineage []string // the agents on whose behalf it acts, outermost first
}

// Options hold the parts and limits of an engine. Follow, Authorizer and Directory are required.
// Published events can be found by their resources only if Follow indexes About.
type Options struct {
	Follow     *follow.Log
	Authorizer policy.Authorizer
	Directory  policy.Directory
	Audit      []string      // which reads are recorded: types ("email.Message"), prefixes of types ("email.*"), and URI prefixes ("cld:…")
	Beat       time.Duration // an empty batch is delivered after this long without an event; zero: 15 s
	Recheck    time.Duration // how long a subscriber's rights are cached; zero: 1 s
	// Mask hides secrets in a body, as the store does. If nil, there are none.
	Mask func([]byte) []byte
	Log  *slog.Logger // nil: slog.Default()
}

// Engine publishes and delivers events. It is safe for concurrent use.
type Engine struct {
	opt   Options
	store store.Store
	audit audit
}

// New returns an engine. It uses no resources until somebody subscribes. It returns audit_invalid
// if an entry of Options.Audit cannot be audited.
func New(o Options) (*Engine, error) {
	a, err := parseAudit(o.Audit)
	if err != nil {
		return nil, err
	}
	if o.Beat <= 0 {
		o.Beat = 15 * time.Second
	}
	if o.Recheck <= 0 {
		o.Recheck = time.Second
	}
	if o.Mask == nil {
		o.Mask = func(b []byte) []byte { return b }
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Engine{opt: o, store: o.Follow.Store(), audit: a}, nil
}
