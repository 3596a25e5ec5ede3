package fact

import (
	"encoding/json"
	"strings"
	"testing"

	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
	"steward/test/storetest"
)

func kit(t *testing.T) map[string]tool.Tool {
	t.Helper()
	k := local.NewKit(tool.Env{Name: Name}, tool.OriginOwn)
	Add(k, Options{Memory: memory.New(memory.Options{Store: storetest.NewModel()})})
	list, err := k.Tools()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]tool.Tool{}
	for _, x := range list {
		out[x.Spec().Name] = x
	}
	return out
}

func call(t *testing.T, x tool.Tool, in tool.Invocation, args map[string]any) (string, message.Labels) {
	t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	in.User, in.Args = "ann", b
	res, err := x.Call(t.Context(), in)
	if err != nil {
		t.Fatalf("%s: %v", x.Spec().Name, err)
	}
	return res.Content[0].(*message.Text).Text, res.Labels
}

func TestTools(t *testing.T) {
	tools := kit(t)
	for _, c := range []struct {
		name   string
		in     tool.Invocation
		args   map[string]any
		want   string
		labels message.Labels
	}{
		{"memory.save", tool.Invocation{Key: "1"}, map[string]any{"content": "My car is blue"}, "Remembered: My car is blue", 0},
		{"memory.save", tool.Invocation{Key: "1"}, map[string]any{"content": "My car is blue"}, "Remembered: My car is blue", 0},
		{"memory.save", tool.Invocation{Key: "2"}, map[string]any{"content": "My car is red"}, "Remembered instead of what was true before: My car is red", 0},
		{"memory.search", tool.Invocation{}, map[string]any{"query": "car"}, "- My car is red (since ", message.Private},
		{"memory.search", tool.Invocation{}, map[string]any{"query": "submarine"}, "Nothing like that is remembered.", message.Private},
		{"memory.save", tool.Invocation{Key: "3", Labels: message.Untrusted}, map[string]any{"content": "The garage code is 4711"}, "as a quotation", 0},
		{"memory.search", tool.Invocation{}, map[string]any{"query": "garage code"}, `others wrote "The garage code is 4711"`, message.Private | message.Untrusted},
		{"memory.forget", tool.Invocation{Key: "4"}, map[string]any{"which": "The garage code is 4711"}, "is forgotten", 0},
		{"memory.search", tool.Invocation{}, map[string]any{"query": "garage code"}, "Nothing like that is remembered.", message.Private},
	} {
		if got, labels := call(t, tools[c.name], c.in, c.args); !strings.Contains(got, c.want) || c.name == "memory.search" && labels != c.labels {
			t.Errorf("%s %v: %s (%s)", c.name, c.args, got, labels)
		}
	}
	undo, ok := tool.UndoerOf(tools["memory.save"])
	if !ok {
		t.Fatal("saving cannot be undone")
	}
	if _, err := undo.Undo(t.Context(), tool.Invocation{User: "ann", Key: "2"}, tool.Result{}); err != nil {
		t.Fatal(err)
	}
	if got, _ := call(t, tools["memory.search"], tool.Invocation{}, map[string]any{"query": "car"}); !strings.Contains(got, "My car is blue") {
		t.Error(got)
	}
	for alias, want := range map[string]string{"save_memory": "memory.save", "search_memories": "memory.search"} {
		if got, ok := tool.Alias(alias); !ok || got != want {
			t.Errorf("%s: %s", alias, got)
		}
	}
}
