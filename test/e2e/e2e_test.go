// Package e2e does with the real binary, in a real terminal, what a person
// does on the first evening.
package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/provider/providertest"
)

// model speaks OpenAI's protocol: a call of the calculator, then what it said.
// Asked for a story it stops after a few words, until it is let go on.
type model struct {
	t       *testing.T
	halfway chan struct{} // gets a token in the middle of each story
	goOn    atomic.Bool
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/chat/completions" {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"gpt-test","object":"model","created":1,"owned_by":"test"}]}`)
		return
	}
	var in struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // whoever asked was killed while asking
	}
	if err := errors.Join(providertest.CheckOpenAI(body), json.Unmarshal(body, &in)); err != nil {
		m.t.Errorf("%v: %s", err, body)
		http.Error(w, err.Error(), 400)
		return
	}
	last := in.Messages[len(in.Messages)-1]
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(delta map[string]any, finish any) {
		b, _ := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
		fmt.Fprintf(w, "data: %s\n\n", b)
		w.(http.Flusher).Flush()
	}
	switch {
	case last.Role == "tool":
		say(map[string]any{"content": "It is " + strings.Trim(string(last.Content), `"`) + "."}, nil)
		say(map[string]any{}, "stop")
	case strings.Contains(string(last.Content), "story"):
		say(map[string]any{"content": "Once upon a time "}, nil)
		if !m.goOn.Load() {
			select {
			case m.halfway <- struct{}{}:
			default:
			}
			<-r.Context().Done()
			return
		}
		say(map[string]any{"content": "there was a steward."}, nil)
		say(map[string]any{}, "stop")
	default:
		say(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "call_1", "type": "function",
			"function": map[string]any{"name": "math__multiply", "arguments": `{"a":12,"b":34}`}}}}, nil)
		say(map[string]any{}, "tool_calls")
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// terminal is a tmux session of its own server.
type terminal struct {
	t      *testing.T
	socket string
}

func (tm *terminal) tmux(args ...string) string {
	tm.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-f", "/dev/null", "-S", tm.socket}, args...)...).CombinedOutput()
	if err != nil {
		tm.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (tm *terminal) open(env []string, command string) {
	args := []string{"new-session", "-d", "-s", "chat", "-x", "100", "-y", "40"}
	for _, e := range env {
		args = append(args, "-e", e)
	}
	tm.tmux(append(args, "exec "+command)...)
	tm.tmux("set-option", "-g", "remain-on-exit", "on")
}

func (tm *terminal) type_(text string) {
	tm.tmux("send-keys", "-t", "chat", "-l", text)
	tm.tmux("send-keys", "-t", "chat", "Enter")
}

func (tm *terminal) screen() string { return tm.tmux("capture-pane", "-p", "-S", "-200", "-t", "chat") }

// see waits until the terminal shows the text.
func (tm *terminal) see(text string) {
	tm.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !strings.Contains(tm.screen(), text) {
		if time.Now().After(deadline) {
			tm.t.Fatalf("the terminal does not show %q:\n%s", text, tm.screen())
		}
		<-time.After(50 * time.Millisecond)
	}
}

// ended waits until the program has ended.
func (tm *terminal) ended() {
	tm.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for strings.TrimSpace(tm.tmux("list-panes", "-t", "chat", "-F", "#{pane_dead}")) != "1" {
		if time.Now().After(deadline) {
			tm.t.Fatalf("the program does not end:\n%s", tm.screen())
		}
		<-time.After(50 * time.Millisecond)
	}
}

func TestFirstConversation(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "steward")
	if out, err := exec.Command("go", "build", "-o", bin, "steward/cmd/steward").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := &model{t: t, halfway: make(chan struct{}, 1)}
	srv := httptest.NewServer(m)
	defer srv.Close()
	env := []string{"HOME=" + dir, "XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "STEWARD_DATA=" + filepath.Join(dir, "data"), "STEWARD_LISTEN=127.0.0.1:0",
		"OPENAI_API_KEY=test-key", "OPENAI_BASE_URL=" + srv.URL + "/v1", "OLLAMA_HOST=127.0.0.1:1"}

	tm := &terminal{t, filepath.Join(dir, "tmux")}
	tm.open(env, bin+" chat --model openai/gpt-test")
	defer exec.Command("tmux", "-S", tm.socket, "kill-server").Run()
	tm.see("/help")
	tm.type_("What is 12 times 34?")
	tm.see("It is 408.")
	tm.type_("Tell me a story")
	<-m.halfway
	tm.see("Once upon a time")
	pid := strings.TrimSpace(tm.tmux("list-panes", "-t", "chat", "-F", "#{pane_pid}"))
	if out, err := exec.Command("kill", "-9", pid).CombinedOutput(); err != nil {
		t.Fatalf("kill: %v %s", err, out)
	}
	tm.ended()
	tm.tmux("kill-session", "-t", "chat")

	m.goOn.Store(true)
	tm.open(env, bin+" chat --continue --model openai/gpt-test")
	tm.see("there was a steward.")
	for _, said := range []string{"What is 12 times 34?", "It is 408.", "Tell me a story"} {
		tm.see(said)
	}
	tm.type_("What is 12 times 34, again?")
	tm.see("again?")
	tm.type_("/quit")
	tm.ended()

	cmd := exec.Command(bin, "conversations", "list", "--json")
	cmd.Env = env
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), `"title"`); n != 1 || !strings.Contains(string(out), "What is 12 times 34?") {
		t.Errorf("conversations: %s", out)
	}
}
