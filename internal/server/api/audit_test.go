package api_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/server/api"
	"steward/internal/server/httpauth"
	"steward/internal/store"
	"steward/internal/store/audit"
	"steward/internal/store/sqlite"
)

// auditing serves the audit of a log with an entry of Ana's and one of Bo's.
func auditing(t *testing.T) (func(caller, path string) (int, http.Header, string), *sqlite.Store) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	for _, user := range []string{"ana", "bo"} {
		_, err := st.Commit(t.Context(), store.ForUser(user), store.Batch{Request: id.New(), Changes: []store.Change{{URI: resource.Root("home.Note", "of-"+user), Body: []byte(`"` + user + `'s"`)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	a, err := audit.New(st, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := api.Handler(api.Options{Node: &double{}, Audit: a, Logger: slog.New(slog.DiscardHandler)})
	return func(caller, path string) (int, http.Header, string) {
		user, admin := strings.CutSuffix(caller, "+admin")
		r := httptest.NewRequest("GET", root+"/audit/"+path, nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(httpauth.With(r.Context(), httpauth.Caller{User: user, Admin: admin})))
		return w.Code, w.Header(), w.Body.String()
	}, st
}

func TestAudit(t *testing.T) {
	ask, _ := auditing(t)
	status, _, body := ask("ana", "head")
	var head store.Head
	if err := json.Unmarshal([]byte(body), &head); err != nil || status != 200 || head.Seq != 2 {
		t.Fatalf("%d %s %v", status, body, err)
	}
	anchor := audit.FormatHead(head)
	if status, _, body := ask("ana", "verify?anchor="+anchor); status != 200 || strings.Contains(body, "flaw") {
		t.Errorf("%d %s", status, body)
	}
	bad := "verify?anchor=1:" + head.Hash.String()
	if status, _, body := ask("boss+admin", bad); status != 200 || !strings.Contains(body, `"uri":"cld:home.Note.of-ana"`) {
		t.Errorf("an admin is told %d %s", status, body)
	}
	if status, _, body := ask("bo", bad); status != 200 || !strings.Contains(body, "flaw") || strings.Contains(body, "ana") {
		t.Errorf("bo is told %d %s", status, body)
	}
	for caller, want := range map[string][2]bool{"ana": {true, false}, "bo": {false, true}, "eve": {false, false}, "boss+admin": {true, true}} {
		status, h, body := ask(caller, "export?bodies=true")
		if status != 200 || h.Get("Content-Type") != "application/x-ndjson" || strings.Contains(body, "of-ana") != want[0] || strings.Contains(body, "of-bo") != want[1] {
			t.Errorf("%s: %d %s", caller, status, body)
		}
		c, err := audit.VerifyExport(strings.NewReader(body), head)
		if err != nil || c.Flaw != nil || c.Head != head {
			t.Errorf("%s: %+v, %v", caller, c, err)
		}
	}
	for path, want := range map[string]string{
		"export?user=bo":                    "of-bo",
		"export?under=cld:home.Note.of-ana": "of-ana",
		"export?since=2000-01-01T00:00:00Z&until=2999-01-01T00:00:00Z&bodies=false": "of-bo",
	} {
		if status, _, body := ask("boss+admin", path); status != 200 || !strings.Contains(body, want) || strings.Contains(body, `"body"`) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for path, code := range map[string]string{
		"verify?anchor=x": "head_invalid", "export?since=x": "time_invalid", "export?until=x": "time_invalid", "export?under=x": "uri_invalid", "export?bodies=x": "bodies_invalid",
	} {
		if status, _, body := ask("ana", path); status != 400 || !strings.Contains(body, code) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

func TestAuditThatFails(t *testing.T) {
	ask, st := auditing(t)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"head", "verify", "export"} {
		if status, _, body := ask("ana", path); status < 500 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}
