//go:build long

package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/test/must"
)

const version = "v1.2.3"

// Steward is built for all systems of a release.
func TestBuildsForAllSystems(t *testing.T) {
	b := read[release](t, ".goreleaser.yaml").Builds[0]
	for _, goos := range b.Goos {
		for _, goarch := range b.Goarch {
			build(t, repo, b.command(), append(slices.Clone(b.Env), "GOOS="+goos, "GOARCH="+goarch))
		}
	}
}

// The same source makes the same bytes in two folders: a release as GoReleaser builds it, and an image as the
// Dockerfile does. Each is built with a cache of its own, since else the second would be the first, taken from there.
func TestBuildsAreReproducible(t *testing.T) {
	b := read[release](t, ".goreleaser.yaml").Builds[0]
	linux := append(slices.Clone(b.Env), "GOOS=linux", "GOARCH=amd64")
	ofRelease := build(t, copied(t), b.command(), append(linux, "GOCACHE="+t.TempDir()))
	ofImage := build(t, copied(t), []string{"scripts/build"}, append(linux, "GOCACHE="+t.TempDir(), "VERSION="+version))
	if ofRelease != ofImage {
		t.Errorf("two builds of the same source differ: %s, %s", ofRelease, ofImage)
	}
}

// command is what GoReleaser runs to build Steward.
func (b releaseBuild) command() []string {
	ldflags := strings.ReplaceAll(strings.Join(b.Ldflags, " "), "{{ .Tag }}", version)
	return slices.Concat([]string{"go", "build"}, b.Flags, []string{"-ldflags=" + ldflags})
}

// build builds Steward in a folder with a command, and returns the hash of the binary.
func build(t *testing.T, dir string, command, env []string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "steward")
	cmd := exec.Command(command[0], append(command[1:], "-o", out, "./cmd/steward")...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "GOFLAGS="), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", env, err, text)
	}
	sum := sha256.Sum256(must.Get(os.ReadFile(out)))
	return hex.EncodeToString(sum[:])
}

// copied copies what is needed to build Steward to a folder of its own.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", "client", "cmd", "internal", "proto", "scripts"} {
		if out, err := exec.Command("cp", "-r", filepath.Join(repo, name), dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}
