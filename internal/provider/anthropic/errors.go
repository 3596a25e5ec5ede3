package anthropic

import (
	"strings"

	"steward/internal/provider/wire"
)

// explain reads {"type":"error","error":{"type","message"}}.
//
// Source: https://platform.claude.com/docs/en/api/errors.
func explain(status int, body []byte) wire.Refusal {
	var r wire.Refusal
	d := wire.Decode(body)
	d.Object(func(key []byte) {
		if string(key) == "error" {
			r = readError(d, status)
		}
	})
	if d.End() != nil {
		return wire.Refusal{}
	}
	return r
}

func readError(d *wire.Decoder, status int) wire.Refusal {
	var typ string
	var r wire.Refusal
	d.Object(func(key []byte) {
		switch string(key) {
		case "type":
			typ = d.String()
		case "message":
			r.Message = d.String()
		}
	})
	text := strings.ToLower(r.Message)
	switch typ {
	case "authentication_error", "permission_error":
		r.Code = wire.CodeAuth
	case "not_found_error":
		r.Code = wire.CodeNoModel
	case "request_too_large":
		r.Code = wire.CodeContext
	case "rate_limit_error":
		r.Code = wire.CodeRate
	case "overloaded_error":
		r.Code = wire.CodeOverloaded
	case "api_error", "timeout_error":
		r.Code = wire.CodeProvider
	case "billing_error":
		r.Code, r.Final = wire.CodeRate, true
	case "invalid_request_error":
		r.Code = wire.CodeRefused
		switch {
		case strings.Contains(text, "prompt is too long"), strings.Contains(text, "exceed context limit"),
			strings.Contains(text, "context window"):
			r.Code = wire.CodeContext
		case strings.Contains(text, "credit balance"):
			r.Code, r.Final = wire.CodeRate, true
		case strings.HasPrefix(text, "output_config") || strings.HasPrefix(text, "output_format"):
			r.Code = wire.CodeNoSchema
		}
	}
	if status >= 500 && (r.Code == wire.CodeRefused || r.Code == wire.CodeNoModel) {
		r.Code = "" // the status tells more
	}
	if r.Final {
		r.Remedy = "check the plan and the billing of the account"
	}
	return r
}
