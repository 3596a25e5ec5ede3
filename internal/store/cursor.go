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

// A cursor is the mark of its query (one byte for the kind, four that tell
// other queries' cursors from its own), the number and the key, in base64url.
const markLen = 5

// Cursor makes a cursor of a position in q's answer.
func (q *Query) Cursor(p Position) Cursor { return seal(q.mark(), p) }

// Position opens q.After. It refuses a cursor that is broken or was made for
// another query (cursor_invalid), and reports false when there is none.
func (q *Query) Position() (Position, bool, error) { return unseal(q.mark(), q.After) }

func (q *Query) mark() [markLen]byte {
	o, _ := q.Order()
	h := fnv.New32a()
	for _, part := range []string{string(q.Under.Key()), q.Type, string(q.List.Key()), q.Term.Name, q.Term.Value, q.State} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return marked(byte(o), q.Reverse, h.Sum32())
}

// Cursor makes a cursor that stands behind the entry with this sequence
// number. Log positions are the same under every filter, so such a cursor
// fits every LogQuery of the same direction.
func (q *LogQuery) Cursor(seq uint64) Cursor {
	return seal(marked('g', q.Reverse, 0), Position{Num: int64(seq)})
}

// Position opens q.After, like Query.Position.
func (q *LogQuery) Position() (seq uint64, ok bool, err error) {
	p, ok, err := unseal(marked('g', q.Reverse, 0), q.After)
	return uint64(p.Num), ok, err
}

func marked(kind byte, reverse bool, sum uint32) (m [markLen]byte) {
	if reverse {
		kind -= 'a' - 'A'
	}
	m[0] = kind
	binary.BigEndian.PutUint32(m[1:], sum)
	return m
}

func seal(m [markLen]byte, p Position) Cursor {
	b := binary.AppendVarint(m[:], p.Num)
	return Cursor(base64.RawURLEncoding.EncodeToString(append(b, p.Key...)))
}

func unseal(m [markLen]byte, c Cursor) (Position, bool, error) {
	if c == "" {
		return Position{}, false, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(c))
	if err != nil || len(b) <= markLen {
		return Position{}, false, badCursor("it is damaged")
	}
	if [markLen]byte(b) != m {
		return Position{}, false, badCursor("it belongs to another query")
	}
	num, n := binary.Varint(b[markLen:])
	if n <= 0 {
		return Position{}, false, badCursor("it is damaged")
	}
	return Position{Num: num, Key: b[markLen+n:]}, true, nil
}

func badCursor(why string) error {
	return fault.New(fault.Invalid, "cursor_invalid", "the cursor cannot be used: %s", why).
		With("start again without a cursor")
}
