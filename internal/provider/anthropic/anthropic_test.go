package anthropic_test

import (
	"testing"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/providertest"
)

func vendor(model string) providertest.Vendor {
	return providertest.Vendor{
		Name: "anthropic", Model: model, Dir: "testdata",
		New: func(o providertest.Options) llm.Provider {
			return anthropic.New(anthropic.Options{
				BaseURL: o.BaseURL, Key: o.Key, HTTP: o.HTTP, FirstByte: o.FirstByte, Idle: o.Idle,
			})
		},
		Check: providertest.CheckAnthropic,
		Meta:  meta,
		Mask:  mask("anthropic/" + model),
		Joint: `]},{"role":"user","content":[`,
		Known: known,
		Usage: message.Usage{Input: 100, Output: 50, Reasoning: 20, CacheRead: 40, CacheWrite: 10},
		Echo: map[providertest.Scenario][]string{
			providertest.OneCall:   {`"id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6"`, `"tool_use_id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6"`, `{"a": 6, "b": 7}`},
			providertest.Reasoning: {`"signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+/="`, `"thinking":"The user greets me. I greet back."`},
			providertest.TextCall:  {`"caller":{"type":"direct"}`},
			providertest.BadArgs:   {`"input":{"malformed_arguments":"{\"a\": 6, \"b\": "}`},
		},
	}
}

func TestSuite(t *testing.T) { providertest.Suite(t, vendor("claude-opus-4-6")) }

// TestModels: what each generation of models allows.
func TestModels(t *testing.T) {
	for _, name := range []string{
		"claude-3-haiku-20240307", "claude-3-5-sonnet-20241022", "claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514",
		"claude-haiku-4-5", "claude-opus-4-8", "claude-opus-5", "claude-fable-5-1", "claude-opus-5-5", "claude-sonnet-5-5",
		"claude-haiku-5-5", "kimi-k2",
	} {
		t.Run(name, func(t *testing.T) {
			v := vendor(name)
			delete(v.Echo, providertest.Reasoning)
			providertest.Requests(t, v)
		})
	}
}
