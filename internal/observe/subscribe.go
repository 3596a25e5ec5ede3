package observe

import (
	"context"
	"iter"
	"slices"

	"steward/internal/fault"
	"steward/internal/follow"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Subscribe yields the changes behind a cursor that fit the filter and lie
// within the scope, in the order of the log, none missing and none twice:
// first what the log has, then what is new as it comes, until ctx is done
// (which ends it without an error) or the loop is left. Once it follows what
// is new, it has yielded at least one batch, if need be one without changes,
// so that there is a cursor to go on from.
//
// Errors: filter_invalid, scope_missing, and those of follow.Log.Subscribe.
func (h *Hub) Subscribe(ctx context.Context, sc store.Scope, f Filter, from Cursor) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		if err := h.check(sc, &f); err != nil {
			yield(Batch{}, err)
			return
		}
		if from == "" {
			from = follow.Start
		}
		want := follow.Filter{Types: types, Own: true, Spaces: func(context.Context) ([]resource.Space, error) { return sc.Read, nil }}
		for _, conv := range f.Conversations {
			want.Prefixes = append(want.Prefixes, record.ConversationURI(conv))
		}
		r := &reader{store: h.follow.Store(), scope: sc, log: h.log}
		at, told := from, Cursor("")
		for b, err := range h.follow.Subscribe(ctx, want, from) {
			if err != nil {
				yield(Batch{}, err)
				return
			}
			list, err := r.all(ctx, b.Entries, &f)
			if err != nil {
				if ctx.Err() == nil {
					yield(Batch{}, fault.Of(err).Detail("cursor", string(at)))
				}
				return
			}
			at = b.Cursor
			if len(list) == 0 && (!b.Caught || told == at) {
				continue
			}
			told = at
			if !yield(Batch{Changes: list, Cursor: at}, nil) {
				return
			}
		}
	}
}

func (h *Hub) check(sc store.Scope, f *Filter) error {
	if err := sc.CanRead(); err != nil {
		return err
	}
	return f.check()
}

// all returns what entries tell an observer.
func (r *reader) all(ctx context.Context, entries []*resource.Entry, f *Filter) (out []Change, err error) {
	for _, e := range entries {
		list, err := r.read(ctx, e)
		if err != nil {
			return nil, err
		}
		out = append(out, slices.DeleteFunc(list, func(c Change) bool { return !f.fits(&c) })...)
	}
	return out, nil
}
