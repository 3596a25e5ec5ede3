// Package events tells what happens to resources: each entry of the log is an
// event (RESOURCE_PUT, RESOURCE_DELETE), and so is what people, agents and
// services publish, and each read that is audited (RESOURCE_GET). Subscribers
// are told, in the order of the log, of what they choose and may read. The
// truth stays in the log: whoever is slow, or comes back, reads on in it.
package events

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
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
// those of docs/events.md.
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

// Cursor is the place behind the event.
func (e *Event) Cursor() Cursor { return cursorOf(e.Seq) }

// Resource is what an event is about.
type Resource struct {
	URI     resource.URI    `json:"uri"`
	Type    string          `json:"type"`
	Space   resource.Space  `json:"space,omitzero"`
	Version uint64          `json:"version,omitzero"` // that was put; zero in what was published
	State   string          `json:"state,omitzero"`
	Body    json.RawMessage `json:"body,omitempty"` // where the subscriber asked for bodies and may see it
}

// Cursor is a place between events: opaque text that stays good over
// restarts, and under every filter.
type Cursor string

// The cursors that can be used without having been told one.
const (
	Now   Cursor = "now"   // the moment at which it is used; so is an empty cursor
	Start Cursor = "start" // before the first entry of the log
)

// Batch is what came together: events in the order of the log, and the cursor
// behind them and all that was passed over. Without events it says only how
// far the log has been looked through.
type Batch struct {
	Events []Event
	Cursor Cursor
}

// Caller is on whose behalf something is done.
type Caller struct {
	User    string
	Agent   string   // the path of the agent that acts; empty: the user
	Lineage []string // the agents on whose behalf it acts, the outermost first
}

// Options are an engine's parts and bounds. Store, Judge and Directory are
// needed.
type Options struct {
	Store     store.Store
	Judge     policy.Judge
	Directory policy.Directory
	Audit     []string      // reads that are recorded: types ("email.Message"), types by their beginning ("email.*"), and prefixes ("cld:…")
	Queue     int           // events that may wait for a subscriber before he is referred to the log; zero: 4,096
	Size      int           // events of a batch; zero: 256
	Beat      time.Duration // after so long without an event a batch without one is told; zero: 15 s
	Recheck   time.Duration // how long a subscriber's rights are taken to be what they were; zero: 1 s
	// Mask hides secrets in a body, as the store does; nil: there are none.
	Mask func([]byte) []byte
	Log  *slog.Logger // nil: slog.Default()
}

func (o Options) settled() Options {
	if o.Queue <= 0 {
		o.Queue = 4096
	}
	if o.Size <= 0 {
		o.Size = 256
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
	return o
}

// Engine publishes and tells events. While there are subscribers, one
// goroutine follows the log for all of them. Safe for concurrent use.
type Engine struct {
	opt   Options
	audit audit
	done  chan struct{} // closed when the engine closes

	mu      sync.Mutex
	closed  bool
	live    *follower // nil while nobody subscribes
	running sync.WaitGroup
}

// New returns an engine. It costs nothing until somebody subscribes. It
// refuses what cannot be audited (audit_invalid).
func New(o Options) (*Engine, error) {
	a, err := parseAudit(o.Audit)
	if err != nil {
		return nil, err
	}
	return &Engine{opt: o.settled(), audit: a, done: make(chan struct{})}, nil
}

// Close ends all subscriptions with the error closing, and returns when
// nothing of the engine runs any more.
func (e *Engine) Close() {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.done)
		if e.live != nil {
			e.live.cancel()
		}
	}
	e.mu.Unlock()
	e.running.Wait()
}

func (e *Engine) ended() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// head returns the number of the log's newest entry, whosever it is.
func (e *Engine) head(ctx context.Context) (uint64, error) {
	page, err := e.opt.Store.Log(ctx, store.ForNode(""), store.LogQuery{Reverse: true, Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		return 0, err
	}
	return page.Entries[0].Seq, nil
}

func cursorOf(seq uint64) Cursor { return Cursor((&store.LogQuery{}).Cursor(seq)) }

// position opens a cursor that was told (cursor_invalid).
func (c Cursor) position() (uint64, error) {
	seq, _, err := (&store.LogQuery{After: store.Cursor(c)}).Position()
	return seq, err
}

func closing() *fault.Error {
	return fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0)
}
