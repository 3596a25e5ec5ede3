package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/policy"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/offline"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
	"steward/internal/runtime"
	"steward/internal/settings"
)

// Default time limits of the search for models at the start.
const (
	knockTimeout = 300 * time.Millisecond // to find out whether a server listens
	ListTimeout  = 2 * time.Second        // to list its models
)

// localOllama is where Ollama listens by default.
const localOllama = "http://127.0.0.1:11434"

// preset holds the default models of a vendor. Their prices are in the built-in table, so
// that cost limits apply to them.
type preset struct{ Standard, fast, Strong, embed string }

func Presets() map[string]preset {
	return map[string]preset{
		"openai":    {"gpt-5.4", "gpt-5.4-mini", "gpt-5.5", "text-embedding-3-small"},
		"anthropic": {"claude-sonnet-5", "claude-haiku-4-5", "claude-opus-5", ""},
		"gemini":    {"gemini-3.5-flash", "gemini-3.1-flash-lite", "gemini-3.1-pro-preview", "gemini-embedding-001"},
		"offline":   {offline.ModelName, "", "", offline.EmbedderName},
	}
}

// Source is an available provider, with what is known of its models.
type Source struct {
	llm.Provider
	rank  int // smaller ranks are preferred
	How   string
	Names preset
}

// Supply are the models of this run and how they were found.
type Supply struct {
	*llm.Models
	Sources []Source
	Aliases map[string]llm.Alias
	ledger  *llm.DayLedger
}

// OfflineOnly reports whether the default model is the offline provider.
func (s *Supply) OfflineOnly() bool {
	return strings.HasPrefix(s.Aliases[llm.DefaultAlias].Models[0], "offline/")
}

// Supply finds the providers: those of the settings, then those with a key in the
// environment, then a local Ollama, then the offline one. judge decides which models may be
// called; nil: all.
func (a *App) Supply(ctx context.Context, set *settings.Loaded, judge policy.Authorizer, log *slog.Logger) (*Supply, error) {
	if err := a.resolveKeys(ctx, set); err != nil {
		return nil, err
	}
	s := &Supply{Sources: a.sources(ctx, set)}
	var err error
	if s.Aliases, err = aliases(set, s.Sources); err != nil {
		return nil, err
	}
	s.ledger = llm.NewDayLedger(func(string) *time.Location { return zoneOf(set.Profile.TimeZone) })
	cfg := llm.Config{Ledger: s.ledger, Aliases: s.Aliases, Known: KnownModels(set, log), Tested: TestedModels(set, log), Prices: prices(set), Windows: set.Windows, Log: log, Hide: a.Hidden(),
		PerRequest: llm.Budget{MaxTokens: set.Limits.Tokens, MaxCost: set.Limits.Cost},
		PerDay:     llm.Budget{MaxTokens: set.Limits.DayTokens, MaxCost: set.Limits.DayCost}}
	for _, src := range s.Sources {
		cfg.Providers = append(cfg.Providers, src.Provider)
	}
	cfg.Missing = Missing(set, s.Sources)
	if p := set.Providers["ollama"]; !p.Off && !slices.ContainsFunc(s.Sources, func(src Source) bool { return src.Name() == "ollama" }) {
		cfg.Later = append(cfg.Later, ollama.New(ollama.Options{Host: localOllama, Key: p.Key.Reveal(), HTTP: a.clientFor("ollama", a.modelClient()),
			FirstByte: set.Timeouts.FirstByte, Idle: set.Timeouts.Idle}))
	}
	if judge != nil {
		cfg.Allow = runtime.ModelGate(judge, Places(set))
	}
	s.Models, err = llm.New(cfg)
	return s, err
}

// Missing says for each provider that was not found how to make it available.
func Missing(set *settings.Loaded, found []Source) map[string]string {
	out := map[string]string{}
	for name, how := range map[string]string{
		"openai": "set OPENAI_API_KEY, or providers.openai.key in the settings", "anthropic": "set ANTHROPIC_API_KEY, or providers.anthropic.key in the settings",
		"gemini": "set GEMINI_API_KEY, or providers.gemini.key in the settings", "ollama": "start Ollama, or say with OLLAMA_HOST where it is",
	} {
		switch {
		case slices.ContainsFunc(found, func(s Source) bool { return s.Name() == name }):
		case set.Providers[name].Off:
			out[name] = "take providers." + name + ".off out of the settings"
		default:
			out[name] = how
		}
	}
	return out
}

// recall loads what was spent before this start into the day's ledger.
func (s *Supply) recall(ctx context.Context, e *conversation.Engine) error {
	for u, err := range e.Usage(ctx, time.Now().Add(-26*time.Hour)) { // more than the longest day, when clocks are set back
		if err != nil {
			return fmt.Errorf("what was spent today cannot be told: %w", err)
		}
		price, _ := s.Price(u.Model)
		s.ledger.Load(u.User, u.At, llm.Spend{Tokens: u.Usage.Input + u.Usage.Output, Cost: price.Cost(u.Usage)})
	}
	return nil
}

// zoneOf returns a time zone by its name, which the settings have checked. For "" it returns
// the machine's.
func zoneOf(name string) *time.Location {
	if zone, err := time.LoadLocation(name); name != "" && err == nil {
		return zone
	}
	return time.Local
}

// sources finds the providers concurrently, and returns them in order of preference.
func (a *App) sources(ctx context.Context, set *settings.Loaded) []Source {
	var mu sync.Mutex
	var found []Source
	client := a.modelClient()
	add := func(s Source) {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, s)
	}
	var asking sync.WaitGroup
	for name, p := range set.Providers {
		if p.Off || p.BaseURL == "" && (name == "ollama" || !slices.Contains(settings.Vendors(), name)) {
			continue // Ollama without an address is searched for below
		}
		src := Source{rank: rankOf(set, name), How: howFound(set, name)}
		switch name {
		case "openai", "anthropic", "gemini":
			if p.Key == "" && p.BaseURL == "" {
				continue // not usable: neither a key nor an address is set
			}
			src.Provider, src.Names = a.vendorOf(name, p, set.Timeouts, a.clientFor(name, client)), Presets()[name]
			src.Names.Standard = cmp.Or(p.Model, src.Names.Standard)
			add(src)
		default:
			asking.Go(func() {
				src.Provider, src.Names = a.served(ctx, name, p, set.Timeouts, a.clientFor(name, client))
				add(src)
			})
		}
	}
	for i, known := range append([]settings.Server{{Name: "ollama", BaseURL: localOllama, Local: true}}, settings.Servers()...) {
		p, named := set.Providers[known.Name]
		if isOllama := i == 0; isOllama && (p.Off || p.BaseURL != "") || !isOllama && named || !known.Local || known.Name == "localai" {
			continue // LocalAI listens where llama.cpp does
		}
		p.BaseURL = known.BaseURL
		asking.Go(func() {
			if !a.knock(ctx, p.BaseURL) {
				return
			}
			src := Source{rank: 3 + min(i, 1), How: "found at " + p.BaseURL}
			src.Provider, src.Names = a.served(ctx, known.Name, p, set.Timeouts, a.clientFor(known.Name, client))
			if i == 0 || src.Names.Standard != "" { // without models, others are none
				add(src)
			}
		})
	}
	asking.Wait()
	place := func(s Source) int { // at equal rank: the user's own servers, then the vendors in their order
		return slices.Index(settings.Vendors(), s.Name())
	}
	slices.SortFunc(found, func(x, y Source) int {
		return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(place(x), place(y)), strings.Compare(x.Name(), y.Name()))
	})
	return append(found, Source{Provider: offline.New(offline.Options{}), rank: 9, How: "always there", Names: Presets()["offline"]})
}

// rankOf ranks providers from the user's settings before those from elsewhere.
func rankOf(set *settings.Loaded, name string) int {
	for _, key := range []string{".base_url", ".key", ".key_env", ".key_file", ".model"} {
		switch set.SourceOf("providers." + name + key).Kind {
		case settings.FromUser, settings.FromFile:
			return 1
		}
	}
	return 2
}

func howFound(set *settings.Loaded, name string) string {
	for _, key := range []string{".key", ".base_url"} {
		if s := set.SourceOf("providers." + name + key); s.Kind != settings.FromDefault {
			return "set by " + s.String()
		}
	}
	return "in the settings"
}

// vendorOf returns the client of a vendor's own API.
func (a *App) vendorOf(name string, p settings.Provider, t settings.Timeouts, client *http.Client) llm.Provider {
	switch p.Dialect {
	case settings.Vertex, settings.VertexClaude, settings.Bedrock:
		return a.cloudOf(name, p, t, client)
	}
	client = adding(client, p, settings.ServerNamed(name).KeyHeader)
	switch name {
	case "anthropic":
		return anthropic.New(anthropic.Options{BaseURL: p.BaseURL, Key: p.Key.Reveal(), HTTP: client, FirstByte: t.FirstByte, Idle: t.Idle, Tools: p.Tools})
	case "gemini":
		return gemini.New(gemini.Options{BaseURL: p.BaseURL, Key: p.Key.Reveal(), HTTP: client, FirstByte: t.FirstByte, Idle: t.Idle, Tools: p.Tools})
	}
	return openai.New(openai.Options{Name: name, BaseURL: p.BaseURL, Key: p.Key.Reveal(), HTTP: client, FirstByte: t.FirstByte, Idle: t.Idle,
		Dialect: cmp.Or(openai.Dialect(p.Dialect), openai.DialectOf(p.BaseURL)), Tools: p.Tools, Stores: p.Stores})
}

// served returns the client of a server whose owner chose its models. It lists them unless
// the settings name one.
func (a *App) served(ctx context.Context, name string, p settings.Provider, t settings.Timeouts, client *http.Client) (llm.Provider, preset) {
	var provider llm.Provider
	takesTools := func(string) bool { return true }
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.ListFor, ListTimeout))
	defer cancel()
	if name == "ollama" {
		o := ollama.New(ollama.Options{Host: p.BaseURL, Key: p.Key.Reveal(), HTTP: adding(client, p, ""), FirstByte: t.FirstByte, Idle: t.Idle})
		takesTools = func(model string) bool { return o.TakesTools(ctx, model) }
		provider = o
	} else {
		provider = a.vendorOf(name, p, t, client)
	}
	known := settings.ServerNamed(name)
	names := preset{cmp.Or(p.Model, known.Model), known.Fast, known.Strong, known.Embed}
	if !a.knock(ctx, p.BaseURL) {
		return provider, names // the server may start later
	}
	infos, err := provider.Models(ctx)
	if err != nil {
		return provider, names
	}
	slices.SortStableFunc(infos, func(x, y llm.Info) int { return y.Created.Compare(x.Created) })
	for _, i := range infos {
		if i.Embedder && names.embed == "" {
			names.embed = i.Name
		}
	}
	chat := slices.DeleteFunc(slices.Clone(infos), func(i llm.Info) bool { return i.Embedder })
	if names.Standard == "" && len(chat) > 0 {
		at := max(0, slices.IndexFunc(chat, func(i llm.Info) bool { return takesTools(i.Name) }))
		names.Standard = chat[at].Name
	}
	return provider, names
}

// knock reports within a short time whether a server listens at a URL.
func (a *App) knock(ctx context.Context, base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.KnockFor, knockTimeout))
	defer cancel()
	if u.Scheme == "https" || proxied(u) {
		return true // not a local server: listing its models has its own time limit
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// proxied reports whether requests to a URL go through a proxy, so that a dial proves
// nothing.
func proxied(u *url.URL) bool {
	p, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	return err == nil && p != nil
}

// aliases returns the names of models: those of the settings and, for default, fast, strong
// and embed, those of the preferred provider.
func aliases(set *settings.Loaded, sources []Source) (map[string]llm.Alias, error) {
	chains := map[string][]string{}
	for name, al := range set.Models {
		if len(al.Use) == 0 {
			continue
		}
		var err error
		if chains[name], err = expand(set, name, nil); err != nil {
			return nil, err
		}
	}
	pick := func(alias string, of func(preset) string) {
		for _, s := range sources {
			if name := of(s.Names); name != "" && chains[alias] == nil {
				chains[alias] = []string{s.Name() + "/" + name}
			}
		}
	}
	pick("default", func(p preset) string { return p.Standard })
	// The others come from the same provider, if it has them: somebody who has chosen a local model,
	// or none, does not want another provider to be asked.
	chosen, _, _ := strings.Cut(chains["default"][0], "/")
	if i := slices.IndexFunc(sources, func(s Source) bool { return s.Name() == chosen }); i >= 0 {
		sources = append([]Source{sources[i]}, sources...)
	}
	pick("fast", func(p preset) string { return cmp.Or(p.fast, p.Standard) })
	pick("strong", func(p preset) string { return cmp.Or(p.Strong, p.Standard) })
	pick("embed", func(p preset) string { return p.embed })
	out := map[string]llm.Alias{}
	for name, chain := range chains {
		al := set.Models[name] // it may set only sampling
		out[name] = llm.Alias{Models: chain, Sampling: llm.Sampling{
			Temperature: al.Temperature, MaxTokens: al.MaxTokens, Stop: al.Stop, Effort: llm.Effort(al.Effort)}}
	}
	return out, nil
}

// expand resolves aliases of aliases to models. The settings have checked that there are no
// cycles.
func expand(set *settings.Loaded, name string, chain []string) ([]string, error) {
	for _, use := range set.Models[name].Use {
		if strings.Contains(use, "/") {
			chain = append(chain, use)
			continue
		}
		if len(set.Models[use].Use) == 0 {
			known := append(slices.Sorted(maps.Keys(set.Models)), "default", "fast", "strong")
			e := fault.New(fault.Invalid, "model_not_found", "models.%s (%s) names %q, which is neither provider/model nor an alias that is set",
				name, set.SourceOf("models."+name+".use"), use)
			if w := settings.Likely(use, known); w != "" && w != use {
				return nil, e.WithHint("did you mean %s?", w)
			}
			return nil, e.WithHint("write it as provider/model; steward models lists those that there are")
		}
		var err error
		if chain, err = expand(set, use, chain); err != nil {
			return nil, err
		}
	}
	return chain, nil
}

func prices(set *settings.Loaded) map[string]llm.Price {
	out := map[string]llm.Price{}
	for name, p := range set.Prices {
		out[name] = llm.Price{Search: p.Search, Rates: llm.Rates{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}}
	}
	return out
}
