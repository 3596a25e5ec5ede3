package messaging

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/internal/channel"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// The beginnings of buttons' data. The ID of the post follows.
const (
	pressAllow   = "a:"
	pressDeny    = "d:"
	pressDetails = "i:"
)

// askElsewhere is how long a question may be answered where it was asked, at a terminal for example, before
// it is asked on a channel as well. A question of a conversation that a channel shows is asked at once.
const (
	askElsewhere = time.Minute
	lookAgain    = 5 * time.Second
)

// follow asks a user's questions on the user's channels, if the user's messages are handled here.
func (e *Engine) follow(user string) {
	d := e.desk(user)
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.followed {
		return
	}
	d.followed = d.life.Go(func() {
		e.insist(d.life, "the questions to "+user, func() error {
			for list, err := range e.node.FollowApprovals(d.life, user) {
				if err == nil {
					err = e.ask(d.life, user, list)
				}
				if err != nil {
					return err // the list is yielded again
				}
			}
			return d.life.Err()
		})
	})
}

// ask posts the questions that were not posted yet, and says under the posts of the others that they are
// decided.
func (e *Engine) ask(ctx context.Context, user string, list []effect.Question) error {
	open := map[string]bool{}
	for i := range list {
		q := &list[i]
		open[q.ID+" "+q.Hash] = true
		if !q.Yours {
			continue
		}
		to, err := e.placesFor(ctx, user, q)
		if err != nil {
			return err
		}
		if wait := askElsewhere - e.opt.Now().Sub(q.Asked); !to.here && wait > 0 {
			e.askLater(user, q.ID+" "+q.Hash, min(wait, lookAgain)) // a chat may be about to show it
			continue
		}
		var posts []*post
		for _, c := range to.chats {
			posts = append(posts, e.questionPost(e.accounts[c.Account], c.At, user, q))
		}
		for _, c := range to.mute {
			posts = append(posts, e.hint(&c, user, q, to)...)
		}
		if err := e.record(ctx, user, posts); err != nil {
			return err
		}
	}
	posts, err := all(records[*post](ctx, e, store.ForUser(user), store.Query{Type: typePost, State: asking}))
	if err != nil {
		return err
	}
	for _, p := range posts {
		if p.Asks == nil || open[p.Asks.ID+" "+p.Asks.Hash] {
			continue
		}
		if err := e.conclude(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// askLater asks after a while, unless the question has been answered by then.
func (e *Engine) askLater(user, which string, wait time.Duration) {
	d := e.desk(user)
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.later[which] {
		return
	}
	d.later[which] = d.life.Go(func() {
		if !rest(d.life, wait) {
			return
		}
		d.mu.Lock()
		delete(d.later, which)
		d.mu.Unlock()
		e.insist(d.life, "the questions to "+user, func() error {
			list, err := e.node.decisions.Questions(d.life, user)
			if err != nil {
				return err
			}
			return e.ask(d.life, user, list)
		})
	})
}

// audience is where a question is asked.
type audience struct {
	chats []chat // in which it can be answered
	mute  []chat // that show its conversation, but in which nothing is decided
	here  bool   // its conversation is shown by a chat: nobody sits at a terminal
}

// placesFor returns the chats in which a question is asked: the private ones that show its conversation,
// else the preferred one. None is one whose senders can be forged.
func (e *Engine) placesFor(ctx context.Context, user string, q *effect.Question) (to audience, err error) {
	conv, err := e.talk(ctx, user, q)
	if err != nil {
		return to, err
	}
	if !conv.Zero() {
		for c, err := range records[chat](ctx, e, store.ForUser(user), store.Query{Type: typeChat, Term: store.Term{Name: termConversation, Value: conv.String()}}) {
			if err != nil {
				return to, err
			}
			if e.accounts[c.Account] == nil {
				continue
			}
			to.here = true
			if ok, err := e.decides(ctx, c); err != nil {
				return to, err
			} else if ok {
				to.chats = append(to.chats, c)
			} else {
				to.mute = append(to.mute, c)
			}
		}
	}
	if len(to.chats) > 0 {
		return to, nil
	}
	a, at, err := e.preferred(ctx, user, true)
	if a != nil {
		to.chats = []chat{{Account: a.Name, At: at}}
	}
	return to, err
}

// hint tells a chat in which nothing is decided that the user is asked elsewhere. It does not say what: in a
// group others read it.
func (e *Engine) hint(c *chat, user string, q *effect.Question, to audience) []*post {
	a := e.accounts[c.Account]
	text := "Before I go on I need your answer to a question, which cannot be given here. "
	if len(to.chats) > 0 {
		text += "I have asked you on " + e.accounts[to.chats[0].Account].name() + "."
	} else {
		text += "Answer it with: steward approvals"
	}
	return e.posts(a, c.At, user, text, "hint", c.ID.String(), q.ID)
}

// talk returns the conversation with the user to which a question belongs, or zero. An agent that another
// one asked works in a conversation of its own, below that one.
func (e *Engine) talk(ctx context.Context, user string, q *effect.Question) (id.ID, error) {
	uri, err := resource.Parse(q.Conversation)
	if err != nil || q.Conversation == "" {
		return id.ID{}, nil //nolint:nilerr // it is about nothing that was said
	}
	conv := record.IDOf(uri, record.TypeConversation)
	for range 20 {
		c, err := e.node.conversations.Get(ctx, store.ForUser(user), conv)
		if fault.Is(err, fault.NotFound) {
			return id.ID{}, nil
		}
		if err != nil || c.Asked.Zero() {
			return conv, err
		}
		conv = record.IDOf(c.Asked, record.TypeConversation)
	}
	return id.ID{}, nil
}

// decides reports whether a user may decide in a chat.
func (e *Engine) decides(ctx context.Context, c chat) (bool, error) {
	a := e.accounts[c.Account]
	if a == nil || c.Group || a.limits.Unproven {
		return false, nil
	}
	return e.reaches(ctx, c.Account, c.User)
}

// questionPost makes the post of a question. Its ID derives from the place, the question and what is shown.
func (e *Engine) questionPost(a *account, at channel.Address, user string, q *effect.Question) *post {
	p := &post{ID: id.Derive("question", a.Name, at.Chat, at.Thread, user, q.ID, q.Hash), Account: a.Name, At: at, User: user, State: pending,
		Asks: &question{ID: q.ID, Short: q.Short, Hash: q.Hash, Text: sentence(q)}}
	text := p.Asks.Text
	if a.limits.Buttons >= 3 {
		p.Buttons = []channel.Button{{Label: "Allow once", Data: pressAllow + p.ID.String()}, {Label: "Deny", Data: pressDeny + p.ID.String()}, {Label: "Details", Data: pressDetails + p.ID.String()}}
	} else {
		text += fmt.Sprintf("\n\nAnswer /approve %s or /deny %s; /details %s shows the whole call.", q.Short, q.Short, q.Short)
	}
	p.Text = e.oneMessage(a, text)
	return p
}

// oneMessage renders a text that must be one message.
func (e *Engine) oneMessage(a *account, text string) string {
	if e.opt.Mask != nil {
		text = e.opt.Mask(text)
	}
	parts := a.Channel.Render(text)
	if len(parts) == 0 {
		return text
	}
	return parts[0]
}

// sentence says what is asked. It is short enough for one message of any service.
func sentence(q *effect.Question) string {
	what, _ := cut(cmp.Or(q.Summary, "Call "+q.Tool), 600)
	text := "May I do this? " + plain(what)
	if q.Why != "" {
		why, _ := cut(q.Why, 200)
		text += "\n" + plain(why)
	}
	if len(q.Preview) <= maxPreview && strings.Count(q.Preview, "\n") < maxPreviewLines { // when a job begins, for example
		for line := range strings.Lines(q.Preview) {
			text += "\n" + plain(line)
		}
	}
	return text
}

// Limits of a preview that stands in the question. A longer one is among the details.
const (
	maxPreview      = 600
	maxPreviewLines = 8
)

// plain escapes what Markdown would read as its own: the sentence is partly written by models.
func plain(text string) string {
	var b strings.Builder
	for _, r := range strings.Join(strings.Fields(text), " ") {
		if strings.ContainsRune("\\`*_[]<>#|~", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// press answers a question by a button.
func (e *Engine) press(ctx context.Context, a *account, u *update) error {
	kind, name := "", ""
	if len(u.Button) > 2 {
		kind, name = u.Button[:2], u.Button[2:]
	}
	x, ok := id.Parse(name)
	if !ok {
		return e.settle(ctx, u, ignored, "the button is not one of Steward's")
	}
	p, err := get[post](ctx, e, store.ForUser(u.User), postURI(a.Name, x))
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err != nil || p.Asks == nil || p.User != u.User || p.At != u.Address {
		return e.settle(ctx, u, ignored, "the button is not for this person")
	}
	switch kind {
	case pressAllow:
		return e.decide(ctx, a, u, &p, true)
	case pressDeny:
		return e.decide(ctx, a, u, &p, false)
	case pressDetails:
		return e.details(ctx, a, u, &p)
	}
	return e.settle(ctx, u, ignored, "the button is not one of Steward's")
}

// decideByCommand answers a question by /approve, /deny or /details. It must have been posted in this chat,
// so that the answer is to what the person has been shown.
func (e *Engine) decideByCommand(ctx context.Context, a *account, u *update, name, which string) error {
	posts, err := all(records[*post](ctx, e, store.ForUser(u.User), store.Query{Type: typePost, State: asking}))
	if err != nil {
		return err
	}
	posts = slices.DeleteFunc(posts, func(p *post) bool {
		return p.Asks == nil || p.Account != a.Name || p.At != u.Address || which != "" && !strings.EqualFold(p.Asks.Short, which)
	})
	switch len(posts) {
	case 0:
		return e.say(ctx, a, u, "I have not asked you about that here, or it is decided.")
	case 1:
	default:
		var b strings.Builder
		fmt.Fprintf(&b, "I have asked you about several things; name one:\n\n")
		for _, p := range posts {
			fmt.Fprintf(&b, "/%s %s: %s\n", name, p.Asks.Short, p.Asks.Text)
		}
		return e.say(ctx, a, u, b.String())
	}
	if name == "details" {
		return e.details(ctx, a, u, posts[0])
	}
	return e.decide(ctx, a, u, posts[0], name == "approve")
}

// decide records a person's answer. Answering again, also on another channel, changes nothing.
func (e *Engine) decide(ctx context.Context, a *account, u *update, p *post, approve bool) error {
	if a.limits.Unproven || u.Unproven != "" || u.Group {
		return e.say(ctx, a, u, "Nothing can be approved here, because who writes can be forged or others read along. Use steward approvals.")
	}
	sc := store.ForUser(u.User)
	err := e.node.decisions.Decide(ctx, sc, effect.Decision{ID: p.Asks.ID, Hash: p.Asks.Hash, Approve: approve, Via: a.name()})
	switch {
	case err == nil:
		if a.limits.EditEvery > 0 && u.Kind == channel.Press { // the message with the buttons says so
			return e.settle(ctx, u, answered, "")
		}
		return e.say(ctx, a, u, map[bool]string{true: "Allowed.", false: "Denied."}[approve])
	case fault.HasCode(err, "approval_changed"):
		return e.say(ctx, a, u, "What I asked about has changed meanwhile; I ask again.")
	case fault.Is(err, fault.Conflict), fault.Is(err, fault.NotFound), fault.Is(err, fault.Denied), fault.Is(err, fault.Invalid):
		return e.say(ctx, a, u, "That is not open any more: "+fault.Of(err).Message+".")
	}
	return err
}

// details shows the whole call of a question.
func (e *Engine) details(ctx context.Context, a *account, u *update, p *post) error {
	q, err := e.node.decisions.Question(ctx, store.ForUser(u.User), p.Asks.ID, nil)
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
		return e.say(ctx, a, u, "That is not open any more.")
	} else if err != nil {
		return err
	}
	var args bytes.Buffer
	if json.Indent(&args, q.Args, "", "  ") != nil {
		args.Write(q.Args)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The whole call (%s):\n\n```\n%s\n%s\n```\n", q.Short, q.Tool, strings.ReplaceAll(args.String(), "```", "'''"))
	for _, line := range [][2]string{{"Agent", cmp.Or(q.Called, q.Agent)}, {"Reason", q.Reason}, {"Context", effect.DescribeLabels(q.Labels, q.Read)}, {"Rule", q.Rule}, {"Asked until", q.Expires.Format("2006-01-02 15:04 MST")}} {
		if line[1] != "" {
			fmt.Fprintf(&b, "\n%s: %s\n", line[0], plain(line[1]))
		}
	}
	if q.Preview != "" {
		fmt.Fprintf(&b, "\n```\n%s\n```\n", strings.ReplaceAll(q.Preview, "```", "'''"))
	}
	return e.say(ctx, a, u, b.String())
}

// conclude says under a question what was decided, by whom and where.
func (e *Engine) conclude(ctx context.Context, p *post) error {
	a := e.accounts[p.Account]
	if a == nil {
		return nil
	}
	say := e.outcome(ctx, p)
	news := &post{ID: id.Derive("concluded", p.ID.String()), Account: p.Account, At: p.At, User: p.User, State: pending, Text: e.oneMessage(a, p.Asks.Text+"\n\n"+say)}
	if a.limits.EditEvery > 0 {
		news.Replaces = p.ID
	}
	p.State = sent
	return e.record(ctx, p.User, []*post{news}, p.change(store.If{}))
}

// outcome says what became of a question.
func (e *Engine) outcome(ctx context.Context, p *post) string {
	uri, err := resource.Parse(p.Asks.ID)
	if err != nil {
		return "This is decided."
	}
	in, err := e.node.decisions.Intent(ctx, store.ForUser(p.User), uri)
	where := func(via string) string {
		if via == "" {
			return " elsewhere."
		}
		return " on " + via + "."
	}
	switch {
	case err != nil:
		return "This is not open any more."
	case in.Approval != nil:
		return "✓ Allowed by " + in.Approval.By + where(in.Approval.Via)
	case in.State == intent.Denied && in.DeniedBy != "":
		return "✗ Denied by " + in.DeniedBy + where(in.DeniedVia)
	case in.State == intent.Expired:
		return "This has expired without an answer."
	case in.State == intent.Awaiting:
		return "I ask again below, because what it would do has changed."
	}
	return "This is not open any more."
}
