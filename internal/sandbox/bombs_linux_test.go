//go:build long

package sandbox

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/test/must"
)

func TestBombs(t *testing.T) {
	limits := Limits{Memory: 128 << 20, Processes: 64, CPU: 20 * time.Second}
	for _, free := range []bool{false, true} {
		t.Run(fmt.Sprintf("forks, unsandboxed %v", free), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			mark := fmt.Sprintf("88%06d", os.Getpid())
			// The bomb is finite. For root the kernel enforces no process limit, so only the
			// watch stops the bomb, and an endless one could take down the machine.
			bomb := `f() { [ $1 -gt 9 ] || { f $(($1+1)) | f $(($1+1)) & }; }; f 0; sleep ` + mark
			p := must.Get(Start(ctx, Command{Path: "sh", Args: []string{"-c", bomb, mark}, Unsandboxed: free, Limits: limits}))
			p.Stdin.Close()
			err := p.Wait()
			t.Logf("%v: %.300s", err, p.Stderr())
			if err == nil {
				t.Error("it ended well")
			}
			if left := marked(t, mark); len(left) > 0 {
				t.Errorf("%d still running", len(left))
			}
		})
		t.Run(fmt.Sprintf("memory, unsandboxed %v", free), func(t *testing.T) {
			ctx := context.Background()
			l := limits
			l.CPU = 0
			const parts = `for i in 1 2 3 4 5; do { head -c 40000000 /dev/zero; sleep 600; } | tail & done; wait` // tail buffers input without a newline
			p := must.Get(Start(ctx, Command{Path: "sh", Args: []string{"-c", parts}, Unsandboxed: free, Limits: l}))
			if err := p.Wait(); !fault.HasCode(err, "memory_exceeded") {
				t.Errorf("Wait: %v", err)
			}
		})
		t.Run(fmt.Sprintf("CPU, unsandboxed %v", free), func(t *testing.T) {
			l := limits
			l.CPU = time.Second
			p := must.Get(Start(context.Background(), Command{Path: "sh", Args: []string{"-c", "while :; do :; done & while :; do :; done"}, Unsandboxed: free, Limits: l}))
			if err := p.Wait(); !fault.HasCode(err, "cpu_exceeded") {
				t.Errorf("Wait: %v", err)
			}
		})
	}
}
