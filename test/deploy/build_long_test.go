//go:build long

package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"steward/test/must"
)

// Steward is built for all systems of a release.
func TestBuildsForAllSystems(t *testing.T) {
	for _, system := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"} {
		build(t, repo, system)
	}
}

// The same source makes the same bytes in another folder.
func TestBuildsAreReproducible(t *testing.T) {
	first := build(t, copied(t), "linux/amd64")
	if second := build(t, copied(t), "linux/amd64"); first != second {
		t.Errorf("two builds of the same source differ: %s, %s", first, second)
	}
}

// build builds Steward in a folder with the flags of a release, and returns the hash of the binary.
func build(t *testing.T, dir, system string) string {
	t.Helper()
	goos, goarch, _ := strings.Cut(system, "/")
	out := filepath.Join(t.TempDir(), "steward")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace", "-ldflags=-s -w -X main.version=v1.2.3", "-o", out, "./cmd/steward")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", system, err, text)
	}
	sum := sha256.Sum256(must.Get(os.ReadFile(out)))
	return hex.EncodeToString(sum[:])
}

// copied copies what is needed to build Steward to a folder of its own.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", "client", "cmd", "internal", "proto"} {
		if out, err := exec.Command("cp", "-r", filepath.Join(repo, name), dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}
