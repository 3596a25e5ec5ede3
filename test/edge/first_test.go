package edge

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// newcomer is a person who has installed Steward and set nothing: no settings, no folder, no
// variable of Steward's.
func newcomer(t *testing.T, o Options) *Node {
	n := New(t, o)
	n.Env = slices.DeleteFunc(n.Env, func(v string) bool { return strings.HasPrefix(v, "STEWARD_") })
	return n
}

// trial answers the trial call of setup.
func trial(t *testing.T) Options {
	return Options{Model: Script(t, func(Asked) Reply {
		return Reply{Calls: []Call{{Name: "note_number", Args: map[string]any{"number": 417}}}}
	})}
}

func TestSetupWithoutATerminal(t *testing.T) {
	n := newcomer(t, trial(t))
	if r := n.Run("setup"); r.Code != 2 || !strings.Contains(r.Err, "--yes") {
		t.Errorf("%+v", r)
	}
	n.Write("# mine\nlog: {level: warn}\nkeep:\n  # for good\n  unused: 48h\n", ".config", "steward", "steward.yaml")
	if r := n.Run("setup", "--yes"); r.Code != 0 || !strings.Contains(r.Err, "answers and uses tools") {
		t.Errorf("%+v", r)
	}
	b, err := os.ReadFile(filepath.Join(n.Dir, ".config", "steward", "steward.yaml"))
	if err != nil || !strings.HasPrefix(string(b), "# mine\nlog: {level: warn}\nkeep:\n  # for good\n  unused: 48h\nmodels:\n  default: openai/") {
		t.Errorf("%v %s", err, b)
	}
}
