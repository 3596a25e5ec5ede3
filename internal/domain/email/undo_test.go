package email

import (
	"os"
	"path/filepath"
	"testing"

	"steward/internal/domain/local/localtest"
	"steward/internal/fault"
	"steward/internal/tool"
)

func TestWhatWasSentIsTakenBackOutOfTheOutbox(t *testing.T) {
	env := localtest.Env(t, "email")
	s := localtest.Open(t, Opener(options()), env, "outbox: ./out\ninbox: ./in\ndelivery: deferred")
	args := `{"to":["bob@example.com"],"subject":"Hi","body":"There"}`
	tl, _ := s.Registry.Get("email.send")
	if tl.Spec().Delivery != tool.Deferred {
		t.Error("it is not deferred")
	}
	in := s.Invocation("a", "email.send", args)
	if _, err := s.Undo(in, "email.send"); !fault.HasCode(err, "undo_unknown") {
		t.Errorf("before it was sent: %v", err)
	}
	s.Call("a", "email.send", args)
	for range 2 {
		if res, err := s.Undo(in, "email.send"); err != nil || res == "" {
			t.Fatal(res, err)
		}
		if got := s.Call("q", "email.list", `{"folder":"outbox"}`); got != "The outbox is empty." {
			t.Errorf("%s", got)
		}
	}
}

func TestAnOutboxThatCannotBeWrittenKeepsWhatWasSent(t *testing.T) {
	env := localtest.Env(t, "email")
	s := localtest.Open(t, Opener(options()), env, "outbox: ./out")
	args := `{"to":["bob@example.com"],"subject":"Hi","body":"There"}`
	s.Call("a", "email.send", args)
	if err := os.WriteFile(filepath.Join(env.Dir, "out", ".taken-back"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Undo(s.Invocation("a", "email.send", args), "email.send"); err == nil || !tool.Certain(err) {
		t.Errorf("%v", err)
	}
	if got := s.Call("q", "email.list", `{"folder":"outbox"}`); got == "The outbox is empty." {
		t.Error("it is gone")
	}
}
