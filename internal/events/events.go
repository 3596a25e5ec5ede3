// Package events tells what happens to resources: each entry of the log is an
// event (RESOURCE_PUT, RESOURCE_DELETE), and so is what people, agents and
// services publish, and each read that is audited (RESOURCE_GET). Subscribers
// are told, in the order of the log, of what they choose and may read; observers
// of conversations are told what an entry changed in them. The truth stays in
// the log: whoever is slow, or comes back, reads on in it.
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

// Event is one event. Do not modify its resources. The members of its JSON are
// those of docs/reference/events.md.
type Event struct {
	ID        id.ID        `json:"id"`
	Seq       uint64       `json:"seq"`    // of its log entry
	Source    string       `json:"source"` // whose it is: "user:NAME", "agent:PATH", "service:NAME" or "system"
	Time      time.Time    `json:"time"`
	Detail    DetailType   `json:"detail_type"`
	Published bool         `json:"published,omitzero"`  // its source says so; otherwise Steward itself has seen it
	URI       resource.URI `json:"uri"`                 // of the log entry: the resource that was changed, or the event itself
	Request   id.ID        `json:"request_id,omitzero"` // that led to it
	Resources []Resource   `json:"resources"`
}

// Cursor is the position behind the event.
func (e *Event) Cursor() Cursor { return follow.Behind(e.Seq) }

// Resource is what an event is about.
type Resource struct {
	URI     resource.URI    `json:"uri"`
	Type    string          `json:"type"`
	Space   resource.Space  `json:"space,omitzero"`
	Version uint64          `json:"version,omitzero"` // that was put; zero in what was published
	State   string          `json:"state,omitzero"`
	Body    json.RawMessage `json:"body,omitempty"` // where the subscriber asked for bodies and may see it
}

// Cursor is a position between events; an empty one is that of the moment.
type Cursor = follow.Cursor

// The cursors that can be used without having been told one.
const (
	Now   = follow.Now
	Start = follow.Start
)

// Caller is on whose behalf something is done.
type Caller struct {
	User    string
	Agent   string   // the path of the agent that acts; empty: the user
	Lineage []string // the agents on whose behalf it acts, the outermost first
}

// Options are an engine's parts and bounds. Follow, Authorizer and Directory are
// needed; events of publishers are found by what they are about only where
// Follow knows of About.
type Options struct {
	Follow     *follow.Log
	Authorizer policy.Authorizer
	Directory  policy.Directory
	Audit      []string      // reads that are recorded: types ("email.Message"), types by their beginning ("email.*"), and prefixes ("cld:…")
	Beat       time.Duration // after so long without an event a batch without one is told; zero: 15 s
	Recheck    time.Duration // how long a subscriber's rights are taken to be what they were; zero: 1 s
	// Mask hides secrets in a body, as the store does; nil: there are none.
	Mask func([]byte) []byte
	Log  *slog.Logger // nil: slog.Default()
}

// Engine publishes and tells events. Safe for concurrent use.
type Engine struct {
	opt   Options
	store store.Store
	audit audit
}

// New returns an engine. It costs nothing until somebody subscribes. It
// refuses what cannot be audited (audit_invalid).
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
