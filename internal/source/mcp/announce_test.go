package mcp

import (
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/must"
)

func TestAnnounce(t *testing.T) {
	w := start(t, "friendly")
	specs := w.announced(t)
	for name, want := range map[string]tool.Spec{
		"srv.echo":           {Effect: tool.Query},
		"srv.write_file":     {Effect: tool.Action, Asks: true, Delivery: tool.Inline},
		"srv.add_note":       {Effect: tool.Action, Delivery: tool.Inline},
		"srv.drop_all":       {Effect: tool.Action, Asks: true, Delivery: tool.Inline},
		"srv.list_resources": {Effect: tool.Query},
		"srv.read_resource":  {Effect: tool.Query},
		"srv.list_prompts":   {Effect: tool.Query},
		"srv.get_prompt":     {Effect: tool.Query},
	} {
		got, ok := specs[name]
		if !ok || got.Effect != want.Effect || got.Asks != want.Asks || got.Delivery != want.Delivery ||
			got.Yields != message.Private|message.Untrusted || got.Origin != "mcp:srv" || got.Timeout != DefaultTimeout || got.Version == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if len(specs) != 17 {
		t.Errorf("%d tools", len(specs))
	}
	if w.changed.Load() != 0 {
		t.Error("it says that something has changed")
	}
}

func TestDeclared(t *testing.T) {
	w := start(t, "friendly", func(e *tool.Env, d *Decl) {
		e.Name = "My-Server"
		d.Tools = []string{"echo", "write*", "add_note", "gone", "list_*"}
		d.Effects = map[string]tool.Effect{"writeFile": tool.Query, "echo": tool.Action, "nobody": tool.Query}
		d.Timeout = 3 * time.Second
	})
	a := must.Get(w.Announce(t.Context()))
	specs := byName(a)
	if len(specs) != 5 || specs["my_server.write_file"].Effect != tool.Query || specs["my_server.write_file"].Asks ||
		specs["my_server.echo"].Effect != tool.Action || specs["my_server.echo"].Timeout != 3*time.Second {
		t.Errorf("%+v", specs)
	}
	if len(a.Refused) != 2 || !fault.HasCode(a.Refused[0], "mcp_tool_unknown") || !fault.HasCode(a.Refused[1], "mcp_tool_unknown") {
		t.Errorf("refused: %v", a.Refused)
	}
}

func TestChanges(t *testing.T) {
	w := start(t, "friendly")
	echo, grow, change := w.tool(t, "srv.echo"), w.tool(t, "srv.grow"), w.tool(t, "srv.change")
	wantText(t, grow, `{}`, "grown")
	wantText(t, echo, `{}`, `{}`) // unaffected tools keep working
	eventually(t, "a new tool is told", func() bool { return w.changed.Load() > 0 })
	told := w.changed.Load()
	wantText(t, change, `{}`, "changed")
	eventually(t, "a changed tool is told", func() bool { return w.changed.Load() > told })
	_, err := call(t.Context(), echo, `{}`)
	wantCode(t, err, fault.Denied, "tool_changed")
	spec := w.announced(t)["srv.echo"]
	spec.Effect, spec.Asks, spec.Delivery = tool.Action, true, tool.Deferred // as if changed by a person
	wantText(t, w.Tool(spec), `{}`, "changed")
}
