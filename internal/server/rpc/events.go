package rpc

import (
	"context"
	"iter"
	"time"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/server/auth"
)

// Events is what the service event.Event needs of the runtime.
type Events interface {
	Publish(ctx context.Context, user string, x events.Publication) (events.Published, error)
	Subscribe(ctx context.Context, user string, f events.Filter, from events.Cursor) iter.Seq2[events.Batch, error]
}

// occurrence is an event.Occurrence.
type occurrence struct {
	ID        string            `json:"id"`
	Source    string            `json:"source"`
	Time      string            `json:"time"` // RFC 3339
	Resources []eventResource   `json:"resources,omitempty"`
	Detail    events.DetailType `json:"detail_type,omitzero"`
	Cursor    events.Cursor     `json:"cursor"`
	Published bool              `json:"published"`
	URI       string            `json:"uri"`
	Seq       uint64            `json:"seq,string"`
	Request   string            `json:"request_id"`
	Space     resource.Space    `json:"space"`
}

// eventResource is an event.Resource.
type eventResource struct {
	URI     string         `json:"uri"`
	Type    string         `json:"type"`
	Space   resource.Space `json:"space"`
	Version uint64         `json:"version,string"`
	State   string         `json:"state"`
	Body    string         `json:"body"` // JSON text
}

// eventCaller returns the caller, or an error if there are no events.
func (f *Server) eventCaller(ctx context.Context) (auth.Caller, error) {
	if f.Events == nil {
		return auth.Caller{}, fault.New(fault.Unsupported, "events_missing", "this Steward has no events")
	}
	return auth.From(ctx)
}

type publishResponse struct {
	Success   bool          `json:"success"`
	ID        id.ID         `json:"id"`
	URI       resource.URI  `json:"uri"`
	Cursor    events.Cursor `json:"cursor"`
	Duplicate bool          `json:"duplicate"`
}

// publish serves event.Event.Publish.
func (f *Server) publish(ctx context.Context, in *occurrence) (out publishResponse, err error) {
	c, err := f.eventCaller(ctx)
	if err != nil {
		return out, err
	}
	x, err := in.publication()
	if err == nil {
		err = c.Store(ctx, 0)
	}
	if err != nil {
		return out, err
	}
	done, err := f.Events.Publish(ctx, c.User, x)
	return publishResponse{true, done.ID, done.URI, done.Cursor, done.Duplicate}, err
}

func (in *occurrence) publication() (events.Publication, error) {
	x := events.Publication{ID: in.ID, Source: in.Source, Space: in.Space, Detail: in.Detail}
	if in.Time != "" {
		t, err := time.Parse(time.RFC3339Nano, in.Time)
		if err != nil {
			return x, fault.New(fault.Invalid, "time_invalid", "invalid time %.80q", in.Time).WithHint("use RFC 3339, such as 2030-01-31T12:00:00Z, or leave it out")
		}
		x.Time = t
	}
	for _, r := range in.Resources {
		u, err := resource.Parse(r.URI)
		if err != nil {
			return x, err
		}
		x.Resources = append(x.Resources, events.Resource{URI: u, Body: []byte(r.Body)})
	}
	return x, nil
}

type subscribeRequest struct {
	Sources  []string            `json:"sources"`
	Details  []events.DetailType `json:"detail_types"`
	Prefixes []string            `json:"prefixes"`
	Types    []string            `json:"types"`
	Cursor   events.Cursor       `json:"cursor"`
	Bodies   bool                `json:"bodies"`
}

// subscribe serves event.Event.Subscribe. It rechecks the caller's access before it sends anything.
func (f *Server) subscribe(ctx context.Context, in *subscribeRequest, send func(*occurrence) error) error {
	c, err := f.eventCaller(ctx)
	if err != nil {
		return connectError(err)
	}
	filter, err := in.filter()
	if err != nil {
		return connectError(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.ends, cancel)()
	for b, err := range f.Events.Subscribe(ctx, c.User, filter, in.Cursor) {
		if err == nil {
			err = c.Recheck(ctx)
		}
		if err != nil {
			if fault.Is(err, fault.Internal) {
				f.Logger.ErrorContext(ctx, "a subscription failed", "error", err)
			}
			return connectError(err)
		}
		if err := sendBatch(send, &b); err != nil {
			return err
		}
	}
	if f.ends.Err() != nil {
		return errClosing()
	}
	return ctx.Err()
}

func sendBatch(send func(*occurrence) error, b *events.Batch) error {
	if len(b.Events) == 0 {
		return send(&occurrence{Cursor: b.Cursor})
	}
	for i := range b.Events {
		x := occurrenceOf(&b.Events[i])
		if i == len(b.Events)-1 {
			x.Cursor = b.Cursor // it also skips the events that the filter left out
		}
		if err := send(x); err != nil {
			return err
		}
	}
	return nil
}

func (in *subscribeRequest) filter() (events.Filter, error) {
	f := events.Filter{Sources: in.Sources, Types: in.Types, Details: in.Details, Bodies: in.Bodies}
	for _, p := range in.Prefixes {
		u, err := resource.Parse(p)
		if err != nil {
			return f, err
		}
		f.Prefixes = append(f.Prefixes, u)
	}
	return f, nil
}

func occurrenceOf(x *events.Event) *occurrence {
	out := &occurrence{ID: x.ID.String(), Source: x.Source, Time: x.Time.UTC().Format(time.RFC3339Nano), Detail: x.Detail,
		Cursor: x.Cursor(), Published: x.Published, URI: x.URI.String(), Seq: x.Seq, Request: x.Request.String()}
	for i := range x.Resources {
		r := &x.Resources[i]
		out.Resources = append(out.Resources, eventResource{r.URI.String(), r.Type, r.Space, r.Version, r.State, string(r.Body)})
	}
	return out
}
