package page

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/turn"
)

// composer is where a person writes.
func (v *visit) composer(conv *client.Conversation, atWork bool) g.Node {
	which, agent, model := "", "", ""
	if conv != nil {
		which, agent, model = conv.ID, conv.Agent, conv.Model
	}
	if conv == nil {
		agent = v.r.URL.Query().Get("agent") // of a link that begins a chat with one
	}
	if agent == kits.DefaultAgent {
		agent = ""
	}
	list, err := json.Marshal(v.commands())
	if err != nil {
		panic(err) // strings: cannot fail
	}
	return Form(ID("composer"), Data("conversation", which), Data("commands", string(list)), AutoComplete("off"),
		Div(ID("commands"), Role("listbox"), TabIndex("0"), Aria("label", v.t("Commands")), Hidden("")),
		Div(ID("pending")),
		Div(ID("editing"), Hidden(""), v.icon("edit"), Span(g.Text(v.t("Your message is replaced; the old one is kept as another version."))), v.iconButtonJS("uneditable", "no", v.t("Cancel"))),
		Div(ID("attachments")),
		Textarea(Name("text"), ID("text"), Rows("1"), MaxLength("200000"), Placeholder(v.t("Write a message")), Data("busy", v.t("Write more …")), Aria("label", v.t("Write a message")), Aria("controls", "commands"), Aria("describedby", "hint"), Dir("auto")),
		P(ID("hint"), Class("quiet"), Hidden(""), v.hint()),
		Div(Class("row"),
			Label(Class("icon button"), Title(v.t("Attach files")), v.icon("attach"), Span(Class("hidden"), g.Text(v.t("Attach files"))), Input(Type("file"), Name("files"), Multiple())),
			Label(Class("icon button camera"), Title(v.t("Take a picture")), v.icon("camera"), Span(Class("hidden"), g.Text(v.t("Take a picture"))), Input(Type("file"), Name("camera"), Accept("image/*"), g.Attr("capture", "environment"))),
			v.picked("agent", v.t("Agent"), agent, v.t("Assistant")),
			v.picked("model", v.t("Model"), model, v.t("Model")),
			Label(Class("toggle"), Title(v.t("Show me a plan before anything is done")), Input(Type("checkbox"), Name("plan"), Aria("label", v.t("Show me a plan before anything is done"))), v.icon("tree"), Span(Aria("hidden", "true"), g.Text(v.t("Plan")))),
			Span(Class("space")),
			v.stateSpan(atWork),
			Button(ID("stop"), Type("button"), Class("icon"), Data("do", "stop"), Data("field-conversation", which), Hidden(""), Aria("label", v.t("Stop")), Title(v.t("Stop")), v.icon("stop")),
			Button(ID("queue"), Type("button"), Class("icon"), Data("js", "queue"), Hidden(""), Aria("label", v.t("Send when the answer is complete")), Title(v.t("Send when the answer is complete (Alt+Enter)")), v.icon("clock")),
			Button(ID("send"), Type("submit"), Class("icon primary"), Aria("label", v.t("Send")), Title(v.t("Send")), v.icon("send"))))
}

// hint says what becomes of a message that is sent while the assistant is at work.
func (v *visit) hint() g.Node {
	return g.Group{Span(Class("keyed"), Kbd(g.Text("Enter"))), Span(Class("touched"), v.icon("send")), g.Text(" " + v.t("read at the next step") + " · "),
		Span(Class("keyed"), Kbd(g.Text("Alt+Enter"))), Span(Class("touched"), v.icon("clock")), g.Text(" " + v.t("sent after the answer"))}
}

// picked shows what is chosen of agents or models, and opens the choice.
func (v *visit) picked(name, label, value, nothing string) g.Node {
	return g.Group{Input(Type("hidden"), Name(name), Value(value)),
		Button(ID("pick-"+name), Type("button"), Class("picked"), Data("do", "pick"), Data("field-what", name), Data("nothing", nothing), Title(label),
			Span(Class("hidden"), g.Text(label+": ")), Span(Class("name"), g.Text(cmp.Or(shortModel(value), nothing))))}
}

// shortModel is the name of a model without its provider.
func shortModel(s string) string {
	if _, name, ok := strings.Cut(s, "/"); ok {
		return name
	}
	return s
}

// pick is the action that shows what can be chosen.
func (v *visit) pick(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ What string }](in)
	if err != nil {
		return nil, err
	}
	type choice struct{ value, name, about string }
	var list []choice
	title := v.t("Agent")
	if x.What == "model" {
		title = v.t("Model")
		list = append(list, choice{"", v.t("The agent's own"), v.t("The model that the agent or the settings name.")})
		listing, aliases := v.Node.Models(v.ctx())
		for _, a := range aliases {
			list = append(list, choice{a, a, v.t("a name in the settings")})
		}
		for _, m := range listing.Models {
			list = append(list, choice{m.Full(), m.Full(), ""})
		}
	} else {
		list = append(list, choice{"", v.t("Assistant"), v.t("Answers, and asks other agents where they know more.")})
		for _, a := range v.Node.Agents(v.ctx()) {
			if a.Path != kits.DefaultAgent {
				list = append(list, choice{a.Path, a.Path, a.Description})
			}
		}
	}
	return v.dialog(title, Div(Class("choice"),
		Input(Type("search"), Data("js-filter", "choices"), Placeholder(v.t("Filter")), Aria("label", v.t("Filter")), AutoFocus()),
		Ul(ID("choices"), g.Map(list, func(c choice) g.Node {
			return Li(Button(Type("button"), Data("js", "pick"), Data("name", x.What), Data("value", c.value), Span(ownText(c.name)), g.If(c.about != "", Span(Class("quiet"), ownText(c.about)))))
		})),
		Div(Class("row end"), Button(Type("button"), Data("js", "close"), g.Text(v.t("Cancel")))))), nil
}

// slash is a command that a person types. Those of the terminal that make sense here have the same names.
type slash struct {
	Name string `json:"name"`
	Args string `json:"args"`
	Does string `json:"does"`
}

func (v *visit) commands() []slash {
	return []slash{
		{"help", "", v.t("show these commands and the keys")},
		{"new", "", v.t("start a new conversation")},
		{"search", v.t("WORDS"), v.t("search all conversations")},
		{"edit", "", v.t("replace your last message")},
		{"again", "", v.t("get another answer")},
		{"prev", "", v.t("switch to the version before")},
		{"next", "", v.t("switch to the next version")},
		{"rewind", "", v.t("go back to before your last message")},
		{"compact", "", v.t("replace old messages with a summary")},
		{"title", v.t("TEXT"), v.t("give this conversation a title")},
		{"model", "", v.t("choose a model")},
		{"agent", "", v.t("choose an agent")},
		{"plan", v.t("TEXT"), v.t("have a request planned; you approve the plan first")},
		{"export", "", v.t("save this conversation as a file")},
		{"share", "", v.t("make a link to read this conversation")},
		{"memory", "", v.t("see what is remembered")},
		{"log", "", v.t("see what was done")},
		{"agents", "", v.t("see the agents")},
		{"undo", "", v.t("forget what was remembered last")},
		{"stop", "", v.t("stop the answer")},
	}
}

// help is the action that shows commands and keys.
func (v *visit) help(json.RawMessage) (*reply, error) {
	keys := [][2]string{{"Enter", v.t("send; while the assistant is at work, it reads the message at its next step")}, {"Alt+Enter", v.t("send when the answer is complete")},
		{"Shift+Enter", v.t("a new line")}, {"↑", v.t("replace your last message")}, {"Esc", v.t("stop the answer, or close what is open")}, {"/", v.t("write, or a command")}, {"n", v.t("a new conversation")}, {"g a · g c · g s", v.t("go to approvals, the chat, the settings")}, {"↓", v.t("in a list: the next one; Enter chooses")}, {"?", v.t("show these commands and the keys")}}
	return v.dialog(v.t("Commands and keys"), Div(
		Dl(Class("keys"), TabIndex("0"), g.Map(v.commands(), func(c slash) g.Node {
			return g.Group{Dt(Code(g.Text("/" + strings.TrimSpace(c.Name+" "+c.Args)))), Dd(g.Text(c.Does))}
		}), g.Map(keys, func(k [2]string) g.Node { return g.Group{Dt(Kbd(g.Text(k[0]))), Dd(g.Text(k[1]))} })),
		Div(Class("row end"), Button(Type("button"), Class("primary"), Data("js", "close"), AutoFocus(), g.Text(v.t("Close")))))), nil
}

// command is the action that runs a slash command which the browser cannot run by itself.
func (v *visit) command(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Name, Args string }](in)
	if err != nil {
		return nil, err
	}
	if x.Conversation == "" {
		return nil, fault.New(fault.Invalid, "conversation_missing", "there is no conversation yet").WithHint("send a message first")
	}
	var route string
	var body map[string]any
	switch x.Name {
	case "title":
		return v.rename(fieldsOf(map[string]string{"conversation": x.Conversation, "title": x.Args}))
	case "rewind":
		route, body = "POST /conversations/{id}/rewind", map[string]any{"message": x.Args}
	case "compact":
		route, body = "POST /conversations/{id}/tidy", map[string]any{"how": "compact"}
	default:
		return nil, fault.New(fault.NotFound, "command_unknown", "there is no command /%.40s", x.Name).WithHint("/help shows them")
	}
	if err := v.api().Call(v.ctx(), route, client.Params{"id": x.Conversation}, body, nil); err != nil {
		return nil, err
	}
	return &reply{Go: "/chat/" + x.Conversation}, nil
}

// fieldsOf are the fields of an action.
func fieldsOf(x map[string]string) json.RawMessage {
	b, err := json.Marshal(x)
	if err != nil {
		panic(err) // strings: cannot fail
	}
	return b
}

// pendings are messages that wait: for a step of the run that is at work, or for its end. The request of a browser
// that sent one waits with it. If the browser leaves, the message still counts; the person can withdraw it until
// it is taken. Safe for concurrent use.
type pendings struct {
	mu   sync.Mutex
	list map[string]*pendingMessage // by user and the browser's id of the message
}

type pendingMessage struct {
	ctx    context.Context
	cancel context.CancelFunc
	users  int
}

// enter returns the context of a message, which ends when it is withdrawn. A browser that sends a message again,
// because its page was loaded again, shares it.
func (p *pendings) enter(ctx context.Context, key string) (context.Context, func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.list[key]
	if x == nil {
		x = &pendingMessage{}
		x.ctx, x.cancel = context.WithCancel(context.WithoutCancel(ctx))
		if p.list == nil {
			p.list = map[string]*pendingMessage{}
		}
		p.list[key] = x
	}
	x.users++
	return x.ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if x.users--; x.users == 0 {
			x.cancel()
			delete(p.list, key)
		}
	}
}

func (p *pendings) withdraw(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.list[key]; x != nil {
		x.cancel()
	}
}

// withdraw is the action that takes a message back which waits.
func (v *visit) withdraw(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID string }](in)
	if err == nil {
		v.pending.withdraw(v.caller.User + " " + x.ID)
	}
	return nil, err
}

// sendMessage is the action "send". It answers when the message is stored. While the assistant is at work, that is
// at its next step (steer) or after its answer. The reply's data is "withdrawn" if it was taken back before.
func (v *visit) sendMessage(in json.RawMessage) (*reply, error) {
	x, err := read[struct {
		Conversation, Text, Agent, Model, ID, Replace string
		Plan, Steer                                   bool
		Keep                                          []int // attachments of the message that is replaced
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
		if t.Conversation, err = conversationID(x.Conversation); err != nil {
			return nil, err
		}
	}
	if x.Replace != "" {
		var ok bool
		if t.Replace, ok = id.Parse(x.Replace); !ok {
			return nil, fault.New(fault.NotFound, "message_not_found", "there is no message %.80q", x.Replace)
		}
	}
	kept, err := v.keptFiles(x.Conversation, x.Replace, x.Keep)
	if err != nil {
		return nil, err
	}
	size := len(x.Text)
	if strings.TrimSpace(x.Text) != "" {
		t.Content = append(t.Content, &message.Text{Text: x.Text})
	}
	t.Content = append(t.Content, kept...)
	for _, f := range x.Files {
		size += len(f.Data)
		if slices.Contains(pictures(), f.MIME) {
			t.Content = append(t.Content, &message.Image{MIME: f.MIME, Data: f.Data})
		} else {
			t.Content = append(t.Content, &message.File{Name: f.Name, MIME: f.MIME, Data: f.Data})
		}
	}
	if err := v.caller.Store(v.ctx(), int64(size)); err != nil {
		return nil, err
	}
	ctx, leave := v.pending.enter(v.ctx(), v.caller.User+" "+cmp.Or(x.ID, id.New().String()))
	defer leave()
	acc, err := v.caller.Send(ctx, v.Node, t)
	if err != nil && ctx.Err() != nil {
		return &reply{Data: "withdrawn"}, nil
	}
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

// keptFiles are the files and pictures of a message that is edited, which its new version keeps.
func (v *visit) keptFiles(conv, msg string, blocks []int) (out []message.Block, err error) {
	if len(blocks) == 0 {
		return nil, nil
	}
	m, err := v.find(conv, msg)
	if err != nil {
		return nil, err
	}
	for _, i := range blocks {
		if i < 0 || i >= len(m.Blocks) {
			continue
		}
		switch b := m.Blocks[i].(type) {
		case *message.Image:
			out = append(out, &message.Image{MIME: b.MIME, Data: b.Data, URL: b.URL})
		case *message.File:
			out = append(out, &message.File{Name: b.Name, MIME: b.MIME, Data: b.Data})
		}
	}
	return out, nil
}

// pictures are the types of pictures that models see. Others are files.
func pictures() []string { return []string{"image/png", "image/jpeg", "image/gif", "image/webp"} }

func conversationID(s string) (id.ID, error) {
	conv, ok := id.Parse(s)
	if !ok {
		return id.ID{}, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80q", s)
	}
	return conv, nil
}

func (v *visit) regenerate(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Message string }](in)
	if err != nil {
		return nil, err
	}
	conv, err := conversationID(x.Conversation)
	if err != nil {
		return nil, err
	}
	msg, ok := id.Parse(x.Message)
	if !ok {
		return nil, fault.New(fault.NotFound, "message_not_found", "there is no message %.80q", x.Message)
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
	conv, err := conversationID(x.Conversation)
	if err != nil {
		return nil, err
	}
	return nil, v.Node.Stop(v.ctx(), v.caller.User, conv)
}
