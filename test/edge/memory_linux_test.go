package edge_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"steward/test/edge"
)

// peak returns the most memory that the served Steward has had, in bytes.
func peak(t *testing.T, n *edge.Node) int { return memory(t, n, "VmHWM") }

// memory returns a size of the served Steward from /proc, in bytes.
func memory(t *testing.T, n *edge.Node, name string) (kib int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				t.Fatal(err)
			}
		}
	}
	return kib << 10
}
