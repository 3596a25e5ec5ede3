package websocket

import (
	"context"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/effect"
	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/server/auth"
)

// head holds the members that every frame of a client has.
type head struct {
	Type string `json:"type"`
	ID   string `json:"id"` // the client's own id, repeated in answers as "re"
}

const maxID = 256 // size limit of the client's own ids, in bytes

// asked is a frame of a client before its type is decoded.
type asked struct {
	head
	Conversation jsontext.Value `json:"conversation_id"`
	data         []byte
}

// about returns the conversation that the frame names, if it is a valid id.
func (a *asked) about() id.ID {
	if len(a.Conversation) < 2 || a.Conversation.Kind() != '"' {
		return id.ID{}
	}
	conv, _ := id.Parse(string(a.Conversation[1 : len(a.Conversation)-1]))
	return conv
}

// handler handles one type of a client's frames.
type handler func(c *conn, a *asked) error

// on returns the handler for frames of type F. do sends the answer itself.
func on[F any](do func(*conn, *F) error) handler {
	return func(c *conn, a *asked) error {
		f := new(F)
		if err := auth.Unmarshal(a.data, f); err != nil {
			return err
		}
		return do(c, f)
	}
}

// ok returns the handler for frames of type F that are answered with "ok", if the client has given
// the frame an id.
func ok[F any](do func(*conn, *F) error) handler {
	return func(c *conn, a *asked) error {
		err := on(do)(c, a)
		if err == nil && a.ID != "" {
			return c.answer(answer{Type: "ok", Re: a.ID, Conversation: a.about()})
		}
		return err
	}
}

// handlers is the table of the frames that clients may send.
func handlers() map[string]handler {
	return map[string]handler{
		"message":       on((*conn).message),
		"stop":          ok((*conn).stop),
		"resume":        on((*conn).resume),
		"approve":       ok((*conn).decide),
		"deny":          ok((*conn).decide),
		"approvals":     on((*conn).approvals),
		"approval":      on((*conn).question),
		"observe":       on((*conn).observe),
		"unobserve":     ok(func(c *conn, f *endFrame) error { return c.endFeed(&c.observing, f.Re) }),
		"subscribe":     on((*conn).subscribe),
		"unsubscribe":   ok(func(c *conn, f *endFrame) error { return c.endFeed(&c.subscribed, f.Re) }),
		"reminders":     ok((*conn).reminders),
		"requests":      on((*conn).requests),
		"cancel":        ok(aboutRequest(Node.CancelRequest)),
		"resume_turn":   ok(aboutRequest(Node.ResumeRequest)),
		"agents":        on((*conn).listAgents),
		"inspect_agent": on((*conn).inspectAgent),
		"approve_agent": on((*conn).approveAgent),
		"deny_agent":    on((*conn).refuseAgent),
		"revoke_agent":  on((*conn).refuseAgent),
		"ping":          on(func(c *conn, f *head) error { return c.answer(answer{Type: "pong", Re: f.ID}) }),
	}
}

// Frames returns the types of frames that clients may send, sorted. It reads the table that
// connections use.
func Frames() []string { return slices.Sorted(maps.Keys(handlers())) }

// handle handles a client's frame, or reports why it was refused.
func (c *conn) handle(data []byte) {
	a := &asked{data: data}
	err := auth.UnmarshalKnown(data, a)
	if len(a.ID) > maxID {
		a.ID, err = "", tooLongID("id")
	}
	if err == nil {
		do, known := c.server.handlers[a.Type]
		if known {
			err = do(c, a)
		} else {
			err = fault.New(fault.Invalid, "unknown_type", "unknown frame type %.80q", a.Type).
				WithHint("docs/reference/websocket.md describes the frame types")
		}
	}
	if err != nil {
		c.log.Debug("a frame was refused", "type", a.Type, "error", err)
		c.sendRaw(c.ctx, errorFrame(err, a.ID, a.about()))
	}
}

// answer is a frame that is encoded by reflection. A list that belongs to the frame is never nil, so
// that an empty one is sent as [].
type answer struct {
	Type         string            `json:"type"`
	Re           string            `json:"re,omitzero"` // the id of the client's frame
	Conversation id.ID             `json:"conversation_id,omitzero"`
	Agents       []catalog.Listing `json:"agents,omitzero"`
	Agent        any               `json:"agent,omitzero"` // a catalog.Listing or a catalog.Inspection
	Approvals    []effect.Question `json:"approvals,omitzero"`
	Approval     *effect.Question  `json:"approval,omitzero"`
	Requests     []client.Request  `json:"requests,omitzero"`
	Request      *client.Request   `json:"request,omitzero"`
	Events       []events.Event    `json:"events,omitzero"`
	Changes      []*events.Change  `json:"changes,omitzero"`
	Cursor       events.Cursor     `json:"cursor,omitzero"`
}

// answer sends a frame to the client.
func (c *conn) answer(a answer) error {
	raw, err := encode(a)
	if err == nil {
		c.sendRaw(c.ctx, raw)
	}
	return err
}

// sendError reports an error to the client, for a frame or for the watch of a conversation, and logs it
// if it is an internal one.
func (c *conn) sendError(ctx context.Context, err error, re string, conv id.ID) {
	if fault.Is(err, fault.Internal) {
		c.log.Error("a frame could not be served", "error", err)
	}
	c.sendRaw(ctx, errorFrame(err, re, conv))
}

func badMember(member, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "member_invalid", format, args...).Detail("member", "/"+member)
}

func tooLongID(member string) error {
	return badMember(member, "the %s has more than %d bytes", member, maxID)
}

func missing(member string) error {
	return fault.New(fault.Invalid, "member_missing", "the member %s is missing", member).Detail("member", "/"+member)
}

// conversationID parses an id. An invalid id is reported as missing, like a conversation of another
// user.
func conversationID(s string) (id.ID, error) {
	if s == "" {
		return id.ID{}, missing("conversation_id")
	}
	x, ok := id.Parse(s)
	if !ok || x.Zero() {
		return x, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80s", s).
			WithHint("steward conversations list shows your conversations")
	}
	return x, nil
}
