package observe

import (
	"context"
	"iter"
	"slices"

	"steward/internal/fault"
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
// Errors: filter_invalid, cursor_invalid, scope_missing; observer_slow (kind
// Exhausted) for one who has left more changes waiting than may wait; closing
// when the hub closes; and the store's. Details["cursor"] of an error that
// ends a subscription says where to go on.
func (h *Hub) Subscribe(ctx context.Context, sc store.Scope, f Filter, from Cursor) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		s := &subscription{hub: h, scope: sc, filter: f, yield: yield,
			reader: reader{store: h.opt.Store, scope: sc, log: h.opt.Log}}
		err := s.begin(ctx, from)
		begun := err == nil
		if begun {
			err = s.run(ctx)
		}
		if err == nil || s.left || ctx.Err() != nil {
			return
		}
		if begun {
			if h.ended() { // whatever broke with it
				err = closing()
			}
			err = fault.Of(err).Detail("cursor", string(s.cursor))
		}
		yield(Batch{}, err)
	}
}

// subscription is one pass of an observer.
type subscription struct {
	hub     *Hub
	scope   store.Scope
	filter  Filter
	matcher *matcher
	reader  reader
	yield   func(Batch, error) bool

	pos    uint64 // up to here the log has been read
	cursor Cursor // behind what has been yielded
	told   bool   // something has been yielded
	left   bool   // the consumer broke the loop off
}

func (s *subscription) begin(ctx context.Context, from Cursor) (err error) {
	if err := s.scope.CanRead(); err != nil {
		return err
	}
	if s.matcher, err = s.filter.compile(); err != nil {
		return err
	}
	head, err := s.hub.head(ctx)
	if err != nil {
		return err
	}
	if from == Now {
		s.pos, s.cursor = head, cursorOf(head)
		return nil
	}
	s.cursor = from
	if s.pos, err = from.position(); err == nil && s.pos > head {
		err = fault.New(fault.Invalid, "cursor_invalid", "the cursor stands behind the end of the log").
			With("the data may have been restored from a backup: start again without a cursor")
	}
	return err
}

// head returns the number of the log's newest entry, whosever it is: that
// much Wait tells everybody, but only where there is one.
func (h *Hub) head(ctx context.Context) (uint64, error) {
	page, err := h.opt.Store.Log(ctx, store.ForNode(resource.System), store.LogQuery{Reverse: true, Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		return 0, err
	}
	return page.Entries[0].Seq, nil
}

func (h *Hub) ended() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// run reads the log to its end and then follows live.
func (s *subscription) run(ctx context.Context) error {
	o := newObserver(s.scope, s.filter, s.matcher, s.hub.opt.Queue)
	for {
		if err := s.catchUp(ctx); err != nil || s.left {
			return err
		}
		f, err := s.hub.join(o, s.pos)
		if err != nil {
			return err
		}
		if f != nil {
			defer s.hub.leave(f, o)
			s.reader.known = nil
			return s.follow(ctx, f, o)
		}
	}
}

// catchUp yields what the log has behind s.pos.
func (s *subscription) catchUp(ctx context.Context) error {
	opt := &s.hub.opt
	q := store.LogQuery{After: store.Cursor(cursorOf(s.pos)), Limit: opt.pageSize()}
	if len(s.filter.Conversations) == 1 {
		q.Under = record.ConversationURI(s.filter.Conversations[0])
	}
	for more := true; more; {
		if s.hub.ended() {
			return closing()
		}
		page, err := opt.Store.Log(ctx, s.scope, q)
		if err != nil {
			return err
		}
		if err := s.tellPage(ctx, page); err != nil || s.left {
			return err
		}
		q.After, more = page.Next, page.More
	}
	return nil
}

// tellPage yields what a page of the log tells.
func (s *subscription) tellPage(ctx context.Context, page store.LogPage) error {
	var batch []Change
	var at uint64 // behind what is in the batch
	for _, e := range page.Entries {
		changes, err := s.read(ctx, e)
		if err != nil {
			return err
		}
		if len(batch) > 0 && len(batch)+len(changes) > s.hub.opt.Size {
			if !s.tell(batch, at) {
				return nil
			}
			batch = nil
		}
		batch, at = append(batch, changes...), e.Seq
	}
	end, err := Cursor(page.Next).position()
	if err != nil {
		return err
	}
	s.pos = end
	if len(batch) > 0 {
		s.tell(batch, end)
	}
	return nil
}

// read returns what an entry tells this observer.
func (s *subscription) read(ctx context.Context, e resource.Entry) ([]Change, error) {
	conv, inside := e.URI.Find(record.TypeConversation)
	if !inside || !among(s.matcher.conversations, record.IDOf(conv, record.TypeConversation)) {
		return nil, nil
	}
	changes, err := s.reader.read(ctx, e)
	return slices.DeleteFunc(changes, func(c Change) bool { return !s.matcher.fits(&c) }), err
}

// tell yields a batch; false when the consumer broke the loop off.
func (s *subscription) tell(changes []Change, at uint64) bool {
	s.cursor, s.told = cursorOf(at), true
	s.left = !s.yield(Batch{Changes: changes, Cursor: s.cursor}, nil)
	return !s.left
}

// follow yields what comes, until ctx is done.
func (s *subscription) follow(ctx context.Context, f *follower, o *observer) error {
	if at := cursorOf(s.pos); (!s.told || at != s.cursor) && !s.tell(nil, s.pos) {
		return nil
	}
	for {
		if s.hub.ended() {
			return closing()
		}
		changes, at, err := o.take(s.hub.opt.Size, f.position())
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			if !s.tell(changes, at) {
				return nil
			}
			continue
		}
		select {
		case <-o.wake:
		case <-s.hub.done:
		case <-ctx.Done():
			return nil
		}
	}
}
