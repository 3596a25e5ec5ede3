package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/test/locked"
)

// late holds back what is written to it until words are written.
type late struct {
	text  bytes.Buffer
	words string
	held  bool
}

func (l *late) Write(b []byte) (int, error) {
	n, err := l.text.Write(b)
	if !l.held && strings.Contains(l.text.String(), l.words) {
		l.held = true
		time.Sleep(time.Second) // what follows has happened before the command goes on
	}
	return n, err
}

// TestAFailureThatIsToldFast: the turn that tells the user of a queued action's failure is
// waited for, even if the action has failed before the command looks.
func TestAFailureThatIsToldFast(t *testing.T) {
	env := user(t)
	agents := t.TempDir()
	where := filepath.Join(homeOf(env), ".local/share/steward/private/root/todo/local/tasks.md") // a folder where a file is to be
	policies := filepath.Join(homeOf(env), ".local/share/steward/policies")
	for _, dir := range []string{where, policies, filepath.Join(agents, "lists")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{
		filepath.Join(agents, "lists", "agent.yaml"): "name: lists\ndescription: Keeps the to-do list of tasks.\ntools: [todo.*]\ndeferred: [todo.*]\n",
		filepath.Join(policies, "mine.rego"):         "package steward\n\ntrusted if input.tool.name == \"todo.add\"\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, out, errs := in(t, "", env, "--agents", agents, "agents", "approve", "lists", "--yes"); code != command.ExitOK {
		t.Fatal(code, out, errs)
	}
	out := late{words: "It will be done when this turn ends"}
	var errs locked.Buffer
	a := &program{Program: command.Program{Stdin: strings.NewReader(""), Stdout: &out, App: app.App{Stderr: &errs, Environ: env, Dir: t.TempDir(), Version: "test", ProbeTimeout: time.Hour, ListTimeout: time.Hour}}}
	code := a.run(t.Context(), []string{"--agents", agents, "ask", "--agent", "lists", `Add the task "call Zoe"`})
	if code != command.ExitOK || !out.held || !strings.Contains(errs.String(), "did not go as it should") {
		t.Fatalf("%d %v\n%s\n%s", code, out.held, out.text.String(), errs.String())
	}
}
