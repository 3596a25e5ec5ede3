package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/identity"
	"steward/test/locked"
)

// conf writes the user's settings.
func conf(t *testing.T, env []string, text string) {
	t.Helper()
	file := filepath.Join(homeOf(env), ".config/steward/steward.yaml")
	if err := os.WriteFile(file, []byte("providers: {ollama: {off: true}}\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheDayHasALimit(t *testing.T) {
	env := user(t)
	conf(t, env, "prices: {offline/steward: {input: 0, output: 1000}}\nlimits: {day_cost: 0.08}\nprofile: {time_zone: Europe/Vienna}\n")
	if code, out, errs := in(t, "", env, "ask", "-q", "What is 6 times 7?"); code != command.ExitOK {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	for range 2 { // the second start counts what the first one spent
		code, out, errs := in(t, "", env, "ask", "What is 6 times 7?")
		if code == command.ExitOK || !strings.Contains(out+errs, "budget") {
			t.Errorf("%d %q %q", code, out, errs)
		}
	}
}

func TestDoctorOfAnOpenServer(t *testing.T) {
	env := user(t)
	conf(t, env, "listen: 0.0.0.0:0\n")
	env = append(env, "STEWARD_LISTEN=")
	if code, out, _ := in(t, "", env, "doctor"); code != command.ExitOK || !strings.Contains(out, "0.0.0.0:0 is free") || !strings.Contains(out, "it is created at the first start") {
		t.Errorf("%d %s", code, out)
	}
	code, token, errs := in(t, "", env, "token")
	if code != command.ExitOK || !strings.HasPrefix(token, identity.Prefix) {
		t.Fatalf("%d %q %q", code, token, errs)
	}
	if code, out, _ := in(t, "", env, "doctor"); code != command.ExitOK || !strings.Contains(out, "only you can read it") || strings.Contains(out, strings.TrimSpace(token)) {
		t.Errorf("%d %s", code, out)
	}
	data := filepath.Join(homeOf(env), ".local/share/steward")
	if err := os.Chmod(filepath.Join(data, "token"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := in(t, "", env, "doctor"); code != command.ExitFailed || !strings.Contains(out, "steward token --new") {
		t.Errorf("%d %s", code, out)
	}
	if code, _, errs := in(t, "", env, "serve"); code != command.ExitFailed || !strings.Contains(errs, "token_unusable") {
		t.Errorf("%d %s", code, errs)
	}
	if code, out, errs := in(t, "", env, "token", "--new", "--json"); code != command.ExitOK || !strings.Contains(out, `"token":`) || strings.Contains(out, strings.TrimSpace(token)) {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// TestALockWithoutAServer: another process uses the folder without a notice of its
// address.
func TestALockWithoutAServer(t *testing.T) {
	env := user(t)
	data, st := occupied(t, env)
	defer st.Close()
	for _, args := range [][]string{{"ask", "x"}, {"keys", "create"}, {"conversations", "delete", "last", "--yes"}, {"chat"}} {
		if code, _, errs := in(t, "", env, args...); code != command.ExitFailed || !strings.Contains(errs, "data_in_use") || !strings.Contains(errs, "the address of the Steward that uses") {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
	if code, out, _ := in(t, "", env, "conversations", "list"); code != command.ExitOK || out != "" {
		t.Errorf("%d %s", code, out)
	}
	if err := os.WriteFile(app.NoticeFile(data), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := in(t, "", env, "ask", "x"); code != command.ExitFailed || !strings.Contains(errs, "is damaged") {
		t.Errorf("%d %s", code, errs)
	}
	// A notice without a token.
	if err := os.WriteFile(app.NoticeFile(data), []byte(`{"url":"http://127.0.0.1:9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := in(t, "", env, "ask", "x"); code != command.ExitFailed || !strings.Contains(errs, "it cannot be joined") {
		t.Errorf("%d %s", code, errs)
	}
}

func TestInput(t *testing.T) {
	for _, c := range []struct {
		stdin any
		want  string
	}{{strings.NewReader(strings.Repeat("x", 10<<20+1)), "input_too_large"}, {broken{}, "cannot be read"}, {strings.NewReader("\xff"), "input_invalid"}} {
		var errs locked.Buffer
		a := &program{Program: command.Program{Stdin: c.stdin.(interface{ Read([]byte) (int, error) }), Stdout: &bytes.Buffer{}, App: app.App{Stderr: &errs, Environ: user(t), Dir: t.TempDir()}}}
		if code := a.run(t.Context(), []string{"ask", "x"}); code != command.ExitFailed || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: %d %s", c.want, code, &errs)
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("it cannot be read") }

func TestModelsOfTheSettings(t *testing.T) {
	for _, c := range []struct{ conf, want string }{
		{"models: {default: fats, fast: offline/steward}", "did you mean fast?"},
		{"models: {default: zzzzzz}", "steward models lists the models"},
		{"tools: {timeouts: {zz.zz: 1s}}", "the tools are "},
		{"folders: [{name: x, path: /nowhere/at/all}]", "steward:"},
	} {
		env := user(t)
		conf(t, env, c.conf)
		if code, _, errs := in(t, "", env, "ask", "x"); code != command.ExitFailed || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d %s", c.conf, code, errs)
		}
	}
	env := user(t)
	conf(t, env, "models: {default: [a, b], a: offline/steward, b: {use: [c], temperature: 1}, c: openai/x}\nlog: {format: json, level: debug}\ntools: {timeouts: {math.multiply: 9s}, result_cap: 4096}\n")
	if code, out, errs := in(t, "", env, "models"); code != command.ExitOK || !strings.Contains(out, "offline/steward, then openai/x") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	if code, out, errs := in(t, "", env, "ask", "What is 6 times 7?"); code != command.ExitOK || !strings.Contains(out, "42") {
		t.Errorf("%d %s %s", code, out, errs)
	}
}
