package vector

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"zombiezen.com/go/sqlite"

	"steward/internal/resource"
)

// Census describes the content of the index in one space, so that it can be compared with
// another index of the same log.
type Census struct {
	Space    resource.Space
	Model    string // that searches use
	Messages int    // that are noted
	Vectors  int
	Held     int // messages that are held back
	// Sum is a hash over the messages, the pieces that have vectors, and those vectors.
	Sum [sha256.Size]byte
}

// Census counts and hashes the content, in the order of the spaces' names.
func (x *Index) Census(ctx context.Context) (out []Census, err error) {
	err = x.with(ctx, func(d *database) error {
		out = nil
		return d.read(ctx, func(c *sqlite.Conn) error {
			type at struct{ space, part int64 }
			var places []at
			err := query(c, "SELECT s.name, s.id, COALESCE(p.id, 0), COALESCE(m.name, '') FROM space s LEFT JOIN part p ON p.space = s.id AND p.model = s.active LEFT JOIN model m ON m.id = s.active ORDER BY s.name", nil, func(s *sqlite.Stmt) {
				out = append(out, Census{Space: resource.Space(s.ColumnText(0)), Model: s.ColumnText(3)})
				places = append(places, at{s.ColumnInt64(1), s.ColumnInt64(2)})
			})
			if err != nil {
				return err
			}
			for i, p := range places {
				if err := out[i].take(c, p.space, p.part); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return out, err
}

func (n *Census) take(c *sqlite.Conn, space, part int64) error {
	h := sha256.New()
	add := func(b []byte) {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(b)))) // a hash's Write does not fail
		h.Write(b)
	}
	err := query(c, fmt.Sprintf("SELECT d.key, d.at, d.gone, d.cut, v.gone FROM doc_%[1]d d JOIN conv_%[1]d v ON v.id = d.conv ORDER BY d.key", space), nil, func(s *sqlite.Stmt) {
		n.Messages++
		add(blob(s, 0))
		add(fmt.Appendf(nil, "%d %d %d %d", s.ColumnInt64(1), s.ColumnInt64(2), s.ColumnInt64(3), s.ColumnInt64(4)))
	})
	if err != nil || part == 0 {
		return err
	}
	err = query(c, fmt.Sprintf("SELECT d.key, c.piece, c.hash, c.code, v.num FROM code_%[1]d c LEFT JOIN vec_%[1]d v ON v.id = c.id LEFT JOIN doc_%[2]d d ON d.id = c.doc ORDER BY d.key, c.piece, c.id", part, space), nil, func(s *sqlite.Stmt) {
		n.Vectors++
		add(blob(s, 0))
		add(fmt.Appendf(nil, "%d", s.ColumnInt64(1)))
		for i := 2; i < 5; i++ {
			add(blob(s, i))
		}
	})
	if err != nil {
		return err
	}
	held, _, err := number(c, fmt.Sprintf("SELECT count(*) FROM held_%d", part))
	n.Held = int(held)
	h.Sum(n.Sum[:0])
	return err
}
