package relay

import (
	"context"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
)

// Structured calls a model. If the request has a schema, Structured holds the answer back until it has
// checked it, because many servers accept a schema and do not follow it. If the answer does not fit, it
// calls the model once more with the reason. If the second answer does not fit either, the error is
// schema_unmet. A schema that cannot be used is schema_invalid. msgs are the request's.
func Structured(ctx context.Context, model llm.Model, r *llm.Request, msgs []*message.Message) (Events, error) {
	if r.Schema == nil {
		return model.Stream(ctx, r), nil
	}
	form, err := tool.NewValidator(r.Schema.JSON)
	if err != nil {
		return nil, fault.New(fault.Invalid, "schema_invalid", "the schema cannot be used: %w", err).
			WithHint("send a valid JSON Schema")
	}
	return func(yield func(llm.Event, error) bool) {
		var spent message.Usage
		for try := 0; ; try++ {
			reply, ok := readAnswer(model.Stream(ctx, r), yield)
			if !ok {
				return
			}
			text, _ := TextOf(reply.Blocks)
			wrong := form.Validate([]byte(strings.TrimSpace(text)))
			if wrong == nil || reply.Stop != message.StopEnd && reply.Stop != message.StopSequence {
				reply.Usage = reply.Usage.Add(spent) // the finish reason tells if it was cut short or refused
				yield(llm.Event{Kind: llm.Done, Reply: reply}, nil)
				return
			}
			if try > 0 {
				yield(llm.Event{}, fault.New(fault.Unavailable, "schema_unmet", "the model's answer does not match the schema: %w", wrong).
					WithHint("ask again, simplify the schema, or use another model"))
				return
			}
			spent = reply.Usage
			again := *r
			again.Transcript = llm.NewTranscript(append(msgs, textMessage(message.Assistant, text), textMessage(message.User,
				"The answer does not match the schema: "+wrong.Error()+" Answer again with the JSON value alone. The schema:\n"+string(r.Schema.JSON)))...)
			r = &again
		}
	}, nil
}

// readAnswer reads an answer to its end, and yields everything but its text.
func readAnswer(from Events, yield func(llm.Event, error) bool) (*llm.Reply, bool) {
	for ev, err := range from {
		switch {
		case err != nil:
			yield(llm.Event{}, err)
			return nil, false
		case ev.Kind == llm.Done:
			return ev.Reply, true
		case ev.Kind == llm.Notice, ev.Kind == llm.ReasoningDelta:
			if !yield(ev, nil) {
				return nil, false
			}
		}
	}
	yield(llm.Event{}, Broken())
	return nil, false
}

func textMessage(role message.Role, text string) *message.Message {
	return &message.Message{ID: id.New(), Role: role, Blocks: []message.Block{&message.Text{Text: text}}}
}
