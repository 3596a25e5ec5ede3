//go:build long && linux

package edge_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/test/edge"
	"steward/test/postgres"
)

// With its store in PostgreSQL, Steward backs up everything else. pg_dump backs the database up afterwards. Both come
// back together; a database that is older than the files, or that is another one, is refused.
func TestBackupsWithPostgres(t *testing.T) {
	t.Parallel()
	c := postgres.Shared(t)
	name := c.Database(t, "")
	n := edge.New(t, edge.Options{Env: edge.InDatabase(c, name)})
	n.Must("ask", "-q", "What is 6 times 7?")
	tooEarly := c.Dump(t, name)
	n.RunIn("zqx-door-code-123456", "secrets", "set", "DOOR")
	n.Serve()
	n.Ask("What is 8 times 9?", nil)
	folder := filepath.Join(n.Dir, "backups")
	if out := n.Must("backup", folder); !strings.Contains(out, "is not in this backup") || !strings.Contains(out, "pg_dump") {
		t.Errorf("steward backup says\n%s", out)
	}
	made := onlyBackup(t, folder)
	n.Must("backup", "verify", made.Path)
	n.Ask("What is 9 times 9?", nil) // after the backup: the dump may be newer
	dump := c.Dump(t, name)
	n.Stop()

	on := func(variables []string) *edge.Node { return edge.New(t, edge.Options{Env: variables, SQLite: true}) } // without any, SQLite
	refused := func(to *edge.Node, code string) {
		t.Helper()
		if r := to.Run("restore", made.Path); r.Code == 0 || !strings.Contains(r.Err, code) {
			t.Errorf("restored, although it should be refused as %s: %+v", code, r)
		}
		if list, err := filepath.Glob(to.Data("*")); err != nil || slices.ContainsFunc(list, func(p string) bool { return !strings.HasSuffix(p, ".lock") }) {
			t.Errorf("there is %q, %v", list, err)
		}
	}
	refused(on(nil), "store_missing")
	refused(on(edge.Postgres(t)), "store_not_prepared")
	older := on(edge.InDatabase(c, c.Load(t, tooEarly)))
	refused(older, "store_behind_backup")
	other := on(edge.Postgres(t))
	for range 20 {
		other.Must("ask", "-q", "What is 1 plus 1?")
	}
	refused(on(other.Env[len(other.Env)-2:]), "store_differs")
	older.Must("restore", made.Path, "--no-store-check")

	to := on(edge.InDatabase(c, c.Load(t, dump)))
	if out := to.Must("restore", made.Path); !strings.Contains(out, "PostgreSQL stays as it is") {
		t.Errorf("steward restore says\n%s", out)
	}
	to.Must("audit", "verify")
	if out := to.Must("secrets", "list"); !strings.Contains(out, "DOOR") {
		t.Error(out)
	}
	to.Serve()
	to.Ask("What is 2 plus 2?", nil)
	if out := to.Must("conversations", "list"); !strings.Contains(out, "What is 9 times 9?") {
		t.Error(out)
	}

	// What is about the store works with this one too.
	if out := to.Must("upgrade", "check"); !strings.Contains(out, "database: version ") || !strings.Contains(out, "nothing to change") {
		t.Error(out)
	}
	if r := to.Run("upgrade", "check", "--try"); r.Code == 0 || !strings.Contains(r.Err, "upgrade_not_tried") {
		t.Errorf("%+v", r)
	}
	key := to.Key("ada")
	to.HTTP("POST", "/api/v1/import", []byte(`[{"role":"user","content":"the hideout"},{"role":"assistant","content":"Noted."}]`), "Authorization", "Bearer "+key, "Content-Type", "application/octet-stream")
	var exported struct{ Conversations int }
	to.JSON(&exported, "users", "export", "ada", filepath.Join(to.Dir, "ada"))
	if exported.Conversations != 1 {
		t.Errorf("%+v", exported)
	}
	var proof []struct {
		Entries int
		Left    []string
		Store   string
	}
	to.JSON(&proof, "users", "delete", "ada", "--yes")
	if len(proof) != 1 || proof[0].Entries == 0 || len(proof[0].Left) != 0 || proof[0].Store != "postgres" {
		t.Errorf("%+v", proof)
	}

	// A backup that holds a database is not restored beside another one.
	plain := edge.New(t, edge.Options{SQLite: true})
	plain.Must("ask", "-q", "What is 3 plus 3?")
	plain.Must("backup", folder+"-plain")
	made = onlyBackup(t, folder+"-plain")
	refused(on(edge.Postgres(t)), "store_elsewhere")
}
