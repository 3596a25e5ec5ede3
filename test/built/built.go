// Package built gives tests the built programs of this module.
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

// Program returns the path of the program that a main package of this module
// makes, such as "steward/cmd/steward": in the folder bin/test of the module,
// where it is built first. It is safe for concurrent use, also by several
// processes.
//
// go test repeats a test whose files have changed, among them the program that
// Program looks at. It does not know of the program's sources: after a change
// of these, run make test, or go test with -count=1.
func Program(pkg string) (string, error) {
	mu.Lock()
	defer mu.Unlock()
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	file := filepath.Join(root, "bin", "test", path.Base(pkg))
	if os.Getenv(Env) == "" {
		if err := build(root, pkg, file); err != nil {
			return "", err
		}
	}
	if _, err := os.Stat(file); err != nil {
		return "", err
	}
	return file, nil
}

// build replaces the file by a new one; one that runs goes on as it is.
func build(root, pkg, file string) error {
	made := fmt.Sprintf("%s.%d", file, os.Getpid())
	defer os.Remove(made)
	cmd := exec.Command("go", "build", "-o", made, "./"+strings.TrimPrefix(pkg, "steward/"))
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return os.Rename(made, file)
}

// moduleRoot is the folder of the module that the test's folder lies in; a
// module of its own below test/ is not meant.
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
			return "", fmt.Errorf("%s lies in no folder of Steward's", dir)
		}
		dir = filepath.Dir(dir)
	}
}
