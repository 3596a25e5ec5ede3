package edge_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"steward/test/edge"
	"steward/test/postgres"
)

// A whole Steward on PostgreSQL: turns, a kill -9, commands beside it, the search,
// the audit; then everything moves to the data folder, and from there to another
// database, where the conversation goes on.
func TestOnPostgres(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, edge.Steps(edge.Call{Name: "math.multiply", Args: map[string]any{"a": 6, "b": 7}})), Env: edge.Postgres(t)})
	n.Serve()
	if a := n.Ask("What is 6 times 7, quokka?", nil); a.Text != "42" {
		t.Fatalf("answered %q", a.Text)
	}
	n.Kill()
	n.Serve()
	type listed struct{ ID, Title string }
	conversations := func() (out []listed) {
		n.JSON(&out, "conversations", "list")
		return out
	}
	list := conversations()
	if len(list) != 1 {
		t.Fatalf("conversations %v", list)
	}
	n.Until("the search finds the question", func() bool { return strings.Contains(n.Must("search", "quokka"), "quokka") })
	n.Must("audit", "verify")
	if _, err := os.Stat(n.Data("steward.db")); !os.IsNotExist(err) {
		t.Errorf("there is a database in the data folder: %v", err)
	}
	if r := n.Run("migrate", "--to", "sqlite"); r.Code == 0 || !strings.Contains(r.Err, "store_in_use") {
		t.Errorf("a store that is served is migrated: %+v", r)
	}
	n.Stop()
	if r := n.Run("doctor"); !strings.Contains(r.Out, "the log is intact") { // it misses a model, whatever the store
		t.Errorf("steward doctor says\n%s", r.Out)
	}
	head := n.Must("audit", "head")
	if list := conversations(); len(list) != 1 {
		t.Errorf("without a server, there are %v", list)
	}

	// To the data folder.
	out := n.Must("migrate", "--to", "sqlite")
	if !strings.Contains(out, "copied and compared") {
		t.Errorf("steward migrate says\n%s", out)
	}
	n.Env = without(n.Env, "STEWARD_STORE")
	if got := n.Must("audit", "head"); got != head {
		t.Errorf("the head is %s, was %s", got, head)
	}
	n.Serve()
	if got := conversations(); len(got) != 1 || got[0] != list[0] {
		t.Errorf("in the data folder there are %v", got)
	}
	if a := n.Ask("And again?", nil); a.Text != "42" {
		t.Errorf("answered %q", a.Text)
	}
	n.Stop()

	// To another database. The address may not be on the command line with a password.
	other := edge.Postgres(t)
	n.Env = append(n.Env, "OTHER="+strings.TrimPrefix(other[0], "STEWARD_STORE="), other[1])
	if r := n.Run("migrate", "--to", "postgres://steward:hunter22@localhost/x"); r.Code == 0 || !strings.Contains(r.Err, "password_exposed") {
		t.Errorf("an address with a password: %+v", r)
	}
	n.Must("migrate", "--to", "env:OTHER")
	if r := n.Run("migrate", "--to", "env:OTHER"); r.Code == 0 || !strings.Contains(r.Err, "transfer_refused") {
		t.Errorf("a second copy: %+v", r)
	}
	n.Env = append(n.Env, other...)
	n.Serve()
	if got := conversations(); len(got) != 2 {
		t.Errorf("in the other database there are %v", got)
	}
	if a := n.Ask("And once more?", nil); a.Text != "42" {
		t.Errorf("answered %q", a.Text)
	}
}

// The check of an upgrade is about the database that the node uses, and not about a file in the data folder.
func TestAnUpgradeOfPostgresIsChecked(t *testing.T) {
	t.Parallel()
	c := postgres.Shared(t)
	name := c.Database(t, "")
	n := edge.New(t, edge.Options{Env: edge.InDatabase(c, name)})
	checked := func(want ...string) {
		t.Helper()
		out := n.Must("upgrade", "check")
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("steward upgrade check does not say %q:\n%s", w, out)
			}
		}
	}
	checked("database: none yet", "nothing to change")
	n.Must("ask", "-q", "What is 6 times 7?")
	if err := os.WriteFile(n.Data("steward.db"), []byte("no database at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	checked("database: version 1, which stays", "nothing to change")
	for _, refused := range []struct{ do, args, code string }{
		{"", "--try", "upgrade_not_tried"},
		{"UPDATE steward.version SET version = 99", "", "database_too_new"},
		{"REVOKE USAGE ON SCHEMA steward FROM " + postgres.App, "", "store_refused"},
	} {
		if refused.do != "" {
			if err := c.Exec(t.Context(), name, refused.do); err != nil {
				t.Fatal(err)
			}
		}
		if r := n.Run(append([]string{"upgrade", "check"}, strings.Fields(refused.args)...)...); r.Code == 0 || !strings.Contains(r.Err, refused.code) {
			t.Errorf("%+v: %+v", refused, r)
		}
	}
}

// A second Steward with a data folder of its own is refused the database of the
// first, and may read it. If it waits, it takes over when the first is killed.
func TestASecondStewardIsRefusedTheDatabase(t *testing.T) {
	t.Parallel()
	env := edge.Postgres(t)
	model := edge.Script(t, func(edge.Asked) edge.Reply { return edge.Reply{Text: "noted"} })
	first, second := edge.New(t, edge.Options{Model: model, Env: env}), edge.New(t, edge.Options{Model: model, Env: env})
	first.Serve()
	if a := first.Ask("A question about quokkas", nil); a.Text != "noted" {
		t.Fatalf("answered %q", a.Text)
	}
	pid := fmt.Sprint("process ", first.PID())
	for _, args := range [][]string{{"serve"}, {"users", "add", "ada"}, {"migrate", "--to", "sqlite"}} {
		if r := second.Run(args...); r.Code == 0 || !strings.Contains(r.Err, "store_in_use") || !strings.Contains(r.Err, pid) {
			t.Errorf("%v beside another Steward: %+v", args, r)
		}
	}
	for _, args := range [][]string{{"conversations", "list"}, {"users", "list"}} {
		if r := second.Run(args...); r.Code != 0 || r.Out == "" {
			t.Errorf("%v beside another Steward: %+v", args, r)
		}
	}
	if out := second.Must("conversations", "list"); !strings.Contains(out, "quokkas") {
		t.Errorf("beside another Steward there are\n%s", out)
	}
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for !strings.Contains(second.Log(), "waiting until the Steward that uses the data ends") {
			time.Sleep(10 * time.Millisecond)
		}
		first.Kill()
	}()
	second.Serve("--wait")
	<-killed
	if a := second.Ask("And again?", nil); a.Text != "noted" {
		t.Errorf("answered %q", a.Text)
	}
	if r := first.Run("serve"); r.Code == 0 || !strings.Contains(r.Err, "store_in_use") {
		t.Errorf("the first is back: %+v", r)
	}
}
