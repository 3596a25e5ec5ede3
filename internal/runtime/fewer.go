package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/llm/tokens"
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

// take takes a tool out of the budget, if it fits.
func (b *ToolBudget) take(s *tool.Spec) bool {
	n := tokens.OfTool(s).Tokens()
	if b.Tools < 1 || n > b.Tokens {
		return false
	}
	b.Tools, b.Tokens = b.Tools-1, b.Tokens-n
	return true
}

// choose selects the tools that the model is shown: all of them, if they fit the budget, and
// otherwise those most similar to what the user said last, and tools.find. What the turn calls or
// finds beside them is appended, up to as much again. Otherwise the choice stays the same during
// a run, unless the window turns out to be another one, so that providers' caches hold. A model may
// call a tool that it is not shown. The offline provider compares all tools itself, at no cost.
func (f *fitter) choose() {
	if offline(f.models) {
		return
	}
	if w := f.window(); f.added == nil || w != f.chosenFor {
		f.chosenFor, f.added = w, map[message.Ref]bool{}
		f.more = f.node.opt.ToolBudget.in(w)
		f.tools = f.kit.fewer(f.all, f.more, f.wishes())
	}
	if f.tools != f.all {
		f.extend()
	}
}

// extend appends the tools that the turn has called, and those that its calls of tools.find have
// found.
func (f *fitter) extend() {
	msgs := f.session.Transcript().Messages()
	start := len(msgs)
	for start > 0 && !msgs[start-1].Final {
		start--
	}
	before := f.tools.Specs()
	shown := slices.Clip(before)
	add := func(s *tool.Spec) {
		if !hasTool(shown, s.Name) && f.more.take(s) {
			shown = append(shown, *s)
		}
	}
	for _, m := range msgs[start:] {
		for _, call := range m.Calls() {
			if f.added[call.Ref] {
				continue
			}
			f.added[call.Ref] = true
			if call.Name == findTool {
				for _, s := range f.kit.found(f.all, call.Args) {
					add(s)
				}
			} else if i := slices.IndexFunc(f.all.Specs(), func(s tool.Spec) bool { return s.Name == call.Name }); i >= 0 {
				add(&f.all.Specs()[i])
			}
		}
	}
	if len(shown) > len(before) {
		f.tools = llm.NewToolset(shown...)
	}
}

func hasTool(specs []tool.Spec, name string) bool {
	return slices.ContainsFunc(specs, func(s tool.Spec) bool { return s.Name == name })
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

// fewer returns the tools that fit a budget, in their order: half of them the most similar to the
// newest wish, then those most similar to all wishes, then others; and tools.find at the end.
func (k *agentKit) fewer(all *llm.Toolset, budget ToolBudget, wishes []string) *llm.Toolset {
	specs := all.Specs()
	if len(specs) <= budget.Tools && all.Tokens() <= budget.Tokens {
		return all
	}
	var order []string
	if len(wishes) > 0 {
		order = slices.Concat(k.similar(wishes[0], (budget.Tools+1)/2), k.similar(strings.Join(wishes, "\n"), budget.Tools))
	}
	order = append([]string{effect.ReadToolName}, order...) // by which clipped results are read on
	find := (findTools{}).Spec()
	finds := k.has(findTool) && budget.take(&find)
	taken := map[string]bool{}
	at := make(map[string]*tool.Spec, len(specs))
	for i := range specs {
		at[specs[i].Name] = &specs[i]
		order = append(order, specs[i].Name)
	}
	for _, name := range order {
		if s := at[name]; s != nil && !taken[name] {
			taken[name] = budget.take(s)
		}
	}
	kept := slices.DeleteFunc(slices.Clone(specs), func(s tool.Spec) bool { return !taken[s.Name] })
	if finds {
		kept = append(kept, find)
	}
	return k.chosen.of(kept)
}

// chosenSets keeps sets of an agent's tools, since a provider encodes each set once.
type chosenSets struct {
	mu   sync.Mutex
	sets map[string]*llm.Toolset // by the names of the tools
}

// maxChosenSets bounds how many sets are kept.
const maxChosenSets = 64

// of returns the set of these tools.
func (c *chosenSets) of(specs []tool.Spec) *llm.Toolset {
	names := make([]string, len(specs))
	for i := range specs {
		names[i] = specs[i].Name
	}
	key := strings.Join(names, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	set := c.sets[key]
	if set == nil {
		if c.sets == nil || len(c.sets) == maxChosenSets {
			c.sets = map[string]*llm.Toolset{}
		}
		set = llm.NewToolset(specs...)
		c.sets[key] = set
	}
	return set
}

// similar returns the names of at most n of the agent's tools, the most similar to a text first.
func (k *agentKit) similar(text string, n int) []string {
	var out []string
	for _, i := range k.finder().Find(text, n) {
		out = append(out, k.tools.Specs()[i].Name)
	}
	return out
}

// findTool is the name of the tool that finds tools.
const findTool = "tools.find"

// mostFound bounds how many tools one call finds.
const mostFound = 10

// found returns the tools that a call of tools.find finds among those of a set.
func (k *agentKit) found(all *llm.Toolset, args []byte) []*tool.Spec {
	var query struct {
		Query string `json:"query"`
	}
	if json.Unmarshal(args, &query) != nil {
		return nil // the call fails for it
	}
	var out []*tool.Spec
	for _, name := range k.similar(query.Query, mostFound) {
		if i := slices.IndexFunc(all.Specs(), func(s tool.Spec) bool { return s.Name == name }); i >= 0 {
			out = append(out, &all.Specs()[i])
		}
	}
	return out
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
	x, ok := ctx.Value(turnCallKey{}).(*turnCall)
	if !ok {
		return tool.Result{}, fault.New(fault.Unsupported, "find_outside", "%s is for agents in conversations", findTool).
			WithHint("list the tools of the agent: it shows all of them")
	}
	var b strings.Builder
	for _, s := range x.kit.found(x.kit.tools, in.Args) {
		fmt.Fprintf(&b, "%s: %s\nparameters: %s\n\n", s.Name, s.Description, s.Input)
	}
	if b.Len() == 0 {
		return tool.Text("There is no tool like that. Try other words, or tell the user that it cannot be done."), nil
	}
	return tool.Text(strings.TrimSpace(b.String())), nil
}
