package llm

import (
	"context"
	"iter"

	"steward/internal/fault"
)

// notAllowed is the code of a model that may not be asked.
const notAllowed = "model_not_allowed"

// NotAllowed is the error of a model that may not be asked, and why.
func NotAllowed(model, why string) *fault.Error {
	return fault.New(fault.Denied, notAllowed, "%s may not be asked: %s", model, why)
}

// admitted is a model that is asked only where that is allowed.
type admitted struct {
	name  string
	next  Model
	allow func(ctx context.Context, model string, r *Request) error
}

// Stream implements Model.
func (a *admitted) Stream(ctx context.Context, r *Request) iter.Seq2[Event, error] {
	if err := a.allow(ctx, a.name, r); err != nil {
		return failing{err}.Stream(ctx, r)
	}
	return a.next.Stream(ctx, r)
}
