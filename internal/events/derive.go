package events

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"steward/internal/id"
	"steward/internal/resource"
)

// stored is what a resource of TypeEvent holds. Its source is in its URI.
type stored struct {
	Detail    DetailType  `json:"detail_type"`
	Time      time.Time   `json:"time,omitzero"` // zero: that of the entry
	Seen      bool        `json:"seen,omitzero"` // Steward has seen it; the source does not only say so
	Resources []storedRef `json:"resources"`
}

type storedRef struct {
	URI  resource.URI    `json:"uri"`
	Body json.RawMessage `json:"body,omitempty"`
}

// told is an event as all subscribers are told it: without bodies, which
// policy may oblige to mask.
type told struct {
	Event
	own     bool // the entry holds an event; else it is one
	space   resource.Space
	uriType string // of URI
	size    int    // bytes of what a published event names
}

// content is the bodies of an event's resources, for those who want them.
type content struct {
	bodies [][]byte
	size   int // bytes of all of them
}

func (c *content) add(body []byte) {
	c.bodies = append(c.bodies, body)
	c.size += len(body)
}

// derive returns what an entry tells; false for one that tells nothing: an
// event whose content was erased, or that cannot be read.
func (e *Engine) derive(ctx context.Context, x *resource.Entry) (*told, *content, bool) {
	t, c := &told{space: x.Space, uriType: x.URI.Type()}, &content{}
	t.Seq, t.URI, t.Request, t.Time = x.Seq, x.URI, x.Request, x.At
	if t.uriType == TypeEvent && x.Op == resource.OpPut {
		return t, c, e.published(t, c, x)
	}
	t.ID = id.Derive("event", strconv.FormatUint(x.Seq, 10), string(x.URI.Key()))
	t.Source, t.Detail = e.sourceOf(ctx, x.Actor), Put
	if x.Op != resource.OpPut {
		t.Detail = Delete
	}
	t.Resources = []Resource{{URI: x.URI, Type: t.uriType, Space: x.Space, Version: x.Version, State: x.State}}
	c.add(x.Body)
	return t, c, true
}

// published reads an entry that holds an event.
func (e *Engine) published(t *told, c *content, x *resource.Entry) bool {
	if len(x.Body) == 0 { // erased since
		return false
	}
	var s stored
	err := json.Unmarshal(x.Body, &s)
	own, ok := id.Parse(x.URI.ID())
	if t.Source = sourceAt(x.URI); err != nil || !ok || t.Source == "" {
		e.opt.Log.Error("an event of the log cannot be told", "seq", x.Seq, "uri", x.URI, "error", err)
		return false
	}
	t.own, t.ID, t.Detail, t.Published = true, own, s.Detail, !s.Seen
	if !s.Time.IsZero() {
		t.Time = s.Time
	}
	for _, r := range s.Resources {
		res := Resource{URI: r.URI, Type: r.URI.Type()}
		if s.Seen { // else nobody has looked where it is
			res.Space = x.Space
		}
		t.Resources = append(t.Resources, res)
		t.size += len(r.URI.Key())
		c.add(r.Body)
	}
	return true
}
