//go:build unix

package local

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"steward/internal/fault"
)

// A pipe in the place of a file holds nobody up: to read it would wait for
// somebody to write.
func TestPipesAreNotRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "x.md")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	texts, problems, err := NewTexts(dir).All(t.Context())
	if err != nil || len(texts) != 0 || len(problems) != 1 || !strings.Contains(problems[0], "no plain file") {
		t.Errorf("%v %v %v", texts, problems, err)
	}
	if _, err := ReadFile(pipe, 1000); !fault.HasCode(err, "file_unavailable") {
		t.Error(err)
	}
}
