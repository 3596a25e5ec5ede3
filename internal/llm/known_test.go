package llm_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
)

func TestWindowsByName(t *testing.T) {
	known := llm.DefaultKnown()
	for name, want := range map[string]int{
		"openai/gpt-4o": 128_000, "gpt-4o-mini-2024-07-18": 128_000, "gpt-4": 8_192, "gpt-4-0613": 8_192, "gpt-4-turbo-2024-04-09": 128_000,
		"gpt-4.1-mini": 1_047_576, "gpt-3.5-turbo": 16_385, "o1": 200_000, "o1-mini": 128_000, "o3-pro": 200_000, "gpt-5-mini": 272_000,
		"gpt-5-chat-latest": 128_000, "gpt-5.2-codex": 272_000, "gpt-5.4": 922_000, "gpt-5.4-nano": 272_000, "ft:gpt-4o-mini:acme::x": 128_000,
		"anthropic/claude-sonnet-4-5-20250929": 200_000, "claude-opus-4-6": 1_000_000, "claude-opus-4-20250514": 200_000, "claude-haiku-4-5": 200_000,
		"us.anthropic.claude-sonnet-4-6-v1:0": 1_000_000, "openrouter/anthropic/claude-opus-4.8": 1_000_000, "claude-opus-5-5": 1_000_000, "claude-2.0": 100_000, "claude-2.1": 200_000,
		"gemini/gemini-2.5-pro": 1_048_576, "gemini-3-flash-preview": 1_048_576, "gemini-3.1-pro-preview": 1_048_576, "gemini-1.5-pro-latest": 2_097_152, "gemini-4-argon": 1_048_576,
		"ollama/llama3:8b": 8_192, "ollama/llama3.1": 131_072, "llama3.2:3b-instruct-q4_K_M": 131_072, "qwen3:8b": 40_960, "qwen3-coder:30b": 262_144,
		"gemma3:1b": 32_768, "gemma3:1b-it-qat": 32_768, "gemma3:12b": 131_072, "mistral:7b": 32_768, "mistral-large:123b": 131_072, "gpt-oss:20b": 131_072, "phi4": 16_384,
		// What is unknown is said to be unknown, newer versions of known models too.
		"": 0, "gpt-5.9": 0, "llama3.9": 0, "phi35": 0, "offline/steward": 0, "o10": 0,
	} {
		if got := known.Window(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// A file of known models is read strictly, and what is wrong with one is said.
func TestKnownModelsAreReadStrictly(t *testing.T) {
	good, err := os.ReadFile("known.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, with string }{
		{`"as_of"`, `"as_off"`}, {`"2026-07-01"`, `"last year"`}, {`"sources": [`, `"sources": [], "x": [`}, {`"input": 3,`, `"input": -3,`},
		{`"input": 3,`, `"input": 3, "input": 4,`}, {`"input": 3,`, `"input": 1e300,`}, {`"anthropic/claude`, `"claude`}, {`["tools"]`, `["teleports"]`},
		{`"window": 16385`, `"window": -1`}, {`"window": 16385`, `"window": "16385"`}, {`"gpt-4o": {`, `"GPT-4o": {`}, {`"gpt-4o": {`, `"gpt 4o": {`},
		{`"gpt-4o": {`, `"` + strings.Repeat("g", 300) + `": {`}, {"}\n}\n", "}\n}\n{}"}, {"}\n}\n", ""},
	} {
		bad := strings.Replace(string(good), c.old, c.with, 1)
		if bad == string(good) {
			t.Fatalf("%s is not in the file", c.old)
		}
		if _, err := llm.ReadKnown([]byte(bad)); !fault.HasCode(err, "known_models_invalid") {
			t.Errorf("%s in place of %s: %v", c.with, c.old, err)
		}
	}
}

// Of two files the newer one's entries count, and the changes are told.
func TestANewerFileOfKnownModelsCounts(t *testing.T) {
	known := llm.DefaultKnown()
	newer, err := llm.ReadKnown([]byte(`{"as_of": "2027-01-01", "sources": ["https://example.com"],
		"prices": {"openai/gpt-5.4": {"input": 1, "output": 2}, "me/new": {"input": 0, "output": 0}}, "families": {"gpt-4o": {"window": 9000}, "new": {"window": 5, "can": ["tools"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	older := newer
	older.AsOf = "2020-01-01"
	both := known.With(newer)
	if both.AsOf != "2027-01-01" || both.Prices["openai/gpt-5.4"].Input != 1 || both.Window("gpt-4o-mini") != 9000 || both.Window("gpt-5.4") != 922_000 || len(both.Prices) != len(known.Prices)+1 {
		t.Errorf("with a newer file: %s, %+v", both.AsOf, both.Prices["openai/gpt-5.4"])
	}
	if old := known.With(older); old.AsOf != known.AsOf || old.Prices["openai/gpt-5.4"].Input != 2.5 || old.Window("new-1") != 5 {
		t.Errorf("with an older file: %s, %+v", old.AsOf, old.Prices["openai/gpt-5.4"])
	}
	want := []string{
		`family of gpt-4o: {"window":9000}, was {"window":128000,"can":["tools","images","pdf","schema"]}`, `family of new: {"window":5,"can":["tools"]}, new`,
		`price of me/new: {"input":0,"output":0}, new`,
		`price of openai/gpt-5.4: {"input":1,"output":2}, was {"input":2.5,"output":15,"cache_read":0.25,"search":0.01,"long_from":272000,"long":{"input":5,"output":22.5,"cache_read":0.5}}`,
	}
	if got := known.Changes(both); !slices.Equal(got, want) {
		t.Errorf("the changes are\n%s", strings.Join(got, "\n"))
	}
	if known.Window("gpt-4o") != 128_000 || llm.DefaultKnown().Prices["openai/gpt-5.4"].Input != 2.5 {
		t.Error("the built-in entries have changed")
	}
}

// Whatever is in a file, reading it neither panics nor accepts what is out of bounds.
func FuzzReadKnown(f *testing.F) {
	good, err := os.ReadFile("known.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"as_of":"2027-01-01","sources":["x"],"prices":{"a/b":{"input":1}},"families":{"a":{"window":1}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := llm.ReadKnown(b)
		if err != nil {
			return
		}
		for name, p := range k.Prices {
			if p.Input < 0 || p.Input > 1e5 || len(name) > 200 {
				t.Errorf("%q costs %+v", name, p)
			}
		}
		k.Changes(llm.DefaultKnown().With(k))
		k.Window("claude" + string(b[:rand.IntN(len(b)+1)]))
	})
}
