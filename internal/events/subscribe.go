package events

import (
	"context"
	"iter"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/store"
)

// Subscribe yields the events behind a cursor that fit the filter and that the
// caller may read, in the order of the log, none missing and none twice: first
// what the log has, then what is new as it comes, until ctx is done (which
// ends it without an error) or the loop is left. Once it follows what is new
// it has yielded at least one batch, if need be one without events, so that
// there is a cursor to go on from; one without events comes, too, whenever
// Options.Beat has passed without any.
//
// Who takes his time keeps nobody waiting and misses nothing: when too much
// waits for him, he is served from the log. What the caller may read is looked
// at again all the while: who leaves a group hears no more of it.
//
// Errors: filter_invalid, cursor_invalid; those of the Directory, such as
// user_disabled; closing when the engine closes; and the store's.
// Details["cursor"] of an error that ends a subscription says where to go on.
func (e *Engine) Subscribe(ctx context.Context, who Caller, f Filter, from Cursor) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		s := &subscription{engine: e, yield: yield, rights: rights{engine: e, who: who}}
		err := s.begin(ctx, f, from)
		begun := err == nil
		if begun {
			err = s.run(ctx)
		}
		if err == nil || s.left || ctx.Err() != nil {
			return
		}
		if begun {
			if e.ended() { // whatever broke with it
				err = closing()
			}
			err = fault.Of(err).Detail("cursor", string(s.cursor))
		}
		yield(Batch{}, err)
	}
}

// subscription is one pass of a subscriber.
type subscription struct {
	engine  *Engine
	rights  rights
	matcher *matcher
	yield   func(Batch, error) bool

	pos    uint64 // up to here the log has been looked through
	cursor Cursor // behind what has been yielded
	last   time.Time
	sent   bool // something has been yielded
	left   bool // the consumer broke the loop off
}

func (s *subscription) begin(ctx context.Context, f Filter, from Cursor) (err error) {
	if s.matcher, err = f.compile(); err != nil {
		return err
	}
	head, err := s.engine.head(ctx)
	if err != nil {
		return err
	}
	switch from {
	case Now, "":
		s.pos = head
	case Start:
	default:
		if s.pos, err = from.position(); err == nil && s.pos > head {
			err = fault.New(fault.Invalid, "cursor_invalid", "the cursor stands behind the end of the log").
				With("the data may have been restored from a backup: begin at now or start")
		}
	}
	s.cursor = cursorOf(s.pos)
	return err
}

// run reads the log to its end and then follows live, again and again: a
// subscriber who is late, or whose spaces are others now, begins anew where
// he stands.
func (s *subscription) run(ctx context.Context) error {
	s.last = time.Now()
	for {
		if err := s.catchUp(ctx, 0); err != nil || s.left {
			return err
		}
		if err := s.live(ctx); err != nil || s.left || ctx.Err() != nil {
			return err
		}
	}
}

// catchUp yields what the log has, to its end, or until it has come to a
// position.
func (s *subscription) catchUp(ctx context.Context, to uint64) error {
	for more := true; more && (to == 0 || s.pos < to); {
		if s.engine.ended() {
			return closing()
		}
		if err := s.rights.look(ctx); err != nil {
			return err
		}
		page, err := s.engine.opt.Store.Log(ctx, s.rights.scope(), store.LogQuery{After: store.Cursor(cursorOf(s.pos)), Limit: pageSize})
		if err != nil {
			return err
		}
		if err := s.tellPage(ctx, page); err != nil || s.left {
			return err
		}
		more = page.More
	}
	return nil
}

func (s *subscription) tellPage(ctx context.Context, page store.LogPage) error {
	end, err := Cursor(page.Next).position()
	if err != nil {
		return err
	}
	var list []waiting
	for i := range page.Entries {
		t, c, ok := s.engine.derive(ctx, &page.Entries[i])
		if !ok || !s.matcher.fits(t) {
			continue
		}
		if list = append(list, s.matcher.waiting(t, c)); len(list) == s.engine.opt.Size {
			if !s.tell(ctx, list, t.Seq) {
				return nil
			}
			list = list[:0]
		}
	}
	s.tell(ctx, list, end)
	return nil
}

// tell yields what of a list the subscriber may see, if anything; he stands at
// a position then. It is false when the consumer broke the loop off.
func (s *subscription) tell(ctx context.Context, list []waiting, at uint64) bool {
	s.pos = max(s.pos, at)
	var out []Event
	for i := range list {
		if x, ok := s.rights.permit(ctx, &list[i]); ok {
			out = append(out, x)
		}
	}
	if len(out) == 0 && time.Since(s.last) < s.engine.opt.Beat {
		return true
	}
	return s.send(out)
}

func (s *subscription) send(list []Event) bool {
	s.cursor = cursorOf(s.pos)
	s.left = !s.yield(Batch{Events: list, Cursor: s.cursor}, nil)
	s.last, s.sent = time.Now(), true
	return !s.left
}

// live follows what comes, until ctx is done or the subscriber has to begin
// anew.
func (s *subscription) live(ctx context.Context) error {
	sub := &subscriber{spaces: s.rights.spaces, matcher: s.matcher, most: s.engine.opt.Queue, wake: make(chan struct{}, 1)}
	f, at, err := s.engine.join(sub, s.pos)
	if err != nil {
		return err
	}
	defer s.engine.leave(f, sub)
	if err := s.catchUp(ctx, at); err != nil || s.left {
		return err
	}
	if !s.sent && !s.send(nil) {
		return nil
	}
	look := time.NewTicker(min(s.engine.opt.Recheck, s.engine.opt.Beat))
	defer look.Stop()
	for {
		again, err := s.step(ctx, f, sub)
		if err != nil || again || s.left {
			return err
		}
		select {
		case <-sub.wake:
		case <-look.C:
		case <-s.engine.done:
			return closing()
		case <-ctx.Done():
			return nil
		}
	}
}

// step tells all that waits, and reports whether the subscriber has to begin
// anew.
func (s *subscription) step(ctx context.Context, f *follower, sub *subscriber) (again bool, err error) {
	for {
		if s.engine.ended() {
			return false, closing()
		}
		if err := s.rights.look(ctx); err != nil {
			return false, err
		}
		if !slices.Equal(sub.spaces, s.rights.spaces) {
			return true, nil
		}
		list, at, late, err := sub.next(s.engine.opt.Size, f.pos.Load())
		taken := len(list)
		for len(list) > 0 && list[0].Seq <= s.pos { // read in the log already
			list = list[1:]
		}
		if !s.tell(ctx, list, at) {
			return false, nil
		}
		if late || err != nil {
			return late, err
		}
		if taken < s.engine.opt.Size { // there was no more
			return false, nil
		}
	}
}
