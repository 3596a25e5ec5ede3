package events

import (
	"slices"

	"steward/internal/resource"
)

// index finds the subscribers whom an event may concern: by its space, and by
// each place that it lies at or below. A place is a URI, whose binary form is
// the key of a hash table: an event has as few places as its URI has steps, so
// that finding costs the same however many subscribers there are.
type index map[resource.Space]map[spot][]*subscriber

// spot is a place, and the one type that is asked for there; "": any.
type spot struct {
	prefix resource.URI
	typ    string
}

func (x index) add(s *subscriber) {
	for _, sp := range s.spaces {
		if x[sp] == nil {
			x[sp] = map[spot][]*subscriber{}
		}
		for _, at := range s.matcher.spots() {
			x[sp][at] = append(x[sp][at], s)
		}
	}
}

func (x index) remove(s *subscriber) {
	for _, sp := range s.spaces {
		for _, at := range s.matcher.spots() {
			list := x[sp][at]
			if i := slices.Index(list, s); i >= 0 {
				last := len(list) - 1
				list[i], list[last] = list[last], nil
				x[sp][at] = list[:last]
			}
			if len(x[sp][at]) == 0 {
				delete(x[sp], at)
			}
		}
		if len(x[sp]) == 0 {
			delete(x, sp)
		}
	}
}

// spots are where a subscriber is found: each prefix, with each type if only
// whole types are asked for.
func (m *matcher) spots() []spot {
	types := m.exact
	if len(types) == 0 {
		types = []string{""}
	}
	out := make([]spot, 0, len(m.prefixes)*len(types))
	for _, p := range m.prefixes {
		for _, t := range types {
			out = append(out, spot{p, t})
		}
	}
	return out
}

// find appends the subscribers of a space's places above a resource. One who
// has several of them is found several times.
func (x index) find(list []*subscriber, sp resource.Space, u resource.URI, typ string) []*subscriber {
	here := x[sp]
	if here == nil {
		return list
	}
	for {
		list = append(append(list, here[spot{u, ""}]...), here[spot{u, typ}]...)
		if u.Zero() {
			return list
		}
		u = u.Parent()
	}
}
