package vector

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"zombiezen.com/go/sqlite"

	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// Verify compares the index with the store: the messages that are noted, and the pieces of
// their texts that have vectors. A message that waits for its vectors, or is held back, is
// expected to have none. It changes nothing, and asks no model. If the index is behind the
// log, it says so and compares nothing.
func (x *Index) Verify(ctx context.Context) (a search.Agreement, err error) {
	_, err = x.withDatabase(ctx, func(d *database) error {
		return d.read(ctx, func(c *sqlite.Conn) error {
			var err error
			a, err = x.verify(ctx, c)
			return err
		})
	})
	if errors.Is(err, errBroken) { // it is rebuilt at its next use
		a = search.Agreement{}
		a.Behind, err = follow.Head(ctx, x.opt.Store)
	}
	if err != nil && ctx.Err() != nil {
		return a, ctx.Err()
	}
	return a, coded(x.opt.Path, err)
}

func (x *Index) verify(ctx context.Context, c *sqlite.Conn) (a search.Agreement, err error) {
	if a.Behind, err = x.behind(ctx, c); err != nil || a.Behind > 0 {
		return a, err
	}
	type space struct {
		name     resource.Space
		id, part int64
	}
	var all []space
	err = query(c, "SELECT s.name, s.id, COALESCE(p.id, 0) FROM space s LEFT JOIN part p ON p.space = s.id AND p.model = s.active", nil, func(s *sqlite.Stmt) {
		all = append(all, space{resource.Space(s.ColumnText(0)), s.ColumnInt64(1), s.ColumnInt64(2)})
	})
	if err != nil {
		return a, err
	}
	waiting := map[string]bool{} // the keys of messages without vectors
	active := map[resource.Space]bool{}
	for _, sp := range all {
		active[sp.name] = sp.part != 0
		err := query(c, fmt.Sprintf("SELECT key FROM doc_%d", sp.id), nil, func(s *sqlite.Stmt) {
			a.Texts++
			a.Indexed.Add(string(sp.name), string(blob(s, 0)))
		})
		if err != nil || sp.part == 0 {
			if err != nil {
				return a, err
			}
			continue
		}
		err = query(c, fmt.Sprintf("SELECT key FROM doc_%[1]d WHERE id > (SELECT upto FROM part WHERE id = %[2]d) OR id IN (SELECT doc FROM held_%[2]d)", sp.id, sp.part), nil,
			func(s *sqlite.Stmt) { waiting[string(blob(s, 0))] = true })
		if err != nil {
			return a, err
		}
		// A row that belongs to no message counts, too: it has an empty key.
		err = query(c, fmt.Sprintf("SELECT d.key, c.piece, c.hash FROM code_%[2]d c JOIN vec_%[2]d v ON v.id = c.id LEFT JOIN doc_%[1]d d ON d.id = c.doc", sp.id, sp.part), nil,
			func(s *sqlite.Stmt) { a.Indexed.Add(string(blob(s, 0)), s.ColumnText(1), string(blob(s, 2))) })
		if err != nil {
			return a, err
		}
	}
	for it, err := range store.Items(ctx, x.opt.Store, nodeScope(), store.Query{Type: record.TypeMessage, Limit: 500}) {
		if err != nil {
			return a, err
		}
		key := string(it.URI.Key())
		m, err := record.DecodeMessage(it.URI, it.Body)
		if err != nil || record.IDOf(it.URI, record.TypeMessage).Zero() || record.IDOf(it.URI, record.TypeConversation).Zero() {
			continue
		}
		a.Stored.Add(string(it.Space), key)
		if waiting[key] || !active[it.Space] {
			continue
		}
		for i, piece := range cut(search.Read(m).Text) {
			hash := sha256.Sum256([]byte(piece))
			a.Stored.Add(key, strconv.Itoa(i), string(hash[:]))
		}
	}
	// What changed meanwhile is in one of the two only.
	if n, err := x.behind(ctx, c); err != nil || n > 0 {
		return search.Agreement{Behind: n}, err
	}
	return a, nil
}
