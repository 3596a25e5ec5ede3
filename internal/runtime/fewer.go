package runtime

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
	"steward/internal/llm"
	"steward/internal/message"
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
	wishesRead = 3 // of the user's messages, when tools are chosen
)

// in returns the budget in a window; 0: a window without limit.
func (b ToolBudget) in(window int64) ToolBudget {
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

// choice is which tools a model is shown.
type choice struct {
	kit    *agentKit  // nil: nothing was chosen yet
	window int64      // for which they were chosen
	shown  []int      // their indexes among the agent's; nil: all
	more   ToolBudget // what is left for the tools that extend adds
}

// choose selects the tools that the model is shown: all of them, if they fit the budget, and
// otherwise those most similar to what the user said last, and tools.find. What the turn calls or
// finds beside them is appended, up to as much again. Otherwise the choice stays the same during
// a run, unless the window turns out to be another one, and in later runs as long as it serves
// them, so that providers' caches hold. A model may call a tool that it is not shown. The offline
// provider compares all tools itself, at no cost.
func (f *fitter) choose() {
	if offline(f.models) {
		return
	}
	if w := f.window(); f.choice.kit == nil || w != f.choice.window {
		f.added = map[message.Ref]bool{}
		if before := f.chat.chosen.Load(); before != nil {
			f.choice = *before
		}
		f.tools = f.kit.tools
		wishes, budget := f.wishes(), f.node.opt.ToolBudget.in(w)
		if f.choice.kit != f.kit || f.choice.window != w || !f.kit.serves(f.shown, wishes, budget) {
			f.choice = choice{f.kit, w, f.kit.fewer(budget, wishes), budget}
		}
		if f.shown != nil {
			f.tools = f.kit.chooser().of(f.shown)
		}
	}
	if f.shown != nil {
		f.extend()
	}
	now := f.choice
	f.chat.chosen.Store(&now)
}

// serves reports whether the tools that were shown before are all that the newest wish is most
// similar to: a quarter of a budget.
func (k *agentKit) serves(shown []int, wishes []string, budget ToolBudget) bool {
	if shown == nil || len(wishes) == 0 {
		return true
	}
	for _, i := range tool.Best(k.chooser().finder.Scores(wishes[0]), budget.Tools/4) {
		if !slices.Contains(shown, i) {
			return false
		}
	}
	return true
}

// extend appends the tools that the turn has called, and those that its calls of tools.find have
// found.
func (f *fitter) extend() {
	msgs := f.session.Transcript().Messages()
	start := len(msgs)
	for start > 0 && !msgs[start-1].Final {
		start--
	}
	before := len(f.shown)
	for _, m := range msgs[start:] {
		for _, call := range m.Calls() {
			if f.added[call.Ref] {
				continue
			}
			f.added[call.Ref] = true
			for _, i := range f.kit.meant(call.Name, call.Args) {
				if !slices.Contains(f.shown, i) && f.more.take(f.kit.tools.TokensOf(i)) {
					f.shown = append(slices.Clip(f.shown), i) // the chat may hold the list
				}
			}
		}
	}
	if len(f.shown) > before {
		f.tools = f.kit.chooser().of(f.shown)
	}
}

// meant returns the agent's tools that a call is about, by their indexes.
func (k *agentKit) meant(name string, args []byte) []int {
	if name == findTool {
		return k.found(args)
	}
	if i := k.index(name); i >= 0 {
		return []int{i}
	}
	return nil
}

func (k *agentKit) index(name string) int {
	return slices.IndexFunc(k.tools.Specs(), func(s tool.Spec) bool { return s.Name == name })
}

// wishes returns what the agent was told last, the newest message first.
func (f *fitter) wishes() []string {
	var out []string
	for _, m := range slices.Backward(f.session.Transcript().Messages()) {
		if m.Role == message.User && len(m.Blocks) > 0 && m.Blocks[0].Base().Origin != "system" {
			if out = append(out, m.Text()); len(out) == wishesRead {
				break
			}
		}
	}
	return out
}

// fewer returns the indexes of the tools that fit a budget, in their order: those most similar to
// the wishes, then others; and that of tools.find at the end. It returns nil if all tools fit.
func (k *agentKit) fewer(budget ToolBudget, wishes []string) []int {
	all := len(k.tools.Specs())
	if all <= budget.Tools && k.tools.Tokens() <= budget.Tokens {
		return nil
	}
	c, most := k.chooser(), budget.Tools
	taken := make([]bool, all+1)
	take := func(tools ...int) {
		for _, i := range tools {
			taken[i] = taken[i] || budget.take(c.tools.TokensOf(i))
		}
	}
	take(all) // tools.find
	if i := k.index(effect.ReadToolName); i >= 0 {
		take(i) // clipped results are read on by it
	}
	take(tool.Best(c.similar(wishes), most)...)
	shown := make([]int, 0, most)
	for i := range taken {
		if take(i); taken[i] {
			shown = append(shown, i)
		}
	}
	return shown
}

// chooser chooses among an agent's tools. It is safe for concurrent use.
type chooser struct {
	finder *tool.Finder
	tools  *llm.Toolset // the agent's, and then tools.find

	mu   sync.Mutex
	sets map[string]*llm.Toolset // sets that were chosen, since a provider encodes each set once
}

func newChooser(tools *llm.Toolset) *chooser {
	specs := tools.Specs()
	return &chooser{finder: tool.NewFinder(specs), tools: llm.NewToolset(append(slices.Clip(specs), findTools{}.Spec())...)}
}

// maxChosenSets bounds how many sets are kept.
const maxChosenSets = 64

// similar returns how similar the tools are to wishes. Each wish counts twice as much as the next.
func (c *chooser) similar(wishes []string) []float64 {
	sums := make([]float64, len(c.tools.Specs())-1)
	weight := 1.0
	for _, w := range wishes {
		for i, s := range c.finder.Scores(w) {
			sums[i] += weight * s
		}
		weight /= 2
	}
	return sums
}

// of returns the set of the tools with these indexes.
func (c *chooser) of(tools []int) *llm.Toolset {
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

// findTool is the name of the tool that finds tools.
const findTool = "tools.find"

// mostFound bounds how many tools one call finds.
const mostFound = 10

// found returns the indexes of the tools that a call of tools.find finds.
func (k *agentKit) found(args []byte) []int {
	var query struct {
		Query string `json:"query"`
	}
	if json.Unmarshal(args, &query) != nil {
		return nil // the call fails for it
	}
	return k.chooser().finder.Find(query.Query, mostFound)
}

// findTools is tools.find. It is shown to a model that is not shown all of its tools.
type findTools struct{}

// Spec implements tool.Tool.
func (findTools) Spec() tool.Spec {
	return tool.Spec{Name: findTool, Effect: tool.Query, Version: "1", Reach: tool.ReachHere, ResultCap: 64 << 10,
		Input: []byte(`{"type":"object","properties":{"query":{"type":"string","minLength":1,"maxLength":1000,"description":"what the tool should do, in a few words"}},"required":["query"],"additionalProperties":false}`),
		Description: "Finds more tools: you are shown only some of those that you have. " +
			"Use it before you say that something cannot be done. What it finds can be called from then on.",
		Log: tool.LogSpec{Summary: "Look for tools", Parameters: []string{"query"}}}
}

// Call implements tool.Tool.
func (findTools) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	x, err := inTurn(ctx, findTool, nil, nil)
	if err != nil {
		return tool.Result{}, err
	}
	var b strings.Builder
	for _, i := range x.kit.found(in.Args) {
		s := &x.kit.tools.Specs()[i]
		fmt.Fprintf(&b, "%s: %s\nparameters: %s\n\n", s.Name, s.Description, s.Input)
	}
	if b.Len() == 0 {
		return tool.Text("There is no tool like that. Try other words, or tell the user that it cannot be done."), nil
	}
	return tool.Text(strings.TrimSpace(b.String())), nil
}
