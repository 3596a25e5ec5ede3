package sqlite

import (
	"context"
	"fmt"
	"strings"

	sqlite3 "zombiezen.com/go/sqlite"
)

// conn is one SQLite connection with its prepared statements. It must be used by
// one goroutine at a time.
type conn struct {
	db    *sqlite3.Conn
	stmts map[string]*stmt
	busy  int           // statements with bound arguments or open rows
	stop  chan struct{} // closed to interrupt the running statement; nil: not needed so far
}

// Bounds of a connection's caches.
const (
	maxStmts = 200      // prepared statements; queries over many spaces have distinct texts
	maxView  = 16 << 10 // bytes of the buffer that a statement keeps for views
)

// openConn opens a connection.
func openConn(name string, flags sqlite3.OpenFlags) (*conn, error) {
	db, err := sqlite3.OpenConn(name, flags)
	if err != nil {
		return nil, failure(err)
	}
	// This is needed from the first statement on: another process may be opening,
	// closing or recovering the database.
	db.SetBusyTimeout(busyTimeout)
	return &conn{db: db, stmts: make(map[string]*stmt)}, nil
}

// close frees the connection and its statements.
func (c *conn) close() error { return failure(c.db.Close()) }

// prepare returns the statement of this text, ready for its first argument. A
// syntax error is returned by its first step.
//
// The plus keeps SQLite from looking at the arguments when it plans. Otherwise it
// would plan a query again for each new argument, which takes several times as
// long as to run it.
func (c *conn) prepare(sql string) *stmt {
	if s := c.stmts[sql]; s != nil {
		return s
	}
	if len(c.stmts) >= maxStmts && c.busy == 0 {
		for _, s := range c.stmts {
			s.st.Finalize() // only repeats the error of its last run
		}
		clear(c.stmts)
	}
	st, err := c.db.Prepare(strings.ReplaceAll(sql, "?", "+?"))
	if err != nil {
		return &stmt{c: c, err: failure(err)}
	}
	s := &stmt{c: c, st: st}
	c.stmts[sql] = s
	return s
}

// exec runs statements without arguments or results, separated by ';'.
func (c *conn) exec(sql string) error {
	for sql = strings.TrimSpace(sql); sql != ""; {
		st, rest, err := c.db.PrepareTransient(sql)
		if err != nil {
			return failure(err)
		}
		for row := true; row && err == nil; {
			row, err = st.Step()
		}
		st.Finalize()
		if err != nil {
			return failure(err)
		}
		sql = strings.TrimSpace(sql[len(sql)-rest:])
	}
	return nil
}

// number returns the first column of a query's first row, or 0 if there is no
// row.
func (c *conn) number(sql string) (int64, error) { return c.prepare(sql).number() }

// inTransaction reports whether a transaction is open.
func (c *conn) inTransaction() bool { return !c.db.AutocommitEnabled() }

// interruptOn interrupts the connection when ctx is done. The caller must call
// release before the connection is used again.
func (c *conn) interruptOn(ctx context.Context) (release func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	if c.stop == nil {
		c.listen()
	}
	interrupted := c.stop
	cancel := context.AfterFunc(ctx, func() { close(interrupted) })
	return func() {
		if !cancel() {
			<-interrupted
			c.listen()
		}
	}
}

// listen interrupts the connection once stop is closed. It costs a goroutine, so
// it runs once per connection and not for every query.
func (c *conn) listen() {
	c.stop = make(chan struct{})
	c.db.SetInterrupt(c.stop)
}

// pragma changes a setting and reads it back. SQLite ignores settings that it
// does not know or cannot apply, so only reading back proves the change.
func (c *conn) pragma(name, set, want string) error {
	if err := c.exec("PRAGMA " + name + "=" + set); err != nil {
		return err
	}
	got := ""
	s := c.prepare("PRAGMA " + name)
	_, err := s.first(func() error {
		got = string(s.view(0))
		return nil
	})
	if err != nil {
		return err
	}
	if !strings.EqualFold(got, want) {
		return fmt.Errorf("SQLite's setting %s is %q, not %q", name, got, want)
	}
	return nil
}

// stmt is a prepared statement: bind arguments in order, then call step or run.
type stmt struct {
	c    *conn
	st   *sqlite3.Stmt
	err  error // of prepare
	n    int   // arguments bound so far
	on   bool  // has bound arguments or open rows
	room []byte
}

// next advances to the next argument.
func (s *stmt) next() bool {
	s.begin()
	s.n++
	return s.err == nil
}

func (s *stmt) begin() {
	if !s.on {
		s.on = true
		s.c.busy++
	}
}

// argInt binds integers, one argument each.
func (s *stmt) argInt(all ...int64) *stmt {
	for _, v := range all {
		if s.next() {
			s.st.BindInt64(s.n, v)
		}
	}
	return s
}

func (s *stmt) argNull() *stmt {
	if s.next() {
		s.st.BindNull(s.n)
	}
	return s
}

// argID binds an integer, or NULL for 0.
func (s *stmt) argID(v int64) *stmt {
	if v == 0 {
		return s.argNull()
	}
	return s.argInt(v)
}

// argSome binds a blob, or NULL if it is empty.
func (s *stmt) argSome(b []byte) *stmt {
	if len(b) == 0 {
		return s.argNull()
	}
	return s.argBlob(b)
}

func (s *stmt) argBlob(b []byte) *stmt {
	if s.next() {
		s.st.BindBytes(s.n, b)
	}
	return s
}

// argText binds a text as a blob, so that it is compared by its bytes.
func (s *stmt) argText(t string) *stmt { return s.argBlob([]byte(t)) }

// args binds arguments of any supported type.
func (s *stmt) args(all []any) *stmt {
	for _, a := range all {
		switch v := a.(type) {
		case int64:
			s.argInt(v)
		case []byte:
			s.argBlob(v)
		case string:
			s.argText(v)
		}
	}
	return s
}

// step advances to the next row and reports whether there is one. If there is
// none, or on an error, it resets the statement.
func (s *stmt) step() (bool, error) {
	if s.err != nil {
		s.reset()
		return false, s.err
	}
	s.begin()
	row, err := s.st.Step()
	if !row || err != nil {
		s.reset()
	}
	return row, failure(err)
}

// run executes the statement and resets it.
func (s *stmt) run() error {
	_, err := s.step()
	s.reset()
	return err
}

// each calls do for each row, and resets the statement.
func (s *stmt) each(do func() error) error {
	defer s.reset()
	for {
		row, err := s.step()
		if err != nil || !row {
			return err
		}
		if err := do(); err != nil {
			return err
		}
	}
}

// first calls do for the first row, if there is one, and resets the statement.
func (s *stmt) first(do func() error) (row bool, err error) {
	defer s.reset()
	if row, err = s.step(); err != nil || !row {
		return false, err
	}
	return true, do()
}

// numbers executes the statement and appends the first column of each row.
func (s *stmt) numbers(to []int64) ([]int64, error) {
	err := s.each(func() error {
		to = append(to, s.int(0))
		return nil
	})
	return to, err
}

// number returns the first column of the first row, or 0 if there is no row.
func (s *stmt) number() (n int64, err error) {
	_, err = s.first(func() error {
		n = s.int(0)
		return nil
	})
	return n, err
}

// reset makes the statement ready for new arguments, and frees the memory of the
// previous ones. It is idempotent.
func (s *stmt) reset() {
	if !s.on {
		return
	}
	s.on = false
	s.c.busy--
	s.n = 0
	if s.err != nil {
		return
	}
	s.st.Reset()         // repeats the error of the last step
	s.st.ClearBindings() // fails after an interrupt; then the next arguments replace the old ones
	if cap(s.room) > maxView {
		s.room = nil
	}
}

func (s *stmt) int(col int) int64 { return s.st.ColumnInt64(col) }

func (s *stmt) null(col int) bool { return s.st.ColumnIsNull(col) }

// view returns a blob that is valid until the next view or step, or nil if it is
// empty.
func (s *stmt) view(col int) []byte {
	n := s.st.ColumnLen(col)
	if n == 0 {
		return nil
	}
	if n > cap(s.room) {
		s.room = make([]byte, n)
	}
	return s.room[:s.st.ColumnBytes(col, s.room[:n])]
}

// bytes returns a copy of a blob, or nil if it is empty.
func (s *stmt) bytes(col int) []byte {
	n := s.st.ColumnLen(col)
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	s.st.ColumnBytes(col, b)
	return b
}
