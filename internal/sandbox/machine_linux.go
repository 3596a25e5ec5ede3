package sandbox

import (
	"os/exec"
	"strings"
	"sync"

	"steward/internal/fault"
)

// machine knows whether this computer can confine programs. It caches only a positive answer: a
// negative one may change at any time, so that is checked again.
type machine struct {
	bwrap string // path of bubblewrap; empty: bwrap

	mu   sync.Mutex
	able string // its absolute path, once it has been shown to work
}

// thisMachine caches a fact about this computer, so it may be global.
var thisMachine = new(machine)

func (m *machine) available() error {
	_, err := m.confiner()
	return err
}

// confiner returns the path of a working bubblewrap. To test it, it runs a program that does
// nothing, confined in the same way as every other program.
func (m *machine) confiner() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.able != "" {
		return m.able, nil
	}
	name := m.bwrap
	if name == "" {
		name = "bwrap"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", unavailable("bubblewrap is not installed").WithHint("install bubblewrap (on Debian: apt install bubblewrap), %s", orFree)
	}
	help, err := exec.Command(path, "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(help), "--size") {
		return "", unavailable("this version of bubblewrap is too old").WithHint("install bubblewrap 0.8 or later, %s", orFree)
	}
	r, err := launch(Command{Path: "true", Limits: Limits{}.WithDefaults()}, path)
	if err == nil {
		err = r.wait()
	}
	if err != nil {
		return "", unavailable("programs cannot be confined here: %s", fault.Of(err).Message).WithHint("%s, %s", remedy(err.Error()), orFree)
	}
	m.able = path
	return path, nil
}

const orFree = "or give unsandboxed: true for this tool, which then runs with all rights of Steward"

func unavailable(format string, args ...any) *fault.Error {
	return fault.New(fault.Unsupported, "sandbox_unavailable", format, args...)
}

// remedy returns the remedy for an error that bubblewrap reports.
func remedy(report string) string {
	switch {
	case strings.Contains(report, "proc on") || strings.Contains(report, "mount proc"):
		return "allow this container to mount /proc (in Docker: --security-opt systempaths=unconfined)"
	case strings.Contains(report, "uid map") || strings.Contains(report, "namespace") || strings.Contains(report, "Operation not permitted") ||
		strings.Contains(report, "Permission denied") || strings.Contains(report, "No space left"):
		return "allow users to create namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, " +
			"on Ubuntu an AppArmor profile for bwrap; in Docker --security-opt seccomp=unconfined)"
	}
	return "run bwrap to see its error"
}
