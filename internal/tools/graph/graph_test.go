package graph

import (
	"encoding/json"
	"strings"
	"testing"

	"steward/internal/memory/graph"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
	"steward/test/storetest"
)

// TestAgentsStateAndAsk with the three tools: a call is made once, keeps the labels of what the model had
// been shown, and can be undone.
func TestAgentsStateAndAsk(t *testing.T) {
	k := local.NewKit(tool.Env{Name: Name}, tool.OriginOwn)
	Add(k, graph.New(graph.Options{Store: storetest.NewModel()}))
	list, err := k.Tools()
	if err != nil {
		t.Fatal(err)
	}
	tools := map[string]tool.Tool{}
	for _, x := range list {
		tools[x.Spec().Name] = x
	}
	call := func(key, name string, labels message.Labels, args map[string]any) (string, message.Labels) {
		t.Helper()
		b, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		res, err := tools[name].Call(t.Context(), tool.Invocation{User: "ann", Args: b, Key: key, Labels: labels})
		if err != nil {
			t.Fatal(err)
		}
		return res.Content[0].(*message.Text).Text, res.Labels
	}
	stated := map[string]any{"subject": "Bob", "predicate": "works at", "object": "Acme"}
	for range 2 {
		if said, _ := call("k1", "graph.assert", message.Untrusted, stated); said != "Stated: Bob works at Acme." {
			t.Errorf("said %q", said)
		}
	}
	said, labels := call("", "graph.neighbours", 0, map[string]any{"of": "bob"})
	if !strings.Contains(said, "- works at: Acme") || labels != message.Private|message.Untrusted {
		t.Errorf("%q, labels %v", said, labels)
	}
	said, labels = call("", "graph.query", 0, map[string]any{"query": "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"})
	if said != "n\n3\n" || labels != message.Private|message.Untrusted {
		t.Errorf("%q, labels %v", said, labels)
	}
	undo, ok := tool.UndoerOf(tools["graph.assert"])
	if !ok {
		t.Fatal("graph.assert cannot be undone")
	}
	if _, err := undo.Undo(t.Context(), tool.Invocation{User: "ann", Key: "k1"}, tool.Result{}); err != nil {
		t.Fatal(err)
	}
	if said, _ := call("", "graph.query", 0, map[string]any{"query": "ASK { ?s ?p ?o }"}); said != "no\n" {
		t.Errorf("after the undoing: %q", said)
	}
}
