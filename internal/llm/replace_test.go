package llm_test

import (
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
)

// After Replace, everybody who has the first models is answered by the second: new names, prices and budgets
// count at once, what was spent stays counted, and a call in progress ends as it began.
func TestReplace(t *testing.T) {
	ledger := llm.NewDayLedger(nil)
	old, fresh := &script{name: "old", steps: []step{used(10, 5)}, infos: []llm.Info{{Name: "m"}}}, &script{name: "new", steps: []step{used(20, 5)}, infos: []llm.Info{{Name: "m"}}}
	of := func(p *script, budget llm.Budget) *llm.Models {
		return newModels(t, llm.Config{Providers: []llm.Provider{p}, Aliases: map[string]llm.Alias{llm.DefaultAlias: {Models: []string{p.name + "/m"}}}, PerDay: budget, Ledger: ledger, Retry: llm.RetryPolicy{Attempts: 1}})
	}
	m := of(old, llm.Budget{})
	before := resolve(t, m, "")
	if g := read(t, t.Context(), before, ask()); g.err != nil {
		t.Fatal(g.err)
	}
	running := before.Stream(t.Context(), ask())

	for range 2 { // a second change takes the place of the first
		m.Replace(of(fresh, llm.Budget{MaxTokens: 1000}))
	}
	r, err := m.Resolve("")
	if err != nil || len(r.Models) != 1 || r.Models[0] != "new/m" {
		t.Fatal(r.Models, err)
	}
	if _, err := m.Resolve("old/m"); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
		t.Error("what was replaced still answers:", err)
	}
	if list := m.List(t.Context()); len(list.Models) != 1 || list.Models[0].Provider != "new" {
		t.Errorf("%+v", list)
	}
	for _, err := range running {
		if err != nil {
			t.Error("a call in progress failed:", err)
		}
	}
	if g := read(t, t.Context(), r.Model, ask()); g.err != nil || len(fresh.asked) != 1 || len(old.asked) != 2 {
		t.Error(g.err, len(fresh.asked), len(old.asked))
	}
	if got := spentBy(ledger, "ann"); got.Tokens != 15+15+25 {
		t.Errorf("%+v was spent", got)
	}
	ledger.Add("ann", time.Now(), llm.Spend{Tokens: 1000})
	if g := read(t, t.Context(), r.Model, ask()); !fault.HasCode(g.err, "budget_exhausted") {
		t.Error("the new budget does not count what was spent before:", g.err)
	}
}

// A user's own budget takes the place of that of all users, also if it is wider.
func TestTheBudgetOfOneUser(t *testing.T) {
	_, m, ledger := priced(t, llm.Config{PerDay: llm.Budget{MaxTokens: 1000}, PerUser: map[string]llm.Budget{"ann": {MaxTokens: 100_000}, "bob": {MaxTokens: 200}, "eve": {}}}, used(10, 5))
	for user, refused := range map[string]bool{"ann": false, "bob": true, "eve": false, "zoe": true} {
		ledger.Add(user, time.Now(), llm.Spend{Tokens: 990})
		r := ask()
		r.User = user
		if g := read(t, t.Context(), m, r); fault.HasCode(g.err, "budget_exhausted") != refused {
			t.Errorf("%s: %v", user, g.err)
		}
	}
}
