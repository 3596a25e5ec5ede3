package edge_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"steward/internal/store/backup"
	"steward/internal/store/sqlite"
	"steward/test/edge"
)

// restored returns a node over a data folder that was restored from a backup.
func restored(n *edge.Node, from string, flags ...string) *edge.Node {
	n.T.Helper()
	to := edge.New(n.T, edge.Options{SQLite: true})
	to.Must(append([]string{"restore", from}, flags...)...)
	return to
}

// onlyBackup returns the one complete backup in a folder.
func onlyBackup(t *testing.T, folder string) backup.Entry {
	t.Helper()
	list, err := backup.List(folder)
	if err != nil || len(list) != 1 {
		t.Fatalf("the backups are %+v, %v", list, err)
	}
	return list[0]
}

// Sixteen people write while Steward backs itself up. What is restored has the log up to the head of the backup, and
// goes on.
func TestABackupOfARunningSteward(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: talker(t), SQLite: true})
	n.RunIn("zqx-door-code-123456", "secrets", "set", "DOOR")
	n.Ask("the very first message", nil)
	var people sync.WaitGroup
	for i := range 16 {
		key := n.Key(fmt.Sprintf("u%d", i))
		people.Go(func() {
			for range 4 {
				n.HTTP("POST", "/v1/chat/completions", []byte(`{"model":"assistant","messages":[{"role":"user","content":"hello"}]}`), "Authorization", "Bearer "+key, "Content-Type", "application/json")
			}
		})
	}
	var made struct {
		Path, Head string
		Checked    bool
		Entries    uint64
	}
	n.JSON(&made, "backup", filepath.Join(n.Dir, "backups"))
	people.Wait()
	if !made.Checked || made.Entries == 0 {
		t.Errorf("%+v", made)
	}
	n.Write(made.Head+"\n", "head")
	if out := n.Must("audit", "verify", "--anchor", filepath.Join(n.Dir, "head")); !strings.Contains(out, "1 head that was kept elsewhere does hold") {
		t.Errorf("the head of the backup is not one of the log: %s", out)
	}
	to := restored(n, made.Path)
	if out := to.Must("conversations", "list"); !strings.Contains(out, "the very first message") {
		t.Error(out)
	}
	if out := to.Must("secrets", "list"); !strings.Contains(out, "DOOR") {
		t.Error(out)
	}
	if out := to.Must("audit", "verify"); !strings.Contains(out, "The log is intact") {
		t.Error(out)
	}
	to.Serve()
	to.Ask("and one more", nil)
	// Whoever is no owner of the machine gets no backup.
	status, b := n.HTTP("POST", "/api/v1/backups", map[string]string{"folder": n.Dir}, "Authorization", "Bearer "+n.Key("u1"))
	if status != 403 || !strings.Contains(string(b), "admin_only") {
		t.Errorf("%d %s", status, b)
	}
}

// The job makes a backup, which is told as one that failed if it fails.
func TestBackupsByThemselves(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{SQLite: true})
	folder := filepath.Join(n.Dir, "elsewhere")
	n.Write("backup: {folder: "+folder+", every: 1h}\n", ".config", "steward", "steward.yaml")
	n.Serve() // the first backup begins at once
	n.Until("a backup is there", func() bool { list, err := backup.List(folder); return err == nil && len(list) > 0 })
	n.Until("its end is noted", func() bool { return strings.Contains(n.Run("doctor").Out, " in "+folder+", the newest one of ") })
	if list, err := backup.List(folder); err != nil || list[0].Kind != backup.Job {
		t.Errorf("%+v %v", list, err)
	}
	n.Until("the job is done", func() bool { return strings.Contains(n.Must("jobs", "history", "backup"), "done") })
	if err := errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	n.Must("jobs", "run", "backup", "--background")
	n.Until("the doctor tells that it failed", func() bool { return strings.Contains(n.Run("doctor").Out, "fail  backup") })
}

// A backup that another one keeps from being made leaves that one's file alone; what an interrupted one left is replaced.
func TestABackupToAFile(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{SQLite: true})
	n.Must("ask", "-q", "What is 6 times 7?")
	theirs := n.Write("of the other one", "b.tar.partial")
	if err := os.MkdirAll(backup.Own(n.Data()), 0o700); err != nil {
		t.Fatal(err)
	}
	release, err := sqlite.Hold(filepath.Join(backup.Own(n.Data()), ".steward-backup"))
	if err != nil {
		t.Fatal(err)
	}
	if r := n.Run("backup", "-o", "b.tar"); r.Code == 0 || !strings.Contains(r.Err, "backup_running") {
		t.Errorf("%+v", r)
	}
	if text, err := os.ReadFile(theirs); err != nil || string(text) != "of the other one" {
		t.Errorf("its file has %q, %v", text, err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	n.Must("backup", "-o", "b.tar")
	n.Must("backup", "verify", "b.tar")
	for _, path := range []string{"b.tar", "missing/b.tar"} {
		if r := n.Run("backup", "-o", path); r.Code == 0 || !strings.Contains(r.Err, "output_unusable") {
			t.Errorf("%s: %+v", path, r)
		}
	}
	if left, err := filepath.Glob(filepath.Join(n.Dir, "b.tar*")); err != nil || len(left) != 1 {
		t.Errorf("there are %q, %v", left, err)
	}
}

// older is a node with the data folder of an older Steward, whose database has an older schema.
func older(t *testing.T, schema int) *edge.Node {
	t.Helper()
	n := edge.New(t, edge.Options{SQLite: true})
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", "testdata/older.tar.gz", "-C", n.Dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	db, err := sql.Open("sqlite", "file:"+n.Data("steward.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"DROP TABLE seal", "DROP TABLE salt", "DROP TABLE scar", fmt.Sprintf("PRAGMA user_version = %d", schema)} {
		if _, err := db.ExecContext(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func schemaOf(t *testing.T, n *edge.Node) (version int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+n.Data("steward.db")+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version); err != nil {
		t.Fatal(err)
	}
	return version
}

// An upgrade backs up first; one that fails is undone, and then happens.
func TestAnUpgradeIsUndoneIfItFails(t *testing.T) {
	t.Parallel()
	n := older(t, 2)
	if out := n.Must("upgrade", "check", "--try"); !strings.Contains(out, "version 2 becomes") || !strings.Contains(out, "a copy was upgraded") {
		t.Error(out)
	}
	if got := schemaOf(t, n); got != 2 {
		t.Errorf("the check has made the schema %d", got)
	}
	n.Write("profile: {persona: nobody}\n", ".config", "steward", "steward.yaml")
	r := n.Run("ask", "What is 6 times 7?")
	if got := schemaOf(t, n); r.Code == 0 || got != 2 || !strings.Contains(r.Err, "was undone") {
		t.Errorf("exit %d, the schema is %d: %s", r.Code, got, r.Err)
	}
	n.Write("{}\n", ".config", "steward", "steward.yaml")
	n.Must("ask", "-q", "What is 6 times 7?")
	if got := schemaOf(t, n); got <= 2 {
		t.Errorf("the schema is %d", got)
	}
	list, err := backup.List(n.Data("backups"))
	if err != nil || len(list) == 0 || list[0].Kind != backup.Upgrade {
		t.Fatalf("%+v %v", list, err)
	}
	// The older program goes on with what the backup has.
	n.Must("restore", list[0].Path, "--replace")
	if got := schemaOf(t, n); got != 2 {
		t.Errorf("restored, the schema is %d", got)
	}
}

// Each file that a Steward with everything turned on leaves in its data folder has a rule, which says whether it is
// backed up.
func TestEveryFileIsKnownToBackups(t *testing.T) {
	t.Parallel()
	m := newRemembering(t)
	n := edge.Serve(t, edge.Options{Model: m, Settings: "models: {embed: openai/gpt-test}\nmemory: {rest: 1s}\n", SQLite: true})
	n.RunIn("zqx-door-code-123456", "secrets", "set", "DOOR")
	n.Must("documents", "add", n.Write("# Walruses\n\nThey are large.\n", "walrus.md"))
	conv := n.Ask("Remember the milk.", nil).Conversation
	n.Must("conversations", "export", conv)
	n.Must("search", "milk")
	n.Must("documents", "search", "walruses")
	n.Must("backup", filepath.Join(n.Dir, "backups"))
	n.Stop()
	err := filepath.WalkDir(n.Data(), func(path string, d fs.DirEntry, err error) error {
		rel, e := filepath.Rel(n.Data(), path)
		if err != nil || e != nil || rel == "." {
			return errors.Join(err, e)
		}
		if backup.SortOf(filepath.ToSlash(rel)) == backup.Unknown {
			t.Errorf("no rule in internal/store/backup/layout.go names %s", rel)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Everything of a person is exported; after the deletion nothing is left, which the command proves.
func TestAPersonIsExportedAndDeleted(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: talker(t)})
	key := n.Key("ada")
	status, b := n.HTTP("POST", "/api/v1/import", []byte(`[{"role":"user","content":"`+told+`"},{"role":"assistant","content":"Noted."}]`), "Authorization", "Bearer "+key, "Content-Type", "application/octet-stream")
	if status/100 != 2 {
		t.Fatalf("%d %s", status, b)
	}
	to := filepath.Join(n.Dir, "ada")
	var out struct {
		Conversations int
		Records       map[string]int
	}
	n.JSON(&out, "users", "export", "ada", to)
	if out.Conversations != 1 || out.Records["common.Message"] < 2 {
		t.Errorf("%+v", out)
	}
	list, err := filepath.Glob(filepath.Join(to, "conversations", "*.json"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if text, err := os.ReadFile(list[0]); err != nil || !strings.Contains(string(text), told) {
		t.Errorf("%s %v", text, err)
	}
	n.Must("import", list[0])
	if out := n.Must("conversations", "list"); !strings.Contains(out, "hideout") {
		t.Error(out)
	}
	if r := n.Run("users", "export", "adda", filepath.Join(n.Dir, "adda")); r.Code == 0 || !strings.Contains(r.Err, "user_not_found") {
		t.Errorf("a user who does not exist is exported: %+v", r)
	}
	imported := strings.Fields(strings.Split(n.Must("conversations", "list"), "\n")[1])[0]
	n.Must("conversations", "delete", "--yes", "--erase", imported)
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	copies := 0
	if os.Getenv("STEWARD_TEST_STORE") == "" { // Steward does not back up another store
		n.Must("backup", filepath.Join(n.Dir, "data", "backups"))
		copies = 1
	}
	var proof []struct {
		Entries      int
		Left, Copies []string
	}
	n.JSON(&proof, "users", "delete", "ada", "--yes")
	if len(proof) != 1 || proof[0].Entries == 0 || len(proof[0].Left) != 0 || len(proof[0].Copies) != copies {
		t.Fatalf("%+v", proof)
	}
	for _, old := range proof[0].Copies {
		if err := os.RemoveAll(old); err != nil {
			t.Fatal(err)
		}
	}
	if left := tracesIn(n); left != nil {
		t.Errorf("there is a trace in %q", left)
	}
}
