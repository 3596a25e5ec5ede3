package events

import (
	"context"
	"iter"
	"time"

	"steward/internal/fault"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// Batch is what came together, in the order of the log: events, or the changes
// of conversations, those of one entry never parted; and the cursor behind them
// and all that was passed over. An empty one says only how far the log has been
// looked through.
type Batch struct {
	Events  []Event
	Changes []*Change // shared with other observers: do not modify
	Cursor  Cursor
}

// Subscribe yields the events behind a cursor that fit the filter and that the
// caller may read, in the order of the log, none missing and none twice: first
// what the log has, then what is new as it comes, until ctx is done (which
// ends it without an error) or the loop is left. Once it follows what is new
// it has yielded at least one batch, if need be an empty one, so that there is
// a cursor to go on from; an empty one comes, too, whenever Options.Beat has
// passed without any.
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
		s := subscription{beat: e.opt.Beat, yield: yield, tell: func(entries []*follow.Entry, b *Batch) error {
			for _, x := range entries {
				ev, ok := e.derive(ctx, &x.Entry, f.Bodies)
				if ok && f.fits(&ev) && r.permit(ctx, &ev, x.Space, holdsEvent(&x.Entry)) {
					b.Events = append(b.Events, ev)
				}
			}
			return nil
		}}
		want := follow.Filter{Spaces: r.look, Recheck: min(e.opt.Recheck, e.opt.Beat), Prefixes: f.Prefixes, Types: f.Types}
		s.run(ctx, e.opt.Follow, want, from)
	}
}

// Observe yields the changes of conversations behind a cursor (empty: of all
// that the log has) that fit the filter and lie within the scope, as Subscribe
// does events.
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

// subscription hands on what the entries tell that a follower brings.
type subscription struct {
	tell  func([]*follow.Entry, *Batch) error
	yield func(Batch, error) bool
	beat  time.Duration // after so long without anything an empty batch is told; zero: never
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
