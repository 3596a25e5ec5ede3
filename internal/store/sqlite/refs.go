package sqlite

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
)

// term and slot are the secondary keys of a resource.
type term struct {
	name  int64
	value string
}

type slot struct {
	list, pos int64
}

// refs are the terms and places of a resource. Its row in the tree contains them,
// so the writer can replace them without an index by resource.
type refs struct {
	terms  []term
	places []slot
}

func (r refs) same(o refs) bool {
	return slices.Equal(r.terms, o.terms) && slices.Equal(r.places, o.places)
}

// encode appends the number of terms, each term, and each place; nothing if there
// are neither terms nor places.
func (r refs) encode(b []byte) []byte {
	if len(r.terms)+len(r.places) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(r.terms)))
	for _, t := range r.terms {
		b = binary.AppendUvarint(b, uint64(t.name))
		b = binary.AppendUvarint(b, uint64(len(t.value)))
		b = append(b, t.value...)
	}
	for _, p := range r.places {
		b = binary.AppendUvarint(b, uint64(p.list))
		b = binary.AppendVarint(b, p.pos)
	}
	return b
}

var errRefs = errors.New("a row of the tree is damaged")

func decodeRefs(b []byte) (r refs, err error) {
	if len(b) == 0 {
		return r, nil
	}
	n, b, ok := cutUvarint(b)
	for ; ok && n > 0; n-- {
		var name, size uint64
		if name, b, ok = cutUvarint(b); !ok {
			break
		}
		if size, b, ok = cutUvarint(b); !ok || size > uint64(len(b)) {
			return refs{}, errRefs
		}
		r.terms = append(r.terms, term{int64(name), string(b[:size])})
		b = b[size:]
	}
	for ok && len(b) > 0 {
		var list uint64
		if list, b, ok = cutUvarint(b); !ok {
			break
		}
		pos, k := binary.Varint(b)
		if k <= 0 {
			return refs{}, errRefs
		}
		r.places = append(r.places, slot{int64(list), pos})
		b = b[k:]
	}
	if !ok {
		return refs{}, errRefs
	}
	return r, nil
}

func cutUvarint(b []byte) (uint64, []byte, bool) {
	v, k := binary.Uvarint(b)
	if k <= 0 {
		return 0, nil, false
	}
	return v, b[k:], true
}

// in returns the resource's position in a list.
func (r refs) in(list int64) (slot, bool) {
	for _, p := range r.places {
		if p.list == list {
			return p, true
		}
	}
	return slot{}, false
}

// place returns r with p as its place in p's list. It does not modify r.
func (r refs) place(p slot) refs {
	r = r.unlist(p.list)
	r.places = append(r.places, p)
	return r
}

// unlist returns r without its place in the list. It does not modify r.
func (r refs) unlist(list int64) refs {
	kept := make([]slot, 0, len(r.places)+1)
	for _, p := range r.places {
		if p.list != list {
			kept = append(kept, p)
		}
	}
	r.places = kept
	return r
}

// sorted sorts the terms and removes duplicates.
func sorted(terms []term) []term {
	if len(terms) < 2 {
		return terms
	}
	slices.SortFunc(terms, func(a, b term) int {
		if a.name != b.name {
			return int(a.name - b.name)
		}
		return strings.Compare(a.value, b.value)
	})
	return slices.Compact(terms)
}
