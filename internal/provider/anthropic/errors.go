package anthropic

import (
	"net/http"
	"strings"

	"steward/internal/provider/wire"
)

// codes maps the types of errors to codes.
//
// Source: https://platform.claude.com/docs/en/api/errors.
var codes = map[string]string{
	"authentication_error": wire.CodeAuth, "permission_error": wire.CodeAuth, "not_found_error": wire.CodeNoModel,
	"request_too_large": wire.CodeContext, "rate_limit_error": wire.CodeRate, "billing_error": wire.CodeRate,
	"overloaded_error": wire.CodeOverloaded, "api_error": wire.CodeProvider, "timeout_error": wire.CodeProvider,
	"invalid_request_error": wire.CodeRefused,
}

// explain reads {"type":"error","error":{"type","message"}}.
func explain(status int, body []byte) wire.Refusal {
	e, ok := wire.ReadAPIError(body)
	if !ok {
		return wire.Refusal{}
	}
	r := wire.Refusal{Code: codes[e.Type], Message: e.Message, Final: e.Type == "billing_error"}
	text := strings.ToLower(e.Message)
	switch {
	case e.Type != "invalid_request_error" && (e.Type != "" || status != http.StatusBadRequest): // Bedrock names no type
	case e.MessageContains("credit balance"):
		r.Code, r.Final = wire.CodeRate, true
	case strings.HasPrefix(text, "output_config") || strings.HasPrefix(text, "output_format"):
		r.Code = wire.CodeNoSchema
	}
	if status >= 500 && (r.Code == wire.CodeRefused || r.Code == wire.CodeNoModel) {
		r.Code = "" // the status says more
	}
	if r.Final {
		r.Remedy = "check the plan and the billing of the account"
	}
	return r
}
