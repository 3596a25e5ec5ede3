package gemini

import (
	"net/http"

	"steward/internal/provider/wire"
)

// explain reads Google's error JSON: {"error": {code, message, status, details}}, alone or in a list
// (https://ai.google.dev/gemini-api/docs/troubleshooting, details as in
// google/rpc/error_details.proto).
func explain(status int, body []byte) wire.Refusal {
	e, _ := wire.ReadAPIError(body) // as far as it can be read: the status says the rest
	r := wire.Refusal{Message: e.Message, After: e.After}
	switch {
	case e.Reason == "API_KEY_INVALID", e.Status == "UNAUTHENTICATED", e.Status == "PERMISSION_DENIED":
		r.Code = wire.CodeAuth
	case e.Status == "RESOURCE_EXHAUSTED":
		r.Code = wire.CodeRate
	case e.Status == "UNAVAILABLE":
		r.Code = wire.CodeOverloaded
	case e.Status == "INTERNAL", e.Status == "DEADLINE_EXCEEDED", e.Status == "UNKNOWN":
		r.Code = wire.CodeProvider
	case e.Status == "NOT_FOUND":
		r.Code = wire.CodeNoModel
	case status != http.StatusBadRequest: // the following errors all have the status INVALID_ARGUMENT
	case e.MessageContains("api key not valid", "api key expired"):
		r.Code = wire.CodeAuth
	case e.MessageContains("token count") && e.MessageContains("exceeds"):
		r.Code = wire.CodeContext
	case e.MessageContains("json mode is not enabled"), e.MessageContains("response mime type") && e.MessageContains("unsupported"):
		r.Code = wire.CodeNoSchema
	case e.MessageContains("function calling is not enabled", "tool use with function calling is unsupported"):
		r.Code = wire.CodeNoTools
	case e.MessageContains("image input modality is not enabled"):
		r.Code = wire.CodeNoImages
	}
	return r
}
