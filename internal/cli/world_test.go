package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/server/auth"
	"steward/internal/terminal"
	"steward/test/apis"
	"steward/test/locked"
)

// vendor speaks OpenAI's protocol, and the part of Ollama's that Steward uses.
type vendor struct {
	t     *testing.T
	url   string
	asked chan string // receives the text of each request that should hang
	gone  chan struct{}
}

func newVendor(t *testing.T) *vendor {
	v := &vendor{t: t, asked: make(chan string, 8), gone: make(chan struct{}, 8)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer wrong" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`)
			return
		}
		fmt.Fprint(w, `{"object":"list","data":[{"id":"older","object":"model","created":1},{"id":"newer","object":"model","created":2}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", v.chat)
	mux.HandleFunc("GET /api/tags", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"models":[{"name":"poet:1b","modified_at":"2026-03-01T00:00:00Z"},{"name":"worker:8b","modified_at":"2026-02-01T00:00:00Z"},{"name":"vectors:1b","modified_at":"2026-01-01T00:00:00Z"}]}`)
	})
	mux.HandleFunc("POST /api/show", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Model string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		can := map[string]string{"poet:1b": `"completion"`, "worker:8b": `"completion","tools"`, "vectors:1b": `"embedding"`}[in.Model]
		fmt.Fprintf(w, `{"capabilities":[%s]}`, can)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	v.url = s.URL
	return v
}

// chat answers as the last message asks.
func (v *vendor) chat(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Model    string
		Messages []struct {
			Role    string
			Content any
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client was killed during the request
	}
	if err := errors.Join(apis.CheckOpenAI(body), json.Unmarshal(body, &in)); err != nil {
		v.t.Errorf("%v: %s", err, body)
		return
	}
	last := in.Messages[len(in.Messages)-1]
	text := apis.Written(last.Content)
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(delta map[string]any, finish any) {
		b, err := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": in.Model,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
		if err != nil {
			v.t.Error(err)
		}
		fmt.Fprintf(w, "data: %s\n\n", b)
		w.(http.Flusher).Flush()
	}
	finish := "stop"
	switch {
	case last.Role == "tool":
		say(map[string]any{"content": "The tool said: " + text}, nil)
	case strings.Contains(text, "write "):
		name := strings.Fields(text)[len(strings.Fields(text))-1]
		args := fmt.Sprintf(`{"path":"notes/%s","content":"text\u202e"}`, name)
		say(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "c1", "type": "function",
			"function": map[string]any{"name": "files__write", "arguments": args}}}}, nil)
		finish = "tool_calls"
	case strings.Contains(text, "hang"):
		say(map[string]any{"content": "Hanging about"}, nil)
		v.asked <- text
		<-r.Context().Done()
		v.gone <- struct{}{}
		return
	case strings.Contains(text, "markdown"):
		say(map[string]any{"content": "# Head\n\n- one\n- two\n\nThe **end**."}, nil)
	case strings.Contains(text, "cut"):
		say(map[string]any{"content": "cut off"}, nil)
		finish = "length"
	default:
		say(map[string]any{"content": "You said: " + text}, nil)
	}
	say(map[string]any{}, finish)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// env returns the environment of a user with the vendor's key.
func (v *vendor) env(t *testing.T, more ...string) []string {
	return user(t, append([]string{"OPENAI_API_KEY=right", "OPENAI_BASE_URL=" + v.url + "/v1"}, more...)...)
}

func homeOf(env []string) string { return strings.TrimPrefix(env[0], "HOME=") }

func TestAskAVendor(t *testing.T) {
	v := newVendor(t)
	env := v.env(t)
	code, out, errs := in(t, "", env, "ask", "hello")
	if code != command.ExitOK || out != "You said: hello\n" || !strings.HasPrefix(errs, "conversation ") {
		t.Errorf("%d %q %q", code, out, errs)
	}
	code, out, errs = in(t, "the context", env, "ask", "-q", "--continue", "--model", "openai/newer", "what is this?")
	if code != command.ExitOK || !strings.Contains(out, "what is this?") || !strings.Contains(out, "the context") || errs != "" {
		t.Errorf("%d %q %q", code, out, errs)
	}
	// Without a person to ask, nothing is done.
	conf := filepath.Join(homeOf(env), "steward.yaml")
	if err := os.WriteFile(conf, []byte("folders: [{name: notes, path: "+t.TempDir()+", write: true}]\nlimits: {iterations: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs = in(t, "", env, "ask", "--config", conf, "write a.txt")
	if code != command.ExitBound || !strings.Contains(errs, "← files.write denied") {
		t.Errorf("a bound of the run: %d %q %q", code, out, errs)
	}
	code, out, errs = in(t, "", env, "doctor")
	if code != command.ExitOK || !strings.Contains(out, "ok    openai     set by environment OPENAI_API_KEY; 2 models") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	code, out, _ = in(t, "", append(env, "OPENAI_API_KEY=wrong"), "doctor")
	if code != command.ExitFailed || !strings.Contains(out, "fail  openai") || !strings.Contains(out, "→") {
		t.Errorf("%d %s", code, out)
	}
}

func TestServersAndOllamaAreAskedWhatTheyHave(t *testing.T) {
	v := newVendor(t)
	env := user(t, "OLLAMA_HOST="+strings.TrimPrefix(v.url, "http://"))
	if err := os.WriteFile(filepath.Join(homeOf(env), ".config/steward/steward.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, errs := in(t, "", env, "models")
	for _, want := range []string{"default  ollama/worker:8b", "fast     ollama/worker:8b", "embed    ollama/vectors:1b", "ollama    set by environment OLLAMA_HOST"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s%s", want, out, errs)
		}
	}
	conf := filepath.Join(homeOf(env), "box.yaml")
	if err := os.WriteFile(conf, []byte("providers: {box: {base_url: \""+v.url+"/v1\"}, down: {base_url: \"http://127.0.0.1:9/v1\"}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, _ = in(t, "", env, "models", "--config", conf)
	for _, want := range []string{"default  box/newer", "down      down cannot be reached"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	_, out, _ = in(t, "", env, "ask", "-q", "--config", conf, "hello")
	if out != "You said: hello\n" {
		t.Errorf("%q", out)
	}
}

func TestSignals(t *testing.T) {
	v := newVendor(t)
	env := v.env(t)
	signals := make(chan os.Signal, 2)
	var out bytes.Buffer
	var errs locked.Buffer
	a := &program{Program: command.Program{Stdin: strings.NewReader(""), Stdout: &out, App: app.App{Stderr: &errs, Environ: env, Dir: t.TempDir()}}, signals: signals, exit: func(int) { t.Error("ended at once") }}
	go func() {
		<-v.asked
		signals <- os.Interrupt
	}()
	if code := a.run(context.Background(), []string{"ask", "please hang"}); code != command.ExitInterrupted {
		t.Errorf("%d %s", code, &errs)
	}
	<-v.gone
	code, show, _ := in(t, "", env, "conversations", "show", "last")
	if code != command.ExitOK || !strings.Contains(show, "please hang") {
		t.Errorf("%d %s", code, show)
	}
	// The turn was stopped, so it is not resumed.
	if code, answer, errs := in(t, "", env, "ask", "-q", "--continue", "still there?"); code != command.ExitOK || !strings.Contains(answer, "still there?") {
		t.Errorf("%d %q %s", code, answer, errs)
	}
}

func TestTheSecondSignalEndsAtOnce(t *testing.T) {
	signals, ended := make(chan os.Signal), make(chan int, 1)
	a := &program{signals: signals, exit: func(code int) { ended <- code }}
	ctx, stop := a.interruptible(t.Context())
	defer stop()
	signals <- os.Interrupt
	<-ctx.Done()
	signals <- os.Interrupt
	if code := <-ended; code != command.ExitInterrupted {
		t.Error(code)
	}
}

// serveFor runs a server in a separate process and returns a session that is connected
// to it.
func serveFor(t *testing.T, env []string) (*exec.Cmd, *command.Session) {
	t.Helper()
	cmd := buildProgram(t, env, "serve", "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs locked.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var n app.Notice
	if err := json.NewDecoder(out).Decode(&n); err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	a := &command.Program{App: app.App{Environ: env, Dir: t.TempDir(), Stderr: &errs}}
	set, err := a.Settings()
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Join(set)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.End(); err != nil {
			t.Error(err)
		}
		if err := cmd.Process.Signal(os.Interrupt); err == nil {
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, &errs)
			}
		}
	})
	return cmd, s
}

func say(t *testing.T, s *command.Session, conv, text string) client.Accepted {
	t.Helper()
	acc, err := s.Say(t.Context(), client.Message{Conversation: conv, Content: terminal.Words(text), Model: "default", ID: id.New().String()})
	if err != nil {
		t.Fatal(err)
	}
	return acc
}

func TestAServerThatIsGone(t *testing.T) {
	v := newVendor(t)
	cmd, s := serveFor(t, v.env(t))
	acc := say(t, s, "", "hello")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("killed and content")
	}
	ctx := t.Context()
	_, err := s.Say(ctx, client.Message{Content: terminal.Words("x")})
	for _, err := range []error{err, s.Stop(ctx, acc.Conversation), s.DeleteConversation(ctx, acc.Conversation, false), s.Call(ctx, "GET /models", nil, nil, nil)} {
		if !fault.HasCode(err, "server_unreachable") || fault.Of(err).Remedy == "" {
			t.Error(err)
		}
	}
	n := 0
	for _, err := range s.Watch(ctx, acc.Conversation, "") {
		if n++; !fault.HasCode(err, "server_unreachable") {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
	// A server that is not Steward, and a wrong token.
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	s.Client = client.New(client.Options{URL: other.URL, HTTP: s.HTTP(), Fault: auth.FaultOf})
	if err := s.Call(ctx, "GET /models", nil, nil, nil); !fault.HasCode(err, "server_refused") {
		t.Error(err)
	}
	if err := s.Stop(ctx, acc.Conversation); !fault.HasCode(err, "server_refused") {
		t.Error(err)
	}
}

// TestAChatIsJoined: while a chat is open, other commands use its server.
func TestAChatIsJoined(t *testing.T) {
	v := newVendor(t)
	env := v.env(t)
	cmd := buildProgram(t, env, "chat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(stdin, "first"); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	if n, err := stdout.Read(line); err != nil || !strings.HasPrefix(string(line[:n]), "You said:") {
		t.Fatalf("%v %q", err, line[:n])
	}
	code, out, errs := in(t, "", env, "ask", "-q", "--continue", "second")
	if code != command.ExitOK || out != "You said: second\n" {
		t.Errorf("%d %q %s", code, out, errs)
	}
	if code, _, errs := in(t, "", env, "serve"); code != command.ExitFailed || !strings.Contains(errs, "data_in_use") {
		t.Errorf("%d %s", code, errs)
	}
	if err := stdin.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
