package messaging

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"steward/internal/channel"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/lifetime"
	"steward/internal/resource"
	"steward/internal/store"
)

// carrier is the half of an engine that has the accounts. It records what arrives and sends what is in the
// outbox. It answers nobody but strangers.
type carrier struct {
	e     *Engine
	life  *lifetime.Lifetime
	began time.Time
	out   lanes[*post]
	news  chan struct{} // holds a token when an update of a user was recorded whom another node handles

	mu     sync.Mutex
	ready  bool           // the outbox has been looked through
	held   []*post        // that were recorded before that
	inHand map[id.ID]bool // posts that are being recorded or wait to be sent
}

// ConnectAccounts takes up what is in the outbox, and connects all accounts, until DisconnectAccounts. One
// node of a cluster does so at a time. If a node still does that should not any more, nothing is posted by
// both of them: a post is taken by the commit that marks it as being sent.
func (e *Engine) ConnectAccounts(ctx context.Context) error {
	e.moving.Lock()
	defer e.moving.Unlock()
	if e.connecting() != nil {
		return nil
	}
	if err := e.readLog(ctx); err != nil {
		return err
	}
	c, err := e.beginCarrier(ctx)
	if err != nil {
		return err
	}
	c.life.Go(c.callHolders)
	c.connect()
	return nil
}

// DisconnectAccounts ends what ConnectAccounts has begun, and returns when nothing of it is left.
func (e *Engine) DisconnectAccounts() {
	e.moving.Lock()
	defer e.moving.Unlock()
	e.mu.Lock()
	c := e.carrier
	e.carrier = nil
	clear(e.heard)
	e.mu.Unlock()
	if c != nil {
		c.end()
	}
}

// Connects reports whether this node connects the accounts.
func (e *Engine) Connects() bool { return e.connecting() != nil }

func (e *Engine) connecting() *carrier {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.carrier
}

// beginCarrier takes up what was not sent and which strangers were not greeted when the last process ended.
func (e *Engine) beginCarrier(ctx context.Context) (*carrier, error) {
	c := &carrier{e: e, life: lifetime.New(context.Background()), began: e.opt.Now(), news: make(chan struct{}, 1), inHand: map[id.ID]bool{}}
	c.out.life = c.life
	e.mu.Lock()
	if e.life.Err() != nil {
		c.life.End(context.Canceled)
	}
	e.carrier = c
	e.mu.Unlock()
	if err := c.recover(ctx); err != nil {
		e.mu.Lock()
		e.carrier = nil
		e.mu.Unlock()
		c.end()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
	for _, p := range c.held {
		c.enqueue(e.accounts[p.Account], p)
	}
	c.held = nil
	return c, nil
}

func (c *carrier) connect() {
	for _, a := range c.e.accounts {
		c.life.Go(func() { c.keep(a) })
	}
}

func (c *carrier) end() {
	c.life.End(context.Canceled)
	c.life.Wait()
	for _, a := range c.e.accounts {
		a.mu.Lock()
		a.connected, a.failure, a.waiting = time.Time{}, nil, 0
		a.mu.Unlock()
	}
}

// keep keeps an account connected.
func (c *carrier) keep(a *account) {
	e, pause := c.e, time.Second
	for c.life.Err() == nil {
		begun := e.opt.Now()
		err := a.Channel.Run(c.life, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.connected, a.failure = e.opt.Now(), nil
		}, func(ctx context.Context, list []channel.Update) error { return c.receive(ctx, a, list) })
		if c.life.Err() != nil {
			return
		}
		a.mu.Lock()
		if !a.connected.IsZero() && e.opt.Now().Sub(begun) > lastPause {
			pause = time.Second
		}
		a.connected, a.failure = time.Time{}, err
		a.mu.Unlock()
		e.log.Warn("a channel lost its connection", "channel", a.Name, "again_in", pause.String(), "error", err)
		if !rest(c.life, pause) {
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// recover queues what has not been sent when the last process ended, and greets strangers.
func (c *carrier) recover(ctx context.Context) error {
	e := c.e
	updates, err := e.received(ctx, scopeOf(""))
	if err != nil {
		return err
	}
	var posts []*post
	for _, state := range []string{sending, pending} {
		list, err := all(records[*post](ctx, e, scopeOf(""), store.Query{Type: typePost, State: state}))
		if err != nil {
			return err
		}
		posts = append(posts, list...)
	}
	slices.SortFunc(posts, func(a, b *post) int { return cmp.Compare(a.Order, b.Order) })
	for _, p := range posts {
		e.after(p.Order)
	}
	for _, p := range posts {
		a := e.accounts[p.Account]
		if a == nil || !c.take(p.ID) { // its account is not set up now; or it was recorded since this half began
			continue
		}
		if p.State == sending {
			p.State = pending
			if p.Doubt.IsZero() {
				p.Doubt = p.Tried
			}
			if !a.limits.Repeatable {
				p.State, p.Reason = uncertain, "Steward ended while it was being sent"
			}
			if ours, err := e.put(ctx, p); err != nil {
				return err
			} else if !ours { // another node goes on with it
				c.leave(p.ID)
				continue
			}
		}
		if p.State == pending {
			c.enqueue(a, p)
		} else {
			c.leave(p.ID)
		}
	}
	for _, u := range updates {
		if a := e.accounts[u.Account]; a != nil && u.User == "" {
			e.process(a, u)
		}
	}
	return nil
}

// take reserves a post. It returns false if this half has it already.
func (c *carrier) take(p id.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inHand[p] {
		return false
	}
	c.inHand[p] = true
	return true
}

func (c *carrier) leave(p id.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inHand, p)
}

// add queues a post that was recorded, once the outbox has been looked through: those that are there already
// come first.
func (c *carrier) add(a *account, p *post) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready {
		c.enqueue(a, p)
	} else {
		c.held = append(c.held, p)
	}
}

// pickUp queues a post that is stored and that this half does not have.
func (c *carrier) pickUp(ctx context.Context, at resource.URI) error {
	a := c.e.accounts[at.Parent().ID()]
	x, ok := id.Parse(at.ID())
	if a == nil || !ok || !c.take(x) {
		return nil
	}
	p, err := get[*post](ctx, c.e, scopeOf(""), at)
	if err != nil || p.State != pending {
		c.leave(x)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	}
	c.add(a, p)
	return nil
}

// enqueue has a post sent after those of its chat that were queued before.
func (c *carrier) enqueue(a *account, p *post) {
	a.mu.Lock()
	a.waiting++
	a.mu.Unlock()
	c.out.enter(place{a.Name, p.At}, p, func(p *post) {
		c.deliver(a, p)
		a.mu.Lock()
		a.waiting--
		a.mu.Unlock()
		c.leave(p.ID)
		if p.sent != nil {
			close(p.sent)
		}
		if p.edits == "" { // the next one waits
			rest(c.life, a.limits.SendEvery)
		}
	})
}

// wantAgain is how often the carrier looks whether somebody handles what it has recorded.
const wantAgain = 5 * time.Second

// callHolders has other nodes take the users whose updates nobody handles. It looks again until the updates are
// settled, because the node that has the user may be about to let go.
func (c *carrier) callHolders() {
	for c.life.Err() == nil {
		open, err := c.wantOpen(c.life)
		if err != nil && c.life.Err() == nil {
			c.e.log.Warn("no node is told of messages that wait", "again_in", wantAgain.String(), "error", err)
		}
		if !open && err == nil {
			select {
			case <-c.news:
				continue
			case <-c.life.Done():
				return
			}
		}
		again := time.NewTimer(wantAgain)
		select {
		case <-c.news:
		case <-again.C:
		case <-c.life.Done():
		}
		again.Stop()
	}
}

// wantOpen reports whether there are updates that wait for another node.
func (c *carrier) wantOpen(ctx context.Context) (open bool, err error) {
	wanted := map[string]bool{}
	for it, err := range store.Items(ctx, c.e.opt.Store, scopeOf(""), store.Query{Type: typeUpdate, State: received, NoBody: true}) {
		if err != nil {
			return open, err
		}
		user, ok := it.Space.User()
		if !ok || wanted[user] || c.e.desk(user) != nil {
			continue
		}
		wanted[user], open = true, true
		if c.e.opt.Want == nil {
			continue
		}
		if err := c.e.opt.Want(ctx, user); err != nil {
			return open, err
		}
	}
	return open, nil
}
