package ollama

import (
	"cmp"
	"testing"
	"time"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/providertest"
	"steward/internal/provider/wire"
)

// vendor is an Ollama whose model's capabilities are known, so that each
// conversation is one request. What is asked where they are not has its own
// tests.
func vendor(model string, capabilities ...string) providertest.Vendor {
	known := facts{at: time.Now().Add(time.Hour), capabilities: map[string]bool{}}
	for _, c := range capabilities {
		known.capabilities[c] = true
	}
	return providertest.Vendor{
		Name: "ollama", Model: model, Dir: "testdata", Check: providertest.CheckOllama,
		New: func(o providertest.Options) llm.Provider {
			p := New(Options{
				Host: o.BaseURL, Key: o.Key, HTTP: o.HTTP, Idle: o.Idle,
				// The suite expects wire's default, where Ollama's is longer.
				FirstByte: cmp.Or(o.FirstByte, wire.DefaultFirstByte),
			})
			p.shown[model] = known
			return p
		},
		Meta:  meta,
		Mask:  mask,
		Known: func(message.Block) []string { return []string{"field"} },
		Usage: message.Usage{Input: 26, Output: 9},
		Echo: map[providertest.Scenario][]string{
			providertest.Reasoning: {`"thinking":"The user greets me. I greet back."`},
			providertest.OneCall:   {`"id":"call_k3j9x2qp"`, `"tool_call_id":"call_k3j9x2qp"`, `"index":0`},
			providertest.TextCall:  {`"id":"call_k3j9x2qq"`, `"tool_call_id":"call_k3j9x2qq"`, `"index":1`},
		},
		Lacks: map[providertest.Scenario]string{
			providertest.BadArgs:      "arguments are an object",
			providertest.StopSequence: "done_reason is stop, as for an answer that is complete",
			providertest.Refused:      "there is no sign of a refusal but its words",
		},
	}
}

func TestOllama(t *testing.T) {
	providertest.Suite(t, vendor("qwen3:8b", "completion", "tools", "thinking", "vision"))
}
