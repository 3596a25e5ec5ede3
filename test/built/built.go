// Package built provides the built programs of this module to tests and
// benchmarks.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// Env is set by scripts/test, which builds the programs once for all packages.
// With it, Program builds nothing.
const Env = "STEWARD_PROGRAMS_ARE_BUILT"

var mu sync.Mutex

// Program builds a main package of this module, such as "steward/cmd/steward",
// into the module's folder bin/test and returns the program's path. It is safe
// for concurrent use, even by several processes.
//
// go test repeats a test when a file that it opens has changed, and the program
// is such a file. But go test does not know the program's sources: after a
// change to them, run make test, or go test with -count=1.
func Program(pkg string) (string, error) {
	mu.Lock()
	defer mu.Unlock()
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	file := filepath.Join(root, "bin", "test", path.Base(pkg))
	if os.Getenv(Env) == "" {
		if err := Build(pkg, file); err != nil {
			return "", err
		}
	}
	if _, err := os.Stat(file); err != nil {
		return "", err
	}
	return file, nil
}

// Build builds a program as make build does, without a version. It replaces
// the file in one step, so that a program that runs is not disturbed.
func Build(pkg, file string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	made := fmt.Sprintf("%s.%d", file, os.Getpid())
	defer os.Remove(made)
	cmd := exec.Command(filepath.Join(root, "scripts", "build"), "-o", made, "./"+strings.TrimPrefix(pkg, "steward/"))
	cmd.Env = append(os.Environ(), "VERSION=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return os.Rename(made, file)
}

// moduleRoot returns the folder of Steward's module, in which the test runs. It
// skips the modules below test/.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "steward")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in Steward's module", dir)
		}
		dir = filepath.Dir(dir)
	}
}
