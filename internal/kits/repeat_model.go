package kits

import (
	"context"
	"errors"
	"iter"
	"slices"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
)

// repeater is record.RepeatModel, which answers the turns that alarms open: it repeats what it was
// sent. So a reminder reaches the conversation like any other turn, without a call of a real model.
type repeater struct{}

// Stream implements llm.Model.
func (repeater) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		msgs, err := r.Transcript.All()
		if err = errors.Join(err, ctx.Err()); err != nil {
			yield(llm.Event{}, err)
			return
		}
		text := ""
		for _, m := range msgs {
			if m.Role == message.User {
				text = said(m)
			}
		}
		if yield(llm.Event{Kind: llm.TextDelta, Text: text}, nil) {
			yield(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: record.RepeatModel, Blocks: []message.Block{&message.Text{Text: text}}, Stop: message.StopEnd}}, nil)
		}
	}
}

// said returns the text of a message without what Steward has added for models, such as when it was sent.
func said(m *message.Message) string {
	own := *m
	own.Blocks = slices.DeleteFunc(slices.Clone(m.Blocks), func(b message.Block) bool { return b.Base().Origin == "system" })
	return own.Text()
}

// repeatModel returns the model of turns that alarms open.
func repeatModel() llm.Resolved {
	return llm.Resolved{Name: record.RepeatModel, Models: []string{record.RepeatModel}, Model: repeater{}}
}
