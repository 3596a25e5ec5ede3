package wire

import (
	"encoding/hex"
	"strconv"

	"steward/internal/id"
)

// CallIDs assigns ids to the calls of one message. It uses the server's id or, if there is none or
// the message already has it, one derived from the source and the position of the call, which is
// always the same.
type CallIDs struct {
	Prefix string // of derived ids
	used   map[string]bool
	n      int
}

// Next returns the id of the next call. from identifies the source of the message among all other
// messages.
func (c *CallIDs) Next(given string, from ...string) string {
	if given == "" || c.used[given] {
		u := id.Derive(from...)
		given = c.Prefix + hex.EncodeToString(u[:6]) + "-" + strconv.Itoa(c.n)
	}
	if c.used == nil {
		c.used = map[string]bool{}
	}
	c.used[given] = true
	c.n++
	return given
}

// Len returns the number of calls.
func (c *CallIDs) Len() int { return c.n }
