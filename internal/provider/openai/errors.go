package openai

import (
	"strings"

	"steward/internal/provider/wire"
)

// explain reads the error object of OpenAI and of compatible servers.
func explain(status int, body []byte) wire.Refusal {
	e, ok := wire.ReadAPIError(body)
	if !ok {
		return wire.Refusal{}
	}
	return refusal(e, status)
}

// streamError returns the coded error for one in the middle of a stream.
func (p *Provider) streamError(e wire.APIError) error {
	r := refusal(e, 0)
	if r.Code == "" && e.Number >= 400 {
		return p.wire.RefusedAs(e.Number, r)
	}
	return p.wire.RefusalError(r)
}

// refusal returns the code of an error. status is 0 in the middle of a stream.
func refusal(e wire.APIError, status int) wire.Refusal {
	r := wire.Refusal{Message: e.Message, Window: e.Window}
	if status == 0 {
		status = e.Number
	}
	switch {
	case e.Code == "context_length_exceeded", e.Type == "exceed_context_size_error": // the second is llama.cpp's; wire knows the words
		r.Code = wire.CodeContext
	case e.Code == "insufficient_quota", e.Type == "insufficient_quota", status == 402:
		r.Code, r.Final = wire.CodeRate, true
		r.Remedy = "check the plan and the billing of the account"
	case e.Code == "invalid_api_key":
		r.Code = wire.CodeAuth
	case e.Code == "model_not_found":
		r.Code = wire.CodeNoModel
	case e.Code == "rate_limit_exceeded", e.Type == "rate_limit_error":
		r.Code = wire.CodeRate
	case status >= 500, status == 429, status == 401, status == 403:
		// the status says more than the message
	case e.Param == "tools", e.MessageContains("does not support tools", "support tool use", "tool use is not supported",
		"tools is not supported", "enable-auto-tool-choice", "does not support function calling"):
		r.Code = wire.CodeNoTools
	case e.MessageContains("does not support image", "image input", "image_url is only supported", "not a multimodal model"):
		r.Code = wire.CodeNoImages
	case strings.HasPrefix(e.Param, "response_format"), strings.HasPrefix(e.Param, "text.format"), e.MessageContains("response_format", "json_schema"):
		r.Code = wire.CodeNoSchema
	case strings.HasPrefix(e.Param, "reasoning"): // reasoning_effort, reasoning.effort, reasoning.summary
		r.Code = wire.CodeNoEffort
	case status == 0 && (strings.HasPrefix(e.Code, "invalid_") || strings.Contains(e.Code, "image") || strings.Contains(e.Code, "policy")):
		r.Code = wire.CodeRefused // of a failed response: it fails again
	case e.Type == "server_error", e.Type == "internal_server_error", e.Code == "server_error":
		r.Code = wire.CodeProvider
	case e.Type == "overloaded_error", e.Type == "service_unavailable":
		r.Code = wire.CodeOverloaded
	}
	return r
}
