package messaging

import (
	"context"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/lifetime"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// desk is the half of an engine that handles the messages of one user. It never talks to a service, except to
// fetch attachments and to show that an answer is being written.
type desk struct {
	user string
	life *lifetime.Lifetime

	mu       sync.Mutex
	ready    bool                  // the inbox has been looked through
	missed   []resource.URI        // updates that were recorded before that
	inHand   map[resource.URI]bool // updates that wait or are being handled
	followed bool                  // the user's questions are followed
	later    map[string]bool       // questions that are asked later
	live     map[id.ID]watching    // by chat: what comes by itself there is shown
}

// TakeUser handles the messages of a user, until LeaveUser: what is in the inbox, and what is recorded there
// from now on. One node of a cluster does so at a time, the one that holds the user's space.
func (e *Engine) TakeUser(ctx context.Context, user string) error {
	if e.desk(user) != nil {
		return nil
	}
	if err := e.readLog(ctx); err != nil {
		return err
	}
	d := e.newDesk(user)
	err := e.begin(ctx, d)
	if err != nil {
		e.LeaveUser(user)
	}
	return err
}

// begin takes up what is in the inbox of a user, and then what was recorded meanwhile.
func (e *Engine) begin(ctx context.Context, d *desk) error {
	updates, err := e.received(ctx, store.ForUser(d.user))
	if err != nil {
		return err
	}
	for _, state := range []string{sending, pending} { // of the node that had the user before, with a clock of its own
		for p, err := range records[*post](ctx, e, store.ForUser(d.user), store.Query{Type: typePost, State: state}) {
			if err != nil {
				return err
			}
			e.after(p.Order)
		}
	}
	for _, u := range updates {
		if a := e.accounts[u.Account]; a != nil && u.User == d.user {
			e.process(a, u)
		}
	}
	for {
		d.mu.Lock()
		missed := d.missed
		d.missed, d.ready = nil, len(missed) == 0
		d.mu.Unlock()
		if len(missed) == 0 {
			return e.attend(ctx, d.user)
		}
		for _, at := range missed {
			if err := e.pickUp(ctx, d, at); err != nil {
				return err
			}
		}
	}
}

// LeaveUser ends what TakeUser has begun, and returns when nothing of it is left.
func (e *Engine) LeaveUser(user string) {
	e.mu.Lock()
	d := e.desks[user]
	delete(e.desks, user)
	e.mu.Unlock()
	if d != nil {
		d.life.End(context.Canceled)
		d.life.Wait()
	}
}

// Busy reports whether messages of a user are being handled here, or wait for that.
func (e *Engine) Busy(user string) bool {
	d := e.desk(user)
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.inHand) > 0
}

// attend follows the questions and the chats of a user who is paired.
func (e *Engine) attend(ctx context.Context, user string) error {
	list, err := e.people(ctx)
	if err != nil {
		return err
	}
	for _, p := range list {
		if p.User == user {
			e.follow(user)
			return e.followChats(ctx, user)
		}
	}
	return nil
}

// desk returns the desk of a user; nil: another node handles the user's messages, or none does.
func (e *Engine) desk(user string) *desk {
	e.mu.Lock()
	d, alone := e.desks[user], e.alone
	e.mu.Unlock()
	if d == nil && alone && e.life.Err() == nil {
		return e.newDesk(user)
	}
	return d
}

func (e *Engine) newDesk(user string) *desk {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d := e.desks[user]; d != nil {
		return d
	}
	d := &desk{user: user, life: lifetime.New(context.Background()), inHand: map[resource.URI]bool{}, later: map[string]bool{}, live: map[id.ID]watching{}}
	if e.life.Err() != nil { // the engine has ended
		d.life.End(context.Canceled)
	}
	e.desks[user] = d
	return d
}

// take reserves an update. It returns false if the desk has it already.
func (d *desk) take(u resource.URI) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inHand[u] {
		return false
	}
	d.inHand[u] = true
	return true
}

func (d *desk) leave(u resource.URI) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.inHand, u)
}

// waits keeps an update back that was recorded while the inbox is looked through.
func (d *desk) waits(u resource.URI) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ready {
		d.missed = append(d.missed, u)
	}
	return !d.ready
}

// logEvery bounds how often the log is read.
const logEvery = 20 * time.Millisecond

// readLog begins to read the log, by which each half learns in a cluster of what the other one has recorded.
// Everything that is recorded after it has returned is noticed.
func (e *Engine) readLog(ctx context.Context) error {
	e.mu.Lock()
	reads := e.reads || e.alone
	e.mu.Unlock()
	if reads {
		return nil
	}
	at, err := follow.Head(ctx, e.opt.Store)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.reads = true
	e.mu.Unlock()
	e.life.Go(func() {
		for e.life.Err() == nil {
			var head uint64
			ok := e.insist(e.life, "the log", func() (err error) { head, err = e.opt.Store.Wait(e.life, at); return err })
			if !ok || !e.insist(e.life, "the log", func() error { return e.notice(e.life, at) }) {
				return
			}
			at = head
			rest(e.life, logEvery)
		}
	})
	return nil
}

// notice hands on what was recorded after a position of the log. What it hands on again has no effect.
func (e *Engine) notice(ctx context.Context, after uint64) error {
	if c := e.connecting(); c != nil {
		for x, err := range store.Entries(ctx, e.opt.Store, scopeOf(""), store.LogQuery{Type: typePost, Since: after}) {
			if err != nil {
				return err
			}
			if x.State == pending {
				if err := c.pickUp(ctx, x.URI); err != nil {
					return err
				}
			}
		}
	}
	for _, typ := range []string{typeUpdate, typePerson} {
		for x, err := range store.Entries(ctx, e.opt.Store, scopeOf(""), store.LogQuery{Type: typ, Since: after}) {
			if err != nil {
				return err
			}
			user, ok := x.Space.User()
			d := e.desk(user)
			switch {
			case !ok || d == nil:
			case typ == typePerson:
				if err := e.attend(ctx, user); err != nil {
					return err
				}
			case x.State == received:
				if d.waits(x.URI) {
					continue
				}
				if err := e.pickUp(ctx, d, x.URI); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// pickUp handles an update that is stored and that the desk does not have.
func (e *Engine) pickUp(ctx context.Context, d *desk, at resource.URI) error {
	a := e.accounts[at.Parent().ID()]
	if a == nil || !d.take(at) {
		return nil
	}
	u, err := get[*update](ctx, e, scopeOf(""), at)
	d.leave(at)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err == nil && u.State == received && u.User == d.user {
		e.process(a, u)
	}
	return err
}
