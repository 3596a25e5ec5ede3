package localtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

const killEnv = "STEWARD_DOMAIN_KILL"

// Killed does the steps 0 to n-1 in another process, the same test run again,
// which is killed in the middle of it again and again, each time a little
// later; the next one begins at the first step that was not acknowledged. Step
// gets the folder that all of them work in. Killed returns that folder once
// all steps were acknowledged, in the first process only; the others end in it.
func Killed(t *testing.T, n int, step func(dir string, i int)) (dir string) {
	t.Helper()
	if work := os.Getenv(killEnv); work != "" {
		from, err := strconv.Atoi(os.Getenv(killEnv + "_FROM"))
		if err != nil {
			t.Fatal(err)
		}
		for i := from; i < n; i++ {
			step(work, i)
			fmt.Printf("ack %d\n", i)
		}
		os.Exit(0)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	acked, kills := 0, 0
	for round := 0; acked < n; round++ {
		cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.count=1")
		// The child is killed before it can remove its temporary folders: they are inside this test's own.
		cmd.Env = append(os.Environ(), killEnv+"="+dir, killEnv+"_FROM="+strconv.Itoa(acked), "TMPDIR="+t.TempDir())
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		before := acked
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var i int
			if _, err := fmt.Sscanf(lines.Text(), "ack %d", &i); err == nil {
				acked = i + 1
			}
			if acked >= before+1+round%3 { // somewhere in the steps that follow
				time.AfterFunc(time.Duration(round*137%3000)*time.Microsecond, func() { cmd.Process.Kill() })
			}
		}
		if err := cmd.Wait(); err != nil && cmd.ProcessState.Exited() {
			t.Fatalf("the other process failed after %d steps: %v", acked, err)
		}
		if !cmd.ProcessState.Success() {
			kills++
		}
	}
	if kills == 0 {
		t.Fatal("nothing was killed")
	}
	return dir
}
