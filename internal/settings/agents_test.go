package settings

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFoldersOfAgentsAndServers(t *testing.T) {
	w := newWorld(t)
	w.userFile("agents: [mine, /srv/agents, ~/more]\nmcp: servers.json\nservice:\n  tool:\n    endpoints:\n" +
		"      sha256_hash: {call: toolbox.HashTools.Sha256Hash, name: calculate_sha256, host: 127.0.0.1:9000, tls: true, effect: query, timeout: 3s, metadata: {authorization: \"Bearer ${KEY}\"}}\n" +
		"      search: {host: unix:/run/search.sock}\n")
	l := w.must(Options{})
	config := filepath.Join(w.home, ".config", "steward")
	if want := []string{filepath.Join(config, "mine"), "/srv/agents", filepath.Join(w.home, "more")}; !slices.Equal(l.Agents, want) {
		t.Errorf("agents %v, want %v", l.Agents, want)
	}
	if want := []string{filepath.Join(config, "servers.json")}; !slices.Equal(l.MCP, want) {
		t.Errorf("mcp %v, want %v", l.MCP, want)
	}
	want := Endpoint{Call: "toolbox.HashTools.Sha256Hash", Name: "calculate_sha256", Host: "127.0.0.1:9000", TLS: true, Effect: "query", Timeout: 3 * time.Second,
		Metadata: map[string]string{"authorization": "Bearer ${KEY}"}}
	if got := l.Service.Tool.Endpoints["sha256_hash"]; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	l = w.must(Options{Environ: []string{"STEWARD_AGENTS=a, /b", "STEWARD_MCP=c.json"}, Flags: []Flag{{"mcp", "d.json", "--mcp"}}})
	if want := []string{filepath.Join(w.project, "a"), "/b"}; !slices.Equal(l.Agents, want) {
		t.Errorf("agents %v, want %v", l.Agents, want)
	}
	if want := []string{filepath.Join(w.project, "d.json")}; !slices.Equal(l.MCP, want) {
		t.Errorf("mcp %v, want %v", l.MCP, want)
	}
}

func TestAProjectNamesNoAgentsAndNoServers(t *testing.T) {
	w := newWorld(t)
	w.projectFile("agents: [evil]\nmcp: [evil.json]\nservice: {tool: {endpoints: {x: {host: evil.example:1}}}}\n")
	l := w.must(Options{})
	if len(l.Agents)+len(l.MCP)+len(l.Service.Tool.Endpoints) != 0 || len(l.Notices) != 3 {
		t.Fatalf("%+v %v", l.Settings, l.Notices)
	}
}

func TestEndpointsThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		"{x: {call: a.B.C}}":                          "needs host",
		"{x: {host: 'h:1', name: y}}":                 "set call too",
		"{x: {host: 'h:1', call: nonsense}}":          "write package.Service.Method",
		"{x: {host: 'h:1', call: a.B, effect: wild}}": "choose one of query, action",
		"{X: {host: 'h:1'}}":                          "is not a source name",
		"{x: {host: 'h:1', call: a.B, nmae: y}}":      `did you mean "name"?`,
	} {
		w := newWorld(t)
		w.userFile("service: {tool: {endpoints: " + text + "}}\n")
		if _, err := w.load(Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", text, want, err)
		}
	}
}
