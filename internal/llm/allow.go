package llm

import "steward/internal/fault"

// notAllowed is the code of a model that may not be asked.
const notAllowed = "model_not_allowed"

// NotAllowed is the error of a model that may not be asked, and why.
func NotAllowed(model, why string) *fault.Error {
	return fault.New(fault.Denied, notAllowed, "%s may not be asked: %s", model, why)
}
