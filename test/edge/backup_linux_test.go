package edge_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"steward/test/edge"
)

// If a backup is stopped while it is written to a pipeline, no program of the pipeline sees the end of its input: it
// would take a part for the whole.
func TestAPipelineTakesNoPartForTheWhole(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{SQLite: true})
	n.Must("ask", "-q", "What is 6 times 7?")
	n.Write(strings.Repeat("This is larger than a pipe. ", 20_000), "data", "private", "large")
	cmd := n.Command("backup", "--to-command", "{ head -c 1; touch begun; sleep 3; cat; } | { cat > part; touch taken; }")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as in a unit of systemd or a cron job: there is no terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n.Until("it writes", func() bool { _, err := os.Stat(filepath.Join(n.Dir, "begun")); return err == nil })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it says that it has made a backup")
	}
	if _, err := os.Stat(filepath.Join(n.Dir, "taken")); err == nil {
		t.Error("the pipeline has taken a part for the whole")
	}
	n.Must("backup", filepath.Join(n.Dir, "backups"))
}

// A Steward in a service may see other files at a path than a command does, for example a /tmp of its own. The command
// says that the backup is there, and not here.
func TestABackupThatOnlyTheServiceSees(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{SQLite: true})
	n.Serve()
	for _, c := range []struct {
		folder, from string
		warns        bool
	}{
		{"/proc/self/cwd/seen", n.Dir, false},
		{"/proc/self/cwd/unseen", t.TempDir(), true},
	} {
		cmd := n.Command("backup", c.folder)
		cmd.Dir = c.from
		out, err := cmd.CombinedOutput()
		if warns := strings.Contains(string(out), "sees other files"); err != nil || warns != c.warns || !strings.Contains(string(out), "backed up to "+c.folder) {
			t.Errorf("%s: %s, %v", c.folder, out, err)
		}
	}
}
