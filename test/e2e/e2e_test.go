//go:build long

// Package e2e does what a person does on the first evening, with the real binary
// in a real terminal.
package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/test/edge"
)

func TestMain(m *testing.M) { os.Exit(edge.Main(m)) }

// model calls the calculator and then says the result, from the second time on
// in other words. Asked for a story, it stops after a few words until goOn is
// set.
type model struct {
	halfway chan struct{} // receives a token in the middle of each story
	goOn    atomic.Bool
}

func (m *model) reply(in edge.Asked) edge.Reply {
	switch last := in.Last(); {
	case last.Role == "tool":
		results := 0
		for _, msg := range in.Messages {
			if msg.Role == "tool" {
				results++
			}
		}
		is := "It is "
		if results > 1 {
			is = "It is still "
		}
		return edge.Reply{Text: is + last.Text() + "."}
	case !strings.Contains(last.Text(), "story"):
		return edge.Reply{Calls: []edge.Call{{Name: "math.multiply", Args: map[string]any{"a": 12, "b": 34}}}}
	case m.goOn.Load():
		return edge.Reply{Text: "Once upon a time there was a steward."}
	}
	return edge.Reply{Raw: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		edge.Chunk(w, map[string]any{"content": "Once upon a time "}, nil)
		w.(http.Flusher).Flush()
		select {
		case m.halfway <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}}
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
	for told := time.Now(); !is(); {
		if time.Since(told) > time.Minute { // the end of the test run shows no screen
			tm.t.Logf("the terminal does not show yet that %s:\n%s", what, tm.screen())
			told = time.Now()
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
	m := &model{halfway: make(chan struct{}, 1)}
	n := edge.New(t, edge.Options{Model: edge.Script(t, m.reply)})
	tm := &terminal{t: t, dir: n.Dir}
	tm.open(n.Env, edge.Binary()+" chat --model openai/gpt-test")
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
	tm.open(n.Env, edge.Binary()+" chat --continue --model openai/gpt-test")
	tm.rest("there was a steward.")
	for _, said := range []string{"What is 12 times 34?", "It is 408.", "Tell me a story"} {
		tm.see(said)
	}
	tm.type_("What is 12 times 34, again?")
	tm.rest("It is still 408.")
	tm.type_("/quit")
	tm.ended()

	out := n.Must("conversations", "list", "--json")
	if strings.Count(out, `"title"`) != 1 || !strings.Contains(out, "What is 12 times 34?") {
		t.Errorf("conversations: %s", out)
	}
}
