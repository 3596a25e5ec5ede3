package local

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/fault"
	"steward/internal/service"
)

// Bounds of the db service.
const (
	MaxDatabase = 256 << 20 // bytes of a file; beyond it only reading and deleting
	MaxRows     = 10000
	maxAnswer   = 4 << 20 // bytes of texts and blobs in an answer
	maxTime     = 30 * time.Second
	maxOpen     = 32
)

// DB is the db service: a SQLite file for each agent and user below Dir. Statements may read and change data
// and tables. Anything that reaches beyond the file (ATTACH, PRAGMA, VACUUM, loading code) is refused. It is
// safe for concurrent use. Error codes: sql_invalid, sql_refused, db_too_large, answer_too_large, timeout.
type DB struct {
	Dir  string
	Most int64 // bytes of a file; zero: MaxDatabase

	mu     sync.Mutex
	files  map[string]*file
	closed bool
}

// file is an open database. mu must be held while it is used.
type file struct {
	mu    sync.Mutex
	c     *sqlite.Conn // nil: not open
	guard guard
	path  string
	most  int64
	gone  bool // it must not be opened again

	users int // calls that use it or wait for it; guarded by DB.mu, as is used
	used  time.Time
}

// Close closes all files.
func (d *DB) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	var errs []error
	for _, f := range d.files {
		f.mu.Lock()
		f.gone = true
		errs = append(errs, f.close())
		f.mu.Unlock()
	}
	d.files = nil
	return errors.Join(errs...)
}

func (f *file) close() error {
	if f.c == nil {
		return nil
	}
	err := f.c.Close()
	f.c = nil
	return err
}

// use calls do with exclusive access to the caller's database.
func (d *DB) use(ctx context.Context, c service.Caller, do func(*file) error) error {
	if !filepath.IsLocal(filepath.FromSlash(c.Agent)) && c.Agent != "" {
		return fault.New(fault.Invalid, "agent_invalid", "%.80q is not the path of an agent", c.Agent)
	}
	path := filepath.Join(d.Dir, filepath.FromSlash(c.Agent), "db", url.QueryEscape(c.User)+".sqlite")
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return errClosing()
	}
	if d.files == nil {
		d.files = map[string]*file{}
	}
	f := d.files[path]
	if f == nil {
		d.makeRoom()
		f = &file{path: path, most: cmp.Or(d.Most, MaxDatabase)}
		d.files[path] = f
	}
	f.used = time.Now()
	f.users++
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		f.users--
	}()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return errClosing()
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if err := f.open(); err != nil {
		return err
	}
	f.c.SetInterrupt(ctx.Done())
	defer f.c.SetInterrupt(nil)
	err := do(f)
	if err != nil && ctx.Err() != nil {
		return fault.Of(ctx.Err())
	}
	return err
}

func errClosing() error {
	return fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0)
}

// Files returns a user's databases of all agents below a folder.
func Files(dir, user string) (list []string, err error) {
	name := url.QueryEscape(user) + ".sqlite"
	err = filepath.WalkDir(dir, func(path string, at fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && at.Name() == name && filepath.Base(filepath.Dir(path)) == "db" {
			list = append(list, path)
		}
		return err
	})
	return list, err
}

// Erase removes a user's databases of all agents.
func (d *DB) Erase(user string) error {
	list, err := Files(d.Dir, user)
	for _, path := range list {
		err = errors.Join(err, d.erase(path))
	}
	return err
}

// erase removes a database, which may be in use.
func (d *DB) erase(path string) error {
	d.mu.Lock()
	f := d.files[path]
	delete(d.files, path)
	d.mu.Unlock()
	if f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.gone = true
		if err := f.close(); err != nil {
			return err
		}
	}
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// makeRoom closes the least recently used file if too many are open.
func (d *DB) makeRoom() {
	for len(d.files) >= maxOpen {
		var oldest *file
		for _, f := range d.files {
			if f.users == 0 && (oldest == nil || f.used.Before(oldest.used)) {
				oldest = f
			}
		}
		if oldest == nil {
			return // all are in use
		}
		delete(d.files, oldest.path)
		_ = oldest.close() // it is not in use, and each call has committed its changes
	}
}

// pageSize is SQLite's default, which statements cannot change.
const pageSize = 4096

func (f *file) open() error {
	if f.c != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return broken(err)
	}
	c, err := sqlite.OpenConn(f.path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return broken(err)
	}
	c.SetBusyTimeout(5 * time.Second)
	// One statement can make a file of any size, so SQLite itself must enforce the limit. A little more
	// allows deletions to be written.
	for _, set := range []string{"journal_mode=WAL", "synchronous=FULL", "foreign_keys=1", "trusted_schema=0",
		fmt.Sprint("max_page_count=", f.most/pageSize+64)} {
		err = errors.Join(err, sqlitex.ExecuteTransient(c, "PRAGMA "+set, nil))
	}
	if err == nil {
		c.Limit(sqlite.LimitAttached, 0)
		c.Limit(sqlite.LimitLength, maxAnswer)
		err = c.SetAuthorizer(&f.guard)
	}
	if err != nil {
		return broken(errors.Join(err, c.Close()))
	}
	f.c = c
	return nil
}

// guard authorizes a statement while SQLite compiles it.
type guard struct {
	own     bool // Steward's own statement: allow everything
	reading bool // allow no changes
	changes bool // the statement changes rows
}

// readOnlyPragmas are pragmas that only read. Statements use them through table-valued functions, such as
// pragma_table_info, and extensions such as FTS5 use some.
var readOnlyPragmas = map[string]bool{
	"table_info": true, "table_xinfo": true, "table_list": true, "index_list": true, "index_info": true, "index_xinfo": true,
	"foreign_key_list": true, "foreign_key_check": true, "quick_check": true, "integrity_check": true, "data_version": true, "page_size": true,
}

// Authorize implements sqlite.Authorizer.
func (g *guard) Authorize(a sqlite.Action) sqlite.AuthResult {
	allowed := true
	switch a.Type() {
	case sqlite.OpSelect, sqlite.OpRead, sqlite.OpFunction, sqlite.OpRecursive:
	case sqlite.OpPragma:
		allowed = readOnlyPragmas[a.Pragma()]
	case sqlite.OpInsert, sqlite.OpUpdate, sqlite.OpDelete:
		g.changes = g.changes || !strings.HasPrefix(a.Table(), "sqlite_")
		allowed = !g.reading
	case sqlite.OpTransaction, sqlite.OpSavepoint, sqlite.OpAttach, sqlite.OpDetach, sqlite.OpCreateTrigger, sqlite.OpCreateTempTrigger:
		allowed = false
	default: // tables, indexes and views
		allowed = !g.reading
	}
	if allowed || g.own {
		return sqlite.AuthResultOK
	}
	return sqlite.AuthResultDeny
}

// run runs one statement under the guard and calls each for every row.
func (f *file) run(s service.Statement, reading bool, each func(*sqlite.Stmt) error) (columns []string, err error) {
	if strings.ContainsRune(s.SQL, 0) {
		return nil, fault.New(fault.Invalid, "sql_invalid", "a statement must not contain zero bytes")
	}
	text := skipBlank(s.SQL)
	if text == "" {
		return nil, fault.New(fault.Invalid, "sql_invalid", "the statement is empty")
	}
	for i, a := range s.Args {
		switch a.(type) {
		case map[string]any, []any:
			return nil, fault.New(fault.Invalid, "sql_invalid", "argument %d is a list or an object", i+1).WithHint("pass it as JSON text")
		}
	}
	f.guard = guard{reading: reading}
	st, rest, err := f.c.PrepareTransient(text)
	if err != nil {
		return nil, f.refused(err)
	}
	for i := range st.ColumnCount() {
		columns = append(columns, st.ColumnName(i))
	}
	if err := st.Finalize(); err != nil {
		return nil, f.refused(err)
	}
	text, more := text[:len(text)-rest], text[len(text)-rest:]
	if skipBlank(more) != "" {
		return nil, fault.New(fault.Invalid, "sql_refused", "one statement at a time").WithHint("send several as a list")
	}
	return columns, f.refused(sqlitex.ExecuteTransient(f.c, text, &sqlitex.ExecOptions{Args: s.Args, ResultFunc: each}))
}

// skipBlank skips blanks, semicolons and comments before a statement.
func skipBlank(s string) string {
	for {
		s = strings.TrimLeft(s, "; \t\r\n\f")
		switch {
		case strings.HasPrefix(s, "--"):
			_, s, _ = strings.Cut(s, "\n")
		case strings.HasPrefix(s, "/*"):
			_, s, _ = strings.Cut(s[2:], "*/")
		default:
			return s
		}
	}
}

// Query implements service.Database.
func (d *DB) Query(ctx context.Context, c service.Caller, statement string, args ...any) (service.Rows, error) {
	out := service.Rows{Rows: [][]any{}}
	size := 0
	err := d.use(ctx, c, func(f *file) (err error) {
		out.Columns, err = f.run(service.Statement{SQL: statement, Args: args}, true, func(st *sqlite.Stmt) error {
			row := make([]any, st.ColumnCount())
			for i := range row {
				row[i] = value(st, i)
				size += st.ColumnLen(i)
			}
			if len(out.Rows) == MaxRows || size > maxAnswer {
				return fault.New(fault.TooLarge, "answer_too_large", "the answer has more than %d rows or %d bytes", MaxRows, maxAnswer).
					WithHint("select fewer rows, with LIMIT and OFFSET or narrower conditions")
			}
			out.Rows = append(out.Rows, row)
			return nil
		})
		return err
	})
	if err != nil {
		return service.Rows{}, err
	}
	return out, nil
}

// value returns a column as a JSON value.
func value(st *sqlite.Stmt, col int) any {
	switch st.ColumnType(col) {
	case sqlite.TypeInteger:
		return st.ColumnInt64(col)
	case sqlite.TypeFloat:
		return st.ColumnFloat(col)
	case sqlite.TypeText:
		return st.ColumnText(col)
	case sqlite.TypeBlob:
		b := make([]byte, st.ColumnLen(col))
		st.ColumnBytes(col, b)
		return base64.StdEncoding.EncodeToString(b)
	}
	return nil
}

// Exec implements service.Database.
func (d *DB) Exec(ctx context.Context, c service.Caller, statements ...service.Statement) (changed int64, err error) {
	err = d.use(ctx, c, func(f *file) error {
		if err := f.checkSize(statements); err != nil {
			return err
		}
		if err := f.do("BEGIN"); err != nil {
			return err
		}
		for i, s := range statements {
			if _, err := f.run(s, false, nil); err != nil {
				f.c.SetInterrupt(nil) // roll back even if the time is up
				return errors.Join(fmt.Errorf("statement %d: %w", i+1, err), f.do("ROLLBACK"))
			}
			if f.guard.changes {
				changed += int64(f.c.Changes())
			}
		}
		f.c.SetInterrupt(nil)
		return f.do("COMMIT")
	})
	if err != nil {
		return 0, err
	}
	return changed, nil
}

// do runs one of Steward's own statements. A rollback does nothing if SQLite has already rolled back.
func (f *file) do(statement string) error {
	if statement == "ROLLBACK" && f.c.AutocommitEnabled() {
		return nil
	}
	f.guard = guard{own: true}
	return f.refused(sqlitex.ExecuteTransient(f.c, statement, nil))
}

// checkSize refuses statements that could grow a file that has reached its size limit.
func (f *file) checkSize(statements []service.Statement) error {
	st, err := os.Stat(f.path)
	if err != nil || st.Size() < f.most {
		return nil // a file that is not there yet has room
	}
	for _, s := range statements {
		word, _, _ := strings.Cut(skipBlank(s.SQL), " ")
		if !strings.EqualFold(word, "DELETE") && !strings.EqualFold(word, "DROP") {
			return f.full()
		}
	}
	return nil
}

func (f *file) full() error {
	return fault.New(fault.Exhausted, "db_too_large", "the database has reached its %d MiB", f.most>>20).
		WithHint("delete rows or drop tables first")
}

// refused translates SQLite's error for a statement.
func (f *file) refused(err error) error {
	var coded *fault.Error
	switch {
	case err == nil || errors.As(err, &coded):
		return err
	case sqlite.ErrCode(err).ToPrimary() == sqlite.ResultAuth:
		return fault.New(fault.Denied, "sql_refused", "this statement is not allowed: %w", err).
			WithHint("query only reads; exec changes tables and rows, without BEGIN; other files are not accessible")
	case sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull:
		return f.full()
	}
	return fault.New(fault.Invalid, "sql_invalid", "the statement failed: %w", err).WithHint("fix the statement; the message is from SQLite")
}

func broken(err error) error {
	return fault.New(fault.Internal, "db_broken", "the agent's database cannot be used: %w", err).
		WithHint("check the permissions of the file and its folder")
}
