package sandbox

import (
	"os"
	"testing"
)

// A confined program has no mark. If its start fails, what is ended is its own
// tree, and not whatever has an environment.
func TestAFamilyWithoutAMarkHasNoStrangers(t *testing.T) {
	f := family{root: 1 << 30}
	if got := f.members(true); len(got) != 0 {
		t.Errorf("these would be ended: %+v", got)
	}
	parent, ok := stat(os.Getppid())
	if !ok || f.marked(parent) {
		t.Errorf("%+v, %v", parent, ok)
	}
}
