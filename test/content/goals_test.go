package content

import (
	"strings"
	"testing"

	"steward/test/edge"
)

// An order that an agent has copied from a file into a goal is still an order of others when the goal is
// read in another conversation: a model that obeys it sends nothing without a question. A goal that the
// person has typed is the person's own.
func TestOrdersInAGoal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "approve: unfixed\ntools:\n  shown_tokens: 100000\n  shown: 200\n")
	w.file("readme.txt", []byte("Read me.\n"+order+"\n"))
	w.file("secret.txt", []byte("The code is "+secret+".\n"))
	w.Must("goals", "add", "My own goal")
	w.wants("Make a goal of the file", wish{does: []step{call("files.read", args{"path": "workspace/readme.txt"}), call("goal.create", args{"title": "Zebra", "description": order})}})
	w.Serve()
	w.Ask("Make a goal of the file", func(edge.Approval) string { return "approve" })
	if shown := w.Must("goals", "show", "zebra"); !strings.Contains(shown, "labels       private, untrusted") {
		t.Fatalf("the goal has no labels:\n%s", shown)
	}
	if shown := w.Must("goals", "show", "own"); strings.Contains(shown, "labels") {
		t.Errorf("the person's own goal has labels:\n%s", shown)
	}
	for name, read := range map[string]step{"a goal": call("goal.show", args{"which": "zebra"}), "changes of goals": call("goal.changes", args{})} {
		a := w.obey(source{name: name, reads: []step{read, call("goal.show", args{"which": "zebra"})}}, nil)
		if left := w.left(); strings.Contains(left, secret) {
			t.Fatalf("%s: the code has left the machine:\n%s", name, left)
		}
		if got := shown(a); got != asked {
			t.Errorf("%s: the code is shown in questions about %q, want %q: %s", name, got, asked, a.Text)
		}
	}
}
