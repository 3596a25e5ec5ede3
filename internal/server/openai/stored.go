package openai

import (
	"context"
	"net/http"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/turn"
	"steward/internal/turn/relay"
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
		if before := relay.Transcript(system, msgs[:len(msgs)-1]); before != nil {
			t.Content = append([]message.Block{before}, t.Content...)
		}
		return f.startConversation(ctx, w, caller, t)
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
		acc, err := caller.Send(ctx, f.Node, t)
		if err != nil {
			yield(llm.Event{}, err)
			return
		}
		relay.Follow(ctx, f.Node, user, acc)(yield)
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

// startConversation starts a conversation with an agent, and names it in a header.
func (f *server) startConversation(ctx context.Context, w http.ResponseWriter, caller auth.Caller, t turn.Input) (events, error) {
	acc, err := caller.Send(ctx, f.Node, t)
	if fault.HasCode(err, "agent_not_found") {
		err = fault.Of(err).Detail("param", "model")
	}
	if err != nil {
		return nil, err
	}
	w.Header().Set(conversationHeader, acc.Conversation.String())
	return relay.Follow(ctx, f.Node, caller.User, acc), nil
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
