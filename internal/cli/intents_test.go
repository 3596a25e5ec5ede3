package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/client"
	"steward/internal/app"
	"steward/internal/id"
	"steward/test/locked"
)

func TestActionsAreDrawn(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local)
	x := func(n byte) string { return id.ID{0: n, 6: 0x70, 8: 0x80}.String() }
	list := []client.Intent{
		{ID: x(1), State: intentDone, Tool: "calendar.add", Args: []byte(`{"title":"T\u001bea"}`), Summary: "Add T\u001bea to the calendar", Changed: at, Reason: "it is trusted"},
		{ID: x(2), State: intentUnknown, Dead: true, Tool: "email.send", Args: []byte(`{}`), Summary: "Send hello to bob@example.com", Changed: at, Reason: "the line\x1b went dead", Undoes: x(1)},
		{ID: x(3), State: intentFailed, Dead: true, Tool: "files.write", Args: []byte(`{}`), Changed: at, Retries: x(4)},
	}
	want := "01-02 03:04  ✓ done                     01000000  calendar.add  Add T ea to the calendar\n" +
		"01-02 03:04  ? unknown                  02000000  email.send  Take back: Send hello to bob@example.com  (the line went dead)\n" +
		"01-02 03:04  ✗ failed, needs attention  03000000  files.write  Try again: files.write {}\n"
	got := intentTable(list, 0)
	if squeezed(got) != squeezed(want) || strings.Contains(got, "\x1b") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, l := range strings.Split(intentTable(list, 50), "\n") {
		if n := len([]rune(l)); n > 50 {
			t.Errorf("%d wide: %s", n, l)
		}
	}
}

func squeezed(s string) string { return strings.Join(strings.Fields(s), " ") }

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
	if code, out, errs := in(t, "", env, "--agents", agents, "agents", "approve", "lists", "--yes"); code != exitOK {
		t.Fatal(code, out, errs)
	}
	out := late{words: "It will be done when this turn ends"}
	var errs locked.Buffer
	a := &program{stdin: strings.NewReader(""), stdout: &out, App: app.App{Stderr: &errs, Environ: env, Dir: t.TempDir(), Version: "test", ProbeTimeout: time.Hour, ListTimeout: time.Hour}}
	code := a.run(t.Context(), []string{"--agents", agents, "ask", "--agent", "lists", `Add the task "call Zoe"`})
	if code != exitOK || !out.held || !strings.Contains(errs.String(), "did not go as it should") {
		t.Fatalf("%d %v\n%s\n%s", code, out.held, out.text.String(), errs.String())
	}
}
