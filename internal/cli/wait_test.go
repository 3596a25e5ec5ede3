package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/store/sqlite"
	"steward/test/locked"
)

// occupied makes the usual data folder and opens its database, so that it is in use without a notice of an
// address. It returns the folder.
func occupied(t *testing.T, env []string) (string, *sqlite.Store) {
	t.Helper()
	data := filepath.Join(homeOf(env), ".local/share/steward")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: app.Database(data)})
	if err != nil {
		t.Fatal(err)
	}
	return data, st
}

// serve --wait serves once the data folder is free, and a command that finds the folder in use waits until
// whoever uses it says where it serves.
func TestServeWaitsForTheFolder(t *testing.T) {
	env := user(t)
	data, st := occupied(t, env)
	cmd := buildProgram(t, env, "serve", "--wait")
	said, err := cmd.StderrPipe()
	var shown io.Reader
	if err == nil {
		shown, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "waiting until the Steward that uses") {
	}
	var out strings.Builder
	asked := make(chan int)
	go func() {
		a := &program{Program: command.Program{Stdin: strings.NewReader(""), Stdout: &out, JoinFor: time.Hour, App: app.App{Stderr: io.Discard, Environ: env, Dir: t.TempDir(), Version: "test"}}}
		asked <- a.run(t.Context(), []string{"ask", "-q", "What is 6 times 7?"})
	}()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if code := <-asked; code != command.ExitOK || !strings.Contains(out.String(), "42") {
		t.Errorf("%d %s", code, &out)
	}
	for n, err := app.ReadNotice(data); err != nil || n.PID != cmd.Process.Pid; n, err = app.ReadNotice(data) {
		time.Sleep(10 * time.Millisecond)
	}
	for ready := bufio.NewScanner(shown); ready.Scan() && !strings.Contains(ready.Text(), "serves at"); {
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, said) //nolint:errcheck // what it says at its end
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// One that still waits ends at once when it is told to.
func TestServeThatWaitsEnds(t *testing.T) {
	env := user(t)
	_, st := occupied(t, env)
	defer st.Close()
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	var errs locked.Buffer
	a := &program{Program: command.Program{Stdout: io.Discard, App: app.App{Stderr: &errs, Environ: env, Dir: t.TempDir()}}, signals: signals}
	if code := a.run(t.Context(), []string{"serve", "--wait"}); code != command.ExitOK {
		t.Errorf("%d %s", code, &errs)
	}
}

// A signal while Steward starts stops it as one that comes later does, and the next start finds nothing amiss. The signal
// comes when Steward asks a provider for its models, and then before the start.
func TestASignalStopsAStart(t *testing.T) {
	signals := make(chan os.Signal, 1)
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signals <- syscall.SIGTERM
		<-r.Context().Done()
	}))
	defer provider.Close()
	env := user(t, "OLLAMA_HOST="+strings.TrimPrefix(provider.URL, "http://"))
	conf := filepath.Join(homeOf(env), ".config/steward/steward.yaml")
	off, err := os.ReadFile(conf)
	if err == nil {
		err = os.WriteFile(conf, nil, 0o600) // Ollama is on
	}
	if err != nil {
		t.Fatal(err)
	}
	serve := func(ctx context.Context) {
		t.Helper()
		var errs locked.Buffer
		a := &program{Program: command.Program{Stdout: io.Discard, App: app.App{Stderr: &errs, Environ: env, Dir: t.TempDir(), ProbeTimeout: time.Hour, ListTimeout: time.Hour}}, signals: signals}
		if code := a.run(ctx, []string{"serve"}); code != command.ExitOK || !strings.Contains(errs.String(), "stopped while it was starting") {
			t.Errorf("%d %s", code, &errs)
		}
	}
	serve(t.Context())
	if err := os.WriteFile(conf, off, 0o600); err != nil {
		t.Fatal(err)
	}
	told, tell := context.WithCancelCause(t.Context())
	tell(command.ErrInterrupted)
	serve(told)
	if code, out, errs := in(t, "", env, "ask", "-q", "What is 6 times 7?"); code != command.ExitOK || !strings.Contains(out, "42") || errs != "" {
		t.Errorf("%d %q %s", code, out, errs)
	}
}
