package cluster

import (
	"context"

	"steward/internal/store"
	"steward/internal/store/lease"
)

// Store returns the store that engines use. What is committed to a space that this node holds is committed under
// its fencing number. What is committed to a space that it has lost, and has not left yet, is refused with
// lease.ErrLost. Commits to other spaces pass: duties fence nothing, since the system space belongs to all nodes.
func (c *Cluster) Store() Store { return fenced{c.opt.Store, c} }

type fenced struct {
	Store
	c *Cluster
}

// Commit implements store.Store.
func (f fenced) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	h := f.c.holding(Piece{Space: sc.Write})
	if h == nil || h.number.Load() == 0 {
		return f.Store.Commit(ctx, sc, b)
	}
	if h.lost.Load() {
		return store.Receipt{}, lease.ErrLost
	}
	changes := make([]store.Change, 0, 1+len(b.Changes))
	changes = append(changes, store.Change{Op: store.Check, URI: h.at, If: store.If{Version: h.number.Load()}})
	b.Changes = append(changes, b.Changes...)
	rec, err := f.Store.Commit(ctx, sc, b)
	if err != nil {
		if about(err, h.at) {
			h.fenced.Store(true)
			h.revoke()
			return rec, lease.ErrLost
		}
		return rec, err
	}
	rec.Versions = rec.Versions[1:]
	return rec, nil
}
