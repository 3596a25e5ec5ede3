// Package anthropic is the provider for Anthropic's messages API, at Anthropic itself and at
// servers that are compatible with it.
//
// Source: https://platform.claude.com/docs/en/api/messages.
package anthropic

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"steward/internal/llm"
	"steward/internal/provider/wire"
)

// DefaultBaseURL is the base URL of Anthropic's own API; version is the version of the API.
const (
	DefaultBaseURL = "https://api.anthropic.com"
	version        = "2023-06-01"
)

// bindingBeta is the beta with which thinking that no longer matches its conversation is dropped
// instead of refused.
//
// Source: https://platform.claude.com/docs/en/build-with-claude/preserved-thinking.
const bindingBeta = "thinking-binding-controls-2026-08-01"

// Options describe one server. Anthropic's own server needs only Key.
type Options struct {
	Name      string // the provider's name; empty means "anthropic"
	BaseURL   string // with or without /v1; empty means DefaultBaseURL
	Key       string
	HTTP      *http.Client // nil: a connection pool of its own
	FirstByte time.Duration
	Idle      time.Duration

	// Tools are Anthropic's own that the model may use in requests with tools: web_search, web_fetch,
	// code_execution.
	Tools []string

	// List lists the models of a cloud that offers Claude. Such a cloud has no betas. Head and Path are
	// for one with requests of another form: the members in place of model and stream, and the path for
	// a model.
	List func(context.Context) ([]llm.Info, error)
	Head string
	Path func(model string) string
}

// Provider is one server. It is safe for concurrent use.
type Provider struct {
	name    string
	wire    *wire.Client
	binding *wire.Client // the same with bindingBeta
	loose   bool         // its models may be local ones, see wire.Assembly.Say
	opt     Options
}

// New returns a provider. It makes no request.
func New(opt Options) *Provider {
	opt.Name = cmp.Or(opt.Name, "anthropic")
	base := strings.TrimRight(cmp.Or(opt.BaseURL, DefaultBaseURL), "/")
	header := http.Header{"Anthropic-Version": {version}}
	if opt.Key != "" {
		header.Set("X-Api-Key", opt.Key)
	}
	if opt.HTTP == nil {
		opt.HTTP = wire.Pool()
	}
	w := wire.Options{
		Name: opt.Name, BaseURL: strings.TrimSuffix(base, "/v1"), Header: header, Secrets: []string{opt.Key},
		HTTP: opt.HTTP, FirstByte: opt.FirstByte, Idle: opt.Idle, Explain: explain,
	}
	p := &Provider{name: opt.Name, wire: wire.New(w), opt: opt}
	u, err := url.Parse(base)
	p.loose = opt.List == nil && (err != nil || u.Hostname() != "anthropic.com" && !strings.HasSuffix(u.Hostname(), ".anthropic.com"))
	w.Header = header.Clone()
	w.Header.Add("Anthropic-Beta", bindingBeta)
	p.binding = wire.New(w)
	return p
}

// Name implements llm.Provider.
func (p *Provider) Name() string { return p.name }

// Model implements llm.Provider.
func (p *Provider) Model(name string) llm.Model {
	m := &model{Provider: p, model: name, full: p.name + "/" + name, traits: traitsOf(name)}
	m.bound = m.bound && p.opt.List == nil
	return m
}

// maxPages limits the list of models, in case a server's pages form a loop.
const maxPages = 50

// Models implements llm.Provider.
func (p *Provider) Models(ctx context.Context) ([]llm.Info, error) {
	if p.opt.List != nil {
		return p.opt.List(ctx)
	}
	out := []llm.Info{}
	for after := ""; ; {
		path := "/v1/models?limit=1000"
		if after != "" {
			path += "&after_id=" + url.QueryEscape(after)
		}
		body, err := p.wire.Get(ctx, path)
		if err != nil {
			return nil, err
		}
		page, err := readPage(body)
		if err != nil {
			return nil, p.wire.Malformed(err)
		}
		out = append(out, page.models...)
		if !page.more || page.last == "" || page.last == after || len(out) > maxPages*1000 {
			return out, nil
		}
		after = page.last
	}
}

type page struct {
	models []llm.Info
	more   bool
	last   string
}

func readPage(body []byte) (page, error) {
	var in struct {
		Data []struct {
			ID      string `json:"id"`
			Created string `json:"created_at"`
			Window  int    `json:"max_input_tokens"`
		} `json:"data"`
		More bool   `json:"has_more"`
		Last string `json:"last_id"`
	}
	err := json.Unmarshal(body, &in)
	p := page{more: in.More, last: in.Last}
	for _, m := range in.Data {
		if m.ID == "" {
			continue
		}
		info := llm.Info{Name: m.ID, Window: m.Window}
		if t, err := time.Parse(time.RFC3339, m.Created); err == nil && t.Unix() > 0 {
			info.Created = t.UTC()
		}
		p.models = append(p.models, info)
	}
	return p, err
}
