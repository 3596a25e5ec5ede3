package openai_test

import (
	"testing"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/openai"
	"steward/internal/provider/providertest"
)

func vendor(d openai.Dialect) providertest.Vendor {
	return providertest.Vendor{
		Name: "openai", Model: "gpt-4.1", Dir: "testdata",
		New: func(o providertest.Options) llm.Provider {
			return openai.New(openai.Options{
				BaseURL: o.BaseURL, Key: o.Key, HTTP: o.HTTP, FirstByte: o.FirstByte, Idle: o.Idle, Dialect: d,
			})
		},
		Check: providertest.CheckOpenAI,
		Meta:  meta,
		Mask:  func(m *message.Message) { mask(m, d == openai.Official) },
		Known: known,
		Usage: message.Usage{Input: 100, Output: 50, Reasoning: 20, CacheRead: 40},
		Echo: map[providertest.Scenario][]string{
			providertest.OneCall:  {`"id":"call_DdmO9pD3xa9XTPNJ32zg2hcA"`, `"tool_call_id":"call_DdmO9pD3xa9XTPNJ32zg2hcA"`},
			providertest.BadArgs:  {`"arguments":"{\"a\": 6, \"b\": "`},
			providertest.Parallel: {`"arguments":"{\"text\":\"héllo \\\"wörld\\\"\",\"algorithm\":\"sha256\"}"`},
			providertest.Refused:  {`"refusal":"I'm sorry, I can't assist with that."`},
		},
	}
}

func TestCompatible(t *testing.T) { providertest.Suite(t, vendor(openai.Compatible)) }

func TestOfficial(t *testing.T) {
	t.Run("histories", func(t *testing.T) { providertest.Histories(t, vendor(openai.Official)) })
	for _, name := range []string{"gpt-4.1", "o3", "gpt-5", "gpt-5.1"} {
		t.Run(name, func(t *testing.T) {
			v := vendor(openai.Official)
			v.Model = name
			providertest.Requests(t, v)
		})
	}
}
