// Package gemini is the provider for Google's Gemini API (v1beta of
// generativelanguage.googleapis.com): streamed content, function calls, structured output, embeddings.
//
// Source: https://ai.google.dev/api.
package gemini

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"steward/internal/llm"
	"steward/internal/provider/wire"
)

// Defaults for the zero values in Options.
const (
	DefaultName    = "gemini"
	DefaultBaseURL = "https://generativelanguage.googleapis.com"
)

// Options configure access to the API.
type Options struct {
	Name      string        // the provider's name; default "gemini"
	BaseURL   string        // with or without the API version; default Google's
	Key       string        // sent as x-goog-api-key
	HTTP      *http.Client  // nil: one of its own
	FirstByte time.Duration // from the request to the answer's first byte; zero: wire's default
	Idle      time.Duration // between bytes of the answer; zero: wire's default

	// Tools are Google's own that the model may use in requests with tools: google_search, url_context,
	// code_execution.
	Tools []string

	List func(context.Context) ([]llm.Info, error) // set for a cloud that lists models otherwise
}

// Provider gives access to the models behind one key. It is safe for concurrent use.
type Provider struct {
	name   string
	client *wire.Client
	hosted []string
	list   func(context.Context) ([]llm.Info, error)
	loose  bool // its models may be local ones, see wire.Assembly.Say
}

var versioned = regexp.MustCompile(`/v\d+[a-z0-9]*(/|$)`)

// New returns the provider. It makes no request. If the base URL is invalid, the calls return an
// error.
func New(o Options) *Provider {
	base := strings.TrimRight(cmp.Or(o.BaseURL, DefaultBaseURL), "/")
	if !versioned.MatchString(base) {
		base += "/v1beta"
	}
	p := &Provider{name: cmp.Or(o.Name, DefaultName), list: o.List, hosted: o.Tools}
	u, err := url.Parse(base)
	p.loose = err != nil || !strings.HasSuffix(u.Hostname(), ".googleapis.com")
	header := http.Header{}
	if o.Key != "" {
		header.Set("X-Goog-Api-Key", o.Key)
	}
	p.client = wire.New(wire.Options{
		Name: p.name, BaseURL: base, Header: header, Secrets: []string{o.Key},
		HTTP: o.HTTP, FirstByte: o.FirstByte, Idle: o.Idle, Explain: explain,
	})
	return p
}

// Name returns the provider's name.
func (p *Provider) Name() string { return p.name }

// Model returns a model by Google's name for it ("gemini-2.5-flash"). It makes no request.
func (p *Provider) Model(name string) llm.Model {
	return &model{p: p, name: name, family: familyOf(name)}
}

// Models lists the models that the key may use, if they generate content or embed.
func (p *Provider) Models(ctx context.Context) ([]llm.Info, error) {
	if p.list != nil {
		return p.list(ctx)
	}
	var out []llm.Info
	for page := ""; ; {
		body, err := p.client.Get(ctx, "/models?pageSize=1000"+page)
		if err != nil {
			return nil, err
		}
		list, next, err := modelPage(body)
		if err != nil {
			return nil, p.client.Fault(wire.CodeProvider, "the list of models is not what the API documents", 0)
		}
		out = append(out, list...)
		if next == "" || len(list) == 0 {
			return out, nil
		}
		page = "&pageToken=" + url.QueryEscape(next)
	}
}

func modelPage(body []byte) (list []llm.Info, next string, err error) {
	var page struct {
		Models []struct {
			Name    string   `json:"name"`
			Window  int      `json:"inputTokenLimit"`
			Methods []string `json:"supportedGenerationMethods"`
		} `json:"models"`
		Next string `json:"nextPageToken"`
	}
	err = json.Unmarshal(body, &page)
	for _, m := range page.Models {
		info := llm.Info{Name: strings.TrimPrefix(m.Name, "models/"), Window: m.Window, Embedder: slices.Contains(m.Methods, "embedContent")}
		if info.Name != "" && (info.Embedder || slices.Contains(m.Methods, "generateContent")) {
			list = append(list, info)
		}
	}
	return list, page.Next, err
}

// Embedder returns an embedder by Google's name of the model ("gemini-embedding-001").
func (p *Provider) Embedder(model string) llm.Embedder { return &embedder{p, model} }

type embedder struct {
	p     *Provider
	model string
}

// maxBatch is the maximum number of texts in one batchEmbedContents request.
const maxBatch = 100

// Embed implements llm.Embedder, in batches of 100 texts.
func (e *embedder) Embed(ctx context.Context, texts []string) (llm.Vectors, error) {
	out := llm.Vectors{Model: e.p.name + "/" + strings.TrimPrefix(e.model, "models/")}
	for len(texts) > 0 {
		n := min(len(texts), maxBatch)
		if err := e.batch(ctx, texts[:n], &out); err != nil {
			return llm.Vectors{}, err
		}
		texts = texts[n:]
	}
	return out, nil
}

func (e *embedder) batch(ctx context.Context, texts []string, out *llm.Vectors) error {
	at := path(e.model)
	body := []byte(`{"requests":[`)
	for _, t := range texts {
		body = wire.Append(wire.Comma(body), `{"model":$,"content":{"parts":[{"text":$}]}}`, at[1:], t)
	}
	body = append(body, `]}`...)
	answer, err := e.p.client.PostAll(ctx, at+":batchEmbedContents", body)
	if err != nil {
		return err
	}
	var got struct {
		Embeddings []struct {
			Values []float32 `json:"values"`
		} `json:"embeddings"`
		Usage struct {
			Tokens int64 `json:"promptTokenCount"`
		} `json:"usageMetadata"`
	}
	if err := json.Unmarshal(answer, &got); err != nil || len(got.Embeddings) != len(texts) {
		return e.p.client.Fault(wire.CodeProvider, fmt.Sprintf("asked for %d vectors, got %d", len(texts), len(got.Embeddings)), 0)
	}
	for _, v := range got.Embeddings {
		out.Values = append(out.Values, v.Values)
	}
	out.Tokens += got.Usage.Tokens
	return nil
}
