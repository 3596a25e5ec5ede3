package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"steward/internal/cli/command"
)

// A server that is known by name needs its key alone. Azure takes the key in a field of its own,
// and what the settings add is in each request.
func TestServersByName(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		got[r.URL.Path] = r.Header.Get("Authorization") + "|" + r.Header.Get("Api-Key") + "|" + r.Header.Get("X-Title") + "|" + string(body)
		mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/models") {
			io.WriteString(w, `{"object":"list","data":[{"id":"newest","object":"model","created":2},{"id":"old","object":"model","created":1}]}`) //nolint:errcheck // the caller may be gone
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n") //nolint:errcheck // the caller may be gone
	}))
	t.Cleanup(srv.Close)
	for _, c := range []struct{ name, config, env, path, want string }{
		{"groq", "providers: {groq: {base_url: \"" + srv.URL + "/v1\", headers: {X-Title: mine}, body: '{\"seed\": 7}'}}\n", "GROQ_API_KEY=gsk-0123456789", "/v1/chat/completions", `Bearer gsk-0123456789||mine|{`},
		{"azure", "providers: {azure: {model: gpt}}\n", "AZURE_OPENAI_API_KEY=azk-0123456789 AZURE_OPENAI_ENDPOINT=" + srv.URL + "/", "/openai/v1/chat/completions", `|azk-0123456789||{`},
	} {
		env := user(t, strings.Fields(c.env)...)
		if err := os.WriteFile(filepath.Join(homeOf(env), ".config/steward/steward.yaml"), []byte(c.config), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := in(t, "", env, "ask", "-q", "hello")
		mu.Lock()
		sent := got[c.path]
		mu.Unlock()
		if code != command.ExitOK || !strings.Contains(out, "hello") || !strings.HasPrefix(sent, c.want) || strings.Contains(sent, `"seed":7`) != (c.name == "groq") {
			t.Errorf("%s: %d %q %q: sent %q", c.name, code, out, errs, sent)
		}
	}
}
