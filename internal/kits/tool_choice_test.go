package kits

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/effect"
	"steward/internal/llm"
	"steward/internal/tool"
	_ "steward/test/seed"
)

// kitOfMany returns an agent with tools that Steward brings along, in the core or not, and 25 of servers.
func kitOfMany(t *testing.T) *Kit {
	specs := []tool.Spec{{Name: effect.ReadToolName, Description: "Reads on in a result."}, {Name: "files.read", Description: "Reads a file."},
		{Name: "files.delete", Description: "Deletes a file."}, {Name: "todo.add", Description: "Adds a task."}, {Name: "web.search", Description: "Searches the web."}}
	for i, about := range []string{"weather forecast rain", "mail letters inbox", "calendar appointments", "timer countdown", "browser pages"} {
		for j := range 5 {
			specs = append(specs, tool.Spec{Name: fmt.Sprintf("group%d.tool%d", i, j), Origin: "mcp:group", Description: "It is about " + about + ", and says much about it."})
		}
	}
	k := &Kit{Registry: &tool.Registry{}}
	for _, s := range specs {
		s.Effect = tool.Query
		x, err := tool.New(s, func(context.Context, tool.Invocation, struct{}) (string, error) { return "", nil })
		if err == nil {
			err = k.Registry.Add(x)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	k.Seal()
	return k
}

func namesIn(s *llm.Toolset) []string {
	var names []string
	for _, s := range s.Specs() {
		names = append(names, s.Name)
	}
	return names
}

// What begins a conversation does not depend on what is said: the core in its order, and tools.find. Tools of servers
// follow, all of them if they have room, otherwise those that the user speaks of. A small window shortens the core from
// its end.
func TestToolsOfAConversation(t *testing.T) {
	k := kitOfMany(t)
	begin := []string{effect.ReadToolName, "files.read", "web.search", "todo.add", FindTool}
	for _, x := range []struct {
		budget ToolBudget
		want   []string // the first that are shown
		shown  int
	}{
		{ToolBudget{30, 1 << 20}, namesIn(k.All), 30},
		{ToolBudget{29, 1 << 20}, begin, 5}, // four of the core, tools.find, and not all 25
		{ToolBudget{12, 1 << 20}, begin, 5},
		{ToolBudget{3, 1 << 20}, []string{effect.ReadToolName, "files.read", FindTool}, 3},
		{ToolBudget{1, 1 << 20}, []string{FindTool}, 1},
	} {
		c := k.Choice(x.budget)
		if got := namesIn(k.Subset(c.Shown)); len(got) != x.shown || !slices.Equal(got[:len(x.want)], x.want) {
			t.Errorf("of %+v: %q", x.budget, got)
		}
	}
	c := k.Choice(ToolBudget{12, 1 << 20})
	if !c.AddSimilar("Will there be rain?", nil, "") || !slices.Equal(namesIn(k.Subset(c.Shown))[:5], begin) || !slices.Contains(namesIn(k.Subset(c.Shown)), "group0.tool0") {
		t.Errorf("%q", namesIn(k.Subset(c.Shown)))
	}
	if before := c; c.AddSimilar("Show me my letters", nil, "") {
		t.Errorf("after %q there was room for letters", namesIn(k.Subset(before.Shown)))
	}
	if find := k.chooser().tools.Specs()[k.chooser().findTool()]; !strings.Contains(find.Description, "files.delete") || strings.Contains(find.Description, "group") {
		t.Error(find.Description)
	}
}

// Whatever the budget and whatever is said, the tools fit the budget, and tools are only appended.
func TestToolsFitTheirBudget(t *testing.T) {
	k := kitOfMany(t)
	rapid.Check(t, func(t *rapid.T) {
		b := ToolBudget{rapid.IntRange(1, 40).Draw(t, "tools"), rapid.Int64Range(1, k.All.Tokens()).Draw(t, "tokens")}
		c := k.Choice(b)
		for range rapid.IntRange(0, 4).Draw(t, "messages") {
			before := c.Shown
			c.AddSimilar(rapid.SampledFrom([]string{"", "rain", "letters and pages", "nothing like it"}).Draw(t, "text"), nil, "")
			if len(c.Shown) < len(before) || !slices.Equal(c.Shown[:len(before)], before) {
				t.Fatalf("%v after %v", c.Shown, before)
			}
		}
		if got := k.Subset(c.Shown); got.Tokens() > b.Tokens || len(got.Specs()) > b.Tools {
			t.Fatalf("%d tools, %d tokens of %+v", len(got.Specs()), got.Tokens(), b)
		}
	})
}
