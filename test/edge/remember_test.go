package edge_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/test/edge"
)

// attentive is a model that reads one fact in whatever a person writes about a sister, and calls memory.save if it is
// asked to remember something. It notes what it is asked.
type attentive struct {
	mu    sync.Mutex
	reads int
	tools []string // memory tools that it was offered
	shown string   // all that it was sent
}

func (a *attentive) reply(in edge.Asked) edge.Reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown += string(in.Body)
	for _, t := range in.Tools {
		if strings.HasPrefix(t.Function.Name, "memory") {
			a.tools = append(a.tools, t.Function.Name)
		}
	}
	if bytes.Contains(in.Body, []byte(`"name":"facts"`)) {
		a.reads++
		fact := map[string]any{"message": 1, "subject": "user", "text": "My sister Mia lives in Graz", "type": "person", "importance": 0.7, "replaces": []string{}}
		text, _ := json.Marshal(map[string]any{"facts": []any{fact}}) //nolint:errchkjson // it cannot fail
		return edge.Reply{Text: string(text)}
	}
	said := ""
	for _, m := range in.Messages {
		if m.Role == "user" && !strings.HasPrefix(m.Text(), "(From memory.") {
			said = m.Text()
		}
	}
	said, _, _ = strings.Cut(said, "\n")
	if what, ok := strings.CutPrefix(said, "remember that "); ok && in.Last().Role != "tool" {
		return edge.Reply{Calls: []edge.Call{{Name: "memory.save", Args: map[string]any{"content": what}}}}
	}
	return edge.Reply{Text: "ok"}
}

// written stops a node, which seals its log, and returns the types of memory that the log ever had. The tree must
// have the same.
func written(n *edge.Node) (out []string) {
	n.T.Helper()
	n.Stop()
	for line := range strings.Lines(n.Must("audit", "export")) {
		var x struct{ Type string }
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			n.T.Fatalf("%v: %s", err, line)
		}
		if strings.HasPrefix(x.Type, "memory.") && !slices.Contains(out, x.Type) {
			out = append(out, x.Type)
		}
	}
	for _, typ := range []string{"memory.Fact", "memory.Reading"} {
		var tree struct{ Resources []json.RawMessage }
		if n.JSON(&tree, "resources", "list", "--type", typ); len(tree.Resources) > 0 != slices.Contains(out, typ) {
			n.T.Errorf("the tree has %d of %s, and the log has %q", len(tree.Resources), typ, out)
		}
	}
	slices.Sort(out)
	return out
}

// The same talk writes facts, readings and recalls with memory on, and nothing of that with memory off.
func TestMemoryOffWritesNothing(t *testing.T) {
	t.Parallel()
	talk := func(settings string) (*edge.Node, *attentive) {
		a := &attentive{}
		n := edge.Serve(t, edge.Options{Model: edge.Script(t, a.reply), Settings: "models: {default: openai/gpt-test, fast: openai/gpt-test}\nmemory: {rest: 1s" + settings + "}\n", SQLite: true})
		n.Ask("my sister Mia lives in Graz", nil)
		n.Ask("remember that my bike is green", nil)
		return n, a
	}
	on, a := talk("")
	on.Until("a conversation was read, and a fact saved", func() bool {
		return strings.Contains(on.Must("memory", "list"), "Mia lives in Graz") && strings.Contains(on.Must("memory", "list"), "bike is green")
	})
	on.Ask("where does my sister Mia live?", nil)
	if got := written(on); !slices.Equal(got, []string{"memory.Fact", "memory.Reading"}) || len(holders(on, "hook:memory")) == 0 {
		t.Fatalf("with memory on: %q", got)
	}
	a.mu.Lock()
	if a.reads == 0 || !slices.Contains(a.tools, "memory__save") || !strings.Contains(a.shown, "From memory") {
		t.Errorf("with memory on: %d readings, tools %q", a.reads, a.tools)
	}
	a.mu.Unlock()

	off, b := talk(", off: true")
	time.Sleep(1500 * time.Millisecond) // longer than a conversation rests
	off.Ask("where does my sister Mia live?", nil)
	if got := written(off); len(got) > 0 {
		t.Errorf("with memory off, the log has %q", got)
	}
	if left := holders(off, "hook:memory"); left != nil {
		t.Errorf("with memory off, a recall is in %q", left)
	}
	b.mu.Lock()
	if b.reads > 0 || len(b.tools) > 0 || strings.Contains(b.shown, "From memory") {
		t.Errorf("with memory off: %d readings, tools %q", b.reads, b.tools)
	}
	b.mu.Unlock()
	off.Serve()
	if r := off.Run("memory", "add", "My car is blue"); r.Code == 0 || !strings.Contains(r.Err, "memory_off") || !strings.Contains(r.Err, "remove memory.off from the settings") {
		t.Errorf("%+v", r)
	}
}

// A fact that an agent has saved leaves no trace once it is forgotten with the turn in which it was said: neither
// in the call, its intent and its result, nor in what was said, nor where it was recalled.
func TestAForgottenFactIsInNoFile(t *testing.T) {
	t.Parallel()
	const secret = "zqxlockerzqx"
	a := &attentive{}
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, a.reply), Settings: "models: {default: openai/gpt-test, fast: openai/gpt-test}\nmemory: {read: false}\n"})
	n.Ask("remember that my locker is "+secret, nil)
	n.Until("it is saved", func() bool { return strings.Contains(n.Must("memory", "list"), secret) })
	n.Ask("which locker is mine, my locker?", nil)
	why := n.Must("memory", "why", "locker")
	if !strings.Contains(why, "you wrote   remember that") || !strings.Contains(why, "by agent:assistant") || strings.Contains(why, "not lately") {
		t.Error(why)
	}
	if len(holders(n, secret)) == 0 {
		t.Fatal("it is in no file before it is forgotten")
	}
	n.Must("memory", "forget", "locker", "--turns", "--yes")
	if left := holders(n, secret); left != nil {
		t.Errorf("it is still in %q", left)
	}
	n.Stop()
	if left := holders(n, secret); left != nil {
		t.Errorf("after a stop it is still in %q", left)
	}
}
