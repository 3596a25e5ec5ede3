//go:build unix

package secret

import (
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"

	"steward/internal/fault"
)

// A pipe is refused without waiting for a writer.
func TestPipeIsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := (&Resolver{}).Resolve(t.Context(), "file:"+path); !fault.HasCode(err, "secret_missing") {
		t.Error(err)
	}
}

// A pipe in the store's folder blocks neither Get nor a Follower.
func TestPipeAmongTheSecrets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	st, m := NewStore(dir), &Masker{}
	f := st.Follow(m, 0, slog.New(slog.DiscardHandler))
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := st.Set("other", "another value"); err != nil {
		t.Fatal(err)
	}
	comes(t, "others are learned", func() bool { return m.Mask("another value") == "«secret:other»" })
	if _, err := st.Get("pipe"); !fault.HasCode(err, "secret_missing") {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
