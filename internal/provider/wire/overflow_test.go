package wire_test

import (
	"net/http"
	"testing"

	"steward/internal/fault"
	"steward/internal/provider/wire"
)

// A refusal of what is too long is recognised by its structure, whoever words it, and so is the window.
func TestOverflowIsRecognised(t *testing.T) {
	for text, window := range map[string]int{
		`{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]","code":"invalid_parameter_error"}}`:                              30720,
		`{"error":{"message":"prompt is too long: 208310 tokens > 200000 maximum","type":"None","code":"400"}}`:                                                                       200000,
		`{"error":{"message":"litellm.BadRequestError: AnthropicException - prompt is too long: 208310 tokens > 200000 maximum"}}`:                                                    200000,
		`{"error":{"message":"Input length 203743 exceeds the maximum length 202752"}}`:                                                                                               202752,
		`{"error":"Input length 6491 exceeds context length 1500"}`:                                                                                                                   1500,
		`{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 477469 tokens."}}`:                                                 272000,
		`{"code":20015,"message":"length of prompt_tokens (40000) must be less than max_seq_len (32768).","data":null}`:                                                               32768,
		`{"error":{"message":"The input token count exceeds the maximum number of tokens allowed 1048576.","status":"INVALID_ARGUMENT"}}`:                                             1048576,
		`{"message":"Input is too long for requested model."}`:                                                                                                                        0,
		`{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"total of 9000 tokens, at most 8192 are accepted\"}"}}}`:                           8192,
		`{"error":{"message":"request (70000 tokens) does not fit into the slot (65536 tokens)"}}`:                                                                                    65536,
		`{"detail":[{"msg":"Prompt has 5000 tokens; the model takes 4096","type":"value_error"}]}`:                                                                                    4096,
		`{"errors":[{"message":"AiError: This model's context window limit is 24000 tokens; you sent 31000"}]}`:                                                                       24000,
		`{"error":{"code":"1261","message":"Prompt 超长"}}`:                                                                                                                             0,
		`{"error":{"message":"输入长度超过最大长度"}}`:                                                                                                                                          0,
		`{"error":{"message":"The total number of tokens, 12,345, goes beyond 8,192."}}`:                                                                                              8192,
		`{"error":{"message":"Please reduce the length of the messages or completion."}}`:                                                                                             0,
		`{"error":{"message":"too many tokens: size limit exceeded by 4000 tokens"}}`:                                                                                                 0,
		`{"error":{"message":"inputs tokens + max_new_tokens must be <= 4096. Given: 5000 inputs tokens and 20 max_new_tokens"}}`:                                                     4096,
		`{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":8123,"n_ctx":4096}}`: 4096,
		`{"error":{"code":500,"message":"context shift is disabled","type":"server_error"}}`:                                                                                          0,
		`{"object":"error","message":"max_tokens must be at least 1, got -904.","type":"BadRequestError","code":400}`:                                                                 0,
		`{"code":"InvalidParameter","message":"The input content length must be less than 30000 tokens."}`:                                                                            30000,
		`{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`:                                                                          0,
		`{"error":{"code":400,"message":"Request payload size exceeds the limit: 20971520 bytes.","status":"INVALID_ARGUMENT"}}`:                                                      0,
		`{"message":"Malformed input request: expected maxLength: 50000, actual: 61234, please reformat your input and try again."}`:                                                  0,
		`{"error":{"message":"Invalid 'messages[1].content': string too long. Expected a string with maximum length 10485760, but got a string with length 11000000 instead."}}`:      0,
		`{"message":"max_total_tokens (40000) > 32768"}`:                                                                                                                              32768,
	} {
		for _, explain := range []func(int, []byte) wire.Refusal{nil, func(_ int, body []byte) wire.Refusal {
			e, _ := wire.ReadAPIError(body)
			return wire.Refusal{Message: e.Message}
		}} {
			c := wire.New(wire.Options{Name: "p", BaseURL: "http://p", Explain: explain})
			for _, status := range []int{400, 413, 422, 500} {
				f := c.Refused(status, http.Header{}, []byte(text))
				if got, _ := f.Details["window"].(int); f.Code != wire.CodeContext || got != window {
					t.Errorf("%d is %s with the window %d, want %d: %s", status, f.Code, got, window, text)
				}
			}
		}
	}
	c := wire.New(wire.Options{Name: "p", BaseURL: "http://p"})
	tooMuch := c.Refused(429, http.Header{"Retry-After": {"60"}}, []byte("Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7500, please reduce your message size and try again."))
	if got, _ := tooMuch.Details["window"].(int); tooMuch.Code != wire.CodeContext || got != 6000 || tooMuch.Recoverable() {
		t.Errorf("a request that is larger than what a minute allows: %v, %d", tooMuch, got)
	}
}

// Other refusals with numbers are none of the length.
func TestOtherRefusalsAreNotTooLong(t *testing.T) {
	for text, status := range map[string]int{
		"max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.": 400,
		"Range of max_tokens should be [1, 8192]":                                                                 400,
		"max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude":             400,
		"The thinking budget 50 is invalid. Please choose a value between 512 and 24576.":                         400,
		"Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64, but got 70": 400,
		"messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes":     400,
		"temperature: Input should be less than or equal to 2":                                                    400,
		"Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.":         429,
		"model requires more system memory (5.6 GiB) than is available (3.4 GiB)":                                 500,
		"Invalid value for 'role': 403 of 400":                                                                    400,
		"Missing required parameter: 'tools[0].function'":                                                         400,
		"max_tokens must be at least 1, got -1.":                                                                  400,
		"max_tokens must be at least 1, got 0.":                                                                   400,
		"messages.0.name: length must be less than 64":                                                            400,
		"plain": 400,
	} {
		f := wire.New(wire.Options{Name: "p", BaseURL: "http://p"}).Refused(status, http.Header{}, []byte(text))
		if fault.HasCode(f, wire.CodeContext) {
			t.Errorf("taken for one of the length: %s", text)
		}
	}
}
