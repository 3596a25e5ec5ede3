package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/client"
	"steward/internal/server/terminal"
)

// The frame of a background call's end reaches only clients that watch at that moment.
// Ask reports the end nevertheless, and only once.
func TestAskTellsOfACallThatEndedBeforeAnybodyWatched(t *testing.T) {
	env := user(t)
	agents := t.TempDir()
	for file, text := range map[string]string{
		filepath.Join(agents, "lists", "agent.yaml"):                             "name: lists\ndescription: Keeps the to-do list of tasks.\ntools: [todo.*]\ndeferred: [todo.*]\n",
		filepath.Join(homeOf(env), ".local/share/steward/policies", "mine.rego"): "package steward\n\ntrusted if input.tool.name == \"todo.add\"\n",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, errs := in(t, "", env, "--agents", agents, "agents", "approve", "lists", "--yes"); code != 0 {
		t.Fatal(errs)
	}

	var notes bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &notes, environ: env, dir: t.TempDir(), version: "test", agentFolders: []string{agents}}
	set, err := a.settings()
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.connect(t.Context(), set, toAct, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
	}()
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
		if tree.State == requestClosed {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for range 2 {
		if err := a.background(t.Context(), s, acc, &out, w, false); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(notes.String(), "∙ todo.add in the background: completed\n"); n != 1 {
		t.Errorf("told %d times:\n%s", n, &notes)
	}
}
