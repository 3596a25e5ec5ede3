//go:build long

package vector_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/search/vector"
)

// plainScan returns a search that holds all vectors of ana in memory, as numbers of 32 bits,
// and compares each of them.
func plainScan(t *testing.T, w *world) func(string) {
	c, err := sqlite.OpenConn(w.path(), sqlite.OpenReadOnly)
	must(t, err)
	defer func() { must(t, c.Close()) }()
	var all []float32
	n := 0
	must(t, sqlitex.Execute(c, "SELECT count(*) FROM vec_1", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		all = make([]float32, 0, 256*s.ColumnInt(0))
		return nil
	}}))
	buf := make([]byte, 256)
	must(t, sqlitex.Execute(c, "SELECT scale, num FROM vec_1 ORDER BY id", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		scale := float32(s.ColumnFloat(0))
		s.ColumnBytes(1, buf)
		for _, b := range buf {
			all = append(all, scale*float32(int8(b)))
		}
		n++
		return nil
	}}))
	model := vector.Lexical()
	return func(text string) {
		v, err := model.Embedder.Embed(context.Background(), []string{text})
		must(t, err)
		if got := scan(all, v.Values[0], 20); len(got) != min(n, 20) {
			t.Fatal(len(got))
		}
	}
}

// fts5Alone returns a search in the words of ana's messages as they are written, by SQLite's
// own BM25.
func fts5Alone(t *testing.T, w *world) func(string) {
	c, err := sqlite.OpenConn(strings.Replace(w.path(), "vectors.db", "search.db", 1), sqlite.OpenReadOnly)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return func(text string) {
		words := strings.Fields(strings.TrimSuffix(text, "?"))[3:]
		for i, word := range words {
			words[i] = fmt.Sprintf("%q", word)
		}
		words = slices.Compact(words)
		must(t, sqlitex.Execute(c, "SELECT rowid, bm25(fts_1, 0, 1, 0) AS score FROM fts_1 WHERE fts_1 MATCH ? ORDER BY score LIMIT 20",
			&sqlitex.ExecOptions{Args: []any{"body:(" + strings.Join(words, " OR ") + ")"}, ResultFunc: func(*sqlite.Stmt) error { return nil }}))
	}
}
