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

// record commits posts together with other changes of the user's space, and has them sent. Posts that exist
// are left out: they were recorded before.
func (e *Engine) record(ctx context.Context, user string, posts []*post, others ...store.Change) error {
	c := e.connecting()
	changes := others
	var news []*post
	undo := func() {
		for _, p := range news {
			c.leave(p.ID)
		}
	}
	if c == nil {
		undo = func() {}
	}
	for _, p := range posts {
		old, err := get[*post](ctx, e, scopeOf(user), postURI(p.Account, p.ID))
		if err == nil {
			if c != nil && old.State == pending { // its commit may have failed for this node, but not for the store
				if err := c.pickUp(ctx, postURI(p.Account, p.ID)); err != nil {
					undo()
					return err
				}
			}
			continue
		}
		if !fault.Is(err, fault.NotFound) {
			undo()
			return err
		}
		if c != nil && !c.take(p.ID) {
			continue // it is in posts twice
		}
		p.Order, p.Created, p.version = e.order(), e.opt.Now().UTC(), 1
		changes = append(changes, p.change(store.If{Absent: true}))
		news = append(news, p)
	}
	if len(changes) == 0 {
		return nil
	}
	if err := e.commit(ctx, user, changes...); err != nil {
		undo()
		return err
	}
	for _, p := range news {
		switch a := e.accounts[p.Account]; {
		case c == nil:
		case a != nil && p.State == pending:
			c.add(a, p)
		default:
			c.leave(p.ID)
		}
	}
	return nil
}

// deliver sends a post, however long that takes. It returns early only if this half ends, or if another node has
// taken the post.
func (c *carrier) deliver(a *account, p *post) {
	e := c.e
	if !p.Replaces.Zero() && !e.insist(c.life, "the outbox", func() error { return e.findReplaced(c.life, p) }) {
		return
	}
	if p.edits == "" { // the last process may just have sent something
		rest(c.life, a.limits.SendEvery-e.opt.Now().Sub(c.began))
	}
	for pause := max(time.Second, a.limits.SendEvery); c.life.Err() == nil; {
		if !p.Doubt.IsZero() && e.opt.Now().Sub(p.Doubt) > repeatFor {
			c.mark(p, uncertain, "it may have been posted long ago, and the service may not recognize it any more")
			return
		}
		if p.edits == "" {
			p.Tried = e.opt.Now().UTC()
			if !c.mark(p, sending, "") {
				return
			}
		}
		err := c.attempt(a, p)
		switch then := judgeSend(a, p, err); then {
		case done:
			state := sent
			if p.Asks != nil {
				state = asking
			}
			c.mark(p, state, "")
			return
		case again:
			if p.edits == "" && !a.limits.Repeatable && !c.mark(p, pending, "") { // it was not sent, for certain
				return
			}
			if p.Doubt.IsZero() && p.edits == "" && mayHavePosted(err) {
				p.Doubt = p.Tried
			}
			if fault.Is(err, fault.RateLimited) {
				rest(c.life, max(fault.Of(err).After, a.limits.SendEvery, 100*time.Millisecond))
				continue
			}
			e.log.Warn("a message waits to be sent", "channel", a.Name, "again_in", pause.String(), "error", err)
			rest(c.life, pause)
			pause = min(2*pause, lastPause)
		case afresh: // the message that it would change is gone
			p.edits = ""
		case doubt:
			c.mark(p, uncertain, fault.Of(err).Message)
			return
		case never:
			c.mark(p, failed, fault.Of(err).Message)
			return
		}
	}
}

// findReplaced looks up the message that a post edits.
func (e *Engine) findReplaced(ctx context.Context, p *post) error {
	old, err := get[post](ctx, e, scopeOf(p.User), postURI(p.Account, p.Replaces))
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
func judgeSend(a *account, p *post, err error) consequence {
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

// attempt makes one request. It may end a little later than this half, so that fewer messages are
// uncertain after a stop.
func (c *carrier) attempt(a *account, p *post) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.life), sendTimeout)
	defer cancel()
	defer context.AfterFunc(c.life, func() { time.AfterFunc(grace, cancel) })()
	m := p.outgoing("")
	if p.edits != "" {
		p.Message = p.edits
		return a.Channel.Edit(ctx, p.At, p.edits, m)
	}
	for _, f := range p.Files {
		out, err := c.e.load(ctx, p.User, f)
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

// mark commits the state of a post. It returns false if this half has ended before that, or if the post is not
// its own any more: another node has taken it, or its user was erased.
func (c *carrier) mark(p *post, state, reason string) bool {
	if p.State == state {
		return true
	}
	p.State, p.Reason = state, reason
	c.e.opt.Telemetry.Post(p.Account, state)
	ours := false
	return c.e.insist(c.life, "the outbox", func() (err error) {
		ours, err = c.e.put(context.WithoutCancel(c.life), p)
		return err
	}) && ours
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
