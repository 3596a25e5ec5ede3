package gemini

import (
	"encoding/json"

	"steward/internal/llm"
	"steward/internal/provider/cloud"
	"steward/internal/provider/wire"
)

// Vendor describes Google's Gemini, and its cloud Vertex AI.
func Vendor() llm.Vendor {
	return llm.Vendor{
		Name: DefaultName, Title: "Gemini", Traced: "gcp.gemini", Access: llm.ByKey,
		BaseURL: DefaultBaseURL, URLEnv: "GOOGLE_GEMINI_BASE_URL", KeyEnv: []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"}, KeyPrefixes: []string{"AIza", "AQ."},
		Presets:   llm.Presets{Standard: "gemini-3.5-flash", Fast: "gemini-3.1-flash-lite", Strong: "gemini-3.1-pro-preview", Embed: "gemini-embedding-001"},
		Documents: []string{"application/pdf", "audio/*"},
		Tools:     []string{"google_search", "url_context", "code_execution"},
		Formats: []llm.Format{{Name: DefaultName, Codec: New(Options{}).Codec(""), List: "contents", Answers: [][]string{{"candidates", "content"}},
			System: "systemInstruction", EncodeSystem: encodeSystem, Others: []string{"system_instruction"}}},
		Servers: []llm.Vendor{vertex()},
		Open: func(e llm.Endpoint) llm.Provider {
			o := options(e)
			o.Key, o.Tools = e.Key, e.Tools
			return New(o)
		},
	}
}

func options(e llm.Endpoint) Options {
	return Options{Name: e.Name, BaseURL: e.BaseURL, HTTP: e.HTTP, FirstByte: e.FirstByte, Idle: e.Idle}
}

func encodeSystem(texts []string) json.RawMessage {
	parts := []byte(`{"parts":[`)
	for _, t := range texts {
		parts = wire.Append(wire.Comma(parts), `{"text":$}`, t)
	}
	return append(parts, `]}`...)
}

// vertex is Gemini on Google's Vertex AI, which lists the models of a project in no stable version of
// its API.
//
// Source: https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest-rpc, read 2026-11-26.
func vertex() llm.Vendor {
	presets := llm.Presets{Standard: "gemini-3.5-flash", Fast: "gemini-3.1-flash-lite", Strong: "gemini-3.1-pro-preview"}
	return llm.Vendor{
		Name: "vertex", Title: "Gemini on Vertex AI", Traced: "gcp.vertex_ai", Access: llm.ByServer,
		Locate: cloud.Vertex("google"), SignIn: cloud.Sign, Presets: presets,
		Open: func(e llm.Endpoint) llm.Provider {
			o := options(e) // SignIn has the key
			o.List = presets.List(e.Model)
			return New(o)
		},
	}
}
