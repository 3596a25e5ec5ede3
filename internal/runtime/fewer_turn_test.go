package runtime_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
)

// finding is a provider whose model looks for tools, calls what it found, and answers.
type finding struct{ shown [][]string }

func (*finding) Name() string                               { return "test" }
func (*finding) Models(context.Context) ([]llm.Info, error) { return nil, nil }
func (f *finding) Model(string) llm.Model                   { return f }

func (f *finding) Stream(_ context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		var names []string
		for _, s := range r.Tools.Specs() {
			names = append(names, s.Name)
		}
		f.shown = append(f.shown, names)
		reply := &llm.Reply{Model: "test/m", Stop: message.StopTools, Usage: message.Usage{Input: 1, Output: 1}}
		switch len(f.shown) {
		case 1:
			reply.Blocks = []message.Block{&message.ToolCall{CallID: "a", Name: "tools.find", Args: []byte(`{"query":"paint a fence"}`)}}
		case 2:
			reply.Blocks = []message.Block{&message.ToolCall{CallID: "b", Name: "fence.paint", Args: []byte(`{}`)}}
		default:
			reply.Stop, reply.Blocks = message.StopEnd, []message.Block{&message.Text{Text: "ok"}}
		}
		yield(llm.Event{Kind: llm.Done, Reply: reply}, nil)
	}
}

// A model with more tools than it is shown finds others, which are appended to what it is shown
// and nothing else changes.
func TestToolsAreFound(t *testing.T) {
	model := &finding{}
	w := made(t, &world{})
	w.provider = model
	add := func(name, about string) {
		w.more = append(w.more, newTool(tool.Spec{Name: name, Description: about, Effect: tool.Query, Origin: "mcp:many"},
			func(context.Context, tool.Invocation, struct{}) (string, error) { return "done", nil }))
	}
	for i := range 100 {
		add(fmt.Sprintf("mail.tool%d", i), "Does something with a letter.")
	}
	add("fence.paint", "Paints the fence.")
	w.open()
	conv, _ := w.turn(id.ID{}, "read my letter")
	w.atRest(conv)
	if len(model.shown) != 3 {
		t.Fatalf("asked %d times", len(model.shown))
	}
	first, then := model.shown[0], model.shown[1]
	if len(first) > 40 || !slices.Equal(first[:2], []string{"results.read", "tools.find"}) || !slices.Contains(first, "mail.tool0") || slices.Contains(first, "fence.paint") {
		t.Errorf("first %q", first)
	}
	if !slices.Equal(then, append(slices.Clone(first), "fence.paint")) || !slices.Equal(then, model.shown[2]) {
		t.Errorf("then %q", then)
	}
	got := w.results(conv)
	if len(got) != 2 || !strings.HasPrefix(got[0].Text(), "fence.paint: Paints the fence.\nparameters: {") || got[1].Text() != "done" {
		t.Errorf("%+v", got)
	}
}

// What was shown in one turn is shown in the next as well, with what was found, so that a
// provider's cache holds, until the user speaks of something else.
func TestToolsStayAsLongAsTheyServe(t *testing.T) {
	model := &finding{}
	w := made(t, &world{})
	w.provider = model
	for _, about := range []string{"letter", "rain", "invoice"} {
		for i := range 40 {
			w.more = append(w.more, newTool(tool.Spec{Name: fmt.Sprintf("%s.tool%d", about, i), Description: "Does something with a " + about + ".", Effect: tool.Query, Origin: "mcp:many"},
				func(context.Context, tool.Invocation, struct{}) (string, error) { return "done", nil }))
		}
	}
	w.more = append(w.more, newTool(tool.Spec{Name: "fence.paint", Description: "Paints the fence.", Effect: tool.Query, Origin: "mcp:many"},
		func(context.Context, tool.Invocation, struct{}) (string, error) { return "done", nil }))
	w.open()
	conv, _ := w.turn(id.ID{}, "read my letter")
	for _, text := range []string{"read another letter", "will there be rain"} {
		w.atRest(conv)
		w.turn(conv, text)
	}
	w.atRest(conv)
	if len(model.shown) != 5 {
		t.Fatalf("asked %d times", len(model.shown))
	}
	found, same, other := model.shown[2], model.shown[3], model.shown[4]
	if !slices.Contains(found, "fence.paint") || !slices.Equal(same, found) {
		t.Errorf("first %q\nthen %q", found, same)
	}
	if slices.Equal(other, found) || !slices.Contains(other, "rain.tool0") {
		t.Errorf("for another wish %q", other)
	}
}
