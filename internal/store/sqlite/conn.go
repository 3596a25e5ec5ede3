package sqlite

import (
	"context"
	"fmt"
	"strings"

	sqlite3 "zombiezen.com/go/sqlite"
)

// conn is one SQLite connection with its prepared statements. One goroutine
// at a time.
type conn struct {
	db    *sqlite3.Conn
	stmts map[string]*stmt
	busy  int           // statements that have arguments or rows
	stop  chan struct{} // closed to interrupt what runs; nil: never needed so far
}

// Bounds of what a connection keeps.
const (
	maxStmts = 200      // prepared statements; queries over many spaces make texts of their own
	maxView  = 16 << 10 // bytes of the room that a statement keeps for views
)

// openConn opens a connection.
func openConn(name string, flags sqlite3.OpenFlags) (*conn, error) {
	db, err := sqlite3.OpenConn(name, flags)
	if err != nil {
		return nil, failure(err)
	}
	// From the first statement on: another process may be just opening, closing
	// or recovering the database.
	db.SetBusyTimeout(busyTimeout)
	return &conn{db: db, stmts: make(map[string]*stmt)}, nil
}

// close frees the connection and everything prepared on it.
func (c *conn) close() error { return failure(c.db.Close()) }

// prepare returns the statement of this text, ready for its first argument.
// What is wrong with the text, its first step tells.
func (c *conn) prepare(sql string) *stmt {
	if s := c.stmts[sql]; s != nil {
		return s
	}
	if len(c.stmts) >= maxStmts && c.busy == 0 {
		for _, s := range c.stmts {
			s.st.Finalize() // tells only how its last run ended
		}
		clear(c.stmts)
	}
	st, err := c.db.Prepare(sql)
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

// number returns the first column of the first row of a query, 0 without one.
func (c *conn) number(sql string) (int64, error) { return c.prepare(sql).number() }

// inTransaction reports whether a transaction is open.
func (c *conn) inTransaction() bool { return !c.db.AutocommitEnabled() }

// interruptOn ends what the connection is doing when ctx is done. The
// function returned must be called before another caller uses the connection.
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

// listen has the connection interrupted once stop is closed. It costs a
// goroutine, so that it is done once and not for every query.
func (c *conn) listen() {
	c.stop = make(chan struct{})
	c.db.SetInterrupt(c.stop)
}

// pragma sets a setting and reads it back. SQLite ignores what it does not
// know or cannot do, so only what is read back counts.
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
		return &settingError{name: name, want: want, got: got}
	}
	return nil
}

// settingError says that SQLite did not take a setting.
type settingError struct{ name, want, got string }

func (e *settingError) Error() string {
	return fmt.Sprintf("SQLite's setting %s is %q, not %q", e.name, e.got, e.want)
}

// stmt is a prepared statement: arguments in order, then step or run.
type stmt struct {
	c    *conn
	st   *sqlite3.Stmt
	err  error // it could not be prepared
	n    int   // arguments given so far
	on   bool  // has arguments or rows
	room []byte
}

// next counts the argument that comes next.
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

// argInt gives numbers, an argument each.
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

// argID gives a number, or NULL for 0.
func (s *stmt) argID(v int64) *stmt {
	if v == 0 {
		return s.argNull()
	}
	return s.argInt(v)
}

// argSome gives a blob, or NULL for an empty one.
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

// argText gives a blob, too: what is compared is bytes.
func (s *stmt) argText(t string) *stmt { return s.argBlob([]byte(t)) }

// args gives arguments of any of the kinds in use.
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

// step goes to the next row and reports whether there is one. After false or
// an error the statement is reset.
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

// run carries the statement out and resets it.
func (s *stmt) run() error {
	_, err := s.step()
	s.reset()
	return err
}

// each calls do at each row, and resets the statement.
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

// first calls do at the first row, if there is one, and resets the statement.
func (s *stmt) first(do func() error) (row bool, err error) {
	defer s.reset()
	if row, err = s.step(); err != nil || !row {
		return false, err
	}
	return true, do()
}

// numbers runs the statement and appends the first column of its rows.
func (s *stmt) numbers(to []int64) ([]int64, error) {
	err := s.each(func() error {
		to = append(to, s.int(0))
		return nil
	})
	return to, err
}

// number returns the first column of the first row, 0 without one.
func (s *stmt) number() (n int64, err error) {
	_, err = s.first(func() error {
		n = s.int(0)
		return nil
	})
	return n, err
}

// reset makes the statement ready for new arguments, and frees the memory of
// the last ones; calling it again does no harm.
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
	s.st.Reset()         // tells once more how the last step ended
	s.st.ClearBindings() // fails after an interrupt; then the next arguments take their places
	if cap(s.room) > maxView {
		s.room = nil
	}
}

func (s *stmt) int(col int) int64 { return s.st.ColumnInt64(col) }

func (s *stmt) null(col int) bool { return s.st.ColumnIsNull(col) }

// view returns a blob that is good until the next view or step; nil for an
// empty one.
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

// bytes returns a blob of one's own; nil for an empty one.
func (s *stmt) bytes(col int) []byte {
	n := s.st.ColumnLen(col)
	if n == 0 {
		return nil
	}
	b := make([]byte, n)
	s.st.ColumnBytes(col, b)
	return b
}
