package turn

import (
	"fmt"
	"slices"

	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
)

// chooseTools selects the tools that the model is shown: all of them, if they fit the budget, and
// otherwise the core and tools.find, and what extendTools appends. A model may call a tool that it is not
// shown. The offline provider compares all tools itself, at no cost.
func (f *fitter) chooseTools() {
	if llm.Offline(f.models) {
		return
	}
	if w := f.window(); f.Choice.Kit == nil || w != f.Choice.Window {
		if before := f.conversation.chosen.Load(); before != nil && before.Kit == f.kit && before.Window == w {
			f.Choice = *before
		} else {
			f.Choice = f.kit.Choice(f.engine.opt.ToolBudget.In(w)).At(w)
		}
		f.tools = f.kit.Subset(f.Shown)
	}
	if f.Shown != nil && f.extendTools(f.session.Transcript().Messages()) {
		f.tools = f.kit.Subset(f.Shown)
	}
	if !f.preview {
		now := f.Choice
		f.conversation.chosen.Store(&now)
	}
}

// extendTools appends the tools that are most similar to what the user has said since it was called last,
// those that were called, and those that calls of tools.find have found. It reports whether other
// tools are shown then.
func (f *fitter) extendTools(msgs []*message.Message) bool {
	before := f.Shown
	next := slices.IndexFunc(msgs, func(m *message.Message) bool { return m.ID == f.LastMessage }) + 1
	latest, because := "", ""
	for _, m := range msgs[next:] {
		if text := requestText(m); text != "" {
			why := fmt.Sprintf("fits “%s”", excerpt(m, 40))
			if !f.AddSimilar(text, why) { // there is no room: begin again with the latest text, if that helps
				if fresh := f.kit.Choice(f.engine.opt.ToolBudget.In(f.Choice.Window)).At(f.Choice.Window); fresh.AddSimilar(text, why) {
					fresh.AddSimilar(latest, because)
					f.Choice = fresh
				}
			}
			latest, because = text, why
		}
		for _, call := range m.Calls() {
			why := "was called"
			if call.Name == kits.FindTool {
				why = "tools.find found it"
			}
			for _, i := range f.kit.IndexesOf(call.Name, call.Args) {
				f.Add(&f.CallBudget, i, why)
			}
		}
		f.LastMessage = m.ID
	}
	return !slices.Equal(before, f.Shown)
}

// requestText returns what a message asks the agent to do, or "".
func requestText(m *message.Message) string {
	if m.Role != message.User || len(m.Blocks) == 0 || isFromSteward(m) {
		return ""
	}
	return m.Text()
}
