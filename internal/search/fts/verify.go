package fts

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// Verify compares the index with the store, message by message and word by word. It changes
// nothing, and reads all of both: about a second for 10,000 messages. If the index is
// behind the log, it says so and compares nothing.
func (x *Index) Verify(ctx context.Context) (a search.Agreement, err error) {
	if !exists(x.opt.Path) {
		a.Behind, err = x.missing(ctx, 0)
		return a, err
	}
	d, err := openDatabase(ctx, x.opt.Path, x.opt.Watch)     // x.open may set the file aside
	if errors.Is(err, errOld) || errors.Is(err, errBroken) { // it is rebuilt at its next use
		a.Behind, err = x.missing(ctx, 0)
		return a, err
	}
	if err == nil {
		err = d.use(ctx, func(c *sqlite.Conn) (err error) {
			defer sqlitex.Transaction(c)(&err) // all of it is of one moment
			a, err = x.verify(ctx, c)
			return err
		})
		err = errors.Join(err, d.close())
	}
	if err != nil && ctx.Err() != nil {
		return a, ctx.Err()
	}
	return a, coded(x.opt.Path, err)
}

func (x *Index) verify(ctx context.Context, c *sqlite.Conn) (a search.Agreement, err error) {
	seq, _, err := number(c, "SELECT seq FROM state")
	if err != nil {
		return a, err
	}
	if a.Behind, err = x.missing(ctx, seq); err != nil || a.Behind > 0 {
		return a, err
	}
	all, err := spaces(c)
	if err != nil {
		return a, err
	}
	for _, space := range all {
		if err := tallySpace(c, space, &a); err != nil {
			return a, err
		}
	}
	for it, err := range store.Items(ctx, x.opt.Store, nodeScope(), store.Query{Type: record.TypeMessage, Limit: 500}) {
		if err != nil {
			return a, err
		}
		tallyMessage(&it.Resource, &a.Stored)
	}
	// What changed meanwhile is in one of the two only.
	if n, err := x.missing(ctx, seq); err != nil || n > 0 {
		return search.Agreement{Behind: n}, err
	}
	return a, nil
}

// missing returns the number of entries in the log after seq.
func (x *Index) missing(ctx context.Context, seq int64) (uint64, error) {
	head, err := follow.Head(ctx, x.opt.Store)
	return head - min(uint64(seq), head), err
}

// tallySpace adds the messages of a space, and their words.
func tallySpace(c *sqlite.Conn, space int64, a *search.Agreement) (err error) {
	err = sqlitex.Execute(c, fmt.Sprintf("SELECT c.uid, d.msg, s.name FROM doc_%[1]d d JOIN conv_%[1]d c ON c.id = d.conv JOIN space s ON s.id = ?", space),
		&sqlitex.ExecOptions{Args: []any{space}, ResultFunc: func(st *sqlite.Stmt) error {
			a.Texts++
			a.Indexed.Add(st.ColumnText(2), string(blob(st, 0)), string(blob(st, 1)))
			return nil
		}})
	if err != nil {
		return err
	}
	vocabulary := "temp.vocabulary_" + strconv.FormatInt(space, 10)
	err = sqlitex.ExecuteTransient(c, fmt.Sprintf("CREATE VIRTUAL TABLE %s USING fts5vocab(main, %s, instance)", vocabulary, wordTable(space)), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sqlitex.ExecuteTransient(c, "DROP TABLE "+vocabulary, nil)) }()
	// The words are read once, in their order. Those of no message count, too.
	return sqlitex.ExecuteTransient(c, fmt.Sprintf("SELECT v.term, v.col, v.offset, c.uid, d.msg FROM %[2]s v LEFT JOIN doc_%[1]d d ON d.id = v.doc LEFT JOIN conv_%[1]d c ON c.id = d.conv WHERE v.col <> 'facets'", space, vocabulary),
		&sqlitex.ExecOptions{ResultFunc: func(st *sqlite.Stmt) error {
			a.Indexed.Add(string(blob(st, 3)), string(blob(st, 4)), st.ColumnText(1), st.ColumnText(2), st.ColumnText(0))
			return nil
		}})
}

// tallyMessage adds what should be indexed of a message.
func tallyMessage(r *resource.Resource, t *search.Tally) {
	conv, msg := record.IDOf(r.URI, record.TypeConversation), record.IDOf(r.URI, record.TypeMessage)
	m, err := record.DecodeMessage(r.URI, r.Body)
	if conv.Zero() || msg.Zero() || err != nil {
		return
	}
	uid, own := string(conv[:]), string(msg[:])
	t.Add(string(r.Space), uid, own)
	text, n := search.Read(m).Text, 0
	for w := range search.Tokens(text) {
		t.Add(uid, own, "body", strconv.Itoa(n), w.Text)
		n++
	}
	if n == 0 {
		return
	}
	n = 0
	search.StemWords(text, func(stem string) {
		t.Add(uid, own, "stem", strconv.Itoa(n), stem)
		n++
	})
}
