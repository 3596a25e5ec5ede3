package api_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/catalog"
	"steward/internal/server/api"
	"steward/internal/server/httpauth"
	"steward/internal/store/storetest"
)

// agentsServer is the server over a real catalog of two agents.
func agentsServer(t *testing.T) (call func(c httpauth.Caller, method, path, body string) (int, string), dir string) {
	dir = t.TempDir()
	for path, name := range map[string]string{"email": "email", "email/agents/filter": "filter"} {
		folder := filepath.Join(dir, path)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "agent.yaml"), []byte("name: "+name+"\ndescription: Does "+name+".\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	cat, err := catalog.Open(t.Context(), catalog.Options{Store: storetest.NewModel(), Folders: []string{dir}, Data: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cat.Close(); err != nil {
			t.Error(err)
		}
	})
	h := api.Handler(api.Options{Agents: cat, Logger: log})
	return func(c httpauth.Caller, method, path, body string) (int, string) {
		r := httptest.NewRequest(method, api.Prefix+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(httpauth.With(r.Context(), c)))
		b, err := io.ReadAll(w.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.Code, string(b)
	}, dir
}

func TestAgents(t *testing.T) {
	call, dir := agentsServer(t)
	boss, ana := httpauth.Caller{User: "local", Admin: true}, httpauth.Caller{User: "ana"}
	list := func(c httpauth.Caller) map[string]catalog.Listing {
		status, body := call(c, "GET", "/agents", "")
		var out struct{ Agents []catalog.Listing }
		if err := json.Unmarshal([]byte(body), &out); err != nil || status != 200 || out.Agents == nil {
			t.Fatalf("%d %s %v", status, body, err)
		}
		by := map[string]catalog.Listing{}
		for _, l := range out.Agents {
			by[l.Path] = l
		}
		return by
	}
	if l := list(boss); len(l) != 2 || l["email"].Status != catalog.Pending || l["email/filter"].Status != catalog.Pending {
		t.Fatalf("%+v", l)
	}
	if l := list(ana); len(l) != 0 {
		t.Fatalf("a user sees what may not be used: %+v", l)
	}
	inspect := func(path string) catalog.Inspection {
		status, body := call(boss, "POST", "/agents/inspect", `{"path":"`+path+`"}`)
		var out catalog.Inspection
		if err := json.Unmarshal([]byte(body), &out); err != nil || status != 200 {
			t.Fatalf("%d %s %v", status, body, err)
		}
		return out
	}
	insp := inspect("email/filter")
	if insp.Hash == "" || len(insp.Items) != 1 || insp.Items[0].Name != "agent.yaml" {
		t.Fatalf("%+v", insp)
	}
	for _, path := range []string{"email", "email/filter"} {
		status, body := call(boss, "POST", "/agents/approve", `{"path":"`+path+`","hash":"`+inspect(path).Hash+`","tools":{}}`)
		if status != 200 || !strings.Contains(body, `"status":"approved"`) || !strings.Contains(body, `"usable":true`) {
			t.Fatalf("%d %s", status, body)
		}
	}
	if l := list(ana); len(l) != 2 || l["email"].Hash != "" || l["email"].Dir != "" || l["email"].By != "" || l["email"].Description != "Does email." {
		t.Fatalf("what a user is told: %+v", l)
	}
	if status, body := call(boss, "POST", "/agents/revoke", `{"path":"email","reason":"enough"}`); status != 200 || !strings.Contains(body, `"reason":"enough"`) {
		t.Fatalf("%d %s", status, body)
	}
	if l := list(ana); len(l) != 0 {
		t.Fatalf("%+v", l)
	}
	if status, body := call(boss, "POST", "/agents/deny", `{"path":"email/filter"}`); status != 200 || !strings.Contains(body, `"status":"denied"`) {
		t.Fatalf("%d %s", status, body)
	}
	if err := os.WriteFile(filepath.Join(dir, "email", "PROMPT.md"), []byte("New."), 0o644); err != nil {
		t.Fatal(err)
	}
	if l := list(boss); l["email"].Status != catalog.Pending || !l["email"].Changed || inspect("email").Diff == "" {
		t.Fatalf("%+v", l)
	}
}

func TestAgentsRefusals(t *testing.T) {
	call, _ := agentsServer(t)
	boss, ana := httpauth.Caller{User: "local", Admin: true}, httpauth.Caller{User: "ana"}
	for _, c := range []struct {
		who          httpauth.Caller
		method, path string
		body, want   string
		status       int
	}{
		{ana, "POST", "/agents/inspect", `{"path":"email"}`, "admin_only", http.StatusForbidden},
		{ana, "POST", "/agents/approve", `{"path":"email","hash":"x"}`, "admin_only", http.StatusForbidden},
		{ana, "POST", "/agents/deny", `{"path":"email"}`, "admin_only", http.StatusForbidden},
		{ana, "POST", "/agents/revoke", `{"path":"email"}`, "admin_only", http.StatusForbidden},
		{boss, "POST", "/agents/inspect", `{"path":"emial"}`, "agent_not_found", http.StatusNotFound},
		{boss, "POST", "/agents/approve", `{"path":"email","hash":"x"}`, "agent_changed", http.StatusConflict},
		{boss, "POST", "/agents/approve", `{"path":"email","hsh":"x"}`, "unknown_member", http.StatusBadRequest},
		{boss, "POST", "/agents/revoke", `{"path":"email"}`, "agent_not_approved", http.StatusConflict},
		{boss, "POST", "/agents/deny", `{`, "invalid_json", http.StatusBadRequest},
		{boss, "PUT", "/agents", "", "method_not_allowed", http.StatusMethodNotAllowed},
	} {
		if status, body := call(c.who, c.method, c.path, c.body); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
		}
	}
}
