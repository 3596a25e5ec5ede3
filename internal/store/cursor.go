package store

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"

	"steward/internal/fault"
)

// Position is what a cursor says once it is opened: a number (a position in a
// list, a sequence number) and a key, as the order of the answer needs them.
type Position struct {
	Num int64
	Key []byte
}

// A cursor is the mark of its query, the number and the key, in base64url.

// Cursor makes a cursor of a position in q's answer.
func (q *Query) Cursor(p Position) Cursor { return q.mark().Seal(p) }

// Position opens q.After. It refuses a cursor that is broken or was made for
// another query (cursor_invalid), and reports false when there is none.
func (q *Query) Position() (Position, bool, error) { return q.mark().Open(q.After) }

func (q *Query) mark() Mark {
	o, _ := q.Order()
	m := NewMark(byte(o), string(q.Under.Key()), q.Type, string(q.List.Key()), q.Term.Name, q.Term.Value, q.State)
	return m.turned(q.Reverse)
}

// Cursor makes a cursor that stands behind the entry with this sequence
// number. Log positions are the same under every filter, so such a cursor
// fits every LogQuery of the same direction.
func (q *LogQuery) Cursor(seq uint64) Cursor { return q.mark().Seal(Position{Num: int64(seq)}) }

// Position opens q.After, like Query.Position.
func (q *LogQuery) Position() (seq uint64, ok bool, err error) {
	p, ok, err := q.mark().Open(q.After)
	return uint64(p.Num), ok, err
}

func (q *LogQuery) mark() Mark { return Mark{'g'}.turned(q.Reverse) }

// Mark tells the cursors of one query from those of others: a byte for its
// kind, a lower-case letter, and four that stand for what it asks.
type Mark [5]byte

// NewMark makes the mark of a query that asks for parts.
func NewMark(kind byte, parts ...string) Mark {
	h := fnv.New32a()
	for _, part := range parts {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	m := Mark{kind}
	binary.BigEndian.PutUint32(m[1:], h.Sum32())
	return m
}

// turned is the mark of the same query in the other direction.
func (m Mark) turned(reverse bool) Mark {
	if reverse {
		m[0] -= 'a' - 'A'
	}
	return m
}

// Seal makes a cursor of a position.
func (m Mark) Seal(p Position) Cursor {
	b := binary.AppendVarint(m[:], p.Num)
	return Cursor(base64.RawURLEncoding.EncodeToString(append(b, p.Key...)))
}

// Open opens a cursor; false where there is none. One that is damaged or was
// made for another query is refused (cursor_invalid).
func (m Mark) Open(c Cursor) (Position, bool, error) {
	if c == "" {
		return Position{}, false, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(c))
	if err != nil || len(b) <= len(m) {
		return Position{}, false, BadCursor("it is damaged")
	}
	if Mark(b[:len(m)]) != m {
		return Position{}, false, BadCursor("it belongs to another query")
	}
	num, n := binary.Varint(b[len(m):])
	if n <= 0 {
		return Position{}, false, BadCursor("it is damaged")
	}
	return Position{Num: num, Key: b[len(m)+n:]}, true, nil
}

// BadCursor refuses a cursor (cursor_invalid).
func BadCursor(why string) error {
	return fault.New(fault.Invalid, "cursor_invalid", "the cursor cannot be used: %s", why).
		WithHint("start again without a cursor")
}
