package chat

import (
	"context"
	"strconv"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/observe"
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

func (f *observeFrame) filter() (observe.Filter, error) {
	out := observe.Filter{Tools: f.Tools, Kinds: f.Kinds}
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
				Detail("member", "/"+member+"/"+strconv.Itoa(i)).With("send ids as they came: UUIDs in lower case")
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
		return c.tellChanges(ctx, f.ID, filter, observe.Cursor(f.Cursor))
	})
}

// tellChanges puts batch after batch. While the client leaves one waiting, the
// node keeps what comes, up to its bound.
func (c *conn) tellChanges(ctx context.Context, re string, f observe.Filter, from observe.Cursor) error {
	for b, err := range c.server.o.Node.Observe(ctx, c.caller.User, f, from) {
		if err != nil {
			return err
		}
		if !c.tell(ctx, appendChanges(nil, re, &b)) {
			return nil
		}
	}
	return nil
}

// appendChanges appends the frame of a batch of changes.
func appendChanges(dst []byte, re string, b *observe.Batch) []byte {
	dst = append(dst, `{"type":"changes"`...)
	dst = appendText(dst, "re", re)
	dst = append(dst, `,"changes":[`...)
	for i := range b.Changes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendChange(dst, &b.Changes[i])
	}
	dst = append(dst, ']')
	dst = appendText(dst, "cursor", string(b.Cursor))
	return append(dst, '}')
}

func appendChange(dst []byte, c *observe.Change) []byte {
	dst = append(dst, `{"kind":"`...)
	dst = append(dst, c.Kind...)
	dst = append(dst, `","seq":`...)
	dst = strconv.AppendUint(dst, c.Seq, 10)
	dst = append(dst, `,"at":"`...)
	dst = c.At.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, '"')
	dst = appendSome(dst, "actor", c.Actor)
	dst = appendID(dst, "request_id", c.Request)
	dst = appendID(dst, "conversation_id", c.Conversation)
	dst = appendID(dst, "interaction_id", c.Interaction)
	dst = appendID(dst, "message_id", c.Message)
	dst = appendSome(dst, "branch", c.Branch)
	dst = appendSome(dst, "role", string(c.Role))
	if len(c.Tools) > 0 {
		dst = append(dst, `,"tools":[`...)
		for i, name := range c.Tools {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = quote(dst, name)
		}
		dst = append(dst, ']')
	}
	dst = appendSome(dst, "outcome", c.Outcome)
	dst = appendSome(dst, "error", c.Error)
	dst = appendSome(dst, "state", string(c.State))
	dst = appendSome(dst, "reason", c.Reason)
	dst = appendID(dst, "by", c.By)
	if c.Revision != 0 {
		dst = strconv.AppendInt(append(dst, `,"revision":`...), int64(c.Revision), 10)
	}
	dst = appendText(dst, "uri", c.URI.String())
	return append(dst, '}')
}
