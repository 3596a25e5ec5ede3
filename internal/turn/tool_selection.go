package turn

import (
	"context"
	"fmt"
	"slices"

	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/search/similar"
)

// chooseTools selects the tools that the model is shown: all of them, if they fit the budget, and
// otherwise the core and tools.find, and what extendTools appends. A model may call a tool that it is not
// shown. The offline provider compares all tools itself, at no cost.
func (f *fitter) chooseTools(ctx context.Context) {
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
	if f.Shown != nil && f.extendTools(ctx, f.session.Transcript().Messages()) {
		f.tools = f.kit.Subset(f.Shown)
	}
	if !f.preview {
		now := f.Choice
		f.conversation.chosen.Store(&now)
	}
}

// extendTools appends the tools that are most similar to what the user has said since it was called last,
// those that were called, and those that calls of tools.find have found. It reports whether other
// tools are shown then. Only the newest request is compared by an embedding model: the others are there only
// when a conversation is opened again.
func (f *fitter) extendTools(ctx context.Context, msgs []*message.Message) bool {
	before := f.Shown
	next := slices.IndexFunc(msgs, func(m *message.Message) bool { return m.ID == f.LastMessage }) + 1
	latest, because, newest := "", "", lastRequest(msgs[next:])
	for _, m := range msgs[next:] {
		if text := requestText(m); text != "" {
			why := fmt.Sprintf("fits “%s”", excerpt(m, 40))
			var near kits.Near
			if m == newest {
				near = f.near(ctx, m)
			}
			if !f.AddSimilar(text, near, why) { // there is no room: begin again with the latest text, if that helps
				if fresh := f.kit.Choice(f.engine.opt.ToolBudget.In(f.Choice.Window)).At(f.Choice.Window); fresh.AddSimilar(text, near, why) {
					fresh.AddSimilar(latest, nil, because)
					f.Choice = fresh
				}
			}
			latest, because = text, why
		}
		for _, call := range m.Calls() {
			if i, ok := f.kit.IndexOf(call.Name); ok {
				f.Add(&f.CallBudget, i, "was called")
			}
		}
		if r := m.Result(); r != nil && r.Name == kits.FindTool {
			for _, i := range f.kit.FoundIn(r.Text()) {
				f.Add(&f.CallBudget, i, "tools.find found it")
			}
		}
		f.LastMessage = m.ID
	}
	return !slices.Equal(before, f.Shown)
}

// near compares the descriptions of tools with a request of the user.
func (f *fitter) near(ctx context.Context, m *message.Message) kits.Near {
	asked := similar.Request{User: f.user, Agent: f.agent, Labels: message.LabelsOf(m.Blocks), Text: requestText(m)}
	return func(descriptions []string) []float64 { return f.kit.Similar.Scores(ctx, asked, descriptions) }
}

// lastRequest returns the newest message that asks the agent to do something, or nil.
func lastRequest(msgs []*message.Message) *message.Message {
	for _, m := range slices.Backward(msgs) {
		if requestText(m) != "" {
			return m
		}
	}
	return nil
}

// requestText returns what a message asks the agent to do, or "".
func requestText(m *message.Message) string {
	if m.Role != message.User || len(m.Blocks) == 0 || isFromSteward(m) {
		return ""
	}
	return m.Text()
}
