package tree

import (
	"context"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
)

// Put describes a resource to be put.
type Put struct {
	URI     resource.URI
	Space   resource.Space // empty: the one whose place the URI is below
	Body    []byte         // a JSON object; its members purpose, instructions, applicability and evaluation describe it
	State   string         // any word; Query.State finds it
	Version uint64         // if not zero, the resource must have this version
	Create  bool           // the resource must not exist

	key string // the idempotency key of the action, if it is one
}

// cond returns the precondition.
func (p Put) cond() store.If { return store.If{Version: p.Version, Absent: p.Create} }

// Put creates a resource or replaces it by a new version, and returns it. Errors:
// resource_owned, space_denied, access_denied (Denied), space_invalid,
// body_invalid, metadata_invalid, state_invalid, version_invalid (Invalid),
// too_large, not_found (Version is set, and there is no such resource),
// resource_exists, resource_changed (Conflict), user_disabled, and the store's.
func (s *Service) Put(ctx context.Context, by Caller, p Put) (Resource, error) {
	c, err := s.call(ctx, by)
	if err != nil {
		return Resource{}, err
	}
	space, err := c.writable(p.URI, p.Space)
	if err != nil {
		return Resource{}, err
	}
	meta, err := checkBody(p.Body)
	if err != nil {
		return Resource{}, err
	}
	if err := checkState(p.State); err != nil {
		return Resource{}, err
	}
	if p.Create && p.Version > 0 {
		return Resource{}, fault.New(fault.Invalid, "version_invalid", "a new resource has no version").
			WithHint("give either a version or create, not both")
	}
	if err := c.mayChange(ctx, policy.Write, policy.Resource{URI: p.URI, Type: p.URI.Type(), Space: space, Metadata: meta}); err != nil {
		return Resource{}, err
	}
	made, err := c.commit(ctx, space, p.key, store.Change{URI: p.URI, If: p.cond(), Body: p.Body, State: p.State})
	if err != nil {
		return Resource{}, refused(err, p.URI, p.cond())
	}
	return Resource{URI: p.URI, Space: space, Version: made.Version, State: p.State, At: made.At, Actor: c.actor(), Metadata: meta, Body: p.Body}, nil
}

// Removal describes a resource to be deleted.
type Removal struct {
	URI     resource.URI
	Version uint64 // if not zero, the resource must have this version
	Erase   bool   // also remove the bodies of all versions permanently

	key string // the idempotency key, as in Put
}

// Delete deletes a resource. Resources below it stay, and so does its history,
// unless it is erased. Errors: not_found, resource_owned, space_denied,
// access_denied, resource_changed, user_disabled, and the store's.
func (s *Service) Delete(ctx context.Context, by Caller, d Removal) error {
	c, err := s.call(ctx, by)
	if err != nil {
		return err
	}
	space, err := c.writable(d.URI, "")
	if err != nil {
		return err
	}
	if err := c.mayChange(ctx, policy.Delete, policy.Resource{URI: d.URI, Type: d.URI.Type(), Space: space}); err != nil {
		return err
	}
	ch := store.Change{Op: store.Delete, URI: d.URI, If: store.If{Version: d.Version}}
	if d.Erase {
		ch.Op = store.Erase
		if err := store.EraseAbout(ctx, c.opt.Store, c.actor(), space, d.URI); err != nil {
			return err
		}
	}
	if _, err := c.commit(ctx, space, d.key, ch); err != nil {
		return refused(err, d.URI, ch.If)
	}
	return nil
}

// writing returns the scope for changes in one of the caller's spaces.
func (c *call) writing(space resource.Space) store.Scope {
	return store.Scope{Actor: c.actor(), Read: []resource.Space{space}, Write: space}
}

// commit writes one change in one of the caller's spaces, and returns its entry.
func (c *call) commit(ctx context.Context, space resource.Space, key string, ch store.Change) (resource.Entry, error) {
	sc := c.writing(space)
	if key != "" {
		seq, err := c.commitOnce(ctx, sc, key, ch)
		if err != nil {
			return resource.Entry{}, err
		}
		return c.entryBySeq(ctx, sc, ch.URI, seq)
	}
	rc, err := c.opt.Store.Commit(ctx, sc, store.Batch{Request: c.Request, Changes: []store.Change{ch}})
	if err != nil {
		return resource.Entry{}, err
	}
	return resource.Entry{Version: rc.Versions[0], At: rc.At, Seq: rc.Seq}, nil
}

// refused translates the store's refusal of a change.
func refused(err error, uri resource.URI, cond store.If) error {
	e := fault.Of(err)
	switch {
	case e.Kind == fault.NotFound:
		return absent(uri)
	case e.Kind != fault.Conflict:
		return err
	case cond.Absent:
		return fault.New(fault.Conflict, "resource_exists", "%s already exists", uri).
			WithHint("choose another name, or replace the existing version")
	case cond.Version > 0:
		return fault.New(fault.Conflict, "resource_changed", "%s is no longer at version %d", uri, cond.Version).
			WithHint("reload the resource, then decide")
	}
	return err
}
