package kits

import (
	"cmp"
	"slices"

	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/tool"
)

// ToolBudget bounds which tools a model is shown. Zero values mean the defaults: 40
// tools, and 10,000 tokens of descriptions.
type ToolBudget struct {
	Tools  int
	Tokens int64
}

const (
	toolShare  = 4 // the tools' descriptions take at most 1/toolShare of a window
	maxSimilar = 8 // that may be chosen for one message
	mustFit    = 2 // of these have to be shown: if there is no room, the choice begins again
)

// core lists Steward's own tools that a model is always shown, as far as they exist. Their order is
// that in which they are shown, so that a prefix of it serves a small window.
var core = []string{
	effect.ReadToolName, "skills.read",
	"files.read", "web.search", "reminder.set", "todo.add", "calendar.list", "files.write", "web.fetch", "todo.list",
	"weather.forecast", "calendar.add", "timer.set", "files.list", "math.evaluate", "time.now", "files.search", "files.edit",
	"todo.complete", "reminder.list", "timer.list", "calendar.search", "notes.search", "notes.read", "notes.append", "notes.write",
	"shell.run", "mail.search", "mail.list", "mail.read", "contacts.search", "conversation.search", "memory.save", "memory.search", "job.create",
	"steward.abilities",
}

// In returns the budget in a window; 0: a window without limit.
func (b ToolBudget) In(window int64) ToolBudget {
	b = ToolBudget{cmp.Or(b.Tools, 40), cmp.Or(b.Tokens, 10000)}
	if window > 0 {
		b.Tokens = min(b.Tokens, window/toolShare)
	}
	return b
}

// take takes a tool of so many tokens out of the budget, if it fits.
func (b *ToolBudget) take(n int64) bool {
	if b.Tools < 1 || n > b.Tokens {
		return false
	}
	b.Tools, b.Tokens = b.Tools-1, b.Tokens-n
	return true
}

// Choice is which tools a model is shown in a conversation. Tools are only appended to it, so that
// providers' caches of the prompt hold.
type Choice struct {
	Kit         *Kit       // nil: nothing was chosen yet
	Window      int64      // for which they were chosen
	Shown       []int      // their indexes among the agent's; nil: all
	why         []string   // of each of these
	textBudget  ToolBudget // of the budget, for tools that are chosen by what the user says
	CallBudget  ToolBudget // for what is called and found
	LastMessage id.ID      // the newest message that was considered
}

// Subset returns the agent's tools with these indexes; nil: all.
func (k *Kit) Subset(shown []int) *llm.Toolset {
	if shown == nil {
		return k.All
	}
	return k.chooser().set(shown)
}

// Choice returns the tools that a conversation begins with: all if they fit the budget, otherwise
// tools.find, the core, and the tools that are chosen by what the user says, if these fit together.
func (k *Kit) Choice(budget ToolBudget) Choice {
	c := Choice{Kit: k, textBudget: budget, CallBudget: budget}
	if len(k.All.Specs()) <= budget.Tools && k.All.Tokens() <= budget.Tokens {
		return c
	}
	x := k.chooser()
	c.Shown = []int{}
	find := c.textBudget.take(x.tools.TokensOf(x.findTool()))
	for _, i := range x.core {
		c.Add(&c.textBudget, i, "always shown")
	}
	if find {
		c.Shown, c.why = append(c.Shown, x.findTool()), append(c.why, "finds the tools that are not shown")
	}
	if all := c; all.addAll(x.others) {
		c = all
	}
	return c
}

// At returns the choice for a window of so many tokens.
func (c Choice) At(window int64) Choice { c.Window = window; return c }

// Why says why the tool at an index of the set is shown.
func (c *Choice) Why(at int) string {
	if c.Shown == nil || at >= len(c.why) {
		return "all tools of the agent fit"
	}
	return c.why[at]
}

// Add shows a tool, if it has room in a budget or is shown already. why says why.
func (c *Choice) Add(budget *ToolBudget, i int, why string) bool {
	if slices.Contains(c.Shown, i) {
		return true
	}
	if !budget.take(c.Kit.chooser().tools.TokensOf(i)) {
		return false
	}
	c.Shown, c.why = append(slices.Clip(c.Shown), i), append(slices.Clip(c.why), why) // others may hold the lists
	return true
}

func (c *Choice) addAll(tools []int) bool {
	for _, i := range tools {
		if !c.Add(&c.textBudget, i, "all tools of its kind fit") {
			return false
		}
	}
	return true
}

// AddSimilar appends the tools that are most similar to what the user says. It returns false if those that
// are needed most have no room. why says what the user said.
func (c *Choice) AddSimilar(text string, near Near, why string) bool {
	for rank, i := range c.Kit.chooser().similar(text, maxSimilar, near) {
		if !c.Add(&c.textBudget, i, why) && rank < mustFit {
			return false
		}
	}
	return true
}

// IndexOf returns the index of one of the agent's tools, by its name.
func (k *Kit) IndexOf(name string) (int, bool) {
	i := slices.IndexFunc(k.All.Specs(), func(s tool.Spec) bool { return s.Name == name })
	return i, i >= 0
}
