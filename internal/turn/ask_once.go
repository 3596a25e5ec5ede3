package turn

import (
	"context"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
)

// AskOnce asks a model outside any conversation, on behalf of the request's user,
// and returns the text of its answer.
func (e *Engine) AskOnce(ctx context.Context, m llm.Resolved, req *llm.Request, text string) (string, error) {
	req.Transcript = llm.Saying(&message.Text{Common: message.Common{Origin: "system"}, Text: text})
	r, err := e.reply(ctx, m, req)
	if err != nil {
		return "", err
	}
	if r.Stop == message.StopLength {
		return "", fault.New(fault.TooLarge, "answer_too_long", "the answer was cut off by its length limit").WithHint("ask for less")
	}
	return r.Text(), nil
}

// reply asks a model outside any conversation, on behalf of the request's user,
// and records what it used: for the turn for which it is asked, if there is one.
func (e *Engine) reply(ctx context.Context, m llm.Resolved, req *llm.Request) (*llm.Reply, error) {
	r, err := llm.Answer(ctx, m.Model, req)
	if err != nil {
		return nil, err
	}
	return r, e.RecordUsage(ctx, req, r)
}

// RecordUsage records what a reply used that is in no message.
func (e *Engine) RecordUsage(ctx context.Context, req *llm.Request, r *llm.Reply) error {
	ok, err := req.Meter.Record(r.Model, r.Usage)
	if !ok {
		err = e.conversations.Record(context.WithoutCancel(ctx), store.ForUser(req.User), resource.URI{}, r.Model, r.Usage)
	}
	return err
}
