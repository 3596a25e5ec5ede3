package cli

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"steward/internal/app"
	"steward/internal/events"
	"steward/internal/resource"
	"steward/test/locked"
)

// Output for a terminal fits into its lines, and contains nothing that moves its
// cursor.
func TestEventsOnATerminal(t *testing.T) {
	var out bytes.Buffer
	w := &eventPrinter{app: &program{stdout: &out}, width: 78}
	conv := resource.Root("common.Conversation", "0198c9a2-7f3e-7b11-8c7e-5a3f1d2b4c6d")
	now := time.Now()
	at := time.Date(now.Year(), now.Month(), now.Day(), 12, 0, 0, 0, time.Local)
	for _, x := range []events.Event{
		{Source: "user:ana", Time: at, Detail: events.Put, Resources: []events.Resource{{URI: conv.Child("common.Message", "0198c9a2-7f3e-7b11-8c7e-5a3f1d2b4c6e"), State: "new"}}},
		{Source: "agent:mail/\x1b[2J", Time: at, Detail: events.Delete, Published: true, Resources: []events.Resource{{URI: resource.Root("a.A", "x\x1b[31m")}, {URI: resource.Root("a.A", "y")}}},
		{Source: "system", Time: at.AddDate(0, 0, 1), Detail: events.Get, Resources: []events.Resource{{URI: resource.Root("a.A", strings.Repeat("z", 200))}}},
	} {
		if err := w.event(&x); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(out.String(), "\n")
	if lines[0] != "Today" || lines[1] != "12:00:00  put          user:ana          common.Message 1d2b4c6e, common.Conv…" ||
		lines[3] != "12:00:00  says delete  agent:mail/ [2J   a.A y" || lines[4] != "" || !strings.HasPrefix(lines[6], "12:00:00  get          system            a.A zzz") {
		t.Errorf("%s", out.String())
	}
	for _, l := range lines {
		if strings.Contains(l, "\x1b") || len([]rune(l)) > 78 {
			t.Errorf("%q", l)
		}
	}
}

// When the server ends, watching continues from the data folder at the same position,
// and no event comes twice.
func TestWatchingOutlivesTheServer(t *testing.T) {
	env := user(t)
	cmd, r := serveFor(t, env)
	publish := func(id string) {
		t.Helper()
		if code, _, errs := in(t, "", env, "events", "publish", "-q", "cld:home.Bell.door", "--id", id); code != exitOK {
			t.Fatalf("%d %s", code, errs)
		}
	}
	publish("one")
	out := &shared{news: make(chan struct{}, 100)}
	var errs locked.Buffer
	a := &program{stdin: strings.NewReader(""), stdout: out, App: app.App{Stderr: &errs, Environ: env, Dir: t.TempDir()}}
	done := make(chan int, 1)
	go func() {
		done <- a.run(t.Context(), []string{"events", "watch", "--json", "-q", "--from", "start", "--type", "home.Bell", "--limit", "3"})
	}()
	out.await(t)
	publish("two") // published through the server
	out.await(t)
	if err := errors.Join(r.end(), cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	publish("three") // published without a server
	code := <-done
	if n := strings.Count(out.String(), "\n"); code != exitOK || n != 3 || errs.String() != "" {
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
