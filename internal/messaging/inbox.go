package messaging

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/channel"
	"steward/internal/fault"
	"steward/internal/lifetime"
	"steward/internal/store"
)

// receive commits updates and has them handled. The adapter acknowledges them when it returns nil.
func (c *carrier) receive(ctx context.Context, a *account, list []channel.Update) error {
	e := c.e
	var news []*update
	known := map[string]bool{}
	for _, x := range list {
		if x.ID == "" || known[x.ID] {
			continue
		}
		known[x.ID] = true
		u, err := e.accept(ctx, a, x)
		if err != nil {
			return err
		}
		if u != nil {
			news = append(news, u)
		}
	}
	for len(news) > 0 { // a batch is in one space
		n := 1
		for n < len(news) && news[n].User == news[0].User {
			n++
		}
		added, err := e.add(ctx, news[:n])
		if err != nil {
			return err
		}
		for _, u := range added {
			e.opt.Telemetry.Update(u.Account, u.State)
			c.handOver(a, u)
		}
		news = news[n:]
	}
	return nil
}

// handOver has an update handled: here if this node is alone. In a cluster, the node that has the user reads the
// log.
func (c *carrier) handOver(a *account, u *update) {
	c.e.mu.Lock()
	alone := c.e.alone
	c.e.mu.Unlock()
	if alone || u.User == "" {
		c.e.process(a, u)
		return
	}
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// accept makes the record of an update. It returns nil for one that is known, or that concerns nobody: what
// is said in a group without addressing Steward.
func (e *Engine) accept(ctx context.Context, a *account, x channel.Update) (*update, error) {
	u := &update{Update: x, Account: a.Name, Arrived: e.opt.Now().UTC(), State: received}
	if len(u.ID) > 256 { // it only has to be the same when the update is delivered again
		u.ID = senderOf(a.Name, u.ID)
	}
	switch _, err := e.opt.Store.Get(ctx, scopeOf(""), updateURI(a.Name, u.ID)); {
	case err == nil:
		return nil, nil
	case !fault.Is(err, fault.NotFound):
		return nil, err
	}
	u.bound()
	if u.From.Bot && u.Kind != channel.Press { // two programs must not keep each other talking
		return nil, nil
	}
	p, paired, err := e.personOf(ctx, a.Name, u.From.ID)
	if err != nil {
		return nil, err
	}
	if x.Unproven != "" {
		paired = false
	}
	at := place{a.Name, u.Address}
	switch {
	case paired && (!u.Group || u.Addressed || u.Kind == channel.Press):
		u.User = p.User
		if _, _, isCommand := u.command(); u.Group && !isCommand && u.Kind == channel.Message && e.desk(u.User) == nil {
			u.Heard = e.lately(at) // the node that answers has not heard it
		}
	case u.Group:
		e.hear(at, u, paired)
		return nil, nil
	case !a.countStranger(e.opt.Now()):
		return nil, nil
	default:
		u.stranger()
	}
	u.Order = e.order()
	return u, nil
}

// bound cuts off what is too long.
func (u *update) bound() {
	u.Text, u.Cut = cut(u.Text, MaxText)
	u.From.Name, _ = cut(u.From.Name, 200)
	u.Title, _ = cut(u.Title, 200)
	u.Button, _ = cut(u.Button, 200)
	u.Unproven, _ = cut(u.Unproven, 200)
	u.Forwarded, _ = cut(u.Forwarded, 200)
	if len(u.Attachments) > MaxAttachments {
		u.Attachments, u.Cut = u.Attachments[:MaxAttachments], true
	}
	u.Attachments = slices.Clone(u.Attachments)
	for i := range u.Attachments {
		u.Attachments[i].Name, _ = cut(u.Attachments[i].Name, 200)
		u.Attachments[i].MediaType, _ = cut(u.Attachments[i].MediaType, 200)
	}
}

// stranger forgets what a stranger wrote: only that somebody did is kept.
func (u *update) stranger() {
	u.Text, u.Attachments, u.Button, u.Title = "", nil, "", ""
	if u.Reason = "the sender is not paired"; u.Unproven != "" {
		u.Reason = "the sender is not proven: " + u.Unproven
	}
}

// cut returns the text as valid UTF-8 of at most n bytes, and whether something was cut off.
func cut(text string, n int) (string, bool) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text, false
	}
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n], true
}

// countStranger counts an update of a stranger, and reports whether it may be recorded. Strangers must not
// fill the disk.
func (a *account) countStranger(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if hour := now.Truncate(time.Hour); !hour.Equal(a.hour) {
		a.hour, a.strangers = hour, 0
	}
	a.strangers++
	return a.strangers <= maxStrangers
}

// add commits new updates of one space, and returns those that were not there yet.
func (e *Engine) add(ctx context.Context, news []*update) ([]*update, error) {
	var changes []store.Change
	for _, u := range news {
		changes = append(changes, u.change(store.If{Absent: true}))
	}
	err := e.commit(ctx, news[0].User, changes...)
	if !fault.Is(err, fault.Conflict) || len(news) == 1 {
		if fault.Is(err, fault.Conflict) { // it came through another connection at the same time
			return nil, nil
		}
		return news, err
	}
	var added []*update
	for _, u := range news {
		some, err := e.add(ctx, []*update{u})
		if err != nil {
			return added, err
		}
		added = append(added, some...)
	}
	return added, nil
}

// received returns the updates that are not handled yet, in the order in which they arrived.
func (e *Engine) received(ctx context.Context, sc store.Scope) ([]*update, error) {
	updates, err := all(records[*update](ctx, e, sc, store.Query{Type: typeUpdate, State: received}))
	slices.SortFunc(updates, func(a, b *update) int { return cmp.Compare(a.Order, b.Order) })
	for _, u := range updates {
		e.after(u.Order)
	}
	return updates, err
}

// lifeOf returns the lifetime of the half that handles an update: that of its user, or the one with the accounts
// if it is a stranger's. nil: another node does.
func (e *Engine) lifeOf(u *update) (life *lifetime.Lifetime, d *desk) {
	if u.User != "" {
		if d = e.desk(u.User); d == nil {
			return nil, nil
		}
		return d.life, d
	}
	if c := e.connecting(); c != nil {
		return c.life, nil
	}
	return nil, nil
}

// process queues an update in its chat, or at once if it does not wait for the turn that runs there.
func (e *Engine) process(a *account, u *update) {
	life, d := e.lifeOf(u)
	key := updateURI(u.Account, u.ID)
	if life == nil || d != nil && !d.take(key) {
		return
	}
	at := place{a.Name, u.Address}
	if u.urgent() {
		at.Thread += "\x00urgent"
	}
	waits := e.in.enter(at, u, func(u *update) {
		release, ok := life.Hold()
		if !ok { // the user has another node now
			return
		}
		defer release()
		done := e.insist(life, "an update of "+a.Name, func() error { return e.handle(life, a, u) })
		if done && d != nil {
			d.leave(key)
		}
	})
	if waits && u.User != "" && u.Kind == channel.Message {
		life.Go(func() {
			if err := e.explain(life, a, u); err != nil && life.Err() == nil {
				e.log.Warn("a person cannot be told why there is no answer yet", "channel", a.Name, "error", err)
			}
		})
	}
}

// explain tells the writer of an update that it waits, if it waits for an answer to a question.
func (e *Engine) explain(ctx context.Context, a *account, u *update) error {
	posts, err := all(records[*post](ctx, e, store.ForUser(u.User), store.Query{Type: typePost, State: asking}))
	if err != nil || !slices.ContainsFunc(posts, func(p *post) bool { return p.Account == a.Name && p.At == u.Address }) {
		return err
	}
	return e.record(ctx, u.User, e.reply(a, u, "I still wait for your answer to my question. Then I go on with this. /stop ends what I am doing.", "waits"))
}

// handle takes an update to its end. After an error it is called again.
func (e *Engine) handle(ctx context.Context, a *account, u *update) error {
	if u.User == "" {
		return e.greet(ctx, a, u)
	}
	if p, paired, err := e.personOf(ctx, a.Name, u.From.ID); err != nil {
		return err
	} else if !paired || p.User != u.User { // the pairing has ended meanwhile
		return e.settle(ctx, u, ignored, "the sender is not paired")
	}
	if off, err := e.disabled(ctx, u.User); err != nil {
		return err
	} else if off {
		return e.settle(ctx, u, ignored, "the user "+u.User+" is disabled")
	}
	switch {
	case u.Kind == channel.Edited:
		return e.settle(ctx, u, ignored, "a message that was answered has been changed")
	case u.Kind == channel.Press:
		return e.press(ctx, a, u)
	case u.Kind != channel.Message:
		return e.settle(ctx, u, ignored, fmt.Sprintf("updates of the kind %.40q mean nothing to Steward", u.Kind))
	}
	if name, rest, ok := u.command(); ok {
		return e.obey(ctx, a, u, name, rest)
	}
	return e.answer(ctx, a, u)
}

// settle commits the end of an update, with the posts that answer it.
func (e *Engine) settle(ctx context.Context, u *update, state, reason string, posts ...*post) error {
	done := *u
	done.State, done.Reason, done.Heard = state, reason, ""
	if state == answered { // the conversation has it
		done.Text, done.Attachments = "", nil
	}
	err := e.record(ctx, u.User, posts, done.change(store.If{}))
	if err == nil {
		e.opt.Telemetry.Update(u.Account, state)
	}
	return err
}

// say settles an update with a text that Steward itself answers.
func (e *Engine) say(ctx context.Context, a *account, u *update, text string) error {
	return e.settle(ctx, u, answered, "", e.reply(a, u, text, "reply")...)
}
