package page

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/store"
	"steward/internal/turn"
)

const (
	historyPage   = 60 // messages that are loaded at a time
	conversations = 60
)

// chatScreen is the chat: a new conversation, or one that exists.
func (v *visit) chatScreen() (content, error) {
	list, err := v.api().Conversations(v.ctx(), conversations)
	if err != nil {
		return content{}, err
	}
	c := content{title: v.t("Chat"), nav: "chat", wide: true}
	var conv *client.Conversation
	var thread g.Node
	agent, model := "", ""
	if which := v.r.PathValue("conversation"); which != "" {
		found, err := v.api().Conversation(v.ctx(), which)
		if err != nil {
			return content{}, err
		}
		conv, agent, model = &found, found.Agent, found.Model
		if found.Title != "" {
			c.title = found.Title
		}
		x, ok := id.Parse(found.ID)
		if !ok {
			return content{}, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80q", which)
		}
		nodes, older, seq, err := v.page(x, "")
		if err != nil {
			return content{}, err
		}
		c.live = "of=chat&conversation=" + found.ID + "&cursor=" + strconv.FormatUint(seq, 10)
		thread = g.Group{v.olderButton(found.ID, older), g.Group(nodes)}
	} else {
		thread = v.welcome()
	}
	c.main = Div(Class("chat"),
		v.conversationList(list, conv),
		Section(Class("talk"), Aria("label", v.t("Conversation")),
			v.chatHead(conv),
			Div(ID("scroll"), TabIndex("0"), Aria("label", v.t("Messages")), Div(ID(threadID), Role("log"), thread), Div(ID("plan")), Div(ID("end"))),
			v.composer(conv, agent, model)))
	return c, nil
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
	branches, err := v.branchPoints(conv)
	if err != nil {
		return nil, "", 0, err
	}
	return v.history(list, func(e *conversation.Entry) g.Node { return v.switcher(conv, e, branches) }), string(next), seq, nil
}

// branchPoints reports whether a conversation has more than one branch.
func (v *visit) branchPoints(conv id.ID) (bool, error) {
	list, err := v.api().Branches(v.ctx(), conv.String(), false)
	return len(list) > 1, err
}

// switcher goes to the alternatives of a message on other branches.
func (v *visit) switcher(conv id.ID, e *conversation.Entry, branched bool) g.Node {
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
	return Div(ID("older"), Data("older", older), v.button("older", v.t("Show earlier messages"), "quiet", "conversation", conv, "before", older))
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

func (v *visit) conversationList(list []client.Conversation, current *client.Conversation) g.Node {
	return Aside(ID("conversations"), Aria("label", v.t("Conversations")),
		Div(Class("row"), A(Class("button new"), Href("/"), v.icon("plus"), g.Text(v.t("New chat"))),
			Button(Type("button"), Class("icon narrow-only"), Data("js", "list"), Aria("label", v.t("Close")), v.icon("no"))),
		Form(Role("search"), Action("/search"), Method("get"), Data("get", ""), Input(Type("search"), Name("q"), Placeholder(v.t("Search")), Aria("label", v.t("Search all conversations")))),
		v.conversationItems(list, current))
}

func (v *visit) conversationItems(list []client.Conversation, current *client.Conversation) g.Node {
	return Ul(ID("conversation-list"), g.Map(list, func(c client.Conversation) g.Node {
		title := c.Title
		if title == "" {
			title = v.t("New conversation")
		}
		return Li(A(Href("/chat/"+c.ID), g.If(current != nil && current.ID == c.ID, Aria("current", "page")), ownText(title)))
	}))
}

func (v *visit) chatHead(conv *client.Conversation) g.Node {
	title := v.t("New conversation")
	if conv != nil && conv.Title != "" {
		title = conv.Title
	}
	return Header(Class("chat-head"), Button(Type("button"), Class("icon narrow-only"), Data("js", "list"), Aria("label", v.t("Conversations")), v.icon("menu")),
		H1(ID("title"), ownText(title)),
		g.If(conv != nil, v.chatMenu(conv)))
}

func (v *visit) chatMenu(conv *client.Conversation) g.Node {
	if conv == nil {
		return nil
	}
	return Details(Class("menu"), Summary(Aria("label", v.t("More")), v.icon("more")), Div(Class("items"),
		v.button("rename-ask", v.t("Rename"), "", "conversation", conv.ID, "title", conv.Title),
		A(Href("/chat/"+conv.ID+"/export?format=markdown"), Download(""), g.Text(v.t("Export as Markdown"))),
		A(Href("/chat/"+conv.ID+"/export?format=json"), Download(""), g.Text(v.t("Export as JSON"))),
		v.button("delete-conversation", v.t("Delete"), "danger", "conversation", conv.ID)))
}

// composer is where a person writes.
func (v *visit) composer(conv *client.Conversation, agent, model string) g.Node {
	which := ""
	if conv != nil {
		which = conv.ID
	}
	return Form(ID("composer"), Data("conversation", which), AutoComplete("off"),
		Div(ID("attachments")),
		Textarea(Name("text"), ID("text"), Rows("1"), MaxLength("200000"), Placeholder(v.t("Write a message")), Aria("label", v.t("Write a message")), Dir("auto")),
		Div(Class("row"),
			Label(Class("icon button"), Title(v.t("Attach files")), v.icon("attach"), Span(Class("hidden"), g.Text(v.t("Attach files"))), Input(Type("file"), Name("files"), Multiple())),
			v.pickers(agent, model),
			Label(Class("toggle"), Title(v.t("Show me a plan before anything is done")), Input(Type("checkbox"), Name("plan")), Span(g.Text(v.t("Plan")))),
			Span(Class("space")),
			Span(ID("state"), Role("status")),
			Button(ID("stop"), Type("button"), Class("icon"), Data("do", "stop"), Data("field-conversation", which), Hidden(""), Aria("label", v.t("Stop")), Title(v.t("Stop")), v.icon("stop")),
			Button(ID("send"), Type("submit"), Class("icon primary"), Aria("label", v.t("Send")), Title(v.t("Send")), v.icon("send"))))
}

// pickers choose agent and model.
func (v *visit) pickers(agent, model string) g.Node {
	agents := v.Node.Agents(v.ctx())
	option := func(value, label, chosen string) g.Node {
		return Option(Value(value), g.If(value == chosen, Selected()), g.Text(label))
	}
	return g.Group{
		Select(Name("agent"), Aria("label", v.t("Agent")), option("", v.t("Assistant"), agent), g.Map(agents, func(a kits.AgentView) g.Node {
			if a.Path == "assistant" {
				return nil
			}
			return option(a.Path, a.Path, agent)
		})),
		Input(Name("model"), List("models"), Value(model), Placeholder(v.t("Model")), Aria("label", v.t("Model")), Class("model"), Data("js-focus", "models")),
		DataList(ID("models")),
	}
}

// models is the action that fills the list of models, which asks the providers.
func (v *visit) models(json.RawMessage) (*reply, error) {
	listing, names := v.Node.Models(v.ctx())
	for _, m := range listing.Models {
		names = append(names, m.Full())
	}
	return &reply{Patches: []patch{put("models", "", DataList(ID("models"), g.Map(names, func(m string) g.Node { return Option(Value(m)) })))}}, nil
}

// sendMessage is the action "send".
func (v *visit) sendMessage(in json.RawMessage) (*reply, error) {
	x, err := read[struct {
		Conversation, Text, Agent, Model, ID, Replace string
		Plan, Steer                                   bool
		Files                                         []struct {
			Name, MIME string
			Data       []byte
		}
	}](in)
	if err != nil {
		return nil, err
	}
	t := turn.Input{ClientID: x.ID, Agent: x.Agent, Model: x.Model, Plan: x.Plan, Steer: x.Steer, Attended: v.caller.Attended()}
	if x.Conversation != "" {
		var ok bool
		if t.Conversation, ok = id.Parse(x.Conversation); !ok {
			return nil, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80q", x.Conversation)
		}
	}
	if x.Replace != "" {
		var ok bool
		if t.Replace, ok = id.Parse(x.Replace); !ok {
			return nil, fault.New(fault.NotFound, "message_not_found", "there is no message %.80q", x.Replace)
		}
	}
	size := len(x.Text)
	if strings.TrimSpace(x.Text) != "" {
		t.Content = append(t.Content, &message.Text{Text: x.Text})
	}
	for _, f := range x.Files {
		size += len(f.Data)
		if strings.HasPrefix(f.MIME, "image/") {
			t.Content = append(t.Content, &message.Image{MIME: f.MIME, Data: f.Data})
		} else {
			t.Content = append(t.Content, &message.File{Name: f.Name, MIME: f.MIME, Data: f.Data})
		}
	}
	if err := v.caller.Store(v.ctx(), int64(size)); err != nil {
		return nil, err
	}
	acc, err := v.caller.Send(context.WithoutCancel(v.ctx()), v.Node, t)
	if err != nil {
		return nil, err
	}
	out := &reply{}
	if len(acc.Hidden) > 0 {
		out.Toast = v.t("A secret was removed from your message: {names}", strings.Join(acc.Hidden, ", "))
	}
	if x.Conversation == "" || x.Replace != "" {
		out.Go = "/chat/" + acc.Conversation.String()
	}
	return out, nil
}

func (v *visit) regenerate(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Message string }](in)
	if err != nil {
		return nil, err
	}
	conv, ok1 := id.Parse(x.Conversation)
	msg, ok2 := id.Parse(x.Message)
	if !ok1 || !ok2 {
		return nil, fault.New(fault.NotFound, "message_not_found", "there is no such message")
	}
	if _, err := v.caller.Send(context.WithoutCancel(v.ctx()), v.Node, turn.Input{Conversation: conv, Regenerate: msg, Opens: id.New(), Attended: v.caller.Attended()}); err != nil {
		return nil, err
	}
	return &reply{Go: "/chat/" + x.Conversation}, nil
}

func (v *visit) stop(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation string }](in)
	if err != nil {
		return nil, err
	}
	conv, ok := id.Parse(x.Conversation)
	if !ok {
		return nil, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80q", x.Conversation)
	}
	return nil, v.Node.Stop(v.ctx(), v.caller.User, conv)
}

func (v *visit) switchBranch(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Branch string }](in)
	if err != nil {
		return nil, err
	}
	if err := v.api().ChangeBranch(v.ctx(), x.Conversation, x.Branch, map[string]any{"preferred": true}); err != nil {
		return nil, err
	}
	return &reply{Go: "/chat/" + x.Conversation}, nil
}

// older is the action that shows earlier messages.
func (v *visit) older(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Before string }](in)
	if err != nil {
		return nil, err
	}
	conv, ok := id.Parse(x.Conversation)
	if !ok {
		return nil, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80q", x.Conversation)
	}
	nodes, next, _, err := v.page(conv, x.Before)
	if err != nil {
		return nil, err
	}
	return &reply{Patches: []patch{{ID: "older"}, {In: threadID, First: true, HTML: text(g.Group(append([]g.Node{v.olderButton(x.Conversation, next)}, nodes...)))}}}, nil
}

func (v *visit) deleteConversation(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation string }](in)
	if err != nil {
		return nil, err
	}
	return &reply{Go: "/", Toast: v.t("Deleted")}, v.api().DeleteConversation(v.ctx(), x.Conversation, false)
}

func (v *visit) renameAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Title string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Rename"), Form(Data("do", "rename"), Input(Type("hidden"), Name("conversation"), Value(x.Conversation)),
		Label(g.Text(v.t("Title")), Input(Name("title"), Value(x.Title), MaxLength("200"), Required(), AutoFocus())),
		v.dialogButtons(v.t("Rename")))), nil
}

func (v *visit) rename(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Title string }](in)
	if err != nil {
		return nil, err
	}
	if err := v.api().Call(v.ctx(), "PATCH /conversations/{id}", client.Params{"id": x.Conversation}, map[string]string{"title": x.Title}, nil); err != nil {
		return nil, err
	}
	return &reply{Go: "/chat/" + x.Conversation}, nil
}

// dialog opens a dialog.
func (v *visit) dialog(title string, body g.Node) *reply {
	return &reply{Patches: []patch{put("dialog", "", Dialog(ID("dialog"), Data("open", ""), Aria("labelledby", "dialog-title"), H2(ID("dialog-title"), g.Text(title)), body))}}
}

func (v *visit) dialogButtons(label string) g.Node {
	return Div(Class("row end"), Button(Type("button"), Data("js", "close"), g.Text(v.t("Cancel"))), Button(Type("submit"), Class("primary"), g.Text(label)))
}

// export sends a conversation as a file.
func (s *server) export(w http.ResponseWriter, r *http.Request) {
	v, err := s.visit(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	in := r.Clone(r.Context())
	in.URL.Path = client.Prefix + "/conversations/" + r.PathValue("conversation") + "/export"
	in.RequestURI = in.URL.RequestURI()
	ext := "json"
	if r.URL.Query().Get("format") == "markdown" {
		ext = "md"
	}
	w.Header().Set("Content-Disposition", `attachment; filename="conversation.`+ext+`"`)
	v.API.ServeHTTP(w, in)
}

// liveChat follows a conversation.
func (v *visit) liveChat(ctx context.Context, out *stream) error {
	q := v.r.URL.Query()
	conv, ok := id.Parse(q.Get("conversation"))
	if !ok {
		return fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80q", q.Get("conversation"))
	}
	from := q.Get("cursor")
	if last := v.r.Header.Get("Last-Event-ID"); last != "" {
		from = last
	}
	seq, err := strconv.ParseUint(from, 10, 63)
	if err != nil {
		return fault.New(fault.Invalid, "cursor_invalid", "%.80q is not a cursor", from)
	}
	t := &follower{visit: v, out: out, conv: conv, texts: map[string]*growing{}, opened: map[id.ID]bool{}}
	frames := make(chan turn.Frame, 64)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		defer close(frames)
		// The stream begins at a position of the log, never within a message: its text is then sent from its
		// beginning, and takes the place of what is shown of it.
		for f, err := range v.Node.Watch(ctx, v.caller.User, conv, turn.Cursor{Seq: seq}) {
			if err != nil {
				cancel(err)
				return
			}
			select {
			case frames <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTimer(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case f, ok := <-frames:
			if !ok {
				return context.Cause(ctx)
			}
			soon, err := t.take(&f)
			if err != nil {
				return err
			}
			if soon {
				tick.Reset(flushEvery)
			}
		case <-tick.C:
			if err := t.flush(); err != nil {
				return err
			}
		}
	}
}
