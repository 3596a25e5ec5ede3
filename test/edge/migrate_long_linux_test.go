//go:build linux && long

package edge_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"steward/test/edge"
)

// What changes something at the two sides of a migration: words to PostgreSQL, and
// what SQLite makes durable. Steward is killed at one of these calls.
const (
	toServer = "write"
	toDisk   = "fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,ftruncate"
)

// killedAtCall runs a command, which is killed (-9) when one of its threads makes one
// of the calls for the nth time. It reports whether the command was quicker.
func killedAtCall(n *edge.Node, calls string, nth int, args ...string) (done bool) {
	n.T.Helper()
	cmd := n.Command(args...)
	killed := exec.CommandContext(n.T.Context(), "strace", append([]string{"-f", "-qq", "-o", "/dev/null", "-e", "trace=" + calls,
		"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", calls, nth), cmd.Path}, cmd.Args[1:]...)...)
	killed.Env, killed.Dir = cmd.Env, cmd.Dir
	out, err := killed.CombinedOutput()
	if err != nil && killed.ProcessState.Exited() {
		n.T.Fatalf("%v: %v\n%s", args, err, out)
	}
	return err == nil
}

// with returns a node over the same data folder with other variables.
func with(n *edge.Node, env ...string) *edge.Node {
	other := *n
	other.Env = append(without(without(n.Env, "STEWARD_STORE"), "STEWARD_STORE_OWNER"), env...)
	return &other
}

// Killed at any step, a migration leaves the store where it was, or has moved it as
// a whole. Run again, it continues.
func TestAMigrationIsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{SQLite: true})
	n.Serve()
	longChat(t, n, 2500)
	n.Stop()
	head := n.Must("audit", "head")
	whole := func(n *edge.Node) {
		t.Helper()
		if got := n.Must("audit", "head"); got != head {
			t.Fatalf("the head is %s, was %s", got, head)
		}
		if out := n.Must("audit", "verify"); !strings.Contains(out, "The log is intact") {
			t.Fatal(out)
		}
	}

	rounds, resumed, complete := 0, 0, 0
	var there *edge.Node
	for nth, done := 1, false; !done; nth += 1 + nth/8 {
		there = with(n, edge.Postgres(t)...)
		done = killedAtCall(there, toServer, nth, "migrate", "--to", "env:STEWARD_STORE")
		whole(n)
		switch r := there.Run("audit", "head"); {
		case r.Code == 0 && !strings.HasPrefix(r.Out, "0:"): // else it has tables, and nothing in them
			complete++
			whole(there)
		case r.Code == 0 || strings.Contains(r.Err, "store_incomplete") || strings.Contains(r.Err, "store_not_prepared"):
			if out := there.Must("migrate", "--to", "env:STEWARD_STORE"); strings.Contains(out, "continuing") {
				resumed++
			}
			whole(there)
		default:
			t.Fatalf("killed in round %d, the database is %+v", nth, r)
		}
		rounds++
	}
	t.Logf("killed %d times on the way there: %d copies were continued, %d were complete", rounds-1, resumed, complete)
	if resumed == 0 {
		t.Error("no copy was continued")
	}

	file := n.Data("steward.db")
	gone := func() {
		t.Helper()
		for _, name := range []string{"", "-wal", "-shm", ".part", ".part-wal", ".part-shm"} {
			if err := os.Remove(file + name); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	back := func(what string) {
		t.Helper()
		whole(there)
		if _, err := os.Stat(file); os.IsNotExist(err) {
			if out := there.Must("migrate", "--to", "sqlite"); strings.Contains(out, "continuing") {
				resumed++
			}
		} else if err != nil {
			t.Fatal(err)
		} else {
			complete++
		}
		whole(n)
		if t.Failed() {
			t.Fatal(what)
		}
	}
	rounds, resumed, complete = 0, 0, 0
	for nth, done := 1, false; !done; nth++ {
		gone()
		done = killedAtCall(there, toDisk, nth, "migrate", "--to", "sqlite")
		back(fmt.Sprint("killed in round ", nth))
		rounds++
	}
	t.Logf("killed %d times on the way back: %d copies were continued, %d were complete", rounds-1, resumed, complete)
	if resumed == 0 {
		t.Error("no copy was continued")
	}

	// A file size limit stands in for a full disk.
	rounds, resumed, complete = 0, 0, 0
	for limit, full := 16<<10, true; full; limit += 128 << 10 {
		gone()
		cmd := there.Command("migrate", "--to", "sqlite")
		limited := exec.CommandContext(t.Context(), "prlimit", slices.Concat([]string{fmt.Sprintf("--fsize=%d", limit), cmd.Path}, cmd.Args[1:])...)
		limited.Env, limited.Dir = cmd.Env, cmd.Dir
		out, err := limited.CombinedOutput()
		if full = err != nil; full && !strings.Contains(string(out), "disk_full") {
			t.Fatalf("with %d bytes: %v\n%s", limit, err, out)
		}
		if _, err := os.Stat(file); full && !os.IsNotExist(err) {
			t.Fatalf("with %d bytes there is a database: %v", limit, err)
		}
		back(fmt.Sprint("with ", limit, " bytes"))
		rounds++
	}
	t.Logf("the disk was full %d times: %d copies were continued", rounds-1, resumed)
}
