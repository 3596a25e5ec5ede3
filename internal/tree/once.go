package tree

import (
	"context"
	"encoding/json"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
)

// typeDone is the type of the records that identify a completed action by its key.
// They are below the place of the space that was written. Each is written in one
// batch with the action's change, and directly after it, so that its own log
// entry is the next one.
const typeDone = "tree.Done"

// done is the body of such a record.
type done struct {
	URI     resource.URI `json:"uri"`
	Before  uint64       `json:"before,omitzero"` // the version before the action; 0: none
	Deleted bool         `json:"deleted,omitzero"`
	Undone  bool         `json:"undone,omitzero"`
	Seq     uint64       `json:"seq,omitzero"` // after an undo: the action's own entry
}

func doneURI(space resource.Space, key string) resource.URI {
	return resource.Place(space).Child(typeDone, key)
}

// doneRecord is a stored record.
type doneRecord struct {
	done
	uri     resource.URI
	version uint64
	seq     uint64 // of the action's entry
}

func (c *call) marked(ctx context.Context, sc store.Scope, key string) (doneRecord, error) {
	m := doneRecord{uri: doneURI(sc.Write, key)}
	r, err := c.opt.Store.Get(ctx, sc, m.uri)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(r.Body, &m.done); err != nil {
		return m, fault.New(fault.Internal, "store_broken", "%s cannot be read: %w", m.uri, err)
	}
	m.version, m.seq = r.Version, r.Seq-1
	if m.Undone {
		m.seq = m.Seq
	}
	return m, nil
}

func (m doneRecord) change(cond store.If) (store.Change, error) {
	body, err := json.Marshal(m.done)
	return store.Change{URI: m.uri, If: cond, Body: body}, err
}

// commitOnce commits a change under a key, unless a change was already committed under
// it. It returns the sequence number of the entry.
func (c *call) commitOnce(ctx context.Context, sc store.Scope, key string, ch store.Change) (uint64, error) {
	for {
		m, err := c.marked(ctx, sc, key)
		if !fault.Is(err, fault.NotFound) {
			return m.seq, err
		}
		pinned := ch
		m.done = done{URI: ch.URI, Deleted: ch.Op != store.Put}
		old, err := c.opt.Store.Get(ctx, sc, ch.URI)
		switch {
		case err == nil:
			m.Before = old.Version
			if !ch.If.Absent && ch.If.Version == 0 {
				pinned.If.Version = old.Version
			}
		case !fault.Is(err, fault.NotFound) || ch.Op != store.Put:
			return 0, err
		default:
			pinned.If.Absent = ch.If.Version == 0
		}
		mark, err := m.change(store.If{Absent: true})
		if err != nil {
			return 0, err
		}
		rc, err := c.opt.Store.Commit(ctx, sc, store.Batch{Request: c.Request, Changes: []store.Change{pinned, mark}})
		if err == nil {
			return rc.Seq - 1, nil
		}
		if !fault.Is(err, fault.Conflict) {
			return 0, err
		}
		if _, again := c.marked(ctx, sc, key); fault.Is(again, fault.NotFound) && (ch.If.Version > 0 || ch.If.Absent) {
			return 0, err
		} // otherwise another change came first, perhaps the same one: try again
	}
}

// entryBySeq returns an entry of a resource by its sequence number.
func (c *call) entryBySeq(ctx context.Context, sc store.Scope, uri resource.URI, seq uint64) (resource.Entry, error) {
	got, err := c.opt.Store.Log(ctx, sc, store.LogQuery{Of: uri, Since: seq - 1, Limit: 1})
	if err != nil {
		return resource.Entry{}, err
	}
	if len(got.Entries) == 0 || got.Entries[0].Seq != seq {
		return resource.Entry{}, fault.New(fault.Internal, "store_broken", "the entry %d of %s is not in the log", seq, uri)
	}
	return got.Entries[0], nil
}

// settled reports whether the action with a key was done in a space.
func (s *Service) settled(ctx context.Context, by Caller, space resource.Space, key string) (resource.Entry, bool, error) {
	c, err := s.call(ctx, by)
	if err != nil {
		return resource.Entry{}, false, err
	}
	sc := c.writing(space)
	m, err := c.marked(ctx, sc, key)
	if fault.Is(err, fault.NotFound) {
		return resource.Entry{}, false, nil
	}
	if err != nil {
		return resource.Entry{}, false, err
	}
	e, err := c.entryBySeq(ctx, sc, m.URI, m.seq)
	return e, err == nil, err
}

// undo reverts the action with a key: it restores the version before the action,
// or deletes the resource if there was none. It fails if the resource has changed
// since (resource_changed), or if that version was erased (resource_erased).
func (s *Service) undo(ctx context.Context, by Caller, space resource.Space, key string) (resource.URI, error) {
	c, err := s.call(ctx, by)
	if err != nil {
		return resource.URI{}, err
	}
	sc := c.writing(space)
	m, err := c.marked(ctx, sc, key)
	if fault.Is(err, fault.NotFound) {
		return m.URI, fault.New(fault.NotFound, "not_done", "this was never done: there is nothing to undo")
	}
	if err != nil || m.Undone {
		return m.URI, err
	}
	if _, err := c.writable(m.URI, ""); err != nil {
		return m.URI, err
	}
	ch, err := c.restore(ctx, sc, m)
	if err != nil {
		return m.URI, err
	}
	action := policy.Write
	if ch.Op != store.Put {
		action = policy.Delete
	}
	meta, _ := metadata(ch.Body)
	if err := c.mayChange(ctx, action, policy.Resource{URI: m.URI, Type: m.URI.Type(), Space: space, Metadata: meta}); err != nil {
		return m.URI, err
	}
	m.Seq, m.Undone = m.seq, true
	mark, err := m.change(store.If{Version: m.version})
	if err != nil {
		return m.URI, err
	}
	_, err = c.opt.Store.Commit(ctx, sc, store.Batch{Request: c.Request, Changes: []store.Change{ch, mark}})
	if fault.Is(err, fault.Conflict) {
		return m.URI, changedSince(m.URI)
	}
	return m.URI, err
}

func changedSince(uri resource.URI) error {
	return fault.New(fault.Conflict, "resource_changed", "%s has changed since", uri).
		WithHint("steward resources history %s shows its versions: restore the one that you want", uri)
}

// restore returns the change that reverts an action.
func (c *call) restore(ctx context.Context, sc store.Scope, m doneRecord) (store.Change, error) {
	ch := store.Change{URI: m.URI}
	now, err := c.opt.Store.Get(ctx, sc, m.URI)
	switch there := err == nil; {
	case err != nil && !fault.Is(err, fault.NotFound):
		return ch, err
	case there == m.Deleted, there && now.Seq != m.seq:
		return ch, changedSince(m.URI)
	case there:
		ch.If.Version = now.Version
	default:
		ch.If.Absent = true
	}
	if m.Before == 0 {
		ch.Op = store.Delete
		return ch, nil
	}
	for e, err := range store.Entries(ctx, c.opt.Store, sc, store.LogQuery{Of: m.URI, Reverse: true}) {
		if err != nil {
			return ch, err
		}
		if e.Version == m.Before && e.Op == resource.OpPut && e.Body != nil {
			ch.Body, ch.State = e.Body, e.State
			return ch, nil
		}
	}
	return ch, fault.New(fault.NotFound, "resource_erased", "the earlier version of %s was erased", m.URI)
}
