package local

import (
	"cmp"
	"context"
	"database/sql"
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

	"modernc.org/sqlite"

	"steward/internal/fault"
	"steward/internal/service"
)

// Bounds of the db service.
const (
	MaxDatabase = 256 << 20 // bytes of a file; then only reading and deleting
	MaxRows     = 10000
	maxAnswer   = 4 << 20 // bytes of texts and blobs in an answer
	maxTime     = 30 * time.Second
	maxOpen     = 32
)

// DB is the db service: a SQLite file for each agent and user below Dir.
// Statements are those that read and change data and tables; what reaches
// beyond the file (ATTACH, PRAGMA, VACUUM, loading code) is refused. Safe for
// concurrent use. Error codes: sql_invalid, sql_refused, db_too_large,
// answer_too_large, timeout.
type DB struct {
	Dir  string
	Most int64 // bytes of a file; zero: MaxDatabase

	mu     sync.Mutex
	files  map[string]*file
	closed bool
}

// file is an open database; who uses it holds mu.
type file struct {
	mu   sync.Mutex
	db   *sql.DB
	conn *sql.Conn
	path string
	most int64
	gone bool // it is not to be opened again

	users int // that have it, or wait for it; under DB.mu, as used
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
	if f.db == nil {
		return nil
	}
	err := errors.Join(f.conn.Close(), f.db.Close())
	f.db, f.conn = nil, nil
	return err
}

// use calls do with the caller's database, alone with it.
func (d *DB) use(ctx context.Context, c service.Caller, do func(context.Context, *file) error) error {
	if !filepath.IsLocal(filepath.FromSlash(c.Agent)) && c.Agent != "" {
		return fault.New(fault.Invalid, "agent_invalid", "%.80q is no path of an agent", c.Agent)
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
	if err := f.open(ctx); err != nil {
		return err
	}
	return do(ctx, f)
}

func errClosing() error {
	return fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0)
}

// Erase removes the databases of a user, those of all agents.
func (d *DB) Erase(user string) error {
	name := url.QueryEscape(user) + ".sqlite"
	return filepath.WalkDir(d.Dir, func(path string, at fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || at.Name() != name || filepath.Base(filepath.Dir(path)) != "db" {
			return err
		}
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
	})
}

// makeRoom closes the file that was used longest ago if there are many.
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
		_ = oldest.close() // nobody has it, and nothing is unsaved: each call commits
	}
}

// pageSize is SQLite's own default, which nobody here can change.
const pageSize = 4096

// limits of SQLite for a connection: https://www.sqlite.org/c3ref/c_limit_attached.html
const (
	limitLength   = 0
	limitAttached = 7
)

// sqliteFull is SQLite's code for a file that may not grow:
// https://www.sqlite.org/rescode.html#full
const sqliteFull = 13

func (f *file) open(ctx context.Context) error {
	if f.db != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return broken(err)
	}
	dsn := "file:" + (&url.URL{Path: f.path}).EscapedPath() + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&_pragma=trusted_schema(0)&_pragma=busy_timeout(5000)" +
		// One statement can make a file of any size: the bound is SQLite's to
		// keep. A little more lets what is deleted be written down.
		fmt.Sprintf("&_pragma=max_page_count(%d)", f.most/pageSize+64)
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return broken(err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return broken(errors.Join(err, db.Close()))
	}
	_, err = sqlite.Limit(conn, limitAttached, 0)
	if err == nil {
		_, err = sqlite.Limit(conn, limitLength, maxAnswer)
	}
	if err != nil {
		return broken(errors.Join(err, conn.Close(), db.Close()))
	}
	f.db, f.conn = db, conn
	return nil
}

// Query implements service.Database.
func (d *DB) Query(ctx context.Context, c service.Caller, statement string, args ...any) (service.Rows, error) {
	var out service.Rows
	if err := check(statement, "SELECT", "WITH", "VALUES", "EXPLAIN"); err != nil {
		return out, err
	}
	err := d.use(ctx, c, func(ctx context.Context, f *file) error {
		// WITH can begin a change too: what a query changes is rolled back.
		tx, err := f.begin(ctx)
		if err != nil {
			return refused(ctx, err)
		}
		out, err = readAll(ctx, tx, statement, args)
		return errors.Join(err, broken(tx.Rollback()))
	})
	return out, err
}

// begin begins a transaction that ends when it is told to, not when ctx does:
// else the next one could begin before it has ended.
func (f *file) begin(ctx context.Context) (*sql.Tx, error) {
	return f.conn.BeginTx(context.WithoutCancel(ctx), nil)
}

func readAll(ctx context.Context, tx *sql.Tx, statement string, args []any) (service.Rows, error) {
	rows, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return service.Rows{}, refused(ctx, err)
	}
	defer rows.Close()
	out := service.Rows{Rows: [][]any{}}
	if out.Columns, err = rows.Columns(); err != nil {
		return out, refused(ctx, err)
	}
	size := 0
	for rows.Next() {
		row := make([]any, len(out.Columns))
		into := make([]any, len(row))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return out, refused(ctx, err)
		}
		for i, v := range row {
			switch v := v.(type) {
			case []byte:
				row[i] = base64.StdEncoding.EncodeToString(v)
				size += len(v)
			case string:
				size += len(v)
			case time.Time:
				row[i] = v.Format(time.RFC3339Nano)
			}
		}
		if len(out.Rows) == MaxRows || size > maxAnswer {
			return out, fault.New(fault.TooLarge, "answer_too_large", "the answer has more than %d rows or %d bytes", MaxRows, maxAnswer).
				WithHint("ask for less, with LIMIT and OFFSET or narrower conditions")
		}
		out.Rows = append(out.Rows, row)
	}
	return out, refused(ctx, rows.Err())
}

// Exec implements service.Database.
func (d *DB) Exec(ctx context.Context, c service.Caller, statements ...service.Statement) (int64, error) {
	for _, s := range statements {
		if err := check(s.SQL, "SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER", "REINDEX", "ANALYZE"); err != nil {
			return 0, err
		}
	}
	var changed int64
	err := d.use(ctx, c, func(ctx context.Context, f *file) error {
		if err := f.room(statements); err != nil {
			return err
		}
		tx, err := f.begin(ctx)
		if err != nil {
			return refused(ctx, err)
		}
		for i, s := range statements {
			r, err := tx.ExecContext(ctx, s.SQL, s.Args...)
			if err != nil {
				if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == sqliteFull {
					err = f.full()
				} else {
					err = refused(ctx, err)
				}
				return errors.Join(fmt.Errorf("statement %d: %w", i+1, err), tx.Rollback())
			}
			n, err := r.RowsAffected()
			if err != nil {
				return errors.Join(broken(err), tx.Rollback())
			}
			changed += n
		}
		return refused(ctx, tx.Commit())
	})
	if err != nil {
		return 0, err
	}
	return changed, nil
}

// room refuses what could grow a file that is at its bound.
func (f *file) room(statements []service.Statement) error {
	st, err := os.Stat(f.path)
	if err != nil || st.Size() < f.most {
		return nil // a file that is not there yet has room
	}
	for _, s := range statements {
		if w := word(s.SQL); w != "DELETE" && w != "DROP" {
			return f.full()
		}
	}
	return nil
}

func (f *file) full() error {
	return fault.New(fault.Exhausted, "db_too_large", "the database has reached its %d MiB", f.most>>20).
		WithHint("delete rows or drop tables first")
}

func refused(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fault.Of(ctx.Err())
	}
	return fault.New(fault.Invalid, "sql_invalid", "the statement failed: %w", err).WithHint("mend the statement; the message is SQLite's")
}

func broken(err error) error {
	if err == nil {
		return nil
	}
	return fault.New(fault.Internal, "db_broken", "the agent's database cannot be used: %w", err).
		WithHint("look at the file and its folder's rights")
}

// word returns the first word of a statement in upper case.
func word(statement string) string {
	statement = strings.TrimLeft(plain(statement), " \t\r\n(")
	end := strings.IndexFunc(statement, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
	if end < 0 {
		end = len(statement)
	}
	return strings.ToUpper(statement[:end])
}

// check admits one statement that begins with one of the words.
func check(statement string, words ...string) error {
	if strings.ContainsRune(statement, 0) {
		return fault.New(fault.Invalid, "sql_invalid", "a statement has no zero bytes")
	}
	bare := strings.TrimRight(plain(statement), "; \t\r\n")
	if strings.Contains(bare, ";") {
		return fault.New(fault.Invalid, "sql_refused", "one statement at a time").WithHint("send several as a list")
	}
	got := word(statement)
	for _, w := range words {
		if w == got {
			upper := strings.ToUpper(bare)
			if strings.Contains(upper, "TRIGGER") && got == "CREATE" {
				break
			}
			return nil
		}
	}
	return fault.New(fault.Denied, "sql_refused", "%q is not among what may be run here", got).
		WithHint("statements begin with one of %s", strings.Join(words, ", "))
}

// plain returns a statement in which comments are spaces and what stands in
// quotes is left out, so that its words and semicolons can be looked at.
func plain(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		var end string
		switch c := s[i]; {
		case c == '\'' || c == '"' || c == '`':
			end = string(c)
		case c == '[':
			end = "]"
		case strings.HasPrefix(s[i:], "--"):
			end = "\n"
		case strings.HasPrefix(s[i:], "/*"):
			end = "*/"
		default:
			b.WriteByte(c)
			i++
			continue
		}
		b.WriteByte(' ')
		from := i + 1
		if end == "*/" {
			from = i + 2
		}
		n := strings.Index(s[min(from, len(s)):], end)
		if n < 0 {
			return b.String()
		}
		i = from + n + len(end)
	}
	return b.String()
}
