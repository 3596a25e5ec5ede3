package secret

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/test/locked"
)

// comes waits for something that another goroutine brings about.
func comes(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for !ok() {
		<-time.After(time.Millisecond)
	}
}

func TestFollow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	m, log := &Masker{}, &locked.Buffer{}
	f := NewStore(dir).Follow(m, 0, slog.New(slog.NewTextHandler(log, nil)))
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	other := NewStore(dir)
	set := func(name, value string) {
		t.Helper()
		if err := other.Set(name, value); err != nil {
			t.Fatal(err)
		}
		want := "«secret:" + name + "»"
		comes(t, value+" is hidden", func() bool { return m.Mask(value) == want })
	}
	set("first", "the first value")
	set("second", "another value")
	set("first", "a changed value")
	if got := m.Mask("the first value"); got != "«secret:first»" {
		t.Errorf("what it was before is shown: %s", got)
	}
	open := write(t, filepath.Join(filepath.Dir(dir), "open"), "for all to see", 0o644)
	if err := os.Rename(open, filepath.Join(dir, "open")); err != nil {
		t.Fatal(err)
	}
	comes(t, "it is told that a secret is not masked", func() bool { return strings.Contains(log.String(), "open") })
	if err := other.Remove("second"); err != nil {
		t.Fatal(err)
	}
	set("third", "the third value")
	if got := m.Mask("another value"); got != "«secret:second»" {
		t.Errorf("what was removed is shown: %s", got)
	}
}

// A secret stored between the program's start and the start of the watch is learned as well.
func TestFollowLearnsExistingSecrets(t *testing.T) {
	st := NewStore(filepath.Join(t.TempDir(), "secrets"))
	if err := st.Set("early", "an early value"); err != nil {
		t.Fatal(err)
	}
	m := &Masker{}
	f := st.Follow(m, 0, slog.New(slog.DiscardHandler))
	if got := m.Mask("an early value"); got != "«secret:early»" {
		t.Error(got)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFollowWithoutAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := NewStore(filepath.Join(file, "secrets")).Follow(&Masker{}, 0, slog.New(slog.DiscardHandler))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
