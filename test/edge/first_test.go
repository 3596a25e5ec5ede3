package edge

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// newcomer is a person who has installed Steward and set nothing: no settings, no folder, no
// variable of Steward's.
func newcomer(t *testing.T, o Options) *Node {
	n := New(t, o)
	n.Env = slices.DeleteFunc(n.Env, func(v string) bool { return strings.HasPrefix(v, "STEWARD_") })
	return n
}

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

// trial answers the trial call of setup.
func trial(t *testing.T) Options {
	return Options{Model: Script(t, func(Asked) Reply {
		return Reply{Calls: []Call{{Name: "note_number", Args: map[string]any{"number": 417}}}}
	})}
}

// TestTheFirstMinute: a person with a key of OpenAI in the environment types "steward chat", Enter for
// each question, one sentence, and has the answer of a tool. It takes two questions.
func TestTheFirstMinute(t *testing.T) {
	n := newcomer(t, Options{Env: openAI(t, func(asked, result string) (text, call, args string) {
		switch {
		case result != "":
			return "Done: " + result, "", ""
		case strings.Contains(asked, "note_number"): // the trial call
			return "", "note_number", `{"number":417}`
		}
		return "", "reminder.set", `{"text":"drink tea","in_minutes":1}`
	})})
	out, code := n.Dialog([]step{
		{"Folder in which", "\r"},
		{"ntfy", "\r"},
		{"answers and uses tools", ""},
		{"Ask something", "remind me in one minute to drink tea\r"},
		{"✓ Remind you in 1 min: drink tea · reminder.set", ""},
		{"Done: ", ""},
		{"context 9.1k of", "/quit\r"},
	}, "chat")
	if code != 0 || strings.Count(out, "] ") != 2 { // each question ends with its default in brackets
		t.Errorf("%d %s", code, out)
	}
	b, err := os.ReadFile(filepath.Join(n.Dir, ".config", "steward", "steward.yaml"))
	if err != nil || !strings.Contains(string(b), "default: openai/gpt-5.4") {
		t.Errorf("%v %s", err, b)
	}
	out, _ = n.Dialog([]step{{"Ask something", "/quit\r"}}, "chat")
	if strings.Contains(out, "sets itself up") {
		t.Errorf("it asks again: %s", out)
	}
}

func TestWithoutAModel(t *testing.T) {
	n := newcomer(t, Options{})
	out, _ := n.Dialog([]step{{"Enter goes on without", "\r"}, {"Folder in which", "files\r"}, {"Write an absolute path", "off\r"}, {"ntfy", "my-phone\r"}, {"Ask something", "What is 17 plus 25?\r"}, {"42", "/quit\r"}}, "chat")
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
	out, code := n.Dialog([]step{{"Enter goes on without", "\x03"}}, "setup")
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

// TestATypedKey: a key is not shown, and is forgotten if it does not work.
func TestATypedKey(t *testing.T) {
	const key = "sk-0123456789abcdefghij"
	n := newcomer(t, Options{Env: []string{"HTTPS_PROXY=http://127.0.0.1:1"}}) // no vendor can be reached
	out, code := n.Dialog([]step{
		{"Enter goes on without", "nonsense\r"},
		{"Enter goes on without", key + "\r"},
		{"Folder in which", "\r"},
		{"ntfy", "\r"},
		{"It is not stored", ""},
		{"Ask something", "/quit\r"},
	}, "setup")
	if code != 0 || strings.Contains(out, key) || strings.Contains(out, "nonsense") {
		t.Errorf("%d %s", code, out)
	}
	if files, err := os.ReadDir(filepath.Join(n.Dir, ".local/share/steward/secrets")); err == nil && len(files) > 0 {
		t.Errorf("stored: %v", files)
	}
}

func TestSetupWithoutATerminal(t *testing.T) {
	n := newcomer(t, trial(t))
	if r := n.Run("setup"); r.Code != 2 || !strings.Contains(r.Err, "--yes") {
		t.Errorf("%+v", r)
	}
	n.Write("# mine\nlog: {level: warn}\nkeep:\n  # for good\n  unused: 48h\n", ".config", "steward", "steward.yaml")
	if r := n.Run("setup", "--yes"); r.Code != 0 || !strings.Contains(r.Err, "answers and uses tools") {
		t.Errorf("%+v", r)
	}
	b, err := os.ReadFile(filepath.Join(n.Dir, ".config", "steward", "steward.yaml"))
	if err != nil || !strings.HasPrefix(string(b), "# mine\nlog: {level: warn}\nkeep:\n  # for good\n  unused: 48h\nmodels:\n  default: openai/") {
		t.Errorf("%v %s", err, b)
	}
}
