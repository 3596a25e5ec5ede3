package flow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/policy/flow"
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

// query returns the flow of a query of search.find with arguments.
func (x *turn) query(args string, sources ...string) policy.Flow {
	spec := tool.Spec{Name: "search.find", Origin: "mcp:search", Effect: tool.Query, Host: "search.example.com", Targets: []string{"to"},
		Input: []byte(`{"type":"object","properties":{"q":{"type":"string"},"sort":{"enum":["new","old"]},"limit":{"type":"integer"},"page":{"type":"integer","default":1},"to":{"type":"string"}}}`)}
	ref := x.call("search.find " + args)[0]
	return flow.OfQuery(x.msgs, ref, spec, []byte(args), sources, time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
}

// A query that reaches outside may contain what the user typed, values that the
// schema lists, usual values and data that is not private, but never what
// another source returned.
func TestAQueryCarriesNothingOfAnotherSource(t *testing.T) {
	for args, fixed := range map[string]bool{
		`{}`:                           true,
		`{"q":"lighthouse opening"}`:   true,
		`{"q":"Opening, lighthouse!"}`: true,
		`{"q":"lighthouse lighthouse lighthouse"}`: false, // the user typed the word only once
		`{"q":"lighthouse PIN"}`:                   false,
		`{"q":"4711"}`:                             false,
		`{"q":"harbour"}`:                          true, // from a public result
		`{"q":"arbou"}`:                            false,
		`{"q":"secret harbour"}`:                   false,
		`{"sort":"old"}`:                           true,
		`{"sort":"secret"}`:                        false,
		`{"limit":10}`:                             true,
		`{"limit":4711}`:                           false,
		`{"page":1}`:                               true,
		`{"page":4711}`:                            false,
		`{"q":"2026-11-24"}`:                       true, // tomorrow
		`{"q":"2026-11-30T23:59:59Z"}`:             true, // the end of the day in a week
		`{"q":"2026-12-24"}`:                       false,
		`{"q":null,"x":true}`:                      true,
		`{"q":["lighthouse",{"PIN":1}]}`:           false,
		`{"to":"lighthouse"}`:                      true,
		`{"to":"harbour"}`:                         false, // a target
		`no JSON`:                                  false,
	} {
		x := asked(t, "opening hours of the lighthouse")
		x.from("diary", "diary.read", "The PIN is 4711, secret.")
		x.did(message.Untrusted, "The harbour is open.", "web.page {}")
		f := x.query(args, "diary")
		if f.Fixed != fixed {
			t.Errorf("%s: %+v", args, f)
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

// Each choice among a few values leaks a little, so the number of choices is bounded.
func TestManyChoicesTellSomething(t *testing.T) {
	x := asked(t, "look")
	x.from("diary", "diary.read", "The PIN is 4711.")
	for n := range 20 {
		f := x.query(`{"sort":"old"}`, "diary")
		if f.Fixed != (n < 8) {
			t.Errorf("call %d: %+v", n, f)
		}
	}
	if f := x.query(`{"q":"look"}`, "diary"); !f.Fixed {
		t.Errorf("the user's own words: %+v", f)
	}
}

func TestAQueryBeforeAnythingForeignIsFixed(t *testing.T) {
	x := asked(t, "look")
	x.did(message.Private, "my own note: 4711", "files.read {}")
	if f := x.query(`{"q":"4711"}`, "files"); !f.Fixed {
		t.Errorf("%+v", f)
	}
}
