package events

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"steward/internal/id"
	"steward/internal/resource"
)

// stored is the body of a resource of TypeEvent. The URI of the resource holds the source.
type stored struct {
	Detail    DetailType  `json:"detail_type"`
	Time      time.Time   `json:"time,omitzero"` // zero: the time of the entry
	Seen      bool        `json:"seen,omitzero"` // Steward has observed it; it is not only the source's claim
	Resources []storedRef `json:"resources"`
}

type storedRef struct {
	URI  resource.URI    `json:"uri"`
	Body json.RawMessage `json:"body,omitempty"`
}

// holdsEvent reports whether an entry contains a published event. Every other entry is itself an
// event.
func holdsEvent(x *resource.Entry) bool { return x.URI.Type() == TypeEvent && x.Op == resource.OpPut }

// About returns the resources that an entry's event is about, other than the resource that the
// entry changes. See follow.Options.
func About(x *resource.Entry) (out []resource.URI) {
	var s stored
	if holdsEvent(x) && json.Unmarshal(x.Body, &s) == nil {
		for _, r := range s.Resources {
			out = append(out, r.URI)
			if resource.IsShort(r.URI) { // the event keeps the URI that its publisher wrote
				out = append(out, resource.Expand(x.Space, r.URI))
			}
		}
	}
	return out
}

// derive returns the event of an entry. It returns false if there is none: the event's content was
// erased, or cannot be read.
func (e *Engine) derive(ctx context.Context, x *resource.Entry, bodies bool) (Event, bool) {
	out := Event{Seq: x.Seq, URI: x.URI, Request: x.Request, Time: x.At}
	if holdsEvent(x) {
		ok := e.published(&out, x, bodies)
		return out, ok
	}
	out.ID = id.Derive("event", strconv.FormatUint(x.Seq, 10), string(x.URI.Key()))
	out.Source, out.Detail = e.sourceOf(ctx, x.Actor), Put
	if x.Op != resource.OpPut {
		out.Detail = Delete
	}
	r := Resource{URI: x.URI, Type: x.URI.Type(), Space: x.Space, Version: x.Version, State: x.State}
	if bodies {
		r.Body = x.Body
	}
	out.Resources = []Resource{r}
	return out, true
}

// published decodes an entry that contains a published event.
func (e *Engine) published(out *Event, x *resource.Entry, bodies bool) bool {
	if len(x.Body) == 0 { // erased since
		return false
	}
	var s stored
	err := json.Unmarshal(x.Body, &s)
	own, ok := id.Parse(x.URI.ID())
	if out.Source = sourceAt(x.URI); err != nil || !ok || out.Source == "" {
		e.opt.Log.Error("cannot derive an event from the log", "seq", x.Seq, "uri", x.URI, "error", err)
		return false
	}
	out.ID, out.Detail, out.Published = own, s.Detail, !s.Seen
	if !s.Time.IsZero() {
		out.Time = s.Time
	}
	for _, ref := range s.Resources {
		r := Resource{URI: ref.URI, Type: ref.URI.Type()}
		if s.Seen { // otherwise nobody has checked where the resource is
			r.Space = x.Space
		}
		if bodies {
			r.Body = ref.Body
		}
		out.Resources = append(out.Resources, r)
	}
	return true
}
