package llm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

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

// The file says of when it is and where it is from, and its entries are within bounds.
func TestTheFileOfKnownModelsIsSound(t *testing.T) {
	known := llm.DefaultKnown()
	if _, err := time.Parse(time.DateOnly, known.AsOf); err != nil || len(known.Sources) == 0 {
		t.Errorf("as of %q, from %q: %v", known.AsOf, known.Sources, err)
	}
	all := []llm.Ability{llm.CanTools, llm.CanImages, llm.CanSchema, llm.CanPDF, llm.CanAudio, llm.CanReason}
	for name, f := range known.Families {
		unknown := slices.ContainsFunc(f.Can, func(a llm.Ability) bool { return !slices.Contains(all, a) })
		if name != strings.ToLower(name) || strings.ContainsAny(name, " /") || f.Window < 0 || f.Window > 100_000_000 || unknown {
			t.Errorf("the family %q: %+v", name, f)
		}
	}
}
