package main

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/proto/eventpb"
)

// Subscribe tells the events of the Steward that serves, over its WebSocket.
func (s *session) Subscribe(ctx context.Context, f events.Filter, from events.Cursor) iter.Seq2[events.Batch, error] {
	return func(yield func(events.Batch, error) bool) {
		if err := s.subscribe(ctx, f, from, yield); err != nil && ctx.Err() == nil {
			yield(events.Batch{}, err)
		}
	}
}

// eventsFrame is a frame that tells events, or an error.
type eventsFrame struct {
	Type   string         `json:"type"`
	Events []events.Event `json:"events"`
	Cursor events.Cursor  `json:"cursor"`
	errorFrame
}

func (s *session) subscribe(ctx context.Context, f events.Filter, from events.Cursor, yield func(events.Batch, error) bool) error {
	c, err := s.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ask := map[string]any{"type": "subscribe", "id": "1", "sources": f.Sources, "types": f.Types, "prefixes": f.Prefixes,
		"detail_types": f.Details, "bodies": f.Bodies, "cursor": from}
	for name, v := range ask { // what is not asked for is left out
		if b, err := json.Marshal(v); err == nil && string(b) == "null" {
			delete(ask, name)
		}
	}
	if err := c.Send(ctx, ask); err != nil {
		return err
	}
	for {
		var in eventsFrame
		switch err := c.Receive(ctx, &in); {
		case err != nil:
			return err
		case in.Type == "error":
			return in.fault()
		case in.Type == "events" && !yield(events.Batch{Events: in.Events, Cursor: in.Cursor}, nil):
			return nil
		}
	}
}

// publish publishes an event: here, or over the RPC of the Steward that serves.
func (s *session) publish(ctx context.Context, x events.Publication) (events.Published, error) {
	if s.local != nil {
		return s.local.node.Publish(ctx, s.local.user, x)
	}
	in := &eventpb.Occurrence{Id: x.ID, Source: x.Source, Space: string(x.Space),
		DetailType: eventpb.DetailType(eventpb.DetailType_value[string(x.Detail)])}
	if !x.Time.IsZero() {
		in.Time = x.Time.Format(time.RFC3339Nano)
	}
	for _, res := range x.Resources {
		in.Resources = append(in.Resources, &eventpb.Resource{Uri: res.URI.String(), Body: string(res.Body)})
	}
	auth := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if err := s.Authorize(req.Header()); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}
	})
	res, err := eventpb.NewEventClient(s.HTTP(), s.URL(), connect.WithInterceptors(auth)).Publish(ctx, in)
	if err != nil {
		return events.Published{}, ofRPC(s.URL(), err)
	}
	out := events.Published{Cursor: events.Cursor(res.GetCursor()), Duplicate: res.GetDuplicate()}
	out.ID, _ = id.Parse(res.GetId())
	out.URI, err = resource.Parse(res.GetUri())
	return out, err
}

// ofRPC is the error that an RPC tells: see docs/rpc.md.
func ofRPC(url string, err error) error {
	var e *connect.Error
	if !errors.As(err, &e) {
		return unreachable(url, err)
	}
	for _, d := range e.Details() {
		v, err := d.Value()
		info, ok := v.(*errdetails.ErrorInfo)
		if err != nil || !ok {
			continue
		}
		m := info.GetMetadata()
		out := fault.New(fault.Kind(m["kind"]), m["error_code"], "%s", withoutEnd(e.Message(), m["remedy"])).
			Retrying(fault.Retry(m["retry_strategy"]), 0)
		if m["remedy"] != "" {
			out = out.With("%s", m["remedy"])
		}
		return out
	}
	return unreachable(url, err)
}

func unreachable(url string, err error) error {
	return fault.New(fault.Unavailable, "server_unreachable", "the Steward at %s does not answer: %w", url, err).
		With("see whether it still runs; steward doctor tells more").Retrying(fault.RetryBackoff, 0)
}

// withoutEnd takes the remedy off a message that ends with it in brackets.
func withoutEnd(message, remedy string) string {
	if end := " (" + remedy + ")"; remedy != "" && len(message) > len(end) && message[len(message)-len(end):] == end {
		return message[:len(message)-len(end)]
	}
	return message
}
