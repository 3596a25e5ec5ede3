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

	"steward/test/apis"
	"steward/test/built"
)

// patience is how long what has to come is waited for: on no machine is it too
// short for what is right.
const patience = 5 * time.Minute

// model speaks OpenAI's protocol: a call of the calculator, then what it said,
// from the second time on in other words. Asked for a story it stops after a
// few words, until it is let go on.
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
	if err := errors.Join(apis.CheckOpenAI(body), json.Unmarshal(body, &in)); err != nil {
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
	results := 0
	for _, msg := range in.Messages {
		if msg.Role == "tool" {
			results++
		}
	}
	switch {
	case last.Role == "tool":
		is := "It is "
		if results > 1 {
			is = "It is still "
		}
		say(map[string]any{"content": is + strings.Trim(string(last.Content), `"`) + "."}, nil)
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
	dir    string
	socket string
	opened int
}

func (tm *terminal) tmux(args ...string) string {
	tm.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-f", "/dev/null", "-S", tm.socket}, args...)...).CombinedOutput()
	if err != nil {
		tm.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// open runs a command in a session of a new server: the one before may still be
// about to end.
func (tm *terminal) open(env []string, command string) {
	tm.opened++
	tm.socket = filepath.Join(tm.dir, fmt.Sprintf("tmux%d", tm.opened))
	end := exec.Command("tmux", "-S", tm.socket, "kill-server")
	tm.t.Cleanup(func() { end.Run() })
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

// wait waits until something is so.
func (tm *terminal) wait(what string, is func() bool) {
	tm.t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			tm.t.Fatalf("the terminal does not show that %s:\n%s", what, tm.screen())
		}
		<-time.After(50 * time.Millisecond)
	}
}

// see waits until the terminal shows the text.
func (tm *terminal) see(text string) {
	tm.t.Helper()
	tm.wait(fmt.Sprintf("%q was said", text), func() bool { return strings.Contains(tm.screen(), text) })
}

// rest waits until the terminal shows the text, which it has not shown before,
// and the turn in which it was said is over.
func (tm *terminal) rest(text string) {
	tm.t.Helper()
	tm.wait(fmt.Sprintf("%q was said, and that is all", text), func() bool {
		screen := strings.TrimSpace(tm.screen())
		return strings.Contains(screen, text) && strings.HasSuffix(screen, " · /help")
	})
}

// ended waits until the program has ended.
func (tm *terminal) ended() {
	tm.t.Helper()
	tm.wait("the program has ended", func() bool {
		return strings.TrimSpace(tm.tmux("list-panes", "-t", "chat", "-F", "#{pane_dead}")) == "1"
	})
}

func TestFirstConversation(t *testing.T) {
	dir := t.TempDir()
	bin, err := built.Program("steward/cmd/steward")
	if err != nil {
		t.Fatal(err)
	}
	m := &model{t: t, halfway: make(chan struct{}, 1)}
	srv := httptest.NewServer(m)
	defer srv.Close()
	env := []string{"HOME=" + dir, "XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "STEWARD_DATA=" + filepath.Join(dir, "data"), "STEWARD_LISTEN=127.0.0.1:0",
		"OPENAI_API_KEY=test-key", "OPENAI_BASE_URL=" + srv.URL + "/v1", "OLLAMA_HOST=127.0.0.1:1"}

	tm := &terminal{t: t, dir: dir}
	tm.open(env, bin+" chat --model openai/gpt-test")
	tm.rest("serving at ")
	tm.type_("What is 12 times 34?")
	tm.rest("It is 408.")
	tm.type_("Tell me a story")
	<-m.halfway
	tm.see("Once upon a time")
	pid := strings.TrimSpace(tm.tmux("list-panes", "-t", "chat", "-F", "#{pane_pid}"))
	if out, err := exec.Command("kill", "-9", pid).CombinedOutput(); err != nil {
		t.Fatalf("kill: %v %s", err, out)
	}
	tm.ended()

	m.goOn.Store(true)
	tm.open(env, bin+" chat --continue --model openai/gpt-test")
	tm.rest("there was a steward.")
	for _, said := range []string{"What is 12 times 34?", "It is 408.", "Tell me a story"} {
		tm.see(said)
	}
	tm.type_("What is 12 times 34, again?")
	tm.rest("It is still 408.")
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
