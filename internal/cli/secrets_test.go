package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"steward/client"
	"steward/internal/cli/command"
	"steward/test/apis"
	"steward/test/locked"
)

// spy is a vendor that records its requests. When asked to leak, it calls a tool that
// reads a file; when asked to fail, its error contains the key; when asked to go
// slowly, it pauses until the test has seen the beginning.
type spy struct {
	url  string
	seen chan struct{}
	mu   sync.Mutex
	got  bytes.Buffer
}

func newSpy(t *testing.T, tell string) *spy {
	s := &spy{seen: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"spy","object":"model","created":1}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ContentLength != int64(len(body)) {
			t.Errorf("%d bytes of %d, %v", len(body), r.ContentLength, err)
		}
		s.mu.Lock()
		s.got.Write(body)
		s.mu.Unlock()
		var in struct {
			Messages []struct {
				Role    string
				Content any
			}
		}
		if err := json.Unmarshal(body, &in); err != nil {
			t.Errorf("%v: %s", err, body)
			return
		}
		last := in.Messages[len(in.Messages)-1]
		delta := map[string]any{"content": "You said: " + apis.Written(last.Content) + ". By the way: " + tell}
		finish := "stop"
		switch text := apis.Written(last.Content); {
		case strings.Contains(text, "please fail"):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":"no: %s %s","type":"invalid_request_error"}}`, r.Header.Get("Authorization"), tell)
			return
		case last.Role == "user" && strings.Contains(text, "please leak"):
			args := fmt.Sprintf(`{"path":"notes/leak.txt","offset":0,"why":%q}`, tell)
			if strings.Contains(text, "plainly") {
				args = `{"path":"notes/leak.txt"}`
			}
			delta = map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "c1", "type": "function",
				"function": map[string]any{"name": "files__read", "arguments": args}}}}
			finish = "tool_calls"
		}
		w.Header().Set("Content-Type", "text/event-stream")
		var once sync.Once
		var choices []any
		for rest := []rune(fmt.Sprint(delta["content"])); delta["content"] != nil && len(rest) > 0; rest = rest[min(7, len(rest)):] {
			choices = append(choices, map[string]any{"index": 0, "delta": map[string]any{"content": string(rest[:min(7, len(rest))])}})
		}
		delete(delta, "content")
		for _, choice := range append(choices, map[string]any{"index": 0, "delta": delta}, map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}) {
			b, err := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "spy", "choices": []any{choice}})
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(w, "data: %s\n\n", b)
			if strings.Contains(apis.Written(last.Content), "please go slowly") {
				http.NewResponseController(w).Flush()
				once.Do(func() {
					select {
					case <-s.seen:
					case <-r.Context().Done():
					}
				})
			}
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	s.url = srv.URL + "/v1"
	return s
}

// guises returns the forms in which a value may leak.
func guises(v string) []string {
	b, _ := json.Marshal(v)
	return []string{v, string(b[1 : len(b)-1]), url.QueryEscape(v), url.PathEscape(v), base64.StdEncoding.EncodeToString([]byte(v)), hex.EncodeToString([]byte(v))}
}

// No secret, wherever it comes from, occurs in what Steward stores, logs, prints or
// sends to a model, except where it is stored on purpose.
func TestCanaries(t *testing.T) {
	canaries := map[string]string{
		"env":   "canary-env-3f9a/7+q&x",
		"file":  "canary-file \"quoted\" <8>",
		"store": "canary-störe-55 line",
		"other": "canary-command-0815",
	}
	var all []string
	for _, v := range canaries {
		all = append(all, guises(v)...)
	}
	leak := strings.Join(all, "\n") + "\nAuthorization: Basic " + base64.StdEncoding.EncodeToString([]byte("ada:"+canaries["store"]))
	spied := newSpy(t, canaries["store"])
	env := user(t, "OPENAI_API_KEY="+canaries["env"], "OPENAI_BASE_URL="+spied.url)
	home, notes := homeOf(env), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(home, "key"), canaries["file"]+"\n")
	write(filepath.Join(home, "other"), canaries["other"]+"\n")
	write(filepath.Join(notes, "leak.txt"), leak)
	write(filepath.Join(home, ".config/steward/steward.yaml"), "log: {level: debug}\nfolders: [{name: notes, path: "+notes+"}]\nproviders:\n"+
		"  ollama: {off: true}\n  box: {base_url: '"+spied.url+"', key: 'file:"+filepath.Join(home, "key")+"', model: spy}\n"+
		"  shelf: {base_url: '"+spied.url+"', key: 'command:cat "+filepath.Join(home, "other")+"', model: spy}\n")
	if code, out, errs := in(t, canaries["store"]+"\n", env, "secrets", "set", "STORED"); code != command.ExitOK || out != "" || !strings.Contains(errs, "store:STORED") {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	var told, live bytes.Buffer // output of all servers and the log; the joined pieces of answers
	seen := false
	cmd, r := serveFor(t, env)
	server := cmd.Stderr.(*locked.Buffer)
	conv := ""
	for _, text := range []string{"my password is " + canaries["store"] + ", and " + canaries["file"], "please leak", "please leak plainly", "please go slowly", "please fail"} {
		acc := say(t, r, conv, text)
		conv = acc.Conversation
		fmt.Fprintf(&told, "%+v\n", acc)
		if hidden := strings.Join(acc.Hidden, " "); strings.HasPrefix(text, "my") != (hidden == "STORED key") {
			t.Errorf("%s: hidden %q", text, hidden)
		}
		for f, err := range r.Watch(t.Context(), conv, acc.Cursor) {
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&told, "%+v %s\n", f, f.Args)
			if live.WriteString(f.Text); f.Type == client.FrameToken && text == "please go slowly" && !seen {
				close(spied.seen)
				seen = true
			}
			if f.Interaction == acc.Interaction && (f.Type == client.FrameComplete || f.Type == client.FrameError) {
				break
			}
		}
	}
	get := func(path string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, r.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Authorize(req.Header); err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || len(b) == 0 {
			t.Errorf("%s: %s %s, %v", path, res.Status, b, err)
		}
		told.Write(b)
	}
	for _, path := range []string{"/conversations", "/conversations/" + conv + "/messages", "/conversations/" + conv + "/export", "/log",
		"/search?q=password", "/resources?under=cld:common.Conversation." + conv, "/audit/export?bodies=true", "/audit/verify", "/audit/head", "/intents", "/approvals"} {
		get("/api/v1" + path)
	}
	for _, args := range [][]string{{"conversations", "show", "last"}, {"conversations", "export", conv}, {"messages", "list", "--all"}, {"log"}, {"search", "password"},
		{"audit", "export", "--bodies"}, {"config", "show"}, {"secrets", "list"}, {"doctor"}, {"ask", "--json", "tell " + canaries["store"]}, {"ask", "--model", "shelf/spy", "please fail"}} {
		_, out, errs := in(t, "", env, args...)
		told.WriteString(out + errs)
		if args[0] == "ask" && args[1] == "--json" && !strings.Contains(errs, "contained a secret (STORED)") {
			t.Errorf("the user is not told: %s", errs)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	told.WriteString(server.String())

	look := func(where string, text []byte) {
		t.Helper()
		for _, v := range all {
			if at := bytes.Index(text, []byte(v)); at >= 0 {
				t.Errorf("%s has %q: %q", where, v, text[max(0, at-80):min(len(text), at+80)])
			}
		}
	}
	if !bytes.Contains(told.Bytes(), []byte("«secret:STORED»")) {
		t.Error("nothing was hidden")
	}
	look("what was told", told.Bytes())
	look("what was told while it was written", live.Bytes())
	look("what the model was sent", spied.got.Bytes())
	if !bytes.Contains(spied.got.Bytes(), []byte("«secret:STORED»")) {
		t.Error("the model was sent nothing of it")
	}
	files := 0
	kept := filepath.Join(home, ".local/share/steward/secrets")
	err := filepath.WalkDir(filepath.Join(home, ".local/share/steward"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Dir(path) == kept {
			return err
		}
		b, err := os.ReadFile(path)
		look(path, b)
		files++
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%d files were looked through, %v", files, err)
	}
}

// A secret that is stored while Steward runs is hidden without a restart.
func TestASecretThatIsKeptWhileStewardRuns(t *testing.T) {
	env := user(t)
	cmd, r := serveFor(t, env)
	if code, _, errs := in(t, "canary-late-77\n", env, "secrets", "set", "LATE"); code != command.ExitOK {
		t.Fatal(code, errs)
	}
	for strings.Join(say(t, r, "", "it is canary-late-77").Hidden, " ") != "LATE" {
	} // until the server has noticed the new secret
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestKeysThatCannotBeResolved(t *testing.T) {
	env := user(t)
	conf := filepath.Join(homeOf(env), "x.yaml")
	for ref, code := range map[string]string{"store:NONE": "secret_missing", "env:NONE": "secret_missing", "command:false": "secret_command_failed"} {
		if err := os.WriteFile(conf, []byte("providers: {openai: {key: '"+ref+"'}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, _, errs := in(t, "", env, "--config", conf, "ask", "hello"); c != command.ExitFailed || !strings.Contains(errs, code) || !strings.Contains(errs, "openai") {
			t.Errorf("%s: %d %s", ref, c, errs)
		}
		if _, out, _ := in(t, "", env, "--config", conf, "config", "show"); !strings.Contains(out, ref) {
			t.Errorf("%s is not shown:\n%s", ref, out)
		}
	}
}
