package tokens

import "strings"

// window is the maximum input of the models whose names have a prefix, in tokens.
type window struct {
	prefix string
	tokens int
}

// windows returns the table sorted by family. Of the prefixes that match, the longest is used.
func windows() []window {
	return []window{
		// https://developers.openai.com/api/docs/models: the page of each model. If part of the
		// window is reserved for the output (128,000 of 400,000 and 1,050,000 tokens), the number
		// is what is left for the input.
		{"gpt-3.5-turbo", 16_385}, {"gpt-35-turbo", 16_385},
		{"gpt-4", 8_192}, {"gpt-4-32k", 32_768}, {"gpt-4-1106", 128_000}, {"gpt-4-0125", 128_000},
		{"gpt-4-turbo", 128_000}, {"gpt-4-vision", 128_000},
		{"gpt-4o", 128_000}, {"chatgpt-4o", 128_000}, {"gpt-4.5", 128_000}, {"gpt-4.1", 1_047_576},
		{"o1", 200_000}, {"o1-mini", 128_000}, {"o1-preview", 128_000}, {"o3", 200_000}, {"o4-mini", 200_000},
		{"gpt-5", 272_000}, {"gpt-5.1", 272_000}, {"gpt-5.2", 272_000}, {"gpt-5.3", 272_000},
		{"gpt-5-chat", 128_000}, {"gpt-5.1-chat", 128_000}, {"gpt-5.2-chat", 128_000}, {"gpt-5.3-chat", 128_000},
		{"gpt-5.4", 922_000}, {"gpt-5.4-mini", 272_000}, {"gpt-5.4-nano", 272_000}, {"gpt-5.5", 922_000},
		{"gpt-5.6", 922_000}, {"gpt-5.6-luna", 272_000},
		{"gpt-oss", 131_072},

		// https://platform.claude.com/docs/en/build-with-claude/context-windows:
		// 1M from Opus and Sonnet 4.6 on, without asking; 200k the others.
		{"claude", 200_000}, {"claude-2-0", 100_000}, {"claude-instant", 100_000},
		{"claude-opus-4-6", 1_000_000}, {"claude-opus-4-7", 1_000_000}, {"claude-opus-4-8", 1_000_000},
		{"claude-sonnet-4-6", 1_000_000},
		{"claude-opus-5", 1_000_000}, {"claude-sonnet-5", 1_000_000}, {"claude-haiku-5", 1_000_000},
		{"claude-fable-5", 1_000_000}, {"claude-mythos", 1_000_000},

		// https://ai.google.dev/gemini-api/docs/models: the input token limit.
		{"gemini-1.5-flash", 1_048_576}, {"gemini-1.5-pro", 2_097_152}, {"gemini-2.0", 1_048_576}, {"gemini-2.5", 1_048_576},
		{"gemini-3", 1_048_576}, {"gemini-3.", 1_048_576}, {"gemini-4", 1_048_576}, {"gemini-flash", 1_048_576}, {"gemini-pro", 1_048_576},
		{"gemini-2.5-flash-image", 32_768}, {"gemini-3-pro-image", 65_536}, {"gemini-embedding", 2_048},

		// https://ollama.com/library: the context length on the page of each
		// model. Ollama itself gives a model no more than its num_ctx.
		{"llama2", 4_096}, {"llama3", 8_192}, {"llama3.1", 131_072}, {"llama3.2", 131_072}, {"llama3.3", 131_072},
		{"qwen2", 32_768}, {"qwen2.5", 32_768}, {"qwen3", 40_960}, {"qwq", 40_960}, {"qwen3-coder", 262_144},
		{"gemma", 8_192}, {"gemma2", 8_192}, {"gemma3", 131_072}, {"gemma3:270m", 32_768}, {"gemma3:1b", 32_768},
		{"mistral", 32_768}, {"mistral-large", 131_072}, {"mistral-nemo", 131_072}, {"mistral-small", 32_768}, {"mistral-small3.1", 131_072}, {"mistral-small3.2", 131_072},
		{"mixtral", 32_768}, {"devstral", 131_072},
		{"phi3", 4_096}, {"phi3.5", 131_072}, {"phi4", 16_384}, {"phi4-mini", 131_072},
		{"deepseek-r1", 131_072}, {"deepseek-v3", 163_840},
		{"granite3", 131_072}, {"smollm2", 8_192}, {"command-r", 131_072},
	}
}

// Window returns the maximum input of a well-known model in tokens, by its name ("openai/gpt-4o",
// "claude-sonnet-4-5", "anthropic.claude-opus-4-6-v1", "qwen3:8b"), and 0 for other models. What
// the provider itself reports (llm.Info.Window) is more reliable: names can be wrong, and a server
// may give a model less than it supports. Ollama does so: if neither the settings nor the Modelfile
// set num_ctx, the server's own value applies, by default 4,096 tokens with less than 24 GiB of
// video memory (https://docs.ollama.com/context-length).
func Window(model string) int {
	name := bare(model)
	if i := strings.Index(name, "claude"); i >= 0 { // Bedrock puts words before it, others write 4.6
		name = strings.ReplaceAll(name[i:], ".", "-")
	}
	name = strings.TrimPrefix(name, "ft:")
	best := window{}
	for _, w := range windows() {
		if len(w.prefix) > len(best.prefix) && strings.HasPrefix(name, w.prefix) &&
			(strings.HasSuffix(w.prefix, ".") || whole(name[len(w.prefix):])) {
			best = w
		}
	}
	return best.tokens
}

// whole reports whether a prefix ends at the end of a part of the name. rest is what follows the
// prefix: llama3 does not match llama3.1, nor phi3 phi35.
func whole(rest string) bool {
	return rest == "" || strings.ContainsRune("-:@_", rune(rest[0])) || rest[0] == '.' && !newer(rest)
}

// newer reports whether the rest continues a version number, as .1 does.
func newer(rest string) bool { return len(rest) > 1 && '0' <= rest[1] && rest[1] <= '9' }

// bare returns a model's own name in lower case: the part after the last '/'.
func bare(model string) string {
	return strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
}
