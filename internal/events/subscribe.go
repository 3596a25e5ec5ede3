package events

import (
	"context"
	"iter"
	"time"

	"steward/internal/follow"
	"steward/internal/resource"
)

// Subscribe yields the events behind a cursor that fit the filter and that the
// caller may read, in the order of the log, none missing and none twice: first
// what the log has, then what is new as it comes, until ctx is done (which
// ends it without an error) or the loop is left. Once it follows what is new
// it has yielded at least one batch, if need be one without events, so that
// there is a cursor to go on from; one without events comes, too, whenever
// Options.Beat has passed without any.
//
// What the caller may read is looked at again all the while: who leaves a group
// hears no more of it.
//
// Errors: filter_invalid; those of the Directory, such as user_disabled; and
// those of follow.Log.Subscribe.
func (e *Engine) Subscribe(ctx context.Context, who Caller, f Filter, from Cursor) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		if err := f.check(); err != nil {
			yield(Batch{}, err)
			return
		}
		if from == "" {
			from = Now
		}
		r := &rights{engine: e, who: who}
		want := follow.Filter{Spaces: r.look, Recheck: min(e.opt.Recheck, e.opt.Beat), Prefixes: f.Prefixes, Types: f.Types}
		last, told := time.Now(), false
		for b, err := range e.opt.Follow.Subscribe(ctx, want, from) {
			if err != nil {
				yield(Batch{}, err)
				return
			}
			list := e.tell(ctx, r, &f, b.Entries)
			if len(list) == 0 && (told || !b.Caught) && time.Since(last) < e.opt.Beat {
				continue
			}
			last, told = time.Now(), true
			if !yield(Batch{Events: list, Cursor: b.Cursor}, nil) {
				return
			}
		}
	}
}

// tell returns what entries tell a subscriber.
func (e *Engine) tell(ctx context.Context, r *rights, f *Filter, entries []*resource.Entry) (out []Event) {
	for _, x := range entries {
		ev, ok := e.derive(ctx, x, f.Bodies)
		if ok && f.fits(&ev) && r.permit(ctx, &ev, x.Space, holdsEvent(x)) {
			out = append(out, ev)
		}
	}
	return out
}
