package cli

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/secret"
	"steward/test/signin"
)

// signIn runs steward mcp connect, and consents in the browser.
func signIn(t *testing.T, env []string, args ...string) (stderr string, err error) {
	t.Helper()
	cmd := buildProgram(t, env, append([]string{"mcp", "connect"}, args...)...)
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if !strings.HasPrefix(lines.Text(), "http") {
			continue
		}
		res, err := http.Get(lines.Text())
		if err == nil {
			err = res.Body.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}
	return said.String(), errors.Join(lines.Err(), cmd.Wait())
}

// run runs the program and returns everything that it has said.
func run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	out, err := buildProgram(t, env, args...).CombinedOutput()
	return strings.TrimSpace(string(out) + "\n" + errorText(err))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A server that asks for a sign-in is connected in a browser, used, and connected again when it wants more
// rights; its token is renewed, kept as a secret, and shown nowhere.
func TestConnectMCP(t *testing.T) {
	t.Parallel()
	w := signin.New(t)
	env := user(t)
	env = append(env, "STEWARD_DATA="+filepath.Join(homeOf(env), "data"))
	out := run(t, env, "mcp", "add", "home", "--url", w.URL(), "--yes")
	if !strings.Contains(out, "it requires a sign-in") || !strings.Contains(out, "run steward mcp connect home") {
		t.Fatal(out)
	}
	if out = run(t, env, "mcp", "list"); !strings.Contains(out, "home: it requires a sign-in; run steward mcp connect home") || !strings.Contains(out, "mcp:home") {
		t.Error(out)
	}
	if out = run(t, env, "doctor"); !strings.Contains(out, "home is not connected") {
		t.Error(out)
	}
	if out = run(t, env, "ask", "Read the temperature of the living room."); len(w.Log()) > 0 || strings.Contains(out, "read done") {
		t.Error("its tools are there before it is connected", out)
	}
	out, err := signIn(t, env, "home", "--yes", "--tool", "home.*=query,noask")
	if err != nil || !strings.Contains(out, "connected; a running Steward") || !strings.Contains(out, "mcp:home is approved") {
		t.Fatal(out, err)
	}
	if out = run(t, env, "doctor"); !strings.Contains(out, "home is connected") {
		t.Error(out)
	}
	if out = call(t, env, "read"); !strings.Contains(out, "read done") {
		t.Error(out)
	}
	w.Revoke()
	if out = call(t, env, "read"); !strings.Contains(out, "read done") {
		t.Error("the token is not renewed", out)
	}
	if out = call(t, env, "change"); !strings.Contains(out, "requires more permissions than you granted: change") || !strings.Contains(out, "steward mcp connect home") {
		t.Error(out)
	}
	if out, err = signIn(t, env, "home"); err != nil {
		t.Error(out, err)
	}
	if out = call(t, env, "change"); !strings.Contains(out, "change done") {
		t.Error(out)
	}
	want := []string{"register", "authorize basic " + w.URL(), "token authorization_code " + w.URL(), "token refresh_token " + w.URL(),
		"register", "authorize basic change " + w.URL(), "token authorization_code " + w.URL()}
	if got := w.Log(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	data := filepath.Join(homeOf(env), "data")
	if kept, err := secret.NewStore(secret.Folder(data)).Get("oauth.mcp.home"); err != nil || !strings.Contains(kept, "access-token-") {
		t.Error(kept, err)
	}
	err = filepath.WalkDir(data, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasPrefix(path, secret.Folder(data)) {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, 64<<20))
		if strings.Contains(string(b), "access-token-") || strings.Contains(string(b), "refresh-token-") {
			t.Errorf("%s holds a token", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	w.RevokeAll()
	if out = call(t, env, "read"); !strings.Contains(out, "steward mcp connect home") {
		t.Error(out)
	}
}

// call has the offline model call a tool of the server.
func call(t *testing.T, env []string, name string) string {
	t.Helper()
	return run(t, env, "ask", map[string]string{"read": "Read the temperature of the living room.", "change": "Ventilate the greenhouse through its roof windows."}[name])
}

// A server of this machine that needs no sign-in, one with a token of its own, and one that leads elsewhere.
func TestConnectMCPRefuses(t *testing.T) {
	t.Parallel()
	w := signin.New(t)
	env := user(t)
	data := filepath.Join(homeOf(env), "data")
	env = append(env, "STEWARD_DATA="+data)
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"mcpServers": {"own": {"url": "` + w.URL() + `", "headers": {"authorization": "Bearer x"}}, "home": {"url": "` + w.URL() + `", "idle": "1m"}}}`
	if err := os.WriteFile(filepath.Join(data, "mcp.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := signIn(t, env, "own"); err == nil || !strings.Contains(out, "needs no sign-in") {
		t.Error(out, err)
	}
	if out, err := signIn(t, env, "none"); err == nil || !strings.Contains(out, "there is no MCP server") {
		t.Error(out, err)
	}
	for _, authority := range []string{"https://10.1.2.3", "https://169.254.169.254"} {
		w.Set(func() { w.Authorities = []string{authority} })
		if out, err := signIn(t, env, "home"); err == nil || !strings.Contains(out, "may not be reached") {
			t.Error(out, err)
		}
	}
}
