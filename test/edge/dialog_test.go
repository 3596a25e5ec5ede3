//go:build long

package edge

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// step is what a person waits to see and then types.
type step struct{ see, keys string }

// Dialog runs a command at a terminal and takes the steps one after the other. It returns the exit
// code and everything that was shown.
func (n *Node) Dialog(steps []step, args ...string) (string, int) {
	n.T.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Dir = append(n.Env, "TERM=xterm-256color", "LANG=C.UTF-8"), n.Dir
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 100, Rows: 40})
	if err != nil {
		n.T.Fatal(err)
	}
	defer tty.Close()
	var all, since bytes.Buffer
	b := make([]byte, 4096)
	for {
		if len(steps) > 0 && strings.Contains(since.String(), steps[0].see) {
			since.Next(strings.Index(since.String(), steps[0].see) + len(steps[0].see))
			if _, err := tty.WriteString(steps[0].keys); err != nil {
				n.T.Fatal(err)
			}
			steps = steps[1:]
			continue
		}
		k, err := tty.Read(b)
		if err != nil { // the other side has closed
			break
		}
		all.Write(b[:k])
		since.Write(b[:k])
	}
	cmd.Wait() //nolint:errcheck // the exit code says it
	if len(steps) > 0 {
		n.T.Fatalf("%q never came: %s", steps[0].see, all.String())
	}
	return all.String(), cmd.ProcessState.ExitCode()
}

func TestWithoutAModel(t *testing.T) {
	n := newcomer(t, Options{})
	out, _ := n.Dialog([]step{{"Enter continues without", "\r"}, {"Folder in which", "files\r"}, {"Write an absolute path", "off\r"}, {"ntfy", "my-phone\r"}, {"Ask something", "What is 17 plus 25?\r"}, {"42", "/quit\r"}}, "setup")
	if !strings.Contains(out, "ollama pull") {
		t.Error(out)
	}
	b, err := os.ReadFile(filepath.Join(n.Dir, ".config", "steward", "steward.yaml"))
	if err != nil || string(b) != "workspace: \"off\"\nnotify:\n  ntfy:\n    topic: \"my-phone\"\n" {
		t.Errorf("%v %s", err, b)
	}
}

// TestSetupIsLeft: Ctrl-C at a question ends setup, and nothing is left behind.
func TestSetupIsLeft(t *testing.T) {
	n := newcomer(t, Options{})
	out, code := n.Dialog([]step{{"Enter continues without", "\x03"}}, "setup")
	if code != 130 {
		t.Errorf("%d %s", code, out)
	}
	filepath.Walk(n.Dir, func(path string, info os.FileInfo, err error) error { //nolint:errcheck // what is there is told
		if err == nil && !info.IsDir() {
			t.Errorf("left behind: %s", path)
		}
		return nil
	})
}
