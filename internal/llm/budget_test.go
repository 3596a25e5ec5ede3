package llm_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	_ "steward/test/seed"
)

// priced returns a model that costs 1 USD per million input tokens and 10 per
// million output tokens, and the ledger that counts it.
func priced(t *testing.T, cfg llm.Config, steps ...step) (*script, llm.Model, *llm.DayLedger) {
	t.Helper()
	p := &script{name: "p", steps: steps}
	ledger := llm.NewDayLedger(nil)
	cfg.Providers, cfg.Ledger = []llm.Provider{p}, ledger
	cfg.Prices = map[string]llm.Price{"p/m": {Rates: llm.Rates{Input: 1, Output: 10}}, "p/free": {}}
	cfg.Retry = llm.RetryPolicy{Attempts: 1}
	return p, resolve(t, newModels(t, cfg), "p/m"), ledger
}

func spentBy(l *llm.DayLedger, user string) llm.Spend {
	s, _ := l.Spent(user, time.Now())
	return s
}

func used(input, output int64) step {
	return step{events: []llm.Event{{Kind: llm.TextDelta, Text: "hi"}, done("hi", message.Usage{Input: input, Output: output})}}
}

func TestACallIsCounted(t *testing.T) {
	_, m, ledger := priced(t, llm.Config{}, used(1000, 100))
	r := ask()
	r.Meter = llm.NewMeter(llm.Budget{})
	read(t, t.Context(), m, r)
	read(t, t.Context(), m, r)
	want := llm.Spend{Tokens: 2200, Cost: 2 * 0.002}
	if got := spentBy(ledger, "ann"); got != want {
		t.Errorf("the ledger has %+v, want %+v", got, want)
	}
	if got := r.Meter.Spent(); got != want {
		t.Errorf("the meter has %+v, want %+v", got, want)
	}
	if got := spentBy(ledger, "bob"); got != (llm.Spend{}) {
		t.Errorf("somebody else has %+v", got)
	}
}

func TestWhatASpentStreamCosts(t *testing.T) {
	long := strings.Repeat("word ", 200)
	for _, c := range []struct {
		name        string
		step        step
		breakOff    bool
		least, most int64
	}{
		{"refused before anything came", bad(fault.Unauthentic, "auth_failed"), false, 0, 0},
		{"broken in the middle", cut(long), false, 200, 600},
		{"the consumer had enough", step{events: []llm.Event{{Kind: llm.TextDelta, Text: long}, {Kind: llm.TextDelta, Text: long}}}, true, 200, 600},
		{"no usage reported", step{events: []llm.Event{done(long, message.Usage{})}}, false, 200, 600},
		{"calls", step{events: []llm.Event{{Kind: llm.CallStart, Name: "a"}, {Kind: llm.CallArgs, Text: long}}, err: errors.New("x")}, false, 200, 600},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, budget := range []llm.Budget{{}, {MaxTokens: 1e6, MaxCost: 10}} {
				_, m, ledger := priced(t, llm.Config{PerDay: budget}, c.step)
				for range m.Stream(t.Context(), ask()) {
					if c.breakOff {
						break
					}
				}
				got := spentBy(ledger, "ann")
				if got.Tokens < c.least || got.Tokens > c.most {
					t.Errorf("%d tokens are counted", got.Tokens)
				}
				if (got.Cost > 0) != (got.Tokens > 0) {
					t.Errorf("%v USD are counted for %d tokens", got.Cost, got.Tokens)
				}
			}
		})
	}
}

func TestTheBudgetIsEnforcedBeforeTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name      string
			request   llm.Budget
			day       llm.Budget
			spent     llm.Spend // before
			maxTokens int
			refused   string // the budget at fault, or ""
			bound     int    // what the model is asked for; 0: left open
			told      bool
		}{
			{name: "nothing is bounded"},
			{name: "plenty", day: llm.Budget{MaxTokens: 100_000, MaxCost: 1}},
			{name: "the caller's own bound fits", day: llm.Budget{MaxTokens: 1000}, maxTokens: 500, bound: 500},
			{name: "the caller's own bound is lowered", day: llm.Budget{MaxTokens: 1000}, spent: llm.Spend{Tokens: 800}, maxTokens: 500, bound: 181, told: true},
			{name: "an open end is closed", day: llm.Budget{MaxTokens: 10_000}, bound: 4096},
			{name: "little is left", day: llm.Budget{MaxTokens: 10_000}, spent: llm.Spend{Tokens: 9800}, bound: 181, told: true},
			{name: "too little is left", day: llm.Budget{MaxTokens: 10_000}, spent: llm.Spend{Tokens: 9950}, refused: "day"},
			{name: "a little is all that is asked for", day: llm.Budget{MaxTokens: 10_000}, spent: llm.Spend{Tokens: 9950}, maxTokens: 10, bound: 10},
			{name: "nothing is left", day: llm.Budget{MaxTokens: 10_000}, spent: llm.Spend{Tokens: 20_000}, refused: "day"},
			{name: "money bounds the output", day: llm.Budget{MaxCost: 0.01}, bound: 998, told: true},
			{name: "money is gone", day: llm.Budget{MaxCost: 0.01}, spent: llm.Spend{Cost: 0.01}, refused: "day"},
			{name: "the request's own", request: llm.Budget{MaxTokens: 50}, refused: "request"},
			{name: "the request's money", request: llm.Budget{MaxCost: 1e-6}, refused: "request"},
			{name: "the smaller one counts", request: llm.Budget{MaxTokens: 10_000}, day: llm.Budget{MaxTokens: 219}, bound: 200, told: true},
		} {
			p, m, ledger := priced(t, llm.Config{PerRequest: c.request, PerDay: c.day}, used(10, 5))
			ledger.Add("ann", time.Now(), c.spent)
			r := ask() // is estimated at 19 tokens
			if n := llm.EstimateRequest(r); n != 19 {
				t.Fatalf("the request is estimated at %d", n)
			}
			r.Sampling.MaxTokens = c.maxTokens
			g := read(t, t.Context(), m, r)
			if c.refused != "" {
				f := fault.Of(g.err)
				if f.Code != "budget_exhausted" || f.Kind != fault.Exhausted || f.Details["budget"] != c.refused || f.Remedy == "" || len(p.asked) != 0 {
					t.Errorf("%s: %+v, %v", c.name, g, f.Details)
				}
				if resets, ok := f.Details["resets"].(time.Time); ok != (c.refused == "day") || ok && !resets.Equal(time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)) {
					t.Errorf("%s: it resets %v", c.name, f.Details["resets"])
				}
				if got := spentBy(ledger, "ann"); got != c.spent {
					t.Errorf("%s: a refused call has cost %+v", c.name, got)
				}
				continue
			}
			if g.err != nil || p.asked[0].Sampling.MaxTokens != c.bound || r.Sampling.MaxTokens != c.maxTokens || (len(g.notices) > 0) != c.told {
				t.Errorf("%s: asked for %d tokens, want %d; told %q: %v", c.name, p.asked[0].Sampling.MaxTokens, c.bound, g.notices, g.err)
			}
			if got, want := spentBy(ledger, "ann"), c.spent.Tokens+15; got.Tokens != want {
				t.Errorf("%s: %d tokens are spent, want %d", c.name, got.Tokens, want)
			}
		}
	})
}

func TestACostLimitNeedsAPrice(t *testing.T) {
	p := &script{name: "p", steps: []step{used(1, 1)}}
	free := &script{name: "ollama", steps: []step{used(1, 1)}}
	ledger := llm.NewDayLedger(nil)
	m := newModels(t, llm.Config{Vendors: localVendors(), Providers: []llm.Provider{p, free}, PerDay: llm.Budget{MaxCost: 1}, Ledger: ledger})
	g := read(t, t.Context(), resolve(t, m, "p/unheard-of"), ask())
	if !fault.HasCode(g.err, "price_unknown") || len(p.asked) != 0 || !strings.Contains(g.err.Error(), "p/unheard-of") {
		t.Errorf("%v", g.err)
	}
	if got := spentBy(ledger, "ann"); got != (llm.Spend{}) {
		t.Errorf("a refused call has cost %+v", got)
	}
	// What is free is free, also when the money is gone.
	ledger.Add("ann", time.Now(), llm.Spend{Cost: 5})
	if g := read(t, t.Context(), resolve(t, m, "ollama/llama"), ask()); g.err != nil || g.text != "hi" {
		t.Errorf("%+v", g)
	}
	if _, ok := m.Price("p/unheard-of"); ok {
		t.Error("a price from nowhere")
	}
}

func TestAMeterBoundsAllThatARequestLeadsTo(t *testing.T) {
	_, m, _ := priced(t, llm.Config{}, used(300, 100))
	meter := llm.NewMeter(llm.Budget{MaxTokens: 1000})
	calls := 0
	for {
		r := ask()
		r.Meter = meter
		if g := read(t, t.Context(), m, r); g.err != nil {
			if !fault.HasCode(g.err, "budget_exhausted") {
				t.Fatal(g.err)
			}
			break
		}
		calls++
	}
	if calls != 3 { // 400, 800, and one that uses more than it was estimated at
		t.Errorf("%d calls", calls)
	}
	if got := newModels(t, llm.Config{PerRequest: llm.Budget{MaxTokens: 7}}).NewMeter(); got.Spent() != (llm.Spend{}) {
		t.Errorf("a new meter has %+v", got.Spent())
	}
}

// Parallel calls set aside what they may use, so together they cannot overdraw.
func TestParallelCallsDoNotOverdraw(t *testing.T) {
	const limit = 1000
	p, m, ledger := priced(t, llm.Config{PerDay: llm.Budget{MaxTokens: limit}}, used(20, 100))
	var wg sync.WaitGroup
	var mu sync.Mutex
	answered := 0
	for range 50 {
		wg.Go(func() {
			r := ask()
			r.Sampling.MaxTokens = 100
			for ev, err := range m.Stream(context.Background(), r) {
				switch {
				case err != nil && !fault.HasCode(err, "budget_exhausted"):
					t.Error(err)
				case ev.Kind == llm.Done:
					mu.Lock()
					answered++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	got := spentBy(ledger, "ann")
	if got.Tokens > limit || got.Tokens != int64(answered*120) || answered == 0 || len(p.asked) != answered {
		t.Errorf("%d answered, %d asked, %d tokens", answered, len(p.asked), got.Tokens)
	}
}

// localVendors are those whose models cost nothing.
func localVendors() llm.Vendors {
	return llm.Vendors{{Name: "ollama", Prices: map[string]llm.Price{"*": {}}}, {Name: "offline", Prices: map[string]llm.Price{"*": {}}}}
}

func TestPrices(t *testing.T) {
	table := llm.DefaultKnown()
	if len(table.Prices) < 50 {
		t.Fatalf("the table of %q has %d models", table.AsOf, len(table.Prices))
	}
	for name, p := range table.Prices {
		if provider, model, ok := strings.Cut(name, "/"); !ok || provider == "" || model == "" || p.Search > 0.1 {
			t.Errorf("%q: %+v", name, p)
		}
		embeds := strings.Contains(name, "embedding")
		if free := strings.HasSuffix(name, "/*"); free != p.Free() || !free && (p.Input <= 0 || p.Output < p.Input && !embeds) {
			t.Errorf("%q costs %+v", name, p)
		}
		if p.CacheRead > p.Input || p.CacheWrite > 2*p.Input || p.LongFrom > 0 && p.Long.Input < p.Input {
			t.Errorf("%q costs %+v", name, p)
		}
	}
	m := newModels(t, llm.Config{Vendors: localVendors(), Prices: map[string]llm.Price{"openai/gpt-5": {Rates: llm.Rates{Input: 99}}, "mine/*": {Rates: llm.Rates{Input: 1}}}})
	for name, want := range map[string]float64{
		"openai/gpt-5": 99, "openai/gpt-5-2025-08-07": 99, "openai/gpt-5-mini": 0.25, "anthropic/claude-haiku-4-5-20251001": 1,
		"mine/what/ever": 1, "ollama/llama3:8b": 0, "offline/steward": 0, "openai/gpt-4o-2024-05-13": 5, "openai/gpt-4o-2024-08-06": 2.5,
		"openai/unheard-of": -1, "gpt-5": -1, "openai/gpt-5-2025-08": -1,
	} {
		p, ok := m.Price(name)
		if ok != (want >= 0) || ok && p.Input != want {
			t.Errorf("Price(%s) = %+v, %v", name, p, ok)
		}
	}
	if llm.DefaultKnown().Prices["openai/gpt-5"].Input == 99 {
		t.Error("the defaults have changed")
	}
}

func TestCost(t *testing.T) {
	p := llm.Price{Rates: llm.Rates{Input: 2, Output: 10, CacheRead: 0.2, CacheWrite: 2.5}, Search: 0.01, LongFrom: 1000, Long: llm.Rates{Input: 4, Output: 20}}
	for _, c := range []struct {
		u    message.Usage
		want float64 // per million
	}{
		{message.Usage{}, 0},
		{message.Usage{Searches: 2}, 2e4},
		{message.Usage{Input: 100, Output: 10, Reasoning: 5}, 300},
		{message.Usage{Input: 100, CacheRead: 60, CacheWrite: 30}, 10*2 + 60*0.2 + 30*2.5},
		{message.Usage{Input: 10, CacheRead: 20}, 4}, // a provider that counts them apart
		{message.Usage{Input: 1000, Output: 1}, 2010},
		{message.Usage{Input: 1001, Output: 1, CacheRead: 1}, 4024},
	} {
		if got := p.Cost(c.u) * 1e6; math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%+v costs %v, want %v", c.u, got, c.want)
		}
	}
}

func TestDayLedger(t *testing.T) {
	amsterdam := time.FixedZone("here", 3600)
	l := llm.NewDayLedger(func(user string) *time.Location {
		if user == "ann" {
			return amsterdam
		}
		return nil
	})
	late := time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC) // half past midnight for ann
	for _, user := range []string{"ann", "bob"} {
		l.Add(user, late, llm.Spend{Tokens: 10, Cost: 1})
	}
	for _, c := range []struct {
		user string
		at   time.Time
		want int64
		ends time.Time
	}{
		{"ann", late, 10, time.Date(2026, 3, 2, 23, 0, 0, 0, time.UTC)},
		{"bob", late, 10, time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)},
		{"ann", late.Add(time.Hour), 10, time.Date(2026, 3, 2, 23, 0, 0, 0, time.UTC)},
		{"ann", late.Add(-time.Hour), 0, time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC)}, // the day before is over
		{"bob", late.Add(time.Hour), 0, time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)},
		{"bob", late, 0, time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)},
		{"new", late, 0, time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)},
	} {
		if got, ends := l.Spent(c.user, c.at); got.Tokens != c.want || !ends.Equal(c.ends) {
			t.Errorf("%s at %v: %+v until %v", c.user, c.at, got, ends)
		}
	}
	// What is given back late does not lower the new day.
	l.Add("bob", late, llm.Spend{Tokens: -10})
	if got, _ := l.Spent("bob", late.Add(time.Hour)); got.Tokens != 0 {
		t.Errorf("the new day begins with %+v", got)
	}
}

func TestDayLedgerLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is midnight, 1 January 2000
		time.Sleep(12 * time.Hour)
		l := llm.NewDayLedger(nil)
		for _, hours := range []int{-1, -13, -2, -30, 13} {
			l.Load("ann", time.Now().Add(time.Duration(hours)*time.Hour), llm.Spend{Tokens: 1})
		}
		if got := spentBy(l, "ann"); got.Tokens != 2 {
			t.Errorf("%+v", got)
		}
	})
}

func TestDayLedgerForgetsDaysThatAreOver(t *testing.T) {
	l, now := llm.NewDayLedger(nil), time.Now()
	for day := range 5 {
		for user := range 1000 {
			at := now.AddDate(0, 0, day)
			l.Add(string(rune('a'+day))+string(rune(user+0x4e00)), at, llm.Spend{Tokens: 1})
		}
	}
	if n := l.Users(); n > 2500 {
		t.Errorf("%d users are remembered", n)
	}
}

// Whatever happens to calls, what is set aside is given back: the ledger and
// the meter agree, nothing is negative, and no call starts over the limit.
func TestBudgetsHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := llm.Budget{MaxTokens: rapid.Int64Range(0, 3000).Draw(rt, "tokens"), MaxCost: rapid.Float64Range(0, 0.02).Draw(rt, "cost")}
		steps := rapid.SliceOfN(rapid.SampledFrom([]step{
			used(20, 50), used(22, 200), cut("some words"), bad(fault.Unauthentic, "auth_failed"), {events: []llm.Event{done("hi", message.Usage{})}},
		}), 1, 8).Draw(rt, "steps")
		p, m, ledger := priced(t, llm.Config{PerDay: limit}, steps...)
		meter := llm.NewMeter(llm.Budget{})
		for i := range len(steps) {
			before := spentBy(ledger, "ann")
			r := ask()
			r.Meter, r.Sampling.MaxTokens = meter, 200
			asked := len(p.asked)
			g := read(t, t.Context(), m, r)
			if over := limit.MaxTokens > 0 && before.Tokens >= limit.MaxTokens || limit.MaxCost > 0 && before.Cost >= limit.MaxCost; over && len(p.asked) > asked {
				rt.Fatalf("call %d started with %+v of %+v", i, before, limit)
			}
			if fault.HasCode(g.err, "budget_exhausted") && len(p.asked) > asked {
				rt.Fatalf("call %d was made and refused", i)
			}
			after := spentBy(ledger, "ann")
			if after.Tokens < before.Tokens || after.Cost < before.Cost-1e-12 {
				rt.Fatalf("call %d: from %+v to %+v", i, before, after)
			}
			if d := after.Minus(meter.Spent()); d.Tokens != 0 || math.Abs(d.Cost) > 1e-12 {
				rt.Fatalf("the ledger has %+v, the meter %+v", after, meter.Spent())
			}
		}
	})
}

func TestMeterUnder(t *testing.T) {
	top := llm.NewMeter(llm.Budget{MaxTokens: 1000})
	top.Add(llm.Spend{Tokens: 100, Cost: 1})
	child := llm.NewMeter(llm.Budget{})
	child.Add(llm.Spend{Tokens: 30, Cost: 0.5})
	child.Under(top)
	child.Under(top) // again
	grand := llm.NewMeter(llm.Budget{MaxTokens: 500})
	grand.Under(child)
	grand.Add(llm.Spend{Tokens: 7})
	for _, c := range []struct {
		name string
		m    *llm.Meter
		want llm.Spend
	}{{"grandchild", grand, llm.Spend{Tokens: 7}}, {"child", child, llm.Spend{Tokens: 37, Cost: 0.5}}, {"top", top, llm.Spend{Tokens: 137, Cost: 1.5}}} {
		if got := c.m.Spent(); got != c.want {
			t.Errorf("the %s's meter: %+v, want %+v", c.name, got, c.want)
		}
	}
	other := llm.NewMeter(llm.Budget{})
	child.Under(other)
	child.Add(llm.Spend{Tokens: 3})
	if got := other.Spent(); got.Tokens != 40 {
		t.Errorf("the other one, after it took over: %+v", got)
	}
	if got := top.Spent(); got.Tokens != 137 {
		t.Errorf("the first one goes on counting: %+v", got)
	}
}

func TestWhatIsAboveBoundsACall(t *testing.T) {
	_, m, _ := priced(t, llm.Config{}, used(100, 10))
	top := llm.NewMeter(llm.Budget{MaxTokens: 1000})
	r := ask()
	r.Meter = llm.NewMeter(llm.Budget{})
	r.Meter.Under(top)
	read(t, t.Context(), m, r)
	if got, all := r.Meter.Spent().Tokens, top.Spent().Tokens; got != 110 || all != 110 {
		t.Errorf("counted: %d below, %d above, want 110 each", got, all)
	}
	top.Add(llm.Spend{Tokens: 880})
	if g := read(t, t.Context(), m, r); !fault.HasCode(g.err, "budget_exhausted") {
		t.Errorf("a call beyond the budget above: %v", g.err)
	}
}
