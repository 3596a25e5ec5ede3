package messaging

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"steward/internal/channel"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/store"
)

// reply makes the posts that answer an update: as many as the service needs. what tells the answers to one
// update apart.
func (e *Engine) reply(a *account, u *update, markdown, what string) []*post {
	posts := e.posts(a, u.Address, u.User, markdown, "post", a.Name, u.ID, what)
	for _, p := range posts {
		if u.Group {
			p.ReplyTo = u.Message
		}
	}
	return posts
}

// posts makes the posts of a text. Their IDs derive from the key, so that the same text is not posted twice.
func (e *Engine) posts(a *account, at channel.Address, user, markdown string, key ...string) []*post {
	if e.opt.Mask != nil {
		markdown = e.opt.Mask(markdown)
	}
	var list []*post
	for i, part := range a.Channel.Render(markdown) {
		if strings.TrimSpace(part) == "" {
			continue
		}
		list = append(list, &post{ID: id.Derive(append(key, fmt.Sprint(i))...), Account: a.Name, At: at, User: user, Text: part, State: pending})
	}
	return list
}

// record commits posts together with other changes of the user's space, and queues them. Posts that exist
// are left out: they were recorded before.
func (e *Engine) record(ctx context.Context, user string, posts []*post, others ...store.Change) error {
	changes := others
	var news []*post
	for _, p := range posts {
		switch _, err := e.opt.Store.Get(ctx, scopeOf(user), postURI(p.Account, p.ID)); {
		case err == nil:
			continue
		case !fault.Is(err, fault.NotFound):
			return err
		}
		p.Order, p.Created = e.order(), e.opt.Now().UTC()
		changes = append(changes, p.change(store.If{Absent: true}))
		news = append(news, p)
	}
	if len(changes) == 0 {
		return nil
	}
	if err := e.commit(ctx, user, changes...); err != nil {
		return err
	}
	for _, p := range news {
		if a := e.accounts[p.Account]; a != nil && p.State == pending && !e.hold(p) {
			e.queue(a, p)
		}
	}
	return nil
}

// hold keeps a post back that is recorded before the engine has started, such as a reminder that was due
// when the node was opened: Start looks through the outbox, and must not find it being sent.
func (e *Engine) hold(p *post) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.running {
		e.held = append(e.held, p)
	}
	return !e.running
}

// queue has a post sent after those of its chat that were queued before.
func (e *Engine) queue(a *account, p *post) {
	a.mu.Lock()
	a.waiting++
	a.mu.Unlock()
	enter(e, e.out, place{a.Name, p.At}, p, func(p *post) {
		e.deliver(a, p)
		a.mu.Lock()
		a.waiting--
		a.mu.Unlock()
		if p.sent != nil {
			close(p.sent)
		}
		if p.edits == "" { // the next one waits
			e.rest(a.limits.SendEvery)
		}
	})
}

// deliver sends a post, however long that takes. It returns early only if the engine ends.
func (e *Engine) deliver(a *account, p *post) {
	if !p.Replaces.Zero() && !e.insist("the outbox", func() error { return e.findReplaced(p) }) {
		return
	}
	if p.edits == "" { // the last process may just have sent something
		e.rest(a.limits.SendEvery - e.opt.Now().Sub(e.began))
	}
	for pause := max(time.Second, a.limits.SendEvery); e.life.Err() == nil; {
		if !p.Doubt.IsZero() && e.opt.Now().Sub(p.Doubt) > repeatFor {
			e.mark(p, uncertain, "it may have been posted long ago, and the service may not recognize it any more")
			return
		}
		if p.edits == "" {
			p.Tried = e.opt.Now().UTC()
			if !e.mark(p, sending, "") {
				return
			}
		}
		err := e.attempt(a, p)
		switch then := e.judgeSend(a, p, err); then {
		case done:
			state := sent
			if p.Asks != nil {
				state = asking
			}
			e.mark(p, state, "")
			return
		case again:
			if p.edits == "" && !a.limits.Repeatable && !e.mark(p, pending, "") { // it was not sent, for certain
				return
			}
			if p.Doubt.IsZero() && p.edits == "" && mayHavePosted(err) {
				p.Doubt = p.Tried
			}
			if fault.Is(err, fault.RateLimited) {
				e.rest(max(fault.Of(err).After, a.limits.SendEvery, 100*time.Millisecond))
				continue
			}
			e.log.Warn("a message waits to be sent", "channel", a.Name, "again_in", pause.String(), "error", err)
			e.rest(pause)
			pause = min(2*pause, lastPause)
		case afresh: // the message that it would change is gone
			p.edits = ""
		case doubt:
			e.mark(p, uncertain, fault.Of(err).Message)
			return
		case never:
			e.mark(p, failed, fault.Of(err).Message)
			return
		}
	}
}

// findReplaced looks up the message that a post edits.
func (e *Engine) findReplaced(p *post) error {
	old, err := get[post](e.life, e, scopeOf(p.User), postURI(p.Account, p.Replaces))
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	p.edits = old.Message
	return err
}

// What follows from the outcome of a request.
type consequence int

const (
	done   consequence = iota // it was sent
	again                     // it can be tried again
	afresh                    // an edit cannot be made: it is sent as a new message
	doubt                     // it may have been sent
	never                     // it was not sent, and never will be
)

// repeatFor is how long a post is sent again that may have been posted: services that recognize keys do so
// for a limited time (Synapse for a day).
const repeatFor = 12 * time.Hour

// mayHavePosted reports whether a failed request may have posted the message, unless it was refused.
func mayHavePosted(err error) bool {
	return !fault.Is(err, fault.RateLimited) && !fault.HasCode(err, "channel_unreachable") && !fault.Is(err, fault.Unauthentic)
}

// judgeSend says what follows from the outcome of a request.
func (e *Engine) judgeSend(a *account, p *post, err error) consequence {
	if err == nil {
		return done
	}
	refused := fault.HasCode(err, "channel_rejected") || fault.Is(err, fault.Unsupported) || fault.Is(err, fault.Invalid)
	switch {
	case !mayHavePosted(err):
		return again
	case refused && p.edits != "":
		return afresh
	case refused, fault.Is(err, fault.NotFound), fault.Is(err, fault.TooLarge), fault.Is(err, fault.Denied):
		return never
	case p.edits != "", a.limits.Repeatable:
		return again
	}
	return doubt
}

// attempt makes one request. It may end a little later than the engine, so that fewer messages are
// uncertain after a stop.
func (e *Engine) attempt(a *account, p *post) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.life), sendTimeout)
	defer cancel()
	defer context.AfterFunc(e.life, func() { time.AfterFunc(grace, cancel) })()
	m := p.outgoing("")
	if p.edits != "" {
		p.Message = p.edits
		return a.Channel.Edit(ctx, p.At, p.edits, m)
	}
	for _, f := range p.Files {
		out, err := e.load(ctx, p.User, f)
		if err != nil {
			return channel.Rejected(a.Name, "the file cannot be read: "+err.Error())
		}
		m.Attachments = append(m.Attachments, out)
	}
	message, err := a.Channel.Send(ctx, m)
	if err == nil {
		p.Message = message
	}
	return err
}

// mark commits the state of a post. It returns false if the engine has ended before that.
func (e *Engine) mark(p *post, state, reason string) bool {
	if p.State == state {
		return true
	}
	p.State, p.Reason = state, reason
	e.opt.Telemetry.Post(p.Account, state)
	return e.insist("the outbox", func() error {
		err := e.commit(context.WithoutCancel(e.life), p.User, p.change(store.If{}))
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) { // its user was erased
			return nil
		}
		return err
	})
}

// load reads an attachment of a post from its conversation.
func (e *Engine) load(ctx context.Context, user string, f file) (channel.Attachment, error) {
	out := channel.Attachment{Ref: fmt.Sprintf("%s/%d", f.At.ID(), f.Block), Name: f.Name, MediaType: f.MediaType}
	r, err := e.opt.Store.Get(ctx, store.ForUser(user), f.At)
	if err != nil {
		return out, err
	}
	m, err := message.Decode(r.Body)
	if err != nil {
		return out, err
	}
	if f.Block >= len(m.Blocks) {
		return out, errors.New("its message has changed")
	}
	switch b := m.Blocks[f.Block].(type) {
	case *message.Image:
		out.Data = b.Data
	case *message.File:
		out.Data = b.Data
	}
	if out.Size = int64(len(out.Data)); out.Size == 0 {
		return out, errors.New("it has no data")
	}
	return out, nil
}
