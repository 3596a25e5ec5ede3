package taint_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/taint"
	"steward/internal/tool"
)

// from records a result with private data of a source.
func (x *turn) from(source, tool, text string) {
	ref := x.call(tool + " {}")[0]
	c := message.Common{Origin: "tool:" + tool, Labels: both, Sources: []string{source}}
	x.add(&message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Common: c, Call: ref, Name: tool, Status: message.OK,
		Content: []message.Block{&message.Text{Common: c, Text: text}}}}})
}

// asked returns a turn that begins with the user's words.
func asked(t *testing.T, text string) *turn {
	x := begin(t)
	x.msgs[0].Blocks[0].(*message.Text).Text = text
	return x
}

var find = tool.Spec{Name: "search.find", Origin: "mcp:search", Effect: tool.Query, Host: "search.example.com", Targets: []string{"to"},
	Input: []byte(`{"type":"object","properties":{"q":{"type":"string"},"near":{"type":"string"},"sort":{"enum":["new","old"]},"limit":{"type":"integer"},` +
		`"page":{"type":"integer","default":1},"deep":{"type":"boolean","default":false},"tags":{"type":"array"},"to":{"type":"string"}}}`)}

// outside are the tools of the tests, all of which reach outside.
func outside(name string) (tool.Spec, bool) {
	s := find
	switch name {
	case "search.find":
	case "web.page":
		s = tool.Spec{Name: name, Origin: "domain:web", Effect: tool.Query, Targets: []string{"url"}, Input: []byte(`{"properties":{"url":{"type":"string"},"from":{"type":"integer","default":0}}}`)}
	case "search.item_0", "search.item_1":
		s = tool.Spec{Name: name, Origin: "mcp:search", Effect: tool.Query, Targets: []string{}}
	default:
		return tool.Spec{}, false
	}
	return s, true
}

// asks makes a query, and returns its flow.
func (x *turn) asks(call string, sources ...string) policy.Flow {
	name, args, _ := strings.Cut(call, " ")
	spec, ok := outside(name)
	if !ok {
		x.t.Fatalf("there is no tool %s", name)
	}
	ref := x.call(call)[0]
	m := x.msgs[len(x.msgs)-1]
	m.Blocks[0].Base().Sources = sources
	return taint.OfQuery(x.msgs, ref, spec, []byte(args), sources, outside)
}

func (x *turn) query(args string, sources ...string) policy.Flow {
	return x.asks("search.find "+args, sources...)
}

// read returns a turn in which the user typed a text, and then something private and something
// untrusted was read.
func read(t *testing.T, text string) *turn {
	x := asked(t, text)
	x.from("diary", "diary.read", "The PIN is 4711, secret.")
	x.did(message.Untrusted, "The harbour is open.", "web.read {}")
	return x
}

// What needs no question is what the user typed, byte for byte, and goes where he said.
func TestAQueryCarriesWhatTheUserTyped(t *testing.T) {
	const text = "search the opening hours of the “old lighthouse” (Ann's), 5 days, in Graz. https://a.example/x?q=1#y, b.org/z; GRAZ_2 new C++"
	for args, fixed := range map[string]bool{
		`{"q":"opening hours"}`:              true,
		`{"q":"Graz"}`:                       true,
		`{"q":"old lighthouse"}`:             true,
		`{"q":"Ann"}`:                        true,
		`{"q":"Ann's"}`:                      true,
		`{"q":"C++"}`:                        true,
		`{"q":"hours","near":"Graz"}`:        true,
		`{"q":"hours","limit":5}`:            true,
		`{"q":"hours","page":1}`:             true,
		`{"q":"hours","deep":false}`:         true,
		`{"q":"hours","sort":"new"}`:         true, // it is typed
		`{}`:                                 true,
		`{"q":"hours opening"}`:              false,
		`{"q":"opening  hours"}`:             false,
		`{"q":"opening, hours"}`:             false,
		`{"q":"opening opening"}`:            false,
		`{"q":"opening of"}`:                 false,
		`{"q":"Opening hours"}`:              false,
		`{"q":"graz"}`:                       false,
		`{"q":"Gra"}`:                        false,
		`{"q":"raz"}`:                        false,
		`{"q":"Graz."}`:                      false,
		`{"q":"Gra\u0301z"}`:                 false,
		`{"q":"Gr\u200baz"}`:                 false,
		`{"q":"loo\u212a"}`:                  false,
		`{"q":"-"}`:                          false,
		`{"q":"++"}`:                         false,
		`{"q":"\u2801\u2802"}`:               false,
		`{"q":""}`:                           false,
		`{"q":" "}`:                          false,
		`{"q":null}`:                         false,
		`{"q":true}`:                         false,
		`{"q":{"Graz":1}}`:                   false,
		`{"q":["Graz"]}`:                     false,
		`{"tags":[true,false]}`:              false,
		`{"tags":[]}`:                        false,
		`{"q":"4711"}`:                       false,
		`{"q":"harbour"}`:                    false, // a value that the page's author wrote
		`{"sort":"old"}`:                     true,  // typed
		`{"deep":true}`:                      false,
		`{"limit":10}`:                       false,
		`{"limit":5.0}`:                      false,
		`{"page":2}`:                         false,
		`{"other":"Graz"}`:                   false, // not in the schema
		`{"to":"b.org/z"}`:                   true,
		`{"to":"https://b.org/z"}`:           true,
		`{"to":"http://b.org/z"}`:            false,
		`{"to":"b.org"}`:                     false,
		`{"to":"https://a.example/x?q=1#y"}`: true,
		`{"to":"https://a.example/x?q=1"}`:   false,
		`{"to":"https://a.example/x?q=1#y, b.org/z"}`:    false,
		`{"to":"https://a.example/x"}`:                   false,
		`{"to":"https://a.example/x?q=1#y."}`:            false,
		`{"q":"hours","near":"Graz","limit":5,"page":1}`: false, // too many
		`{"q":"https://evil.example/x"}`:                 false,
		`{"q":"b.org/z; GRAZ_2"}`:                        true,
		`no JSON`:                                        false,
	} {
		x := read(t, text)
		if f := x.query(args, "diary"); f.Fixed != fixed || !fixed && f.Why == "" {
			t.Errorf("%s: %+v", args, f)
		}
	}
}

// A destination that the user did not name gets nothing.
func TestADestinationIsNamed(t *testing.T) {
	for text, fixed := range map[string]bool{
		"tell me about the lighthouse":                           false,
		"find the lighthouse":                                    false, // a verb names no tool
		"search the lighthouse":                                  true,
		"ask search.example.com about the lighthouse":            true,
		"the page https://a.example says what of the lighthouse": false,
	} {
		x := read(t, text)
		if f := x.query(`{"q":"lighthouse"}`, "diary"); f.Fixed != fixed {
			t.Errorf("%s: %+v", text, f)
		}
	}
	for call, want := range map[string]policy.Flow{
		`web.page {"url":"https://a.example/x"}`:              {Fixed: true, To: "a.example"},
		`web.page {"url":"https://A.example:8/x"}`:            {To: "a.example:8"},
		`web.page {"url":"https://b.example/x"}`:              {To: "b.example"},
		`web.page {"url":"nonsense"}`:                         {To: "web.page: nonsense"},
		`web.page {"url":"read"}`:                             {To: "web.page: read"}, // it is typed, and no address
		`search.find {"to":"https://a.example/x"}`:            {Fixed: true, To: "a.example"},
		`search.find {"to":"https://a.example/x","q":"read"}`: {To: "a.example"}, // the server is not named
		`search.find {"q":"x"}`:                               {To: "search.find"},
	} {
		if f := read(t, "read https://a.example/x").asks(call, "diary"); f.Fixed != want.Fixed || f.To != want.To {
			t.Errorf("%s: %+v", call, f)
		}
	}
}

// The order of queries, their repetition and the choice of tools without arguments tell nothing.
func TestEachStretchGoesOutOnceAndInOrder(t *testing.T) {
	x := read(t, "search alpha beta gamma")
	for _, c := range []struct {
		call  string
		fixed bool
	}{
		{`search.find {"q":"beta"}`, true},
		{`search.find {"q":"beta"}`, false},
		{`search.find {"q":"alpha"}`, false},
		{`search.find {"q":"beta gamma"}`, false},
		{`search.find {"q":"gamma"}`, true},
		{`search.item_0 {}`, true},
		{`search.item_1 {}`, false},
		{`search.item_0 {}`, false},
		{`search.find {"page":1}`, false},
	} {
		if f := x.asks(c.call, "diary"); f.Fixed != c.fixed {
			t.Errorf("%s: %+v", c.call, f)
		}
	}
}

// At most four queries go out unasked. They are counted before they run, those of the same reply
// too.
func TestFourQueriesGoOutUnasked(t *testing.T) {
	const text = "search one two three four five six seven eight nine ten"
	x := read(t, text)
	for n, word := range strings.Fields(text)[1:] {
		if f := x.query(`{"q":"`+word+`"}`, "diary"); f.Fixed != (n < taint.MaxUnasked) {
			t.Errorf("call %d: %+v", n, f)
		}
	}
	y := read(t, text)
	var calls []string
	for _, word := range strings.Fields(text)[1:] {
		calls = append(calls, `search.find {"q":"`+word+`"}`)
	}
	for n, ref := range y.call(calls...) {
		_, args, _ := strings.Cut(calls[n], " ")
		if f := taint.OfQuery(y.msgs, ref, find, []byte(args), []string{"diary"}, outside); f.Fixed != (n < taint.MaxUnasked) {
			t.Errorf("call %d of one reply: %+v", n, f)
		}
	}
}

// What the plan says by value needs no words of the user, but is counted.
func TestPlannedQueries(t *testing.T) {
	x := asked(t, "look")
	var steps []string
	for n := range 6 {
		steps = append(steps, fmt.Sprintf(`{"id":"s%d","tool":"search.find","args":{"q":"n%d"},"optional":true}`, n, n))
	}
	x.fix(strings.Join(steps, ",") + `,{"id":"m","tool":"diary.read","args":{}},{"id":"e","tool":"search.find","args":{"q":{"$from":"m","field":""}},"optional":true}`)
	x.from("diary", "diary.read", "PIN 4711")
	if f := x.query(`{"q":"PIN 4711"}`, "diary"); f.Fixed {
		t.Errorf("what was read: %+v", f)
	}
	for n := range 6 {
		if f := x.query(fmt.Sprintf(`{"q":"n%d"}`, n), "diary"); f.Fixed != (n < taint.MaxUnasked) {
			t.Errorf("step %d: %+v", n, f)
		}
	}
}

func TestWhatAQueryWouldCarryIsSaid(t *testing.T) {
	x := asked(t, "look")
	x.from("diary", "diary.read", "The PIN is canary4711.")
	x.from("mail", "mail.read", "Hello.")
	if f := x.query(`{"q":"canary4711"}`, "diary", "mail"); f.Why != "`q` would carry what `diary.read` returned to `search.example.com`" || fmt.Sprint(f.Open) != "[/q]" {
		t.Errorf("%+v", f)
	}
	if f := x.query(`{"q":"7114yranac"}`, "diary", "mail"); f.Why != "`q` could carry what `diary.read`, `mail.read` returned to `search.example.com`" {
		t.Errorf("%+v", f)
	}
	if f := x.query(`{"q":"7114yranac"}`); !strings.Contains(f.Why, "earlier messages hold to") {
		t.Errorf("what was read before the turn: %+v", f)
	}
}

// The data that a source returned may go back to it, but not into a target.
func TestAQueryMayCarryItsOwnSourcesData(t *testing.T) {
	x := asked(t, "look")
	x.from("search", "search.find", "Page canary4711 of ann@example.com.")
	if f := x.query(`{"q":"canary4711 and anything"}`, "search"); !f.Fixed {
		t.Errorf("%+v", f)
	}
	if f := x.query(`{"to":"ann@example.com"}`, "search"); f.Fixed || fmt.Sprint(f.Open) != "[/to]" {
		t.Errorf("%+v", f)
	}
}

func TestAQueryBeforeAnythingForeignIsFixed(t *testing.T) {
	x := asked(t, "look")
	x.did(message.Private, "my own note: 4711", "files.read {}")
	if f := x.query(`{"q":"4711"}`, "files"); !f.Fixed {
		t.Errorf("%+v", f)
	}
}

// Whatever the user typed and whatever a model tries, what needs no question is made of stretches of
// his text and of defaults, and there are at most MaxUnasked such queries.
func TestWhatGoesOutIsTyped(t *testing.T) {
	word := rapid.OneOf(rapid.StringMatching(`[a-c]{1,2}`), rapid.SampledFrom([]string{"search", "\"a\"", "(b)", "a's", "1", "1.0", "é", "e\u0301", "k", "\u212a", "\u200b", "\u2801", "-", "a.com", "https://a.com/b", "  ", "\n"}))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(word, 1, 8).Draw(t, "text"), " ")
		x := begin(&quiet{})
		x.msgs[0].Blocks[0].(*message.Text).Text = text
		x.from("diary", "diary.read", "The PIN is 4711 of a b c.")
		sources := rapid.SampledFrom([][]string{{"diary"}, {"diary", "search"}, nil}).Draw(t, "sources")
		fixed := 0
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			args := map[string]any{}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"q", "near", "limit", "page", "deep", "tags", "to", "other"}), 0, 4, rapid.ID).Draw(t, "names") {
				args[name] = rapid.OneOf(rapid.Map(rapid.SliceOfN(word, 1, 3), func(w []string) any { return strings.Join(w, " ") }),
					rapid.SampledFrom([]any{1, 1.5, true, false, nil, []any{"a"}, "", "https://a.com"})).Draw(t, "value")
			}
			raw, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			canon, err := tool.Canonical(raw)
			if err != nil {
				continue
			}
			if !x.asks("search.find "+string(canon), sources...).Fixed {
				continue
			}
			if fixed++; fixed > taint.MaxUnasked {
				t.Fatalf("%d queries of %q", fixed, text)
			}
			for name, v := range args {
				said := fmt.Sprint(v)
				switch {
				case name == "page" && said == "1", name == "deep" && v == false:
				case name == "to" && strings.Contains(text, strings.TrimPrefix(said, "https://")):
				case name == "other", !strings.Contains(text, said), !strings.ContainsFunc(said, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }):
					t.Fatalf("%s is %q, after %q", name, said, text)
				}
			}
		}
	})
}
