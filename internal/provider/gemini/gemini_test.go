package gemini

import (
	"testing"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/providertest"
)

func vendor(model string, check func([]byte) error) providertest.Vendor {
	return providertest.Vendor{
		Name: "gemini", Model: model, Dir: "testdata", Check: check,
		New: func(o providertest.Options) llm.Provider {
			return New(Options{BaseURL: o.BaseURL, Key: o.Key, HTTP: o.HTTP, FirstByte: o.FirstByte, Idle: o.Idle})
		},
		Meta:  meta,
		Mask:  mask,
		Joint: `]},{"role":"user","parts":[`,
		Known: func(message.Block) []string { return []string{"thought", "thoughtSignature"} },
		Usage: message.Usage{Input: 125, Output: 39, Reasoning: 30, CacheRead: 64},
		Echo: map[providertest.Scenario][]string{
			providertest.Reasoning: {`"thought":true`},
			providertest.OneCall:   {`"id":"8f2b1a3c"`, `"thoughtSignature":"EqoBCqcBAdHtim+sig/ABC=="`},
			providertest.Parallel:  {`"thoughtSignature":"EqoBCqcBAdHtim+sig/ABC=="`},
			providertest.TextCall:  {`"id":"8f2b1a3d"`, `"thoughtSignature":"AY89a18Xk/9f+T0ZqQ=="`},
		},
		Lacks: map[providertest.Scenario]string{
			providertest.BadArgs:      "arguments are an object; a call that Gemini itself could not read ends in MALFORMED_FUNCTION_CALL",
			providertest.StopSequence: "the finish reason is STOP, as for an answer that is complete",
		},
	}
}

func TestGemini3(t *testing.T) {
	providertest.Suite(t, vendor("gemini-3-flash-preview", providertest.CheckGemini3))
}

func TestGemini25(t *testing.T) {
	providertest.Suite(t, vendor("gemini-2.5-flash", providertest.CheckGemini))
}
