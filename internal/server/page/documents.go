package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/record"
)

// How often an open page looks whether documents have changed: while a folder is read, and otherwise.
const (
	documentsSoon  = 3 * time.Second
	documentsLater = 20 * time.Second
)

const (
	documentPage = 50 // documents, and passages of one, that are shown at a time
	documentHits = 20
)

// documentsScreen lists documents and watched folders, and searches them.
func (v *visit) documentsScreen() (content, error) {
	q := v.r.URL.Query()
	list, err := v.api().Documents(v.ctx())
	if err != nil {
		return content{}, err
	}
	var hits g.Node
	if query := strings.TrimSpace(q.Get("q")); query != "" {
		if hits, err = v.documentHits(query); err != nil {
			return content{}, err
		}
	}
	shown := atLeast(q.Get("shown"), documentPage)
	return content{title: v.t("Documents"), nav: "memory", live: "of=documents&shown=" + strconv.Itoa(shown), main: Div(
		head(v.t("Memory")), v.memoryTabs("/documents"),
		Form(Class("filter"), Role("search"), Action("/documents"), Method("get"), Data("get", ""),
			Input(Type("search"), Name("q"), Value(q.Get("q")), Placeholder(v.t("Search in all documents")), Aria("label", v.t("Search in all documents"))), Button(Type("submit"), g.Text(v.t("Search")))),
		hits,
		Div(ID("drop"), Data("upload", "/documents"),
			Label(Class("button"), v.icon("plus"), g.Text(v.t("Add files")), Input(ID("upload-files"), Class("hidden"), Type("file"), Multiple())),
			P(Class("quiet"), g.Text(v.t("Or drop them here: PDF, Word, Markdown, HTML, mail, text. Steward finds them when you ask."))),
			Label(Class("check"), Input(ID("upload-own"), Type("checkbox")), g.Text(v.t("I have written these files myself"))),
			Ul(ID("uploads"), Aria("live", "polite"))),
		v.documentList(&list, shown))}, nil
}

// documentList is all that changes by itself.
func (v *visit) documentList(list *client.DocumentList, shown int) g.Node {
	docs := slices.SortedStableFunc(slices.Values(list.Documents), func(a, b client.Document) int { return b.Changed.Compare(a.Changed) })
	body := g.Group{}
	if len(list.Folders) > 0 {
		body = append(body, H2(g.Text(v.t("Watched folders"))), Ul(Class("list"), g.Map(list.Folders, v.folder)))
	}
	if len(docs) == 0 {
		body = append(body, empty(v.t("There are no documents yet. Add files above, or have Steward watch a folder: set documents.folders in the configuration.")))
	} else {
		body = append(body, H2(g.Text(v.t("Documents")+" "), Span(Class("quiet"), g.Text(strconv.Itoa(len(docs))))),
			Ul(Class("list"), g.Map(docs[:min(shown, len(docs))], func(d client.Document) g.Node { return v.documentItem(&d) })),
			v.showMore("/documents", url.Values{}, shown, len(docs)))
	}
	return Section(ID("documents"), body)
}

func (v *visit) folder(f client.DocumentFolder) g.Node {
	done := 0.0
	if f.Found > 0 {
		done = float64(f.Read+f.Refused) / float64(f.Found)
	}
	return Li(P(v.icon("file"), g.Text(" "), Code(Class("own"), g.Text(visible(f.Path)))),
		P(Class("quiet"), g.Text(v.t("{n} of {all} files are read", strconv.Itoa(f.Read), strconv.Itoa(f.Found))), g.If(f.Refused > 0, g.Text(" · "+v.t("{n} cannot be read", strconv.Itoa(f.Refused)))),
			g.If(f.Reading != "", g.Group{g.Text(" · " + v.t("now:") + " "), ownText(f.Reading)})),
		g.If(f.Found > 0, progressBar(min(done, 1))),
		g.If(f.Error != "", P(Class("error"), ownText(f.Error))))
}

func (v *visit) documentItem(d *client.Document) g.Node {
	state := Span(Class("state good"), g.Text(v.t("ready")))
	if d.Status != "ready" {
		state = Span(Class("state bad"), g.Text(v.t("cannot be read")))
	}
	return Li(ID("document-"+d.ID), Div(Class("row top"), Div(Class("grow"),
		P(A(Href("/documents/"+d.ID), ownText(named(d.Title, d.Name))), g.Text(" "), state),
		P(Class("quiet"), v.documentAbout(d)),
		g.If(d.Status != "ready" && d.Reason != "", P(Class("error"), ownText(d.Reason)))),
		v.iconButton("document-remove-ask", "trash", v.t("Remove {name} …", short(d.Name, 60)), "id", d.ID, "name", d.Name)))
}

func (v *visit) documentAbout(d *client.Document) g.Node {
	return g.Group{ownText(named(d.Path, d.Name)), g.Text(" · " + size(d.Size)), g.If(d.Pages > 0, g.Text(" · "+v.t("pages: {n}", strconv.Itoa(d.Pages)))),
		g.Text(" · " + v.t("passages: {n}", strconv.Itoa(d.Passages))), g.If(d.Cut, g.Text(" · "+v.t("the end is not searched"))),
		g.If(d.Own, g.Text(" · "+v.t("your own text"))), g.Text(" · "), when(d.Changed)}
}

func size(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%d KB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

func (v *visit) documentHits(query string) (g.Node, error) {
	hits, err := v.api().SearchDocuments(v.ctx(), query, documentHits)
	if err != nil {
		return nil, err
	}
	if len(hits) == 0 {
		return P(ID("hits"), Class("quiet"), g.Text(v.t("Nothing was found. Try other words."))), nil
	}
	return Section(ID("hits"), H2(g.Text(v.t("Found"))), Ol(Class("list"), g.Map(hits, func(h client.DocumentHit) g.Node {
		return Li(P(A(Href("/documents/"+h.Document), ownText(h.Cite)), g.If(h.Heading != "", g.Group{g.Text(" · "), ownText(h.Heading)})),
			g.El("blockquote", Class("passage"), ownText(short(h.Text, 600))))
	}))), nil
}

// documentScreen shows the text of a document by its passages.
func (v *visit) documentScreen() (content, error) {
	d, err := v.api().Document(v.ctx(), v.r.PathValue("document"))
	if err != nil {
		return content{}, err
	}
	shown := atLeast(v.r.URL.Query().Get("shown"), documentPage)
	title := named(d.Title, d.Name)
	return content{title: title, nav: "memory", main: Div(
		head(visible(title), A(Class("button"), Href("/documents"), g.Text(v.t("All documents"))), v.button("document-remove-ask", v.t("Remove …"), "danger", "id", d.ID, "name", d.Name)),
		P(Class("quiet"), v.documentAbout(&d)),
		g.If(d.Status != "ready", P(Class("failure"), ownText(d.Reason))),
		g.If(d.Notice != "", P(Class("label"), v.icon("warn"), ownText(d.Notice))),
		g.If(!d.Own, P(Class("label"), v.icon("warn"), g.Text(v.t("This text comes from others.")))),
		Ol(Class("list passages"), g.Map(d.Text[:min(shown, len(d.Text))], func(p client.Passage) g.Node {
			return Li(P(Class("quiet"), ownText(p.Cite), g.If(p.Heading != "", g.Group{g.Text(" · "), ownText(p.Heading)})), Div(Class("typed"), Dir("auto"), g.Text(visible(p.Text))))
		})),
		v.showMore("/documents/"+d.ID, url.Values{}, shown, len(d.Text)))}, nil
}

// upload adds the file in the request's body, whose path is in the address.
func (s *server) upload(w http.ResponseWriter, r *http.Request) {
	in := r.Clone(r.Context())
	in.URL.Path = client.Prefix + "/documents"
	in.RequestURI = in.URL.RequestURI()
	s.API.ServeHTTP(w, in)
}

// documentsShown is the action that shows the list again.
func (v *visit) documentsShown(json.RawMessage) (*reply, error) {
	list, err := v.api().Documents(v.ctx())
	if err != nil {
		return nil, err
	}
	return &reply{Patches: []patch{put("documents", "", v.documentList(&list, documentPage))}}, nil
}

func (v *visit) documentRemoveAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Name string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Remove?"), Form(Data("do", "document-remove"), hiddenFields("id", x.ID),
		P(ownText(x.Name)), P(g.Text(v.t("Steward erases the text of this document, and no longer finds it. The file itself stays where it is."))),
		v.dialogButtons(v.t("Remove")))), nil
}

func (v *visit) documentRemove(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID string }](in)
	if err != nil {
		return nil, err
	}
	if _, err := v.api().RemoveDocument(v.ctx(), x.ID); err != nil {
		return nil, err
	}
	return &reply{Go: "/documents"}, nil
}

// liveDocuments follows the folders and documents, and how far they are read.
func (v *visit) liveDocuments() subject {
	shown := atLeast(v.r.URL.Query().Get("shown"), documentPage)
	return subject{name: "documents " + strconv.Itoa(shown), pause: documentsSoon, types: []string{record.TypeDocument}, look: func(ctx context.Context, _ cause) ([]patch, time.Duration, error) {
		list, err := v.api().Documents(ctx)
		if err != nil {
			return nil, 0, err
		}
		again := documentsLater
		if slices.ContainsFunc(list.Folders, func(f client.DocumentFolder) bool { return f.Reading != "" || f.Read+f.Refused < f.Found }) {
			again = documentsSoon
		}
		return []patch{put("documents", "", v.documentList(&list, shown))}, again, nil
	}}
}
