// Package offline is Steward's embedded default: a small deterministic model
// that needs no network and no key. It picks tools by the words that a request
// shares with them, fills arguments by the tools' schemas, and says openly
// that it is not a language model. docs/offline.md tells what it can do.
package offline

import (
	"context"
	_ "embed"
	"iter"
	"strings"
	"sync"
	"time"

	"steward/internal/embed"
	"steward/internal/llm"
	"steward/internal/message"
)

// Names of the provider and its models.
const (
	ProviderName  = "offline"
	ModelName     = "steward"
	EmbedderName  = "lexical"
	contextWindow = 1 << 20 // tokens; the model itself has no limit
)

// Options configure a Provider. The zero value works.
type Options struct {
	// Now gives the time to which words like "tomorrow" relate, in the zone
	// that holds where the system prompt names none. Nil means time.Now.
	Now func() time.Time
}

// Provider is the offline provider. Safe for concurrent use.
type Provider struct {
	now     func() time.Time
	zones   map[string]string // lower-case place → IANA name
	indexes indexes
	mu      sync.Mutex
	places  map[string]*time.Location // by IANA name; nil: there is none
}

var _ llm.Provider = (*Provider)(nil)

//go:embed zones.txt
var zoneTable string

// New makes a provider.
func New(o Options) *Provider {
	p := &Provider{now: o.Now, zones: parseZones(zoneTable), places: map[string]*time.Location{}}
	if p.now == nil {
		p.now = time.Now
	}
	return p
}

// parseZones reads lines of "Area/City" and of "place Area/City".
func parseZones(table string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		place, zone := line, line
		if i := strings.LastIndexByte(line, ' '); i >= 0 {
			place, zone = line[:i], line[i+1:]
		} else {
			place = strings.ToLower(strings.ReplaceAll(line[strings.LastIndexByte(line, '/')+1:], "_", " "))
		}
		if place != "" {
			out[place] = zone
			out[strings.ToLower(zone)] = zone
		}
	}
	return out
}

// Name returns "offline".
func (p *Provider) Name() string { return ProviderName }

// Model returns the model; there is one, whatever the name.
func (p *Provider) Model(name string) llm.Model { return &model{p} }

// Models lists the model and the embedder.
func (p *Provider) Models(ctx context.Context) ([]llm.Info, error) {
	return []llm.Info{{Name: ModelName, Window: contextWindow}, {Name: EmbedderName, Embedder: true}}, nil
}

// Embedder returns the lexical embedder; there is one, whatever the name.
func (p *Provider) Embedder(name string) embed.Embedder { return lexical{} }

type model struct{ p *Provider }

// Stream answers a request as llm.Model says. It returns schema_unsupported
// where it finds no value for a schema, and cancelled or deadline_exceeded
// when ctx is done.
func (m *model) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		msgs, err := r.Transcript.All()
		if err != nil {
			yield(llm.Event{}, err)
			return
		}
		w := &writer{ctx: ctx, yield: yield, usage: m.p.input(r, msgs)}
		m.p.respond(w, r, msgs)
	}
}

// respond writes the next message.
func (p *Provider) respond(w *writer, r *llm.Request, msgs []*message.Message) {
	turns := turnsOf(msgs)
	if !w.notices(r, msgs, turns) {
		return
	}
	now := p.clock(r.System)
	if r.Schema != nil {
		w.structured(p, r, turns, now)
		return
	}
	cur := turns[len(turns)-1]
	if cur.news {
		w.text(retold(cur.text), cur.cut, r.Sampling)
		return
	}
	x := p.indexes.of(r.Tools)
	pl := &planner{x: x, zones: p.zones}
	switch r.ToolChoice {
	case "", "auto", "none":
	case "required":
		pl.force = true
	default:
		pl.only = x.byName[r.ToolChoice]
	}
	plan := pl.understand(turns, func(text string) *reading { return read(text, now) })
	if r.ToolChoice != "none" {
		if calls := plan.next(); len(calls) > 0 {
			w.calls(calls, len(msgs), r.Sampling.MaxTokens)
			return
		}
	}
	var words []queryWord
	if plan.last != nil {
		words = plan.last.clause.words
	}
	w.text(plan.answer(x, words), cur.cut, r.Sampling)
}

// next returns the calls to make now: all that wait for nothing.
func (p *plan) next() []*step {
	var out []*step
	for _, s := range p.steps {
		if s.done == nil && !s.waits && !s.broken && len(s.missing) == 0 && s.mend() {
			out = append(out, s)
		}
	}
	return out
}

// clock returns the time now in the zone that the system prompt names.
func (p *Provider) clock(system string) time.Time {
	now := p.now()
	if loc := p.location(system); loc != nil {
		return now.In(loc)
	}
	return now
}

// location finds the first IANA zone name in a text.
func (p *Provider) location(text string) *time.Location {
	for rest := text; ; {
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return nil
		}
		start := i
		for start > 0 && isZoneByte(rest[start-1]) {
			start--
		}
		end := i + 1
		for end < len(rest) && (isZoneByte(rest[end]) || rest[end] == '/') {
			end++
		}
		if name := strings.TrimRight(rest[start:end], "/-"); isZone(name) && len(name) < 64 {
			if loc := p.load(name); loc != nil {
				return loc
			}
		}
		rest = rest[end:]
	}
}

func isZoneByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-' || c >= '0' && c <= '9' || c == '+'
}

// load reads a zone once; names that are none are forgotten when there are many.
func (p *Provider) load(name string) *time.Location {
	p.mu.Lock()
	defer p.mu.Unlock()
	if loc, ok := p.places[name]; ok {
		return loc
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		loc = nil
	}
	if len(p.places) > 512 {
		clear(p.places)
	}
	p.places[name] = loc
	return loc
}
