// Package audit exports the log in a form that can be checked: each entry with
// the hashes of its chain (store.Sealer), as JSON lines that can be verified
// without Steward's database. It also writes heads of the chain, to be kept
// elsewhere.
package audit

import (
	"context"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// Log is the audit's view of a store. It is safe for concurrent use.
type Log struct {
	store  store.Store
	sealer store.Sealer
	opt    Options
	turn   chan struct{} // holds a token while a Verify runs, since it takes long
}

// Options of a Log.
type Options struct {
	// Mask removes secrets from a text; nil: no masking.
	Mask func(string) string
}

// New returns the audit's view of st. It refuses a store that cannot seal
// (audit_unsupported).
func New(st store.Store, opt Options) (*Log, error) {
	s, ok := st.(store.Sealer)
	if !ok {
		return nil, fault.New(fault.Unsupported, "audit_unsupported", "this store has no hash chain").
			WithHint("use the SQLite store")
	}
	return &Log{store: st, sealer: s, opt: opt, turn: make(chan struct{}, 1)}, nil
}

// Head seals everything committed so far and returns the head of the chain.
func (l *Log) Head(ctx context.Context) (store.Head, error) { return l.sealer.Seal(ctx) }

// Verify checks the whole log: see store.Sealer. Only one call runs at a time;
// others wait.
func (l *Log) Verify(ctx context.Context, anchors ...store.Head) (store.Verdict, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return store.Verdict{}, ctx.Err()
	}
	if _, err := l.sealer.Seal(ctx); err != nil && !fault.HasCode(err, "log_tampered") {
		return store.Verdict{}, err // Verify below reports the tampering
	}
	return l.sealer.Verify(ctx, anchors...)
}

// Reader is the person for whom the log is exported.
type Reader struct {
	User string
	All  bool // an administrator, who sees all spaces

	Closed []resource.Space // spaces of whose entries the reader gets only the hashes
}

// scope returns what the reader may see: his own space, or all.
func (r Reader) scope() store.Scope {
	if r.All {
		return store.ForNode(resource.System)
	}
	return store.ForUser(r.User)
}

// Query selects entries. The zero Query selects all.
type Query struct {
	Since  time.Time    // entries at or after it
	Until  time.Time    // entries before it
	User   string       // what this user did, and everything in his space
	Under  resource.URI // at or below this URI
	Bodies bool         // include the bodies
}

func (q *Query) selects(e *resource.Entry) bool {
	switch {
	case !q.Since.IsZero() && e.At.Before(q.Since),
		!q.Until.IsZero() && !e.At.Before(q.Until),
		q.User != "" && e.Actor != q.User && e.Space != resource.UserSpace(q.User):
		return false
	}
	return e.URI.Under(q.Under)
}
