//go:build unix

package secret

import (
	"path/filepath"
	"syscall"
	"testing"

	"steward/internal/fault"
)

// A pipe is refused: to open it would wait for somebody to write.
func TestPipeIsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := (&Resolver{}).Resolve(t.Context(), "file:"+path); !fault.HasCode(err, "secret_missing") {
		t.Error(err)
	}
}
