//go:build unix

package local

import (
	"path/filepath"
	"syscall"
	"testing"

	"steward/internal/fault"
)

// A pipe in the place of a file holds nobody up: to read it would wait for
// somebody to write.
func TestPipesAreNotRead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "x.md")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(pipe, 1000); !fault.HasCode(err, "file_unavailable") {
		t.Error(err)
	}
}
