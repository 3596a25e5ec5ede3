package edge_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/test/edge"
)

// Folders that hold Steward's data and settings are granted, and the workspace is one of them. No tool sees
// the data and the settings, and no message attaches them.
func TestNoToolSeesStewardsOwn(t *testing.T) {
	t.Parallel()
	var call edge.Call
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.Rounds() == 0 {
			return edge.Reply{Calls: []edge.Call{call}}
		}
		return edge.Reply{Text: strings.Join(in.Results(), "\n")}
	})})
	n.Write("workspace: "+n.Dir+"\nfolders:\n  - {name: home, path: "+n.Dir+", write: true}\n  - {name: data, path: "+n.Data()+"}\n# CANARY-SETTINGS\n", ".config", "steward", "steward.yaml")
	n.Write(`{"mcpServers":{"x":{"command":"/bin/true","env":{"KEY":"CANARY-MCP"}}}}`, "data", "mcp.json")
	n.Write("plain words\n", "plain.txt")
	n.Serve()
	token := n.Token()
	if err := os.Link(n.Data("token"), filepath.Join(n.Dir, "linked.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(n.Data(), filepath.Join(n.Dir, "sym")); err != nil {
		t.Fatal(err)
	}
	var results []string
	asked := func(name string, args map[string]any) string {
		t.Helper()
		call = edge.Call{Name: name, Args: args}
		a := n.Ask("Go on.", func(edge.Approval) string { return "approve" })
		results = append(results, name+": "+a.Text)
		return a.Text
	}
	for _, path := range []string{"home/data/token", "home/data/mcp.json", "home/data/secrets", "home/.config/steward/steward.yaml", "home/linked.txt", "home/sym/token", "data/token", "workspace/data/token"} {
		for _, args := range []edge.Call{{Name: "files.read", Args: map[string]any{"path": path}}, {Name: "files.list", Args: map[string]any{"path": path}},
			{Name: "files.search", Args: map[string]any{"path": path, "query": token[:8]}}} {
			if got := asked(args.Name, args.Args.(map[string]any)); !strings.Contains(got, "path_refused") && !strings.Contains(got, "is refused") {
				t.Errorf("%s %s: %s", args.Name, path, got)
			}
		}
	}
	// A search tells nothing about the token, not even whether its first letter was guessed.
	if right, wrong := asked("files.search", map[string]any{"query": "^" + token[:1], "regexp": true}), asked("files.search", map[string]any{"query": "^[^ -~]", "regexp": true}); right != wrong {
		t.Errorf("a search tells a right guess (%s) from a wrong one (%s)", right, wrong)
	}
	if got := asked("files.search", map[string]any{"query": "plain words"}); !strings.Contains(got, "home/plain.txt:1:") {
		t.Errorf("what lies beside it is not found: %s", got)
	}
	asked("shell.run", map[string]any{"command": "cat data/token sym/token .config/steward/steward.yaml data/mcp.json; cd ..; mv .config gone; ls -R"})
	for _, r := range results {
		for _, bad := range []string{token, "CANARY"} {
			if strings.Contains(r, bad) {
				t.Errorf("got through: %s", r)
			}
		}
	}
	for _, path := range []string{n.Data("token"), filepath.Join(n.Dir, "sym", "mcp.json"), filepath.Join(n.Dir, "linked.txt"), filepath.Join(n.Dir, ".config", "steward", "steward.yaml")} {
		if r := n.Run("ask", "--file", path, "What is this?"); r.Code == 0 || !strings.Contains(r.Err, "file_private") {
			t.Errorf("%s was attached: %+v", path, r)
		}
	}
	r := n.Run("doctor")
	for _, want := range []string{"home (" + n.Dir + ") holds Steward's own data or settings", "data (" + n.Data() + ") is in Steward's own data"} {
		if !strings.Contains(strings.Join(strings.Fields(r.Out), " "), want) {
			t.Errorf("doctor does not say %q:\n%s", want, r.Out)
		}
	}
}
