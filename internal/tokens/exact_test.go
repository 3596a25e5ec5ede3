package tokens_test

import (
	"sync"
	"testing"

	"steward/internal/message"
	"steward/internal/tokens"
	"steward/internal/tool"
)

func text(r message.Role, s string) *message.Message {
	return &message.Message{Role: r, Blocks: []message.Block{&message.Text{Text: s}}}
}

func TestWhichModelsAreCountedExactly(t *testing.T) {
	for _, name := range []string{
		"gpt-4o", "openai/gpt-4o-mini", "openai/gpt-4o-2024-08-06", "gpt-4.1-nano", "gpt-5", "gpt-5.4-mini", "GPT-5", "chatgpt-4o-latest",
		"o1", "o1-pro", "o3-mini-2025-01-31", "o4-mini", "ollama/gpt-oss:20b", "ft:gpt-4o-mini:acme::x", "azure/openai/gpt-4o",
		"gpt-4", "gpt-4-turbo", "gpt-3.5-turbo-0125", "openai/text-embedding-3-small",
	} {
		if !tokens.Exact(name) || tokens.For(name).Kind() != tokens.KindExact {
			t.Errorf("%s is not counted exactly", name)
		}
	}
	for _, name := range []string{"", "claude-sonnet-4-5", "gemini-2.5-pro", "ollama/llama3.1", "o10", "gpt-40", "gpt-6", "openai/", "offline/steward"} {
		if tokens.Exact(name) || tokens.For(name).Kind() != tokens.KindEstimated {
			t.Errorf("%s is counted exactly", name)
		}
	}
}

func TestTheVocabularyIsTheModels(t *testing.T) {
	cl100k, o200k := vocabularies(t)
	for _, s := range prose() {
		if got, want := tokens.For("gpt-4").Text(s.text), cl100k(s.text); got != want {
			t.Errorf("%s: gpt-4 has %d tokens, want %d", s.name, got, want)
		}
		if got, want := tokens.For("gpt-4o").Text(s.text), o200k(s.text); got != want {
			t.Errorf("%s: gpt-4o has %d tokens, want %d", s.name, got, want)
		}
	}
}

// The counts are those that OpenAI's cookbook shows the API to have reported:
// https://developers.openai.com/cookbook/examples/how_to_count_tokens_with_tiktoken
func TestMessagesAreCountedAsOpenAIDoes(t *testing.T) {
	said := []struct{ name, text string }{
		{"", "You are a helpful, pattern-following assistant that translates corporate jargon into plain English."},
		{"example_user", "New synergies will help drive top-line growth."},
		{"example_assistant", "Things working well together will increase revenue."},
		{"example_user", "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."},
		{"example_assistant", "Let's talk later when we're less busy about how to do better."},
		{"", "This late pivot means we don't have time to boil the ocean for the client deliverable."},
	}
	for model, want := range map[string]int64{"gpt-4": 129, "gpt-3.5-turbo": 129, "gpt-4o": 124} {
		c := tokens.For(model)
		n := c.Overhead()
		for _, s := range said {
			n += c.Message(text(message.System, s.text))
			if s.name != "" { // Steward's messages have no names
				n += 1 + c.Text(s.name)
			}
		}
		if n != want {
			t.Errorf("%s: %d tokens, the API reported %d", model, n, want)
		}
	}
}

func weather() tool.Spec {
	return tool.Spec{Name: "get_current_weather", Description: "Get the current weather in a given location.", Input: []byte(`{"type":"object","properties":{
		"location":{"type":"string","description":"The city and state, e.g. San Francisco, CA"},
		"unit":{"type":"string","description":"The unit of temperature to return","enum":["celsius","fahrenheit"]}},"required":["location"]}`)}
}

func TestToolsAreCountedAsOpenAIDoes(t *testing.T) {
	for model, want := range map[string]int64{"gpt-4": 105, "gpt-3.5-turbo": 105, "gpt-4o": 101, "gpt-4o-mini": 101} {
		c := tokens.For(model)
		n := c.Overhead() + c.Tools(weather()) +
			c.Message(text(message.System, "You are a helpful assistant that can answer to questions about the weather.")) +
			c.Message(text(message.User, "What's the weather like in San Francisco?"))
		if n != want {
			t.Errorf("%s: %d tokens, the API reported %d", model, n, want)
		}
		if c.Tools() != 0 {
			t.Errorf("no tools make %d tokens", c.Tools())
		}
	}
}

func TestToolsWithWhateverSchema(t *testing.T) {
	c, plain := tokens.For("gpt-4o"), tokens.For("")
	least := int64(0)
	for _, input := range []string{
		`{}`,
		`{"type":"object","properties":{"a":{"type":"integer"}}}`,
		`{"type":"object","properties":{"a":{"type":["integer","null"],"enum":[1,2,null]}}}`,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"object","properties":{"b":{"type":"string","description":"the letter B."}}}]}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"type":"string"},"c":{"type":"string"},"d":{"type":"object","properties":{"e":{"type":"number"}}}}}}}}`,
		`no schema, yet it is shown, so it is counted, as long as it may be, word for word, and all the rest of it as well, to the end, past whatever was counted above, with its commas and its dots, and so on and so forth, until there is no more of it`,
	} {
		s := tool.Spec{Name: "a.b", Description: "does it", Input: []byte(input)}
		n := c.Tools(s)
		if n <= least {
			t.Errorf("%s: %d tokens, no more than the one before", input, n)
		}
		least = n
		if n > 3*plain.Tools(s) {
			t.Errorf("%s: %d tokens, estimated %d", input, n, plain.Tools(s))
		}
	}
	if one, two := c.Tools(weather()), c.Tools(weather(), weather()); two <= one || two >= 2*one {
		t.Errorf("one tool makes %d tokens, two %d", one, two)
	}
}

func TestCallsAreCounted(t *testing.T) {
	c := tokens.For("gpt-4o")
	call := &message.Message{Role: message.Assistant, Blocks: []message.Block{
		&message.ToolCall{Name: "math.multiply", Args: []byte(`{"a":6,"b":7}`)}}}
	if got, inside := c.Message(call), c.Text("math.multiply")+c.Text(`{"a":6,"b":7}`); got <= inside || got > inside+20 {
		t.Errorf("a call makes %d tokens, its text %d", got, inside)
	}
	result := &message.Message{Role: message.Tool, Blocks: []message.Block{
		&message.ToolResult{Name: "math.multiply", Content: []message.Block{&message.Text{Text: "42"}}}}}
	if got := c.Message(result); got < 5 || got > 20 {
		t.Errorf("a result makes %d tokens", got)
	}
}

func TestExactCountsFromManyGoroutines(t *testing.T) {
	want := make([]int64, len(prose()))
	for i, s := range prose() {
		want[i] = tokens.For("gpt-4o").Text(s.text)
	}
	c := tokens.For("gpt-4o") // loaded by all at once
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i, s := range prose() {
				if got := c.Text(s.text); got != want[i] {
					t.Errorf("%s: %d tokens, then %d", s.name, want[i], got)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkExact(b *testing.B) {
	for _, s := range []int{0, 7, 16} {
		b.Run(prose()[s].name, func(b *testing.B) {
			c, text := tokens.For("gpt-4o"), ""
			for range 50 {
				text += prose()[s].text + " "
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				c.Text(text)
			}
		})
	}
}
