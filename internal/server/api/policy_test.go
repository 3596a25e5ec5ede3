package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/policy/rego"
	"steward/internal/runtime"
	"steward/internal/server/api"
	"steward/internal/server/httpauth"
)

// explainer is a node that has been asked.
type explainer struct {
	*double
	user string
	q    runtime.PolicyQuestion
	err  error
}

func (e *explainer) ExplainPolicy(_ context.Context, user string, q runtime.PolicyQuestion) ([]runtime.PolicyAnswer, error) {
	e.user, e.q = user, q
	return []runtime.PolicyAnswer{{About: "x"}}, e.err
}

func TestPolicy(t *testing.T) {
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	j, err := rego.Open(rego.Options{Dir: dir, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	node := &explainer{double: &double{}}
	call := func(o api.Options, c httpauth.Caller, method, path, body string) (int, string) {
		o.Logger = log
		r := httptest.NewRequest(method, api.Prefix+path, bytes.NewReader([]byte(body)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		api.Handler(o).ServeHTTP(w, r.WithContext(httpauth.With(r.Context(), c)))
		return w.Code, w.Body.String()
	}
	full := api.Options{Node: node, Authorizer: j}
	boss, ana := httpauth.Caller{User: "boss", Admin: true}, httpauth.Caller{User: "ana"}

	status, body := call(full, ana, "GET", "/policy", "")
	if status != 200 || !strings.Contains(body, j.Version()) || strings.Contains(body, "rego") {
		t.Errorf("ana: %d %s", status, body)
	}
	if err := os.WriteFile(filepath.Join(dir, "house.rego"), []byte("package steward\n\nx if y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if j.Reload() == nil {
		t.Fatal("a faulty policy is in force")
	}
	status, body = call(full, boss, "GET", "/policy", "")
	var got struct {
		Version, Broken string
		Files           []rego.File
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 || len(got.Files) != 5 || !strings.Contains(got.Broken, "house.rego:3") {
		t.Errorf("%d %+v %v", status, got, err)
	}
	if status, body = call(full, ana, "GET", "/policy", ""); strings.Contains(body, "house.rego") {
		t.Errorf("ana: %d %s", status, body)
	}

	if status, body = call(full, ana, "POST", "/policy/explain", `{"tool":"time.now","args":{"a":1}}`); status != 200 || !strings.Contains(body, `"about":"x"`) ||
		node.user != "ana" || node.q.Tool != "time.now" || string(node.q.Args) != `{"a":1}` {
		t.Errorf("%d %s %+v", status, body, node.q)
	}
	if status, body = call(full, ana, "POST", "/policy/explain", `{"tool":"time.now","user":"bob"}`); status != 403 || !strings.Contains(body, "admin_only") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ = call(full, boss, "POST", "/policy/explain", `{"tool":"time.now","user":"bob"}`); status != 200 || node.user != "boss" || node.q.User != "bob" {
		t.Errorf("%d %+v", status, node.q)
	}
	if status, body = call(full, boss, "POST", "/policy/explain", `{"tol":"time.now"}`); status != 400 {
		t.Errorf("%d %s", status, body)
	}
	node.err = fault.New(fault.NotFound, "tool_unknown", "no such tool")
	if status, body = call(full, boss, "POST", "/policy/explain", `{"tool":"x.y"}`); status != 404 {
		t.Errorf("%d %s", status, body)
	}
}
