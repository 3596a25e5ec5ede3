package store

import (
	"steward/internal/fault"
)

// CanRead returns scope_missing if the scope names no space to read.
func (s Scope) CanRead() error {
	if !s.all && len(s.Read) == 0 {
		return noScope("read")
	}
	return nil
}

// CanWrite returns scope_missing if the scope names no space to write.
func (s Scope) CanWrite() error {
	if s.Write == "" {
		return noScope("write")
	}
	return nil
}

func noScope(verb string) error {
	return fault.New(fault.Denied, "scope_missing", "the scope of the call has no space to %s", verb).
		WithHint("pass the scope of the user for whom the call is made")
}

// Check returns batch_invalid if the batch is malformed, whatever the store's
// content.
func (b Batch) Check() error {
	for i := range b.Changes {
		if why := b.Changes[i].fault(); why != "" {
			return fault.New(fault.Invalid, "batch_invalid", "change %d of the batch (%s): %s", i, b.Changes[i].URI, why).
				Detail("change", i)
		}
	}
	return nil
}

func (c *Change) fault() string {
	switch {
	case c.URI.Zero():
		return "the resource is missing"
	case c.Op > Pack:
		return "unknown operation"
	case c.Op == Unlist && c.Place == nil:
		return "Unlist requires a place"
	case c.Place != nil && c.Op != Put && c.Op != Unlist:
		return "only a put can be placed in a list"
	case c.Place != nil && c.Place.List.Zero():
		return "its place has no list"
	}
	for _, t := range c.Terms {
		if t.Name == "" {
			return "a term has no name"
		}
	}
	return ""
}

// Order is the sort order of a Query's result.
type Order byte

// The orders.
const (
	ByTree  Order = 'u' // also if neither List, Term nor State is set
	ByList  Order = 'l'
	ByTerm  Order = 't'
	ByState Order = 's'
)

// Order returns the order of the result. It returns query_invalid if the query
// sets more than one of List, Term and State, or counts anything but a list's
// members.
func (q *Query) Order() (Order, error) {
	o, n := ByTree, 0
	if !q.List.Zero() {
		o, n = ByList, n+1
	}
	if q.Term.Name != "" {
		o, n = ByTerm, n+1
	}
	if q.State != "" {
		o, n = ByState, n+1
	}
	if n > 1 || q.Count != nil && o != ByList {
		return 0, fault.New(fault.Invalid, "query_invalid", "a query takes at most one of List, Term and State, and can count only the members of a list")
	}
	return o, nil
}

// PageSize returns the effective page size: DefaultLimit if limit is not
// positive, at most MaxLimit.
func PageSize(limit int) int {
	if limit <= 0 {
		return DefaultLimit
	}
	return min(limit, MaxLimit)
}
