package llm_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
)

// script is a provider whose calls go as its steps say; the last step is
// repeated. It records what it was asked.
type script struct {
	name  string
	steps []step
	infos []llm.Info
	hangs bool // Models waits for its context

	mu    sync.Mutex
	asked []*llm.Request
	at    []time.Time
	names []string
}

// step is how one call goes: events, then an error if there is one.
type step struct {
	events []llm.Event
	err    error
	hang   bool // waits for ctx instead of ending
}

func (p *script) Name() string { return p.name }

func (p *script) Model(name string) llm.Model { return scripted{p, name} }

func (p *script) Models(ctx context.Context) ([]llm.Info, error) {
	if p.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if p.infos == nil {
		return nil, fault.New(fault.Unavailable, "unreachable", "nobody answers")
	}
	return p.infos, nil
}

type scripted struct {
	p    *script
	name string
}

func (m scripted) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		s := m.p.next(r, m.name)
		for _, ev := range s.events {
			if !yield(ev, nil) {
				return
			}
		}
		if s.hang {
			<-ctx.Done()
			yield(llm.Event{}, ctx.Err())
			return
		}
		if s.err != nil {
			yield(llm.Event{}, s.err)
		}
	}
}

func (p *script) next(r *llm.Request, name string) step {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.at, p.names = append(p.asked, r), append(p.at, time.Now()), append(p.names, name)
	return p.steps[min(len(p.asked), len(p.steps))-1]
}

func good(text string) step {
	return step{events: []llm.Event{{Kind: llm.TextDelta, Text: text}, done(text, message.Usage{Input: 10, Output: 5})}}
}

func done(text string, u message.Usage) llm.Event {
	return llm.Event{Kind: llm.Done, Reply: &llm.Reply{Blocks: []message.Block{&message.Text{Text: text}}, Stop: message.StopEnd, Usage: u}}
}

func bad(kind fault.Kind, code string) step {
	return step{err: fault.New(kind, code, "it says %s", code)}
}

// cut is a stream that breaks after some text.
func cut(text string) step {
	return step{events: []llm.Event{{Kind: llm.TextDelta, Text: text}}, err: fault.New(fault.Unavailable, "stream_broken", "the stream broke")}
}

// got is what a consumer of a stream has in the end.
type got struct {
	text    string // what stands after the last reset
	resets  int
	notices []string
	reply   *llm.Reply
	err     error
}

func read(t *testing.T, ctx context.Context, m llm.Model, r *llm.Request) (g got) {
	t.Helper()
	ended := false
	for ev, err := range m.Stream(ctx, r) {
		if ended {
			t.Errorf("%v, %v after the end", ev, err)
		}
		if err != nil {
			if ev != (llm.Event{}) {
				t.Errorf("an event with an error: %v", ev)
			}
			g.err, ended = err, true
			continue
		}
		switch ev.Kind {
		case llm.TextDelta:
			g.text += ev.Text
		case llm.Reset:
			g.text = ""
			g.resets++
		case llm.Notice:
			g.notices = append(g.notices, ev.Text)
		case llm.Done:
			g.reply, ended = ev.Reply, true
		}
	}
	if !ended {
		t.Error("the stream ended without Done and without an error")
	}
	return g
}

func ask() *llm.Request {
	return &llm.Request{Transcript: llm.NewTranscript(textMessage(message.User, "hello")), User: "ann"}
}

func newModels(t *testing.T, cfg llm.Config) *llm.Models {
	t.Helper()
	m, err := llm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func resolve(t *testing.T, m *llm.Models, name string) llm.Model {
	t.Helper()
	r, err := m.Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	return r.Model
}

func TestResolve(t *testing.T) {
	p := &script{name: "openai", steps: []step{good("hi")}}
	temperature := 0.5
	m := newModels(t, llm.Config{
		Providers: []llm.Provider{p, &script{name: "ollama", steps: []step{good("ho")}}},
		Aliases: map[string]llm.Alias{
			"default": {Models: []string{"openai/gpt-5", "gone/x"}, Sampling: llm.Sampling{Temperature: &temperature, MaxTokens: 9}},
			"strong":  {Models: []string{"gone/x", "gone/y"}},
		},
	})
	for _, name := range []string{"", "default"} {
		r, err := m.Resolve(name)
		if err != nil || r.Name != "default" || len(r.Models) != 2 || r.Sampling.MaxTokens != 9 {
			t.Errorf("Resolve(%q) = %+v, %v", name, r, err)
		}
	}
	// The alias's sampling stands under the request's.
	r := ask()
	r.Sampling.MaxTokens = 7
	if g := read(t, t.Context(), resolve(t, m, ""), r); g.text != "hi" || g.reply.Model != "openai/gpt-5" {
		t.Errorf("%+v", g)
	}
	if s := p.asked[0].Sampling; s.MaxTokens != 7 || *s.Temperature != 0.5 || r.Sampling.Temperature != nil {
		t.Errorf("the model was asked with %+v, the request has %+v", s, r.Sampling)
	}
	// A model's name may have slashes.
	one, err := m.Resolve("openai/org/model:7b")
	if err != nil || one.Name != "openai/org/model:7b" {
		t.Fatalf("%+v, %v", one, err)
	}
	read(t, t.Context(), one.Model, ask())
	if p.names[1] != "org/model:7b" {
		t.Errorf("the provider was asked for %q", p.names[1])
	}
	if again, _ := m.Resolve("openai/org/model:7b"); again.Model != one.Model {
		t.Error("what is known of a model is forgotten")
	}
	for name, want := range map[string]string{"strng": "strong", "opanai/gpt-5": "openai/…", "openai/": "openai/…", "/x": "", "whatever is this": "", "strong": ""} {
		_, err := m.Resolve(name)
		if !fault.HasCode(err, "model_not_found") || !fault.Is(err, fault.NotFound) || fault.Of(err).Remedy == "" {
			t.Errorf("Resolve(%q): %v", name, err)
		}
		near, _ := fault.Of(err).Details["near"].([]string)
		if want == "" && len(near) > 0 && name != "strong" || want != "" && (len(near) == 0 || near[0] != want || !strings.Contains(err.Error(), want)) {
			t.Errorf("Resolve(%q): near are %q", name, near)
		}
	}
	if got := m.Aliases(); len(got) != 2 || got[0] != "default" {
		t.Errorf("Aliases = %v", got)
	}
}

func TestNamesFromOutsideDoNotFillTheMemory(t *testing.T) {
	m := newModels(t, llm.Config{Providers: []llm.Provider{&script{name: "p", steps: []step{good("x")}}}})
	for i := range 5000 {
		resolve(t, m, fmt.Sprintf("p/%d", i))
	}
	if n := m.Remembered(); n > 1024 {
		t.Errorf("%d names are remembered", n)
	}
}

func TestNewRefuses(t *testing.T) {
	p := func(name string) llm.Provider { return &script{name: name} }
	alias := func(name string, models ...string) map[string]llm.Alias {
		return map[string]llm.Alias{name: {Models: models}}
	}
	for _, c := range []struct {
		code string
		cfg  llm.Config
	}{
		{"provider_name_invalid", llm.Config{Providers: []llm.Provider{p("")}}},
		{"provider_name_invalid", llm.Config{Providers: []llm.Provider{p("a/b")}}},
		{"provider_repeated", llm.Config{Providers: []llm.Provider{p("a"), p("a")}}},
		{"alias_invalid", llm.Config{Aliases: alias("", "a/b")}},
		{"alias_invalid", llm.Config{Aliases: alias("x/y", "a/b")}},
		{"alias_invalid", llm.Config{Aliases: alias("x")}},
		{"alias_invalid", llm.Config{Aliases: alias("x", "a/b", "gpt")}},
		{"alias_invalid", llm.Config{Aliases: alias("x", "/b")}},
		{"alias_invalid", llm.Config{Aliases: alias("x", "a/")}},
	} {
		if _, err := llm.New(c.cfg); !fault.HasCode(err, c.code) || fault.Of(err).Remedy == "" {
			t.Errorf("New(%+v) = %v, want %s", c.cfg, err, c.code)
		}
	}
}

func TestListDoesNotWaitForTheSlow(t *testing.T) { synctest.Test(t, listsWithoutTheSlow) }

func listsWithoutTheSlow(t *testing.T) {
	m := newModels(t, llm.Config{Providers: []llm.Provider{
		&script{name: "hangs", hangs: true},
		&script{name: "fails"},
		&script{name: "openai", infos: []llm.Info{{Name: "gpt-5"}, {Name: "text-embedding", Embedder: true}}},
	}})
	l := m.List(t.Context())
	if len(l.Models) != 2 || l.Models[0].Full() != "openai/gpt-5" || !l.Models[1].Embedder {
		t.Errorf("Models = %+v", l.Models)
	}
	if len(l.Errors) != 2 || !fault.Is(l.Errors["hangs"], fault.Timeout) || !fault.HasCode(l.Errors["fails"], "unreachable") {
		t.Errorf("Errors = %v", l.Errors)
	}
	// What was listed is offered where a name is misspelt.
	_, err := m.Resolve("gpt5")
	if near := fault.Of(err).Details["near"].([]string); len(near) == 0 || near[0] != "openai/gpt-5" {
		t.Errorf("near are %v", near)
	}
}

type embedding struct{ script }

func (e *embedding) Embedder(model string) llm.Embedder {
	if model == "none" {
		return nil
	}
	return fixed{model}
}

type fixed struct{ model string }

func (f fixed) Embed(context.Context, []string) (llm.Vectors, error) {
	return llm.Vectors{Model: f.model}, nil
}

func TestEmbedder(t *testing.T) {
	m := newModels(t, llm.Config{
		Providers: []llm.Provider{&script{name: "plain"}, &embedding{script{name: "ollama"}}},
		Aliases:   map[string]llm.Alias{"embed": {Models: []string{"gone/a", "ollama/nomic/embed"}}, "lost": {Models: []string{"gone/a", "plain/b"}}},
	})
	for _, name := range []string{"", "embed", "ollama/nomic/embed"} {
		e, err := m.Embedder(name)
		if err != nil || e.Name != "ollama/nomic/embed" || e.Embedder != (fixed{"nomic/embed"}) {
			t.Errorf("Embedder(%q) = %+v, %v", name, e, err)
		}
	}
	for name, code := range map[string]string{"plain/x": "embed_unsupported", "ollama/none": "embed_unsupported", "gone/a": "model_not_found", "lost": "model_not_found", "huh": "model_not_found"} {
		if _, err := m.Embedder(name); !fault.HasCode(err, code) {
			t.Errorf("Embedder(%q): %v, want %s", name, err, code)
		}
	}
}

func TestSamplingOver(t *testing.T) {
	one, two := 0.1, 0.2
	base := llm.Sampling{Temperature: &one, MaxTokens: 1, Stop: []string{"a"}, Effort: llm.EffortLow}
	if got := (llm.Sampling{}).Over(base); got.Temperature != &one || got.MaxTokens != 1 || got.Stop[0] != "a" || got.Effort != llm.EffortLow {
		t.Errorf("nothing over base: %+v", got)
	}
	over := llm.Sampling{Temperature: &two, MaxTokens: 2, Stop: []string{}, Effort: llm.EffortHigh}
	if got := over.Over(base); got.Temperature != &two || got.MaxTokens != 2 || len(got.Stop) != 0 || got.Effort != llm.EffortHigh {
		t.Errorf("all over base: %+v", got)
	}
}

func TestFallback(t *testing.T) {
	for _, c := range []struct {
		name     string
		first    step
		second   bool // the second model answers
		code     string
		attempts int
	}{
		{"no key", bad(fault.Unauthentic, "auth_failed"), true, "", 1},
		{"no such model", bad(fault.NotFound, "model_not_found"), true, "", 1},
		{"no images", bad(fault.Unsupported, "images_unsupported"), true, "", 1},
		{"overloaded", bad(fault.Unavailable, "overloaded"), true, "", 3},
		{"rate limited", bad(fault.RateLimited, "rate_limited"), true, "", 3},
		{"silent", bad(fault.Timeout, "first_byte_timeout"), true, "", 3},
		{"broken in the middle", cut("half a sen"), true, "", 3},
		{"an end without an end mark", step{events: []llm.Event{{Kind: llm.TextDelta, Text: "half"}}}, true, "", 3},
		{"not to be retried", step{err: fault.New(fault.RateLimited, "rate_limited", "the quota is used up").Retrying(fault.RetryNone, 0)}, true, "", 1},
		{"refused", bad(fault.Invalid, "request_refused"), false, "request_refused", 1},
		{"too long", bad(fault.TooLarge, "context_too_long"), false, "context_too_long", 1},
		{"cancelled", bad(fault.Cancelled, "cancelled"), false, "cancelled", 1},
		{"broken inside", step{err: errors.New("a bug")}, false, "internal", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := &script{name: "a", steps: []step{c.first}}, &script{name: "b", steps: []step{good("from b")}}
				m := newModels(t, llm.Config{Providers: []llm.Provider{a, b}, Retry: llm.RetryPolicy{Attempts: 3},
					Aliases: map[string]llm.Alias{"default": {Models: []string{"a/1", "b/2"}}}})
				g := read(t, t.Context(), resolve(t, m, ""), ask())
				if len(a.asked) != c.attempts {
					t.Errorf("the first was asked %d times, want %d", len(a.asked), c.attempts)
				}
				if !c.second {
					if !fault.HasCode(g.err, c.code) || len(b.asked) != 0 {
						t.Errorf("%+v", g)
					}
					return
				}
				if g.err != nil || g.text != "from b" || g.reply.Model != "b/2" {
					t.Fatalf("%+v", g)
				}
				if last := g.notices[len(g.notices)-1]; !strings.Contains(last, "b/2") || !strings.Contains(last, "a/1") {
					t.Errorf("the user is told %q", g.notices)
				}
				if want := len(c.first.events) * c.attempts; g.resets != want {
					t.Errorf("%d resets, want %d", g.resets, want)
				}
			})
		})
	}
}

// A model that was passed over because another one could be asked answers
// after all where that one cannot: without tools, or after its pause.
func TestWhoWasPassedOverIsAskedAgain(t *testing.T) {
	limited := step{err: fault.New(fault.RateLimited, "rate_limited", "slow down").Retrying(fault.RetryAfter, 5*time.Second)}
	for name, first := range map[string]step{"no tools": bad(fault.Unsupported, "tools_unsupported"), "a pause": limited} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &script{name: "a", steps: []step{first, good("from a")}}
				b := &script{name: "b", steps: []step{bad(fault.Unauthentic, "auth_failed")}}
				m := newModels(t, llm.Config{Providers: []llm.Provider{a, b}, Aliases: map[string]llm.Alias{"default": {Models: []string{"a/1", "b/2"}}}})
				r := ask()
				r.Tools = tools()
				if g := read(t, t.Context(), resolve(t, m, ""), r); g.err != nil || g.text != "from a" || len(a.asked) != 2 || len(b.asked) != 1 {
					t.Errorf("%+v, asked %d and %d times", g, len(a.asked), len(b.asked))
				}
			})
		})
	}
}

func TestAProviderThatIsNotThereIsPassedOver(t *testing.T) {
	b := &script{name: "b", steps: []step{good("hi")}}
	m := newModels(t, llm.Config{Providers: []llm.Provider{b}, Aliases: map[string]llm.Alias{"default": {Models: []string{"gone/1", "b/2"}}}})
	if g := read(t, t.Context(), resolve(t, m, ""), ask()); g.text != "hi" || len(g.notices) != 1 || g.resets != 0 {
		t.Errorf("%+v", g)
	}
}

func TestAllFail(t *testing.T) {
	a := &script{name: "a", steps: []step{{err: fault.New(fault.Unauthentic, "auth_failed", "no key for A").WithHint("set A_KEY")}}}
	b := &script{name: "b", steps: []step{bad(fault.NotFound, "model_not_found")}}
	m := newModels(t, llm.Config{Providers: []llm.Provider{a, b}, Aliases: map[string]llm.Alias{"default": {Models: []string{"a/1", "b/2"}}}})
	g := read(t, t.Context(), resolve(t, m, ""), ask())
	f := fault.Of(g.err)
	if f.Code != "auth_failed" || f.Kind != fault.Unauthentic || f.Remedy != "set A_KEY" {
		t.Errorf("%#v", f)
	}
	for _, want := range []string{"a/1: no key for A", "b/2: it says model_not_found"} {
		if strings.Count(g.err.Error(), want) != 1 {
			t.Errorf("%q is not told once in %q", want, g.err)
		}
	}
	if !errors.Is(g.err, a.steps[0].err) || !errors.Is(g.err, b.steps[0].err) {
		t.Error("the causes are not in the chain")
	}
	// The error that ends the search is the one that is told.
	b.steps = []step{bad(fault.Invalid, "request_refused")}
	if g := read(t, t.Context(), resolve(t, m, ""), ask()); !fault.HasCode(g.err, "request_refused") {
		t.Errorf("%v", g.err)
	}
}

// A consumer that has had enough is not yielded to again, wherever it stops.
func TestBreakingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := step{err: fault.New(fault.RateLimited, "rate_limited", "slow down").Retrying(fault.RetryAfter, 10*time.Second)}
		cutLong := cut("a")
		cutLong.err = wait.err
		a := &script{name: "a", steps: []step{cutLong, bad(fault.Unauthentic, "auth_failed")}}
		b := &script{name: "b", steps: []step{bad(fault.Unsupported, "tools_unsupported"), good("b")}}
		for n := range 8 {
			a.asked, b.asked = nil, nil
			m := newModels(t, llm.Config{Providers: []llm.Provider{a, b}, PerDay: llm.Budget{MaxTokens: 1000},
				Aliases: map[string]llm.Alias{"default": {Models: []string{"a/1", "b/2"}}}})
			r := ask()
			r.Tools = tools()
			seen := 0
			for range resolve(t, m, "").Stream(t.Context(), r) {
				if seen++; seen > n {
					break
				}
			}
			if seen != n+1 {
				t.Errorf("%d events, wanted to break off after %d", seen, n+1)
			}
		}
	})
}

// bare is a script that records nothing, for benchmarks.
type bare struct{ *script }

func (p bare) Model(string) llm.Model { return p }

func (p bare) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for _, ev := range p.steps[0].events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}
