package edge_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"steward/test/edge"
)

// TestOnlyTheOwnUserDecidesAboutLocal: an administrator's key manages all other people, but neither
// acts for the machine's own user nor decides which programs run on the machine.
func TestOnlyTheOwnUserDecidesAboutLocal(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{})
	n.Write(`{"mcpServers": {"docs": {"command": "true"}}}`, "data", "mcp.json")
	n.Serve()
	n.Must("users", "add", "ada", "--role", "admin")
	ada := key(n, "ada")
	own := []string{"Authorization", "Bearer " + n.Token()}
	n.Dial(n.Token()).Turn(map[string]any{"content": "remember " + canary}, nil)

	var made struct{ ID, Key string }
	status, b := n.HTTP("POST", "/api/v1/keys", map[string]any{"user": "local", "name": "mine"}, own...)
	if err := json.Unmarshal(b, &made); err != nil || status != http.StatusCreated {
		t.Fatalf("local makes no key for itself: %d %s", status, b)
	}
	for _, c := range []struct {
		method, path string
		body         any
		code         string
	}{
		{"POST", "/api/v1/keys", map[string]any{"user": "local"}, "own_user_only"},
		{"DELETE", "/api/v1/keys/" + made.ID, nil, "own_user_only"},
		{"PATCH", "/api/v1/users/local", map[string]any{"roles": []string{"guest"}}, "own_user_only"},
		{"PATCH", "/api/v1/users/local", map[string]any{"display": "Somebody"}, "own_user_only"},
		{"POST", "/api/v1/users", map[string]any{"user": "local", "roles": []string{"guest"}}, "own_user_only"},
		{"DELETE", "/api/v1/users/local", nil, "own_user_only"},
		{"POST", "/api/v1/agents/inspect", map[string]any{"path": "mcp:docs"}, "admin_only"},
		{"POST", "/api/v1/agents/approve", map[string]any{"path": "mcp:docs", "hash": "x"}, "admin_only"},
		{"POST", "/api/v1/agents/deny", map[string]any{"path": "mcp:docs"}, "admin_only"},
		{"POST", "/api/v1/agents/revoke", map[string]any{"path": "mcp:docs"}, "admin_only"},
		{"DELETE", "/api/v1/requests/x?user=local", nil, "own_user_only"},
		{"POST", "/api/v1/requests/x/pause?user=local", nil, "own_user_only"},
		{"POST", "/api/v1/requests/x/resume?user=local", nil, "own_user_only"},
		{"POST", "/api/v1/requests/x/retry?user=local", nil, "own_user_only"},
		{"PATCH", "/api/v1/requests/x?user=local", map[string]any{}, "own_user_only"},
		{"DELETE", "/api/v1/events/0190a5b0-0000-7000-8000-000000000001?user=local", nil, "own_user_only"},
	} {
		if status, b := n.HTTP(c.method, c.path, c.body, ada...); status != http.StatusForbidden || !strings.Contains(string(b), `"`+c.code+`"`) {
			t.Errorf("%s %s by an admin: %d %s", c.method, c.path, status, b)
		}
	}
	for _, path := range []string{"/api/v1/audit/export?bodies=true", "/api/v1/requests?all=true&all_users=true", "/api/v1/users/local"} {
		if status, b := n.HTTP("GET", path, nil, ada...); status != http.StatusOK || strings.Contains(string(b), canary) {
			t.Errorf("%s shows an admin what local wrote: %d %.300s", path, status, b)
		}
	}
	if _, b := n.HTTP("GET", "/api/v1/audit/export?bodies=true", nil, own...); !strings.Contains(string(b), canary) {
		t.Error("local itself does not see what it wrote")
	}
	c := n.Dial(secretOf(ada))
	for _, typ := range []string{"inspect_agent", "approve_agent", "deny_agent", "revoke_agent"} {
		frame := map[string]any{"type": typ, "id": typ, "path": "mcp:docs"}
		if typ == "approve_agent" {
			frame["hash"] = "x"
		}
		c.Send(frame)
	}
	for left := 4; left > 0; left-- {
		if f := c.Read(); f.Type != "error" || f.Code != "admin_only" {
			t.Errorf("%+v", f)
		}
	}
	if status, b := n.HTTP("PATCH", "/api/v1/users/bob", map[string]any{"roles": []string{"guest"}}, ada...); status != http.StatusOK {
		t.Errorf("an admin manages nobody any more: %d %s", status, b)
	}
	n.Must("users", "set", "local", "--name", "Me")
	for _, name := range []string{"system", "assistant", "tool", "steward", "guest", "everyone", "admin", "member", "service", "user", "system_", "local."} {
		for _, args := range [][]string{{"users", "add", name}, {"keys", "create", "--user", name}, {"groups", "add", "pals", "--member", name}} {
			if r := n.Run(args...); r.Code == 0 || !strings.Contains(r.Err, "is reserved") {
				t.Errorf("steward %s: %+v", strings.Join(args, " "), r)
			}
		}
	}
}
