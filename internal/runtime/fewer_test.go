package runtime

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/effect"
	"steward/internal/llm"
	"steward/internal/tool"
)

// Whatever the budget, the tools fit it and keep their order, those that the user speaks of are
// among them, and tools.find ends a list that is not complete.
func TestFewerTools(t *testing.T) {
	specs := []tool.Spec{{Name: effect.ReadToolName, Description: "Reads on in a result."}}
	for i, about := range []string{"weather forecast rain", "mail letters inbox", "calendar appointments", "timer countdown", "browser pages"} {
		for j := range 5 {
			specs = append(specs, tool.Spec{Name: fmt.Sprintf("group%d.tool%d", i, j), Description: "It is about " + about + ", and says much about it."})
		}
	}
	k := &agentKit{registry: &tool.Registry{}}
	for _, s := range specs {
		s.Effect = tool.Query
		x, err := tool.New(s, func(context.Context, tool.Invocation, struct{}) (string, error) { return "", nil })
		if err == nil {
			err = k.registry.Add(x)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	k.seal()
	specs = k.tools.Specs()
	all := k.tools
	fewer := func(b ToolBudget, wishes ...string) *llm.Toolset {
		if shown := k.fewer(b, wishes); shown != nil {
			return k.chooser().of(shown)
		}
		return all
	}
	if fewer(ToolBudget{26, all.Tokens()}, "rain") != all {
		t.Error("all of them fit")
	}
	for _, b := range []ToolBudget{{1000, all.Tokens() / 3}, {7, 1 << 20}} {
		some := fewer(b, "Will there be rain?", "Show me my letters.").Specs()
		if len(some) < 6 || some[0].Name != "group0.tool0" || some[3].Name != "group0.tool3" || some[len(some)-1].Name != findTool {
			names := []string{}
			for _, s := range some {
				names = append(names, s.Name)
			}
			t.Errorf("of %+v: %q", b, names)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := ToolBudget{rapid.IntRange(1, 30).Draw(t, "tools"), rapid.Int64Range(1, all.Tokens()).Draw(t, "tokens")}
		text := rapid.SampledFrom([]string{"", "rain", "letters and pages", "nothing like it"}).Draw(t, "text")
		got := fewer(b, text)
		if got != all && (got.Tokens() > b.Tokens || len(got.Specs()) > b.Tools) {
			t.Fatalf("%d tools, %d tokens of %+v", len(got.Specs()), got.Tokens(), b)
		}
		at := 0
		for _, s := range got.Specs() {
			for s.Name != findTool && specs[at].Name != s.Name {
				at++
			}
		}
	})
}
