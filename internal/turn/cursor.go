package turn

import (
	"strconv"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
)

// Cursor is how far a watcher has come: everything up to the log position Seq,
// and of the message in flight everything before Block and the first Offset bytes
// of Block.
type Cursor struct {
	Seq     uint64
	Message id.ID // zero: none was seen in flight
	Block   int
	Offset  int
}

// skip returns how many bytes of a block of the cursor's own message were seen
// already.
func (c Cursor) skip(block, size int) int {
	switch {
	case block < c.Block:
		return size
	case block > c.Block:
		return 0
	}
	return min(c.Offset, size)
}

// String returns the cursor's text form: "SEQ", or "SEQ.MESSAGE.BLOCK.OFFSET"
// while a message is in flight.
func (c Cursor) String() string { return string(c.AppendText(nil)) }

// AppendText appends the cursor's text form to b.
func (c Cursor) AppendText(b []byte) []byte {
	b = strconv.AppendUint(b, c.Seq, 10)
	if !c.Message.Zero() {
		b = append(b, '.')
		b = c.Message.AppendText(b)
		b = append(b, '.')
		b = strconv.AppendInt(b, int64(c.Block), 10)
		b = append(b, '.')
		b = strconv.AppendInt(b, int64(c.Offset), 10)
	}
	return b
}

// ParseCursor parses a cursor's text form. The empty text is the beginning.
//
// Error codes: cursor_invalid.
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	bad := fault.New(fault.Invalid, "cursor_invalid", "%.80q is not a cursor", s).WithHint("send a cursor as you received it, or none to start at the beginning")
	parts := strings.Split(s, ".")
	if len(parts) != 1 && len(parts) != 4 {
		return Cursor{}, bad
	}
	var c Cursor
	var err error
	if c.Seq, err = strconv.ParseUint(parts[0], 10, 63); err != nil {
		return Cursor{}, bad
	}
	if len(parts) == 4 {
		var ok bool
		if c.Message, ok = id.Parse(parts[1]); !ok {
			return Cursor{}, bad
		}
		block, err1 := strconv.ParseUint(parts[2], 10, 31)
		offset, err2 := strconv.ParseUint(parts[3], 10, 31)
		if err1 != nil || err2 != nil {
			return Cursor{}, bad
		}
		c.Block, c.Offset = int(block), int(offset)
	}
	return c, nil
}
