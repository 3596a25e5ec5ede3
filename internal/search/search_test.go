package search_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/store"
	"steward/internal/tool"
	_ "steward/test/seed"
)

func words(s string) string {
	var out []string
	for t := range search.Tokens(s) {
		out = append(out, t.Text)
	}
	return strings.Join(out, " ")
}

func TestTokens(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		"  ...  ":                       "",
		"Hello, WORLD! x86_64":          "hello world x86 64",
		"don't":                         "don t",
		"Crème Brûlée":                  "creme brulee",
		"Cre\u0300me":                   "creme",
		"STRASSE Straße":                "strasse strasse",
		"Smørrebrød æon œuvre łódź đ ı": "smorrebrod aeon oeuvre lodz d i",
		"İstanbul":                      "istanbul",
		"ﬁne ２０３０ ＡＢＣ":                  "fine 2030 abc",
		"Ёлка й":                        "елка й",
		"Οδός ΟΔΟΣ":                     "οδοσ οδοσ",
		"שָׁלוֹם":                       "שלום",
		"كِتَابـــ أ":                   "كتاب ا",
		"日本語":                           "日本 本語 語",
		"日本。語":                          "日本 本 語",
		"か\u3099ん":                      "がん ん",
		"ｶﾞﾝ":                           "ガン ン",
		"한국":                            "한국 국",
		"\u1112\u1161\u11ab국":           "한국 국",
		"ไทย":                           "ไท ทย ย",
		"Go言語2":                         "go 言語 語 2",
		"Schiff\u00adfahrt":             "schifffahrt",
		"a🎉b👍🏽 ✂️":                      "a 🎉 b 👍 ✂",
		"┌──┐ → ©":                      "",
		"½ ⑴ ﷺ":                         "1⁄2 1 صلىاللهعليهوسلم",
		"\u0301\u00ad":                  "",
		"bad\xffutf8":                   "bad utf8",
		strings.Repeat("aB", 100):       strings.Repeat("ab", 64),
		strings.Repeat("é1", 200):       strings.Repeat("e1", 64),
		strings.Repeat("ж", 100):        strings.Repeat("ж", 64),
		"क्षत्रिय":                      "क्षत्रिय",
	} {
		if got := words(in); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
}

func FuzzTokens(f *testing.F) {
	for _, s := range []string{"Hello world", "日本語テキスト", "ไทย", "a\u0301b", "🎉👍🏽", "\xff\xfe", "½⑴ﷺ", "ｶﾞ", "\u1112\u1161\u11ab", "x\u00ady", "İß"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		last := 0
		for tok := range search.Tokens(s) {
			if tok.Text == "" || tok.From < last || tok.Head <= tok.From || tok.To < tok.Head || tok.To > len(s) {
				t.Fatalf("%q: %+v after %d", s, tok, last)
			}
			last = tok.From
			for _, r := range tok.Text { // characters at which FTS5's ascii tokenizer would split
				if r < utf8.RuneSelf && !unicode.IsLower(r) && !unicode.IsDigit(r) {
					t.Fatalf("%q: %q has %q", s, tok.Text, r)
				}
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a b", `"a b" -c d*`, "a OR b OR", "OR", `"`, "-", "--", `-"a b`, "a*b", "“x y”", "*", "日本 OR 語", "(a NEAR b)", "{x}:y", "\x00", strings.Repeat("\xa1", 2000) + "(a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		terms, err := search.Parse(s)
		if err != nil {
			if !fault.HasCode(err, "search_empty") && !fault.HasCode(err, "search_too_long") {
				t.Fatal(err)
			}
			return
		}
		for _, g := range append(slices.Clone(terms.All), terms.None) {
			for _, p := range g {
				for _, w := range p.Words {
					if w == "" || strings.ContainsAny(w, " \"'()*:^+-{}") {
						t.Fatalf("%q: the word %q", s, w)
					}
				}
			}
		}
		text, spans := terms.Snippet(s)
		at := 0
		for _, sp := range spans {
			if sp.From < at || sp.To <= sp.From || sp.To > len(text) {
				t.Fatalf("%q: spans %v of %q", s, spans, text)
			}
			at = sp.To
		}
	})
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"red Apples":            "[[red] [apples]]-[]",
		`"red apples" green`:    "[[red+apples] [green]]-[]",
		"app* -green":           "[[app*]]-[green]",
		`-"red apples" x`:       "[[x]]-[red+apples]",
		"a OR b c":              "[[a b] [c]]-[]",
		"a OR OR b":             "[[a b]]-[]",
		"OR a OR":               "[[a]]-[]",
		`"OR" a`:                "[[or] [a]]-[]",
		"a OR -b c":             "[[a] [c]]-[b]",
		"a - b":                 "[[a] [b]]-[]",
		"--json":                "[[json]]-[]",
		"files.read":            "[[files+read]]-[]",
		`"red app"*`:            "[[red+app*]]-[]",
		`open "to the end`:      "[[open] [to+the+end]]-[]",
		"“red apples”":          "[[red+apples]]-[]",
		"日本語":                   "[[日本+本語]]-[]",
		"本":                     "[[本*]]-[]",
		"日本*":                   "[[日本]]-[]",
		"Go言":                   "[[go+言*]]-[]",
		`AND NOT "NEAR" (a) ^b`: "[[and] [not] [near] [a] [b]]-[]",
	} {
		terms, err := search.Parse(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		phrase := func(list []search.Phrase) string {
			var out []string
			for _, p := range list {
				s := strings.Join(p.Words, "+")
				if p.Prefix {
					s += "*"
				}
				out = append(out, s)
			}
			return "[" + strings.Join(out, " ") + "]"
		}
		var all []string
		for _, g := range terms.All {
			all = append(all, phrase(g))
		}
		if got := "[" + strings.Join(all, " ") + "]-" + phrase(terms.None); got != want {
			t.Errorf("%s is read as %s, not %s", in, got, want)
		}
	}
}

func TestSnippets(t *testing.T) {
	filler := strings.Repeat("lorem ipsum dolor sit amet ", 40)
	for _, c := range []struct{ query, text, want string }{
		{"b", "a b c", "a [b] c"},
		{"b", "a\n\n  b\tc ", "a [b] c"},
		{"apple tree", filler + "an apple. " + filler + "the apple tree stands " + filler, "…amet lorem ipsum dolor sit amet lorem ipsum dolor sit amet the [apple] [tree] stands"},
		{"end", filler + "end", "…sit amet lorem ipsum dolor sit amet lorem ipsum dolor sit amet [end]"},
		{"nothing", "a text", "a text"},
		{`"b c" b`, "a b c d", "a [b c] d"},
		{"京 都市", strings.Repeat("長い文章です。", 30) + "京都市役所", "です。[京都市]役所"},
	} {
		terms, err := search.Parse(c.query)
		if err != nil {
			t.Fatal(err)
		}
		text, spans := terms.Snippet(c.text)
		got := search.Marked(text, spans, "[", "]")
		if c.query == "京 都市" && strings.HasPrefix(got, "…") && strings.HasSuffix(got, c.want) {
			continue
		}
		if strings.HasPrefix(c.want, "…") && strings.HasPrefix(got, c.want) {
			continue
		}
		if got != c.want {
			t.Errorf("%s in %.20q: %q\nnot %q", c.query, c.text, got, c.want)
		}
	}
	if got := search.First("  one\n two  " + filler); !strings.HasPrefix(got, "one two lorem") || !strings.HasSuffix(got, "…") || len(got) > 170 {
		t.Errorf("%q", got)
	}
	if got := search.Marked("ab", []search.Span{{0, 1}, {0, 2}, {1, 9}, {2, 1}}, "[", "]"); got != "[a]b" {
		t.Errorf("%q", got)
	}
}

// A snippet of any text is valid UTF-8, of bounded length, and shows the matches.
func TestSnippetsOfAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"needle", "hay ", " ", "\n", "日本", "é", "e\u0301", "🎉", "ก่", strings.Repeat("x", 50), "stack. "}), 1, 200).Draw(t, "parts")
		text := strings.Join(parts, "")
		query := rapid.SampledFrom([]string{"needle", "日本", "e", "hay stack", "🎉", "ก", "need* OR x*"}).Draw(t, "query")
		terms, err := search.Parse(query)
		if err != nil {
			t.Fatal(err)
		}
		got, spans := terms.Snippet(text)
		if !utf8.ValidString(got) || len(got) > 400 || strings.ContainsAny(got, "\n") {
			t.Fatalf("%q", got)
		}
		if query == "needle" && slices.Contains(strings.Fields(text), "needle") && len(spans) == 0 {
			t.Fatalf("nothing is shown of %q in %q: %q", query, text, got)
		}
	})
}

func TestRead(t *testing.T) {
	big := strings.Repeat("é", 50<<10)
	calls := func(args string) *message.Message {
		return &message.Message{Role: message.Assistant, Blocks: []message.Block{&message.ToolCall{Name: "a.b", Args: []byte(args)}}}
	}
	for _, c := range []struct {
		m    *message.Message
		want string
	}{
		{calls(`{"path":"a\nb","n":[1,true,null,{"x":"\u00e9"}]}`), "a.b path: a\nb n: 1 true null x: é"},
		{calls(`{}`), "a.b "},
		{calls(`no json`), "a.b no json"},
		{calls(`{"a":"x`), "a.b a:"},
		{&message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: "one"}, &message.Image{URL: "u"}, &message.Text{Text: "two"}}}, "one\ntwo"},
		{&message.Message{Role: message.System, Blocks: []message.Block{&message.Text{Text: "one"}}}, ""},
		{&message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Name: "a.b", Content: []message.Block{&message.Text{Text: "x"}, &message.Text{Text: big}, &message.Text{Text: "y"}}}}},
			"x\n" + big[:64<<10-2] + "\ny"},
		{&message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: strings.Repeat("z", 2<<20)}, &message.Text{Text: "more"}}}, strings.Repeat("z", 1<<20)},
	} {
		if got := search.Read(c.m); got.Text != c.want {
			t.Errorf("%.60q (%d bytes), not %.60q (%d)", got.Text, len(got.Text), c.want, len(c.want))
		}
	}
	d := search.Read(&message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{
		Common: message.Common{Labels: message.Private}, Name: "web.get", Content: []message.Block{&message.Text{Common: message.Common{Labels: message.Untrusted}, Text: "x"}}}}})
	if d.Labels != message.Private|message.Untrusted || !slices.Equal(d.Tools, []string{"web.get"}) {
		t.Errorf("%+v", d)
	}
}

func TestCursors(t *testing.T) {
	q := search.Query{Text: "a", Since: time.Unix(1, 0), Until: time.Unix(2, 0)}
	q.After = q.Seal(-12345678901)
	if at, ok, err := q.Place(); at != -12345678901 || !ok || err != nil {
		t.Error(at, ok, err)
	}
	for _, change := range []func(*search.Query){
		func(q *search.Query) { q.Text = "b" }, func(q *search.Query) { q.Role = "user" }, func(q *search.Query) { q.Since = time.Time{} },
		func(q *search.Query) { q.Conversation = id.New() }, func(q *search.Query) { q.Tool = "x" }, func(q *search.Query) { q.Except = id.New() },
	} {
		other := q
		change(&other)
		if _, _, err := other.Place(); !fault.HasCode(err, "cursor_invalid") {
			t.Errorf("%+v: %v", other, err)
		}
	}
	other := q
	other.Limit, other.Around = 7, 1 // do not change the order
	if _, ok, err := other.Place(); !ok || err != nil {
		t.Error(err)
	}
	for limit, want := range map[int]int{0: 20, -1: 20, 5: 5, 1000: 100} {
		if got := (&search.Query{Limit: limit}).PageSize(); got != want {
			t.Errorf("%d: %d", limit, got)
		}
	}
}

// shelf is an index that returns one page and records the query.
type shelf struct {
	page  search.Page
	asked search.Query
	scope store.Scope
	err   error
}

func (s *shelf) Search(_ context.Context, sc store.Scope, q search.Query) (search.Page, error) {
	s.asked, s.scope = q, sc
	return s.page, s.err
}
func (s *shelf) CatchUp(context.Context) error { return nil }
func (s *shelf) Follow(context.Context)        {}

func TestTool(t *testing.T) {
	here, there, call := id.New(), id.New(), id.New()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	s := &shelf{page: search.Page{Next: "c2", Hits: []search.Hit{
		{Line: search.Line{Message: call, Role: message.User, At: at, Text: "a train"}, Conversation: here, Spans: []search.Span{{From: 2, To: 7}}},
		{Line: search.Line{Message: there, Role: message.Tool, Tool: "web.get", At: at, Text: "trains"}, Conversation: there, Title: "Rome", Labels: message.Untrusted,
			Before: []search.Line{{Role: message.User, Text: "before it"}}, After: []search.Line{{Role: message.Assistant, Text: "after it"}}},
	}}}
	search1, err := search.NewTool(s, func(in tool.Invocation) store.Scope { return store.ForUser(in.User) })
	if err != nil {
		t.Fatal(err)
	}
	if sp := search1.Spec(); sp.Name != "conversation.search" || sp.Effect != tool.Query || sp.Yields != message.Private {
		t.Errorf("%+v", sp)
	}
	in := tool.Invocation{User: "ana", Conversation: record.ConversationURI(here), Call: message.Ref{Message: call}, Args: []byte(`{"query":"train"}`)}
	res, err := search1.Call(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`1. 2030-01-02 02:04 UTC in this conversation, message %s
   user: a **train**

2. 2030-01-02 02:04 UTC in "Rome", message %s
   before, user: before it
   tool web.get: trains
   after, assistant: after it
There are more: search again with the cursor "c2".`, call, there)
	text := res.Content[0].(*message.Text)
	if text.Text != want || res.Labels != message.Untrusted {
		t.Errorf("%s\nnot\n%s", text.Text, want)
	}
	if s.asked.Text != "train" || s.asked.Limit != 5 || s.asked.Threshold != 0.7 || s.asked.Around != 1 || s.asked.Except != call || !s.asked.Conversation.Zero() || s.scope.Write != "user:ana" {
		t.Errorf("%+v %+v", s.asked, s.scope)
	}
	in.Args = []byte(`{"query":"x","this_conversation":true,"match_count":3,"match_threshold":0,"order":"newest","cursor":"c"}`)
	s.page = search.Page{}
	if res, err = search1.Call(t.Context(), in); err != nil || res.Content[0].(*message.Text).Text != `No message was found for "x".` {
		t.Errorf("%+v %v", res, err)
	}
	if s.asked.Conversation != here || s.asked.Limit != 3 || s.asked.Threshold != 0 || s.asked.Order != search.Newest || s.asked.After != "c" {
		t.Errorf("%+v", s.asked)
	}
	in.Conversation = resource.URI{}
	if _, err := search1.Call(t.Context(), in); !fault.HasCode(err, "conversation_missing") {
		t.Error(err)
	}
	s.err = fault.New(fault.Unavailable, "search_unavailable", "no")
	in.Args = []byte(`{"query":"x"}`)
	if _, err := search1.Call(t.Context(), in); !fault.HasCode(err, "search_unavailable") {
		t.Error(err)
	}
	in.Args = []byte(`{"query":""}`)
	if _, err := search1.Call(t.Context(), in); !fault.HasCode(err, "args_invalid") {
		t.Error(err)
	}
}

func TestJSON(t *testing.T) {
	u := record.ConversationURI(id.New()).ChildID(record.TypeMessage, id.New())
	page := search.Page{Next: "n", Hits: []search.Hit{{Line: search.Line{Message: id.New(), Role: message.User, At: time.Unix(5, 0).UTC(), Text: "x"}, URI: u,
		Conversation: id.New(), Interaction: id.New(), Title: "t", Seq: 3, Labels: message.Private, Spans: []search.Span{{From: 0, To: 1}},
		Before: []search.Line{{Message: id.New(), Role: message.Tool, Tool: "a.b", Text: "y"}}}}}
	b, err := json.Marshal(page)
	if err != nil {
		t.Fatal(err)
	}
	var back search.Page
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, page) {
		t.Errorf("%v\n%+v\n%+v", err, page, back)
	}
	if b, err := json.Marshal(search.Page{}); err != nil || string(b) != `{"hits":[]}` {
		t.Errorf("%s %v", b, err)
	}
	for _, bad := range []string{`{"hits":1}`, `{"hits":[{"labels":["none"]}]}`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Error(bad)
		}
	}
}
