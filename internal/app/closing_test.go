package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"steward/internal/fault"
	"steward/internal/server/auth"
	wsserver "steward/internal/server/websocket"
	"steward/internal/turn"
)

// TestAPartThatHangsIsLeftBehind: the other parts are closed in order, and the error
// names the one that hangs.
func TestAPartThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		var closed []string
		well := func(name string, err error) part {
			return part{name, func() error { closed = append(closed, name); return err }}
		}
		release, broken := make(chan struct{}), errors.New("broken")
		hangs := func() error { <-release; return nil }
		began := time.Now()
		err := closeWithin(10*time.Second, slog.New(slog.NewTextHandler(&logged, nil)),
			well("one", nil), part{"two", hangs}, well("three", broken), part{"four", hangs}, well("five", nil))
		if took := time.Since(began); took != 11*time.Second {
			t.Errorf("it took %s", took)
		}
		if !fault.HasCode(err, "closing_hangs") || !errors.Is(err, broken) || !strings.Contains(err.Error(), "two could not be closed") {
			t.Error(err)
		}
		if got := strings.Join(closed, " "); got != "one three five" {
			t.Errorf("closed: %s", got)
		}
		if log := logged.String(); strings.Count(log, "did not close in time") != 2 || !strings.Contains(log, "part=two") || !strings.Contains(log, "part=four") {
			t.Error(log)
		}
		close(release)
	})
}

// TestStewardEndsThoughAPartHangs: the data folder is free afterwards.
func TestStewardEndsThoughAPartHangs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "steward.yaml")
	if err := os.WriteFile(file, []byte("providers: {ollama: {off: true}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &App{Stderr: io.Discard, Dir: t.TempDir(), Environ: []string{"HOME=" + t.TempDir()}, Config: file}
	set, err := a.Settings()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	l, err := a.OpenLocal(t.Context(), set, log)
	if err != nil {
		t.Fatal(err)
	}
	l.grace, l.beyond = time.Second, time.Second
	begun, release, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		l.services.once.Do(func() { close(begun); <-release })
	}()
	<-begun
	if err := l.Close(); !fault.HasCode(err, "closing_hangs") || !strings.Contains(err.Error(), "the services of agents") {
		t.Error(err)
	}
	for l, err = a.OpenLocal(t.Context(), set, log); fault.HasCode(err, "data_in_use"); { // it may still be closing
		l, err = a.OpenLocal(t.Context(), set, log)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	close(release)
	<-left
}

// deaf is a node that ignores contexts.
type deaf struct {
	wsserver.Node
	begun, release chan struct{}
}

func (d deaf) Send(context.Context, string, turn.Input) (turn.Accepted, error) {
	close(d.begun)
	<-d.release
	return turn.Accepted{}, fault.New(fault.Unavailable, "late", "too late")
}

// TestTheChatThatHangs: a chat that hangs does not keep the server open.
func TestTheChatThatHangs(t *testing.T) {
	d := deaf{begun: make(chan struct{}), release: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	s := &Server{chat: wsserver.Handler(wsserver.Options{Node: d, Logger: log}), grace: time.Second, beyond: time.Second,
		file: filepath.Join(t.TempDir(), "notice"), log: log}
	s.http = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.chat.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Caller{User: "local"})))
	})}
	if err := s.announce("test"); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(ln) }()
	c, _, err := websocket.Dial(t.Context(), "ws://"+ln.Addr().String()+wsserver.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow() //nolint:errcheck // it is closed already
	if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"message","content":"x"}`)); err != nil {
		t.Fatal(err)
	}
	<-d.begun
	if err := s.Close(); !fault.HasCode(err, "closing_hangs") || !strings.Contains(err.Error(), "the chat") {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	close(d.release)
	if err := s.chat.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
