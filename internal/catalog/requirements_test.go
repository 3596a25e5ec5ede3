package catalog

import (
	"os"
	"path/filepath"
	"testing"

	"steward/test/must"
)

// Packages of requirements.txt that the machine's Python lacks are named before the agent is approved, and
// not at the first call. The interpreter gets only the names.
func TestMissingPackagesAreNamed(t *testing.T) {
	w := newWorld(t)
	w.agent("clerk", "process: {box: {command: [python3, main.py]}}\n")
	w.write("clerk/main.py", "")
	w.write("clerk/requirements.txt", "# what it needs\nthere-is-none>=2 ; python_version < '3'\nrequests[socks]==2.1\n-r other.txt\nno_such-package\n\nrequests\n")
	w.edge.offer("box", spec("box.add", "Adds."))
	c := w.open()
	path := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(path, "python3"), []byte("#!/bin/sh\nshift 3\nfor n in \"$@\"; do [ $n = requests ] || echo $n; done\n"), 0o755))
	t.Setenv("PATH", path+":"+os.Getenv("PATH"))
	insp := inspect(t, c, "clerk")
	if !warned(insp, "Python packages", "no_such-package") || warned(insp, "requests") || warned(insp, "there-is-none") {
		t.Errorf("%q %+v", insp.Warnings, insp.Problems)
	}
}

// An agent whose folder was moved begins without what it had kept, and whoever approves it is told so.
func TestAMovedAgentIsNamed(t *testing.T) {
	w := newWorld(t)
	w.agent("clerk", "tools: [time.now]\n")
	w.agent("desk", "tools: [math.evaluate]\n")
	c := w.open()
	approve(t, c, "clerk")
	approve(t, c, "desk")
	w.mkdir(filepath.Join(w.dir, "desk", "agents"))
	must.Do(t, os.Rename(filepath.Join(w.dir, "clerk"), filepath.Join(w.dir, "desk", "agents", "clerk")))
	if insp := inspect(t, c, "desk/clerk"); !warned(insp, "has the content of clerk", "stays under the old name") {
		t.Errorf("%q", insp.Warnings)
	}
}
