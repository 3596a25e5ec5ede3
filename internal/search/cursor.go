package search

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"

	"steward/internal/fault"
)

// Seal makes the cursor that stands behind a place in q's answer.
func (q *Query) Seal(place int64) Cursor {
	b := binary.AppendVarint(binary.BigEndian.AppendUint32(nil, q.mark()), place)
	return Cursor(base64.RawURLEncoding.EncodeToString(b))
}

// Place opens q.After; ok is false where there is none. One that is damaged
// or belongs to another query is refused with cursor_invalid.
func (q *Query) Place() (place int64, ok bool, err error) {
	if q.After == "" {
		return 0, false, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(q.After))
	if err != nil || len(b) < 5 {
		return 0, false, badCursor("it is damaged")
	}
	if binary.BigEndian.Uint32(b) != q.mark() {
		return 0, false, badCursor("it belongs to another query")
	}
	place, n := binary.Varint(b[4:])
	if n != len(b)-4 {
		return 0, false, badCursor("it is damaged")
	}
	return place, true, nil
}

// mark tells this query's cursors from those of others.
func (q *Query) mark() uint32 {
	h := fnv.New32a()
	var times [16]byte
	if !q.Since.IsZero() {
		binary.BigEndian.PutUint64(times[:8], uint64(q.Since.UnixMicro()))
	}
	if !q.Until.IsZero() {
		binary.BigEndian.PutUint64(times[8:], uint64(q.Until.UnixMicro()))
	}
	for _, part := range []string{q.Text, string(q.Conversation[:]), string(q.Role), q.Tool, string(q.Except[:]), string(times[:])} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return h.Sum32()
}

func badCursor(why string) error {
	return fault.New(fault.Invalid, "cursor_invalid", "the cursor cannot be used: %s", why).
		With("start again without a cursor")
}
