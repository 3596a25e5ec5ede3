package page

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/search"
	"steward/internal/server/auth"
)

// Bounds of the list of conversations.
const (
	listed      = 60  // conversations that the list shows
	looked      = 300 // conversations that are looked at for them
	listEvery   = 300 * time.Millisecond
	lookAgainIn = 2 * time.Second // whether the assistant is still at work
)

// shelf is the list of conversations beside the chat.
type shelf struct {
	pinned, recent []client.Conversation
	archived       int
	working        bool            // in one of them
	busy           map[string]bool // the assistant is at work
	asks           map[string]bool // a question waits for the person
}

func (v *visit) shelf(ctx context.Context) (shelf, error) {
	list, err := v.api().Conversations(ctx, looked)
	if err != nil {
		return shelf{}, err
	}
	questions, err := v.Node.Effects.Questions(ctx, v.caller.User)
	return v.arrange(list, questions), err
}

func (v *visit) arrange(list []client.Conversation, questions []effect.Question) (s shelf) {
	s.busy, s.asks = map[string]bool{}, map[string]bool{}
	asks := map[string]bool{}
	for _, q := range questions {
		asks[q.Conversation] = asks[q.Conversation] || q.Yours
	}
	for _, c := range list {
		switch {
		case c.Archived:
			s.archived++
			continue
		case c.Pinned:
			s.pinned = append(s.pinned, c)
		case len(s.recent) < listed:
			s.recent = append(s.recent, c)
		}
		if x, ok := id.Parse(c.ID); ok {
			s.busy[c.ID] = v.Node.Turns.Running(v.caller.User, x)
			s.asks[c.ID] = asks[record.ConversationURI(x).String()]
			s.working = s.working || s.busy[c.ID]
		}
	}
	return s
}

func (v *visit) conversationList(s shelf, current string) g.Node {
	return Aside(ID("conversations"), Aria("label", v.t("Conversations")),
		Div(Class("row"), A(Class("button new"), Href("/"), v.icon("plus"), g.Text(v.t("New chat"))),
			Details(Class("menu"), Summary(Aria("label", v.t("More about conversations")), v.icon("more")), Div(Class("items"),
				Label(Class("button"), g.Text(v.t("Import …")), Input(Type("file"), Class("hidden"), Data("upload", "import"), Accept(".json,.zip,.md,.jsonl,.ndjson"))),
				A(Href("/archive"), g.Text(v.t("Archive"))))),
			Button(Type("button"), Class("icon narrow-only"), Data("js", "list"), Aria("label", v.t("Close")), v.icon("no"))),
		Form(Role("search"), Action("/search"), Method("get"), Data("get", ""), Input(Type("search"), Name("q"), Placeholder(v.t("Search")), Aria("label", v.t("Search all conversations")))),
		v.conversationItems(s, current))
}

func (v *visit) conversationItems(s shelf, current string) g.Node {
	item := func(c client.Conversation) g.Node {
		var mark g.Node
		switch {
		case s.asks[c.ID]:
			mark = Span(Class("mark asks"), Title(v.t("waits for you")), v.icon("hand"), Span(Class("hidden"), g.Text(v.t("waits for you"))))
		case s.busy[c.ID]:
			mark = Span(Class("mark busy"), Title(v.t("at work")), Span(Class("hidden"), g.Text(v.t("at work"))))
		}
		return Li(A(Href("/chat/"+c.ID), g.If(current == c.ID, Aria("current", "page")), ownText(v.titleOf(&c)), mark))
	}
	return Div(ID("conversation-list"),
		g.If(len(s.pinned)+len(s.recent)+s.archived == 0, P(Class("quiet"), g.Text(v.t("Your conversations appear here.")))),
		g.If(len(s.pinned) > 0, g.Group{H2(g.Text(v.t("Pinned"))), Ul(g.Map(s.pinned, item))}),
		g.If(len(s.pinned) > 0 && len(s.recent) > 0, H2(g.Text(v.t("Recent")))),
		g.If(len(s.recent) > 0, Ul(g.Map(s.recent, item))),
		g.If(s.archived > 0, P(A(Class("quiet"), Href("/archive"), g.Text(v.t("Archive ({n})", strconv.Itoa(s.archived)))))))
}

func (v *visit) titleOf(c *client.Conversation) string {
	if c == nil || c.Title == "" {
		return v.t("New conversation")
	}
	return c.Title
}

// liveConversations keeps the list of conversations up to date, and the title of the open one.
func (v *visit) liveConversations() subject {
	current := v.r.URL.Query().Get("conversation")
	var conversations []client.Conversation
	deleted := false // the open one
	var questions []effect.Question
	return subject{name: "conversations " + current, pause: listEvery, asks: true, types: []string{record.TypeConversation}, look: func(ctx context.Context, why cause) (list []patch, again time.Duration, err error) {
		if why.joined || why.logged {
			conversations, err = v.api().Conversations(ctx, looked)
		}
		if err == nil && (why.joined || why.asked) {
			questions, err = v.Node.Effects.Questions(ctx, v.caller.User)
		}
		if err != nil {
			return nil, 0, err
		}
		s := v.arrange(conversations, questions)
		list = []patch{put("conversation-list", "", v.conversationItems(s, current))}
		if (why.joined || why.logged) && current != "" && !slices.ContainsFunc(conversations, func(c client.Conversation) bool { return c.ID == current }) {
			_, err := v.api().Conversation(ctx, current)
			deleted = fault.Is(err, fault.NotFound)
		}
		if deleted {
			list = append(list, put("failure", "end", Div(ID("failure"), Class("failure"), Role("alert"),
				P(g.Text(v.t("This conversation was deleted."))), P(A(Href("/"), g.Text(v.t("New chat")))))), v.busy(false))
		}
		for _, c := range append(s.pinned, s.recent...) {
			if c.ID == current {
				// The messages say at once whether the assistant is at work. This is for a page that was made just
				// before the end of an answer, and opened after it.
				list = append(list, put("title", "", H1(ID("title"), ownText(v.titleOf(&c)))), v.busy(s.busy[current]))
			}
		}
		if s.working {
			again = lookAgainIn
		}
		return list, again, nil
	}}
}

// chatMenu is what can be done with a conversation.
func (v *visit) chatMenu(conv *client.Conversation) g.Node {
	if conv == nil {
		return nil
	}
	pin, archive := v.t("Pin"), v.t("Put into the archive")
	if conv.Pinned {
		pin = v.t("Do not pin")
	}
	if conv.Archived {
		archive = v.t("Take out of the archive")
	}
	return Details(Class("menu"), ID("chat-menu"), Summary(Aria("label", v.t("More about this conversation")), v.icon("more")), Div(Class("items"),
		v.button("rename-ask", v.t("Rename …"), "", "conversation", conv.ID, "title", conv.Title),
		v.button("change-conversation", pin, "", "conversation", conv.ID, "pinned", strconv.FormatBool(!conv.Pinned)),
		v.button("change-conversation", archive, "", "conversation", conv.ID, "archived", strconv.FormatBool(!conv.Archived)),
		v.button("share", v.t("Share …"), "", "conversation", conv.ID),
		A(Href("/chat/"+conv.ID+"/context"), g.Text(v.t("What the model reads"))),
		A(Href("/chat/"+conv.ID+"/export?format=markdown"), Download(""), g.Text(v.t("Export as Markdown"))),
		A(Href("/chat/"+conv.ID+"/export?format=json"), Download(""), g.Text(v.t("Export as JSON"))),
		v.button("delete-conversation-ask", v.t("Delete …"), "danger", "conversation", conv.ID)))
}

// changeConversation is the action that pins and archives a conversation.
func (v *visit) changeConversation(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Pinned, Archived, Stay string }](in)
	if err != nil {
		return nil, err
	}
	var change client.ConversationChange
	out := &reply{}
	if x.Pinned != "" {
		yes := x.Pinned == "true"
		change.Pinned = &yes
		if out.Toast = v.t("No longer pinned"); yes {
			out.Toast = v.t("Pinned")
		}
	}
	if x.Archived != "" {
		yes := x.Archived == "true"
		change.Archived = &yes
		if out.Toast = v.t("Taken out of the archive"); yes {
			out.Toast = v.t("Archived")
		}
	}
	c, err := v.api().ChangeConversation(v.ctx(), x.Conversation, change)
	if err != nil {
		return nil, err
	}
	if x.Stay != "" {
		out.Patches = []patch{{ID: "archived-" + c.ID}}
		return out, nil
	}
	out.Patches = []patch{put("chat-menu", "", v.chatMenu(&c))}
	return out, nil
}

func (v *visit) renameAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Title string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Rename"), Form(Data("do", "rename"), hiddenFields("conversation", x.Conversation),
		Label(g.Text(v.t("Title")), Input(Name("title"), Value(x.Title), MaxLength("200"), Required(), AutoFocus())),
		v.dialogButtons(v.t("Rename")))), nil
}

func (v *visit) rename(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Title string }](in)
	if err != nil {
		return nil, err
	}
	c, err := v.api().ChangeConversation(v.ctx(), x.Conversation, client.ConversationChange{Title: &x.Title})
	if err != nil {
		return nil, err
	}
	return &reply{Patches: []patch{v.closed(), put("title", "", H1(ID("title"), ownText(v.titleOf(&c)))), put("chat-menu", "", v.chatMenu(&c))}}, nil
}

func (v *visit) deleteConversationAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation string }](in)
	if err != nil {
		return nil, err
	}
	c, err := v.api().Conversation(v.ctx(), x.Conversation)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Delete the conversation?"), Form(Data("do", "delete-conversation"), hiddenFields("conversation", c.ID),
		P(ownText(v.titleOf(&c)), g.Text(" · "), g.Text(v.t("{n} messages", strconv.Itoa(c.Messages)))),
		P(Class("quiet"), g.Text(v.t("What runs in it is stopped. It can be restored for a while with steward conversations undelete, and is then erased."))),
		Div(Class("row end"), Button(Type("button"), Data("js", "close"), AutoFocus(), g.Text(v.t("Cancel"))), Button(Type("submit"), Class("danger"), g.Text(v.t("Delete")))))), nil
}

func (v *visit) deleteConversation(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation string }](in)
	if err != nil {
		return nil, err
	}
	return &reply{Go: "/"}, v.api().DeleteConversation(v.ctx(), x.Conversation, false)
}

// archiveScreen lists the archived conversations.
func (v *visit) archiveScreen() (content, error) {
	list, err := v.api().Conversations(v.ctx(), 1000)
	if err != nil {
		return content{}, err
	}
	var items []g.Node
	for _, c := range list {
		if c.Archived {
			items = append(items, Li(ID("archived-"+c.ID), Class("row"), A(Href("/chat/"+c.ID), ownText(v.titleOf(&c))), Span(Class("space")), Span(Class("quiet"), when(c.Updated)),
				v.button("change-conversation", v.t("Take out"), "", "conversation", c.ID, "archived", "false", "stay", "yes")))
		}
	}
	body := Ul(Class("list"), g.Group(items))
	if len(items) == 0 {
		body = empty(v.t("Nothing is archived. Archive a conversation in its menu: it leaves the list, and can still be found."))
	}
	return content{title: v.t("Archive"), nav: "chat", main: Div(head(v.t("Archive")), body)}, nil
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

// importFile imports the conversations of a file, which is the body.
func (s *server) importFile(w http.ResponseWriter, r *http.Request) {
	v, err := s.visit(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	in := r.Clone(r.Context())
	in.URL = &url.URL{Path: client.Prefix + "/import", RawQuery: url.Values{"name": {r.URL.Query().Get("name")}}.Encode()}
	in.RequestURI = in.URL.RequestURI()
	got := &answer{header: http.Header{}, status: http.StatusOK}
	v.API.ServeHTTP(got, in)
	if got.status != http.StatusOK {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(got.status)
		w.Write(got.buf.Bytes()) //nolint:errcheck // the browser has gone
		return
	}
	var report struct {
		Imported []struct {
			ID, Title string
			Messages  int
		}
		Refused []struct{ Message, Remedy string }
		Notes   []string
	}
	if err := json.NewDecoder(&got.buf).Decode(&report); err != nil {
		s.fail(w, r, err)
		return
	}
	const most = 50
	list := report.Imported
	d := v.dialog(v.t("{n} conversations imported", strconv.Itoa(len(list))), Div(
		Ul(g.Map(list[:min(len(list), most)], func(c struct {
			ID, Title string
			Messages  int
		}) g.Node {
			title := c.Title
			if title == "" {
				title = v.t("New conversation")
			}
			return Li(A(Href("/chat/"+c.ID), ownText(title)), g.Text(" "), Span(Class("quiet"), g.Text(v.t("{n} messages", strconv.Itoa(c.Messages)))))
		})),
		g.If(len(list) > most, P(g.Text(v.t("and {n} more", strconv.Itoa(len(list)-most))))),
		g.If(len(report.Refused) > 0, g.Group{H3(g.Text(v.t("Not imported"))), Ul(g.Map(report.Refused[:min(len(report.Refused), most)], func(f struct{ Message, Remedy string }) g.Node {
			return Li(ownText(f.Message), g.If(f.Remedy != "", Span(Class("quiet"), g.Text(" "), ownText(f.Remedy))))
		}))}),
		g.Map(report.Notes[:min(len(report.Notes), most)], func(n string) g.Node { return P(Class("quiet"), ownText(n)) }),
		Div(Class("row end"), Button(Type("button"), Class("primary"), Data("js", "close"), AutoFocus(), g.Text(v.t("Close"))))))
	b, err := json.Marshal(d)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	auth.Reply(w, http.StatusOK, b)
}

// searchScreen searches all conversations.
func (v *visit) searchScreen() (content, error) {
	q := v.r.URL.Query()
	words := strings.TrimSpace(q.Get("q"))
	form := Form(Class("row finding"), Role("search"), Action("/search"), Method("get"), Data("get", ""),
		Input(Type("search"), Name("q"), Value(words), Placeholder(v.t("Search all conversations")), Aria("label", v.t("Search all conversations")), g.If(words == "", AutoFocus())),
		Select(Name("role"), Aria("label", v.t("Who said it")), g.Map([][2]string{{"", v.t("Everybody")}, {"user", v.t("You")}, {"assistant", v.t("The assistant")}, {"tool", v.t("Tools")}}, func(o [2]string) g.Node {
			return Option(Value(o[0]), g.If(q.Get("role") == o[0], Selected()), g.Text(o[1]))
		})),
		Button(Type("submit"), Class("primary"), g.Text(v.t("Search"))))
	c := content{title: v.t("Search"), nav: "chat"}
	if words == "" {
		c.main = Div(head(v.t("Search")), form, empty(v.t("Words are found in what you, the assistant and tools have said. \"Quotes\" find words that follow each other.")))
		return c, nil
	}
	var found search.Page
	err := v.api().Call(v.ctx(), "GET /search", client.Params{"q": words, "role": q.Get("role"), "limit": "30", "after": q.Get("after")}, nil, &found)
	if fault.Is(err, fault.Invalid) {
		c.main = Div(head(v.t("Search")), form, P(Class("error"), Role("alert"), g.Text(fault.Of(err).Message)))
		return c, nil
	}
	if err != nil {
		return content{}, err
	}
	body := Ol(Class("list hits"), g.Map(found.Hits, func(h search.Hit) g.Node { return v.hit(&h) }))
	if len(found.Hits) == 0 {
		body = empty(v.t("Nothing was found. Try fewer or other words."))
	}
	var more g.Node
	if found.Next != "" {
		next := url.Values{"q": {words}, "role": {q.Get("role")}, "after": {string(found.Next)}}
		more = P(A(Class("button"), Href("/search?"+next.Encode()), g.Text(v.t("More"))))
	}
	c.main = Div(head(v.t("Search")), form, body, more)
	return c, nil
}

func (v *visit) hit(h *search.Hit) g.Node {
	title := h.Title
	if title == "" {
		title = v.t("New conversation")
	}
	who := map[message.Role]string{message.User: v.t("You"), message.Assistant: v.t("The assistant"), message.Tool: v.t("Tool")}[h.Role]
	return Li(A(Class("hit"), Href("/chat/"+h.Conversation.String()+"?at="+h.Message.String()),
		Span(Class("row"), Strong(ownText(title)), Span(Class("space")), Span(Class("quiet"), g.Text(who+" · ")), Span(Class("quiet"), when(h.At))),
		Span(Class("found"), Dir("auto"), g.Group(marked(h.Text, h.Spans)))))
}

// marked shows a text with what matched in it.
func marked(s string, spans []search.Span) (out []g.Node) {
	at := 0
	for _, x := range spans {
		if x.From < at || x.To > len(s) || x.From >= x.To {
			continue
		}
		out = append(out, g.Text(visible(s[at:x.From])), g.El("mark", g.Text(visible(s[x.From:x.To]))))
		at = x.To
	}
	return append(out, g.Text(visible(s[at:])))
}
