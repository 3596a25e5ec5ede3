package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/secret"
	"steward/test/homeassistant"
)

// One command with a token sets the home up; doctor connects to it. A refused token is not stored.
func TestConnectHome(t *testing.T) {
	server := homeassistant.Start(t, nil, homeassistant.Entity{ID: "light.hall", Name: "Hall light", State: "off"})
	env := user(t)
	file, data := filepath.Join(homeOf(env), ".config/steward/steward.yaml"), filepath.Join(homeOf(env), "data")
	run := func(input string, args ...string) (string, error) { // a process of its own: Steward does not connect to itself
		cmd := buildProgram(t, env, append(args, "--data", data)...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("a wrong token of somebody", "home", "connect", server.URL)
	if err == nil || !strings.Contains(out, "refuses the token") || strings.Contains(out, "a wrong token") {
		t.Errorf("%v %s", err, out)
	}
	if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "home:") {
		t.Errorf("%s", text)
	}
	out, err = run(homeassistant.Token, "home", "connect", server.URL+"/")
	if err != nil || !strings.Contains(out, "Home Assistant "+homeassistant.Version+" with 1 exposed devices is set up") {
		t.Fatalf("%v %s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "url: "+server.URL+"\n") || !strings.Contains(string(text), "store:"+homeSecret) || strings.Contains(string(text), homeassistant.Token) {
		t.Errorf("%v\n%s", err, text)
	}
	if kept, err := secret.NewStore(secret.Folder(data)).Get(homeSecret); err != nil || kept != homeassistant.Token {
		t.Errorf("%q, %v", kept, err)
	}
	if out, err := run("", "doctor"); !strings.Contains(out, "Home Assistant "+homeassistant.Version+" with 1 exposed devices") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run("", "home", "connect", "homeassistant"); err == nil || !strings.Contains(out, usualHome) {
		t.Errorf("%v %s", err, out)
	}
}
