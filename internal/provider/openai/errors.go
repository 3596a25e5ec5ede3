package openai

import (
	"strings"

	"steward/internal/provider/wire"
)

// explain reads the error object of OpenAI and of compatible servers:
// {"error":{"message","type","param","code"}}, {"error":"…"} (some proxies),
// {"object":"error","message"} (vLLM of old), {"detail":…} (FastAPI).
func explain(status int, body []byte) wire.Refusal {
	var e apiError
	d := wire.Decode(body)
	d.Object(func(key []byte) {
		switch string(key) {
		case "error":
			e.read(d)
		case "message", "detail":
			if e.message == "" {
				e.message = d.String()
			}
		case "code":
			if e.code == "" && d.IsString() {
				e.code = d.String()
			}
		}
	})
	if d.End() != nil {
		return wire.Refusal{}
	}
	return e.refusal(status)
}

type apiError struct {
	message, typ, param, code string
	status                    int64 // OpenRouter: a number in code
	window                    int   // llama.cpp
}

func (e *apiError) read(d *wire.Decoder) {
	if d.IsString() {
		e.message = d.String()
		return
	}
	d.Object(func(key []byte) {
		switch string(key) {
		case "message":
			e.message = d.String()
		case "type":
			e.typ = d.String()
		case "param":
			e.param = d.String()
		case "n_ctx":
			e.window = int(d.Int())
		case "code":
			if d.IsString() {
				e.code = d.String()
			} else {
				e.status = d.Int()
			}
		}
	})
}

// refusal finds the code. status is 0 in the middle of a stream.
func (e *apiError) refusal(status int) wire.Refusal {
	r := wire.Refusal{Message: e.message, Window: e.window}
	if status == 0 {
		status = int(e.status)
	}
	text := strings.ToLower(e.message)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case e.code == "context_length_exceeded", e.typ == "exceed_context_size_error", // the second is llama.cpp's
		status != 429 && has("maximum context length", "context window", "context length", "too many tokens",
			"context size", "n_ctx", "maximum prompt length", "too large for model with"):
		r.Code = wire.CodeContext
	case e.code == "insufficient_quota", e.typ == "insufficient_quota", status == 402:
		r.Code, r.Final = wire.CodeRate, true
		r.Remedy = "check the plan and the billing of the account"
	case e.code == "invalid_api_key":
		r.Code = wire.CodeAuth
	case e.code == "model_not_found":
		r.Code = wire.CodeNoModel
	case e.code == "rate_limit_exceeded", e.typ == "rate_limit_error":
		r.Code = wire.CodeRate
	case status >= 500, status == 429, status == 401, status == 403:
		// what the status says is more than what the words do
	case e.param == "tools", has("does not support tools", "support tool use", "tool use is not supported",
		"tools is not supported", "enable-auto-tool-choice", "does not support function calling"):
		r.Code = wire.CodeNoTools
	case has("does not support image", "image input", "image_url is only supported", "not a multimodal model"):
		r.Code = wire.CodeNoImages
	case strings.HasPrefix(e.param, "response_format"), has("response_format", "json_schema"):
		r.Code = wire.CodeNoSchema
	case e.param == "reasoning_effort":
		r.Code = wire.CodeNoEffort
	case e.typ == "server_error", e.typ == "internal_server_error":
		r.Code = wire.CodeProvider
	case e.typ == "overloaded_error", e.typ == "service_unavailable":
		r.Code = wire.CodeOverloaded
	}
	return r
}
