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
	if err != nil || !strings.Contains(string(text), "url: "+server.URL+"\n") || !strings.Contains(string(text), "store:HOME_ASSISTANT_TOKEN") || strings.Contains(string(text), homeassistant.Token) {
		t.Errorf("%v\n%s", err, text)
	}
	if kept, err := secret.NewStore(secret.Folder(data)).Get("HOME_ASSISTANT_TOKEN"); err != nil || kept != homeassistant.Token {
		t.Errorf("%q, %v", kept, err)
	}
	if out, err := run("", "doctor"); !strings.Contains(out, "Home Assistant "+homeassistant.Version+" with 1 exposed devices") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run("", "home", "connect", "homeassistant"); err == nil || !strings.Contains(out, "http://homeassistant.local:8123") {
		t.Errorf("%v %s", err, out)
	}
}

// Without a model, sentences lead to the home. What changes something is not done where nobody can be asked.
func TestSentencesToTheHome(t *testing.T) {
	server := homeassistant.Start(t, []homeassistant.Area{{ID: "bath", Name: "Bath"}},
		homeassistant.Entity{ID: "sensor.bath", Name: "Bath temperature", Area: "bath", State: "21.5", Attributes: map[string]any{"device_class": "temperature", "unit_of_measurement": "°C"}},
		homeassistant.Entity{ID: "light.left", Name: "Left lamp", Area: "bath", State: "on"}, homeassistant.Entity{ID: "light.right", Name: "Right lamp", Area: "bath", State: "on"},
		homeassistant.Entity{ID: "lock.front_door", Name: "Front door", State: "locked"})
	env := user(t)
	file := filepath.Join(homeOf(env), ".config/steward/steward.yaml")
	if err := os.WriteFile(file, []byte("home: {url: '"+server.URL+"', token: '"+homeassistant.Token+"'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]string{
		"What is the temperature in the bath?": "Bath temperature (sensor.bath, in Bath): 21.5 °C",
		"Is the front door locked?":            "Front door (lock.front_door): locked",
		"is the lamp on":                       "Left lamp (light.left, in Bath); Right lamp (light.right, in Bath)",
		"Turn on the left lamp":                "not approved",
		"Unlock the front door":                "not approved",
	} {
		out, err := buildProgram(t, env, "ask", said).CombinedOutput()
		if text := strings.Join(strings.Fields(string(out)), " "); !strings.Contains(text, want) && !strings.Contains(strings.ReplaceAll(text, "- ", ""), want) {
			t.Errorf("%s: %v\n%s", said, err, out)
		}
	}
	if calls := server.Calls(); len(calls) > 0 {
		t.Errorf("%v", calls)
	}
}
