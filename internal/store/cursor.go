package store

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"

	"steward/internal/fault"
)

// Position is the content of a cursor: a number (a position in a list or a
// sequence number) and a key, depending on the order of the result.
type Position struct {
	Num int64
	Key []byte
}

// A cursor encodes the mark of its query, the number and the key in base64url.

// Cursor returns the cursor of a position in q's result.
func (q *Query) Cursor(p Position) Cursor { return q.mark().Seal(p) }

// Position decodes q.After. It returns false if q.After is empty, and refuses a
// cursor that is damaged or was made for another query (cursor_invalid).
func (q *Query) Position() (Position, bool, error) { return q.mark().Open(q.After) }

func (q *Query) mark() Mark {
	o, _ := q.Order()
	m := NewMark(byte(o), string(q.Under.Key()), q.Type, string(q.List.Key()), q.Term.Name, q.Term.Value, q.State)
	return m.turned(q.Reverse)
}

// Cursor returns a cursor right after the entry with this sequence number. Log
// positions do not depend on the filter, so the cursor is valid for every
// LogQuery of the same direction.
func (q *LogQuery) Cursor(seq uint64) Cursor { return q.mark().Seal(Position{Num: int64(seq)}) }

// Position decodes q.After, like Query.Position.
func (q *LogQuery) Position() (seq uint64, ok bool, err error) {
	p, ok, err := q.mark().Open(q.After)
	return uint64(p.Num), ok, err
}

func (q *LogQuery) mark() Mark { return Mark{'g'}.turned(q.Reverse) }

// Mark identifies the query of a cursor: one byte for its kind, a lower-case
// letter (upper-case for the reverse direction), and four bytes of a hash of its
// parameters.
type Mark [5]byte

// NewMark returns the mark of a query with the given parameters.
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

// turned returns the mark of the same query, in upper case if it is reversed.
func (m Mark) turned(reverse bool) Mark {
	if reverse {
		m[0] -= 'a' - 'A'
	}
	return m
}

// Seal encodes a position as a cursor.
func (m Mark) Seal(p Position) Cursor {
	b := binary.AppendVarint(m[:], p.Num)
	return Cursor(base64.RawURLEncoding.EncodeToString(append(b, p.Key...)))
}

// Open decodes a cursor. It returns false for an empty one, and refuses one that
// is damaged or was made for another query (cursor_invalid).
func (m Mark) Open(c Cursor) (Position, bool, error) {
	if c == "" {
		return Position{}, false, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(c))
	if err != nil || len(b) <= len(m) {
		return Position{}, false, BadCursor("the cursor is damaged")
	}
	if Mark(b[:len(m)]) != m {
		return Position{}, false, BadCursor("the cursor belongs to another query")
	}
	num, n := binary.Varint(b[len(m):])
	if n <= 0 {
		return Position{}, false, BadCursor("the cursor is damaged")
	}
	return Position{Num: num, Key: b[len(m)+n:]}, true, nil
}

// BadCursor returns the error cursor_invalid with a reason.
func BadCursor(why string) error {
	return fault.New(fault.Invalid, "cursor_invalid", "invalid cursor: %s", why).
		WithHint("start again without a cursor")
}
