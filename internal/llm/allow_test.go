package llm_test

import (
	"context"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
)

// TestAllow: a model that may not be asked is not, and the next one is; where
// none may, the error says why.
func TestAllow(t *testing.T) {
	cloud := &script{name: "cloud", steps: []step{good("from afar")}}
	home := &script{name: "home", steps: []step{good("from home")}}
	asked := 0
	m := newModels(t, llm.Config{Providers: []llm.Provider{cloud, home},
		Aliases: map[string]llm.Alias{"default": {Models: []string{"cloud/a", "home/b"}}, "far": {Models: []string{"cloud/a", "cloud/c"}}},
		Allow: func(_ context.Context, model string, r *llm.Request) error {
			asked++
			if r.Labels.Has(message.Secret) && model != "home/b" {
				return llm.NotAllowed(model, "what is secret stays here").WithHint("ask one at home")
			}
			return nil
		}})
	secret := ask()
	secret.Labels = message.Secret
	for _, c := range []struct {
		model, text, says string
		r                 *llm.Request
	}{
		{"default", "from afar", "", ask()},
		{"default", "from home", "cloud/a cannot answer (cloud/a may not be asked: what is secret stays here); home/b is asked instead.", secret},
		{"home/b", "from home", "", secret},
		{"far", "", "cloud/c: cloud/c may not be asked", secret},
		{"cloud/c", "", "cloud/c may not be asked: what is secret stays here (ask one at home)", secret},
	} {
		before := len(cloud.asked)
		g := read(t, t.Context(), resolve(t, m, c.model), c.r)
		if g.text != c.text {
			t.Errorf("%s: %+v", c.model, g)
		}
		switch {
		case c.text != "":
			if strings.Join(g.notices, "") != c.says {
				t.Errorf("%s says %q", c.model, g.notices)
			}
		case !fault.HasCode(g.err, "model_not_allowed") || !fault.Is(g.err, fault.Denied) || !strings.Contains(g.err.Error(), c.says):
			t.Errorf("%s: %v", c.model, g.err)
		}
		if c.r == secret && len(cloud.asked) != before {
			t.Errorf("%s: something secret has gone to the cloud", c.model)
		}
	}
	if asked != 7 {
		t.Errorf("policy was asked %d times", asked)
	}
}

// TestLeft: what may still be spent is the least that any budget leaves.
func TestLeft(t *testing.T) {
	above, m := llm.NewMeter(llm.Budget{MaxTokens: 100, MaxCost: 2}), llm.NewMeter(llm.Budget{MaxTokens: 90})
	m.Under(above)
	m.Add(llm.Spend{Tokens: 30, Cost: 0.5})
	above.Add(llm.Spend{Tokens: 20})
	if got := m.Left(); got != (llm.Budget{MaxTokens: 50, MaxCost: 1.5}) {
		t.Errorf("%+v", got)
	}
	m.Add(llm.Spend{Tokens: 300, Cost: 5})
	if got := m.Left(); got.MaxTokens != 1 || got.MaxCost <= 0 || got.MaxCost > 1e-9 {
		t.Errorf("%+v", got)
	}
	if got := llm.NewMeter(llm.Budget{}).Left(); got != (llm.Budget{}) {
		t.Errorf("%+v", got)
	}
}
