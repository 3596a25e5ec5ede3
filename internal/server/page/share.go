package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// share is the action that shows the links by which a conversation can be read.
func (v *visit) share(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation string }](in)
	if err != nil {
		return nil, err
	}
	return v.shareDialog(x.Conversation, "")
}

func (v *visit) shareDialog(conv, made string) (*reply, error) {
	list, err := v.api().Shares(v.ctx(), conv)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Share this conversation"), Div(
		g.If(made != "", Div(Class("made"), Label(g.Text(v.t("The link. It is shown only now.")), Input(ID("share-link"), ReadOnly(), Value(made), AutoFocus())),
			Button(Type("button"), Class("primary"), Data("js", "copy-value"), Data("from", "share-link"), g.Text(v.t("Copy"))))),
		g.If(len(list) > 0, Ul(Class("list"), g.Map(list, func(s client.Share) g.Node {
			return Li(Class("row"), Span(g.Text(v.t("made"))), when(s.Created), Span(g.Text(v.t("until"))), when(s.Expires), g.If(s.Private, Span(Class("state warn"), g.Text(v.t("with what is private")))),
				Span(Class("space")), v.button("share-end", v.t("End"), "danger", "conversation", conv, "share", s.ID))
		}))),
		Form(Data("do", "share-new"), hiddenFields("conversation", conv),
			P(g.Text(v.t("Whoever has the link can read the messages of this conversation, also those to come, and do nothing else. They see no tools, thoughts and secrets."))),
			Label(g.Text(v.t("For how long?")), Select(Name("within"), Option(Value("24h"), g.Text(v.t("a day"))), Option(Value("168h"), Selected(), g.Text(v.t("a week"))), Option(Value("720h"), g.Text(v.t("30 days"))), Option(Value("8760h"), g.Text(v.t("a year"))))),
			Label(Input(Type("checkbox"), Name("private"), Value("yes")), g.Text(v.t("Also show what is private: attachments, and answers made of your mail, files and the like"))),
			v.dialogButtons(v.t("Make a link"))))), nil
}

func (v *visit) shareNew(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Within, Private string }](in)
	if err != nil {
		return nil, err
	}
	s, err := v.api().NewShare(v.ctx(), x.Conversation, client.NewShare{Within: x.Within, Private: x.Private != ""})
	if err != nil {
		return nil, err
	}
	return v.shareDialog(x.Conversation, v.pageURL()+s.Path)
}

func (v *visit) shareEnd(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Share string }](in)
	if err != nil {
		return nil, err
	}
	if err := v.api().EndShare(v.ctx(), x.Share); err != nil {
		return nil, err
	}
	out, err := v.shareDialog(x.Conversation, "")
	if err == nil {
		out.Toast = v.t("The link has ended")
	}
	return out, err
}

// shared shows a conversation to whoever has its link: what the person and the assistant have said, read-only.
func (s *server) shared(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Robots-Tag", "noindex, nofollow")
	n, err := s.sharedPage(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, r, http.StatusOK, n)
}

func (s *server) sharedPage(r *http.Request) (g.Node, error) {
	share, err := s.People.Shared(r.Context(), r.PathValue("user"), r.PathValue("secret"))
	if err != nil {
		return nil, err
	}
	v := &visit{server: s, r: r, lang: languageOf(r)} // nobody: it has no caller
	sc := store.ForUser(share.User)
	ended := fault.New(fault.NotFound, "share_ended", "this link has ended, or never existed").WithHint("ask whoever sent it for a new one")
	conv, err := s.Node.Conversations.Get(r.Context(), sc, share.Conversation)
	if fault.Is(err, fault.NotFound) {
		err = ended
	}
	if err != nil {
		return nil, err
	}
	list, next, err := s.Node.Conversations.Read(r.Context(), sc, share.Conversation, conversation.Reading{After: store.Cursor(r.URL.Query().Get("after")), Limit: 200})
	if err != nil {
		return nil, err
	}
	hide := message.Secret
	if !share.Private {
		hide |= message.Private
	}
	var nodes []g.Node
	title := v.t("A conversation")
	room := sharedPictures
	for _, e := range list {
		n, whole := v.sharedMessage(e.Message, hide, &room)
		nodes = append(nodes, n)
		if e.Role == message.User && whole && strings.HasPrefix(e.Text(), strings.TrimSuffix(conv.Title, "…")) {
			title = conv.Title // it is made of a message that can be read
		}
	}
	var more g.Node
	if next != "" {
		more = P(A(Class("button"), Href("?"+url.Values{"after": {string(next)}}.Encode()), g.Text(v.t("More"))))
	}
	return v.bare(title, Main(ID("main"), Class("page shared"),
		Header(Class("head"), H1(ownText(title)), P(Class("quiet"), g.Text(v.t("Shared, to read only, until")), g.Text(" "), when(share.Expires))),
		Div(ID(threadID), g.Group(nodes)), more)), nil
}

// sharedPictures is how many bytes of pictures a page of a shared conversation has in it.
const sharedPictures = 8 << 20

// sharedMessage shows a message without tools and thoughts, and without what has certain labels. whole: nothing was
// left out for them. Pictures are shown while there is room for them.
func (v *visit) sharedMessage(m *message.Message, hide message.Labels, room *int) (n g.Node, whole bool) {
	person := m.Role == message.User && len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == record.OriginUser
	if !person && m.Role != message.Assistant {
		return nil, true
	}
	whole = true
	var parts []g.Node
	for i, b := range m.Blocks {
		switch b := b.(type) {
		case *message.Text:
			if b.Labels&hide != 0 {
				whole = false
			} else if person {
				parts = append(parts, Div(Class("typed"), Dir("auto"), g.Text(visible(b.Text))))
			} else {
				parts = append(parts, v.textBlock(m.ID, i, b.Text), citations(b.Citations))
			}
		case *message.Image, *message.File:
			if b.Base().Labels&hide != 0 {
				whole = false
			} else if x, ok := b.(*message.Image); ok && len(x.Data) > *room {
				parts = append(parts, Span(Class("file"), v.icon("image"), g.Text(bytesOf(len(x.Data)))))
			} else {
				if ok {
					*room -= len(x.Data)
				}
				parts = append(parts, v.attachment("", b))
			}
		}
	}
	if !whole {
		parts = append(parts, P(Class("quiet"), g.Text(v.t("[A private part is not shown.]"))))
	}
	if len(parts) == 0 {
		return nil, whole
	}
	class, label := "msg assistant", v.t("Answer")
	if person {
		class, label = "msg user", v.t("Question")
	}
	return Article(Class(class), Aria("label", label), Div(Class("body"), g.Group(parts))), whole
}
