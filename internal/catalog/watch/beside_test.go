package watch

import "testing"

func TestBeside(t *testing.T) {
	paths := []string{"/data/agents", "/data/mcp.json", "/far/away/more"}
	for name, want := range map[string]bool{
		"/data/steward.db-wal": true, "/data/agents": false, "/data/agents/a/agent.yaml": false, "/data/mcp.json": false,
		"/data": false, "/far": false, "/far/away": false, "/far/other": true, "/real/agents/a": false, "/data/agentsx": true,
	} {
		if got := IsUnrelated(name, paths...); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
