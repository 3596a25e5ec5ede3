package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/app"
	"steward/internal/cli/command"
)

// A file of known models is fetched, checked and used; a broken one replaces nothing.
func TestModelsAreUpdatedFromAURL(t *testing.T) {
	const good = `{"as_of": "2099-01-01", "sources": ["https://example.com"], "prices": {"openai/gpt-5.4": {"input": 7, "output": 8}}, "families": {"mine": {"window": 5000}}}`
	body, status := good, http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusFound)
			return
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(srv.Close)
	env := user(t)
	if code, _, errs := in(t, "", env, "models", "update"); code != command.ExitFailed || !strings.Contains(errs, "models_url") {
		t.Errorf("without a URL: %d %q", code, errs)
	}
	conf := filepath.Join(homeOf(env), ".config/steward/steward.yaml")
	if err := os.WriteFile(conf, []byte("models_url: "+srv.URL+"/models.json?x=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := in(t, "", env, "models", "update")
	if want := "price of openai/gpt-5.4: {\"input\":7,\"output\":8}, was {\"input\":2.5,"; code != command.ExitOK || !strings.Contains(out, want) || !strings.HasSuffix(out, "As of 2099-01-01: 2 changes.\n") {
		t.Errorf("%d %q %q", code, out, errs)
	}
	for _, c := range []struct {
		body, url, want string
		status          int
	}{
		{strings.Replace(good, `"input": 7`, `"input": -7`, 1), "/", "known_models_invalid", 200}, {good, "/", "answered 404", 404},
		{good + strings.Repeat(" ", app.LargestKnown), "/", "body too large", 200}, {good, "/away", "answered 302", 200},
	} {
		body, status = c.body, c.status
		if code, _, errs := in(t, "", env, "models", "update", srv.URL+c.url); code != command.ExitFailed || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d %q", c.want, code, errs)
		}
	}
	for _, bad := range []string{"http://example.com/x", "file:///etc/passwd", ":"} {
		if code, _, errs := in(t, "", env, "models", "update", bad); code != command.ExitFailed || !strings.Contains(errs, "not an https URL") {
			t.Errorf("%s: %d %q", bad, code, errs)
		}
	}
	body, status = good, http.StatusOK
	if _, out, _ := in(t, "", env, "--json", "models", "update"); !strings.Contains(out, `"changes": []`) {
		t.Errorf("the same file again: %q", out)
	}
	file := filepath.Join(homeOf(env), ".local/share/steward/known-models.json")
	if text, err := os.ReadFile(file); err != nil || string(text) != good {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := in(t, "", env, "models"); code != command.ExitOK || !strings.Contains(errs, "a file about models is not used") {
		t.Errorf("with a broken file: %d %q", code, errs)
	}
}
