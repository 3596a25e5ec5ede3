package llm

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/fault"
	"steward/internal/lifetime/telemetry"
	"steward/internal/message"
)

// DefaultAlias and EmbedAlias are used in place of an empty name.
const (
	DefaultAlias = "default"
	EmbedAlias   = "embed"
)

// listTimeout is how long List waits.
const listTimeout = 3 * time.Second

// Config configures New. Only Providers has no useful zero value.
type Config struct {
	Providers []Provider
	Later     []Provider // not available yet: used only for chains that are pinned to them
	Aliases   map[string]Alias
	Known     *Known            // nil: DefaultKnown
	Tested    map[string]Tested // by "provider/model": what tests found; it overrides Known
	Prices    map[string]Price  // override those of Known; see Price for the names
	Vendors   Vendors           // of the providers, as far as they are known
	Windows   map[string]int    // context windows in tokens by "provider/model"; they override what providers report
	Retry     RetryPolicy

	PerRequest Budget            // of one request and everything it leads to: of one Meter
	PerDay     Budget            // of a user per day
	PerUser    map[string]Budget // of single users per day, in place of PerDay
	Ledger     *DayLedger        // of PerDay; nil: one of UTC days

	// Allow decides whether a model ("provider/model") may be called. An error (model_not_allowed,
	// see NotAllowed) says why not; the chain then tries its next model. Allow is called before
	// each model call. If nil, all models are allowed.
	Allow func(ctx context.Context, model string, r *Request) error

	// Hide hides secrets in what models write, starting with the first delta. If nil, there are
	// none.
	Hide Secrets

	Log *slog.Logger // nil: nothing is logged

	Telemetry *telemetry.Telemetry // counts and traces the calls; may be nil

	Missing map[string]string // how to make a missing provider available, by the provider's name
}

// Alias is a user-defined name for a chain of models. The first model answers; if it cannot, the
// next one is tried.
type Alias struct {
	Models   []string // "provider/model"
	Sampling Sampling // defaults that the agent and the request override
}

// Models resolves names to models. It is safe for concurrent use.
type Models struct {
	cfg       Config
	providers map[string]Provider
	names     []string // of the providers, in order
	aliases   map[string]Resolved
	prices    map[string]Price
	gate      *gate
	large     *places

	mu      sync.RWMutex
	direct  map[string]Resolved // by "provider/model"; bounded, see maxDirect
	listed  []string            // names that List found last, to suggest similar ones
	windows map[string]window   // by "provider/model"; bounded

	learning learning
	pauses   pauses

	next atomic.Pointer[Models] // takes this one's place; see Replace
}

const maxDirect = 1024 // names come from outside, so the cache is bounded

// Resolved is what a name resolves to.
type Resolved struct {
	Name     string   // as requested; DefaultAlias for the empty name
	Models   []string // the chain, as "provider/model"
	Model    Model    // the chain with retries, budgets and Sampling applied
	Sampling Sampling // the alias's settings; Model lets those of a request override them
}

// New returns the models of a configuration. Error codes, all Invalid: provider_name_invalid,
// provider_repeated, alias_invalid.
func New(cfg Config) (*Models, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Ledger == nil {
		cfg.Ledger = NewDayLedger(nil)
	}
	cfg.Retry = cfg.Retry.withDefaults()
	if cfg.Known == nil {
		known := DefaultKnown()
		cfg.Known = &known
	}
	prices := map[string]Price{}
	for v := range cfg.Vendors.All() {
		for name, p := range v.Prices {
			prices[v.Name+"/"+name] = p
		}
	}
	maps.Copy(prices, cfg.Known.Prices)
	maps.Copy(prices, cfg.Prices)
	m := &Models{
		cfg:       cfg,
		providers: map[string]Provider{},
		prices:    prices,
		aliases:   map[string]Resolved{},
		direct:    map[string]Resolved{},
		gate:      &gate{perRequest: cfg.PerRequest, perDay: cfg.PerDay, perUser: cfg.PerUser, ledger: cfg.Ledger},
		large:     newPlaces(),
	}
	for _, p := range cfg.Providers {
		name := p.Name()
		if name == "" || strings.Contains(name, "/") {
			return nil, fault.New(fault.Invalid, "provider_name_invalid", "a provider cannot be named %q", name).WithHint("choose a name without '/'")
		}
		if m.providers[name] != nil {
			return nil, fault.New(fault.Invalid, "provider_repeated", "there are two providers named %q", name).WithHint("rename one of them")
		}
		m.providers[name] = p
		m.names = append(m.names, name)
	}
	for name, a := range cfg.Aliases {
		cfg.Telemetry.ConfiguredModels(a.Models...)
		r, err := m.resolveAlias(name, a)
		if err != nil {
			return nil, err
		}
		m.aliases[name] = r
	}
	return m, nil
}

// Replace makes other take the place of m, for example because settings have changed: from then on, m answers as
// other. Calls in progress end with the models that they began with. What m has learned about windows stays known, and
// so do the pauses that providers have asked for.
// Both must have the same DayLedger, so that what was spent counts. Calls of Replace must not overlap.
func (m *Models) Replace(other *Models) {
	if saved, err := m.Learned(); err == nil {
		other.Recall(saved) //nolint:errcheck // it will be learned again
	}
	m.now().pauses.handOn(&other.pauses)
	m.next.Store(other)
}

// now returns the models that have taken the place of m, or m.
func (m *Models) now() *Models {
	if next := m.next.Load(); next != nil {
		return next
	}
	return m
}

func (m *Models) resolveAlias(name string, a Alias) (Resolved, error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "alias_invalid", "the alias %q "+format, append([]any{name}, args...)...).
			WithHint("write it as a list of provider/model names")
	}
	switch {
	case name == "" || strings.Contains(name, "/"):
		return Resolved{}, bad("has a '/' or no name")
	case len(a.Models) == 0:
		return Resolved{}, bad("names no model")
	}
	links := make([]link, 0, len(a.Models))
	for _, full := range a.Models {
		provider, model, ok := strings.Cut(full, "/")
		if !ok || provider == "" || model == "" {
			return Resolved{}, bad("names %q, which is not of the form provider/model", full)
		}
		links = append(links, m.link(provider, model))
	}
	return Resolved{
		Name: name, Models: slices.Clone(a.Models), Sampling: a.Sampling,
		Model: m.newChain(links, a.Sampling),
	}, nil
}

// link returns one model of a chain with all its layers. If the provider is missing, the model
// always fails, so that the chain tries the next one.
func (m *Models) link(provider, model string) link {
	full := provider + "/" + model
	p := m.providers[provider]
	if p == nil {
		return link{name: full, model: failing{m.unknownProvider(full, provider)}}
	}
	return m.linkTo(p, model, full)
}

// linkTo returns a model of a provider with all its layers.
func (m *Models) linkTo(p Provider, model, full string) link {
	var inner Model = &large{p.Model(model), m.large}
	if m.cfg.Hide != nil {
		inner = &discreet{inner, m.cfg.Hide}
	}
	return m.guarded(full, &adapted{name: full, next: inner, models: m})
}

// guarded returns a model with budgets and retries.
func (m *Models) guarded(full string, next Model) link {
	price, priced := priceOf(m.prices, full)
	next = &metered{name: full, next: next, gate: m.gate, models: m, price: price, priced: priced}
	return link{name: full, model: &retrying{name: full, next: next, allow: m.cfg.Allow, policy: m.cfg.Retry, pauses: &m.pauses, log: m.cfg.Log}}
}

// Resolve resolves an alias or a "provider/model" name, which is cut at the first '/'. The empty
// name is DefaultAlias. Resolve makes no request, so a model that its provider does not have fails
// only when it is called. An unknown alias or provider is model_not_found, with similar names in
// Details["near"].
func (m *Models) Resolve(name string) (Resolved, error) {
	m = m.now()
	name = cmp.Or(name, DefaultAlias)
	if r, ok := m.aliases[name]; ok {
		if m.allMissing(r.Models) {
			_, err := m.provider(r.Models[0])
			return Resolved{}, err
		}
		return r, nil
	}
	m.mu.RLock()
	r, ok := m.direct[name]
	m.mu.RUnlock()
	if ok {
		return r, nil
	}
	if _, err := m.provider(name); err != nil {
		return Resolved{}, err
	}
	provider, model, _ := strings.Cut(name, "/")
	r = Resolved{Name: name, Models: []string{name}, Model: m.newChain([]link{m.link(provider, model)}, Sampling{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	if again, ok := m.direct[name]; ok {
		return again, nil
	}
	if len(m.direct) >= maxDirect {
		clear(m.direct)
	}
	m.direct[name] = r
	return r, nil
}

// Unconfigured returns a model of a provider that is not configured, with the same retries and budgets as
// the others. If it cannot answer, the model named next is tried, if next is not empty.
func (m *Models) Unconfigured(p Provider, model, next string) (Resolved, error) {
	m = m.now()
	full := p.Name() + "/" + model
	r := Resolved{Name: full, Models: []string{full}}
	links := []link{m.linkTo(p, model, full)}
	if next != "" {
		other, err := m.Resolve(next)
		if err != nil {
			return Resolved{}, err
		}
		r.Models = append(r.Models, other.Models...)
		links = append(links, link{name: next, model: other.Model})
	}
	r.Model = m.newChain(links, Sampling{})
	return r, nil
}

// Pinned returns a Resolved for a chain that the name was resolved to earlier. A model whose
// provider is missing now always fails.
func (m *Models) Pinned(name string, chain []string) Resolved {
	m = m.now()
	if r, err := m.Resolve(name); err == nil && slices.Equal(r.Models, chain) {
		return r
	}
	links := make([]link, len(chain))
	for i, full := range chain {
		provider, model, _ := strings.Cut(full, "/")
		links[i] = m.link(provider, model)
		if later := m.later(provider); later != nil {
			links[i] = m.linkTo(later, model, full)
		}
	}
	sampling := m.aliases[cmp.Or(name, DefaultAlias)].Sampling
	return Resolved{Name: name, Models: chain, Sampling: sampling, Model: m.newChain(links, sampling)}
}

// Missing reports whether all of a chain's providers are missing. This cannot change before the
// next start.
func (m *Models) Missing(chain []string) bool {
	m = m.now()
	return m.allMissing(chain) && !slices.ContainsFunc(chain, func(full string) bool {
		provider, _, _ := strings.Cut(full, "/")
		return m.later(provider) != nil
	})
}

func (m *Models) later(provider string) Provider {
	for _, p := range m.cfg.Later {
		if p.Name() == provider && m.providers[provider] == nil {
			return p
		}
	}
	return nil
}

func (m *Models) allMissing(names []string) bool {
	return !slices.ContainsFunc(names, func(full string) bool {
		p, _, _ := strings.Cut(full, "/")
		return m.providers[p] != nil
	})
}

// provider returns the provider of a "provider/model" name.
func (m *Models) provider(name string) (Provider, error) {
	provider, model, ok := strings.Cut(name, "/")
	if !ok || model == "" {
		return nil, m.notFound(name, "there is no model or alias %.100q", name)
	}
	if p := m.providers[provider]; p != nil {
		return p, nil
	}
	return nil, m.unknownProvider(name, provider)
}

func (m *Models) unknownProvider(name, provider string) *fault.Error {
	e := m.notFound(name, "there is no provider %.60q for the model %.100q", provider, name)
	if how := m.cfg.Missing[provider]; how != "" {
		return e.WithHint("%s", how)
	}
	return e
}

func (m *Models) notFound(name, format string, args ...any) *fault.Error {
	near, remedy := similarModels(name, m.known()), "name a model as provider/model or by an alias"
	if len(near) > 0 {
		remedy = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fault.New(fault.NotFound, "model_not_found", format, args...).Detail("near", near).WithHint("%s", remedy)
}

// known returns all names that a caller can have meant: aliases, listed models, providers.
func (m *Models) known() []string {
	names := slices.Sorted(maps.Keys(m.aliases))
	m.mu.RLock()
	defer m.mu.RUnlock()
	names = append(names, m.listed...)
	for _, p := range m.names {
		names = append(names, p+"/…")
	}
	return names
}

// NewMeter returns a meter for a new request, with the configured budget.
func (m *Models) NewMeter() *Meter { return NewMeter(m.now().cfg.PerRequest) }

// Aliases returns the names of the aliases, sorted.
func (m *Models) Aliases() []string { return slices.Sorted(maps.Keys(m.now().aliases)) }

// Price returns the price of a "provider/model", if it is known.
func (m *Models) Price(name string) (Price, bool) { return priceOf(m.now().prices, name) }

// Spent returns the tokens and the price of a call of a model.
func (m *Models) Spent(name string, u message.Usage) Spend {
	m = m.now()
	price, _ := m.Price(name)
	return Spend{Tokens: u.Input + u.Output, Cost: price.Cost(u)}
}

// Listed is a model that a provider lists.
type Listed struct {
	Info
	Provider string
}

// Full returns "provider/model".
func (l Listed) Full() string { return l.Provider + "/" + l.Name }

// Listing holds the models of the providers, in the order of the providers, and the errors of those
// that could not be listed.
type Listing struct {
	Models []Listed
	Errors map[string]error // by provider
}

// List asks all providers concurrently for their models, each with a timeout. A provider that does
// not answer is reported in Errors and does not delay the others.
func (m *Models) List(ctx context.Context) Listing {
	m = m.now()
	lists, errs := make([][]Info, len(m.names)), make([]error, len(m.names))
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var asking sync.WaitGroup
	for i, name := range m.names {
		asking.Go(func() {
			lists[i], errs[i] = m.providers[name].Models(ctx)
			if errs[i] != nil && ctx.Err() != nil {
				errs[i] = fault.New(fault.Timeout, "first_byte_timeout", "%s did not say in time which models it has: %w", name, ctx.Err())
			}
		})
	}
	asking.Wait()
	out := Listing{Errors: map[string]error{}}
	for i, name := range m.names {
		if errs[i] != nil {
			out.Errors[name] = errs[i]
			continue
		}
		for _, info := range lists[i] {
			out.Models = append(out.Models, Listed{Info: info, Provider: name})
		}
	}
	m.remember(out.Models)
	return out
}

func (m *Models) remember(models []Listed) {
	names := make([]string, len(models))
	for i, l := range models {
		names[i] = l.Full()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listed = names
	for _, l := range models {
		m.listedWindow(l.Full(), l.Window)
	}
}

// similarModels returns up to three names that are spelled like name.
func similarModels(name string, known []string) []string {
	name = strings.ToLower(name)
	far := func(k string) int {
		provider, model, _ := strings.Cut(strings.ToLower(k), "/")
		if model == "…" {
			given, _, _ := strings.Cut(name, "/")
			return fault.Distance(given, provider)
		}
		return min(fault.Distance(name, strings.ToLower(k)), fault.Distance(name, cmp.Or(model, provider))) // users leave out providers
	}
	known = slices.DeleteFunc(slices.Clone(known), func(k string) bool { return far(k) > 2+len(name)/5 })
	slices.SortStableFunc(known, func(a, b string) int { return far(a) - far(b) })
	return known[:min(3, len(known))]
}
