package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/secret"
)

func TestAPlanIsWritten(t *testing.T) {
	env := user(t)
	var errs strings.Builder
	a := &app{stdin: strings.NewReader("y\n"), stdout: io.Discard, stderr: &errs, environ: env, dir: t.TempDir()}
	set, err := a.settings()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(homeOf(env), ".config/steward/steward.yaml")
	ask := func(answer string) *prompter {
		return &prompter{app: a, ctx: t.Context(), lines: bufio.NewReader(strings.NewReader(answer))}
	}
	p := plan{model: "anthropic/claude-sonnet-5", secret: "anthropic_api_key", key: "sk-ant-0123456789"}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.writePlan(ask("\n"), set, file, p); err != nil { // Enter changes nothing that is there
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != string(before) {
		t.Errorf("%v %s", err, b)
	}
	if err := a.writePlan(ask("y\n"), set, file, p); err != nil {
		t.Fatal(err)
	}
	set, err = a.settings()
	if err != nil || set.Providers["anthropic"].Key.Reveal() != "store:anthropic_api_key" || set.Models["default"].Use[0] != p.model || !set.Providers["ollama"].Off {
		t.Errorf("%v %+v", err, set)
	}
	if key, err := secret.NewStore(secret.Folder(set.Data)).Get(p.secret); err != nil || key != p.key {
		t.Error(err)
	}
	if b, err := os.ReadFile(file); err != nil || strings.Contains(string(b), p.key) || strings.Contains(errs.String(), p.key) {
		t.Errorf("the key is shown: %s %s", b, &errs)
	}
}
