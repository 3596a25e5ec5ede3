package llm

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/llm/embed"
)

// DefaultAlias and EmbedAlias are the aliases that stand in for an empty name.
const (
	DefaultAlias = "default"
	EmbedAlias   = "embed"
)

// DefaultListTimeout is how long List waits for one provider.
const DefaultListTimeout = 3 * time.Second

// Config is what New makes Models of. The zero value of everything but
// Providers is good.
type Config struct {
	Providers []Provider
	Later     []Provider // not there yet: asked only for what a chain has been pinned to
	Aliases   map[string]Alias
	Prices    map[string]Price // laid over DefaultPrices; see Price for the names
	Windows   map[string]int   // context windows in tokens by "provider/model", over what providers tell
	Retry     RetryPolicy

	PerRequest Budget // of a request with all that it leads to: of one Meter
	PerDay     Budget // of a user and day
	Ledger     Ledger // needed for PerDay; nil: a DayLedger of UTC days

	// Allow says whether a model ("provider/model") may be asked; an error
	// (model_not_allowed, see NotAllowed) says why not, and the next model of
	// the chain is asked. Called before each model call; nil: all may.
	Allow func(ctx context.Context, model string, r *Request) error

	// Hide hides secrets in what models write, from the first piece on; nil:
	// there are none.
	Hide Secrets

	ListTimeout time.Duration // per provider; zero means DefaultListTimeout
	Log         *slog.Logger  // nil: nothing is logged

	Missing map[string]string // what to do so that a provider is there which is not, by its name
}

// Alias is a name of one's own for a chain of models: the first one answers;
// the next when it cannot.
type Alias struct {
	Models   []string // "provider/model"
	Sampling Sampling // under what the agent and the request set
}

// Models knows every model by its name. Safe for concurrent use.
type Models struct {
	cfg       Config
	providers map[string]Provider
	names     []string // of the providers, in their order
	aliases   map[string]Resolved
	prices    map[string]Price
	gate      *gate
	large     *places

	mu      sync.RWMutex
	direct  map[string]Resolved // by "provider/model"; bounded, see maxDirect
	listed  []string            // names that List found last, for near names
	windows map[string]window   // by "provider/model"; bounded

	learning learning
	pauses   pauses
}

const maxDirect = 1024 // names come from outside: the memory of them is bounded

// Resolved is what a name stands for.
type Resolved struct {
	Name     string   // as it was asked for; DefaultAlias for the empty name
	Models   []string // the chain, as "provider/model"
	Model    Model    // the chain with retries, budgets and Sampling applied
	Sampling Sampling // the alias's; Model lays a request's over it
}

// New returns the models of the configuration. Error codes, all Invalid:
// provider_name_invalid, provider_repeated, alias_invalid.
func New(cfg Config) (*Models, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.ListTimeout <= 0 {
		cfg.ListTimeout = DefaultListTimeout
	}
	if cfg.Ledger == nil {
		cfg.Ledger = NewDayLedger(nil)
	}
	cfg.Retry = cfg.Retry.withDefaults()
	prices := DefaultPrices()
	maps.Copy(prices.Models, cfg.Prices)
	m := &Models{
		cfg:       cfg,
		providers: map[string]Provider{},
		prices:    prices.Models,
		aliases:   map[string]Resolved{},
		direct:    map[string]Resolved{},
		gate:      &gate{perRequest: cfg.PerRequest, perDay: cfg.PerDay, ledger: cfg.Ledger, log: cfg.Log},
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
		r, err := m.resolveAlias(name, a)
		if err != nil {
			return nil, err
		}
		m.aliases[name] = r
	}
	return m, nil
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
			return Resolved{}, bad("names %q, which is no provider/model", full)
		}
		links = append(links, m.link(provider, model))
	}
	return Resolved{
		Name: name, Models: slices.Clone(a.Models), Sampling: a.Sampling,
		Model: m.newChain(links, a.Sampling),
	}, nil
}

// link is one model of a chain with all that stands before it. A provider
// that is not there is a model that fails, so that the next one is used.
func (m *Models) link(provider, model string) link {
	full := provider + "/" + model
	p := m.providers[provider]
	if p == nil {
		return link{name: full, model: failing{m.unknownProvider(full, provider)}}
	}
	return m.linkTo(p, model, full)
}

// linkTo is a model of a provider with all that stands before it.
func (m *Models) linkTo(p Provider, model, full string) link {
	var inner Model = &large{p.Model(model), m.large}
	if m.cfg.Hide != nil {
		inner = &discreet{inner, m.cfg.Hide}
	}
	inner = &adapted{name: full, next: inner, models: m}
	price, priced := priceOf(m.prices, full)
	inner = &metered{name: full, next: inner, gate: m.gate, models: m, price: price, priced: priced}
	return link{name: full, model: &retrying{name: full, next: inner, allow: m.cfg.Allow, policy: m.cfg.Retry, pauses: &m.pauses, log: m.cfg.Log}}
}

// Resolve returns what stands behind an alias or a "provider/model" name (cut
// at the first '/'; the empty name is DefaultAlias). It asks nobody, so a model
// that its provider does not have fails only when it is called. An unknown
// alias or provider is model_not_found, with near names in Details["near"].
func (m *Models) Resolve(name string) (Resolved, error) {
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

// Beside returns a model of a provider that is not among those configured,
// with the same retries and budgets before it; where it cannot answer, the
// model that next names does, if it names one.
func (m *Models) Beside(p Provider, model, next string) (Resolved, error) {
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

// Pinned returns what a name stood for when it was resolved to a chain before.
// A provider that is not there now is a model that fails.
func (m *Models) Pinned(name string, chain []string) Resolved {
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

// Missing reports whether none of a chain's providers is there, so that
// nothing changes before the next start.
func (m *Models) Missing(chain []string) bool {
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
	near := near(name, m.known())
	remedy := "name a model as provider/model or by an alias"
	if len(near) > 0 {
		remedy = "did you mean " + strings.Join(near, " or ") + "?"
	}
	e := fault.New(fault.NotFound, "model_not_found", format, args...).Detail("near", near)
	return e.WithHint("%s", remedy)
}

// known are all names that can be meant: aliases, what was listed, providers.
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

// NewMeter returns the meter of a new request, with the configured budget.
func (m *Models) NewMeter() *Meter { return NewMeter(m.cfg.PerRequest) }

// Aliases returns the names of the aliases, sorted.
func (m *Models) Aliases() []string { return slices.Sorted(maps.Keys(m.aliases)) }

// Price returns the price of a "provider/model", if it is known.
func (m *Models) Price(name string) (Price, bool) { return priceOf(m.prices, name) }

// Listed is a model that a provider has.
type Listed struct {
	Info
	Provider string
}

// Full returns "provider/model".
func (l Listed) Full() string { return l.Provider + "/" + l.Name }

// Listing is what the providers have, in the providers' order, and why some
// could not say.
type Listing struct {
	Models []Listed
	Errors map[string]error // by provider
}

// List asks all providers at once what they have, each for a limited time. A
// provider that does not answer is told in Errors and keeps nobody waiting.
func (m *Models) List(ctx context.Context) Listing {
	type answer struct {
		infos []Info
		err   error
	}
	answers := make([]chan answer, len(m.names))
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ListTimeout)
	defer cancel()
	for i, name := range m.names {
		answers[i] = make(chan answer, 1)
		go func() {
			infos, err := m.providers[name].Models(ctx)
			answers[i] <- answer{infos, err}
		}()
	}
	out := Listing{Errors: map[string]error{}}
	for i, name := range m.names {
		var a answer
		select {
		case a = <-answers[i]:
		case <-ctx.Done():
			select { // what came in the same moment counts
			case a = <-answers[i]:
			default:
				a.err = fault.New(fault.Timeout, "first_byte_timeout", "%s did not say in time which models it has: %w", name, ctx.Err())
			}
		}
		if a.err != nil {
			out.Errors[name] = a.err
			continue
		}
		for _, info := range a.infos {
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

// Embedding is what a name stands for where texts are to be embedded.
type Embedding struct {
	Name     string // "provider/model"
	Embedder embed.Embedder
}

// Embedder returns the embedder behind an alias or a "provider/model" name;
// the empty name is EmbedAlias. Vectors of different models do not compare, so
// there is no fallback from call to call: of an alias, the first model counts
// whose provider is there. Error codes: model_not_found, embed_unsupported.
func (m *Models) Embedder(name string) (Embedding, error) {
	names := []string{cmp.Or(name, EmbedAlias)}
	if a, ok := m.aliases[names[0]]; ok {
		names = a.Models
	}
	var first error
	for _, full := range names {
		e, err := m.embedder(full)
		if err == nil {
			return e, nil
		}
		first = cmp.Or(first, err)
	}
	return Embedding{}, first
}

func (m *Models) embedder(full string) (Embedding, error) {
	p, err := m.provider(full)
	if err != nil {
		return Embedding{}, err
	}
	_, model, _ := strings.Cut(full, "/")
	if p, ok := p.(interface {
		Embedder(model string) embed.Embedder
	}); ok {
		if e := p.Embedder(model); e != nil {
			return Embedding{full, e}, nil
		}
	}
	return Embedding{}, fault.New(fault.Unsupported, "embed_unsupported", "%s cannot embed texts", full).
		WithHint("set the alias %q to a model that can", EmbedAlias)
}

// near returns up to three names that are spelt like name.
func near(name string, known []string) []string {
	type scored struct {
		name string
		d    int
	}
	var all []scored
	for _, k := range known {
		d := fault.Distance(strings.ToLower(name), strings.ToLower(k))
		// A model is often named without its provider.
		if _, model, ok := strings.Cut(k, "/"); ok && model != "…" {
			d = min(d, fault.Distance(strings.ToLower(name), strings.ToLower(model)))
		}
		if p, ok := strings.CutSuffix(k, "/…"); ok {
			given, _, _ := strings.Cut(name, "/")
			d = fault.Distance(strings.ToLower(given), strings.ToLower(p))
		}
		if d <= 2+len(name)/5 {
			all = append(all, scored{k, d})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(a.d, b.d) })
	var out []string
	for _, s := range all[:min(3, len(all))] {
		out = append(out, s.name)
	}
	return out
}

// String lists the providers, for logs.
func (m *Models) String() string { return fmt.Sprintf("models of %s", strings.Join(m.names, ", ")) }
