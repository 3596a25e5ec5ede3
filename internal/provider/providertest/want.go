package providertest

import (
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
)

// What the scripts say.
const (
	WantText      = "Hello! How can I help you today?"
	WantUnicode   = "Grüße, 世界! Привет 👩‍👩‍👧‍👦 नमस्ते \"quoted\" \\ back\nnew line\u2028end"
	WantReasoning = "The user greets me. I greet back."
	WantBadArgs   = `{"a": 6, "b": `
	WantJSON      = `{"city":"Paris","population":2102650}`
)

// Want is one expected tool call; Args is canonical JSON.
type Want struct{ Name, Args string }

// WantCalls are the calls that the scripts make, under tool.WireName's names.
var WantCalls = [3]Want{
	{"math.multiply", `{"a":6,"b":7}`},
	{"time.now", `{"zone":"Europe/Berlin"}`},
	{"text.hash", `{"algorithm":"sha256","text":"héllo \"wörld\""}`},
}

// Tools returns the tools that the suite's requests offer.
func Tools() *llm.Toolset {
	spec := func(name, description, schema string) tool.Spec {
		return tool.Spec{Name: name, Description: description, Input: []byte(schema), Effect: tool.Query, Version: "1"}
	}
	return llm.NewToolset(
		spec("math.multiply", "Multiplies two numbers.", `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"],"additionalProperties":false}`),
		spec("time.now", "Tells the time in a zone.", `{"type":"object","properties":{"zone":{"type":"string","description":"IANA name"}}}`),
		spec("text.hash", "Hashes a text.", `{"type":"object","properties":{"text":{"type":"string"},"algorithm":{"type":"string","enum":["sha256","md5"]}},"required":["text"]}`),
		spec("system.ping", "Takes no arguments.", `{"type":"object"}`),
	)
}

// Schema returns the schema of the scenario Structured.
func Schema() *llm.Schema {
	return &llm.Schema{Name: "city", JSON: []byte(`{"type":"object","properties":{"city":{"type":"string"},"population":{"type":"integer"}},"required":["city","population"],"additionalProperties":false}`)}
}

// ask returns a request with one user message.
func ask(text string) *llm.Request {
	return &llm.Request{
		System: "You are a helpful assistant.",
		Transcript: llm.NewTranscript(&message.Message{
			Role: message.User, Blocks: []message.Block{&message.Text{Text: text}},
		}),
	}
}

// requestOf returns the request of a scenario.
func requestOf(s Scenario) *llm.Request {
	r := ask("Hello!")
	switch s {
	case OneCall, Parallel, TextCall, BadArgs, NoArgs:
		r.Tools = Tools()
	case Structured:
		r.Schema = Schema()
	case StopSequence:
		r.Sampling.Stop = []string{"###"}
	case Length:
		r.Sampling.MaxTokens = 16
	}
	return r
}
