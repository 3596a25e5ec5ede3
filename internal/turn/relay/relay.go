// Package relay shows a turn of a conversation as what programs of models' protocols expect: the stream of
// one model's answer. The servers that speak such a protocol (OpenAI's, Ollama's) share it.
//
// A client of such a protocol sends the whole conversation with each request, and knows neither agents
// nor tools that run elsewhere. So there are two ways to answer it. A model's request goes to the model as it
// is: History turns the client's messages into Steward's, Structured asks the model and holds it to a schema.
// An agent's request becomes a turn: the last message is what the user says, Transcript attaches the
// earlier ones as untrusted content, because nobody can tell who wrote them, and Follow yields the turn's
// text as if one model had written it. Its tools run in the turn, and the client sees none of them.
//
// What a client would fetch on its own when it shows an answer, such as an image, leaves the text of agents
// on the way: text that was injected could otherwise send away, in a URL, what the agent has read.
package relay

import (
	"context"
	"iter"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/turn"
)

// Events are the events of a model's answer, or of a turn as such an answer.
type Events = iter.Seq2[llm.Event, error]

// Watcher follows conversations; a runtime.Node is one.
type Watcher interface {
	Watch(ctx context.Context, user string, conversation id.ID, from turn.Cursor) iter.Seq2[turn.Frame, error]
}

// Broken returns the error of a stream that ended before its answer did.
func Broken() error {
	return fault.New(fault.Unavailable, "stream_broken", "the answer was interrupted").
		WithHint("ask again").Retrying(fault.RetryBackoff, 0)
}

// Follow returns the events of a turn until its end.
func Follow(ctx context.Context, w Watcher, user string, acc turn.Accepted) Events {
	return func(yield func(llm.Event, error) bool) {
		told := frameConverter{turn: acc.Interaction}
		for fr, err := range w.Watch(ctx, user, acc.Conversation, turn.Cursor{Seq: acc.Seq}) {
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
	case turn.FrameNotice, turn.FrameMemory:
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
