package llm

import "steward/internal/fault"

// notAllowed is the error code for a model that is not allowed.
const notAllowed = "model_not_allowed"

// NotAllowed returns the error for a model that is not allowed. why is the reason.
func NotAllowed(model, why string) *fault.Error {
	return fault.New(fault.Denied, notAllowed, "%s may not be asked: %s", model, why)
}
