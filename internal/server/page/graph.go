package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/memory/graph"
	"steward/internal/record"
	"steward/internal/resource"
)

const (
	pictureNodes  = 60 // that a picture shows at most
	relationsRead = 40 // of the entity in its middle
	outerAsked    = 12 // neighbours whose own neighbours are shown
	outerRead     = 6  // of each
	graphRows     = 200
)

const rdfsLabel = "<http://www.w3.org/2000/01/rdf-schema#label>"

// graphScreen shows an entity with its neighbours as a picture and as a table, or an overview.
func (v *visit) graphScreen() (content, error) {
	of := strings.TrimSpace(v.r.URL.Query().Get("of"))
	var body g.Node
	if of == "" {
		body = v.graphOverview()
	} else {
		e, err := v.api().Neighbours(v.ctx(), of, relationsRead)
		switch {
		case fault.Is(err, fault.NotFound) || fault.HasCode(err, "entity_ambiguous"):
			body = Div(empty(fault.Of(err).Message), P(Class("quiet"), g.Text(fault.Of(err).Remedy)))
		case err != nil:
			return content{}, err
		default:
			body = v.entity(&e)
		}
	}
	return content{title: v.t("Graph"), nav: "memory", main: Div(
		head(v.t("Memory"), v.button("graph-import-ask", v.t("Import …"), ""), v.graphExportMenu()), v.memoryTabs("/memory/graph"),
		Form(Class("filter"), Role("search"), Action("/memory/graph"), Method("get"), Data("get", ""),
			Input(Type("search"), Name("of"), Value(of), Placeholder(v.t("A person, place or thing")), Aria("label", v.t("A person, place or thing"))), Button(Type("submit"), g.Text(v.t("Show")))),
		body,
		Details(Class("fold"), Summary(g.Text(v.t("Query in SPARQL"))),
			Form(Data("do", "graph-query"), Label(g.Text(v.t("Query")), Textarea(Name("query"), Class("code"), Rows("5"), Required(), MaxLength("20000"), Dir("ltr"), g.Text("SELECT ?who ?where {\n  ?who <urn:steward:relation:works_at> ?where\n}"))),
				Div(Class("row"), Button(Type("submit"), Class("primary"), g.Text(v.t("Run"))))),
			Div(ID("graph-answer"))))}, nil
}

func (v *visit) graphExportMenu() g.Node {
	item := func(format, label string) g.Node {
		return A(Href("/memory/graph/export?format="+format), Download(""), g.Text(label))
	}
	return Details(Class("menu"), Summary(Aria("label", v.t("Export")), Title(v.t("Export")), v.icon("download")), Div(Class("items"),
		item(graph.Turtle, "Turtle"), item(graph.NTriples, "N-Triples"), item(graph.JSONLD, "JSON-LD")))
}

// graphOverview shows some of what is connected.
func (v *visit) graphOverview() g.Node {
	a, err := v.api().QueryGraph(v.ctx(), "SELECT ?a ?x ?p ?b ?y { ?a ?p ?b . ?a "+rdfsLabel+" ?x . ?b "+rdfsLabel+" ?y }", 2*pictureNodes)
	if err != nil {
		return P(Class("quiet"), g.Text(v.t("Search for a person, a place or a thing to see what is known of it.")))
	}
	if len(a.Rows) == 0 {
		return empty(v.t("The graph is empty. Steward adds to it what it learns about people, places and things; you can import a file too."), v.button("graph-import-ask", v.t("Import …"), "primary"))
	}
	p := newPicture("")
	for _, r := range a.Rows {
		p.edge(p.node(iri(r["a"]), literalText(r["x"])), p.node(iri(r["b"]), literalText(r["y"])), graph.Words(iri(r["p"])))
	}
	return g.Group{v.picture(p, v.t("Some of what is connected")), v.pictureTable(p)}
}

// entity shows something with its relations.
func (v *visit) entity(e *client.Entity) g.Node {
	p := newPicture(e.ID)
	middle := p.node(e.ID, e.Label)
	var around []string
	for _, r := range e.Relations {
		if r.ID == "" {
			continue
		}
		n := p.node(r.ID, r.Label)
		if r.Inverse {
			p.edge(n, middle, r.Words)
		} else {
			p.edge(middle, n, r.Words)
		}
		around = append(around, r.ID)
	}
	v.outer(p, around)
	return g.Group{
		H2(ID("entity"), ownText(e.Label)),
		g.If(len(p.edges) > 0, v.picture(p, v.t("{name} and its neighbours", short(e.Label, 60)))),
		g.If(len(e.Relations) > 0, v.relations(e)),
		g.If(e.More, P(Class("quiet"), g.Text(v.t("There is more. Ask for it in SPARQL below.")))),
		g.If(len(e.Facts) > 0, g.Group{H2(g.Text(v.t("Facts"))), Ul(Class("list"), g.Map(e.Facts, func(f client.Fact) g.Node {
			return Li(v.factText(&f), P(Class("quiet"), v.factAbout(&f), g.Text(" · "), v.whyLink(&f)))
		}))}),
		g.If(len(e.Texts)+len(e.Passages) > 0, g.Group{H2(g.Text(v.t("Where it is mentioned"))), Ul(Class("list"), g.Map(append(e.Texts, e.Passages...), func(t client.SourceText) g.Node {
			return Li(P(Class("quiet"), ownText(named(t.Cite, t.Source)), g.If(!t.At.IsZero(), g.Group{g.Text(" · "), when(t.At)})), g.El("blockquote", Class("passage"), ownText(short(t.Text, 400))))
		}))})}
}

// outer adds what the neighbours of an entity are connected with.
func (v *visit) outer(p *picture, around []string) {
	for _, of := range around[:min(outerAsked, len(around))] {
		if strings.HasPrefix(of, "_:") || strings.ContainsAny(of, "<>\"{}|^`\\ \n\t") {
			continue
		}
		a, err := v.api().QueryGraph(v.ctx(), "SELECT ?p ?b ?n { <"+of+"> ?p ?b . ?b "+rdfsLabel+" ?n }", outerRead)
		if err != nil {
			continue // the picture shows what it can
		}
		for _, r := range a.Rows {
			if b := iri(r["b"]); b != p.middle {
				p.edge(p.node(of, ""), p.node(b, literalText(r["n"])), graph.Words(iri(r["p"])))
			}
		}
	}
}

func entityLink(id string) string { return "/memory/graph?of=" + url.QueryEscape(id) }

func (v *visit) relations(e *client.Entity) g.Node {
	cites := map[string]string{}
	for _, t := range e.Texts {
		cites[t.Source] = t.Cite
	}
	return Div(Class("scroll-x"), TabIndex("0"), Role("region"), Aria("label", v.t("Relations")), Table(ID("relations"), Class("wide-table"),
		THead(Tr(Th(g.Text(v.t("Relation"))), Th(g.Text(v.t("With"))), Th(g.Text(v.t("Since"))), Th(g.Text(v.t("Source"))))),
		TBody(g.Map(e.Relations, func(r client.Neighbour) g.Node {
			words := r.Words
			if r.Inverse {
				words = "← " + words
			}
			other := ownText(r.Label)
			if r.ID != "" {
				other = A(Href(entityLink(r.ID)), other)
			}
			return Tr(Td(ownText(words)), Td(other), Td(when(r.At)), Td(v.sources(r.Sources, cites)))
		}))))
}

// sources names what relations come from. cites say it in words, as far as they are known.
func (v *visit) sources(list []string, cites map[string]string) g.Node {
	return g.Map(list[:min(3, len(list))], func(s string) g.Node {
		if s == "person" {
			return Div(g.Text(v.t("you")))
		}
		at, err := resource.Parse(s)
		if err != nil {
			return Div(Code(Class("source"), ownText(short(s, 40))))
		}
		link := func(to, label string) g.Node { return Div(A(Href(to), ownText(named(cites[s], label)))) }
		if d := record.IDOf(at, record.TypeDocument); !d.Zero() {
			return link("/documents/"+d.String(), v.t("a document"))
		}
		if f := record.IDOf(at, record.TypeFact); !f.Zero() {
			return link("/memory/facts/"+f.String(), v.t("a fact"))
		}
		if c := record.IDOf(at, record.TypeConversation); !c.Zero() {
			return link("/chat/"+c.String(), v.t("A conversation"))
		}
		return Div(Code(Class("source"), ownText(short(s, 40))))
	})
}

// graphQuery answers a query.
func (v *visit) graphQuery(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Query string }](in)
	if err != nil {
		return nil, err
	}
	a, err := v.api().QueryGraph(v.ctx(), x.Query, graphRows)
	if err != nil {
		f := fault.Of(err)
		if f.Kind == fault.Internal {
			return nil, err
		}
		return v.graphAnswer(Div(Class("failure"), Role("alert"), P(ownText(f.Message)), g.If(f.Remedy != "", P(Class("quiet"), ownText(f.Remedy))))), nil
	}
	switch {
	case a.Boolean != nil && *a.Boolean:
		return v.graphAnswer(P(g.Text(v.t("Yes.")))), nil
	case a.Boolean != nil:
		return v.graphAnswer(P(g.Text(v.t("No.")))), nil
	case a.Vars == nil:
		return v.graphAnswer(Pre(Dir("ltr"), TabIndex("0"), g.Text(visible(a.Triples)))), nil
	}
	return v.graphAnswer(
		P(Class("quiet"), g.Text(v.t("Rows: {n}", strconv.Itoa(len(a.Rows)))), g.If(a.More, g.Text(" · "+v.t("there are more")))),
		Div(Class("scroll-x"), TabIndex("0"), Role("region"), Aria("label", v.t("Answer")), Table(THead(Tr(g.Map(a.Vars, func(s string) g.Node { return Th(g.Text(s)) }))),
			TBody(g.Map(a.Rows, func(r map[string]string) g.Node {
				return Tr(g.Map(a.Vars, func(s string) g.Node { return Td(v.term(r[s])) }))
			}))))), nil
}

func (v *visit) graphAnswer(nodes ...g.Node) *reply {
	return &reply{Patches: []patch{put("graph-answer", "", Div(ID("graph-answer"), Role("status"), g.Group(nodes)))}}
}

// term shows a term; an entity is a link.
func (v *visit) term(s string) g.Node {
	if at := iri(s); at != s {
		return A(Href(entityLink(at)), ownText(graph.Words(at)))
	}
	return ownText(literalText(s))
}

// iri returns the IRI of a term in N-Triples, or the term as it is if it is none.
func iri(s string) string {
	if strings.HasPrefix(s, "<") && strings.HasSuffix(s, ">") {
		return s[1 : len(s)-1]
	}
	return s
}

// literalText returns the text of a literal in N-Triples.
func literalText(s string) string {
	end := strings.LastIndex(s, `"`)
	if !strings.HasPrefix(s, `"`) || end < 1 {
		return iri(s)
	}
	if out, err := strconv.Unquote(s[:end+1]); err == nil {
		return out
	}
	return s[1:end]
}

func (v *visit) graphImportAsk(json.RawMessage) (*reply, error) {
	return v.dialog(v.t("Import into the graph"), Form(Data("do", "graph-import"),
		Label(g.Text(v.t("Format")), Select(Name("format"), Option(Value(graph.Turtle), g.Text("Turtle")), Option(Value(graph.NTriples), g.Text("N-Triples")), Option(Value(graph.JSONLD), g.Text("JSON-LD")))),
		Label(g.Text(v.t("Choose a file")), Input(Type("file"), Data("into", "graph-text"), Accept(".ttl,.nt,.jsonld,.json,text/turtle"))),
		Label(g.Text(v.t("Or paste its text")), Textarea(ID("graph-text"), Name("text"), Class("code"), Rows("8"), Required(), Dir("ltr"))),
		Label(Class("check"), Input(Type("checkbox"), Name("own"), Value("yes")), g.Text(v.t("I have written this myself"))),
		v.dialogButtons(v.t("Import")))), nil
}

func (v *visit) graphImport(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Format, Text, Own string }](in)
	if err != nil {
		return nil, err
	}
	c, err := v.api().ImportGraph(v.ctx(), client.GraphDocument{Format: x.Format, Text: x.Text, Own: x.Own != ""})
	if err != nil {
		return nil, err
	}
	return &reply{Toast: v.t("Statements added: {n}", strconv.Itoa(c.Triples)), Go: "/memory/graph"}, nil
}

// exportGraph sends the graph as a file.
func (s *server) exportGraph(w http.ResponseWriter, r *http.Request) {
	v, err := s.visit(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	format := r.URL.Query().Get("format")
	d, err := v.api().ExportGraph(r.Context(), format, "")
	if err != nil {
		s.fail(w, r, err)
		return
	}
	kind, name := "text/turtle; charset=utf-8", "graph.ttl"
	switch d.Format {
	case graph.NTriples:
		kind, name = "application/n-triples", "graph.nt"
	case graph.JSONLD:
		kind, name = "application/ld+json", "graph.jsonld"
	}
	sendFile(w, r, kind, name, []byte(d.Text))
}
