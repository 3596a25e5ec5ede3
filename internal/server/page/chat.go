package page

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/store"
	"steward/internal/turn"
)

const historyPage = 60 // messages that are loaded at a time

// chatScreen is the chat: a new conversation, or one that exists. With ?at=MESSAGE it shows this message among its
// neighbours.
func (v *visit) chatScreen() (content, error) {
	s, err := v.shelf(v.ctx())
	if err != nil {
		return content{}, err
	}
	which := v.r.PathValue("conversation")
	if which == "" {
		return content{title: v.t("Chat"), nav: "chat", wide: true, live: "of=chats", main: v.chat(s, nil, v.welcome(), nil, false)}, nil
	}
	found, err := v.api().Conversation(v.ctx(), which)
	if err != nil {
		return content{}, err
	}
	conv, err := conversationID(found.ID)
	if err != nil {
		return content{}, err
	}
	c := content{title: v.titleOf(&found), nav: "chat", wide: true}
	if at, ok := id.Parse(v.r.URL.Query().Get("at")); ok {
		thread, later, err := v.around(conv, at)
		if err != nil {
			return content{}, err
		}
		c.live, c.main = "of=chats&conversation="+found.ID, v.chat(s, &found, thread, later, false)
		return c, nil
	}
	nodes, older, seq, err := v.page(conv, "")
	if err != nil {
		return content{}, err
	}
	c.live = "of=chat&conversation=" + found.ID + "&cursor=" + strconv.FormatUint(seq, 10)
	c.main = v.chat(s, &found, g.Group{v.olderButton(found.ID, older), g.Group(nodes)}, nil, v.Node.Turns.Running(v.caller.User, conv))
	return c, nil
}

// chat is the whole chat: the list of conversations, the thread and the composer.
func (v *visit) chat(s shelf, conv *client.Conversation, thread, end g.Node, atWork bool) g.Node {
	current := ""
	if conv != nil {
		current = conv.ID
	}
	return Div(Class("chat"),
		v.conversationList(s, current),
		Section(Class("talk"), Aria("label", v.t("Conversation")),
			v.chatHead(conv),
			Div(Class("view"), Div(ID("scroll"), TabIndex("0"), Role("region"), Aria("label", v.t("Messages")), Div(ID(threadID), Role("log"), Aria("label", v.t("Messages")), thread), Div(ID("plan")), Div(ID("end"), end)),
				Button(ID("newest"), Type("button"), Class("icon"), Hidden(""), Data("js", "newest"), Aria("label", v.t("To the newest message")), Title(v.t("To the newest message")), v.icon("down"))),
			v.composer(conv, atWork)))
}

// around shows a message with those before and after it.
func (v *visit) around(conv, at id.ID) (thread, end g.Node, err error) {
	sc := store.ForUser(v.caller.User)
	older, before, err := v.Node.Conversations.Read(v.ctx(), sc, conv, conversation.Reading{At: at, Limit: historyPage / 2, Reverse: true})
	if fault.HasCode(err, "on_other_branch") {
		branch, _ := fault.Of(err).Details["branch"].(string)
		return empty(v.t("This message is in another version of the conversation."),
			v.button("branch", v.t("Switch to this version"), "primary", "conversation", conv.String(), "branch", branch, "at", at.String())), nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	list, after, err := v.Node.Conversations.Read(v.ctx(), sc, conv, conversation.Reading{At: at, Limit: historyPage / 2})
	if err != nil {
		return nil, nil, err
	}
	slices.Reverse(older)
	if len(older) > 0 && len(list) > 0 && older[len(older)-1].ID == list[0].ID {
		list = list[1:]
	}
	nodes, before, err := v.render(conv, append(older, list...), before)
	if err != nil {
		return nil, nil, err
	}
	newest := v.t("This is not the end of the conversation.")
	if after == "" {
		newest = v.t("This is the end of the conversation.")
	}
	return Div(ID("found"), Data("at", articleID(at)), v.olderButton(conv.String(), string(before)), g.Group(nodes)),
		P(Class("notice"), g.Text(newest), g.Text(" "), A(Href("/chat/"+conv.String()), g.Text(v.t("Go to the newest messages")))), nil
}

// page returns messages of a conversation before a cursor, where older ones begin, and the log position up to
// which the newest page shows the conversation.
func (v *visit) page(conv id.ID, before string) (nodes []g.Node, older string, seq uint64, err error) {
	if before == "" {
		at, err := v.Node.Position(v.ctx(), v.caller.User, conv)
		if err != nil {
			return nil, "", 0, err
		}
		seq = at.Seq
	}
	list, next, err := v.Node.Conversations.Read(v.ctx(), store.ForUser(v.caller.User), conv, conversation.Reading{After: store.Cursor(before), Limit: historyPage, Reverse: true})
	if err != nil {
		return nil, "", 0, err
	}
	slices.Reverse(list)
	nodes, rest, err := v.render(conv, list, next)
	return nodes, string(rest), seq, err
}

// render shows messages, which follow each other. If the first of them are results of calls, it reads back to the
// calls, since one card shows both. It returns where what is older begins.
func (v *visit) render(conv id.ID, list []conversation.Entry, next store.Cursor) ([]g.Node, store.Cursor, error) {
	for len(list) > 0 && list[0].Role == message.Tool && next != "" {
		more, before, err := v.Node.Conversations.Read(v.ctx(), store.ForUser(v.caller.User), conv, conversation.Reading{After: next, Limit: 10, Reverse: true})
		if err != nil {
			return nil, "", err
		}
		slices.Reverse(more)
		list, next = append(more, list...), before
	}
	v.conversation = conv
	branched, err := v.branched(conv)
	if err != nil {
		return nil, "", err
	}
	return v.history(list, func(e *conversation.Entry) g.Node { return v.switcher(conv, e.Message, branched) }, v.remembered(conv)), next, nil
}

// branched reports whether a conversation has more than one branch.
func (v *visit) branched(conv id.ID) (bool, error) {
	list, err := v.api().Branches(v.ctx(), conv.String(), false)
	return len(list) > 1, err
}

// switcher goes to the alternatives of a message on other branches.
func (v *visit) switcher(conv id.ID, e *message.Message, branched bool) g.Node {
	if !branched || e.Role == message.Tool || e.Role == message.Assistant && !e.Final {
		return nil
	}
	list, err := v.Node.Conversations.Siblings(v.ctx(), store.ForUser(v.caller.User), conv, e.ID)
	if err != nil || len(list) < 2 {
		return nil
	}
	at := slices.IndexFunc(list, func(s conversation.Sibling) bool { return s.Current })
	if at < 0 {
		return nil
	}
	to := func(i int, icon, label string) g.Node {
		if i < 0 || i >= len(list) {
			return Button(Type("button"), Class("icon"), Disabled(), Aria("label", label), v.icon(icon))
		}
		return v.iconButton("branch", icon, label, "conversation", conv.String(), "branch", list[i].Branch)
	}
	return Span(Class("branches"), to(at-1, "left", v.t("Earlier version")), Span(g.Text(strconv.Itoa(at+1)+"/"+strconv.Itoa(len(list)))), to(at+1, "right", v.t("Later version")))
}

func (v *visit) olderButton(conv, older string) g.Node {
	if older == "" {
		return nil
	}
	return Div(ID("older"), v.button("older", v.t("Show earlier messages"), "quiet", "conversation", conv, "before", older))
}

// welcome is what a new conversation shows.
func (v *visit) welcome() g.Node {
	say := func(s string) g.Node {
		return Button(Type("button"), Class("suggestion"), Data("js", "suggest"), g.Text(s))
	}
	return Div(ID("welcome"), Img(Src(v.at("icon.svg")), Alt(""), Width("56"), Height("56")), H2(g.Text(v.t("What can I do for you?"))),
		v.connectCard(),
		Div(Class("suggestions"), say(v.t("Remind me in 20 minutes to take a break")), say(v.t("What is on my calendar tomorrow?")), say(v.t("Add milk to my shopping list")), say(v.t("What can you do?"))))
}

func (v *visit) chatHead(conv *client.Conversation) g.Node {
	return Header(Class("chat-head"), Button(Type("button"), Class("icon narrow-only"), Data("js", "list"), Aria("label", v.t("Conversations")), v.icon("menu")),
		H1(ID("title"), ownText(v.titleOf(conv))),
		g.If(conv != nil, A(Class("icon button narrow-only"), Href("/"), Aria("label", v.t("New chat")), v.icon("plus"))),
		g.If(conv != nil, v.chatMenu(conv)))
}

func (v *visit) switchBranch(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Branch, At string }](in)
	if err != nil {
		return nil, err
	}
	if err := v.api().ChangeBranch(v.ctx(), x.Conversation, x.Branch, map[string]any{"preferred": true}); err != nil {
		return nil, err
	}
	to := "/chat/" + x.Conversation
	if x.At != "" {
		to += "?" + url.Values{"at": {x.At}}.Encode()
	}
	return &reply{Go: to}, nil
}

// older is the action that shows earlier messages.
func (v *visit) older(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Before string }](in)
	if err != nil {
		return nil, err
	}
	conv, err := conversationID(x.Conversation)
	if err != nil {
		return nil, err
	}
	nodes, next, _, err := v.page(conv, x.Before)
	if err != nil {
		return nil, err
	}
	return &reply{Patches: []patch{{ID: "older"}, {In: threadID, First: true, HTML: text(g.Group{v.olderButton(x.Conversation, next), Div(Class("earlier"), g.Group(nodes))})}}}, nil
}

// dialog opens a dialog.
func (v *visit) dialog(title string, body g.Node) *reply {
	return &reply{Patches: []patch{put("dialog", "", Dialog(ID("dialog"), Data("open", ""), Aria("labelledby", "dialog-title"), H2(ID("dialog-title"), g.Text(visible(title))), body))}}
}

func (v *visit) dialogButtons(label string) g.Node {
	return Div(Class("row end"), Button(Type("button"), Data("js", "close"), g.Text(v.t("Cancel"))), Button(Type("submit"), Class("primary"), g.Text(label)))
}

// chatPosition returns the conversation whose messages a page follows, and the position of the log up to which it
// has them.
func (v *visit) chatPosition() (conv id.ID, seq uint64, err error) {
	q := v.r.URL.Query()
	if conv, err = conversationID(q.Get("conversation")); err != nil {
		return conv, 0, err
	}
	from := q.Get("cursor")
	if last := v.r.Header.Get("Last-Event-ID"); last != "" {
		from = last
	}
	if seq, err = strconv.ParseUint(from, 10, 63); err != nil {
		err = fault.New(fault.Invalid, "cursor_invalid", "%.80q is not a cursor", from)
	}
	return conv, seq, err
}

// catchUp sends a page what it has not seen of a conversation. It has joined the source before, so that nothing is
// missing. What the source tells at the same time follows: that may be a little older, but ends with what is new.
func (v *visit) catchUp(out *stream, conv id.ID, seq uint64) error {
	own := *v // sources copy v meanwhile
	own.conversation = conv
	t := newFollower(&own, conv)
	t.tell = func(event []byte) error { return out.write(event) }
	t.tellText = func(event []byte, _ func() []byte) error { return out.write(event) }
	var err error
	if _, t.branch, err = v.Node.Branches(v.ctx(), v.caller.User, conv); err != nil {
		return err
	}
	// It begins at a position of the log, never within a message: the text of a message that is being written is
	// sent from its beginning, and takes the place of what is shown of it.
	for f, err := range v.Node.CatchUp(v.ctx(), v.caller.User, conv, turn.Cursor{Seq: seq}) {
		if err != nil {
			return err
		}
		if _, err := t.take(&f); err != nil {
			return err
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	return t.endedBefore()
}

// followChat is the life of the source that tells what happens in a conversation, from now on.
func (v *visit) followChat(s *source, conv id.ID) error {
	ctx, cancel := context.WithCancelCause(v.ctx())
	defer cancel(nil)
	at, err := v.Node.Position(ctx, v.caller.User, conv)
	if err != nil {
		return err
	}
	v.conversation = conv
	t := newFollower(v, conv)
	t.tell = func(event []byte) error { s.tell(event); return nil }
	t.tellText = func(event []byte, whole func() []byte) error { s.tellNew(event, whole); return nil }
	if _, t.branch, err = v.Node.Branches(ctx, v.caller.User, conv); err != nil {
		return err
	}
	frames := make(chan turn.Frame, 64)
	go func() {
		defer close(frames)
		err := alive(v.Logger, func() error {
			for f, err := range v.Node.WatchReady(ctx, v.caller.User, conv, turn.Cursor{Seq: at.Seq}, func() { close(s.ready) }) {
				if err != nil {
					return err
				}
				select {
				case frames <- f:
				case <-ctx.Done():
					return nil
				}
			}
			return nil
		})
		if err != nil {
			cancel(err)
		}
	}()
	tick := time.NewTimer(time.Hour)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case f, ok := <-frames:
			if !ok {
				if v.ctx().Err() != nil {
					return nil
				}
				return context.Cause(ctx)
			}
			soon, err := t.take(&f)
			if err != nil {
				return err
			}
			if soon {
				tick.Reset(t.wait() - time.Since(last))
			}
		case <-tick.C:
			last = time.Now()
			if err := t.flush(); err != nil {
				return err
			}
		}
	}
}
