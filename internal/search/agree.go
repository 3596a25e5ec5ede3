package search

import (
	"crypto/sha256"
	"encoding/binary"
)

// Tally is a count and a hash of items. It does not depend on their order: two indexes with
// the same items have equal tallies.
type Tally struct {
	Count int
	Sum   [sha256.Size]byte // of the hashes of the items, added as four numbers
}

// Add adds an item, which is its parts in order.
func (t *Tally) Add(parts ...string) {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(p)))) // a hash's Write does not fail
		h.Write([]byte(p))
	}
	sum := h.Sum(nil)
	for i := 0; i < len(sum); i += 8 {
		n := binary.LittleEndian.Uint64(t.Sum[i:]) + binary.LittleEndian.Uint64(sum[i:])
		binary.LittleEndian.PutUint64(t.Sum[i:], n)
	}
	t.Count++
}

// Agreement compares what an index holds with what the store holds.
type Agreement struct {
	Behind  uint64 // changes that are not indexed yet: then the rest is zero
	Texts   int    // messages or documents that are indexed
	Indexed Tally
	Stored  Tally
}

// OK reports whether the index holds what it should, up to the place in the log that it has
// reached.
func (a *Agreement) OK() bool { return a.Indexed == a.Stored }
