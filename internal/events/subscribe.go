package events

import (
	"cmp"
	"context"
	"iter"
	"time"

	"steward/internal/fault"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// Batch holds events or changes in the order of the log, and the cursor after them and after all
// entries that were skipped. The changes of one entry are always in the same batch. An empty batch
// only says how far the log has been read.
type Batch struct {
	Events  []Event
	Changes []*Change // shared with other observers: do not modify
	Cursor  Cursor
}

// Subscribe yields the events after a cursor that match the filter and that the caller may read, in
// the order of the log, each exactly once: first those in the log, then new ones as they are
// appended. It ends when the loop is left or ctx is done, which is not an error. Before it waits for
// new events it has yielded at least one batch, which may be empty, so that the caller has a cursor
// to resume from. It also yields an empty batch whenever Options.Beat has passed without another.
//
// The caller's rights are checked again all the while: a user who leaves a group receives no more
// of its events.
//
// Errors: filter_invalid; those of the Directory, such as user_disabled; and those of
// follow.Log.Subscribe.
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
		s := subscription{beat: e.opt.Beat, yield: yield, tell: func(entries []*follow.Entry, b *Batch) error {
			for _, x := range entries {
				ev, ok := e.derive(ctx, &x.Entry, f.Bodies)
				if ok && f.fits(&ev) && r.permit(ctx, &ev, x.Space, holdsEvent(&x.Entry)) {
					b.Events = append(b.Events, ev)
				}
			}
			return nil
		}}
		want := follow.Filter{Spaces: r.readableSpaces, Recheck: cmp.Or(f.Recheck, min(e.opt.Recheck, e.opt.Beat)), Prefixes: f.Prefixes, Types: f.Types}
		s.run(ctx, e.opt.Follow, want, from)
	}
}

// Observe yields the changes of conversations after a cursor (empty: all changes in the log) that
// match the filter and lie within the scope. It otherwise behaves as Subscribe does.
//
// Errors: filter_invalid, scope_missing, and those of follow.Log.Subscribe.
func (e *Engine) Observe(ctx context.Context, sc store.Scope, f ChangeFilter, from Cursor) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		err := sc.CanRead()
		if err == nil {
			err = f.check()
		}
		if err != nil {
			yield(Batch{}, err)
			return
		}
		if from == "" {
			from = Start
		}
		want := follow.Filter{Types: changing, Own: true, Spaces: func(context.Context) ([]resource.Space, error) { return sc.Read, nil }}
		for _, conv := range f.Conversations {
			want.Prefixes = append(want.Prefixes, record.ConversationURI(conv))
		}
		s := subscription{yield: yield, tell: func(entries []*follow.Entry, b *Batch) (err error) {
			b.Changes, err = e.changes(ctx, entries, &f)
			return err
		}}
		s.run(ctx, e.opt.Follow, want, from)
	}
}

// subscription turns the entries that a follower delivers into batches.
type subscription struct {
	tell  func([]*follow.Entry, *Batch) error
	yield func(Batch, error) bool
	beat  time.Duration // an empty batch is delivered after this long without another; zero: never
}

func (s *subscription) run(ctx context.Context, log *follow.Log, want follow.Filter, from Cursor) {
	at, told, last := from, Cursor(""), time.Now()
	for b, err := range log.Subscribe(ctx, want, from) {
		if err != nil {
			s.yield(Batch{}, err)
			return
		}
		out := Batch{Cursor: b.Cursor}
		if err := s.tell(b.Entries, &out); err != nil {
			if ctx.Err() == nil {
				s.yield(Batch{}, fault.Of(err).Detail("cursor", string(at)))
			}
			return
		}
		at = b.Cursor
		news := len(out.Events)+len(out.Changes) > 0 || b.Caught && told != at
		if !news && (s.beat == 0 || time.Since(last) < s.beat) {
			continue
		}
		if told, last = at, time.Now(); !s.yield(out, nil) {
			return
		}
	}
}
