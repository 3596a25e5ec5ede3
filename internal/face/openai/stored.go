package openai

import (
	"context"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/runtime"
)

// continued continues a stored conversation with the caller's last message.
// The conversation's own tools run here; of what they do the caller gets the
// answer only. The turn goes on when the caller goes away.
func (f *face) continued(ctx context.Context, user, conv string, c *completion, last *message.Message, s llm.Sampling, key string) (events, error) {
	x, ok := id.Parse(conv)
	if !ok {
		return nil, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80s", conv).Detail("param", "metadata.conversation_id")
	}
	switch {
	case last.Role != message.User:
		return nil, bad("messages", "a conversation is continued with a message of the role user")
	case len(c.Tools) > 0:
		return nil, unsupported("tools", "a stored conversation has tools of its own")
	case c.Format != nil && c.Format.Type != "text":
		return nil, unsupported("response_format", "a stored conversation answers in prose")
	}
	if m := c.Metadata["message_id"]; m != "" {
		key = m
	}
	t := runtime.Turn{Conversation: x, ClientID: key, Content: last.Blocks, Model: c.Model, Sampling: s}
	return func(yield func(llm.Event, error) bool) {
		acc, err := f.Node.Send(ctx, user, t)
		if err != nil {
			yield(llm.Event{}, err)
			return
		}
		told := teller{turn: acc.Interaction}
		for fr, err := range f.Node.Watch(ctx, user, x, runtime.Cursor{Seq: acc.Seq}) {
			if err != nil {
				yield(llm.Event{}, err)
				return
			}
			more, ok := told.tell(&fr, yield)
			if !more || !ok {
				return
			}
		}
	}, nil
}

// teller tells the frames of one turn as the events of a model's stream.
type teller struct {
	turn    id.ID
	message id.ID // whose text was told last
	some    bool  // text was told
}

// tell yields what a frame says; more is false after the turn's end.
func (t *teller) tell(f *runtime.Frame, yield func(llm.Event, error) bool) (more, ok bool) {
	if f.Interaction != t.turn {
		return true, true
	}
	switch f.Kind {
	case runtime.FrameToken:
		if t.some && t.message != f.Message { // it goes on after tools have run
			ok = yield(llm.Event{Kind: llm.TextDelta, Text: "\n\n"}, nil)
			if !ok {
				return false, false
			}
		}
		t.some, t.message = true, f.Message
		return true, yield(llm.Event{Kind: llm.TextDelta, Text: f.Text}, nil)
	case runtime.FrameReasoning:
		return true, yield(llm.Event{Kind: llm.ReasoningDelta, Text: f.Text}, nil)
	case runtime.FrameReset:
		return true, yield(llm.Event{Kind: llm.Reset}, nil)
	case runtime.FrameNotice:
		return true, yield(llm.Event{Kind: llm.Notice, Text: f.Text}, nil)
	case runtime.FrameError:
		return false, yield(llm.Event{}, f.Err)
	case runtime.FrameComplete:
		m := f.Stored
		return false, yield(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: m.Model, Blocks: m.Blocks, Stop: m.Stop, Usage: m.Usage}}, nil)
	}
	return true, true
}
