package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tmux is a terminal of a given size that runs a program, as a person sees it.
type tmux struct {
	t      *testing.T
	socket string
}

func newTmux(t *testing.T, width, height int, env []string, args ...string) *tmux {
	t.Helper()
	path, err := exec.LookPath("steward")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tmux") // a short path, because that of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	x := &tmux{t, filepath.Join(dir, "s")}
	t.Cleanup(func() {
		x.do("kill-server")
		os.RemoveAll(dir)
	})
	line := []string{"-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "env", "-i", "TERM=screen-256color", "LANG=C.UTF-8"}
	script := `"$@"; echo "it ended with $?"; exec sleep 600`
	line = append(append(append(line, env...), "sh", "-c", script, "sh", path), args...)
	if out, err := x.do(line...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return x
}

func (x *tmux) do(args ...string) (string, error) {
	cmd := exec.Command("tmux", append([]string{"-u", "-S", x.socket}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// screen returns the text on the screen and in the scrollback.
func (x *tmux) screen() string {
	x.t.Helper()
	out, err := x.do("capture-pane", "-p", "-S", "-1000")
	if err != nil {
		x.t.Fatalf("%v: %s", err, out)
	}
	return out
}

// wait waits until all of the texts are on the screen, and returns the screen.
// Earlier text counts as well: see done.
func (x *tmux) wait(texts ...string) string {
	x.t.Helper()
	return x.until(func(screen string) (missing string) {
		for _, w := range texts {
			if !strings.Contains(screen, w) {
				missing = w
			}
		}
		return missing
	})
}

// until waits until nothing is missing, and returns the screen.
func (x *tmux) until(missing func(screen string) string) string {
	x.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		screen := x.screen()
		what := missing(screen)
		if what == "" {
			return screen
		}
		select {
		case <-tick.C:
		case <-deadline:
			x.t.Fatalf("%q never came:\n%s", what, screen)
		}
	}
}

// done waits until all of the texts are on the screen, in order and below the last
// input, and the chat shows that nothing is being sent and no turn runs. Input before
// that would go to the running turn.
func (x *tmux) done(said string, texts ...string) string {
	x.t.Helper()
	return x.until(func(screen string) string {
		rest := screen[max(strings.LastIndex(screen, said), 0):]
		for _, w := range append([]string{said}, texts...) {
			var ok bool
			if _, rest, ok = strings.Cut(rest, w); !ok {
				return w
			}
		}
		for _, w := range []string{"sending: ", "Esc stops"} {
			if strings.Contains(rest, w) { // text above may be from before the first frame
				return "rest"
			}
		}
		return ""
	})
}

// ended waits until the program has ended successfully.
func (x *tmux) ended() {
	x.t.Helper()
	x.wait("it ended with 0")
}

func (x *tmux) keys(keys ...string) {
	x.t.Helper()
	if out, err := x.do(append([]string{"send-keys"}, keys...)...); err != nil {
		x.t.Fatalf("%v: %s", err, out)
	}
}

func (x *tmux) say(text string) { x.keys("-l", text); x.keys("Enter") }

func TestTheChatOnAScreen(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {40, 12}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) { onScreen(t, size[0], size[1]) })
	}
}

func onScreen(t *testing.T, width, height int) {
	v := newVendor(t)
	env := v.env(t)
	notes := t.TempDir()
	if err := os.WriteFile(filepath.Join(homeOf(env), ".config/steward/steward.yaml"),
		[]byte("providers: {ollama: {off: true}}\nfolders: [{name: notes, path: "+notes+", write: true}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := newTmux(t, width, height, env, "chat")
	x.wait("serving at http://127.0.0.1:", "Ask something, or /help")
	x.say("show markdown")
	screen := x.done("› show markdown", "• one", "• two", "The end.", "openai/gpt-5.4")
	if strings.Count(screen, "• one") != 1 || strings.Contains(screen, "**") {
		t.Errorf("drawn twice, or not at all:\n%s", screen)
	}
	x.say("write a.txt")
	x.wait("? files.write", `"content":"text<U+202E>",`, `"path":"notes/a.txt"`, "Allow files.write? y/n")
	x.answer("y")
	x.done("allowed: files.write", "✓ Write notes/a.txt · files.write", "The tool said:", "openai/gpt-5.4")
	if _, err := os.Stat(filepath.Join(notes, "a.txt")); err != nil {
		t.Error(err)
	}
	x.say("please hang")
	<-v.asked
	x.wait("Hanging about", "Esc stops")
	x.keys("Escape")
	<-v.gone
	x.wait("stopped · ")
	x.say("/model")
	x.wait("openai/newer", "type to filter")
	x.keys("Escape")
	// A terminal takes Escape and a key right behind it for Alt and the key.
	x.until(func(screen string) string {
		if strings.Contains(screen, "type to filter") {
			return "the end of the list"
		}
		return ""
	})
	x.say("/tools")
	x.wait("[action]", "text.hash")

	// A second chat joins, and both show the same.
	y := newTmux(t, width, height, env, "chat", "--continue")
	y.wait("joined the Steward at", "› please hang")
	y.say("from the other side")
	x.done("› from the other side", "You said: from the other side", "openai/gpt-5.4")
	y.done("› from the other side", "You said: from the other side", "openai/gpt-5.4")
	y.say("/title Both")
	y.wait("the title is now: Both")
	y.keys("C-d")
	y.ended()
	x.keys("C-c") // a single Ctrl-C does not end the chat
	x.say("/quit")
	x.ended()
	screen = x.screen()
	if strings.Contains(screen, "model: ▏") {
		t.Errorf("the list has left something behind:\n%s", screen)
	}
	for line := range strings.SplitSeq(screen, "\n") {
		if len([]rune(line)) > width {
			t.Errorf("too wide: %q", line)
		}
	}
}

func TestDoctorOnAScreen(t *testing.T) {
	env := user(t)
	x := newTmux(t, 100, 40, env, "doctor")
	x.wait("ok    terminal   screen-256color, 100 by 40")
	x = newTmux(t, 100, 40, append(env, "LC_ALL=C"), "doctor")
	x.wait("warn  terminal", "is not UTF-8")
	x = newTmux(t, 30, 40, env, "doctor")
	x.wait("warn  terminal", "make it at")
}
