package documents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// indexVersion is the version of the tables and of how words are made of a text.
const indexVersion = 2

// IndexVersion returns the version of the file that this package writes, which is its user_version. A file of
// another version is built anew.
func IndexVersion() int { return indexVersion }

// The index has two tables for each owner with the number N: doc_N, with the version that is indexed of each
// document, and fts_N, with the words of the passages but not their texts. The row of a passage is the number of
// its document times 65,536, plus its place in the document.
const (
	spaceSchema = `CREATE TABLE space (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, erase INTEGER NOT NULL DEFAULT 0);`
	ownerSchema = `CREATE TABLE doc_%[1]d (id INTEGER PRIMARY KEY, uid BLOB NOT NULL UNIQUE, version INTEGER NOT NULL);
CREATE VIRTUAL TABLE fts_%[1]d USING fts5 (title, body, content='', contentless_delete=1, tokenize='ascii');`
)

const partBits = 16

// index is the file with the words of all documents. Its one connection is used by one caller at a time.
type index struct {
	path string
	st   store.Store
	turn chan struct{} // holds a token while the fields below are used

	conn   *sqlite.Conn
	closed bool
	watch  func(*sqlite.Conn) error  // is called with each new connection; nil but in tests
	seen   map[resource.Space]uint64 // the end of the log when the owner's table was last compared with the store
}

func newIndex(path string, st store.Store) index {
	return index{path: path, st: st, turn: make(chan struct{}, 1), seen: map[resource.Space]uint64{}}
}

// with opens the file if necessary and runs do. A damaged file is rebuilt, once.
func (x *index) with(ctx context.Context, do func(*sqlite.Conn) error) error {
	return x.take(ctx, func() error {
		err := x.try(ctx, do)
		if damagedFile(err) {
			err = errors.Join(x.shut(), removeFiles(x.path))
			if err == nil {
				err = x.try(ctx, do)
			}
		}
		return err
	})
}

// look is with, but leaves a damaged file as it is.
func (x *index) look(ctx context.Context, do func(*sqlite.Conn) error) error {
	return x.take(ctx, func() error { return x.try(ctx, do) })
}

// take runs do once no other call uses the file.
func (x *index) take(ctx context.Context, do func() error) error {
	select {
	case x.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-x.turn }()
	if x.closed {
		return fault.New(fault.Unavailable, "search_closed", "the search is closing")
	}
	err := do()
	var own *fault.Error
	if err == nil || ctx.Err() != nil || errors.As(err, &own) {
		return err
	}
	return fault.New(fault.Unavailable, "search_unavailable", "cannot use the index of the documents, %s: %w", x.path, err).
		WithHint("check whether the disk is full; you can delete the file; it is then rebuilt")
}

func (x *index) try(ctx context.Context, do func(*sqlite.Conn) error) error {
	if x.conn == nil {
		if err := x.open(); err != nil {
			return err
		}
	}
	x.conn.SetInterrupt(ctx.Done())
	defer x.conn.SetInterrupt(nil)
	return do(x.conn)
}

// open opens the file, and makes its tables.
func (x *index) open() (err error) {
	f, err := os.OpenFile(x.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	c, err := sqlite.OpenConn(x.path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	c.SetBusyTimeout(10 * time.Second)
	// Freed pages are overwritten: what is forgotten must not stay in the file.
	for _, p := range []string{"journal_mode=WAL", "synchronous=NORMAL", "secure_delete=1", "temp_store=MEMORY", "cache_size=-2048"} {
		if err := sqlitex.ExecuteTransient(c, "PRAGMA "+p, nil); err != nil {
			return err
		}
	}
	err = transact(c, func() error {
		have, err := number(c, "PRAGMA user_version")
		if err != nil || have == indexVersion {
			return err
		}
		tables, err := number(c, "SELECT count(*) FROM sqlite_schema")
		if err == nil && (have != 0 || tables != 0) {
			err = errDamaged
		}
		if err != nil {
			return err
		}
		return sqlitex.ExecuteScript(c, spaceSchema+fmt.Sprintf("PRAGMA user_version = %d", indexVersion), nil)
	})
	if err == nil && x.watch != nil {
		err = x.watch(c)
	}
	if err == nil {
		x.conn = c
		clear(x.seen)
	}
	return err
}

var errDamaged = errors.New("the file is of another version")

func damagedFile(err error) bool {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return err != nil
	}
	return errors.Is(err, errDamaged)
}

func removeFiles(path string) error {
	for _, p := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (x *index) shut() error {
	if x.conn == nil {
		return nil
	}
	err := x.conn.Close()
	x.conn = nil
	return err
}

func (x *index) close() error {
	x.turn <- struct{}{}
	defer func() { <-x.turn }()
	x.closed = true
	return x.shut()
}

// sync compares an owner's table with the store, and indexes what differs.
func (x *index) sync(ctx context.Context, user string) error {
	return x.with(ctx, func(c *sqlite.Conn) error {
		_, err := x.compare(ctx, c, user)
		return err
	})
}

// syncAll does so for all owners that have a table. An owner without documents loses it, and with it the name.
func (x *index) syncAll(ctx context.Context) error {
	if _, err := os.Stat(x.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return x.with(ctx, func(c *sqlite.Conn) error {
		var users []string
		err := rows(c, "SELECT name FROM space", func(st *sqlite.Stmt) error {
			if user, ok := strings.CutPrefix(st.ColumnText(0), string(resource.UserSpace(""))); ok {
				users = append(users, user)
			}
			return nil
		})
		for _, user := range users {
			if err == nil {
				err = x.compareOrDrop(ctx, c, user)
			}
		}
		return err
	})
}

func (x *index) compareOrDrop(ctx context.Context, c *sqlite.Conn, user string) error {
	owner, err := x.compare(ctx, c, user)
	if err != nil {
		return err
	}
	left, err := number(c, fmt.Sprintf("SELECT count(*) FROM doc_%d", owner))
	if err != nil || left > 0 {
		return err
	}
	delete(x.seen, resource.UserSpace(user))
	err = transact(c, func() error {
		return sqlitex.ExecuteScript(c, fmt.Sprintf("DROP TABLE fts_%[1]d; DROP TABLE doc_%[1]d; DELETE FROM space WHERE id = %[1]d", owner), nil)
	})
	if err != nil {
		return err
	}
	return rows(c, "PRAGMA wal_checkpoint(TRUNCATE)", func(*sqlite.Stmt) error { return nil })
}

// compare brings an owner's table in line with the store, each document in a transaction of its own, and returns
// the number of the table.
func (x *index) compare(ctx context.Context, c *sqlite.Conn, user string) (owner int64, err error) {
	space := resource.UserSpace(user)
	head, err := follow.Head(ctx, x.st)
	if err != nil {
		return 0, err
	}
	if owner, err = x.owner(c, string(space)); err != nil {
		return 0, err
	}
	if at, ok := x.seen[space]; ok && at == head {
		return owner, nil
	}
	type row struct{ doc, version int64 }
	have := map[id.ID]row{}
	err = rows(c, fmt.Sprintf("SELECT id, uid, version FROM doc_%d", owner), func(st *sqlite.Stmt) error {
		var uid id.ID
		st.ColumnBytes(1, uid[:])
		have[uid] = row{st.ColumnInt64(0), st.ColumnInt64(2)}
		return nil
	})
	if err != nil {
		return 0, err
	}
	drop := func(doc int64) error {
		if err := exec(c, fmt.Sprintf("DELETE FROM fts_%d WHERE rowid BETWEEN ? AND ?", owner), doc<<partBits, doc<<partBits|(1<<partBits-1)); err != nil {
			return err
		}
		if err := exec(c, fmt.Sprintf("DELETE FROM doc_%d WHERE id = ?", owner), doc); err != nil {
			return err
		}
		return exec(c, "UPDATE space SET erase = 1 WHERE id = ?", owner)
	}
	for it, err := range store.Items(ctx, x.st, store.ForUser(user), store.Query{Type: record.TypeDocument, NoBody: true, Limit: 1000}) {
		if err != nil {
			return 0, err
		}
		uid := record.IDOf(it.URI, record.TypeDocument)
		old, known := have[uid]
		delete(have, uid)
		if known && old.version == int64(it.Version) {
			continue
		}
		err := transact(c, func() error {
			// Another process may have indexed it meanwhile.
			doc, err := number(c, fmt.Sprintf("SELECT id FROM doc_%d WHERE uid = ?", owner), uid[:])
			if err == nil && doc > 0 {
				err = drop(doc)
			}
			if err != nil {
				return err
			}
			return x.add(ctx, c, owner, user, uid, int64(it.Version))
		})
		if err != nil {
			return 0, err
		}
	}
	for _, gone := range have {
		if err := transact(c, func() error { return drop(gone.doc) }); err != nil {
			return 0, err
		}
	}
	if err := expunge(c, owner); err != nil {
		return 0, err
	}
	x.seen[space] = head
	return owner, nil
}

// owner returns the number of an owner's table, which is made if it is missing.
func (x *index) owner(c *sqlite.Conn, space string) (n int64, err error) {
	if n, err = number(c, "SELECT id FROM space WHERE name = ?", space); err != nil || n > 0 {
		return n, err
	}
	err = transact(c, func() error {
		if err := exec(c, "INSERT INTO space (name) VALUES (?)", space); err != nil {
			return err
		}
		n = c.LastInsertRowID()
		return sqlitex.ExecuteScript(c, fmt.Sprintf(ownerSchema, n), nil)
	})
	return n, err
}

// add indexes a document.
func (x *index) add(ctx context.Context, c *sqlite.Conn, owner int64, user string, doc id.ID, version int64) error {
	if err := exec(c, fmt.Sprintf("INSERT INTO doc_%d (uid, version) VALUES (?, ?)", owner), doc[:], version); err != nil {
		return err
	}
	n := c.LastInsertRowID()
	r, err := x.st.Get(ctx, store.ForUser(user), record.DocumentURI(doc))
	if fault.Is(err, fault.NotFound) {
		return nil // erased meanwhile: the next comparison drops it
	}
	if err != nil {
		return err
	}
	var d record.Document
	if err := record.Decode(r.URI, r.Body, &d); err != nil || d.Status != record.DocumentReady {
		return err
	}
	t, err := x.st.Get(ctx, store.ForUser(user), record.DocumentTextURI(doc))
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	var text record.DocumentText
	if err == nil {
		err = record.Decode(t.URI, t.Body, &text)
	}
	if err != nil {
		return err
	}
	insert := fmt.Sprintf("INSERT INTO fts_%d (rowid, title, body) VALUES (?, ?, ?)", owner)
	for i, p := range text.Parts[:min(len(text.Parts), maxParts)] {
		title, body := passageWords(&d, &p)
		if err := exec(c, insert, n<<partBits|int64(i), strings.Join(title, " "), strings.Join(body, " ")); err != nil {
			return err
		}
	}
	return nil
}

// stems returns the words of a text as they are indexed: in order, reduced to the stems of a language. Words of
// other languages and scripts stay as they are, folded.
func stems(l search.Language, text string) (out []string) {
	for t := range search.Tokens(text) {
		out = append(out, search.Stem(l, t.Text))
	}
	return out
}

// passageWords returns what is indexed of a passage. The name, the title and the headings take its language, since
// they are too short to have one of their own.
func passageWords(d *record.Document, p *record.DocumentPart) (title, body []string) {
	l := search.LanguageOf(p.Text)
	return stems(l, d.Name+" "+d.Title+" "+p.Heading), stems(l, p.Text)
}

// found is a passage that has words of a query.
type found struct {
	doc   id.ID
	part  int
	score float64
}

// find returns the best passages of an owner that have any of the stems.
func (x *index) find(ctx context.Context, user string, any []string, limit int) (out []found, err error) {
	err = x.with(ctx, func(c *sqlite.Conn) error {
		out = nil
		owner, err := x.compare(ctx, c, user)
		if err != nil {
			return err
		}
		query := fmt.Sprintf("SELECT d.uid, f.rowid & %[2]d, f.score FROM (SELECT rowid, bm25(fts_%[1]d, 1.5, 1.0) AS score FROM fts_%[1]d "+
			"WHERE fts_%[1]d MATCH ? ORDER BY 2, 1 LIMIT ?) AS f JOIN doc_%[1]d AS d ON d.id = f.rowid >> %[3]d ORDER BY 3, f.rowid", owner, 1<<partBits-1, partBits)
		return rows(c, query, func(st *sqlite.Stmt) error {
			f := found{part: st.ColumnInt(1), score: -st.ColumnFloat(2)}
			st.ColumnBytes(0, f.doc[:])
			out = append(out, f)
			return nil
		}, `"`+strings.Join(any, `" OR "`)+`"`, limit)
	})
	return out, err
}

// expunge rewrites the lists of words without those of passages that are gone, and empties the write-ahead log.
func expunge(c *sqlite.Conn, owner int64) error {
	due, err := number(c, "SELECT erase FROM space WHERE id = ?", owner)
	if err != nil || due == 0 {
		return err
	}
	for pages := -500; ; pages = 500 { // a negative number starts to merge all lists into one (FTS5, "merge")
		before, err := number(c, "SELECT total_changes()")
		if err == nil {
			err = exec(c, fmt.Sprintf("INSERT INTO fts_%[1]d (fts_%[1]d, rank) VALUES ('merge', ?)", owner), pages)
		}
		if err != nil {
			return err
		}
		after, err := number(c, "SELECT total_changes()")
		if err != nil {
			return err
		}
		if after-before < 2 {
			break
		}
	}
	if err := exec(c, "UPDATE space SET erase = 0 WHERE id = ?", owner); err != nil {
		return err
	}
	return rows(c, "PRAGMA wal_checkpoint(TRUNCATE)", func(*sqlite.Stmt) error { return nil })
}

func transact(c *sqlite.Conn, do func() error) (err error) {
	end, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return err
	}
	defer end(&err)
	return do()
}

func exec(c *sqlite.Conn, query string, args ...any) error {
	return sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args})
}

func rows(c *sqlite.Conn, query string, each func(*sqlite.Stmt) error, args ...any) error {
	return sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: each})
}

// number reads one number; 0 if there is no row.
func number(c *sqlite.Conn, query string, args ...any) (n int64, err error) {
	err = rows(c, query, func(st *sqlite.Stmt) error {
		n = st.ColumnInt64(0)
		return nil
	}, args...)
	return n, err
}
