package llm_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/tool"
)

// one returns a model of one provider that goes as the steps say.
func one(t *testing.T, policy llm.RetryPolicy, steps ...step) (*script, llm.Model) {
	t.Helper()
	p := &script{name: "p", steps: steps}
	return p, resolve(t, newModels(t, llm.Config{Providers: []llm.Provider{p}, Retry: policy}), "p/m")
}

func TestRetryWaitsLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := llm.RetryPolicy{Attempts: 6, Base: time.Second, Max: 5 * time.Second, Rand: func() float64 { return 0.5 }}
		p, m := one(t, policy, bad(fault.Unavailable, "overloaded"))
		g := read(t, t.Context(), m, ask())
		if !fault.HasCode(g.err, "overloaded") || fault.Of(g.err).Details["attempts"] != 6 {
			t.Errorf("%v, %v", g.err, fault.Of(g.err).Details)
		}
		var waits []time.Duration
		for i := 1; i < len(p.at); i++ {
			waits = append(waits, p.at[i].Sub(p.at[i-1]))
		}
		want := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 2500 * time.Millisecond, 2500 * time.Millisecond}
		if len(waits) != len(want) {
			t.Fatalf("waits: %v", waits)
		}
		for i := range want {
			if waits[i] != want[i] {
				t.Errorf("waits: %v, want %v", waits, want)
			}
		}
	})
}

func TestRetryHonoursTheProvidersWord(t *testing.T) {
	limited := func(after time.Duration) step {
		return step{err: fault.New(fault.RateLimited, "rate_limited", "slow down").Retrying(fault.RetryAfter, after)}
	}
	for _, c := range []struct {
		after, want time.Duration
		notices     int
	}{
		{2 * time.Second, 2*time.Second + 250*time.Millisecond, 0},
		{20 * time.Second, 20*time.Second + 250*time.Millisecond, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, m := one(t, llm.RetryPolicy{MaxAfter: 30 * time.Second, Rand: func() float64 { return 0.5 }}, limited(c.after), good("hi"))
			g := read(t, t.Context(), m, ask())
			if g.err != nil || g.text != "hi" || len(g.notices) != c.notices {
				t.Errorf("%+v", g)
			}
			if got := p.at[1].Sub(p.at[0]); got != c.want {
				t.Errorf("asked to wait %v, waited %v, want %v", c.after, got, c.want)
			}
		})
	}
}

// A provider that asks for a long pause is not asked again by the call.
func TestALongPauseEndsTheCall(t *testing.T) {
	p, m := one(t, llm.RetryPolicy{}, step{err: fault.New(fault.RateLimited, "rate_limited", "slow down").Retrying(fault.RetryAfter, 2*time.Hour)}, good("hi"))
	if g := read(t, t.Context(), m, ask()); fault.Of(g.err).After != 2*time.Hour || len(p.at) != 1 {
		t.Errorf("%+v after %d calls", g, len(p.at))
	}
}

// Without another model to ask, a call waits until a pause is over that an
// earlier call was told of.
func TestAPauseHoldsForAllCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := step{err: fault.New(fault.RateLimited, "rate_limited", "slow down").Retrying(fault.RetryAfter, 30*time.Second)}
		p, m := one(t, llm.RetryPolicy{Attempts: 1, Base: time.Second}, limited, good("hi"))
		if g := read(t, t.Context(), m, ask()); !fault.HasCode(g.err, "rate_limited") {
			t.Fatalf("%+v", g)
		}
		if g := read(t, t.Context(), m, ask()); g.text != "hi" || len(g.notices) != 1 {
			t.Errorf("%+v", g)
		}
		if waited := p.at[1].Sub(p.at[0]); len(p.at) != 2 || waited < 30*time.Second || waited > 31*time.Second {
			t.Errorf("asked at %v", p.at)
		}
	})
}

// Processes tell each other of pauses, and changed settings end none.
func TestAPauseOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &script{name: "p", steps: []step{good("hi"), {err: fault.New(fault.RateLimited, "rate_limited", "slow down").Retrying(fault.RetryAfter, 10*time.Minute)}, good("again")}}
		cfg := llm.Config{Providers: []llm.Provider{p}}
		m := newModels(t, cfg)
		var told []string
		m.OnPause(func(model string, after time.Duration) { told = append(told, fmt.Sprint(model, " ", after)) })
		m.Pause("p/m", 5*time.Minute)
		m.Replace(newModels(t, cfg))
		for _, want := range []struct {
			rest  time.Duration
			calls int // in the end
			code  string
		}{
			{0, 0, "rate_limited"},
			{5 * time.Minute, 1, ""},
			{0, 2, "rate_limited"},
			{8 * time.Minute, 2, "rate_limited"},
			{2 * time.Minute, 3, ""},
		} {
			time.Sleep(want.rest)
			g := read(t, t.Context(), resolve(t, m, "p/m"), ask())
			if g.err != nil && !fault.HasCode(g.err, want.code) || (g.err == nil) != (want.code == "") || len(p.at) != want.calls {
				t.Errorf("%+v: %+v after %d calls", want, g, len(p.at))
			}
		}
		if !slices.Equal(told, []string{"p/m 10m0s"}) {
			t.Errorf("told: %q", told)
		}
	})
}

func TestRetryTakesBackWhatWasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		twice := step{events: []llm.Event{{Kind: llm.CallStart, Name: "x"}, {Kind: llm.Reset}}, err: fault.New(fault.Timeout, "idle_timeout", "silence")}
		p, m := one(t, llm.RetryPolicy{}, cut("one "), twice, good("all of it"))
		g := read(t, t.Context(), m, ask())
		// After the provider's own reset nothing is left to take back.
		if g.text != "all of it" || g.resets != 2 || len(p.asked) != 3 || g.reply.Model != "p/m" {
			t.Errorf("%+v, asked %d times", g, len(p.asked))
		}
	})
}

func TestRetryGivesUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy llm.RetryPolicy
		step   step
		calls  int
	}{
		{"one attempt", llm.RetryPolicy{Attempts: 1}, bad(fault.Unavailable, "overloaded"), 1},
		{"the default", llm.RetryPolicy{}, bad(fault.Unavailable, "overloaded"), 4},
		{"no time", llm.RetryPolicy{Total: time.Second, Base: 10 * time.Second, Rand: func() float64 { return 0.9 }}, bad(fault.Unavailable, "unreachable"), 1},
		{"no key", llm.RetryPolicy{}, bad(fault.Unauthentic, "auth_failed"), 1},
		{"refused", llm.RetryPolicy{}, bad(fault.Invalid, "request_refused"), 1},
		{"not found", llm.RetryPolicy{}, bad(fault.NotFound, "model_not_found"), 1},
		{"budget", llm.RetryPolicy{}, bad(fault.Exhausted, "budget_exhausted"), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, m := one(t, c.policy, c.step)
				g := read(t, t.Context(), m, ask())
				if len(p.asked) != c.calls || fault.Of(g.err).Code != fault.Of(c.step.err).Code {
					t.Errorf("%d calls, want %d: %v", len(p.asked), c.calls, g.err)
				}
			})
		})
	}
}

// The time of a long stream does not count against its retry.
func TestALongStreamThatBreaksIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &script{name: "p", steps: []step{cut("x"), good("hi")}}
		m := resolve(t, newModels(t, llm.Config{Providers: []llm.Provider{p}, Retry: llm.RetryPolicy{Total: time.Second}}), "p/m")
		text := ""
		for ev, err := range m.Stream(t.Context(), ask()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Kind == llm.TextDelta {
				text += ev.Text
				time.Sleep(time.Hour)
			}
		}
		if text != "xhi" {
			t.Errorf("%q", text)
		}
	})
}

func TestStopIsFelt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// While waiting for the next attempt.
		ctx, cancel := context.WithCancel(t.Context())
		wait := step{err: fault.New(fault.RateLimited, "rate_limited", "slow down").Retrying(fault.RetryAfter, 50*time.Second)}
		p, m := one(t, llm.RetryPolicy{}, wait)
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		g := read(t, ctx, m, ask())
		if !fault.HasCode(g.err, "cancelled") || time.Since(start) != time.Second || len(p.asked) != 1 {
			t.Errorf("after %v: %v", time.Since(start), g.err)
		}
		// While the model is silent; also under a deadline, and in a chain.
		a := &script{name: "a", steps: []step{{hang: true}}}
		b := &script{name: "b", steps: []step{good("b")}}
		models := newModels(t, llm.Config{Providers: []llm.Provider{a, b}, Aliases: map[string]llm.Alias{"default": {Models: []string{"a/1", "b/1"}}}})
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if g := read(t, ctx, resolve(t, models, ""), ask()); !fault.HasCode(g.err, "cancelled") || len(b.asked) != 0 {
			t.Errorf("%+v", g)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g := read(t, ctx, resolve(t, models, ""), ask()); !fault.HasCode(g.err, "deadline_exceeded") || len(b.asked) != 0 {
			t.Errorf("%+v", g)
		}
		// A provider's own word on it is kept.
		a.steps = []step{{hang: true, err: nil}}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if g := read(t, ctx, resolve(t, models, ""), ask()); !fault.Is(g.err, fault.Cancelled) {
			t.Errorf("%+v", g)
		}
	})
}

// However a model fails on the way, the consumer ends with exactly the text
// of the last attempt, the number of calls is bounded, and no wait is longer
// than the policy allows.
func TestRetryHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]step{
			cut("one"), cut("two"), bad(fault.Unavailable, "overloaded"), bad(fault.RateLimited, "rate_limited"),
			bad(fault.Invalid, "request_refused"), good("good"), {events: []llm.Event{{Kind: llm.TextDelta, Text: "unmarked"}}},
		}), 1, 6).Draw(rt, "steps")
		random := rapid.Float64Range(0, 0.999).Draw(rt, "random")
		attempts := rapid.IntRange(1, 5).Draw(rt, "attempts")
		synctest.Test(t, func(t *testing.T) {
			policy := llm.RetryPolicy{Attempts: attempts, Base: time.Second, Max: 3 * time.Second, Rand: func() float64 { return random }}
			p, m := one(t, policy, steps...)
			g := read(t, t.Context(), m, ask())
			if n := len(p.asked); n > attempts || n == 0 {
				t.Errorf("%d calls, allowed are %d", n, attempts)
			}
			last := steps[min(len(p.asked), len(steps))-1]
			want := ""
			for _, ev := range last.events {
				if ev.Kind == llm.TextDelta {
					want += ev.Text
				}
			}
			if g.text != want || (g.reply != nil) != (want == "good") {
				t.Errorf("the consumer has %q, want %q: %+v", g.text, want, g)
			}
			for i := 1; i < len(p.at); i++ {
				if d := p.at[i].Sub(p.at[i-1]); d > 3*time.Second {
					t.Errorf("waited %v", d)
				}
			}
		})
	})
}

func tools() *llm.Toolset {
	return llm.NewToolset(tool.Spec{Name: "math.multiply", Input: []byte(`{"type":"object"}`)})
}

func TestAModelWithoutToolsIsAskedWithoutThem(t *testing.T) {
	p, m := one(t, llm.RetryPolicy{}, bad(fault.Unsupported, "tools_unsupported"), good("bare"))
	r := ask()
	r.Tools, r.ToolChoice = tools(), "auto"
	for call := range 2 {
		g := read(t, t.Context(), m, r)
		if g.err != nil || g.text != "bare" || len(g.notices) != 1 || !strings.Contains(g.notices[0], "p/m") || g.reply.Model != "p/m" {
			t.Errorf("call %d: %+v", call, g)
		}
	}
	if len(p.asked) != 3 { // the second call does not fail first
		t.Errorf("asked %d times", len(p.asked))
	}
	if p.asked[0].Tools == nil || p.asked[1].Tools != nil || p.asked[1].ToolChoice != "" || p.asked[2].Tools != nil {
		t.Error("the tools")
	}
	if r.Tools == nil || r.ToolChoice != "auto" {
		t.Error("the request was changed")
	}
	if g := read(t, t.Context(), m, ask()); len(g.notices) != 0 {
		t.Errorf("a request without tools is told %q", g.notices)
	}
}

func TestWhoInsistsOnAToolIsNotAnsweredWithout(t *testing.T) {
	p, m := one(t, llm.RetryPolicy{}, bad(fault.Unsupported, "tools_unsupported"))
	r := ask()
	r.Tools, r.ToolChoice = tools(), "required"
	for range 2 {
		if g := read(t, t.Context(), m, r); !fault.HasCode(g.err, "tools_unsupported") {
			t.Errorf("%+v", g)
		}
	}
	if len(p.asked) != 2 {
		t.Errorf("asked %d times", len(p.asked))
	}
}

func TestToolsUnsupportedAfterSomethingWasShown(t *testing.T) {
	half := step{events: []llm.Event{{Kind: llm.TextDelta, Text: "half"}}, err: fault.New(fault.Unsupported, "tools_unsupported", "no tools")}
	_, m := one(t, llm.RetryPolicy{}, half, bad(fault.Invalid, "request_refused"))
	r := ask()
	r.Tools = tools()
	if g := read(t, t.Context(), m, r); g.resets != 1 || g.text != "" || !fault.HasCode(g.err, "request_refused") {
		t.Errorf("%+v", g)
	}
}

func BenchmarkStreamThroughTheWrappers(b *testing.B) {
	p := &script{name: "p", steps: []step{good("hi")}}
	models, err := llm.New(llm.Config{Providers: []llm.Provider{bare{p}}})
	if err != nil {
		b.Fatal(err)
	}
	r := ask()
	r.Meter = llm.NewMeter(llm.Budget{MaxTokens: 1 << 60})
	b.ReportAllocs()
	for b.Loop() {
		m, _ := models.Resolve("p/m")
		for _, err := range m.Model.Stream(b.Context(), r) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkStreamBare(b *testing.B) {
	m := bare{&script{name: "p", steps: []step{good("hi")}}}.Model("m")
	r := ask()
	b.ReportAllocs()
	for b.Loop() {
		for range m.Stream(b.Context(), r) {
		}
	}
}
