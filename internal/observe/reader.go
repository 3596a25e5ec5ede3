package observe

import (
	"context"
	"log/slog"

	"steward/internal/fault"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// reader turns entries of the log into changes. Not for concurrent use.
type reader struct {
	store store.Store
	scope store.Scope
	log   *slog.Logger
	known map[resource.URI]*resource.Entry // of what is told by comparison, the newest that was read
}

// maxKnown bounds the versions that are kept for comparison.
const maxKnown = 2048

// read returns the changes that an entry tells. Its errors are the store's;
// an entry that cannot be read tells nothing but to the log.
func (r *reader) read(ctx context.Context, e *resource.Entry) ([]Change, error) {
	typ := e.URI.Type()
	switch _, inside := e.URI.Find(record.TypeConversation); {
	case !inside:
		return nil, nil
	case e.Op == resource.OpErase && typ == record.TypeConversation:
		return r.erased(ctx, e)
	case e.Op != resource.OpPut:
		r.keep(e)
		return removed(e), nil
	case len(e.Body) == 0: // erased since
		return nil, nil
	}
	before, err := r.before(ctx, e)
	if err != nil {
		return nil, err
	}
	r.keep(e)
	if before != nil && before.Op == resource.OpPut && len(before.Body) == 0 { // erased, and e with it
		return nil, nil
	}
	list, err := changes(e, before)
	if err != nil {
		r.log.Error("an entry of the log tells observers nothing", "seq", e.Seq, "uri", e.URI, "error", err)
		return nil, nil
	}
	return list, nil
}

// erased tells of the erasure of a conversation; of one that is there still,
// only earlier versions of its own facts were erased, and it was put again.
func (r *reader) erased(ctx context.Context, e *resource.Entry) ([]Change, error) {
	now, err := r.store.Get(ctx, r.scope, e.URI)
	if fault.Is(err, fault.NotFound) {
		r.keep(e)
		return removed(e), nil
	}
	if err != nil {
		return nil, err
	}
	there := *e
	there.Op, there.Body = resource.OpPut, now.Body
	if k := r.known[e.URI]; k != nil && k.Version == e.Version-1 {
		there.Body = k.Body
	}
	r.keep(&there)
	return nil, nil
}

// keep remembers an entry, so that the next version can be compared with it.
func (r *reader) keep(e *resource.Entry) {
	if !compared(e.URI.Type()) {
		return
	}
	if r.known == nil || len(r.known) >= maxKnown {
		r.known = map[resource.URI]*resource.Entry{}
	}
	r.known[e.URI] = new(*e) // not the page that it came with
}

// before returns the entry of the version before e's; nil where there was
// none, or e is not told by comparison.
func (r *reader) before(ctx context.Context, e *resource.Entry) (*resource.Entry, error) {
	if !compared(e.URI.Type()) || e.Version <= 1 {
		return nil, nil
	}
	if k := r.known[e.URI]; k != nil && k.Version == e.Version-1 {
		return k, nil
	}
	q := store.LogQuery{Of: e.URI, Reverse: true, Limit: 1}
	q.After = q.Cursor(e.Seq)
	for p, err := range store.Entries(ctx, r.store, r.scope, q) {
		return &p, err
	}
	return nil, nil
}
