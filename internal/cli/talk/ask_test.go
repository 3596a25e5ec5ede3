package talk

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/test/fresh"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/activity"
	"steward/internal/cli/command"
	"steward/internal/terminal"
	"steward/test/locked"
)

// The frame of a background call's end reaches only clients that watch at that moment.
// Ask reports the end nevertheless, and only once.
func TestAskTellsOfACallThatEndedBeforeAnybodyWatched(t *testing.T) {
	env := fresh.User(t)
	agents := t.TempDir()
	for file, text := range map[string]string{
		filepath.Join(agents, "lists", "agent.yaml"):                                                     "name: lists\ndescription: Keeps the to-do list of tasks.\ntools: [todo.*]\ndeferred: [todo.*]\n",
		filepath.Join(strings.TrimPrefix(env[0], "HOME="), ".local/share/steward/policies", "mine.rego"): "package steward\n\ntrusted if input.tool.name == \"todo.add\"\n",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var notes locked.Buffer
	a := &program{Program: &command.Program{Stdin: strings.NewReader(""), Stdout: io.Discard, App: app.App{Stderr: &notes, Environ: env, Dir: t.TempDir(), Version: "test", AgentFolders: []string{agents}}}}
	set, err := a.Settings()
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Connect(t.Context(), set, command.NeedNode, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.End(); err != nil {
			t.Error(err)
		}
	}()
	var shown struct{ Hash string }
	if err := s.Call(t.Context(), "POST /agents/inspect", nil, map[string]string{"path": "lists"}, &shown); err != nil {
		t.Fatal(err)
	}
	if err := s.Call(t.Context(), "POST /agents/approve", nil, map[string]string{"path": "lists", "hash": shown.Hash}, nil); err != nil {
		t.Fatal(err)
	}
	var out answer
	w := &terminal.Writer{Out: io.Discard, Notes: &notes}
	m := client.Message{Agent: "lists", Content: terminal.Words(`Add the task "buy milk"`), Unattended: true}
	acc, err := terminal.Follow(t.Context(), s.Client, m, func(f client.Frame) error {
		out.note(f)
		if f.Type == client.FrameTask {
			return nil // simulates a frame that comes after the last one
		}
		return w.Frame(f)
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		tree, err := s.Request(t.Context(), acc.Interaction)
		if err != nil {
			t.Fatal(err)
		}
		if tree.State == activity.RequestClosed {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for range 2 {
		if err := a.background(t.Context(), s, acc, &out, w, false, func(_ context.Context, f client.Frame) error { return w.Frame(f) }); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(notes.String(), "∙ todo.add in the background: completed\n"); n != 1 {
		t.Errorf("told %d times:\n%s", n, &notes)
	}
}

// TestAskAsks: a person at the terminal is asked about an action, and decides.
func TestAskAsks(t *testing.T) {
	const question, done = "Allow it? [y]es", "Added the task"
	for name, c := range map[string]struct {
		types    string
		asked    int // how often the line with the keys is shown
		done     bool
		standing int // approvals that are kept
		ends     bool
	}{
		"yes":                    {"y\n", 1, true, 0, false},
		"no":                     {"no\n", 1, false, 0, false},
		"details, nonsense, yes": {"d\nwhat\nyes\n", 3, true, 0, false},
		"always, after all":      {"p\n1\nn\nc\n1\ny\n", 2, true, 1, false},
		"leave":                  {"", 1, false, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			env := fresh.User(t)
			var out bytes.Buffer
			var notes locked.Buffer
			a := &program{Program: &command.Program{Stdin: strings.NewReader(c.types), Stdout: &out, App: app.App{Stderr: &notes, Environ: env, Dir: t.TempDir(), Version: "test"}}}
			set, err := a.Settings()
			if err != nil {
				t.Fatal(err)
			}
			s, err := a.Connect(t.Context(), set, command.NeedNode, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.End(); err != nil {
					t.Error(err)
				}
			}()
			err = a.askOver(t.Context(), s, client.Message{Content: terminal.Words(`Add the task "buy milk"`)}, false)
			if (err != nil) != c.ends || strings.Count(notes.String(), question) != c.asked || strings.Contains(out.String(), done) != c.done {
				t.Errorf("%v\n%s%s", err, &notes, &out)
			}
			var list struct{ Grants []any }
			if err := s.Call(t.Context(), "GET /grants", nil, nil, &list); err != nil || len(list.Grants) != c.standing {
				t.Errorf("%v %v", err, list)
			}
		})
	}
}
