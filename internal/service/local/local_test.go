package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/service"
	"steward/internal/service/local"
	_ "steward/test/seed"
	"steward/test/storetest"
)

func code(t *testing.T, err error, want string) {
	t.Helper()
	if !fault.HasCode(err, want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// State is like a map for each agent and user, whatever the keys.
func TestStateIsAMap(t *testing.T) {
	kv := local.KV{Store: storetest.NewModel()}
	ctx := context.Background()
	all := map[service.Caller]map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			c := service.Caller{
				Agent: rapid.SampledFrom([]string{"", "a", "a/b", "a/b/c"}).Draw(t, "agent"),
				User:  rapid.SampledFrom([]string{"ann", "bob", "b/o", "x.y"}).Draw(t, "user"),
			}
			if all[c] == nil {
				all[c] = map[string]string{}
			}
			mine := all[c]
			key := rapid.OneOf(rapid.SampledFrom([]string{"x", "x/y", "ü%2F", ".", " "}), rapid.StringN(1, 8, 40)).Draw(t, "key")
			switch rapid.SampledFrom([]string{"put", "get", "delete", "list"}).Draw(t, "what") {
			case "put":
				v := fmt.Sprintf(`{"n":%d}`, rapid.Int().Draw(t, "n"))
				if err := kv.Put(ctx, c, key, json.RawMessage(v)); err != nil {
					t.Fatal(err)
				}
				mine[key] = v
			case "get":
				v, err := kv.Get(ctx, c, key)
				if want, ok := mine[key]; ok != (err == nil) || string(v) != want {
					t.Fatalf("%q of %v: %s, %v", key, c, v, err)
				}
			case "delete":
				_, ok := mine[key]
				if err := kv.Delete(ctx, c, key); ok != (err == nil) {
					t.Fatalf("%q: %v", key, err)
				}
				delete(mine, key)
			case "list":
				prefix := rapid.SampledFrom([]string{"", "x", "ü"}).Draw(t, "prefix")
				limit := rapid.IntRange(1, 5).Draw(t, "limit")
				var got []string
				for after := ""; ; {
					page, err := kv.List(ctx, c, prefix, after, limit)
					if err != nil || len(page) > limit {
						t.Fatal(page, err)
					}
					got = append(got, page...)
					if len(page) < limit {
						break
					}
					after = page[len(page)-1]
				}
				var want []string
				for k := range mine {
					if strings.HasPrefix(k, prefix) {
						want = append(want, k)
					}
				}
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("%q of %v: %q, want %q", prefix, c, got, want)
				}
			}
		}
	})
}

func TestStateRefuses(t *testing.T) {
	kv := local.KV{Store: storetest.NewModel()}
	ctx, c := context.Background(), service.Caller{Agent: "a", User: "ann"}
	code(t, kv.Put(ctx, c, "", json.RawMessage(`1`)), "state_key_invalid")
	code(t, kv.Put(ctx, c, strings.Repeat("x", local.MaxKey+1), json.RawMessage(`1`)), "state_key_invalid")
	code(t, kv.Delete(ctx, c, ""), "state_key_invalid")
	_, err := kv.Get(ctx, c, "")
	code(t, err, "state_key_invalid")
	code(t, kv.Put(ctx, c, "k", json.RawMessage(`{`)), "state_value_invalid")
	code(t, kv.Put(ctx, c, "k", json.RawMessage(`"`+strings.Repeat("x", local.MaxValue)+`"`)), "state_value_too_large")
	if err := kv.Put(ctx, c, strings.Repeat("ÿ", local.MaxKey/2), json.RawMessage(`1`)); err != nil {
		t.Errorf("the longest key: %v", err)
	}
	_, err = kv.Get(ctx, service.Caller{Agent: "a", User: "bob"}, strings.Repeat("ÿ", local.MaxKey/2))
	code(t, err, "not_found")
}

func database(t *testing.T) (*local.DB, string) {
	dir := t.TempDir()
	d := &local.DB{Dir: dir}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, dir
}

func TestDatabase(t *testing.T) {
	d, _ := database(t)
	ctx, ann := context.Background(), service.Caller{Agent: "pa/email", User: "ann"}
	n, err := d.Exec(ctx, ann,
		service.Statement{SQL: "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c BLOB, d REAL) -- a comment; with a semicolon"},
		service.Statement{SQL: "INSERT INTO t VALUES (?, ?, ?, ?), (2, 'x;y', NULL, 0.5);", Args: []any{1, "é", []byte{0, 1}, 1.5}})
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	rows, err := d.Query(ctx, ann, "/* all */ SELECT * FROM t WHERE a > ? ORDER BY a", 0)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(rows)
	if string(got) != `{"columns":["a","b","c","d"],"rows":[[1,"é","AAE=",1.5],[2,"x;y",null,0.5]]}` {
		t.Errorf("%s", got)
	}
	if _, err := d.Query(ctx, service.Caller{Agent: "pa/email", User: "bob"}, "SELECT * FROM t"); err == nil {
		t.Error("another user sees the table")
	}
	if _, err := d.Query(ctx, service.Caller{Agent: "pa", User: "ann"}, "SELECT * FROM t"); err == nil {
		t.Error("another agent sees the table")
	}
	// All or nothing.
	_, err = d.Exec(ctx, ann, service.Statement{SQL: "DELETE FROM t"}, service.Statement{SQL: "INSERT INTO nowhere VALUES (1)"})
	code(t, err, "sql_invalid")
	// A query changes nothing, even where its statement would.
	_, err = d.Query(ctx, ann, "WITH x AS (SELECT 1) DELETE FROM t RETURNING a")
	code(t, err, "sql_refused")
	rows, err = d.Query(ctx, ann, "SELECT count(*) FROM t")
	if err != nil || rows.Rows[0][0] != int64(2) {
		t.Errorf("%v, %v", rows, err)
	}
}

// What SQLite does on behalf of a statement is not refused.
func TestDatabaseOfMoreThanTables(t *testing.T) {
	d, _ := database(t)
	ctx, c := context.Background(), service.Caller{Agent: "a", User: "ann"}
	for _, sql := range []string{
		"CREATE TABLE t (a INTEGER PRIMARY KEY, on_day DATE)", "CREATE INDEX i ON t (on_day)", "CREATE VIEW v AS SELECT a FROM t",
		"INSERT INTO t VALUES (1, '2026-03-01 10:00:00')", "ALTER TABLE t ADD COLUMN b TEXT NOT NULL DEFAULT 'x' CHECK (b <> '')",
		"ALTER TABLE t RENAME COLUMN b TO c", "REINDEX t", "ANALYZE", "WITH x AS (SELECT 2) INSERT INTO t (a) SELECT * FROM x RETURNING a",
		"CREATE VIRTUAL TABLE f USING fts5 (body)", "INSERT INTO f VALUES ('a quince')", "INSERT INTO f (f) VALUES ('optimize')",
		"DELETE FROM f WHERE f MATCH 'medlar'", "DROP INDEX i",
	} {
		if _, err := d.Exec(ctx, c, service.Statement{SQL: sql}); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	for sql, want := range map[string]string{
		"SELECT name FROM pragma_table_info('t')":       `[["a"],["on_day"],["c"]]`,
		"SELECT body FROM f WHERE f MATCH 'quince'":     `[["a quince"]]`,
		"SELECT on_day, c FROM t WHERE a = 1":           `[["2026-03-01 10:00:00","x"]]`,
		"SELECT value FROM json_each('[1,2]')":          `[[1],[2]]`,
		"VALUES (1, NULL) -- and no more":               `[[1,null]]`,
		"SELECT count(*) FROM v JOIN t USING (a) /**/;": `[[2]]`,
	} {
		rows, err := d.Query(ctx, c, sql)
		if got, _ := json.Marshal(rows.Rows); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", sql, got, err)
		}
	}
}

// What reaches beyond the file is refused, and nothing is there afterwards.
func TestDatabaseKeepsToItsFile(t *testing.T) {
	d, dir := database(t)
	ctx, c := context.Background(), service.Caller{Agent: "a", User: "ann"}
	out := filepath.Join(dir, "out.sqlite")
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"ATTACH '" + out + "' AS x", "attach database '" + out + "' as x", "/**/ATTACH '" + out + "' AS x",
		"-- SELECT\nATTACH '" + out + "' AS x",
		"VACUUM INTO '" + out + "'", "VACUUM", "PRAGMA journal_mode=DELETE", "PRAGMA writable_schema=1", "DETACH main",
		"SELECT 1; ATTACH '" + out + "' AS x", "INSERT INTO t VALUES (';'); VACUUM INTO '" + out + "'",
		"SELECT load_extension('" + out + "')", "SELECT readfile('" + secret + "')", "SELECT writefile('" + out + "', 'x')",
		"CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END", "BEGIN", "COMMIT", "SAVEPOINT x", "", ";", "\x00", "SELECT 1 -- \x00",
		"CREATE VIRTUAL TABLE v USING fsdir('/')", "CREATE VIRTUAL TABLE v USING csv(filename='" + secret + "')",
		"(ATTACH '" + out + "' AS x)",
	} {
		if _, err := d.Exec(ctx, c, service.Statement{SQL: sql}); err == nil {
			t.Errorf("%q was run", sql)
		}
		if _, err := d.Query(ctx, c, sql); err == nil {
			t.Errorf("%q was asked", sql)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a file was written outside")
	}
	_, err := d.Query(ctx, service.Caller{Agent: "../x", User: "ann"}, "SELECT 1")
	code(t, err, "agent_invalid")
	for _, path := range []string{"../../x", "a/../../b"} {
		if _, err := d.Exec(ctx, service.Caller{Agent: "a", User: path}, service.Statement{SQL: "CREATE TABLE t (a)"}); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "a", "db", "..%2F..%2Fx.sqlite")); err != nil {
		t.Error("a user's name leads elsewhere: ", err)
	}
}

func TestDatabaseBounds(t *testing.T) {
	d, _ := database(t)
	ctx, c := context.Background(), service.Caller{Agent: "a", User: "ann"}
	_, err := d.Query(ctx, c, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n")
	code(t, err, "answer_too_large")
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = d.Query(short, c, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n")
	if !fault.Is(err, fault.Timeout) {
		t.Errorf("an endless query: %v", err)
	}
	if _, err := d.Query(ctx, c, "SELECT 1"); err != nil {
		t.Errorf("after an endless query: %v", err)
	}
	if _, err := d.Query(ctx, c, "SELECT zeroblob(100000000)"); err == nil {
		t.Error("a blob of 100 MB")
	}
}

// A file has a bound, which one statement cannot pass either.
func TestDatabaseOfItsSize(t *testing.T) {
	dir := t.TempDir()
	d := &local.DB{Dir: dir, Most: 1 << 20}
	defer d.Close()
	ctx, c := context.Background(), service.Caller{Agent: "a", User: "ann"}
	const grow = "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 1000) SELECT zeroblob(10000) FROM n"
	_, err := d.Exec(ctx, c, service.Statement{SQL: "CREATE TABLE t (a)"}, service.Statement{SQL: grow})
	code(t, err, "db_too_large")
	_, err = d.Exec(ctx, c, service.Statement{SQL: "CREATE TABLE t (a)"}, service.Statement{SQL: strings.Replace(grow, "1000)", "90)", 1)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Exec(ctx, c, service.Statement{SQL: grow})
	code(t, err, "db_too_large")
	if _, err := d.Exec(ctx, c, service.Statement{SQL: "DELETE FROM t"}); err != nil {
		t.Errorf("nothing can be deleted: %v", err)
	}
	if _, err := d.Exec(ctx, c, service.Statement{SQL: "INSERT INTO t VALUES (1)"}); err != nil {
		t.Errorf("there is no room after that: %v", err)
	}
}

// Many agents at once use more files than are held open.
func TestManyDatabases(t *testing.T) {
	d, _ := database(t)
	ctx := context.Background()
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			c := service.Caller{Agent: fmt.Sprint("a", i), User: "ann"}
			for range 2 {
				if _, err := d.Exec(ctx, c, service.Statement{SQL: "CREATE TABLE IF NOT EXISTS t (a)"}, service.Statement{SQL: "INSERT INTO t VALUES (1)"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range 40 {
		rows, err := d.Query(ctx, service.Caller{Agent: fmt.Sprint("a", i), User: "ann"}, "SELECT count(*) FROM t")
		if err != nil || rows.Rows[0][0] != int64(2) {
			t.Errorf("%d: %v, %v", i, rows, err)
		}
	}
}

func TestClosedDatabase(t *testing.T) {
	d := &local.DB{Dir: t.TempDir()}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := d.Query(context.Background(), service.Caller{Agent: "a", User: "u"}, "SELECT 1")
	code(t, err, "closing")
}
