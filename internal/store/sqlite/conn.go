package sqlite

import (
	"context"
	"fmt"
	"strings"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	_ "modernc.org/sqlite" // prepares the library for the platform
	sqlite3 "modernc.org/sqlite/lib"
)

// conn is one SQLite connection with its prepared statements. It speaks to
// the library without database/sql, whose conversions and allocations per
// call would cost as much as SQLite itself does. One goroutine at a time.
//
// Memory that SQLite gets to see is C memory throughout; no Go pointer is
// handed over.
type conn struct {
	tls   *libc.TLS
	db    uintptr
	out   uintptr // room for one pointer that a call gives back
	stmts map[string]*stmt
	args  arena
	busy  int // statements that have arguments or rows
}

// maxStmts bounds the statements that a connection keeps prepared; queries
// over many spaces make texts of their own.
const maxStmts = 200

const ptrSize = int(unsafe.Sizeof(uintptr(0)))

// openConn opens a connection; flags are SQLITE_OPEN_*.
func openConn(name string, flags int32) (*conn, error) {
	c := &conn{tls: libc.NewTLS(), stmts: make(map[string]*stmt)}
	c.out = libc.Xmalloc(c.tls, types.Size_t(ptrSize))
	cname, err := libc.CString(name)
	if err != nil || c.out == 0 {
		c.close()
		return nil, outOfMemory(ptrSize)
	}
	defer libc.Xfree(c.tls, cname)
	rc := sqlite3.Xsqlite3_open_v2(c.tls, cname, c.out, flags|sqlite3.SQLITE_OPEN_NOMUTEX, 0)
	c.db = c.pointer()
	if rc != sqlite3.SQLITE_OK {
		err := c.fail(rc, "open")
		c.close()
		return nil, err
	}
	sqlite3.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	// From the first statement on: another process may be just opening, closing
	// or recovering the database.
	sqlite3.Xsqlite3_busy_timeout(c.tls, c.db, int32(busyTimeout.Milliseconds()))
	return c, nil
}

// pointer reads what the last call left in c.out.
func (c *conn) pointer() uintptr {
	return *(*uintptr)(unsafe.Pointer(unsafe.SliceData(libc.GoBytes(c.out, ptrSize))))
}

// close frees the connection and everything prepared on it.
func (c *conn) close() error {
	c.forget()
	var err error
	if c.db != 0 {
		if rc := sqlite3.Xsqlite3_close_v2(c.tls, c.db); rc != sqlite3.SQLITE_OK {
			err = &sqlError{code: rc, op: "close"}
		}
	}
	c.args.free(c.tls)
	if c.out != 0 {
		libc.Xfree(c.tls, c.out)
	}
	c.tls.Close()
	return err
}

// forget finalizes the prepared statements.
func (c *conn) forget() {
	for _, s := range c.stmts {
		sqlite3.Xsqlite3_finalize(c.tls, s.ptr)
	}
	clear(c.stmts)
}

// prepare returns the statement of this text, ready for its first argument.
func (c *conn) prepare(sql string) (*stmt, error) {
	if s := c.stmts[sql]; s != nil {
		return s, nil
	}
	if len(c.stmts) >= maxStmts && c.busy == 0 {
		c.forget()
	}
	text, err := libc.CString(sql)
	if err != nil {
		return nil, outOfMemory(len(sql))
	}
	defer libc.Xfree(c.tls, text)
	if rc := sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, text, int32(len(sql)), sqlite3.SQLITE_PREPARE_PERSISTENT, c.out, 0); rc != sqlite3.SQLITE_OK {
		return nil, c.fail(rc, sql)
	}
	s := &stmt{c: c, ptr: c.pointer(), sql: sql}
	c.stmts[sql] = s
	return s, nil
}

// exec runs statements without arguments or results, separated by ';'.
func (c *conn) exec(sql string) error {
	text, err := libc.CString(sql)
	if err != nil {
		return outOfMemory(len(sql))
	}
	defer libc.Xfree(c.tls, text)
	if rc := sqlite3.Xsqlite3_exec(c.tls, c.db, text, 0, 0, 0); rc != sqlite3.SQLITE_OK {
		return c.fail(rc, sql)
	}
	return nil
}

// number returns the first column of the first row of a query, 0 without one.
func (c *conn) number(sql string) (int64, error) {
	s, err := c.prepare(sql)
	if err != nil {
		return 0, err
	}
	defer s.reset()
	row, err := s.step()
	if err != nil || !row {
		return 0, err
	}
	return s.int(0), nil
}

// inTransaction reports whether a transaction is open.
func (c *conn) inTransaction() bool {
	return sqlite3.Xsqlite3_get_autocommit(c.tls, c.db) == 0
}

// readOnly reports whether SQLite opened the file for reading only, as it
// does, without an error, with one that it may not write.
func (c *conn) readOnly() bool {
	return sqlite3.Xsqlite3_db_readonly(c.tls, c.db, 0) == 1
}

// interruptOn ends what the connection is doing when ctx is done. The
// function returned must be called before another caller uses the connection.
func (c *conn) interruptOn(ctx context.Context) (release func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		tls := libc.NewTLS() // c.tls belongs to the goroutine that runs the query
		sqlite3.Xsqlite3_interrupt(tls, c.db)
		tls.Close()
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// fail makes an error of a result code, with SQLite's own words.
func (c *conn) fail(rc int32, op string) error {
	e := &sqlError{code: rc, op: op}
	if c.db != 0 {
		if x := sqlite3.Xsqlite3_extended_errcode(c.tls, c.db); x&0xff == rc&0xff {
			e.code = x
			e.msg = libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db))
			e.errno = sqlite3.Xsqlite3_system_errno(c.tls, c.db)
		}
	}
	if e.msg == "" {
		e.msg = libc.GoString(sqlite3.Xsqlite3_errstr(c.tls, rc))
	}
	return e
}

// stmt is a prepared statement: arguments in order, then step or run.
type stmt struct {
	c   *conn
	ptr uintptr
	sql string
	n   int32 // arguments given so far
	rc  int32 // the first error among them
	on  bool  // has arguments or rows
}

func (s *stmt) begin() {
	if !s.on {
		s.on = true
		s.c.busy++
	}
}

func (s *stmt) bound(rc int32) *stmt {
	s.begin()
	if s.rc == sqlite3.SQLITE_OK {
		s.rc = rc
	}
	return s
}

func (s *stmt) argInt(v int64) *stmt {
	s.n++
	return s.bound(sqlite3.Xsqlite3_bind_int64(s.c.tls, s.ptr, s.n, v))
}

func (s *stmt) argNull() *stmt {
	s.n++
	return s.bound(sqlite3.Xsqlite3_bind_null(s.c.tls, s.ptr, s.n))
}

// argID gives a number, or NULL for 0.
func (s *stmt) argID(v int64) *stmt {
	if v == 0 {
		return s.argNull()
	}
	return s.argInt(v)
}

func (s *stmt) argBlob(b []byte) *stmt { return argBytes(s, b) }
func (s *stmt) argText(t string) *stmt { return argBytes(s, t) }

// argBytes gives a blob, also for text: what is compared is bytes.
func argBytes[T []byte | string](s *stmt, b T) *stmt {
	s.n++
	if len(b) > maxBlob {
		return s.bound(sqlite3.SQLITE_TOOBIG)
	}
	p := s.c.args.room(s.c.tls, len(b))
	if p == 0 {
		return s.bound(sqlite3.SQLITE_NOMEM)
	}
	copy(libc.GoBytes(p, len(b)), b)
	return s.bound(sqlite3.Xsqlite3_bind_blob(s.c.tls, s.ptr, s.n, p, int32(len(b)), 0))
}

// step goes to the next row and reports whether there is one. After false or
// an error the statement is reset.
func (s *stmt) step() (bool, error) {
	s.begin()
	if s.rc != sqlite3.SQLITE_OK {
		err := s.c.fail(s.rc, s.sql)
		s.reset()
		return false, err
	}
	switch rc := sqlite3.Xsqlite3_step(s.c.tls, s.ptr); rc {
	case sqlite3.SQLITE_ROW:
		return true, nil
	case sqlite3.SQLITE_DONE:
		s.reset()
		return false, nil
	default:
		err := s.c.fail(rc, s.sql)
		s.reset()
		return false, err
	}
}

// run carries the statement out and resets it.
func (s *stmt) run() error {
	_, err := s.step()
	if err == nil {
		s.reset()
	}
	return err
}

// numbers runs the statement and appends the first column of its rows.
func (s *stmt) numbers(to []int64) ([]int64, error) {
	defer s.reset()
	for {
		row, err := s.step()
		if err != nil || !row {
			return to, err
		}
		to = append(to, s.int(0))
	}
}

// reset makes the statement ready for new arguments; calling it again does no harm.
func (s *stmt) reset() {
	sqlite3.Xsqlite3_reset(s.c.tls, s.ptr)
	s.n, s.rc = 0, sqlite3.SQLITE_OK
	if s.on {
		s.on = false
		s.c.busy--
	}
	if s.c.busy == 0 {
		s.c.args.clear(s.c.tls)
	}
}

func (s *stmt) int(col int32) int64 {
	return sqlite3.Xsqlite3_column_int64(s.c.tls, s.ptr, col)
}

func (s *stmt) null(col int32) bool {
	return sqlite3.Xsqlite3_column_type(s.c.tls, s.ptr, col) == sqlite3.SQLITE_NULL
}

// view returns a blob that is good until the next step.
func (s *stmt) view(col int32) []byte {
	p := sqlite3.Xsqlite3_column_blob(s.c.tls, s.ptr, col)
	n := sqlite3.Xsqlite3_column_bytes(s.c.tls, s.ptr, col)
	if p == 0 || n == 0 {
		return nil
	}
	return libc.GoBytes(p, int(n))
}

// arena is the memory that the arguments of the running statement lie in: one
// block that stays, and further ones that go with the statement.
type arena struct {
	block uintptr
	used  int
	more  []uintptr
}

const arenaSize = 64 << 10

func (a *arena) room(tls *libc.TLS, n int) uintptr {
	if a.block == 0 {
		a.block = libc.Xmalloc(tls, arenaSize)
	}
	if a.block != 0 && n <= arenaSize-a.used-1 {
		p := a.block + uintptr(a.used)
		a.used += n
		return p
	}
	p := libc.Xmalloc(tls, types.Size_t(n+1))
	if p != 0 {
		a.more = append(a.more, p)
	}
	return p
}

func (a *arena) clear(tls *libc.TLS) {
	a.used = 0
	for _, p := range a.more {
		libc.Xfree(tls, p)
	}
	a.more = a.more[:0]
}

func (a *arena) free(tls *libc.TLS) {
	a.clear(tls)
	if a.block != 0 {
		libc.Xfree(tls, a.block)
	}
}

// pragma sets a setting and reads it back. SQLite ignores what it does not
// know or cannot do, so only what is read back counts.
func (c *conn) pragma(name, set, want string) error {
	if err := c.exec("PRAGMA " + name + "=" + set); err != nil {
		return err
	}
	s, err := c.prepare("PRAGMA " + name)
	if err != nil {
		return err
	}
	defer s.reset()
	row, err := s.step()
	if err != nil {
		return err
	}
	got := ""
	if row {
		got = string(s.view(0))
	}
	if !strings.EqualFold(got, want) {
		return &settingError{name: name, want: want, got: got}
	}
	return nil
}

// settingError says that SQLite did not take a setting.
type settingError struct{ name, want, got string }

func (e *settingError) Error() string {
	return fmt.Sprintf("SQLite's setting %s is %q, not %q", e.name, e.got, e.want)
}

func outOfMemory(n int) error {
	return &sqlError{code: sqlite3.SQLITE_NOMEM, op: "allocate", msg: fmt.Sprintf("no memory for %d bytes", n)}
}

// run carries out a statement without arguments, keeping it prepared.
func (c *conn) run(sql string) error {
	s, err := c.prepare(sql)
	if err != nil {
		return err
	}
	return s.run()
}
