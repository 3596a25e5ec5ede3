// Package killed kills a process where it writes to an SQLite file.
//
// A test starts itself anew with Run. The new process calls Inside first of all, opens its
// files with Points.Watch on each connection, and works until it is killed: after a given
// number of steps, in the middle of whatever transaction that is. A step is a row that is
// written, or something that a statement is prepared to do, such as a commit or a
// checkpoint. So each number is a place in the program, and the same one in each run.
package killed

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	_ "steward/test/seed" // defines the flag of the seed
)

const (
	dirEnv    = "STEWARD_TEST_KILLED_DIR"
	stepsEnv  = "STEWARD_TEST_KILLED_STEPS"
	stepsLine = "steps: "
)

// Points counts the steps of a process, and kills it after some of them.
type Points struct {
	done atomic.Int64
	last int64 // it is killed after this one; zero: never
}

// Inside runs do and exits, if the process was started by Run. dir is that of Run.
func Inside(do func(dir string, p *Points) error) {
	dir := os.Getenv(dirEnv)
	if dir == "" {
		return
	}
	last, err := strconv.ParseInt(os.Getenv(stepsEnv), 10, 64)
	p := &Points{last: last}
	if err == nil {
		err = do(dir, p)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("%s%d\n", stepsLine, p.done.Load())
	os.Exit(0)
}

// Run starts the test's program anew, which is killed after a number of steps; zero: never.
// It returns whether it was killed, or else how many steps it took.
func Run(dir string, after int64) (killed bool, steps int64, err error) {
	program, err := os.Executable()
	if err != nil {
		return false, 0, err
	}
	cmd := exec.Command(program, "-test.run=^$")
	cmd.Env = append(os.Environ(), dirEnv+"="+dir, stepsEnv+"="+strconv.FormatInt(after, 10))
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return true, after, nil
		}
	}
	if err != nil {
		return false, 0, fmt.Errorf("%w: %s", err, out)
	}
	_, count, found := strings.Cut(string(out), stepsLine)
	if !found {
		return false, 0, fmt.Errorf("it says %q", out)
	}
	steps, err = strconv.ParseInt(strings.TrimSpace(count), 10, 64)
	return false, steps, err
}

// Places returns the numbers of steps after which a test kills: the first, the last, and some
// between them, of which the long form of the tests draws many by its seed.
func Places(steps int64) []int64 {
	number, err := strconv.ParseUint(flag.Lookup("rapid.seed").Value.String(), 10, 64)
	if err != nil {
		panic(err) // the flag is a number
	}
	r := rand.New(rand.NewPCG(number, 0))
	out := []int64{1, steps - 1, steps}
	for i := range int64(places) {
		from, to := 1+steps*i/places, 1+steps*(i+1)/places
		at := (from + to) / 2
		if places > 100 && to > from {
			at = from + r.Int64N(to-from)
		}
		out = append(out, at)
	}
	return out
}

// Here counts a step.
func (p *Points) Here() {
	if p.done.Add(1) == p.last {
		syscall.Kill(os.Getpid(), syscall.SIGKILL) //nolint:errcheck // nothing runs after it
		select {}
	}
}

// Watch counts what a connection does: rows that it writes to the tables that the file has
// now, and statements that it prepares. The tables behind virtual ones cannot be watched.
func (p *Points) Watch(c *sqlite.Conn) error {
	here := &sqlite.FunctionImpl{AllowIndirect: true, Scalar: func(sqlite.Context, []sqlite.Value) (sqlite.Value, error) {
		p.Here()
		return sqlite.IntegerValue(0), nil
	}}
	if err := c.CreateFunction("here", here); err != nil {
		return err
	}
	var tables []string
	err := sqlitex.ExecuteTransient(c, "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'",
		&sqlitex.ExecOptions{ResultFunc: func(st *sqlite.Stmt) error {
			tables = append(tables, st.ColumnText(0))
			return nil
		}})
	for _, t := range tables {
		for _, event := range []string{"INSERT", "UPDATE", "DELETE"} {
			if err == nil {
				err = sqlitex.ExecuteTransient(c, fmt.Sprintf("CREATE TEMP TRIGGER here_%[1]s_%[2]s AFTER %[2]s ON main.%[1]s BEGIN SELECT here(); END", t, event), nil)
			}
		}
	}
	if err != nil {
		return err
	}
	return c.SetAuthorizer(sqlite.AuthorizeFunc(func(sqlite.Action) sqlite.AuthResult {
		p.Here()
		return sqlite.AuthResultOK
	}))
}
