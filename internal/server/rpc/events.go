package rpc

import (
	"context"
	"iter"
	"time"

	"connectrpc.com/connect"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/server/httpauth"
	"steward/proto/eventpb"
)

// Events is what the service event.Event needs of the runtime.
type Events interface {
	Publish(ctx context.Context, user string, x events.Publication) (events.Published, error)
	Subscribe(ctx context.Context, user string, f events.Filter, from events.Cursor) iter.Seq2[events.Batch, error]
}

// happenings implements the service event.Event.
type happenings struct {
	node   Events
	server *Server
}

// caller returns the caller, or an error if there are no events.
func (h happenings) caller(ctx context.Context) (httpauth.Caller, error) {
	if h.node == nil {
		return httpauth.Caller{}, fault.New(fault.Unsupported, "events_missing", "this Steward has no events")
	}
	return httpauth.From(ctx)
}

// Publish implements eventpb.EventHandler.
func (h happenings) Publish(ctx context.Context, in *eventpb.Occurrence) (*eventpb.PublishResponse, error) {
	c, err := h.caller(ctx)
	if err != nil {
		return nil, err
	}
	x, err := publicationOf(in)
	if err != nil {
		return nil, err
	}
	done, err := h.node.Publish(ctx, c.User, x)
	if err != nil {
		return nil, err
	}
	return &eventpb.PublishResponse{Success: true, Id: done.ID.String(), Uri: done.URI.String(),
		Cursor: string(done.Cursor), Duplicate: done.Duplicate}, nil
}

func publicationOf(in *eventpb.Occurrence) (events.Publication, error) {
	x := events.Publication{ID: in.GetId(), Source: in.GetSource(), Space: resource.Space(in.GetSpace()),
		Detail: events.DetailType(in.GetDetailType().String())}
	if s := in.GetTime(); s != "" {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return x, fault.New(fault.Invalid, "time_invalid", "time is not a time: %.80q", s).WithHint("write it as in RFC 3339, 2030-01-31T12:00:00Z, or leave it out")
		}
		x.Time = t
	}
	for _, r := range in.GetResources() {
		u, err := resource.Parse(r.GetUri())
		if err != nil {
			return x, err
		}
		x.Resources = append(x.Resources, events.Resource{URI: u, Body: []byte(r.GetBody())})
	}
	return x, nil
}

// Subscribe implements eventpb.EventHandler. It rechecks the caller's access before it sends anything.
func (h happenings) Subscribe(ctx context.Context, in *eventpb.SubscribeRequest, out *connect.ServerStream[eventpb.Occurrence]) error {
	c, err := h.caller(ctx)
	if err != nil {
		return asConnect(err)
	}
	f, err := filterOf(in)
	if err != nil {
		return asConnect(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.server.ends, cancel)()
	for b, err := range h.node.Subscribe(ctx, c.User, f, events.Cursor(in.GetCursor())) {
		if err == nil {
			err = c.Recheck(ctx)
		}
		if err != nil {
			if fault.Is(err, fault.Internal) {
				h.server.Logger.ErrorContext(ctx, "a subscription failed", "error", err)
			}
			return asConnect(err)
		}
		if err := send(out, &b); err != nil {
			return err
		}
	}
	if h.server.ends.Err() != nil {
		return closing()
	}
	return ctx.Err()
}

func send(out *connect.ServerStream[eventpb.Occurrence], b *events.Batch) error {
	if len(b.Events) == 0 {
		return out.Send(&eventpb.Occurrence{Cursor: string(b.Cursor)})
	}
	for i := range b.Events {
		x := occurrenceOf(&b.Events[i])
		if i == len(b.Events)-1 {
			x.Cursor = string(b.Cursor) // it also skips the events that the filter left out
		}
		if err := out.Send(x); err != nil {
			return err
		}
	}
	return nil
}

func filterOf(in *eventpb.SubscribeRequest) (events.Filter, error) {
	f := events.Filter{Sources: in.GetSources(), Types: in.GetTypes(), Bodies: in.GetBodies()}
	for _, d := range in.GetDetailTypes() {
		f.Details = append(f.Details, events.DetailType(d))
	}
	for _, p := range in.GetPrefixes() {
		u, err := resource.Parse(p)
		if err != nil {
			return f, err
		}
		f.Prefixes = append(f.Prefixes, u)
	}
	return f, nil
}

func occurrenceOf(x *events.Event) *eventpb.Occurrence {
	out := &eventpb.Occurrence{Id: x.ID.String(), Source: valid(x.Source), Time: x.Time.UTC().Format(time.RFC3339Nano),
		DetailType: eventpb.DetailType(eventpb.DetailType_value[string(x.Detail)]), Cursor: string(x.Cursor()),
		Published: x.Published, Uri: x.URI.String(), Seq: x.Seq, RequestId: x.Request.String()}
	for i := range x.Resources {
		r := &x.Resources[i]
		out.Resources = append(out.Resources, &eventpb.Resource{Uri: r.URI.String(), Type: r.Type, Space: string(r.Space),
			Version: r.Version, State: valid(r.State), Body: valid(string(r.Body))})
	}
	return out
}
