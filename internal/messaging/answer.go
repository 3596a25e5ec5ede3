package messaging

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"steward/internal/channel"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	sendtool "steward/internal/tools/message"
	"steward/internal/turn"
	"steward/internal/work"
)

// lookEvery is how often a turn that is watched is looked up in the store: its end may come without a frame.
const lookEvery = 2 * time.Second

// answer begins the turn of a text, waits for its end, and settles the update with the answer. It finds the
// turn again that an earlier process has begun.
func (e *Engine) answer(ctx context.Context, a *account, u *update) error {
	select {
	case e.turns <- struct{}{}:
		defer func() { <-e.turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c, err := e.chatOf(ctx, a, u)
	if err != nil {
		return err
	}
	content, notes, err := e.content(ctx, a, u)
	if err != nil {
		return err
	}
	if len(content) == 0 {
		return e.say(ctx, a, u, strings.Join(append(notes, "There is nothing in your message that I can read."), "\n\n"))
	}
	in := turn.Input{Conversation: c.Conversation, ClientID: a.Name + " " + u.ID, Content: content, Agent: c.Agent, Model: c.Model, Attended: true}
	acc, err := e.node.Send(ctx, u.User, in)
	if parked := fault.HasCode(err, "turn_parked"); parked || fault.HasCode(err, "conversation_not_found") {
		// It was deleted, or an earlier turn of it waits for a person at a terminal: the chat begins another one.
		if in.Conversation = (id.ID{}); parked {
			notes = append(notes, "Steward crashed while it worked on an earlier message, so this is a new conversation. steward requests list shows the old one.")
		}
		acc, err = e.node.Send(ctx, u.User, in)
	}
	if err != nil {
		if work.IsFinal(err) {
			return e.giveUp(ctx, a, u, fault.Of(err), notes)
		}
		return err
	}
	if err := e.remember(ctx, c, acc); err != nil {
		return err
	}
	end, failure, err := e.await(ctx, a, u, acc)
	if err != nil {
		return err
	}
	if failure != nil {
		return e.giveUp(ctx, a, u, failure, notes)
	}
	return e.finish(ctx, a, u, acc, end, notes)
}

// giveUp settles an update that cannot be answered, and says why.
func (e *Engine) giveUp(ctx context.Context, a *account, u *update, why *fault.Error, notes []string) error {
	text := "I cannot answer: " + why.Message
	if why.Remedy != "" {
		text += " (" + why.Remedy + ")"
	}
	posts := e.reply(a, u, strings.Join(append(notes, text), "\n\n"), "answer")
	if err := e.replaceDraft(ctx, a, u, posts); err != nil {
		return err
	}
	return e.settle(ctx, u, unanswered, why.Code+": "+why.Message, posts...)
}

// finish settles an update with the answer of its turn.
func (e *Engine) finish(ctx context.Context, a *account, u *update, acc turn.Accepted, end conversation.Ending, notes []string) error {
	text, labels := "", message.Labels(0)
	var files []file
	if m := end.Final; m != nil {
		text = m.Text()
		at := record.InteractionURI(acc.Conversation, acc.Interaction).ChildID(record.TypeMessage, m.ID)
		for i, b := range m.Blocks {
			labels |= b.Base().Labels
			switch b := b.(type) {
			case *message.Image:
				files = append(files, file{At: at, Block: i, Name: "picture", MediaType: b.MIME})
			case *message.File:
				files = append(files, file{At: at, Block: i, Name: b.Name, MediaType: b.MIME})
			}
		}
	}
	switch {
	case end.Run.Outcome == "stopped" && !strings.HasSuffix(text, "(stopped)"):
		text = strings.TrimSpace(text + "\n\n(stopped)")
	case strings.TrimSpace(text) == "" && len(files) == 0:
		text = "(The answer is empty.)"
	}
	if len(notes) > 0 {
		text = strings.Join(notes, "\n\n") + "\n\n" + text
	}
	if u.Group {
		if ok, err := e.mayTell(ctx, a, u, text, labels); err != nil {
			return err
		} else if !ok {
			return e.tellAlone(ctx, a, u, text)
		}
	}
	posts := e.reply(a, u, text, "answer")
	if err := e.replaceDraft(ctx, a, u, posts); err != nil {
		return err
	}
	if a.limits.Attachment > 0 {
		for i, f := range files {
			posts = append(posts, &post{ID: id.Derive("post", a.Name, u.ID, "file", fmt.Sprint(i)), Account: a.Name, At: u.Address, User: u.User, State: pending, Files: []file{f}})
		}
	}
	for _, p := range posts {
		p.Labels = labels
	}
	return e.settle(ctx, u, answered, "", posts...)
}

// mayTell reports whether an answer may go into a group. The group is a recipient: private data is judged
// as if a tool sent it there, and where a person would be asked, it does not go.
func (e *Engine) mayTell(ctx context.Context, a *account, u *update, text string, labels message.Labels) (bool, error) {
	if labels&(message.Private|message.Secret) == 0 {
		return true, nil
	}
	if e.opt.Judge == nil || labels.Has(message.Secret) {
		return false, nil
	}
	args, err := json.Marshal(map[string]string{"text": text, "to": a.Name + ":" + u.Address.Chat})
	if err != nil {
		return false, err
	}
	spec := sendtool.Spec()
	spec.Name = "message.send"
	d, err := e.opt.Judge.Authorize(ctx, policy.Question{Point: policy.PointTool, User: u.User, Tool: spec, Args: args, Labels: labels, Attended: true,
		Flow: policy.Flow{Fixed: true}})
	if err != nil {
		e.log.Warn("policy cannot say whether an answer may go into a group", "channel", a.Name, "error", err)
		return false, nil
	}
	return d.Verdict == policy.Allow, nil
}

// tellAlone answers in the person's own chat in place of the group.
func (e *Engine) tellAlone(ctx context.Context, a *account, u *update, text string) error {
	say := "My answer has private data in it, so I do not give it here."
	to, at, err := e.preferred(ctx, u.User, false)
	if err != nil {
		return err
	}
	posts := e.reply(a, u, say+" Ask me in a chat of our own.", "answer")
	if to != nil {
		where := u.Title
		if where == "" {
			where = "the group"
		}
		posts = append(e.reply(a, u, say+" I have written to you alone.", "answer"),
			e.posts(to, at, u.User, "Your question in "+where+": "+text, "post", a.Name, u.ID, "alone")...)
	}
	return e.settle(ctx, u, answered, "", posts...)
}

// replaceDraft has the first post take the place of the draft, if one was posted while the answer was being
// written.
func (e *Engine) replaceDraft(ctx context.Context, a *account, u *update, posts []*post) error {
	draft := draftID(a, u)
	_, err := e.opt.Store.Get(ctx, scopeOf(u.User), postURI(a.Name, draft))
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err == nil && len(posts) > 0 {
		posts[0].Replaces = draft
	}
	return err
}

func draftID(a *account, u *update) id.ID { return id.Derive("post", a.Name, u.ID, "draft") }

// await waits for the end of a turn, and meanwhile shows what is being written.
func (e *Engine) await(ctx context.Context, a *account, u *update, acc turn.Accepted) (end conversation.Ending, failure *fault.Error, err error) {
	look := func() (bool, error) {
		end, err = e.node.conversations.End(ctx, store.ForUser(u.User), acc.Conversation, acc.Interaction)
		switch {
		case fault.HasCode(err, "run_not_found"):
			return false, nil
		case err != nil:
			return false, err
		case end.Run.Outcome == "failed":
			if failure == nil {
				failure = fault.New(fault.Internal, end.Run.Error, "the turn failed (%s)", end.Run.Error)
			}
		}
		return true, nil
	}
	if acc.Duplicate {
		if over, err := look(); over || err != nil {
			return end, failure, err
		}
	}
	watching, stop := context.WithCancel(ctx)
	frames := make(chan turn.Frame, 64)
	ended := make(chan error, 1)
	go func() {
		defer close(frames)
		for f, err := range e.node.Watch(watching, u.User, acc.Conversation, turn.Cursor{Seq: acc.Seq}) {
			if err != nil {
				ended <- err
				return
			}
			select {
			case frames <- f:
			case <-watching.Done():
				return
			}
		}
	}()
	defer func() {
		stop()
		for range frames { // its goroutine has ended then
		}
	}()
	s := e.newStream(ctx, a, u)
	defer s.wait()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for coming := frames; ; {
		select {
		case f, ok := <-coming:
			if !ok {
				coming = nil // only the store tells now
				continue
			}
			if f.Interaction != acc.Interaction {
				continue
			}
			s.take(f)
			if f.Kind == turn.FrameError {
				failure = f.Err
			}
			if f.Kind != turn.FrameComplete && f.Kind != turn.FrameError {
				continue
			}
			if over, err := look(); over || err != nil {
				return end, failure, err
			}
			if f.Kind == turn.FrameError && !fault.HasCode(f.Err, "closing") { // it is parked, or could not continue
				return end, failure, nil
			}
		case err := <-ended:
			return end, nil, err
		case <-s.due():
			s.show()
		case <-tick.C:
			if over, err := look(); over || err != nil {
				return end, failure, err
			}
		case <-ctx.Done():
			return end, nil, ctx.Err()
		}
	}
}

// remember records which conversation a chat shows, and that it was used.
func (e *Engine) remember(ctx context.Context, c *chat, acc turn.Accepted) error {
	now := e.opt.Now().UTC()
	defer e.show(c)
	if c.Conversation == acc.Conversation && c.Agent == "" && now.Sub(c.Used) < time.Minute {
		return nil
	}
	c.Conversation, c.Agent, c.Used, c.Seen = acc.Conversation, "", now, max(c.Seen, acc.Seq) // the conversation has the agent now
	return e.commit(ctx, c.User, c.change())
}

// chatOf reads the chat of an update, or makes it.
func (e *Engine) chatOf(ctx context.Context, a *account, u *update) (*chat, error) {
	x := chatID(a.Name, u.User, u.Address)
	c, err := get[chat](ctx, e, store.ForUser(u.User), resource.URI{}.ChildID(typeChat, x))
	if fault.Is(err, fault.NotFound) {
		c, err = chat{ID: x, Account: a.Name, At: u.Address, User: u.User, Group: u.Group, Title: u.Title}, nil
	}
	if u.Title != "" {
		c.Title = u.Title
	}
	return &c, err
}

// content returns the content of a turn, and notes for the sender about what could not be read.
func (e *Engine) content(ctx context.Context, a *account, u *update) (list []message.Block, notes []string, err error) {
	if strings.TrimSpace(u.Text) != "" {
		list = append(list, &message.Text{Text: u.Text})
	}
	if u.Cut {
		notes = append(notes, "Your message was too long; I have read only its beginning.")
	}
	for _, x := range u.Attachments {
		b, note, err := e.attachment(ctx, a, u.User, x)
		if err != nil {
			return nil, nil, err
		}
		if b != nil {
			list = append(list, b)
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	if u.Forwarded != "" && len(list) > 0 { // the sender's own words are in another message
		list = append([]message.Block{&message.Text{Text: "The user forwards what " + plain(u.Forwarded) + " wrote:\n"}}, list...)
		for _, b := range list {
			b.Base().Labels |= message.Private | message.Untrusted
		}
	}
	if u.Group && len(list) > 0 {
		if said := cmp.Or(u.Heard, e.lately(place{a.Name, u.Address})); said != "" {
			list = append(list, &message.Text{Common: message.Common{Labels: message.Untrusted},
				Text: "\n\nFor your understanding only, what others wrote in this group before (they are not your user):\n" + said})
		}
	}
	return list, notes, nil
}

// attachment fetches what was attached to an update. An error means that it should be tried again.
func (e *Engine) attachment(ctx context.Context, a *account, user string, x channel.Attachment) (message.Block, string, error) {
	name := x.Name
	if name == "" {
		name = "the attachment"
	}
	if x.Voice && e.opt.Transcribe == nil {
		return nil, "I cannot listen to voice messages: none of my models can transcribe them. Please write to me.", nil
	}
	if x.Size > MaxAttachment {
		return nil, fmt.Sprintf("%s is too large for me: it has %d MB, and I read up to %d.", name, x.Size>>20, MaxAttachment>>20), nil
	}
	data, err := e.fetch(ctx, a, x)
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case fault.Is(err, fault.TooLarge):
		return nil, fmt.Sprintf("%s is too large for me; I read up to %d MB.", name, MaxAttachment>>20), nil
	case err != nil:
		return nil, fmt.Sprintf("I could not fetch %s: %s", name, fault.Of(err).Message), nil
	case len(data) == 0:
		return nil, name + " is empty.", nil
	}
	kind := x.MediaType
	if kind == "" || kind == "application/octet-stream" {
		kind, _, _ = strings.Cut(http.DetectContentType(data), ";")
	}
	switch {
	case x.Voice:
		text, err := e.opt.Transcribe(ctx, user, kind, data)
		if err != nil {
			f := fault.Of(err)
			note := "I could not listen: " + f.Message + "."
			if f.Remedy != "" {
				note += " (" + f.Remedy + ")"
			}
			return nil, note, nil
		}
		return &message.Text{Text: text}, "", nil
	case strings.HasPrefix(kind, "image/"):
		return &message.Image{MIME: kind, Data: data}, "", nil
	}
	return &message.File{MIME: kind, Name: x.Name, Data: data}, "", nil
}

// fetch reads an attachment, within its bound. It tries a few times.
func (e *Engine) fetch(ctx context.Context, a *account, x channel.Attachment) (data []byte, err error) {
	once := func() ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, sendTimeout)
		defer cancel()
		r, err := a.Channel.Fetch(ctx, x)
		if err != nil {
			return nil, err
		}
		defer r.Close() //nolint:errcheck // it was only read
		b, err := io.ReadAll(io.LimitReader(r, MaxAttachment+1))
		if len(b) > MaxAttachment {
			return nil, fault.New(fault.TooLarge, "attachment_too_large", "it is too large")
		}
		return b, err
	}
	for try := range 3 {
		if data, err = once(); err == nil || work.IsFinal(err) || !rest(ctx, time.Second<<try) {
			return data, err
		}
	}
	return data, err
}
