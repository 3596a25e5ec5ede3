package page_test

import (
	"context"
	"iter"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/extract"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/memory"
	"steward/internal/memory/documents"
	"steward/internal/memory/graph"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/server/api"
	"steward/internal/turn"
)

// study is a house that remembers.
type study struct {
	*house
	facts *memory.Engine
}

// agreeing is a model that answers everything with "ok".
type agreeing struct{}

func (agreeing) Name() string             { return "test" }
func (a agreeing) Model(string) llm.Model { return a }
func (agreeing) Models(context.Context) ([]llm.Info, error) {
	return []llm.Info{{Name: "one", Window: 100_000}}, nil
}

func (agreeing) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		yield(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: "test/one", Stop: message.StopEnd, Blocks: []message.Block{&message.Text{Text: "ok"}}}}, nil)
	}
}

func newStudy(t *testing.T) *study {
	t.Helper()
	s := &study{}
	var papers *documents.Engine
	var triples *graph.Engine
	s.house = newHouseOf(t, furnishing{model: agreeing{},
		node: func(o *runtime.Options) {
			s.facts = memory.New(memory.Options{Store: o.Store})
			papers = documents.New(documents.Options{Store: o.Store, Path: filepath.Join(t.TempDir(), "documents.db"), Reader: extract.Reader{}})
			triples = graph.New(graph.Options{Store: o.Store})
			o.Memory = s.facts
		},
		api: func(o *api.Options) {
			o.Memory, o.Documents, o.Graph = s.facts, papers, triples
		},
		close: func() error { return papers.Close() }})
	return s
}

// sees requests a screen. Its HTML must have parts; those with a hyphen before them must be absent.
func (s *study) sees(user, path string, status int, parts ...string) string {
	s.t.Helper()
	html := s.get(user, path, status)
	s.has(html, parts...)
	return html
}

// outcome is the answer to an action.
type outcome struct {
	HTML string // of all patches
	Go   string
	Code string // of an error
}

func (s *study) does(user, name string, fields ...string) outcome {
	s.t.Helper()
	in := map[string]string{}
	for i := 0; i < len(fields); i += 2 {
		in[fields[i]] = fields[i+1]
	}
	d := s.do(user, name, in)
	return outcome{HTML: d.html(), Go: d.Go, Code: d.Error.Code}
}

// add adds a fact, and returns its id.
func (s *study) add(text, typ string) string {
	s.t.Helper()
	out := s.does("ana", "fact-save", "text", text, "type", typ)
	which, ok := strings.CutPrefix(out.Go, "/memory/facts/")
	if !ok {
		s.t.Fatalf("%+v", out)
	}
	return which
}

// A person sees what is remembered and why, changes it, takes changes back, and forgets it. All of it is that
// person's alone.
func TestFactsAreSeenChangedAndForgotten(t *testing.T) {
	s := newStudy(t)
	s.sees("ana", "/memory", 200, "Nothing is remembered yet.")
	tea := s.add("I like <b>tea</b>", "preference")
	s.add("Graz has a clock tower", "place")
	s.sees("ana", "/memory", 200, `id="fact-`+tea, "I like &lt;b&gt;tea&lt;/b&gt;", "clock tower")
	s.sees("ana", "/memory?type=preference", 200, "fact-"+tea, "-clock tower")
	s.sees("ana", "/memory?type=event", 200, "No fact fits.")
	s.sees("ana", "/memory/facts/"+tea, 200, "It was written by hand.", "by you", "It was not recalled yet.", `data-do="fact-undo"`)
	s.sees("eve", "/memory", 200, "-clock tower")
	s.sees("eve", "/memory/facts/"+tea, 404)
	for _, name := range []string{"fact-ask", "fact-forget-ask", "fact-forget", "fact-trust", "fact-undo"} {
		if out := s.does("eve", name, "id", tea); out.Code != "fact_not_found" {
			t.Errorf("%s: %+v", name, out)
		}
	}

	ask := s.does("ana", "fact-ask", "id", tea)
	s.has(ask.HTML, `data-do="fact-save"`, "I like &lt;b&gt;tea")
	out := s.does("ana", "fact-save", "id", tea, "text", "I like green tea", "type", "preference", "subject", "user", "importance", "0.5", "from", today(t, ask.HTML), "until", "")
	s.has(out.HTML, `id="fact-`+tea, "I like green tea")
	if out := s.does("ana", "fact-save", "id", tea, "text", "x", "type", "preference", "subject", "user", "importance", "much"); out.Code != "fields_invalid" {
		t.Errorf("%+v", out)
	}
	s.has(s.does("ana", "facts-changed").HTML, "I like green tea", `data-do="fact-undo"`)
	if out := s.does("ana", "fact-undo", "id", tea); out.Go != "/memory" {
		t.Errorf("%+v", out)
	}
	s.sees("ana", "/memory", 200, "I like &lt;b&gt;tea", "-green")
	s.sees("ana", "/memory/export?format=json", 200, `"I like \u003cb\u003etea`)
	s.sees("ana", "/memory/export", 200, "# Facts that Steward remembers")

	s.has(s.does("ana", "fact-forget-ask", "id", tea).HTML, "This cannot be undone", "-Erase that too")
	if out := s.does("ana", "fact-forget", "id", tea); out.Code != "" {
		t.Errorf("%+v", out)
	}
	s.sees("ana", "/memory", 200, "-I like")
	s.sees("ana", "/memory/facts/"+tea, 404)
}

// today returns the day since when the fact in a form is true.
func today(t *testing.T, html string) string {
	t.Helper()
	_, rest, ok := strings.Cut(html, `name="from" value="`)
	day, _, _ := strings.Cut(rest, `"`)
	if !ok {
		t.Fatal(html)
	}
	return day
}

// What others have written is a quotation until the person confirms it.
func TestFactsOfOthersAreQuotations(t *testing.T) {
	s := newStudy(t)
	text := "The invoice is paid"
	saved, err := s.facts.Save(t.Context(), "ana", client.FactInput{Text: &text}, record.FactAuthor{Call: id.New(), Actor: "program", Labels: message.Private | message.Untrusted})
	if err != nil {
		t.Fatal(err)
	}
	which := saved.Fact.ID.String()
	s.sees("ana", "/memory", 200, "<blockquote", "Others have written this.", `data-do="fact-trust"`)
	s.has(s.does("ana", "fact-trust", "id", which).HTML, `id="fact-`+which, "you have confirmed it", "-<blockquote")
}

// The page about the person is edited as a text. A page that is refused changes nothing, and the browser keeps
// what was typed; lines that are removed are asked about.
func TestTheProfileIsEdited(t *testing.T) {
	s := newStudy(t)
	tea := s.add("I like tea", "preference")
	version := func() string {
		_, rest, _ := strings.Cut(s.sees("ana", "/memory/profile", 200), `name="version" value="`)
		v, _, _ := strings.Cut(rest, `"`)
		return v
	}
	p, err := s.facts.Profile(t.Context(), "ana")
	if err != nil {
		t.Fatal(err)
	}
	out := s.does("ana", "profile-save", "version", version(), "text", strings.Replace(p.Text, "I like tea", "I like coffee", 1))
	if out.Go != "/memory/profile" {
		t.Fatalf("%+v", out)
	}
	s.sees("ana", "/memory/facts/"+tea, 200, "I like coffee")
	stale := s.does("ana", "profile-save", "version", "0", "text", strings.Replace(p.Text, "I like tea", "I like milk", 1))
	s.has(stale.HTML, `id="profile-error"`, "Nothing was saved.", `-id="profile"`)
	if stale.Go != "" {
		t.Errorf("%+v", stale)
	}
	s.sees("ana", "/memory/facts/"+tea, 200, "I like coffee")

	ask := s.does("ana", "profile-save", "version", version(), "text", "# Preferences\n")
	s.has(ask.HTML, "These facts are erased for good", "I like coffee", `name="erase"`)
	s.sees("ana", "/memory/facts/"+tea, 200)
	if out := s.does("ana", "profile-save", "version", version(), "text", "# Preferences\n", "erase", "yes"); out.Go == "" {
		t.Errorf("%+v", out)
	}
	s.sees("ana", "/memory/facts/"+tea, 404)
}

// Documents are added, searched, read and removed.
func TestDocumentsAreAddedFoundAndRemoved(t *testing.T) {
	s := newStudy(t)
	s.sees("ana", "/documents", 200, "There are no documents yet.", `data-upload="/documents"`, `data-live="of=documents`)
	for name, text := range map[string]string{"notes.md": "# Garden\n\nThe <i>roses</i> need water every evening.", "bad.pdf": "no pdf"} {
		res := s.request("ana", "POST", "/documents?own=true&path="+name, strings.NewReader(text))
		res.Body.Close()
		if res.StatusCode >= 300 {
			t.Fatal(name, res.Status)
		}
	}
	list := s.sees("ana", "/documents", 200, "notes.md", "bad.pdf", "cannot be read")
	_, rest, _ := strings.Cut(list, `href="/documents/`)
	s.sees("ana", "/documents?q=roses", 200, `id="hits"`, "notes.md:", "The &lt;i&gt;roses&lt;/i&gt;")
	s.sees("ana", "/documents?q=submarine", 200, "Nothing was found.", `-"passage"`)
	s.sees("eve", "/documents?q=roses", 200, "There are no documents yet.", `-"passage"`)
	s.sees("ana", "/documents/notes.md", 200, "The &lt;i&gt;roses&lt;/i&gt;", "your own text")
	which, _, _ := strings.Cut(rest, `"`)
	s.sees("eve", "/documents/"+which, 404)
	s.has(s.does("ana", "document-remove-ask", "id", which, "name", "bad.pdf").HTML, "The file itself stays")
	if out := s.does("eve", "document-remove", "id", which); out.Code != "document_not_found" {
		t.Errorf("%+v", out)
	}
	if out := s.does("ana", "document-remove", "id", which); out.Go != "/documents" {
		t.Errorf("%+v", out)
	}
	s.has(s.does("ana", "documents").HTML, `id="documents"`, "-/documents/"+which)
}

// The graph is a picture whose nodes lead to their own pictures. It is bounded, and a table says the same.
func TestTheGraphIsDrawn(t *testing.T) {
	s := newStudy(t)
	s.sees("ana", "/memory/graph", 200, "The graph is empty.")
	var text strings.Builder
	text.WriteString("@prefix : <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n:ann rdfs:label \"Ann <script>\" .\n")
	for i := range 100 {
		n := strconv.Itoa(i)
		text.WriteString(":p" + n + " rdfs:label \"Friend " + n + "\" . :ann <urn:steward:relation:knows> :p" + n + " .\n")
	}
	if out := s.does("ana", "graph-import", "format", "turtle", "text", text.String(), "own", "yes"); out.Go != "/memory/graph" {
		t.Fatalf("%+v", out)
	}
	if out := s.does("ana", "graph-import", "format", "turtle", "text", "no triples"); out.Code == "" {
		t.Errorf("%+v", out)
	}
	all := s.sees("ana", "/memory/graph", 200, `id="picture"`, "Ann &lt;script&gt;", "/memory/graph?of=http%3A%2F%2Fexample.org%2Fann", "As a table")
	if n := strings.Count(all, "<circle"); n != 60 {
		t.Errorf("%d nodes", n)
	}
	s.sees("ana", "/memory/graph?of="+url.QueryEscape("Friend 7"), 200, `id="picture"`, `id="relations"`, "Ann &lt;script&gt;", `class="dot middle"`)
	s.sees("ana", "/memory/graph?of=Nobody", 200, `-id="picture"`, "Nobody")
	s.sees("eve", "/memory/graph?of="+url.QueryEscape("Friend 7"), 200, `-id="picture"`)
	s.has(s.does("ana", "graph-query", "query", "SELECT ?who { <http://example.org/ann> <urn:steward:relation:knows> ?who } LIMIT 3").HTML, `id="graph-answer"`, "Rows: 3", "<table")
	s.has(s.does("ana", "graph-query", "query", "ASK { ?a ?b ?c }").HTML, "Yes.")
	s.has(s.does("ana", "graph-query", "query", "SELECT").HTML, `role="alert"`)
	s.sees("ana", "/memory/graph/export?format=ntriples", 200, "<http://example.org/ann>")
	s.sees("eve", "/memory/graph/export", 200, "-example.org")
}

// A conversation tells in quiet lines what it recalls and saves, and what its model reads.
func TestAConversationTellsWhatItRemembers(t *testing.T) {
	s := newStudy(t)
	rule := s.add("Always answer in one sentence", "instruction")
	chat := s.does("ana", "send", "text", "Hello").Go
	conv, ok := id.Parse(strings.TrimPrefix(chat, "/chat/"))
	if !ok {
		t.Fatal(chat)
	}
	said := ""
	for f, err := range s.node.Watch(t.Context(), "ana", conv, turn.Cursor{}) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == turn.FrameUser {
			said = record.InteractionURI(conv, f.Interaction).ChildID(record.TypeMessage, f.Message).String()
		}
		if f.Kind == turn.FrameComplete {
			break
		}
	}
	s.sees("ana", chat, 200, "Facts recalled: 1", "/memory/facts/"+rule, chat+"/context")
	s.sees("ana", "/memory/facts/"+rule, 200, chat+"?at=")
	s.sees("ana", chat+"/context", 200, `id="context"`, "part-profile", "Always answer in one sentence")
	s.sees("eve", chat+"/context", 404)

	text := "My dog is called Rex"
	saved, err := s.facts.Save(t.Context(), "ana", client.FactInput{Text: &text}, record.FactAuthor{Call: id.New(), Actor: "extraction", Source: said})
	if err != nil {
		t.Fatal(err)
	}
	which := saved.Fact.ID.String()
	s.sees("ana", chat, 200, `id="f-`+which, "Remembered:", text, `data-field-where="chat"`)
	s.has(s.does("ana", "fact-forget-ask", "id", which).HTML, "Erase that too?", `name="turns"`)
	out := s.does("ana", "fact-undo", "id", which, "where", "chat")
	s.has(out.HTML, `id="f-`+which, "No longer remembered:")
	if out.Go != "" {
		t.Errorf("%+v", out)
	}
	s.sees("ana", "/memory/facts/"+which, 404)
}
