package tree

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
)

// Query selects resources that match all fields that are set. The answer is in
// tree order or, with Since, last changed first.
type Query struct {
	Under  resource.URI   // at or below this place
	Type   string         // "home.Note"
	Space  resource.Space // the owner
	State  string
	Since  time.Time // changed at this time or later
	Until  time.Time // changed before this time
	After  string    // the cursor of an earlier answer to the same query
	Limit  int       // zero: store.DefaultLimit; at most MaxPage
	Bodies bool      // with bodies; else with metadata only
	Actors bool      // with their authors
}

// MaxPage is the maximum number of resources in a page.
const MaxPage = 1000

// maxScan bounds how many resources are examined for one page. If few of them
// match, a page can be short or even empty although there are more.
const maxScan = 10000

// The memory for a page is bounded too: by the number of resources read from the
// store at once, and by the bytes of bodies after which no more are read.
const (
	atOnce   = 32
	maxBytes = 8 << 20
)

// Page is an answer to a Query.
type Page struct {
	Items []Resource
	Next  string // empty: there is no more
}

// A cursor begins with the part of the answer that it is in.
const (
	inMounts = "m"
	inTree   = "t"
	inLog    = "l"
)

// List returns a page of resources that the caller may read. Errors: space_invalid,
// type_invalid, cursor_invalid, limit_invalid, user_disabled, and the store's.
func (s *Service) List(ctx context.Context, by Caller, q Query) (Page, error) {
	if q.Limit == 0 {
		q.Limit = store.DefaultLimit
	}
	if q.Limit < 0 || q.Limit > MaxPage {
		return Page{}, fault.New(fault.Invalid, "limit_invalid", "invalid limit %d", q.Limit).WithHint("use a number from 1 to %d", MaxPage)
	}
	if q.Space != "" {
		if err := CheckSpace(q.Space); err != nil {
			return Page{}, err
		}
	}
	if q.Type != "" {
		if _, err := resource.Parse(resource.Scheme + q.Type + ".x"); err != nil {
			return Page{}, fault.New(fault.Invalid, "type_invalid", "invalid type %.100q", q.Type).WithHint("use a type such as home.Note or common.Message")
		}
	}
	c, err := s.call(ctx, by)
	if err != nil {
		return Page{}, err
	}
	page, err := c.list(ctx, q)
	if err != nil {
		return Page{}, err
	}
	for i := range page.Items {
		if err := c.finish(ctx, q, &page.Items[i]); err != nil {
			return Page{}, err
		}
	}
	return page, nil
}

func (c *call) finish(ctx context.Context, q Query, r *Resource) (err error) {
	if q.Actors && r.Version > 0 {
		r.Actor, err = c.author(ctx, r.URI, r.Version)
	}
	switch {
	case !q.Bodies:
		r.Body = nil
	case err == nil:
		err = c.audit(ctx, *r)
	}
	return err
}

func (c *call) list(ctx context.Context, q Query) (Page, error) {
	part, after, _ := strings.Cut(q.After, ".")
	first := inMounts
	if !q.Since.IsZero() {
		first = inLog
	}
	switch {
	case q.After == "":
		part = first
	case part != first && (part != inTree || first == inLog):
		return Page{}, badCursor()
	}
	page := Page{Items: []Resource{}}
	if part == inMounts {
		items, next, err := c.listMounts(ctx, q, after)
		if err != nil || next != "" {
			return Page{Items: items, Next: next}, err
		}
		page.Items, part, after = append(page.Items, items...), inTree, ""
	}
	sc, ok := c.scope(q)
	if !ok {
		return page, nil
	}
	read := c.readTree
	if part == inLog {
		read = c.readLog
	}
	for scanned := 0; scanned < maxScan; {
		got, err := read(ctx, sc, q, store.Cursor(after), min(q.Limit-len(page.Items), atOnce))
		if err != nil {
			return Page{}, err
		}
		page.Items = append(page.Items, got.items...)
		if after = string(got.next); after == "" {
			page.Next = ""
			return page, nil
		}
		page.Next = part + "." + after
		if q.full(page.Items) {
			return page, nil
		}
		scanned += max(got.examined, 1)
	}
	return page, nil
}

func badCursor() error {
	return fault.New(fault.Invalid, "cursor_invalid", "the cursor belongs to another query, or is damaged").
		WithHint("start again without a cursor")
}

// scope returns the scope of a query; false: it can see nothing.
func (c *call) scope(q Query) (store.Scope, bool) {
	sc := c.reading()
	if q.Space == "" {
		return sc, true
	}
	ok := slices.Contains(sc.Read, q.Space)
	sc.Read = []resource.Space{q.Space}
	return sc, ok
}

// listMounts returns a page of mounted resources, in tree order.
func (c *call) listMounts(ctx context.Context, q Query, after string) ([]Resource, string, error) {
	from, err := base64.RawURLEncoding.DecodeString(after)
	if err != nil {
		return nil, "", badCursor()
	}
	if q.State != "" || !q.Until.IsZero() {
		return nil, "", nil
	}
	var all []Resource
	for _, m := range c.opt.Mounts {
		if _, personal := m.(Personal); personal && q.Type == "" || q.Space != "" && q.Space != owner(m, c.User) {
			continue
		}
		list, err := c.listMount(ctx, m, q)
		if err != nil {
			return nil, "", err
		}
		all = append(all, list...)
	}
	all = slices.DeleteFunc(all, func(r Resource) bool {
		return !r.URI.Under(q.Under) || q.Type != "" && r.URI.Type() != q.Type || bytes.Compare(r.URI.Key(), from) <= 0
	})
	slices.SortFunc(all, func(a, b Resource) int { return bytes.Compare(a.URI.Key(), b.URI.Key()) })
	if len(all) < q.Limit {
		return all, "", nil
	}
	all = all[:q.Limit]
	return all, inMounts + "." + base64.RawURLEncoding.EncodeToString(all[len(all)-1].URI.Key()), nil
}

// listMount returns the resources of a mount that policy allows to read.
func (c *call) listMount(ctx context.Context, m Mount, q Query) ([]Resource, error) {
	may := map[string]policy.Decision{}
	for _, t := range m.Types() {
		if q.Type != "" && q.Type != t {
			continue
		}
		d, ok, err := c.mayView(ctx, m, t)
		if err != nil {
			return nil, err
		}
		if ok {
			may[t] = d
		}
	}
	if len(may) == 0 {
		return nil, nil
	}
	list, err := m.List(ctx, c.who)
	if err != nil {
		return nil, err
	}
	var out []Resource
	for _, r := range list {
		if d, ok := may[r.URI.Type()]; ok && c.mounts[r.URI.Type()] == m {
			out = append(out, maskedResource(r, d))
		}
	}
	return out, nil
}

// full reports whether a page is full.
func (q Query) full(items []Resource) bool {
	size := 0
	for i := range items {
		size += len(items[i].Body)
	}
	return len(items) >= q.Limit || size >= maxBytes
}

// pagePart is a part of a page.
type pagePart struct {
	items    []Resource
	examined int          // resources and entries that were looked at
	next     store.Cursor // where to continue; empty: there is no more
}

// readTree reads resources in tree order.
func (c *call) readTree(ctx context.Context, sc store.Scope, q Query, after store.Cursor, limit int) (out pagePart, err error) {
	got, err := c.opt.Store.Query(ctx, sc, store.Query{Under: q.Under, Type: q.Type, State: q.State, After: after, Limit: limit})
	if err != nil {
		return out, err
	}
	for _, it := range got.Items {
		if err := c.admit(ctx, q, it.Resource, &out); err != nil {
			return out, err
		}
	}
	out.examined, out.next = len(got.Items), got.Next
	return out, nil
}

// readLog reads resources from the log, backwards: each is found at its newest
// entry. It ends at the first entry from before q.Since.
func (c *call) readLog(ctx context.Context, sc store.Scope, q Query, after store.Cursor, limit int) (out pagePart, err error) {
	got, err := c.opt.Store.Log(ctx, sc, store.LogQuery{Under: q.Under, Type: q.Type, Reverse: true, After: after, Limit: limit})
	if err != nil {
		return out, err
	}
	for _, e := range got.Entries {
		if e.At.Before(q.Since) {
			return out, nil
		}
		if e.Op != resource.OpPut || !q.Until.IsZero() && !e.At.Before(q.Until) {
			continue
		}
		if _, ok, err := c.mayRead(ctx, e.URI.Type(), e.Space); err != nil {
			return out, err
		} else if !ok {
			continue
		}
		r, err := c.opt.Store.Get(ctx, sc, e.URI)
		switch {
		case fault.Is(err, fault.NotFound) || err == nil && r.Seq != e.Seq: // the resource has a newer entry
			continue
		case err == nil:
			err = c.admit(ctx, q, r, &out)
		}
		if err != nil {
			return out, err
		}
	}
	if out.examined = len(got.Entries); got.More {
		out.next = got.Next
	}
	return out, nil
}

// admit adds a stored resource, if it may be read and the query selects it.
func (c *call) admit(ctx context.Context, q Query, r resource.Resource, to *pagePart) error {
	if !q.Since.IsZero() && r.At.Before(q.Since) || !q.Until.IsZero() && !r.At.Before(q.Until) || q.State != "" && r.State != q.State {
		return nil
	}
	d, ok, err := c.mayRead(ctx, r.URI.Type(), r.Space)
	if err != nil || !ok {
		return err
	}
	out := shown(r, d)
	if !q.Bodies {
		out.Body = nil // a page does not keep in memory what it does not show
	}
	to.items = append(to.items, out)
	return nil
}
