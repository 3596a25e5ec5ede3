//go:build linux

package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/internal/store"
	"steward/test/postgres"
)

// connected returns a connection to a database.
func connected(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	config, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// rowsIn returns the number of rows of a table that a transaction of a scope sees,
// without any WHERE; nil: the transaction sets no scope.
func rowsIn(t testing.TB, conn *pgx.Conn, table string, sc *store.Scope) (n int) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if sc != nil {
			if _, err := tx.Exec(t.Context(), setScope, scopeArgs(*sc)...); err != nil {
				return err
			}
		}
		return tx.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// filled returns a database with something of ada's and of bob's in every table.
func filled(t testing.TB) (*postgres.Cluster, string) {
	t.Helper()
	c, name := database(t)
	s := open(t, c.URL(postgres.App, name))
	for _, sc := range []store.Scope{ada, bob} {
		for i := range 2 {
			u := conv(fmt.Sprint(sc.Actor, i))
			_, err := s.Commit(t.Context(), sc, store.Batch{Changes: []store.Change{{URI: u, Body: []byte("secret"), State: "open",
				Terms: []store.Term{{Name: "a", Value: "b"}}, Place: &store.Place{List: conv("list"), Pos: int64(i)}}}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := s.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{{Op: store.Erase, URI: conv("ada0")}}})
	if err != nil {
		t.Fatal(err)
	}
	return c, name
}

// A query that forgets to filter returns nothing without a scope, and only what
// the scope names with one.
func TestAForgottenFilterReturnsNothing(t *testing.T) {
	t.Parallel()
	c, name := filled(t)
	conn := connected(t, c.URL(postgres.App, name))
	var tables []string
	err := conn.QueryRow(t.Context(), "SELECT array_agg(relname ORDER BY relname) FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'", schemaName).Scan(&tables)
	if err != nil || len(tables) != 11 {
		t.Fatalf("tables %v (%v)", tables, err)
	}
	hers := map[string]int{"log": 3, "tree": 2, "place": 1, "term": 1, "space": 1}
	all := map[string]int{"log": 5, "tree": 4, "place": 3, "term": 3, "space": 2, "seal": 1, "sealed": 1, "scar": 1}
	for _, table := range tables {
		if table == "version" {
			continue // says nothing of anybody
		}
		if n := rowsIn(t, conn, table, nil); n != 0 {
			t.Errorf("without a scope, %s shows %d rows", table, n)
		}
		if n := rowsIn(t, conn, table, &ada); n != hers[table] {
			t.Errorf("%s shows ada %d rows, want %d", table, n, hers[table])
		}
		if n := rowsIn(t, conn, table, &system); n != all[table] {
			t.Errorf("%s shows the node %d rows, want %d", table, n, all[table])
		}
	}
	// The scope has ended with its transaction.
	if n := rowsIn(t, conn, "log", nil); n != 0 {
		t.Errorf("after a scope has ended, the log shows %d rows", n)
	}
}

// A writer that has a wrong space in its head changes nothing there, and nobody
// rewrites the log.
func TestTheRoleOfTheNodeIsBound(t *testing.T) {
	t.Parallel()
	c, name := filled(t)
	conn := connected(t, c.URL(postgres.App, name))
	for what, sql := range map[string]string{
		"adds an entry for bob":        "INSERT INTO log (seq, at, version, prev, op, space, actor, type, key) VALUES (99, 0, 1, 0, 1, 'user:bob', 'ada', 'x', 'x')",
		"adds a resource for bob":      "INSERT INTO tree (key, seq, version, gone, space, type) VALUES ('x', 99, 1, false, 'user:bob', 'x')",
		"rewrites an entry":            "UPDATE log SET actor = 'eve'",
		"deletes an entry":             "DELETE FROM log",
		"deletes a resource":           "DELETE FROM tree",
		"deletes a seal":               "DELETE FROM seal",
		"drops a policy":               "DROP POLICY reads ON log",
		"turns off the policies":       "ALTER TABLE log DISABLE ROW LEVEL SECURITY",
		"becomes the owner":            "SET ROLE " + postgres.Owner,
		"makes tables":                 "CREATE TABLE " + schemaName + ".mine (x int)",
		"puts a function under others": "CREATE FUNCTION " + schemaName + ".sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT ''::bytea $$",
	} {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), setScope, scopeArgs(system)...); err != nil {
				return err
			}
			if _, err := tx.Exec(t.Context(), setWrites, []string{"user:ada"}); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), sql)
			return err
		})
		if !isCode(err, "42501") {
			t.Errorf("the role of the node %s: %v", what, err)
		}
	}
	err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		for _, set := range []struct {
			sql  string
			args []any
		}{{setScope, scopeArgs(system)}, {setWrites, []any{[]string{"user:ada"}}}} {
			if _, err := tx.Exec(t.Context(), set.sql, set.args...); err != nil {
				return err
			}
		}
		tag, err := tx.Exec(t.Context(), "UPDATE log SET body = NULL")
		if n := tag.RowsAffected(); n != 3 {
			t.Errorf("without a WHERE, %d bodies were emptied, want ada's 3", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A role that the policies do not bind is refused, and a database that is not
// prepared.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	for url, code := range map[string]string{
		c.URL(postgres.Owner, name):                            "store_role_too_strong",
		c.Super(name):                                          "store_role_too_strong",
		c.URL(postgres.App, c.Database(t, "")):                 "store_not_prepared",
		c.URL(postgres.App, "missing"):                         "store_refused",
		c.URL("stranger", name):                                "store_refused",
		"postgres://steward:hunter2@/x?host=/nowhere":          "store_unreachable",
		"postgres://steward:hunter2@localhost:port/x":          "store_invalid",
		"postgres://steward:hunter2@localhost/x?sslmode=wrong": "store_invalid",
	} {
		s, err := Open(t.Context(), Options{URL: url})
		if err == nil {
			s.Close()
		}
		wantCode(t, err, code)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
	if err := c.Exec(t.Context(), name, "UPDATE steward.version SET version = 99"); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{URL: c.URL(postgres.App, name)})
	wantCode(t, err, "database_too_new")
	_, err = Open(t.Context(), Options{URL: c.URL(postgres.App, name), Owner: c.URL(postgres.Owner, name)})
	wantCode(t, err, "database_too_new")
}

// Several nodes start at once on an empty database: one makes the tables.
func TestPrepareAtOnce(t *testing.T) {
	t.Parallel()
	c := postgres.Shared(t)
	name := c.Database(t, "")
	outcomes := make(chan error)
	for range 3 {
		go func() {
			s, err := Open(context.Background(), Options{URL: c.URL(postgres.App, name), Owner: c.URL(postgres.Owner, name), Shared: true})
			if err == nil {
				err = s.Close()
			}
			outcomes <- err
		}()
	}
	for range 3 {
		if err := <-outcomes; err != nil {
			t.Error(err)
		}
	}
}

// What PostgreSQL cannot store is refused, and what only an index cannot hold is
// stored all the same.
func TestOddWords(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	deep := conv(strings.Repeat("x", 500))
	for range 4 {
		deep = deep.Child("odd.Part", strings.Repeat("y", 500))
	}
	for what, c := range map[string]store.Change{
		"a zero byte in a state": {URI: conv("c"), State: "a\x00"},
		"a term that is no text": {URI: conv("c"), Terms: []store.Term{{Name: "\xff"}}},
		"a deep URI":             {URI: deep},
		"a list at a deep URI":   {URI: conv("c"), Place: &store.Place{List: deep}},
	} {
		_, err := s.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{c}})
		if wantCode(t, err, "batch_invalid"); t.Failed() {
			t.Fatal(what)
		}
	}
	values := []string{"", "\x00\xff", strings.Repeat("v", maxValue), strings.Repeat("v", 5000), strings.Repeat("v", 4999) + "w"}
	for i, v := range values {
		commit(t, s, store.Change{URI: conv(fmt.Sprint(i)), Terms: []store.Term{{Name: "k", Value: v}}})
	}
	for i, v := range values {
		page, err := s.Query(t.Context(), ada, store.Query{Term: store.Term{Name: "k", Value: v}})
		if err != nil || len(page.Items) != 1 || page.Items[0].URI != conv(fmt.Sprint(i)) {
			t.Errorf("value %d: %v, %v", i, page.Items, err)
		}
	}
	if page, err := s.Query(t.Context(), ada, store.Query{State: "a\x00"}); err != nil || len(page.Items) != 0 {
		t.Errorf("%v, %v", page, err)
	}
}
