package postgres

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"steward/internal/store"
)

// slot is a position in the list of the resource with this key.
type slot struct {
	list string
	pos  int64
}

// refs are the terms and places of a resource. Its row in the tree contains them,
// so the writer can replace them without an index by resource. They are immutable.
type refs struct {
	terms  []store.Term // sorted
	places []slot
}

// encode returns the number of terms, each term, and each place; nil if there are
// neither terms nor places.
func (r refs) encode() []byte {
	if len(r.terms)+len(r.places) == 0 {
		return nil
	}
	b := binary.AppendUvarint(nil, uint64(len(r.terms)))
	for _, t := range r.terms {
		b = appendText(appendText(b, t.Name), t.Value)
	}
	for _, p := range r.places {
		b = binary.AppendVarint(appendText(b, p.list), p.pos)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errRefs = errors.New("a row of the tree is damaged")

func decodeRefs(b []byte) (r refs, err error) {
	if len(b) == 0 {
		return r, nil
	}
	n, k := binary.Uvarint(b)
	if k <= 0 {
		return refs{}, errRefs
	}
	ok := true
	for b = b[k:]; n > 0; n-- {
		var t store.Term
		if t.Name, b, ok = cutText(b); ok {
			t.Value, b, ok = cutText(b)
		}
		if !ok {
			return refs{}, errRefs
		}
		r.terms = append(r.terms, t)
	}
	for len(b) > 0 {
		var p slot
		if p.list, b, ok = cutText(b); !ok {
			return refs{}, errRefs
		}
		if p.pos, k = binary.Varint(b); k <= 0 {
			return refs{}, errRefs
		}
		r.places, b = append(r.places, p), b[k:]
	}
	return r, nil
}

func cutText(b []byte) (string, []byte, bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return "", nil, false
	}
	return string(b[k : k+int(n)]), b[k+int(n):], true
}

// in returns the resource's position in a list.
func (r refs) in(list string) (slot, bool) {
	for _, p := range r.places {
		if p.list == list {
			return p, true
		}
	}
	return slot{}, false
}

// place returns r with p as its place in p's list.
func (r refs) place(p slot) refs {
	r = r.unlist(p.list)
	r.places = append(r.places, p)
	return r
}

// unlist returns r without its place in the list.
func (r refs) unlist(list string) refs {
	kept := make([]slot, 0, len(r.places)+1)
	for _, p := range r.places {
		if p.list != list {
			kept = append(kept, p)
		}
	}
	r.places = kept
	return r
}

// sorted returns the terms in order and each once.
func sorted(terms []store.Term) []store.Term {
	terms = slices.Clone(terms)
	slices.SortFunc(terms, func(a, b store.Term) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	return slices.Compact(terms)
}

// Limits of what stands in an index of PostgreSQL, whose rows have at most 2,704
// bytes: a key, a word, and the value of a term, of which a longer one is
// represented by its beginning and its hash.
const (
	maxKey   = 2000
	maxWord  = 600
	maxValue = 256
)

// termKey returns what the index of terms has for a value.
func termKey(value string) []byte {
	if len(value) < maxValue {
		return []byte(value)
	}
	sum := sha256.Sum256([]byte(value))
	return append([]byte(value[:maxValue-len(sum)]), sum[:]...)
}

// isText reports whether PostgreSQL can store a word.
func isText(s string) bool {
	return len(s) <= maxWord && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}
