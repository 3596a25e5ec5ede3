package chat

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/resource"
)

// Events tells what happens to resources.
type Events interface {
	Subscribe(ctx context.Context, user string, f events.Filter, from events.Cursor) iter.Seq2[events.Batch, error]
}

// subscribeFrame asks for events.
type subscribeFrame struct {
	head
	Sources  []string            `json:"sources"`
	Details  []events.DetailType `json:"detail_types"`
	Prefixes []string            `json:"prefixes"`
	Types    []string            `json:"types"`
	Bodies   bool                `json:"bodies"`
	Cursor   string              `json:"cursor"`
}

// maxSubscriptions bounds those of one connection.
const maxSubscriptions = 64

// prefixesOf reads URIs; a fault says in which.
func prefixesOf(texts []string) ([]resource.URI, error) {
	var out []resource.URI
	for i, s := range texts {
		u, err := resource.Parse(s)
		if err != nil {
			return nil, fault.Of(err).Detail("member", "/prefixes/"+strconv.Itoa(i))
		}
		out = append(out, u)
	}
	return out, nil
}

// subscribe begins to tell the client of events, under the id of its frame.
func (c *conn) subscribe(f *subscribeFrame) error {
	switch {
	case f.ID == "":
		return missing("id")
	case c.server.o.Events == nil:
		return fault.New(fault.Unsupported, "events_missing", "this Steward tells no events")
	}
	prefixes, err := prefixesOf(f.Prefixes)
	if err != nil {
		return err
	}
	filter := events.Filter{Sources: f.Sources, Details: f.Details, Prefixes: prefixes, Types: f.Types, Bodies: f.Bodies}
	return c.feed(&c.subscribed, f.ID, func(ctx context.Context) error {
		return c.tellEvents(ctx, f.ID, filter, events.Cursor(f.Cursor))
	})
}

// tellEvents puts batch after batch. While the client leaves one waiting, the
// log keeps the rest. A key that was revoked is found out before more is told.
func (c *conn) tellEvents(ctx context.Context, re string, f events.Filter, from events.Cursor) error {
	for b, err := range c.server.o.Events.Subscribe(ctx, c.caller.User, f, from) {
		if err != nil {
			return err
		}
		if again := c.caller.Recheck(ctx); again != nil {
			if ctx.Err() == nil {
				c.refuse(again)
			}
			return nil
		}
		raw, err := appendEvents(nil, re, &b)
		if err != nil {
			return err
		}
		if !c.tell(ctx, raw) {
			return nil
		}
	}
	return nil
}

// appendEvents appends the frame of a batch of events.
func appendEvents(dst []byte, re string, b *events.Batch) ([]byte, error) {
	return appendBatch(dst, "events", re, b.Events, string(b.Cursor))
}

// appendBatch appends a frame of what happened, under its own name.
func appendBatch[T any](dst []byte, name, re string, list []T, cursor string) ([]byte, error) {
	dst = append(dst, `{"type":"`+name+`"`...)
	dst = appendText(dst, "re", re)
	dst = append(dst, `,"`+name+`":[`...)
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		one, err := json.Marshal(&list[i])
		if err != nil {
			return nil, err
		}
		dst = append(dst, one...)
	}
	dst = append(dst, ']')
	dst = appendText(dst, "cursor", cursor)
	return append(dst, '}'), nil
}
