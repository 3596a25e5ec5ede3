package cli

import (
	"errors"
	"os"
	"strings"
	"testing"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/test/locked"
)

// When the server ends, watching continues from the data folder at the same position,
// and no event comes twice.
func TestWatchingOutlivesTheServer(t *testing.T) {
	env := user(t)
	cmd, r := serveFor(t, env)
	publish := func(id string) {
		t.Helper()
		if code, _, errs := in(t, "", env, "events", "publish", "-q", "cld:home.Bell.door", "--id", id); code != command.ExitOK {
			t.Fatalf("%d %s", code, errs)
		}
	}
	publish("one")
	out := &shared{news: make(chan struct{}, 100)}
	var errs locked.Buffer
	a := &program{Program: command.Program{Stdin: strings.NewReader(""), Stdout: out, App: app.App{Stderr: &errs, Environ: env, Dir: t.TempDir()}}}
	done := make(chan int, 1)
	go func() {
		done <- a.run(t.Context(), []string{"events", "watch", "--json", "-q", "--from", "start", "--type", "home.Bell", "--limit", "3"})
	}()
	out.await(t)
	publish("two") // published through the server
	out.await(t)
	if err := errors.Join(r.End(), cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	publish("three") // published without a server
	code := <-done
	if n := strings.Count(out.String(), "\n"); code != command.ExitOK || n != 3 || errs.String() != "" {
		t.Errorf("%d, %d lines: %s%s", code, n, out, &errs)
	}
}

// shared is a buffer that reports writes.
type shared struct {
	locked.Buffer
	news chan struct{}
}

func (s *shared) Write(b []byte) (int, error) {
	n, err := s.Buffer.Write(b)
	s.news <- struct{}{}
	return n, err
}

func (s *shared) await(t *testing.T) {
	t.Helper()
	<-s.news
}
