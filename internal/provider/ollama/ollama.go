// Package ollama is the provider for Ollama's native API (/api/chat and related endpoints), local
// or on ollama.com: streamed chat, thinking, tool calls, structured output, embeddings. Reference:
// https://docs.ollama.com/api.
package ollama

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/provider/wire"
)

// DefaultFirstByte is used if Options leave FirstByte zero: a model may have to be loaded first
// (OLLAMA_LOAD_TIMEOUT).
const DefaultFirstByte = 5 * time.Minute

// Options configure access to one Ollama server.
type Options struct {
	Host      string        // as in OLLAMA_HOST; default http://127.0.0.1:11434
	Key       string        // sent as a bearer token, for ollama.com or a proxy
	HTTP      *http.Client  // nil: one of its own
	FirstByte time.Duration // from the request to the answer's first byte; zero: 5 minutes
	Idle      time.Duration // between bytes of the answer; zero: wire's default
}

// provider is the provider's name.
const provider = "ollama"

// Provider is one Ollama server. It is safe for concurrent use.
type Provider struct {
	client *wire.Client

	mu    sync.Mutex
	shown map[string]facts // by model
}

// New returns the provider. It makes no request. If the host is invalid, the calls return an error.
func New(o Options) *Provider {
	p := &Provider{shown: map[string]facts{}}
	header := http.Header{}
	if o.Key != "" {
		header.Set("Authorization", "Bearer "+o.Key)
	}
	p.client = wire.New(wire.Options{
		Name: provider, BaseURL: Host(o.Host), Header: header, Secrets: []string{o.Key},
		HTTP: o.HTTP, FirstByte: cmp.Or(o.FirstByte, DefaultFirstByte), Idle: o.Idle, Explain: explain,
	})
	return p
}

// Name returns the provider's name.
func (p *Provider) Name() string { return provider }

// Model returns a model by Ollama's name for it ("qwen3:8b"). It makes no request.
func (p *Provider) Model(name string) llm.Model { return &model{p: p, name: name} }

// Models lists the pulled models, each with what Ollama reports about it before ctx is done.
func (p *Provider) Models(ctx context.Context) ([]llm.Info, error) {
	body, err := p.client.Get(ctx, "/api/tags")
	if err != nil {
		return nil, p.remedy(err, "")
	}
	list, err := readTags(body)
	if err != nil {
		return nil, p.client.Fault(wire.CodeProvider, "the list of models is not what Ollama documents", 0)
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i := range list {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			// A model whose details cannot be read is listed without them.
			if f, err := p.show(ctx, list[i].Name); err == nil {
				list[i].Window, list[i].Embedder = f.window(), f.embeds()
			}
		})
	}
	wg.Wait()
	return list, nil
}

// Show returns what Ollama reports about one model. If the server sets the model's window, the
// window returned is the largest that the model supports.
func (p *Provider) Show(ctx context.Context, model string) (llm.Info, error) {
	f, err := p.show(ctx, model)
	info := llm.Info{Name: model, Window: f.window(), Embedder: f.embeds()}
	if info.Window == 0 && f.context < llm.AssumedWindow {
		info.Window = f.context
	}
	return info, err
}

// window returns the context window that a model gets: the one in its Modelfile or, for a model that
// runs remotely, its full window. Otherwise the server's setting applies, which Ollama does not report.
func (f facts) window() int {
	if f.numCtx == 0 && f.remote {
		return f.context
	}
	return f.numCtx
}

func readTags(body []byte) (list []llm.Info, err error) {
	var in struct {
		Models []struct {
			Name     string `json:"name"`
			Modified string `json:"modified_at"`
		} `json:"models"`
	}
	err = json.Unmarshal(body, &in)
	for _, m := range in.Models {
		if m.Name != "" {
			at, _ := time.Parse(time.RFC3339, m.Modified) // zero if it is invalid
			list = append(list, llm.Info{Name: m.Name, Created: at})
		}
	}
	return list, err
}

// facts are the details of a model that /api/show reports.
type facts struct {
	at           time.Time
	capabilities map[string]bool // nil: not reported (before Ollama 0.6.4)
	context      int             // the model's own context length
	numCtx       int             // set in its Modelfile
	remote       bool
}

// factsTTL is how long facts are cached. They expire because a model may be pulled again.
const factsTTL = 5 * time.Minute

func (f facts) embeds() bool { return f.capabilities["embedding"] }

// sees reports whether the model accepts images. If this is unknown, it returns true.
func (f facts) sees() bool { return f.capabilities == nil || f.capabilities["vision"] }

// show asks what a model can do, and caches the answer for a while.
func (p *Provider) show(ctx context.Context, name string) (facts, error) {
	p.mu.Lock()
	f, ok := p.shown[name]
	p.mu.Unlock()
	if ok && time.Since(f.at) < factsTTL {
		return f, nil
	}
	answer, err := p.client.PostAll(ctx, "/api/show", wire.Append(nil, `{"model":$}`, name))
	if err != nil {
		return facts{}, p.remedy(err, name)
	}
	f = readShow(answer)
	f.at = time.Now()
	p.mu.Lock()
	p.shown[name] = f
	p.mu.Unlock()
	return f, nil
}

// known is show for a request that does not depend on the answer. A failure is cached as unknown,
// so that it is not repeated for every request.
func (p *Provider) known(ctx context.Context, name string) facts {
	f, err := p.show(ctx, name)
	if err != nil && ctx.Err() == nil {
		p.mu.Lock()
		p.shown[name] = facts{at: time.Now()}
		p.mu.Unlock()
	}
	return f
}

// readShow reads the members that are present: an older server reports fewer.
func readShow(body []byte) (f facts) {
	d := wire.Decode(body)
	d.Object(func(key []byte) {
		switch string(key) {
		case "capabilities":
			f.capabilities = map[string]bool{}
			d.Array(func(int) { f.capabilities[d.String()] = true })
		case "remote_host":
			f.remote = d.String() != ""
		case "parameters":
			f.numCtx = parameter(d.String(), "num_ctx")
		case "model_info":
			d.Object(func(key []byte) {
				if strings.HasSuffix(string(key), ".context_length") {
					f.context = int(d.Int())
				}
			})
		}
	})
	return f
}

// parameter finds a number among a Modelfile's parameters, one per line.
func parameter(lines, name string) int {
	for line := range strings.Lines(lines) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.Atoi(f[1]) // ignore a value that is not a number
			return n
		}
	}
	return 0
}

// Embedder returns an embedder by Ollama's name of the model ("nomic-embed-text").
func (p *Provider) Embedder(model string) llm.Embedder { return &embedder{p, model} }

type embedder struct {
	p     *Provider
	model string
}

// Embed implements llm.Embedder by /api/embed.
func (e *embedder) Embed(ctx context.Context, texts []string) (llm.Vectors, error) {
	out := llm.Vectors{Model: provider + "/" + e.model}
	if len(texts) == 0 {
		return out, nil
	}
	body := wire.Append(nil, `{"model":$,"input":$}`, e.model, wire.AppendStrings(nil, texts))
	answer, err := e.p.client.PostAll(ctx, "/api/embed", body)
	if err != nil {
		return llm.Vectors{}, e.p.remedy(err, e.model)
	}
	var got struct {
		Embeddings [][]float32 `json:"embeddings"`
		Tokens     int64       `json:"prompt_eval_count"`
	}
	if err := json.Unmarshal(answer, &got); err != nil || len(got.Embeddings) != len(texts) {
		return llm.Vectors{}, e.p.client.Fault(wire.CodeProvider,
			"asked for "+strconv.Itoa(len(texts))+" vectors, got "+strconv.Itoa(len(got.Embeddings)), 0)
	}
	out.Values, out.Tokens = got.Embeddings, got.Tokens
	return out, nil
}

// TakesTools reports whether a model can call tools. If Ollama does not report it, it returns true.
func (p *Provider) TakesTools(ctx context.Context, model string) bool {
	f, err := p.show(ctx, model)
	return err == nil && (f.capabilities == nil || f.capabilities["tools"])
}

// explain reads Ollama's errors, which are strings: {"error": "…"}.
func explain(status int, body []byte) wire.Refusal {
	e, _ := wire.ReadAPIError(body)
	if e.Type+e.Code != "" { // not Ollama's own words: the status tells more
		return wire.Refusal{Message: e.Message}
	}
	return wire.Refusal{Code: codeOf(status, strings.ToLower(e.Message)), Message: e.Message}
}

// codeOf classifies Ollama's refusals by their text, because they have no codes.
func codeOf(status int, m string) string {
	has := func(s string) bool { return strings.Contains(m, s) }
	switch {
	case has("does not support tools"):
		return wire.CodeNoTools
	case has("does not support vision"), has("missing data required for image input"):
		return wire.CodeNoImages
	case has("model") && has("not found"):
		return wire.CodeNoModel
	case has("schema") && (has("format") || has("grammar")):
		return wire.CodeNoSchema
	case has("server busy"):
		return wire.CodeOverloaded
	case has("requires more system memory"):
		return wire.CodeRefused // the same call fails again
	case status == http.StatusNotFound && m != "":
		return wire.CodeRefused
	}
	return "" // by the status
}

// remedy adds a remedy to errors that are specific to Ollama.
func (p *Provider) remedy(err error, model string) error {
	f := fault.Of(err)
	switch {
	case f.Code == wire.CodeNoModel && model != "":
		return f.WithHint("run `ollama pull %s`", model)
	case f.Code == wire.CodeAuth:
		return f.WithHint("check the API key, or run `ollama signin` where Ollama runs")
	case f.Code == wire.CodeUnreachable:
		return f.WithHint("start Ollama with `ollama serve`, or set OLLAMA_HOST to where it runs")
	case f.Code == wire.CodeContext:
		return f.WithHint("raise num_ctx of the model, or OLLAMA_CONTEXT_LENGTH where Ollama runs, or shorten the conversation")
	case strings.Contains(f.Message, "requires more system memory"):
		return f.WithHint("choose a smaller model, or free memory where Ollama runs")
	}
	return err
}
