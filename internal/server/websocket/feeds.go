package websocket

import (
	"context"
	"iter"
	"strconv"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
)

// Events delivers events about resources.
type Events interface {
	Subscribe(ctx context.Context, user string, f events.Filter, from events.Cursor) iter.Seq2[events.Batch, error]
}

// feeds are the observations or the subscriptions of a connection, each under the id of the
// client's frame that began it. The connection's mutex guards them.
type feeds struct {
	noun    string // observation or subscription, for error messages
	end     string // the type of the frame that ends one
	most    int
	ongoing map[string]*watching
}

// The most observations and subscriptions of one connection.
const (
	maxObservations  = 16
	maxSubscriptions = 64
)

type (
	observeFrame struct { // asks for changes of conversations
		head
		Conversations []string `json:"conversation_ids"`
		Interactions  []string `json:"interaction_ids"`
		Tools         []string `json:"tools"`
		Kinds         []string `json:"kinds"`
		Cursor        string   `json:"cursor"`
	}
	subscribeFrame struct { // asks for events
		head
		Sources  []string            `json:"sources"`
		Details  []events.DetailType `json:"detail_types"`
		Prefixes []string            `json:"prefixes"`
		Types    []string            `json:"types"`
		Bodies   bool                `json:"bodies"`
		Cursor   string              `json:"cursor"`
	}
	endFrame struct { // ends an observation or a subscription
		head
		Re string `json:"re"` // the id of the frame that began it
	}
)

// observe starts to send changes to the client, under the id of its frame.
func (c *conn) observe(f *observeFrame) (err error) {
	filter := events.ChangeFilter{Tools: f.Tools, Kinds: f.Kinds}
	if filter.Conversations, err = ids("conversation_ids", f.Conversations); err != nil {
		return err
	}
	if filter.Interactions, err = ids("interaction_ids", f.Interactions); err != nil {
		return err
	}
	return c.feed(&c.observing, f.ID, func(ctx context.Context) iter.Seq2[events.Batch, error] {
		return c.server.o.Node.Observe(ctx, c.caller.User, filter, events.Cursor(f.Cursor))
	})
}

// subscribe starts to send events to the client, under the id of its frame.
func (c *conn) subscribe(f *subscribeFrame) error {
	if c.server.o.Events == nil {
		return fault.New(fault.Unsupported, "events_missing", "this Steward has no events")
	}
	filter := events.Filter{Sources: f.Sources, Details: f.Details, Types: f.Types, Bodies: f.Bodies}
	for i, s := range f.Prefixes {
		u, err := resource.Parse(s)
		if err != nil {
			return fault.Of(err).Detail("member", "/prefixes/"+strconv.Itoa(i))
		}
		filter.Prefixes = append(filter.Prefixes, u)
	}
	return c.feed(&c.subscribed, f.ID, func(ctx context.Context) iter.Seq2[events.Batch, error] {
		return c.server.o.Events.Subscribe(ctx, c.caller.User, filter, events.Cursor(f.Cursor))
	})
}

func ids(member string, texts []string) ([]id.ID, error) {
	out := make([]id.ID, len(texts))
	for i, s := range texts {
		var ok bool
		if out[i], ok = id.Parse(s); !ok {
			return nil, badMember(member+"/"+strconv.Itoa(i), "%.80q is not an id", s).WithHint("send ids unchanged: they are UUIDs in lower case")
		}
	}
	return out, nil
}

// feed sends batches to the client until it is ended, under the id of a frame.
func (c *conn) feed(all *feeds, key string, follow func(context.Context) iter.Seq2[events.Batch, error]) error {
	if key == "" {
		return missing("id")
	}
	ctx, cancel := context.WithCancel(c.ctx)
	w := &watching{cancel: cancel, done: make(chan struct{})}
	if err := c.addFeed(all, key, w); err != nil {
		cancel()
		return err
	}
	c.work.Go(func() {
		err := c.sendBatches(ctx, key, all == &c.observing, follow(ctx))
		c.mu.Lock()
		delete(all.ongoing, key) // before the client learns of the end
		c.mu.Unlock()
		if err != nil {
			c.sendError(ctx, err, key, id.ID{})
		}
		cancel()
		close(w.done)
	})
	return nil
}

// sendBatches sends batch after batch. If the client is slow, the rest waits in the log. Revoked
// keys are noticed before more is sent.
func (c *conn) sendBatches(ctx context.Context, re string, changes bool, batches iter.Seq2[events.Batch, error]) error {
	for b, err := range batches {
		if err != nil {
			return err
		}
		if again := c.caller.Recheck(ctx); again != nil {
			if ctx.Err() == nil {
				c.refuse(again)
			}
			return nil
		}
		frame := answer{Type: "events", Re: re, Cursor: b.Cursor}
		if changes {
			frame.Type, frame.Changes = "changes", append([]*events.Change{}, b.Changes...)
		} else {
			frame.Events = append([]events.Event{}, b.Events...)
		}
		raw, err := encode(frame)
		if err != nil || !c.sendRaw(ctx, raw) {
			return err
		}
	}
	return nil
}

func (c *conn) addFeed(all *feeds, key string, w *watching) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case all.ongoing[key] != nil:
		return fault.New(fault.Conflict, all.noun+"_exists", "the connection already has a %s with the id %s", all.noun, key).
			WithHint("use another id, or %s that one first", all.end)
	case len(all.ongoing) >= all.most:
		return fault.New(fault.Exhausted, "too_many_"+all.noun+"s", "one connection has at most %d %ss", all.most, all.noun).
			WithHint("ask for more with one filter, or open another connection")
	}
	if all.ongoing == nil {
		all.ongoing = map[string]*watching{}
	}
	all.ongoing[key] = w
	return nil
}

// endFeed ends a feed. Nothing more is sent for it after endFeed returns.
func (c *conn) endFeed(all *feeds, re string) error {
	if re == "" {
		return missing("re")
	}
	c.mu.Lock()
	w := all.ongoing[re]
	c.mu.Unlock()
	if w == nil {
		return fault.New(fault.NotFound, all.noun+"_not_found", "the connection has no %s with the id %.80s", all.noun, re)
	}
	w.cancel()
	<-w.done
	return nil
}
