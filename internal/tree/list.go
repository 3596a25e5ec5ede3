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

// Query selects resources. What is set restricts the answer. It is in tree
// order; with Since it is read from the log, the last changed first.
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
	Actors bool      // with who made them
}

// MaxPage is how many resources a page has at most.
const MaxPage = 1000

// maxScan is how many resources are looked at for one page. When few of them
// are to be shown, a page is short, even empty, and goes on.
const maxScan = 10000

// What a page has in memory is bounded, too: so many resources are read from the
// store at once, and none any more when the page has so many bytes of bodies.
const (
	atOnce   = 32
	maxBytes = 8 << 20
)

// Page is an answer to a Query.
type Page struct {
	Items []Resource
	Next  string // empty: there is no more
}

// A cursor says in which part of the answer it is.
const (
	inMounts = "m"
	inTree   = "t"
	inLog    = "l"
)

// List returns a page of what the caller may read. Errors: space_invalid,
// type_invalid, cursor_invalid, limit_invalid, user_disabled, and the store's.
func (s *Service) List(ctx context.Context, by Caller, q Query) (Page, error) {
	if q.Limit == 0 {
		q.Limit = store.DefaultLimit
	}
	if q.Limit < 0 || q.Limit > MaxPage {
		return Page{}, fault.New(fault.Invalid, "limit_invalid", "%d is no limit", q.Limit).WithHint("use a number from 1 to %d", MaxPage)
	}
	if q.Space != "" {
		if err := CheckSpace(q.Space); err != nil {
			return Page{}, err
		}
	}
	if q.Type != "" {
		if _, err := resource.Parse(resource.Scheme + q.Type + ".x"); err != nil {
			return Page{}, fault.New(fault.Invalid, "type_invalid", "%.100q is no type", q.Type).WithHint("a type is like home.Note or common.Message")
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
	switch part {
	case inLog:
		return c.listLog(ctx, q, store.Cursor(after))
	case inTree:
		return c.listTree(ctx, q, store.Cursor(after), nil)
	}
	items, next, err := c.listMounts(ctx, q, after)
	if err != nil || next != "" {
		return Page{Items: items, Next: next}, err
	}
	return c.listTree(ctx, q, "", items)
}

func badCursor() error {
	return fault.New(fault.Invalid, "cursor_invalid", "the cursor belongs to another query, or is damaged").
		WithHint("start again without a cursor")
}

// scope is what the query may see; false: nothing.
func (c *call) scope(q Query) (store.Scope, bool) {
	sc := c.reading()
	if q.Space == "" {
		return sc, true
	}
	ok := slices.Contains(sc.Read, q.Space)
	sc.Read = []resource.Space{q.Space}
	return sc, ok
}

// listMounts returns a page of what is mounted, in tree order.
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

// listMount returns those of a mount that policy lets read.
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
			out = append(out, veiled(r, d))
		}
	}
	return out, nil
}

// listTree fills a page from the tree.
func (c *call) listTree(ctx context.Context, q Query, after store.Cursor, items []Resource) (Page, error) {
	page := Page{Items: append([]Resource{}, items...)}
	sc, ok := c.scope(q)
	if !ok {
		return page, nil
	}
	sq := store.Query{Under: q.Under, Type: q.Type, State: q.State, After: after}
	for scanned := 0; scanned < maxScan; {
		sq.Limit = min(q.Limit-len(page.Items), atOnce)
		got, err := c.opt.Store.Query(ctx, sc, sq)
		if err != nil {
			return Page{}, err
		}
		for _, it := range got.Items {
			r, ok, err := c.admit(ctx, q, it.Resource)
			if err != nil {
				return Page{}, err
			}
			if ok {
				page.Items = append(page.Items, r)
			}
		}
		if got.Next == "" {
			page.Next = ""
			return page, nil
		}
		sq.After = got.Next
		page.Next = inTree + "." + string(got.Next)
		if q.full(page.Items) {
			return page, nil
		}
		scanned += max(len(got.Items), 1)
	}
	return page, nil
}

// admit shows a stored resource, if it may be read and the query wants it.
func (c *call) admit(ctx context.Context, q Query, r resource.Resource) (Resource, bool, error) {
	typ := r.URI.Type()
	switch {
	case !q.Since.IsZero() && r.At.Before(q.Since), !q.Until.IsZero() && !r.At.Before(q.Until),
		q.State != "" && r.State != q.State:
		return Resource{}, false, nil
	}
	d, ok, err := c.mayRead(ctx, typ, r.Space)
	if err != nil || !ok {
		return Resource{}, false, err
	}
	out := shown(r, d)
	if !q.Bodies {
		out.Body = nil // what a page does not tell it does not keep
	}
	return out, true, nil
}

// full reports whether a page has all that fits.
func (q Query) full(items []Resource) bool {
	size := 0
	for i := range items {
		size += len(items[i].Body)
	}
	return len(items) >= q.Limit || size >= maxBytes
}

// listLog fills a page from the log, backwards: where each resource is found
// at its newest entry. It ends at the first entry from before q.Since.
func (c *call) listLog(ctx context.Context, q Query, after store.Cursor) (Page, error) {
	page := Page{Items: []Resource{}}
	sc, ok := c.scope(q)
	if !ok {
		return page, nil
	}
	lq := store.LogQuery{Under: q.Under, Type: q.Type, Reverse: true, After: after}
	for scanned := 0; scanned < maxScan; {
		lq.Limit = min(q.Limit-len(page.Items), atOnce)
		got, err := c.opt.Store.Log(ctx, sc, lq)
		if err != nil {
			return Page{}, err
		}
		for _, e := range got.Entries {
			if e.At.Before(q.Since) {
				page.Next = ""
				return page, nil
			}
			r, ok, err := c.newest(ctx, sc, q, e)
			if err != nil {
				return Page{}, err
			}
			if ok {
				page.Items = append(page.Items, r)
			}
		}
		if !got.More {
			page.Next = ""
			return page, nil
		}
		lq.After = got.Next
		page.Next = inLog + "." + string(got.Next)
		if q.full(page.Items) {
			return page, nil
		}
		scanned += max(len(got.Entries), 1)
	}
	return page, nil
}

// newest shows what an entry made, if nothing came after it.
func (c *call) newest(ctx context.Context, sc store.Scope, q Query, e resource.Entry) (Resource, bool, error) {
	typ := e.URI.Type()
	if e.Op != resource.OpPut || !q.Until.IsZero() && !e.At.Before(q.Until) {
		return Resource{}, false, nil
	}
	if _, ok, err := c.mayRead(ctx, typ, e.Space); err != nil || !ok {
		return Resource{}, false, err
	}
	r, err := c.opt.Store.Get(ctx, sc, e.URI)
	if fault.Is(err, fault.NotFound) || err == nil && r.Seq != e.Seq {
		return Resource{}, false, nil
	}
	if err != nil {
		return Resource{}, false, err
	}
	return c.admit(ctx, q, r)
}
