package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	sqlite3 "zombiezen.com/go/sqlite"

	"steward/internal/fault"
	"steward/internal/store"
)

// FuzzRefs: damaged bytes are an error, never a panic, and what is read is
// written the same way.
func FuzzRefs(f *testing.F) {
	f.Add([]byte{})
	f.Add(refs{terms: []term{{1, "v"}}, places: []slot{{2, -3}}}.encode(nil))
	f.Add([]byte{1, 1, 200})
	f.Add(bytes.Repeat([]byte{0xff}, 12))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRefs(b)
		if err != nil {
			return
		}
		again, err := decodeRefs(r.encode(nil))
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("%x: %+v becomes %+v, %v", b, r, again, err)
		}
	})
}

// A query that takes long ends with its context, and the connection continues.
func TestInterrupt(t *testing.T) {
	s, err := Open(t.Context(), Options{Path: dbPath(t), Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer close1(t, s)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		rows := 0
		err := s.read(ctx, func(c *conn) error {
			st := c.prepare("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n")
			err := st.each(func() error {
				if rows++; rows == 3 {
					cancel()
				}
				return nil
			})
			if !isCode(err, sqlite3.ResultInterrupt) {
				t.Errorf("got %v", err)
			}
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		err = s.read(t.Context(), func(c *conn) error {
			n, err := c.number("SELECT 42")
			if n != 42 {
				t.Errorf("then: %d", n)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Many different queries do not pile up prepared statements, and do not end
// one that is being read.
func TestManyStatements(t *testing.T) {
	s := open1(t, dbPath(t))
	c := must(s.readers.get(t.Context()))
	defer s.readers.put(c)
	outer := c.prepare("VALUES (1), (2), (3)")
	if ok, err := outer.step(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	big := strings.Repeat("x", 2*maxView)
	for i := range maxStmts * 2 {
		inner := c.prepare(fmt.Sprintf("SELECT %d, ?, ?", i))
		if ok, err := inner.argText("small").argText(big).step(); !ok || err != nil || inner.int(0) != int64(i) ||
			string(inner.view(1)) != "small" || string(inner.view(2)) != big {
			t.Fatalf("statement %d: %v, %v", i, ok, err)
		}
		inner.reset()
	}
	for want := int64(2); want <= 3; want++ {
		if ok, err := outer.step(); !ok || err != nil || outer.int(0) != want {
			t.Fatalf("the outer one: %v, %v", ok, err)
		}
	}
	outer.reset()
	if err := c.prepare("SELECT 'one more'").run(); err != nil || len(c.stmts) > maxStmts {
		t.Errorf("%d statements, %v", len(c.stmts), err)
	}
	if err := c.prepare("nonsense").argInt(1).argText("x").run(); !isCode(err, 1) || c.busy != 0 {
		t.Errorf("got %v", err)
	}
	if _, err := c.number("nonsense"); !isCode(err, 1) {
		t.Errorf("got %v", err)
	}
}

func TestTooLarge(t *testing.T) {
	s := open1(t, dbPath(t))
	body := make([]byte, maxBlob+1) // never written to, so hardly any memory
	_, err := s.Commit(t.Context(), ada, batch(store.Change{URI: conv("c"), Body: body}))
	if !fault.HasCode(err, "body_too_large") || !fault.Is(err, fault.TooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestCodes(t *testing.T) {
	path := dbPath(t)
	sql := func(code sqlite3.ResultCode) error { return failure(code.ToError()) }
	for _, c := range []struct {
		err  error
		code string
	}{
		{sql(13), "disk_full"},
		{sql(778), "store_broken"},
		{sql(8), "store_read_only"},
		{sql(1032), "store_broken"},
		{sql(14), "store_broken"},
		{sql(5), "store_busy"},
		{sql(11), "store_broken"},
		{sql(26), "not_a_database"},
		{fmt.Errorf("x: %w", syscall.ENOSPC), "disk_full"},
		{fmt.Errorf("x: %w", syscall.EFBIG), "disk_full"},
		{fmt.Errorf("x: %w", syscall.EROFS), "store_read_only"},
		{errRefs, "store_broken"},
		{closed(), "store_closed"},
	} {
		got := coded(path, c.err)
		if !fault.HasCode(got, c.code) {
			t.Errorf("%v becomes %v, want %s", c.err, got, c.code)
		}
		var f *fault.Error
		if errors.As(c.err, &f); f == nil && !errors.Is(got, c.err) {
			t.Errorf("%v hides its cause", got)
		}
	}
	if coded(path, nil) != nil {
		t.Error("no error becomes one")
	}
	// What SQLite could not write, the system says why.
	missing := filepath.Join(t.TempDir(), "no", "folder", "steward.db")
	if got := coded(missing, sql(14)); !fault.HasCode(got, "store_broken") || !errors.Is(got, fs.ErrNotExist) {
		t.Errorf("got %v", got)
	}
}

// Rows that are damaged are told of, whoever meets them.
func TestDamage(t *testing.T) {
	path := dbPath(t)
	s := open1(t, path)
	commit(t, s, put(conv("key"), ""), put(conv("word"), ""), put(conv("refs"), ""))
	close1(t, s)
	c := must(openConn(path, 0x2))
	err := c.exec(`UPDATE log SET key = x'7f', actor = 999 WHERE seq = 1;
		UPDATE log SET space = 999, state = 999 WHERE seq = 2;
		UPDATE tree SET refs = x'ff' WHERE seq = 3`)
	if err := errors.Join(err, c.close()); err != nil {
		t.Fatal(err)
	}
	s = open1(t, path)
	system := store.ForNode("system")
	_, err = s.Get(t.Context(), system, conv("word"))
	wantCode(t, err, "store_broken")
	for _, q := range []store.Query{{}, {Under: conv("word")}} {
		_, err = s.Query(t.Context(), system, q)
		wantCode(t, err, "store_broken")
	}
	for _, q := range []store.LogQuery{{}, {Of: conv("word")}, {Since: 1}} {
		_, err = s.Log(t.Context(), system, q)
		wantCode(t, err, "store_broken")
	}
	_, err = s.Commit(t.Context(), ada, batch(put(conv("refs"), "")))
	wantCode(t, err, "store_broken")
	commit(t, s, put(conv("fine"), ""))
}

// planned counts what SQLite asks when it plans statements of a connection.
type planned struct{ n int }

func (p *planned) Authorize(sqlite3.Action) sqlite3.AuthResult { p.n++; return sqlite3.AuthResultOK }

// TestStatementsArePlannedOnce: other arguments do not make SQLite plan a statement again.
func TestStatementsArePlannedOnce(t *testing.T) {
	s, err := Open(t.Context(), Options{Path: dbPath(t), Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer close1(t, s)
	var reads planned
	for range 3 {
		for _, name := range []string{"a", "b"} {
			ch := put(conv(name).Child("common.Interaction", "x"), strings.Repeat("text ", 200))
			ch.State, ch.Terms = "open", []store.Term{{Name: "term", Value: name}}
			ch.Place = &store.Place{List: conv(name)}
			if _, err := s.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{ch}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.read(t.Context(), func(c *conn) error { return c.db.SetAuthorizer(&reads) }); err != nil {
		t.Fatal(err)
	}
	for i, q := range []func(name string, limit int) store.Query{
		func(n string, limit int) store.Query { return store.Query{Under: conv(n), Limit: limit} },
		func(n string, limit int) store.Query { return store.Query{State: "open", Under: conv(n), Limit: limit} },
		func(n string, limit int) store.Query {
			return store.Query{State: "open", Type: "common.Interaction", Limit: limit}
		},
		func(n string, limit int) store.Query {
			return store.Query{Term: store.Term{Name: "term", Value: n}, Reverse: true, Limit: limit}
		},
		func(n string, limit int) store.Query { return store.Query{List: conv(n), From: 1, Limit: limit} },
		func(n string, limit int) store.Query {
			return store.Query{List: conv(n), Count: &store.Count{From: 0, To: int64(limit)}}
		},
	} {
		for again, name := range []string{"a", "b", "a"} {
			before := reads.n
			if _, err := s.Query(t.Context(), ada, q(name, again+1)); err != nil {
				t.Fatal(err)
			}
			if again > 0 && reads.n != before {
				t.Errorf("query %d is planned again for %s", i, name)
			}
		}
	}
	for again, name := range []string{"a", "b"} {
		before := reads.n
		if _, err := s.Get(t.Context(), ada, conv(name).Child("common.Interaction", "x")); err != nil {
			t.Fatal(err)
		}
		if again > 0 && reads.n != before {
			t.Error("Get is planned again")
		}
	}
}
