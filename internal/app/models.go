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
	"steward/internal/resource"
	"steward/internal/settings"
	"steward/internal/store"
)

// Default time limits of the search for models at the start.
const (
	probeTimeout = 300 * time.Millisecond // to find out whether a server listens
	ListTimeout  = 2 * time.Second        // to list its models
)

// Source is an available provider, with what is known of its models.
type Source struct {
	llm.Provider
	rank  int // smaller ranks are preferred
	How   string
	Names llm.Presets
}

// Supply are the models of this run and how they were found.
type Supply struct {
	*llm.Models
	Sources []Source
	Aliases map[string]llm.Alias
	ledger  *llm.DayLedger
}

// OfflineOnly reports whether the default model is a built-in one.
func (s *Supply) OfflineOnly() bool {
	provider, _, _ := strings.Cut(s.Aliases[llm.DefaultAlias].Models[0], "/")
	return IsBuiltIn(provider)
}

// Supply finds the providers: those of the settings, then those with a key in the
// environment, then local servers, then the built-in one. judge decides which models may be
// called; nil: all.
func (a *App) Supply(ctx context.Context, set *settings.Loaded, judge policy.Authorizer, log *slog.Logger) (*Supply, error) {
	ledger := llm.NewDayLedger(func(string) *time.Location { return zoneOf(set.Profile.TimeZone) })
	return a.supplyWith(ctx, set, judge, log, ledger)
}

// supplyWith is Supply with a ledger of what was spent today.
func (a *App) supplyWith(ctx context.Context, set *settings.Loaded, judge policy.Authorizer, log *slog.Logger, ledger *llm.DayLedger) (*Supply, error) {
	if err := a.resolveKeys(ctx, set); err != nil {
		return nil, err
	}
	s := &Supply{Sources: a.sources(ctx, set), ledger: ledger}
	var err error
	if s.Aliases, err = aliases(set, s.Sources); err != nil {
		return nil, err
	}
	cfg := llm.Config{Vendors: Vendors(), Ledger: s.ledger, Aliases: s.Aliases, Telemetry: a.telemetry, Known: KnownModels(set, log), Tested: TestedModels(set, log), Prices: prices(set), Windows: set.Windows, Log: log, Hide: a.Hidden(),
		PerRequest: llm.Budget{MaxTokens: set.Limits.Tokens, MaxCost: set.Limits.Cost},
		PerDay:     llm.Budget{MaxTokens: set.Limits.DayTokens, MaxCost: set.Limits.DayCost}, PerUser: userBudgets(set)}
	for _, src := range s.Sources {
		cfg.Providers = append(cfg.Providers, src.Provider)
	}
	cfg.Missing = Missing(set, s.Sources)
	for _, v := range Vendors() {
		p := set.Providers[v.Name]
		if v.Access == llm.ByLocal && !p.Off && !has(s.Sources, v.Name) {
			p.BaseURL = v.BaseURL
			cfg.Later = append(cfg.Later, a.open(v, p, set.Timeouts, a.clientFor(v.Name, a.modelClient())))
		}
	}
	if judge != nil {
		cfg.Allow = ModelGate(judge, Places(set))
	}
	s.Models, err = llm.New(cfg)
	return s, err
}

// userBudgets returns the budgets of single users per day. What they do not say is as for all users.
func userBudgets(set *settings.Loaded) map[string]llm.Budget {
	out := map[string]llm.Budget{}
	for user, own := range set.Limits.Users {
		b := llm.Budget{MaxTokens: set.Limits.DayTokens, MaxCost: set.Limits.DayCost}
		if own.DayTokens != nil {
			b.MaxTokens = *own.DayTokens
		}
		if own.DayCost != nil {
			b.MaxCost = *own.DayCost
		}
		out[user] = b
	}
	return out
}

// limitsDays reports whether the settings limit what somebody uses in a day.
func limitsDays(set *settings.Loaded) bool {
	return set.Limits.DayTokens > 0 || set.Limits.DayCost > 0 || len(set.Limits.Users) > 0
}

func has(found []Source, name string) bool {
	return slices.ContainsFunc(found, func(s Source) bool { return s.Name() == name })
}

// Missing says for each vendor that was not found how to make it available.
func Missing(set *settings.Loaded, found []Source) map[string]string {
	out := map[string]string{}
	for _, v := range Vendors() {
		switch {
		case has(found, v.Name):
		case set.Providers[v.Name].Off:
			out[v.Name] = "remove providers." + v.Name + ".off from the settings"
		case v.Access == llm.ByLocal:
			out[v.Name] = "start " + v.Title + ", or say with " + v.URLEnv + " where it is"
		default:
			out[v.Name] = "set " + KeyEnv(v) + ", or providers." + v.Name + ".key in the settings"
		}
	}
	return out
}

// recall loads what was spent before a time, this start, into the day's ledger.
func (s *Supply) recall(ctx context.Context, e *conversation.Engine, before time.Time) error {
	for u, err := range e.Usage(ctx, store.ForNode(resource.System), time.Now().Add(-26*time.Hour)) { // more than the longest day, when clocks are set back
		if err != nil {
			return fmt.Errorf("today's spending cannot be read: %w", err)
		}
		if !u.At.Before(before) {
			continue
		}
		price, _ := s.Price(u.Model)
		s.ledger.Load(u.User, u.At, llm.Spend{Tokens: u.Usage.Input + u.Usage.Output, Cost: price.Cost(u.Usage)})
	}
	return nil
}

// recallUser loads what a user has spent today, instead of what the ledger knew: another node may have worked for the
// user.
func (s *Supply) recallUser(ctx context.Context, e *conversation.Engine, user string) error {
	s.ledger.Forget(user)
	for u, err := range e.Usage(ctx, store.ForUser(user), time.Now().Add(-26*time.Hour)) {
		if err != nil {
			return fmt.Errorf("today's spending cannot be read: %w", err)
		}
		price, _ := s.Price(u.Model)
		s.ledger.Load(user, u.At, llm.Spend{Tokens: u.Usage.Input + u.Usage.Output, Cost: price.Cost(u.Usage)})
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
		v := Vendors().For(name, p.Dialect)
		src := Source{rank: rankOf(set, name), How: howFound(set, name)}
		switch {
		case p.Off || v.Access == llm.BuiltIn:
		case v.Access == llm.ByKey:
			if p.Key == "" && p.BaseURL == "" {
				continue // not usable: neither a key nor an address is set
			}
			src.Provider, src.Names = a.open(v, p, set.Timeouts, a.clientFor(name, client)), v.Presets
			src.Names.Standard = cmp.Or(p.Model, src.Names.Standard)
			add(src)
		case p.BaseURL != "": // a local one without an address is searched for below
			asking.Go(func() {
				src.Provider, src.Names = a.served(ctx, v, p, set.Timeouts, a.clientFor(name, client))
				add(src)
			})
		}
	}
	searched := map[string]bool{} // LocalAI listens where llama.cpp does
	for v := range Vendors().All() {
		p := set.Providers[v.Name]
		if v.Access != llm.ByLocal || p.Off || p.BaseURL != "" || searched[v.BaseURL] {
			continue
		}
		searched[v.BaseURL] = true
		p.BaseURL = v.BaseURL
		asking.Go(func() {
			if !a.probe(ctx, p.BaseURL) {
				return
			}
			src := Source{rank: 3, How: "found at " + p.BaseURL}
			if Vendors().Index(v.Name) < 0 {
				src.rank = 4
			}
			src.Provider, src.Names = a.served(ctx, v, p, set.Timeouts, a.clientFor(v.Name, client))
			if v.Starter != nil || src.Names.Standard != "" { // without models, others are none
				add(src)
			}
		})
	}
	asking.Wait()
	for _, v := range Vendors() {
		if v.Access == llm.BuiltIn {
			add(Source{Provider: a.open(v, settings.Provider{}, set.Timeouts, client), rank: 9, How: "built in", Names: v.Presets})
		}
	}
	place := func(s Source) int { // at equal rank: the user's own servers, then the vendors in their order
		return Vendors().Index(s.Name())
	}
	slices.SortFunc(found, func(x, y Source) int {
		return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(place(x), place(y)), strings.Compare(x.Name(), y.Name()))
	})
	return found
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

// open returns the client of a vendor's API. Requests that a vendor signs are signed last, after secrets
// were masked in them.
func (a *App) open(v llm.Vendor, p settings.Provider, t settings.Timeouts, client *http.Client) llm.Provider {
	if v.SignIn != nil {
		masking, _ := client.Transport.(maskingTransport) // as modelClient makes it
		masking.RoundTripper = v.SignIn(masking.RoundTripper, p.Key.Reveal(), a.Getenv)
		signing := *client
		signing.Transport = masking
		client = &signing
	}
	return v.Open(llm.Endpoint{Name: v.Name, BaseURL: p.BaseURL, Key: p.Key.Reveal(), Dialect: p.Dialect, Model: p.Model, Tools: p.Tools, Stores: p.Stores,
		HTTP: adding(client, p), FirstByte: t.FirstByte, Idle: t.Idle})
}

// served returns the client of a server whose owner chose its models. It lists them unless
// the settings name one.
func (a *App) served(ctx context.Context, v llm.Vendor, p settings.Provider, t settings.Timeouts, client *http.Client) (llm.Provider, llm.Presets) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.ListTimeout, ListTimeout))
	defer cancel()
	provider := a.open(v, p, t, client)
	takesTools := func(model string) bool {
		j, ok := provider.(llm.ToolJudge)
		return !ok || j.TakesTools(ctx, model)
	}
	names := v.Presets
	names.Standard = cmp.Or(p.Model, names.Standard)
	if !a.probe(ctx, p.BaseURL) {
		return provider, names // the server may start later
	}
	infos, err := provider.Models(ctx)
	if err != nil {
		return provider, names
	}
	slices.SortStableFunc(infos, func(x, y llm.Info) int { return y.Created.Compare(x.Created) })
	for _, i := range infos {
		if i.Embedder && names.Embed == "" {
			names.Embed = i.Name
		}
	}
	chat := slices.DeleteFunc(slices.Clone(infos), func(i llm.Info) bool { return i.Embedder })
	if names.Standard == "" && len(chat) > 0 {
		at := max(0, slices.IndexFunc(chat, func(i llm.Info) bool { return takesTools(i.Name) }))
		names.Standard = chat[at].Name
	}
	return provider, names
}

// probe reports within a short time whether a server listens at a URL.
func (a *App) probe(ctx context.Context, base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.ProbeTimeout, probeTimeout))
	defer cancel()
	if u.Scheme == "https" || proxied(u) {
		return true // not a local server: listing its models has its own time limit
	}
	c, err := a.Outside.dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
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
	pick := func(alias string, of func(llm.Presets) string) {
		for _, s := range sources {
			if name := of(s.Names); name != "" && chains[alias] == nil {
				chains[alias] = []string{s.Name() + "/" + name}
			}
		}
	}
	pick("default", func(p llm.Presets) string { return p.Standard })
	// The others come from the same provider, if it has them: somebody who has chosen a local model,
	// or none, does not want another provider to be asked.
	chosen, _, _ := strings.Cut(chains["default"][0], "/")
	if i := slices.IndexFunc(sources, func(s Source) bool { return s.Name() == chosen }); i >= 0 {
		sources = append([]Source{sources[i]}, sources...)
	}
	pick("fast", func(p llm.Presets) string { return cmp.Or(p.Fast, p.Standard) })
	pick("strong", func(p llm.Presets) string { return cmp.Or(p.Strong, p.Standard) })
	pick("embed", func(p llm.Presets) string { return p.Embed })
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
			if w := settings.Suggest(use, known); w != "" && w != use {
				return nil, e.WithHint("did you mean %s?", w)
			}
			return nil, e.WithHint("write it as provider/model; steward models lists the models")
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

// ModelGate returns what keeps content from models that policy does not allow
// it to go to; see llm.Config.Allow. local says of a "provider/model" whether
// what it is sent stays on this machine and its own network. Nobody can be
// asked before each call of a model: to ask means no.
func ModelGate(p policy.Authorizer, local func(model string) bool) func(context.Context, string, *llm.Request) error {
	return func(ctx context.Context, model string, r *llm.Request) error {
		provider, name, _ := strings.Cut(model, "/")
		q := policy.Question{Point: policy.PointModel, User: r.User, Agent: r.Agent, Lineage: r.Lineage, Labels: r.Labels,
			Model: policy.Model{Provider: provider, Name: name, Local: local(model)}}
		d, err := p.Authorize(ctx, q)
		switch {
		case err != nil:
			return llm.NotAllowed(model, "policy could not be evaluated: "+err.Error()).WithHint("try again")
		case d.Verdict == policy.Allow:
			return nil
		}
		e := llm.NotAllowed(model, d.Reason)
		if d.Rule == "" {
			return e.WithHint("allow it by a rule of your own: steward policy show")
		}
		return e.WithHint("talk to a model that may be asked (--model, /model), name one further on in the alias (models.default), or change the rule at %s: steward policy show", d.Rule)
	}
}
