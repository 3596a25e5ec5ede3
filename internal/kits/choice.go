package kits

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/tool"
)

// ToolBudget bounds which tools a model is shown. Zero values mean the defaults: 40
// tools, and 8,000 tokens of descriptions.
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
	"shell.run", "mail.search", "mail.list", "mail.read", "contacts.search", "conversation.search", "steward.abilities",
}

// In returns the budget in a window; 0: a window without limit.
func (b ToolBudget) In(window int64) ToolBudget {
	b = ToolBudget{cmp.Or(b.Tools, 40), cmp.Or(b.Tokens, 8000)}
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
	find := c.textBudget.take(x.tools.TokensOf(x.find()))
	for _, i := range x.core {
		c.Add(&c.textBudget, i)
	}
	if find {
		c.Shown = append(c.Shown, x.find())
	}
	if all := c; all.addAll(x.others) {
		c = all
	}
	return c
}

// At returns the choice for a window of so many tokens.
func (c Choice) At(window int64) Choice { c.Window = window; return c }

// Add shows a tool, if it has room in a budget or is shown already.
func (c *Choice) Add(of *ToolBudget, i int) bool {
	if slices.Contains(c.Shown, i) {
		return true
	}
	if !of.take(c.Kit.chooser().tools.TokensOf(i)) {
		return false
	}
	c.Shown = append(slices.Clip(c.Shown), i) // others may hold the list
	return true
}

func (c *Choice) addAll(tools []int) bool {
	for _, i := range tools {
		if !c.Add(&c.textBudget, i) {
			return false
		}
	}
	return true
}

// AddSimilar appends the tools that are most similar to what the user says. It returns false if those that
// are needed most have no room.
func (c *Choice) AddSimilar(text string) bool {
	for rank, i := range c.Kit.chooser().similar(text, maxSimilar) {
		if !c.Add(&c.textBudget, i) && rank < mustFit {
			return false
		}
	}
	return true
}

// IndexesOf returns the agent's tools that a call is about, by their indexes.
func (k *Kit) IndexesOf(name string, args []byte) []int {
	if name == FindTool {
		return k.found(args)
	}
	if i := k.index(name); i >= 0 {
		return []int{i}
	}
	return nil
}

func (k *Kit) index(name string) int {
	return slices.IndexFunc(k.All.Specs(), func(s tool.Spec) bool { return s.Name == name })
}

// chooser chooses among an agent's tools. It is safe for concurrent use.
type chooser struct {
	finder *tool.Finder
	tools  *llm.Toolset // the agent's, and then tools.find
	core   []int        // in their order
	others []int        // those that are chosen by what the user says

	mu   sync.Mutex
	sets map[string]*llm.Toolset // sets that were chosen, since a provider encodes each set once
}

// newChooser returns a chooser of tools. Those that Steward brings along are found by tools.find only,
// unless all of them were selected for the agent.
func newChooser(tools *llm.Toolset, selected bool) *chooser {
	specs := tools.Specs()
	c := &chooser{finder: tool.NewFinder(specs)}
	for _, name := range core {
		if i := slices.IndexFunc(specs, func(s tool.Spec) bool { return s.Name == name }); i >= 0 {
			c.core = append(c.core, i)
		}
	}
	var hidden []string
	for i, s := range specs {
		switch {
		case slices.Contains(c.core, i):
		case selected || !isBuiltIn(s.Origin):
			c.others = append(c.others, i)
		default:
			hidden = append(hidden, s.Name)
		}
	}
	find := findTools{}.Spec()
	if list := llm.Cut(strings.Join(hidden, ", "), maxHidden); list != "" {
		find.Description += " You have " + list + ", and perhaps others."
	}
	c.tools = llm.NewToolset(append(slices.Clip(specs), find)...)
	return c
}

// maxHidden bounds the names of tools that tools.find tells of itself, in bytes.
const maxHidden = 800

// isBuiltIn reports whether Steward brings tools of an origin along.
func isBuiltIn(origin string) bool {
	return !strings.Contains(origin, ":") || strings.HasPrefix(origin, "domain:")
}

// find returns the index of tools.find.
func (c *chooser) find() int { return len(c.tools.Specs()) - 1 }

// maxChosenSets bounds how many sets are kept.
const maxChosenSets = 64

// similar returns at most so many of the tools that are chosen by what the user says, the most
// similar first.
func (c *chooser) similar(text string, most int) []int {
	if text == "" || len(c.others) == 0 {
		return nil
	}
	all := c.finder.Scores(text)
	scores := make([]float64, len(all))
	for _, i := range c.others {
		scores[i] = all[i]
	}
	return tool.Best(scores, most)
}

// set returns the set of the tools with these indexes.
func (c *chooser) set(tools []int) *llm.Toolset {
	key := make([]byte, 0, 2*len(tools))
	for _, i := range tools {
		key = binary.AppendUvarint(key, uint64(i))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	set := c.sets[string(key)]
	if set == nil {
		if c.sets == nil || len(c.sets) == maxChosenSets {
			c.sets = map[string]*llm.Toolset{}
		}
		specs := make([]tool.Spec, len(tools))
		for at, i := range tools {
			specs[at] = c.tools.Specs()[i]
		}
		set = llm.NewToolset(specs...)
		c.sets[string(key)] = set
	}
	return set
}

// FindTool is the name of the tool that finds tools.
const FindTool = "tools.find"

// maxFound bounds how many tools one call finds.
const maxFound = 10

// found returns the indexes of the tools that a call of tools.find finds.
func (k *Kit) found(args []byte) []int {
	var query struct {
		Query string `json:"query"`
	}
	if json.Unmarshal(args, &query) != nil {
		return nil // the call fails for it
	}
	return k.chooser().finder.Find(query.Query, maxFound)
}

// findTools is tools.find. It is shown to a model that is not shown all of its tools.
type findTools struct{ kit *Kit }

// Spec implements tool.Tool.
func (findTools) Spec() tool.Spec {
	return tool.Spec{Name: FindTool, Effect: tool.Query, Version: "1", Reach: tool.ReachHere, ResultCap: 64 << 10,
		Input: []byte(`{"type":"object","properties":{"query":{"type":"string","minLength":1,"maxLength":1000,"description":"what the tool should do, in a few words"}},"required":["query"],"additionalProperties":false}`),
		Description: "Finds more tools: you are shown only some of those that you have. " +
			"Use it before you say that something cannot be done. What it finds can be called from then on.",
		Log: tool.LogSpec{Summary: "Look for tools", Parameters: []string{"query"}}}
}

// Call implements tool.Tool.
func (t findTools) Call(_ context.Context, in tool.Invocation) (tool.Result, error) {
	var b strings.Builder
	for _, i := range t.kit.found(in.Args) {
		s := &t.kit.All.Specs()[i]
		fmt.Fprintf(&b, "%s: %s\nparameters: %s\n\n", s.Name, s.Description, s.Input)
	}
	if b.Len() == 0 {
		return tool.Text("There is no tool like that. Try other words, or tell the user that it cannot be done."), nil
	}
	return tool.Text(strings.TrimSpace(b.String())), nil
}
