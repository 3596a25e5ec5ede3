package openai

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"strings"

	"steward/internal/llm"
)

// Vendor describes OpenAI, and the servers that are known to offer the same API.
func Vendor() llm.Vendor {
	return llm.Vendor{
		Name: "openai", Title: "OpenAI", Access: llm.ByKey,
		BaseURL: DefaultBaseURL, URLEnv: "OPENAI_BASE_URL", KeyEnv: []string{"OPENAI_API_KEY"}, KeyPrefixes: []string{"sk-"},
		Presets: llm.Presets{Standard: "gpt-5.4", Fast: "gpt-5.4-mini", Strong: "gpt-5.5", Embed: "text-embedding-3-small",
			Transcribe: "gpt-4o-mini-transcribe"},
		Documents:      []string{"application/pdf"},
		Tools:          tools(),
		Transcriptions: transcriptions,
		Formats: []llm.Format{
			{Name: "openai", Codec: New(Options{}).Codec(""), List: "messages", Answers: [][]string{{"choices", "message"}, {"message"}}},
			{Name: "responses", Codec: New(Options{Dialect: Responses}).Codec(""), List: "input", Answers: [][]string{{"output"}, {"message"}}, Others: []string{"instructions"}},
		},
		Servers: servers(),
		Open:    func(e llm.Endpoint) llm.Provider { return open(e, "") },
	}
}

func tools() []string { return []string{"web_search", "code_interpreter", "file_search"} }

const transcriptions = "/audio/transcriptions"

func open(e llm.Endpoint, keyHeader string) llm.Provider {
	return New(Options{Name: e.Name, BaseURL: e.BaseURL, Key: e.Key, KeyHeader: keyHeader, HTTP: e.HTTP, FirstByte: e.FirstByte, Idle: e.Idle,
		Dialect: cmp.Or(Dialect(e.Dialect), DialectOf(e.BaseURL)), Tools: e.Tools, Stores: e.Stores})
}

// server is a server that is known by name.
type server struct {
	Name      string `json:"name"`
	Title     string `json:"title"`
	Traced    string `json:"traced"`   // its name in OpenTelemetry's conventions
	BaseURL   string `json:"base_url"` // empty: each customer has another
	KeyEnv    string `json:"key_env"`
	KeyPrefix string `json:"key_prefix"`
	KeyHeader string `json:"key_header"` // empty: Authorization
	URLEnv    string `json:"url_env"`    // the variable with a customer's address
	URLPath   string `json:"url_path"`   // what follows that address
	Local     bool   `json:"local"`      // it runs on the user's machine, where it is looked for
	Source    string `json:"source"`
	Date      string `json:"date"` // when the source was read
	llm.Presets
}

//go:embed servers.json
var serversFile []byte // read only

// known reads servers.json. Where Presets name no model, the newest one that the server lists is used.
func known() []server {
	var list []server
	if err := json.Unmarshal(serversFile, &list); err != nil {
		panic(err) // a test reads it
	}
	return list
}

func servers() (list []llm.Vendor) {
	for _, s := range known() {
		v := llm.Vendor{Name: s.Name, Title: s.Title, Traced: s.Traced, Access: llm.ByServer, BaseURL: s.BaseURL, URLEnv: s.URLEnv, ReadURL: s.address,
			Presets: s.Presets, Tools: tools(), Transcriptions: transcriptions,
			Open: func(e llm.Endpoint) llm.Provider { return open(e, s.KeyHeader) }}
		if s.Local {
			v.Access = llm.ByLocal
		}
		if s.KeyEnv != "" {
			v.KeyEnv = []string{s.KeyEnv}
		}
		if s.KeyPrefix != "" {
			v.KeyPrefixes = []string{s.KeyPrefix}
		}
		list = append(list, v)
	}
	return list
}

// address returns the base URL of a customer whose address is in the environment.
func (s server) address(text string) string {
	text = strings.TrimRight(text, "/")
	if strings.HasSuffix(text, s.URLPath) {
		return text
	}
	return text + s.URLPath
}
