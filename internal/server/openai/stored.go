package openai

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/turn"
)

// agentPrefix begins the names of the models that are agents.
const agentPrefix = "agent:"

// conversationHeader names the conversation in which an agent answers.
const conversationHeader = "Steward-Conversation"

// turn continues a stored conversation with the caller's last message, or starts one with an agent.
// The conversation's own tools run in Steward, and the caller receives only the answer. If the caller
// disconnects, the turn continues.
func (f *server) turn(ctx context.Context, w http.ResponseWriter, user, conv string, c *completion, system string, msgs []*message.Message, t turn.Input) (events, error) {
	last := msgs[len(msgs)-1]
	t.Content = last.Blocks
	if m := c.Metadata["message_id"]; m != "" {
		t.ClientID = m
	}
	if err := checkStored(conv, c, last); err != nil {
		return nil, err
	}
	caller, err := auth.From(ctx)
	if err == nil {
		err = caller.Store(ctx, int64(c.size))
	}
	if err != nil {
		return nil, err
	}
	if conv == "" {
		if before := transcript(system, msgs[:len(msgs)-1]); before != nil {
			t.Content = append([]message.Block{before}, t.Content...)
		}
		return f.startConversation(ctx, w, user, t)
	}
	if system != "" { // the conversation has its own system prompt
		w.Header().Add(ignoredHeader, "system messages")
	}
	if user == identity.Anonymous { // all callers without a credential share this name
		return nil, fault.New(fault.Unauthentic, "key_missing", "continuing a conversation requires authentication").
			WithHint("send the token (steward token) or a key as the API key")
	}
	x, ok := id.Parse(conv)
	if !ok {
		return nil, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80s", conv).Detail("param", "metadata.conversation_id")
	}
	t.Conversation = x
	return func(yield func(llm.Event, error) bool) {
		acc, err := f.send(ctx, user, t)
		if err != nil {
			yield(llm.Event{}, err)
			return
		}
		f.follow(ctx, user, acc, yield)
	}, nil
}

// checkStored refuses parameters that a conversation with its own tools cannot use.
func checkStored(conv string, c *completion, last *message.Message) error {
	what := "a stored conversation"
	if conv == "" {
		what = "an agent"
	}
	switch {
	case last.Role != message.User:
		return bad("messages", "the last message must be of the role user to continue a conversation")
	case len(c.Tools) > 0:
		return unsupported("tools", "%s has tools of its own", what)
	case c.Format != nil && c.Format.Type != "text":
		return unsupported("response_format", "%s answers in prose", what)
	}
	return nil
}

// transcript returns the earlier messages of a client's conversation, which Steward does not know, as
// an attachment. Steward cannot tell who wrote them, so the agent treats all of them as untrusted
// content, even those of the role system.
func transcript(system string, msgs []*message.Message) message.Block {
	var b strings.Builder
	add := func(who, text string) {
		if text != "" {
			fmt.Fprintf(&b, "[%s]\n%s\n\n", who, text)
		}
	}
	add("system", system)
	for _, m := range msgs {
		for _, block := range m.Blocks {
			switch x := block.(type) {
			case *message.Text:
				add(string(m.Role), x.Text)
			case *message.ToolCall:
				add(string(m.Role), x.Name+" "+string(x.Args))
			case *message.ToolResult:
				add(string(m.Role), x.Plain())
			case *message.Image:
				add(string(m.Role), "(an image, which is not attached)")
			case *message.File:
				add(string(m.Role), "(the file "+x.Name+", which is not attached)")
			}
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return &message.File{MIME: "text/plain", Name: "the conversation so far, as the client reports it", Data: []byte(strings.TrimRight(b.String(), "\n"))}
}

// startConversation starts a conversation with an agent, and names it in a header.
func (f *server) startConversation(ctx context.Context, w http.ResponseWriter, user string, t turn.Input) (events, error) {
	acc, err := f.send(ctx, user, t)
	if fault.HasCode(err, "agent_not_found") {
		err = fault.Of(err).Detail("param", "model")
	}
	if err != nil {
		return nil, err
	}
	w.Header().Set(conversationHeader, acc.Conversation.String())
	return func(yield func(llm.Event, error) bool) { f.follow(ctx, user, acc, yield) }, nil
}

// send begins a turn, when the caller may begin another one.
func (f *server) send(ctx context.Context, user string, t turn.Input) (turn.Accepted, error) {
	caller, err := auth.From(ctx)
	if err != nil {
		return turn.Accepted{}, err
	}
	end, err := caller.Turn(ctx)
	if err != nil {
		return turn.Accepted{}, err
	}
	acc, err := f.Node.Send(ctx, user, t)
	if err != nil || !caller.Bounded() {
		end()
		return acc, err
	}
	go func() { // the turn continues if the caller leaves
		defer end()
		auth.AwaitTurn(context.WithoutCancel(ctx), f.Node, user, acc)
	}()
	return acc, nil
}

// follow yields the events of a turn until its end.
func (f *server) follow(ctx context.Context, user string, acc turn.Accepted, yield func(llm.Event, error) bool) {
	told := frameConverter{turn: acc.Interaction}
	for fr, err := range f.Node.Watch(ctx, user, acc.Conversation, turn.Cursor{Seq: acc.Seq}) {
		if err != nil {
			yield(llm.Event{}, err)
			return
		}
		more, ok := told.convert(&fr, yield)
		if !more || !ok {
			return
		}
	}
}

// agents returns the names of the models that are agents.
func (f *server) agents(ctx context.Context) []string {
	if c, err := auth.From(ctx); err != nil || c.User == identity.Anonymous {
		return nil
	}
	var out []string
	for _, a := range f.Node.Agents(ctx) {
		out = append(out, agentPrefix+a.Path)
	}
	return out
}

// frameConverter converts the frames of one turn to the events of a model's stream.
type frameConverter struct {
	turn    id.ID
	message id.ID // the message whose text was sent last
	some    bool  // text was sent
	images  remoteStripper
}

// convert yields the events of a frame. more is false after the turn's end.
func (t *frameConverter) convert(f *turn.Frame, yield func(llm.Event, error) bool) (more, ok bool) {
	if f.Interaction != t.turn {
		return true, true
	}
	switch f.Kind {
	case turn.FrameToken:
		if t.some && t.message != f.Message { // it continues after tools have run
			ok = yield(llm.Event{Kind: llm.TextDelta, Text: t.images.rest() + "\n\n"}, nil)
			if !ok {
				return false, false
			}
		}
		t.some, t.message = true, f.Message
		text := t.images.next(f.Text)
		return true, text == "" || yield(llm.Event{Kind: llm.TextDelta, Text: text}, nil)
	case turn.FrameReasoning:
		return true, yield(llm.Event{Kind: llm.ReasoningDelta, Text: f.Text}, nil)
	case turn.FrameReset:
		t.images.rest()
		return true, yield(llm.Event{Kind: llm.Reset}, nil)
	case turn.FrameNotice:
		return true, yield(llm.Event{Kind: llm.Notice, Text: f.Text}, nil)
	case turn.FrameError:
		return false, yield(llm.Event{}, f.Err)
	case turn.FrameComplete:
		m := f.Stored
		if text := t.images.rest(); text != "" && !yield(llm.Event{Kind: llm.TextDelta, Text: text}, nil) {
			return false, false
		}
		return false, yield(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: m.Model, Blocks: withoutRemote(m.Blocks), Stop: m.Stop, Usage: m.TurnUsage()}}, nil)
	}
	return true, true
}
