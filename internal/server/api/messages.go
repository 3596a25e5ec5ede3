package api

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// place is the position and the state of a message: the members that an answer adds to the
// message's stored form.
type place struct {
	Interaction  id.ID           `json:"interaction_id"`
	Branch       string          `json:"branch,omitzero"`        // on which it was written
	State        record.Validity `json:"state,omitzero"`         // left out: active
	Reason       string          `json:"reason,omitzero"`        // of the state
	By           string          `json:"by,omitzero"`            // the tool or the person that changed the state
	Changed      time.Time       `json:"changed,omitzero"`       // when
	SupersededBy id.ID           `json:"superseded_by,omitzero"` // the message that replaces it
	Pinned       bool            `json:"pinned,omitzero"`
	Shown        *bool           `json:"shown,omitempty"` // false: outside the model's view of the branch
}

func placeOf(e *conversation.Entry) place {
	p := place{Interaction: e.Interaction, Branch: e.Branch, Pinned: e.Pinned}
	if c := e.Change; c.State != record.Active {
		p.State, p.Reason, p.By, p.Changed, p.SupersededBy = c.State, c.Reason, cmp.Or(c.Tool, c.Actor), c.At, c.By
	}
	if !e.Shown {
		p.Shown = &e.Shown
	}
	return p
}

// messages answers with a page of messages in their stored form, each with
// its place.
func (f *server) messages(ctx context.Context, c *call, in struct {
	inConversation
	page
	Branch  string `query:"branch"`
	Reverse bool   `query:"reverse"`
	Deleted bool   `query:"deleted"`
}) (raw, error) {
	list, next, err := f.Node.Conversations.Read(ctx, store.ForUser(c.User), in.Conv,
		conversation.Reading{Branch: in.Branch, After: in.After, Limit: in.limit(), Reverse: in.Reverse, Deleted: in.Deleted})
	if err != nil {
		return nil, err
	}
	b, err := placed(list, func(m *conversation.Entry) (any, *message.Message) { return placeOf(m), m.Message })
	if err == nil && next != "" {
		b, err = jsontext.AppendQuote(append(b, `,"next":`...), string(next))
	}
	return append(b, "}\n"...), err
}

// messagesOfCall answers with the messages that contain the call with a provider's id.
func (f *server) messagesOfCall(ctx context.Context, c *call, in struct {
	Call string `query:"call"`
}) (raw, error) {
	if in.Call == "" {
		return nil, fault.New(fault.Invalid, "call_missing", "the call is missing").WithHint("name it by the provider's id of the call: ?call=…")
	}
	list, err := f.Node.Conversations.FindCall(ctx, store.ForUser(c.User), in.Call)
	if err != nil {
		return nil, err
	}
	type found struct {
		Conversation id.ID `json:"conversation_id"`
		place
	}
	b, err := placed(list, func(m *conversation.Called) (any, *message.Message) {
		return found{m.Conversation, placeOf(&m.Entry)}, m.Message
	})
	return append(b, "}\n"...), err
}

// placed returns the beginning of an answer with messages: of each, the members of its place
// and then those of its stored form. The caller closes the object.
func placed[T any](list []T, of func(*T) (place any, m *message.Message)) ([]byte, error) {
	b := []byte(`{"messages":[`)
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		place, m := of(&list[i])
		head, err := json.Marshal(place)
		if err != nil {
			return nil, err
		}
		b = append(append(b, head[:len(head)-1]...), ',')
		at := len(b)
		b = message.Append(b, m)
		b = append(b[:at], b[at+1:]...) // without its own opening brace
	}
	return append(b, ']'), nil
}

func (f *server) siblings(ctx context.Context, c *call, in struct {
	inConversation
	Message id.ID `path:"message"`
}) (map[string][]client.Sibling, error) {
	list, err := f.Node.Conversations.Siblings(ctx, store.ForUser(c.User), in.Conv, in.Message)
	out := make([]client.Sibling, len(list))
	for i, s := range list {
		out[i] = client.Sibling{Branch: s.Branch, Message: s.Message.String(), Preferred: s.Current}
	}
	return the("siblings", out), err
}

func noMessages() error {
	return fault.New(fault.Invalid, "messages_missing", "no messages are named").WithHint(`name them: {"messages":["…"]}`)
}

func (f *server) remove(ctx context.Context, c *call, in struct {
	inConversation
	Body struct {
		Messages []id.ID `json:"messages"`
	} `body:""`
}) (client.NewBranch, error) {
	if len(in.Body.Messages) == 0 {
		return client.NewBranch{}, noMessages()
	}
	if err := c.Store(ctx, max(c.r.ContentLength, 0)); err != nil {
		return client.NewBranch{}, err
	}
	b, err := f.Node.Remove(ctx, c.User, in.Conv, in.Body.Messages...)
	return viewBranch(b, true), err
}

// inserted is a branch with a newly inserted message.
type inserted struct {
	client.NewBranch
	Message id.ID `json:"message_id"`
}

func (f *server) insert(ctx context.Context, c *call, in struct {
	inConversation
	Body struct {
		After id.ID        `json:"after"`
		Role  message.Role `json:"role"`
		Text  string       `json:"text"`
	} `body:"" size:"1048576"`
}) (inserted, error) {
	role := cmp.Or(in.Body.Role, message.User)
	if role != message.User && role != message.Assistant {
		return inserted{}, fault.New(fault.Invalid, "role_unknown", "a message of the role %.40q cannot be inserted", role).WithHint("use user or assistant")
	}
	if strings.TrimSpace(in.Body.Text) == "" {
		return inserted{}, fault.New(fault.Invalid, "message_empty", "the message is empty").WithHint("write something")
	}
	m := &message.Message{ID: id.New(), Role: role, Blocks: []message.Block{
		&message.Text{Common: message.Common{Origin: record.OriginUser}, Text: in.Body.Text}}}
	if err := c.Store(ctx, max(c.r.ContentLength, 0)); err != nil {
		return inserted{}, err
	}
	b, err := f.Node.Insert(ctx, c.User, in.Conv, in.Body.After, m)
	return inserted{viewBranch(b, true), m.ID}, err
}

func (f *server) mark(ctx context.Context, c *call, in struct {
	inConversation
	Body struct {
		Messages []id.ID         `json:"messages"`
		State    record.Validity `json:"state"`
		Reason   string          `json:"reason"`
		By       id.ID           `json:"by"`
		Erase    bool            `json:"erase"` // with the state deleted: permanently
	} `body:""`
}) (map[string]int, error) {
	b := in.Body
	if len(b.Messages) == 0 {
		return nil, noMessages()
	}
	if b.Erase && b.State != record.Deleted {
		return nil, fault.New(fault.Invalid, "erase_not_deleted", "only messages that are deleted can be erased").WithHint(`send the state "deleted" with it`)
	}
	n, err := f.Node.Mark(ctx, c.User, in.Conv, conversation.Verdict{State: b.State, Reason: b.Reason, By: b.By}, b.Messages...)
	if err == nil && b.Erase {
		err = f.Node.EraseMessages(ctx, c.User, in.Conv, b.Messages...)
	}
	return the("changed", n), err
}

func (f *server) pin(ctx context.Context, c *call, in struct {
	inConversation
	Body struct {
		Messages []id.ID `json:"messages"`
		Pinned   *bool   `json:"pinned"` // left out: true
	} `body:""`
}) (noContent, error) {
	if len(in.Body.Messages) == 0 {
		return noContent{}, noMessages()
	}
	pinned := in.Body.Pinned == nil || *in.Body.Pinned
	return noContent{}, f.Node.Pin(ctx, c.User, in.Conv, pinned, in.Body.Messages...)
}

// trust removes labels from messages: untrusted, unless the request names others.
func (f *server) trust(ctx context.Context, c *call, in struct {
	inConversation
	Body struct {
		Messages []id.ID   `json:"messages"`
		Labels   *[]string `json:"labels"`
	} `body:""`
}) (noContent, error) {
	if len(in.Body.Messages) == 0 {
		return noContent{}, noMessages()
	}
	labels := message.Untrusted
	if in.Body.Labels != nil {
		var err error
		if labels, err = message.ParseLabels(strings.Join(*in.Body.Labels, ",")); err != nil {
			return noContent{}, err
		}
	}
	return noContent{}, f.Node.Trust(ctx, c.User, in.Conv, labels, in.Body.Messages...)
}

func viewChanges(list []conversation.Optimization) []client.Change {
	out := make([]client.Change, len(list))
	for i, o := range list {
		out[i] = client.Change{Message: o.Message.String(), State: string(o.State), At: o.At, Actor: o.Actor, Tool: o.Tool, Call: o.Call,
			Interaction: o.Interaction.String(), Strategy: o.Strategy, Reason: o.Reason, By: o.By.String(), Undone: o.Undone, UndoneBy: o.UndoneBy}
	}
	return out
}

// changes answers with the audit trail.
func (f *server) changes(ctx context.Context, c *call, in struct {
	inConversation
	Interaction id.ID  `query:"interaction"`
	Tool        string `query:"tool"`
}) (map[string][]client.Change, error) {
	list, err := f.Node.Conversations.Audit(ctx, store.ForUser(c.User), in.Conv, in.Interaction, in.Tool)
	return the("changes", viewChanges(list)), err
}

// inInteraction is the path parameters that name an interaction.
type inInteraction struct {
	inConversation
	Interaction id.ID `path:"interaction"`
}

// interactionView is an interaction and the changes of its messages.
type interactionView struct {
	ID       id.ID             `json:"id"`
	Origin   string            `json:"origin"`
	Started  time.Time         `json:"started"`
	Stopped  time.Time         `json:"stopped,omitzero"`
	Outcome  string            `json:"outcome,omitzero"`
	Into     id.ID             `json:"into,omitzero"`
	State    record.Validity   `json:"state"`
	By       string            `json:"by,omitzero"`
	Tools    map[string]int    `json:"tools"`
	Messages []interactionPart `json:"messages"`
	Changes  []client.Change   `json:"changes"`
}

type interactionPart struct {
	Message id.ID           `json:"message_id"`
	Role    message.Role    `json:"role"`
	State   record.Validity `json:"state"`
}

func (f *server) interaction(ctx context.Context, c *call, in inInteraction) (interactionView, error) {
	x, err := f.Node.Conversations.Interaction(ctx, store.ForUser(c.User), in.Conv, in.Interaction)
	parts := make([]interactionPart, len(x.Entries))
	for i, e := range x.Entries {
		parts[i] = interactionPart{e.ID, e.Role, e.Change.State}
	}
	return interactionView{x.ID, x.Origin, x.Started, x.Stopped, x.Outcome, x.Into, x.State, x.By, x.Tools, parts, viewChanges(x.Changes)}, err
}

func (f *server) merge(ctx context.Context, c *call, in struct {
	inInteraction
	Body struct {
		From id.ID `json:"from"`
	} `body:""`
}) (noContent, error) {
	if in.Body.From.Zero() {
		return noContent{}, fault.New(fault.Invalid, "interaction_missing", "the interaction to merge is missing").WithHint(`name it: {"from":"…"}`)
	}
	return noContent{}, f.Node.Merge(ctx, c.User, in.Conv, in.Interaction, in.Body.From)
}

func (f *server) rollback(ctx context.Context, c *call, in struct {
	inInteraction
	Body struct {
		Tool string `json:"tool"`
	} `body:""`
}) (map[string]int, error) {
	n, err := f.Node.Rollback(ctx, c.User, in.Conv, in.Interaction, in.Body.Tool)
	return the("restored", n), err
}
