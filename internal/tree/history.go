package tree

import (
	"context"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// History returns a page of the versions of a resource, newest first, even if it
// was deleted. A deletion is a version without a body in the state Deleted.
// Errors: not_found, cursor_invalid, limit_invalid, user_disabled, and the
// store's.
func (s *Service) History(ctx context.Context, by Caller, uri resource.URI, after string, limit int) (Page, error) {
	if limit < 0 || limit > MaxPage {
		return Page{}, fault.New(fault.Invalid, "limit_invalid", "invalid limit %d", limit).WithHint("use a number from 1 to %d", MaxPage)
	}
	c, err := s.call(ctx, by)
	if err != nil {
		return Page{}, err
	}
	if uri.Zero() || resource.Closed(uri.Type()) {
		return Page{}, absent(uri)
	}
	got, err := c.opt.Store.Log(ctx, c.reading(), store.LogQuery{Of: uri, Reverse: true, After: store.Cursor(after), Limit: limit})
	if err != nil {
		return Page{}, err
	}
	page := Page{Items: []Resource{}}
	for _, e := range got.Entries {
		r, ok, err := c.version(ctx, e)
		if err != nil {
			return Page{}, err
		}
		if ok {
			page.Items = append(page.Items, r)
		}
	}
	if got.More {
		page.Next = string(got.Next)
	}
	if len(page.Items) == 0 && after == "" && !got.More {
		return Page{}, absent(uri)
	}
	if len(page.Items) > 0 {
		err = c.audit(ctx, page.Items[0])
	}
	return page, err
}

// version converts a log entry.
func (c *call) version(ctx context.Context, e resource.Entry) (Resource, bool, error) {
	d, ok, err := c.mayRead(ctx, e.URI.Type(), e.Space)
	if err != nil || !ok {
		return Resource{}, false, err
	}
	r := Resource{URI: e.URI, Space: e.Space, Version: e.Version, State: e.State, At: e.At, Actor: e.Actor, Body: e.Body}
	if e.Op != resource.OpPut {
		r.State, r.Body = Deleted, nil
	}
	return maskedResource(r, d), true, nil
}

// Version returns an earlier version of a resource. Errors: not_found,
// user_disabled, and the store's.
func (s *Service) Version(ctx context.Context, by Caller, uri resource.URI, version uint64) (Resource, error) {
	after := ""
	for {
		page, err := s.History(ctx, by, uri, after, 0)
		if err != nil {
			return Resource{}, err
		}
		for _, r := range page.Items {
			if r.Version == version && r.State != Deleted {
				return r, nil
			}
		}
		if after = page.Next; after == "" {
			return Resource{}, fault.New(fault.NotFound, "not_found", "%s has no version %d", uri, version).
				WithHint("steward resources history shows its versions")
		}
	}
}

// author returns who made a version, which should be one of the newest.
func (c *call) author(ctx context.Context, uri resource.URI, version uint64) (string, error) {
	q := store.LogQuery{Of: uri, Reverse: true, Limit: 10}
	for {
		got, err := c.opt.Store.Log(ctx, c.reading(), q)
		if err != nil {
			return "", err
		}
		for _, e := range got.Entries {
			if e.Version <= version {
				return e.Actor, nil
			}
		}
		if !got.More {
			return "", nil
		}
		q.After = got.Next
	}
}
