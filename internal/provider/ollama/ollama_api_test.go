package ollama

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/test/apis"
)

func TestHost(t *testing.T) {
	for in, want := range map[string]string{
		"": "http://127.0.0.1:11434", "0.0.0.0": "http://127.0.0.1:11434", "0.0.0.0:8080": "http://127.0.0.1:8080",
		"http://0.0.0.0:11434": "http://127.0.0.1:11434", "box": "http://box:11434", " box:1 ": "http://box:1",
		":5678": "http://127.0.0.1:5678", "[::]:5678": "http://[::1]:5678", "::1": "http://[::1]:11434", "[::1]": "http://[::1]:11434",
		"http://box": "http://box", "https://box/": "https://box", "https://box/ollama/": "https://box/ollama",
		"http://[::1]": "http://[::1]", "box:1/path": "http://box:1/path", "ollama.com": "https://ollama.com",
		`"box"`: "http://box:11434", "https://ollama.com": "https://ollama.com",
	} {
		if got := Host(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func FuzzHost(f *testing.F) {
	for _, s := range []string{"", "0.0.0.0", "http://[::1]:1/x", "ollama.com", ":5678"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a := Host(s)
		u, err := url.Parse(a)
		if err != nil || strings.ContainsAny(u.Hostname(), `[]"'`) || strings.ContainsAny(a, "@?# \t\r\n\"'") {
			return // no host that there could be
		}
		if a != Host(a) {
			t.Errorf("%q: %q, then %q", s, a, Host(a))
		}
	})
}

// shows answers /api/tags and /api/show from the files.
func shows(t *testing.T) *Provider {
	files := map[string]*apis.Exchange{}
	for path, file := range map[string]string{"/api/tags": "testdata/models.http", "/api/show": "testdata/show.http"} {
		e, err := apis.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = e
	}
	return serving(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/api/show" && string(body) == `{"model":"nomic-embed-text:latest"}` {
			io.WriteString(w, `{"capabilities":["embedding"],"model_info":{"nomic-bert.context_length":2048},"remote_host":"https://ollama.com"}`)
			return
		}
		w.Write(files[r.URL.Path].Body)
	})
}

func TestModels(t *testing.T) {
	p := shows(t)
	list, err := p.Models(context.Background())
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	if m := list[0]; m.Name != "qwen3:8b" || m.Window != 16384 || m.Embedder || m.Created.UTC().Hour() != 14 {
		t.Errorf("%+v", m)
	}
	if m := list[1]; m.Window != 2048 || !m.Embedder {
		t.Errorf("%+v", m)
	}
	if p.Name() != "ollama" {
		t.Error(p.Name())
	}
	bad := serving(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"models":`) })
	if _, err := bad.Models(context.Background()); !fault.HasCode(err, "provider_error") {
		t.Error(err)
	}
	if _, err := New(Options{Host: "127.0.0.1:1"}).Models(context.Background()); !fault.HasCode(err, "unreachable") {
		t.Error(err)
	}
}

func TestWindow(t *testing.T) {
	for _, c := range []struct {
		f    facts
		want int
	}{
		{facts{context: 40960, numCtx: 2048}, 2048}, {facts{context: 40960}, 0}, {facts{context: 40960, remote: true}, 40960},
	} {
		if got := c.f.window(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if n := parameter("num_ctx many\n", "num_ctx"); n != 0 {
		t.Error(n)
	}
}

func TestFactsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{HTTP: &http.Client{Transport: &apis.Says{Bodies: []string{`{"capabilities":["vision"]}`}}}})
		p.shown["m"] = facts{at: time.Now(), capabilities: map[string]bool{}}
		if p.known(t.Context(), "m").sees() {
			t.Error("what was just told is asked again")
		}
		time.Sleep(factsTTL)
		if !p.known(t.Context(), "m").sees() {
			t.Error("old facts are believed")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.known(ctx, "other")
		if _, ok := p.shown["other"]; ok {
			t.Error("a cancelled question is taken for an answer")
		}
	})
}

func TestEmbed(t *testing.T) {
	p := serving(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if err := apis.CheckOllama(body); err != nil || r.URL.Path != "/api/embed" || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("%s: %v", r.URL, err)
		}
		io.WriteString(w, `{"model":"e","embeddings":[[1,0.5],[0,1]],"prompt_eval_count":8}`)
	})
	v, err := p.Embedder("e").Embed(context.Background(), []string{"a", "b"})
	if err != nil || len(v.Values) != 2 || v.Values[0][1] != 0.5 || v.Tokens != 8 || v.Model != "ollama/e" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := p.Embedder("e").Embed(context.Background(), []string{"a"}); !fault.HasCode(err, "provider_error") {
		t.Error(err)
	}
	if v, err := p.Embedder("e").Embed(context.Background(), nil); err != nil || len(v.Values) != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := answering(t, "err_model").Embedder("e").Embed(context.Background(), []string{"a"}); fault.Of(err).Remedy != "run `ollama pull e`" {
		t.Error(err)
	}
}

func TestTakesTools(t *testing.T) {
	for capabilities, want := range map[string]bool{`"completion","tools"`: true, `"completion"`: false, ``: false} {
		asked := 0
		if got := showing(t, capabilities, &asked).TakesTools(t.Context(), "m"); got != want {
			t.Errorf("%s: %v", capabilities, got)
		}
	}
	older := serving(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"model_info":{}}`) })
	if !older.TakesTools(t.Context(), "m") {
		t.Error("a server that tells nothing of its models is taken to have none with tools")
	}
}
