package llm

import (
	"strings"

	"steward/internal/fault"
	"steward/internal/message"
)

// codeEmpty is the error code for a model that answered nothing.
const codeEmpty = "empty_answer"

// isBlank reports whether nothing in a reply is for its reader: at most reasoning and white space.
func isBlank(r *Reply) bool {
	for _, b := range r.Blocks {
		switch b := b.(type) {
		case *message.Reasoning:
		case *message.Text:
			if strings.TrimSpace(b.Text) != "" {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// unanswered reports whether a model has ended without an answer. A refusal is an answer.
func unanswered(r *Reply) bool {
	return r != nil && r.Stop != message.StopRefused && isBlank(r)
}

// emptyAnswer returns the error for a model that answered nothing.
func emptyAnswer(name string, r *Reply) *fault.Error {
	if r.Stop == message.StopLength {
		return fault.New(fault.Unavailable, codeEmpty, "%s reached the limit of its answer before it answered anything", name).
			WithHint("raise max_tokens, lower the effort, or choose a model with a larger context window").Retrying(fault.RetryNone, 0)
	}
	return fault.New(fault.Unavailable, codeEmpty, "%s answered nothing", name).
		WithHint("ask in other words, or choose another model; `steward models test %s` shows what this one can do", name).Retrying(fault.RetryNone, 0)
}
