package wire_test

import (
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/provider/wire"
)

// What servers write when a request is too long, and the window that it names.
func TestWindow(t *testing.T) {
	for text, want := range map[string]int{
		"This model's maximum context length is 16385 tokens. However, your messages resulted in 20000 tokens.":                                         16385,
		"This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion).":  16384,
		"You passed 16385 input tokens and requested 0 output tokens. However, the model's context length is only 16384 tokens":                         16384,
		"'max_tokens' is too large: 8192. This model's maximum context length is 4096 tokens and your request has 300 input tokens":                     4096,
		"This endpoint's maximum context length is 128,000 tokens. However, you requested about 194307 tokens":                                          128000,
		"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it":                                                     4096,
		"Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context length of only 32768 tokens":      32768,
		"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 10247 >= n_ctx: 4096). Try to load the model": 4096,
		"Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)":                                                                                    7424,
		"Requested tokens (2285) exceed context window of 2048":                                                                                         2048,
		"The input (5000 tokens) is longer than the model's context length (4096 tokens).":                                                              4096,
		"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length":                                        32768,
		"This model's maximum prompt length is 131072 but the request contains 150000 tokens.":                                                          131072,
		"prompt is too long: 208310 tokens > 200000 maximum":                                                                                            200000,
		"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens`":                            200000,
		"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).":                                                       1048576,
		"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`":               4096,
		"the input length exceeds the context length":                                                                                                   0,
		"prompt too long; exceeded max context length by 4000 tokens":                                                                                   0,
		"Your input exceeds the context window of this model.":                                                                                          0,
		"context length is 99999999999999999999":                                                                                                        0,
		strings.Repeat("x", 1<<20) + "maximum context length is 16384":                                                                                  0,
	} {
		if got := wire.Window(text); got != want {
			t.Errorf("%d, want %d: %.200s", got, want, text)
		}
		e := wire.New(wire.Options{Name: "p", BaseURL: "http://p"}).RefusalError(wire.Refusal{Code: wire.CodeContext, Message: text})
		if got, _ := e.Details["window"].(int); got != want {
			t.Errorf("the error has the window %d, want %d: %.200s", got, want, text)
		}
	}
}

func TestARefusedEffortIsTold(t *testing.T) {
	c := wire.New(wire.Options{Name: "p", BaseURL: "http://p"})
	for text, effort := range map[string]bool{
		"Unrecognized request argument supplied: reasoning_effort":                                                       true,
		"Unsupported parameter: 'reasoning_effort' is not supported with this model.":                                    true,
		`"deepseek-v3" does not support thinking`:                                                                        true,
		"adaptive thinking is not supported on this model":                                                               true,
		"Thinking level MINIMAL is not supported for this model.":                                                        true,
		"This model does not support the effort parameter.":                                                              true,
		"`temperature` may only be set to 1 when thinking is enabled":                                                    false,
		"messages.1.content.0: Invalid `signature` in `thinking` block":                                                  false,
		"Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final ... must": false,
	} {
		if got := fault.HasCode(c.RefusedAs(400, wire.Refusal{Message: text}), wire.CodeNoEffort); got != effort {
			t.Errorf("%t: %s", got, text)
		}
	}
}
