// Package openai is the provider for OpenAI's responses and chat completions APIs and for embeddings,
// at OpenAI itself and at the many servers that are compatible with it.
//
// Source: https://platform.openai.com/docs/api-reference/responses, …/chat and, for the extensions of compatible
// servers, the documentation of vLLM, llama.cpp, OpenRouter, DeepSeek and Mistral.
package openai

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"steward/internal/llm"
	"steward/internal/provider/wire"
)

// DefaultBaseURL is the base URL of OpenAI's own API.
const DefaultBaseURL = "https://api.openai.com/v1"

// Dialect is the API that a server is asked by.
type Dialect string

// The dialects. The zero value stands for Chat, which most compatible servers speak.
const (
	Chat      Dialect = "chat"      // POST /chat/completions
	Responses Dialect = "responses" // POST /responses
)

// Rules are those of a server where servers of one dialect differ.
type Rules string

// The rules. OpenAI's own API requires max_completion_tokens and safety_identifier, and refuses
// settings that a model does not have. Compatible servers accept max_tokens and user, and ignore
// what they do not support.
const (
	Official   Rules = "openai"
	Compatible Rules = "compatible"
)

// Options describe one server. OpenAI's own server needs only Key.
type Options struct {
	Name      string       // the provider's name; empty means "openai"
	BaseURL   string       // including /v1; empty means DefaultBaseURL
	Key       string       // empty: none is sent
	KeyHeader string       // the field that takes Key by itself; empty: Authorization, as a bearer token
	HTTP      *http.Client // nil: a connection pool of its own
	FirstByte time.Duration
	Idle      time.Duration
	Dialect   Dialect // empty: Chat
	Rules     Rules   // empty: chosen by the host, see RulesOf

	// Tools are the server's own that the model may use in requests with tools: web_search,
	// code_interpreter, file_search. Only Responses has them. Stores are what file_search searches.
	Tools, Stores []string
}

// Provider is one server. It is safe for concurrent use.
type Provider struct {
	name      string
	official  bool
	responses bool
	hosted    []string // the server's own tools
	stores    []string
	codec     string // the name of the cached encodings
	wire      *wire.Client
}

// New returns a provider. It makes no request.
func New(opt Options) *Provider {
	opt.Name = cmp.Or(opt.Name, "openai")
	opt.BaseURL = cmp.Or(opt.BaseURL, DefaultBaseURL)
	opt.Rules = cmp.Or(opt.Rules, RulesOf(opt.BaseURL))
	header := http.Header{}
	switch {
	case opt.Key == "":
	case opt.KeyHeader != "":
		header.Set(opt.KeyHeader, opt.Key)
	default:
		header.Set("Authorization", "Bearer "+opt.Key)
	}
	if opt.Dialect != Responses {
		opt.Tools = nil
	}
	return &Provider{
		name:      opt.Name,
		official:  opt.Rules == Official,
		responses: opt.Dialect == Responses,
		hosted:    opt.Tools,
		stores:    opt.Stores,
		codec:     "openai:" + string(opt.Dialect) + ":" + string(opt.Rules) + ":" + opt.Name,
		wire: wire.New(wire.Options{
			Name: opt.Name, BaseURL: opt.BaseURL, Header: header, Secrets: []string{opt.Key},
			HTTP: opt.HTTP, FirstByte: opt.FirstByte, Idle: opt.Idle, Explain: explain,
		}),
	}
}

// RulesOf returns Official for the hosts of OpenAI and of Azure OpenAI, and
// Compatible for all others.
func RulesOf(baseURL string) Rules {
	if host := hostOf(baseURL); vendors(host) || strings.HasSuffix(host, ".openai.azure.com") {
		return Official
	}
	return Compatible
}

// DialectOf returns Responses for OpenAI's own hosts, which an empty URL stands for, and Chat for all
// others.
func DialectOf(baseURL string) Dialect {
	if baseURL == "" || vendors(hostOf(baseURL)) {
		return Responses
	}
	return Chat
}

func hostOf(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

func vendors(host string) bool {
	return host == "openai.com" || strings.HasSuffix(host, ".openai.com")
}

// Name implements llm.Provider.
func (p *Provider) Name() string { return p.name }

// Model implements llm.Provider.
func (p *Provider) Model(name string) llm.Model { return &model{p, name} }

// Models implements llm.Provider.
func (p *Provider) Models(ctx context.Context) ([]llm.Info, error) {
	body, err := p.wire.Get(ctx, "/models")
	if err != nil {
		return nil, err
	}
	out := []llm.Info{}
	d := wire.Decode(body)
	d.Object(func(key []byte) {
		if string(key) == "data" {
			d.Array(func(int) {
				if i := readInfo(d); i.Name != "" {
					out = append(out, i)
				}
			})
		}
	})
	if err := d.End(); err != nil {
		return nil, p.wire.Malformed(err)
	}
	return out, nil
}

// readInfo reads a model of the list. OpenAI reports only its id and age. The window is reported by
// vLLM (max_model_len) and OpenRouter (context_length).
func readInfo(d *wire.Decoder) llm.Info {
	var i llm.Info
	d.Object(func(key []byte) {
		switch string(key) {
		case "id":
			i.Name = d.String()
		case "created":
			if n := d.Int(); n > 0 {
				i.Created = time.Unix(n, 0).UTC()
			}
		case "max_model_len", "context_length", "context_window":
			i.Window = int(d.Int())
		}
	})
	i.Embedder = strings.Contains(i.Name, "embed")
	return i
}
