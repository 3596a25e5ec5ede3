package chat

import (
	"context"
	"strconv"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
)

// observeFrame asks for changes.
type observeFrame struct {
	head
	Conversations []string `json:"conversation_ids"`
	Interactions  []string `json:"interaction_ids"`
	Tools         []string `json:"tools"`
	Kinds         []string `json:"kinds"`
	Cursor        string   `json:"cursor"`
}

// maxObservations bounds those of one connection.
const maxObservations = 16

func (f *observeFrame) filter() (events.ChangeFilter, error) {
	out := events.ChangeFilter{Tools: f.Tools, Kinds: f.Kinds}
	var err error
	if out.Conversations, err = ids("conversation_ids", f.Conversations); err != nil {
		return out, err
	}
	out.Interactions, err = ids("interaction_ids", f.Interactions)
	return out, err
}

func ids(member string, texts []string) ([]id.ID, error) {
	out := make([]id.ID, len(texts))
	for i, s := range texts {
		var ok bool
		if out[i], ok = id.Parse(s); !ok {
			return nil, fault.New(fault.Invalid, "member_invalid", "%.80q is no id", s).
				Detail("member", "/"+member+"/"+strconv.Itoa(i)).WithHint("send ids as they came: UUIDs in lower case")
		}
	}
	return out, nil
}

// observe begins to tell the client of changes, under the id of its frame.
func (c *conn) observe(f *observeFrame) error {
	if f.ID == "" {
		return missing("id")
	}
	filter, err := f.filter()
	if err != nil {
		return err
	}
	return c.feed(&c.observing, f.ID, func(ctx context.Context) error {
		return c.tellChanges(ctx, f.ID, filter, events.Cursor(f.Cursor))
	})
}

// tellChanges puts batch after batch. While the client leaves one waiting, the
// log keeps the rest.
func (c *conn) tellChanges(ctx context.Context, re string, f events.ChangeFilter, from events.Cursor) error {
	for b, err := range c.server.o.Node.Observe(ctx, c.caller.User, f, from) {
		if err != nil {
			return err
		}
		raw, err := appendChanges(nil, re, &b)
		if err != nil {
			return err
		}
		if !c.tell(ctx, raw) {
			return nil
		}
	}
	return nil
}

// appendChanges appends the frame of a batch of changes.
func appendChanges(dst []byte, re string, b *events.Batch) ([]byte, error) {
	return appendBatch(dst, "changes", re, b.Changes, string(b.Cursor))
}
