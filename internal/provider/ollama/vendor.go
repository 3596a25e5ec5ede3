package ollama

import (
	"strings"

	"steward/internal/llm"
)

// Vendor describes Ollama.
func Vendor() llm.Vendor {
	return llm.Vendor{
		Name: provider, Title: "Ollama", Access: llm.ByLocal,
		BaseURL: Host(""), URLEnv: "OLLAMA_HOST", ReadURL: Host,
		Prices:     map[string]llm.Price{"*": {}},
		UpToServer: true, Elsewhere: isCloudModel,
		Starter: &llm.Starter{Download: "https://ollama.com/download", Pull: "ollama pull",
			// Sizes: ollama.com/library, of 2026-11. Memory: 8, 16 and 32 GB for models of up to 7, 13 and 33
			// billion parameters, as Ollama's README says.
			Models: []llm.StarterModel{{Name: "qwen3:4b", Size: 2.5, Memory: 8}, {Name: "gpt-oss:20b", Size: 14, Memory: 16}, {Name: "qwen3:30b", Size: 19, Memory: 32}}},
		Formats: []llm.Format{{Name: provider, Codec: New(Options{}).Codec(""), List: "messages", Answers: [][]string{{"message"}}}},
		Open: func(e llm.Endpoint) llm.Provider {
			return New(Options{Host: e.BaseURL, Key: e.Key, HTTP: e.HTTP, FirstByte: e.FirstByte, Idle: e.Idle})
		},
	}
}

// isCloudModel reports whether a model runs in the cloud (https://docs.ollama.com/cloud).
func isCloudModel(model string) bool {
	return strings.HasSuffix(model, "-cloud") || strings.HasSuffix(model, ":cloud")
}
