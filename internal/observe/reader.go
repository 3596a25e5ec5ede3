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
	known map[resource.URI]version // of what is told by comparison, the newest that was read
}

type version struct {
	number uint64
	record any // nil: it was deleted
}

// maxKnown bounds the versions that are kept for comparison.
const maxKnown = 2048

// read returns the changes that an entry tells. Its errors are the store's;
// an entry that cannot be read tells nothing but to the log.
func (r *reader) read(ctx context.Context, e resource.Entry) ([]Change, error) {
	typ := e.URI.Type()
	switch {
	case !told(typ):
		return nil, nil
	case e.Op == resource.OpErase && typ == record.TypeConversation:
		return r.erased(ctx, e)
	case e.Op != resource.OpPut:
		r.keep(e, nil)
		return removed(e), nil
	case len(e.Body) == 0: // erased since
		return nil, nil
	}
	now, err := decode(e)
	if err != nil {
		r.unreadable(e, err)
		return nil, nil
	}
	var before any
	if compared(typ) && e.Version > 1 {
		var ok bool
		if before, ok, err = r.before(ctx, e); err != nil || !ok {
			return nil, err
		}
	}
	r.keep(e, now)
	return changes(e, now, before), nil
}

// erased tells of the erasure of a conversation; of one that is there still,
// only earlier versions of its own facts were erased, and it was put again.
func (r *reader) erased(ctx context.Context, e resource.Entry) ([]Change, error) {
	now, err := r.store.Get(ctx, r.scope, e.URI)
	if fault.Is(err, fault.NotFound) {
		r.keep(e, nil)
		return removed(e), nil
	}
	if err != nil {
		return nil, err
	}
	if v, known := r.known[e.URI]; known && v.number == e.Version-1 {
		r.keep(e, v.record)
		return nil, nil
	}
	c, err := record.DecodeConversation(e.URI, now.Body)
	r.keep(e, &c)
	return nil, err
}

func (r *reader) unreadable(e resource.Entry, err error) {
	r.log.Error("an entry of the log tells observers nothing", "seq", e.Seq, "uri", e.URI, "error", err)
}

func (r *reader) keep(e resource.Entry, rec any) {
	if !compared(e.URI.Type()) {
		return
	}
	if r.known == nil || len(r.known) >= maxKnown {
		r.known = map[resource.URI]version{}
	}
	r.known[e.URI] = version{e.Version, rec}
}

// before returns what the version before e's had put; nil where there was
// none, or it was a deletion. It is false where that is not to be known any
// more: then e has been erased, too.
func (r *reader) before(ctx context.Context, e resource.Entry) (rec any, ok bool, err error) {
	if v, known := r.known[e.URI]; known && v.number == e.Version-1 {
		return v.record, true, nil
	}
	p, err := r.earlier(ctx, e)
	switch {
	case err != nil:
		return nil, false, err
	case p.Op != resource.OpPut:
		return nil, true, nil
	case len(p.Body) == 0:
		return nil, false, nil
	}
	if rec, err = decode(p); err != nil {
		r.unreadable(p, err)
		return nil, false, nil
	}
	return rec, true, nil
}

// earlier returns the entry of the version before e's, or a zero one. A
// resource may have very many versions, so it looks at the newest ones first.
func (r *reader) earlier(ctx context.Context, e resource.Entry) (resource.Entry, error) {
	q := store.LogQuery{Of: e.URI, Reverse: true, Limit: 1}
	q.After = q.Cursor(e.Seq)
	for window := uint64(1 << 10); ; window <<= 5 {
		q.Since = e.Seq - min(e.Seq, window)
		for p, err := range store.Entries(ctx, r.store, r.scope, q) {
			return p, err
		}
		if q.Since == 0 {
			return resource.Entry{}, nil
		}
	}
}
