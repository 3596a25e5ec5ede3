package wire

import (
	"encoding/hex"
	"strconv"

	"steward/internal/id"
)

// CallIDs gives the calls of one message their ids: a server's own ones, and
// where there is none, or one that the message has already, one made from what
// the call comes from and its place: the same always.
type CallIDs struct {
	Prefix string // of ids that are made
	used   map[string]bool
	n      int
}

// Next returns the id of the next call. from says what the message comes from:
// its parts distinguish it from all other messages.
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
