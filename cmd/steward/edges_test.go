package main

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/identity"
	"steward/internal/settings"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
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
	if code, out, errs := in(t, "", env, "ask", "-q", "What is 6 times 7?"); code != exitOK {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	for range 2 { // the second start counts what the first one spent
		code, out, errs := in(t, "", env, "ask", "What is 6 times 7?")
		if code == exitOK || !strings.Contains(out+errs, "budget") {
			t.Errorf("%d %q %q", code, out, errs)
		}
	}
}

func TestDoctorOfAnOpenServer(t *testing.T) {
	env := user(t)
	conf(t, env, "listen: 0.0.0.0:0\n")
	env = append(env, "STEWARD_LISTEN=")
	if code, out, _ := in(t, "", env, "doctor"); code != exitOK || !strings.Contains(out, "0.0.0.0:0 is free") || !strings.Contains(out, "it is created at the first start") {
		t.Errorf("%d %s", code, out)
	}
	code, token, errs := in(t, "", env, "token")
	if code != exitOK || !strings.HasPrefix(token, identity.Prefix) {
		t.Fatalf("%d %q %q", code, token, errs)
	}
	if code, out, _ := in(t, "", env, "doctor"); code != exitOK || !strings.Contains(out, "only you can read it") || strings.Contains(out, strings.TrimSpace(token)) {
		t.Errorf("%d %s", code, out)
	}
	data := filepath.Join(homeOf(env), ".local/share/steward")
	if err := os.Chmod(filepath.Join(data, "token"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := in(t, "", env, "doctor"); code != exitFailed || !strings.Contains(out, "steward token --new") {
		t.Errorf("%d %s", code, out)
	}
	if code, _, errs := in(t, "", env, "serve"); code != exitFailed || !strings.Contains(errs, "token_unusable") {
		t.Errorf("%d %s", code, errs)
	}
	if code, out, errs := in(t, "", env, "token", "--new", "--json"); code != exitOK || !strings.Contains(out, `"token":`) || strings.Contains(out, strings.TrimSpace(token)) {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// TestALockWithoutAServer: another process uses the folder without a notice of its
// address.
func TestALockWithoutAServer(t *testing.T) {
	env := user(t)
	data := filepath.Join(homeOf(env), ".local/share/steward")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: database(data)})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for _, args := range [][]string{{"ask", "x"}, {"keys", "create"}, {"conversations", "delete", "last", "--yes"}, {"chat"}} {
		if code, _, errs := in(t, "", env, args...); code != exitFailed || !strings.Contains(errs, "data_in_use") || !strings.Contains(errs, "does not say where it can be reached") {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
	if code, out, _ := in(t, "", env, "conversations", "list"); code != exitOK || out != "" {
		t.Errorf("%d %s", code, out)
	}
	if err := os.WriteFile(noticeFile(data), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := in(t, "", env, "ask", "x"); code != exitFailed || !strings.Contains(errs, "is damaged") {
		t.Errorf("%d %s", code, errs)
	}
	// A notice without a token.
	if err := os.WriteFile(noticeFile(data), []byte(`{"url":"http://127.0.0.1:9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := in(t, "", env, "ask", "x"); code != exitFailed || !strings.Contains(errs, "it cannot be joined") {
		t.Errorf("%d %s", code, errs)
	}
}

func TestInput(t *testing.T) {
	for _, c := range []struct {
		stdin any
		want  string
	}{{strings.NewReader(strings.Repeat("x", largestInput+1)), "input_too_large"}, {broken{}, "cannot be read"}, {strings.NewReader("\xff"), "input_invalid"}} {
		var errs bytes.Buffer
		a := &app{stdin: c.stdin.(interface{ Read([]byte) (int, error) }), stdout: &bytes.Buffer{}, stderr: &errs, environ: user(t), dir: t.TempDir()}
		if code := a.run(t.Context(), []string{"ask", "x"}); code != exitFailed || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: %d %s", c.want, code, &errs)
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("it cannot be read") }

func TestModelsOfTheSettings(t *testing.T) {
	for _, c := range []struct{ conf, want string }{
		{"models: {default: fats, fast: offline/steward}", "did you mean fast?"},
		{"models: {default: zzzzzz}", "steward models lists those that there are"},
		{"tools: {timeouts: {zz.zz: 1s}}", "the tools are "},
		{"folders: [{name: x, path: /nowhere/at/all}]", "steward:"},
	} {
		env := user(t)
		conf(t, env, c.conf)
		if code, _, errs := in(t, "", env, "ask", "x"); code != exitFailed || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d %s", c.conf, code, errs)
		}
	}
	env := user(t)
	conf(t, env, "models: {default: [a, b], a: offline/steward, b: {use: [c], temperature: 1}, c: openai/x}\nlog: {format: json, level: debug}\ntools: {timeouts: {math.multiply: 9s}, result_cap: 4096}\n")
	if code, out, errs := in(t, "", env, "models"); code != exitOK || !strings.Contains(out, "offline/steward, then openai/x") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	if code, out, errs := in(t, "", env, "ask", "What is 6 times 7?"); code != exitOK || !strings.Contains(out, "42") {
		t.Errorf("%d %s %s", code, out, errs)
	}
}

func TestPresetsHavePrices(t *testing.T) {
	set := &settings.Loaded{Settings: settings.Defaults()}
	a := &app{}
	s, err := a.supply(t.Context(), set, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for provider, p := range presets() {
		for _, name := range []string{p.standard, p.fast, p.strong, p.embed} {
			if _, ok := s.Price(provider + "/" + name); name != "" && !ok {
				t.Errorf("%s/%s has no price: limits of cost would not hold for it", provider, name)
			}
		}
	}
}

type plainTool struct{}

func (plainTool) Spec() tool.Spec { return tool.Spec{Name: "a.b", Timeout: time.Second, ResultCap: 7} }
func (plainTool) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Result{}, nil
}

func TestBounded(t *testing.T) {
	set := settings.Tools{Timeout: time.Minute, ResultCap: 9}
	b := bounded{plainTool{}, set}
	if s := b.Spec(); s.Timeout != time.Second || s.ResultCap != 7 {
		t.Errorf("a tool's own bounds are overruled: %+v", s)
	}
	b.set.Timeouts = map[string]time.Duration{"a.b": time.Hour}
	if s := b.Spec(); s.Timeout != time.Hour {
		t.Errorf("a bound that is named does not hold: %+v", s)
	}
	if b.Check(nil) != nil || b.Unwrap() != (plainTool{}) {
		t.Error("not what is inside")
	}
}

func TestExpiry(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	for in, want := range map[string]time.Time{
		"": {}, "10d": now.AddDate(0, 0, 10), "12h": now.Add(12 * time.Hour), "2030-01-31": time.Date(2030, 1, 31, 0, 0, 0, 0, time.Local),
		"2030-01-31T10:00:00Z": time.Date(2030, 1, 31, 10, 0, 0, 0, time.UTC),
	} {
		if got, err := expiry(in, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v %v", in, got, err)
		}
	}
	for _, in := range []string{"0d", "-1h", "soon", "99999999d", "d"} {
		if _, err := expiry(in, now); err == nil {
			t.Errorf("%s was taken", in)
		}
	}
}

func TestSmallThings(t *testing.T) {
	if got := plainLine("a\x1b[2Jb\u0085c"); got != "a [2Jb c" {
		t.Errorf("%q", got)
	}
	a := &app{dir: "/x", environ: []string{"A=1", "A=2"}, version: "v1"}
	if a.path("y") != "/x/y" || a.path("/y") != "/y" || a.getenv("A") != "2" || a.getenv("B") != "" || a.versionText() != "v1" {
		t.Error("paths, variables or the version")
	}
	if exitCode(3).Error() != "exit code 3" {
		t.Error("exit code")
	}
	for in, want := range map[string]bool{"http://127.0.0.1:9": false, "https://example.invalid": true, "::": false} {
		if got := a.knock(t.Context(), in); got != want {
			t.Errorf("knock at %s: %v", in, got)
		}
	}
	if u, err := url.Parse("http://127.0.0.1"); err != nil || proxied(u) {
		t.Error("loopback goes through a proxy")
	}
	if err := cannotListen("127.0.0.1:80", os.ErrPermission); !strings.Contains(err.Error(), "cannot be listened on") {
		t.Error(err)
	}
}
