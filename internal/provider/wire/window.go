package wire

import (
	"cmp"
	"regexp"
	"strconv"
)

// windowWords match the messages in which servers name a model's window when they refuse a request
// as too long. allowedCount reads the others.
var windowWords = []*regexp.Regexp{
	// OpenAI, Azure, vLLM, OpenRouter, DeepSeek: "maximum context length is 16384 tokens"
	// LM Studio: "context length of only 4096 tokens"; SGLang: "context length (4096 tokens)"
	// llama.cpp, Ollama: "available context size (4096 tokens)"; xAI: "maximum prompt length is 131072"
	regexp.MustCompile(`(?:context (?:length|size|window)|maximum prompt length)(?: limit| of| is| only|:| \(|\()* ?(\d+)`),
	// LM Studio: "(n_keep: 10247 >= n_ctx: 4096)", "n_keep (15028) >= n_ctx (7424)"; llama.cpp: `"n_ctx":4096`
	regexp.MustCompile(`n_ctx"?[ :(=]{1,3}(\d+)`),
	// Mistral: "too large for model with 32768 maximum context length"
	regexp.MustCompile(`(\d+) maximum context length`),
	// Anthropic: "208310 tokens > 200000 maximum", "context limit: 190000 + 20000 > 200000"
	regexp.MustCompile(`\d+(?: tokens|\))? > (\d+)`),
	// Gemini: "exceeds the maximum number of tokens allowed (1048576)"
	regexp.MustCompile(`tokens allowed[ :(]{1,3}(\d+)`),
	// Text Generation Inference: "`max_new_tokens` must be <= 4096"
	regexp.MustCompile("max_new_tokens` must be <= (\\d+)"),
}

// effortWords matches the messages in which servers refuse a reasoning effort.
var effortWords = regexp.MustCompile(`reasoning[_. ]effort|output_config\.effort|effort parameter|` +
	`support (?:the )?(?:thinking|effort)|thinking(?: level| budget)?(?: \S+)? is not (?:supported|enabled)`)

// Window reads from a refusal how many tokens the model accepts. It returns 0 if the message does
// not say.
func Window(message string) int {
	message = plainWords(message)
	return cmp.Or(wordedWindow(message), allowedCount(message))
}

// wordedWindow reads the window from words that are known.
func wordedWindow(message string) int {
	for _, words := range windowWords {
		if found := words.FindStringSubmatch(message); found != nil {
			if n, err := strconv.Atoi(found[1]); err == nil && n > 0 && n <= maxWindow {
				return n
			}
		}
	}
	return 0
}

const (
	maxWords  = 4096 // bytes of a refusal that are looked at
	maxWindow = 100_000_000
)
