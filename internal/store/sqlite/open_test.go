package sqlite

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	sqlite3 "zombiezen.com/go/sqlite"

	"steward/internal/fault"
	"steward/internal/store"
)

func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "not", "there", "yet?#%.db")
	s := open1(t, path)
	list := conv("list")
	full := store.Change{URI: conv("c"), Body: []byte("1"), State: "open", Terms: []store.Term{{Name: "k", Value: "v"}},
		Place: &store.Place{List: list, Pos: 3}}
	commit(t, s, full, put(conv("d"), "x"))
	commit(t, s, store.Change{Op: store.Delete, URI: conv("d")})
	log, tree := contents(t, s)
	close1(t, s)

	s = open1(t, path)
	if log2, tree2 := contents(t, s); !reflect.DeepEqual(log, log2) || !reflect.DeepEqual(tree, tree2) {
		t.Errorf("reopened, it has\n%v\n%v\nnot\n%v\n%v", log2, tree2, log, tree)
	}
	// The writer continues where it was, with versions, places and terms.
	full.Place, full.Terms, full.State = &store.Place{List: list, Pos: 4}, nil, ""
	if r := commit(t, s, full, put(conv("d"), "y")); r.Seq != 5 || r.Versions[0] != 2 || r.Versions[1] != 3 || r.At.Before(log[2].At) {
		t.Errorf("receipt %+v", r)
	}
	for _, q := range []store.Query{{State: "open"}, {Term: store.Term{Name: "k", Value: "v"}}} {
		if p, err := s.Query(t.Context(), ada, q); err != nil || len(p.Items) != 0 {
			t.Errorf("query %+v gives %v, %v", q, p, err)
		}
	}
	p, err := s.Query(t.Context(), ada, store.Query{List: list})
	if err != nil || len(p.Items) != 1 || p.Items[0].Pos != 4 {
		t.Errorf("the list has %v, %v", p, err)
	}
	if head, err := s.Wait(t.Context(), 0); err != nil || head != 5 {
		t.Errorf("head %d, %v", head, err)
	}
	for _, name := range []string{path, path + ".lock", path + "-wal"} {
		f := must(os.Stat(name))
		if f.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v", name, f.Mode())
		}
	}
}

func TestSettingsAreInForce(t *testing.T) {
	s := open1(t, dbPath(t))
	for name, want := range map[string]int64{
		"synchronous": 2, "wal_autocheckpoint": checkpointPages, "busy_timeout": busyTimeout.Milliseconds(), "journal_size_limit": keepWAL,
	} {
		if got, err := s.writer.c.number("PRAGMA " + name); err != nil || got != want {
			t.Errorf("%s is %d, want %d (%v)", name, got, want, err)
		}
	}
	c := must(s.readers.get(t.Context()))
	defer s.readers.put(c)
	if got, err := c.number("PRAGMA query_only"); err != nil || got != 1 {
		t.Errorf("query_only is %d (%v)", got, err)
	}
	if err := c.exec("DELETE FROM log"); !isCode(err, 8) {
		t.Errorf("a reader writes: %v", err)
	}
	for _, p := range [][2]string{{"synchronous", "nonsense"}, {"no_such_setting", "1"}, {"busy_timeout", "-1"}} {
		if err := c.pragma(p[0], p[1], p[1]); err == nil || !strings.Contains(err.Error(), "SQLite's setting") {
			t.Errorf("%s=%s: %v", p[0], p[1], err)
		}
	}
}

// refusedUntouched opens a file that is to be refused, and wants it as it was.
func refusedUntouched(t *testing.T, path, code string) {
	t.Helper()
	before := must(os.ReadFile(path))
	for _, readOnly := range []bool{false, true} {
		s, err := Open(t.Context(), Options{Path: path, ReadOnly: readOnly})
		if err == nil {
			close1(t, s)
			t.Fatalf("read only %v: it opened", readOnly)
		}
		wantCode(t, err, code)
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("read only %v: the refused file has changed (%v)", readOnly, err)
		}
	}
}

func TestNewerDatabase(t *testing.T) {
	path := dbPath(t)
	steps := must(schema())
	s, err := open(t.Context(), Options{Path: path}, append(steps, "CREATE TABLE future (x)"))
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, put(conv("c"), "kept"))
	close1(t, s)
	refusedUntouched(t, path, "database_too_new")
}

func TestNoDatabase(t *testing.T) {
	foreign := dbPath(t)
	c, err := openConn(foreign, 0x6) // read, write, create
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.exec("CREATE TABLE theirs (x); PRAGMA user_version=1"), c.close()); err != nil {
		t.Fatal(err)
	}
	whole := must(os.ReadFile(foreign))
	for name, content := range map[string][]byte{
		"text":       []byte("Dear diary, "),
		"long text":  bytes.Repeat([]byte("Dear diary, "), 1000),
		"its header": append(bytes.Clone(whole[:16]), bytes.Repeat([]byte{0xaa}, 5000)...),
		"foreign":    whole,
	} {
		t.Run(name, func(t *testing.T) {
			path := dbPath(t)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			refusedUntouched(t, path, "not_a_database")
		})
	}
}

func TestTruncatedDatabase(t *testing.T) {
	path := dbPath(t)
	s := open1(t, path)
	for i := range 50 {
		commit(t, s, put(conv(string(rune('a'+i))), strings.Repeat("x", 1000)))
	}
	close1(t, s)
	for _, size := range []int64{3 * 4096, 3*4096 - 1, 600, 50} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		refusedUntouched(t, path, "store_broken")
	}
}

func TestEmptyFile(t *testing.T) {
	path := dbPath(t)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Path: path, ReadOnly: true})
	wantCode(t, err, "database_too_old")
	commit(t, open1(t, path), put(conv("c"), ""))
}

func TestNoPath(t *testing.T) {
	if _, err := Open(t.Context(), Options{}); !fault.HasCode(err, "path_invalid") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Options{Path: dbPath(t)}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	_, err := Open(t.Context(), Options{Path: t.TempDir()})
	if err == nil {
		t.Error("a folder opened as a database")
	}
}

func TestMigration(t *testing.T) {
	path := dbPath(t)
	s := open1(t, path)
	commit(t, s, put(conv("c"), "old"))
	log, tree := contents(t, s)
	close1(t, s)
	steps := must(schema())
	// While it is asked for a backup, the database is as it was, and nobody else may open it.
	asked, refuse := 0, errors.New("there is no room for a backup")
	before := func(from, to int) error {
		asked++
		_, err := open(t.Context(), Options{Path: path}, steps)
		wantCode(t, err, "data_in_use")
		copied := filepath.Join(t.TempDir(), "copy.db")
		if got, err := Copy(t.Context(), path, copied); err != nil || from != len(steps) || to <= from || got.Schema != from {
			t.Errorf("before the migration from %d to %d, the database is %+v, %v", from, to, got, err)
		}
		s := open1(t, copied)
		if log2, tree2 := contents(t, s); !reflect.DeepEqual(log, log2) || !reflect.DeepEqual(tree, tree2) {
			t.Errorf("before the migration it has %v, %v", log2, tree2)
		}
		close1(t, s)
		return refuse
	}
	if _, err := open(t.Context(), Options{Path: path, BeforeMigration: before}, append(steps, "DELETE FROM log")); !errors.Is(err, refuse) || asked != 1 {
		t.Fatalf("it is migrated without a backup: %v", err)
	}
	refuse = nil

	// One that fails leaves the database as it was.
	if _, err := open(t.Context(), Options{Path: path, BeforeMigration: before}, append(steps, "CREATE TABLE extra (x); DELETE FROM log; nonsense")); err == nil {
		t.Fatal("nonsense migrated")
	}
	s = open1(t, path)
	if log2, tree2 := contents(t, s); !reflect.DeepEqual(log, log2) || !reflect.DeepEqual(tree, tree2) {
		t.Errorf("a failed migration left %v, %v", log2, tree2)
	}
	close1(t, s)

	s, err := open(t.Context(), Options{Path: path, BeforeMigration: before}, append(steps, "CREATE TABLE extra (x)", "INSERT INTO extra VALUES (42)"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.writer.c.number("SELECT x FROM extra"); err != nil || n != 42 {
		t.Errorf("got %d, %v", n, err)
	}
	if n, err := s.writer.c.number("PRAGMA user_version"); err != nil || n != int64(len(steps)+2) {
		t.Errorf("version %d, %v", n, err)
	}
	if log2, tree2 := contents(t, s); !reflect.DeepEqual(log, log2) || !reflect.DeepEqual(tree, tree2) {
		t.Errorf("migrated, it has %v, %v", log2, tree2)
	}
	commit(t, s, put(conv("c"), "new"))
	close1(t, s)
	if asked != 3 {
		t.Errorf("it was asked %d times", asked)
	}
	// This program now finds it too new.
	_, err = Open(t.Context(), Options{Path: path})
	wantCode(t, err, "database_too_new")
}

// A database whose first transaction was cut off, when part of it was in the file
// already, is opened as a new one.
func TestTheFirstTransactionIsCutOff(t *testing.T) {
	path, cut := dbPath(t), dbPath(t)
	c, err := openConn(path, sqlite3.OpenReadWrite|sqlite3.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	// A cache of one page makes SQLite write before the end of the transaction.
	if err := c.exec("VACUUM; PRAGMA cache_size=1; BEGIN; CREATE TABLE a (b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) INSERT INTO a SELECT zeroblob(3000) FROM n"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "-journal"} {
		b, err := os.ReadFile(path + name)
		if err != nil || len(b) == 0 {
			t.Fatal(name, len(b), err)
		}
		if err := os.WriteFile(cut+name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open1(t, cut)
	commit(t, s, put(conv("c"), ""))
}

func TestReadOnlyBeside(t *testing.T) {
	path := dbPath(t)
	_, err := Open(t.Context(), Options{Path: path, ReadOnly: true})
	wantCode(t, err, "database_missing")
	s := open1(t, path)
	r := commit(t, s, store.Change{URI: conv("c"), Body: []byte("1"), State: "open"})
	look, err := Open(t.Context(), Options{Path: path, ReadOnly: true, Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer close1(t, look)
	if got, err := look.Get(t.Context(), ada, conv("c")); err != nil || string(got.Body) != "1" || got.State != "open" {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = look.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{put(conv("c"), "")}})
	wantCode(t, err, "store_read_only")

	// It follows, and learns new words.
	page, err := look.Log(t.Context(), ada, store.LogQuery{})
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("got %v, %v", page, err)
	}
	woken := make(chan uint64)
	go func() {
		head, err := look.Wait(t.Context(), r.Seq)
		if err != nil {
			t.Error(err)
		}
		woken <- head
	}()
	commit(t, s, store.Change{URI: conv("c").Child("new.Type", "n"), State: "brand new", Terms: []store.Term{{Name: "new term", Value: "v"}}})
	if head := <-woken; head != 2 {
		t.Errorf("woken at %d", head)
	}
	page, err = look.Log(t.Context(), ada, store.LogQuery{After: page.Next})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].State != "brand new" {
		t.Errorf("got %v, %v", page, err)
	}
	for _, q := range []store.Query{{State: "brand new"}, {Type: "new.Type"}, {Term: store.Term{Name: "new term", Value: "v"}}} {
		if p, err := look.Query(t.Context(), ada, q); err != nil || len(p.Items) != 1 {
			t.Errorf("query %+v gives %v, %v", q, p, err)
		}
	}
	log, tree := contents(t, s)
	if log2, tree2 := contents(t, look); !reflect.DeepEqual(log, log2) || !reflect.DeepEqual(tree, tree2) {
		t.Errorf("the reader sees %v, %v", log2, tree2)
	}
}

// searchable lets others enter the folders above a test's own.
func searchable(t *testing.T, dir string) {
	t.Helper()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
}

// asNobody runs f on a thread whose file accesses are those of a user without
// rights; where the tests are not run by root, they are such a user anyway.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				t.Errorf("setfsuid: %v", err)
				return
			}
		}
		f()
	}()
	<-done
}

func TestReadOnlyFolder(t *testing.T) {
	dir := t.TempDir()
	searchable(t, dir)
	path := filepath.Join(dir, "steward.db")
	s := open1(t, path)
	commit(t, s, put(conv("c"), "kept"))
	close1(t, s)
	for _, name := range []string{path, path + ".lock"} {
		if err := os.Chmod(name, 0o444); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	hidden := dbPath(t) // in a folder that only its owner enters
	close1(t, open1(t, hidden))
	asNobody(t, func() {
		for _, p := range []string{path, filepath.Join(dir, "new.db"), filepath.Join(dir, "sub", "new.db")} {
			if _, err := Open(t.Context(), Options{Path: p}); !fault.HasCode(err, "store_read_only") {
				t.Errorf("%s: %v", p, err)
			}
		}
		if _, err := Open(t.Context(), Options{Path: hidden, ReadOnly: true}); !fault.HasCode(err, "store_unreadable") {
			t.Errorf("hidden: %v", err)
		}
		look, err := Open(t.Context(), Options{Path: path, ReadOnly: true})
		if err != nil {
			t.Errorf("to read: %v", err)
			return
		}
		defer close1(t, look)
		if got, err := look.Get(t.Context(), ada, conv("c")); err != nil || string(got.Body) != "kept" {
			t.Errorf("got %v, %v", got, err)
		}
	})
	if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 2 {
		t.Errorf("the folder has %v, %v", names, err)
	}
}

func TestReadOnlyFile(t *testing.T) {
	dir := t.TempDir()
	searchable(t, dir)
	path := filepath.Join(dir, "steward.db")
	s := open1(t, path)
	commit(t, s, put(conv("c"), "kept"))
	close1(t, s)
	for name, mode := range map[string]fs.FileMode{path: 0o444, path + ".lock": 0o666, dir: 0o777} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t, func() {
		if s, err := Open(t.Context(), Options{Path: path}); !fault.HasCode(err, "store_read_only") {
			t.Errorf("got %v, %v", s, err)
		}
	})
	s = open1(t, path)
	if got, err := s.Get(t.Context(), ada, conv("c")); err != nil || string(got.Body) != "kept" {
		t.Errorf("got %v, %v", got, err)
	}
}

// A symbolic link is the same database, and so under the same lock.
func TestOneLockForLinks(t *testing.T) {
	path := dbPath(t)
	s := open1(t, path)
	link := dbPath(t)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Path: link})
	wantCode(t, err, "data_in_use")
	close1(t, s)
	open1(t, link)
}

// Who opens the database while another process has it for a moment, as at its
// first or last connection, waits for it.
func TestOpenedWhileAnotherProcessHasIt(t *testing.T) {
	path := dbPath(t)
	s := open1(t, path)
	commit(t, s, put(conv("c"), "body"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other := must(openConn(path, sqlite3.OpenReadWrite))
	for _, sql := range []string{"PRAGMA locking_mode=EXCLUSIVE", "CREATE TABLE other (x)"} {
		if _, err := other.number(sql); err != nil && !strings.Contains(err.Error(), "no row") {
			t.Fatal(sql, err)
		}
	}
	opened := make(chan error, 1)
	go func() {
		look, err := Open(t.Context(), Options{Path: path, ReadOnly: true})
		if err == nil {
			err = look.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Errorf("it did not wait: %v", err)
		opened <- err
	case <-time.After(100 * time.Millisecond):
	}
	if err := other.close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// A lock that is given back is free, also while a child that was just forked still has its file.
func TestLockGivenBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	l, err := TakeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(l.f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if l, err = TakeLock(path); err != nil {
		t.Fatalf("it is not free: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}
