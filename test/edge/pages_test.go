package edge_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/identity"
	"steward/test/edge"
)

// A foreign page open in a browser can neither ask nor send anything, whatever
// credential the browser adds. Neither can an HTML form.
func TestAForeignPageChangesNothing(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{})
	n.Write("origins: ['https://app.example']\n", ".config", "steward", "steward.yaml")
	n.Serve()
	before := head(t, n)
	for _, route := range routes(t) {
		method, path, _ := strings.Cut(route, " ")
		for _, headers := range [][]string{
			{"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"},
			{"Origin", "https://evil.example"},
			{"Origin", "null", "Sec-Fetch-Site", "cross-site"},
			{"Origin", "https://app.example.evil.example"},
		} {
			if status, b := n.HTTP(method, path, nil, headers...); status != http.StatusForbidden || !bytes.Contains(bytes.ToLower(b), []byte("origin_refused")) {
				t.Errorf("%s with %v: %d %.200s", route, headers, status, b)
			}
		}
		if method == http.MethodGet {
			continue
		}
		for _, kind := range []string{"text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
			if status, b := n.HTTP(method, path, map[string]any{}, "Content-Type", kind); status != http.StatusUnsupportedMediaType {
				t.Errorf("%s with a body of the type %q: %d %.200s", route, kind, status, b)
			}
			if status, b := n.HTTP(method, path, map[string]any{}, "Content-Type", kind, "Authorization", ""); status != http.StatusUnauthorized {
				t.Errorf("%s with a body of the type %q and no credential: %d %.200s", route, kind, status, b)
			}
		}
	}
	if after := head(t, n); after != before {
		t.Errorf("the log went on from %v to %v", before, after)
	}
	if status, b := n.HTTP("GET", "/api/v1/profile", nil, "Origin", "https://app.example", "Sec-Fetch-Site", "cross-site"); status != http.StatusOK {
		t.Errorf("a page of the settings: %d %s", status, b)
	}
}

// head returns the position of the log's newest entry.
func head(t *testing.T, n *edge.Node) uint64 {
	t.Helper()
	var h struct{ Seq uint64 }
	n.Get("/api/v1/audit/head", &h)
	return h.Seq
}

func TestGETStartsAndChangesNothing(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{})
	mark := filepath.Join(n.Dir, "started")
	program := n.Write("#!/bin/sh\necho started > "+mark+"\n", "server.sh")
	n.Write(`{"mcpServers":{"evil":{"command":"`+program+`","unsandboxed":true}}}`, "data", "mcp.json")
	n.Serve()
	if a := n.Ask("What is 6 times 7?", nil); a.Stop == "" {
		t.Fatalf("%+v", a)
	}
	before := head(t, n)
	for _, route := range routes(t) {
		if method, path, _ := strings.Cut(route, " "); method == http.MethodGet {
			if strings.HasPrefix(path, "/api/v1/") {
				n.HTTP(method, path+"?path=mcp:evil", nil)
			}
			n.HTTP(method, path, nil)
		}
	}
	if status, b := n.HTTP("GET", "/api/v1/agents/inspect?path=mcp:evil", nil); status != http.StatusMethodNotAllowed {
		t.Errorf("%d %s", status, b)
	}
	if after := head(t, n); after != before {
		t.Errorf("the log went on from %d to %d", before, after)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a server that nobody has approved was started")
	}
	n.HTTP("POST", "/api/v1/agents/inspect", map[string]any{"path": "mcp:evil"}) // it speaks no MCP, but it runs
	if _, err := os.Stat(mark); err != nil {
		t.Error("to ask for an inspection does not start it either, so that the test shows nothing")
	}
}

func TestAnOpenPathAllowsChatOnly(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if strings.Contains(in.User(), "write") && in.Rounds() == 0 {
			return edge.Reply{Calls: []edge.Call{{Name: "files.write", Args: map[string]any{"path": "home/evil.txt", "content": "x"}}}}
		}
		return edge.Reply{Text: "hello there"}
	})})
	if err := os.Mkdir(filepath.Join(n.Dir, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.Write("open: [/v1/chat/completions, /v1/models]\nfolders: [{name: home, path: "+filepath.Join(n.Dir, "home")+", write: true}]\n", ".config", "steward", "steward.yaml")
	n.Serve()
	mine := n.Ask("My secret is 4711.", nil).Conversation
	chat := func(more string, headers ...string) (int, string) {
		t.Helper()
		body := json.RawMessage(`{"model":"default","messages":[{"role":"user","content":"Please write."}]` + more + `}`)
		status, b := n.HTTP("POST", "/v1/chat/completions", body, headers...)
		return status, string(b)
	}
	for _, credential := range []string{"", "Bearer none", "Bearer"} {
		if status, b := n.HTTP("POST", "/v1/chat/completions", json.RawMessage(`{"model":"default","messages":[{"role":"user","content":"Hello?"}]}`),
			"Authorization", credential); status != http.StatusOK || !bytes.Contains(b, []byte("hello there")) {
			t.Errorf("%q: %d %s", credential, status, b)
		}
		if status, b := n.HTTP("GET", "/v1/models", nil, "Authorization", credential); status != http.StatusOK || bytes.Contains(b, []byte("agent:")) {
			t.Errorf("%q: %d %s", credential, status, b)
		}
	}
	// An open path continues no conversation, and an agent that is asked
	// through it changes nothing.
	if status, b := chat(`,"metadata":{"conversation_id":"`+mine+`"}`, "Authorization", ""); status != http.StatusUnauthorized || strings.Contains(b, "4711") {
		t.Errorf("a conversation is continued: %d %s", status, b)
	}
	if status, b := n.HTTP("POST", "/v1/chat/completions", json.RawMessage(`{"model":"agent:assistant","messages":[{"role":"user","content":"Please write."}]}`),
		"Authorization", ""); status != http.StatusOK {
		t.Errorf("an agent: %d %s", status, b)
	}
	if _, err := os.Stat(filepath.Join(n.Dir, "home", "evil.txt")); err == nil {
		t.Error("an agent has written a file for somebody without a credential")
	}
	// Requests from another machine, with an invalid key, or from a page are
	// refused.
	for status, headers := range map[int][][]string{
		http.StatusUnauthorized: {{"Authorization", "Bearer " + identity.NewSecret()}, {"Authorization", "", "X-Forwarded-For", "203.0.113.9"}},
		http.StatusForbidden:    {{"Authorization", "", "Origin", "https://evil.example"}, {"Authorization", "", "Sec-Fetch-Site", "cross-site"}},
		http.StatusUnsupportedMediaType: {{"Authorization", "", "Content-Type", "text/plain"}, {"Authorization", "", "Content-Type", ""},
			{"Authorization", "", "Content-Type", "application/x-www-form-urlencoded"}},
	} {
		for _, h := range headers {
			if got, b := chat("", h...); got != status {
				t.Errorf("%v: %d %s", h, got, b)
			}
		}
	}
	for _, route := range routes(t) {
		method, path, _ := strings.Cut(route, " ")
		if path == "/v1/chat/completions" || strings.HasPrefix(path, "/v1/models") {
			continue
		}
		var body any
		if method != http.MethodGet {
			body = map[string]any{}
		}
		if status, b := n.HTTP(method, path, body, "Authorization", ""); status != http.StatusUnauthorized {
			t.Errorf("%s: %d %.200s", route, status, b)
		}
	}
}

func TestOnlyPathsOfChatsCanBeOpened(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{})
	for _, path := range []string{"/ws", "/api/v1/keys", "/v1/", "/v1", "v1/models", "/v1/chat/completions/", "/v1/models/../../api/v1/keys", "/", "*"} {
		n.Write("open: ['"+path+"']\n", ".config", "steward", "steward.yaml")
		if r := n.Run("serve"); r.Code == 0 || !strings.Contains(r.Err, "open") || !strings.Contains(r.Err, "settings_invalid") {
			t.Errorf("%s: %d %s%s", path, r.Code, r.Out, r.Err)
		}
	}
	n.Write("", ".config", "steward", "steward.yaml")
	n.Write("open: [/v1/chat/completions]\n", "steward.yaml") // the project's settings
	n.Serve()
	if status, b := n.HTTP("POST", "/v1/chat/completions", json.RawMessage(`{"model":"default","messages":[{"role":"user","content":"Hello?"}]}`),
		"Authorization", ""); status != http.StatusUnauthorized {
		t.Errorf("a project has opened a path: %d %s", status, b)
	}
}
