// Package fresh makes the home of a user who has never run Steward. The user's settings keep a test from
// finding an Ollama on the machine.
package fresh

import (
	"os"
	"path/filepath"
	"testing"
)

// Home makes a home in a folder, and returns the environment of its user.
func Home(dir string) ([]string, error) {
	conf := filepath.Join(dir, ".config", "steward")
	if err := os.MkdirAll(conf, 0o700); err != nil {
		return nil, err
	}
	err := os.WriteFile(filepath.Join(conf, "steward.yaml"), []byte("providers:\n  ollama: {off: true}\n"), 0o600)
	return []string{"HOME=" + dir, "STEWARD_LISTEN=127.0.0.1:0", "TZ=UTC"}, err
}

// User returns the environment of a fresh user, with more variables. The first of them is HOME.
func User(t *testing.T, more ...string) []string {
	t.Helper()
	env, err := Home(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return append(append(env, "PATH="+os.Getenv("PATH"), "GOCOVERDIR="+os.Getenv("GOCOVERDIR")), more...)
}
