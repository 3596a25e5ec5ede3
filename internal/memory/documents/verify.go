package documents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"zombiezen.com/go/sqlite"

	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/store"
)

// Verify compares the index with the store, document by document and word by word. It changes nothing. If there
// are documents that are not indexed in their present version, it returns their number and compares nothing: the
// next search of their owner indexes them.
func (e *Engine) Verify(ctx context.Context) (a search.Agreement, err error) {
	if _, err := os.Stat(e.opt.Path); errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	err = e.index.look(ctx, func(c *sqlite.Conn) error {
		have := map[string]int64{} // versions by space and document
		type owner struct {
			id   int64
			name string
		}
		var owners []owner
		err := rows(c, "SELECT id, name FROM space", func(st *sqlite.Stmt) error {
			owners = append(owners, owner{st.ColumnInt64(0), st.ColumnText(1)})
			return nil
		})
		for _, o := range owners {
			if err != nil {
				return err
			}
			err = rows(c, fmt.Sprintf("SELECT uid, version FROM doc_%d", o.id), func(st *sqlite.Stmt) error {
				have[o.name+" "+uid(st, 0)] = st.ColumnInt64(1)
				return nil
			})
		}
		for it, err := range store.Items(ctx, e.opt.Store, store.ForNode(resource.System), store.Query{Type: record.TypeDocument, Limit: 500}) {
			if err != nil {
				return err
			}
			doc := record.IDOf(it.URI, record.TypeDocument)
			key := string(it.Space) + " " + string(doc[:])
			if have[key] != int64(it.Version) {
				a.Behind++
			}
			delete(have, key)
			if err := e.tally(ctx, &it.Resource, doc, &a); err != nil {
				return err
			}
		}
		if a.Behind += uint64(len(have)); a.Behind > 0 {
			a = search.Agreement{Behind: a.Behind}
			return nil
		}
		for _, o := range owners {
			if err == nil {
				err = tallyIndexed(c, o.id, &a.Indexed)
			}
		}
		return err
	})
	if errors.Is(err, errDamaged) { // it is of another version, and rebuilt at its next use
		return search.Agreement{Behind: 1}, nil
	}
	return a, err
}

// tally adds what should be indexed of a document.
func (e *Engine) tally(ctx context.Context, r *resource.Resource, doc id.ID, a *search.Agreement) error {
	var d record.Document
	if err := record.Decode(r.URI, r.Body, &d); err != nil {
		return err
	}
	a.Texts++
	a.Stored.Add(string(doc[:]))
	if d.Status != record.DocumentReady {
		return nil
	}
	text, err := e.Text(ctx, d.User, doc)
	if err != nil {
		return err
	}
	for i, p := range text.Parts[:min(len(text.Parts), maxParts)] {
		title, body := passageWords(&d, &p)
		for n, w := range title {
			a.Stored.Add(string(doc[:]), strconv.Itoa(i), "title", strconv.Itoa(n), w)
		}
		for n, w := range body {
			a.Stored.Add(string(doc[:]), strconv.Itoa(i), "body", strconv.Itoa(n), w)
		}
	}
	return nil
}

// tallyIndexed adds what is indexed of an owner's documents.
func tallyIndexed(c *sqlite.Conn, owner int64, t *search.Tally) (err error) {
	err = rows(c, fmt.Sprintf("SELECT uid FROM doc_%d", owner), func(st *sqlite.Stmt) error {
		t.Add(uid(st, 0))
		return nil
	})
	if err != nil {
		return err
	}
	vocabulary := "temp.vocabulary_" + strconv.FormatInt(owner, 10)
	if err := rows(c, fmt.Sprintf("CREATE VIRTUAL TABLE %s USING fts5vocab(main, fts_%d, instance)", vocabulary, owner), nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows(c, "DROP TABLE "+vocabulary, nil)) }()
	// A word that belongs to no document counts, too: its document is empty.
	query := fmt.Sprintf("SELECT d.uid, v.doc & %d, v.col, v.offset, v.term FROM %s v LEFT JOIN doc_%d d ON d.id = v.doc >> %d", 1<<partBits-1, vocabulary, owner, partBits)
	return rows(c, query, func(st *sqlite.Stmt) error {
		t.Add(uid(st, 0), st.ColumnText(1), st.ColumnText(2), st.ColumnText(3), st.ColumnText(4))
		return nil
	})
}

// uid returns the id of a document in a column.
func uid(st *sqlite.Stmt, col int) string {
	b := make([]byte, st.ColumnLen(col))
	st.ColumnBytes(col, b)
	return string(b)
}
