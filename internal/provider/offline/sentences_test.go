package offline_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/offline"
	"steward/internal/tool"
)

// The sentences of testdata were written before the code: what people say in
// everyday words, with the call that each wants, or none. Every other one was
// set aside; of those only the totals are looked at.

// count is what became of a set of sentences.
type count struct{ wanted, served, unwanted, refused, wrong int }

func measure(t *testing.T, file string, show bool) (c count) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	tools := everyday(t)
	for line := range strings.Lines(string(b)) {
		said, want, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			t.Fatalf("%s: %q", file, line)
		}
		got := callsFor(t, tools, said)
		if want == "none" {
			c.unwanted++
		} else {
			c.wanted++
		}
		switch {
		case got == "" && want == "none":
			c.refused++
		case got == "":
			if show {
				t.Logf("not served: %s", said)
			}
		case squeeze(got) == squeeze(want):
			c.served++
		default:
			c.wrong++
			if show {
				t.Errorf("wrong: %s\n got  %s\n want %s", said, got, want)
			}
		}
	}
	return c
}

// squeeze makes calls comparable: white space and the order of members do not count.
func squeeze(call string) string {
	name, args, _ := strings.Cut(call, " ")
	var v map[string]any
	if json.Unmarshal([]byte(args), &v) != nil {
		return call
	}
	if e, ok := v["expression"].(string); ok {
		v["expression"] = strings.ReplaceAll(e, " ", "")
	}
	out, err := json.Marshal(v)
	if err != nil {
		return call
	}
	return name + " " + string(out)
}

// everyday are the tools that Steward ships, those of its examples and some others.
func everyday(t *testing.T) *llm.Toolset {
	t.Helper()
	b, err := os.ReadFile("testdata/tools.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Name, Description string
		Effect            tool.Effect
		Input             json.RawMessage
	}
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	var specs []tool.Spec
	for _, s := range list {
		specs = append(specs, tool.Spec{Name: s.Name, Description: s.Description, Effect: s.Effect, Input: s.Input})
	}
	return llm.NewToolset(specs...)
}

// newProvider has a clock that shows a Wednesday, 11:00 in Vienna.
func newProvider() *offline.Provider {
	return offline.New(offline.Options{Now: func() time.Time { return time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC) }})
}

// callsFor returns the calls that a sentence leads to, "" for none.
func callsFor(t *testing.T, tools *llm.Toolset, said string) string {
	t.Helper()
	r := ask(t, newProvider().Model(""), &llm.Request{System: "You help.\nTime zone: Europe/Vienna", Tools: tools, Transcript: llm.NewTranscript(user(said))})
	var out []string
	for _, b := range r.Blocks {
		if c, ok := b.(*message.ToolCall); ok {
			out = append(out, c.Name+" "+string(c.Args))
		}
	}
	return strings.Join(out, "; ")
}

func user(text string) *message.Message {
	return &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: text, Common: message.Common{Origin: "user"}}}}
}

func ask(t *testing.T, m llm.Model, r *llm.Request) *llm.Reply {
	t.Helper()
	var reply *llm.Reply
	for e, err := range m.Stream(context.Background(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == llm.Done {
			reply = e.Reply
		}
	}
	return reply
}

func TestEverydaySentences(t *testing.T) {
	check := func(what string, c count) {
		t.Logf("%s: %d of %d served (%.0f %%), %d of %d that no tool can do refused, %d wrong", what, c.served, c.wanted,
			100*float64(c.served)/float64(c.wanted), c.refused, c.unwanted, c.wrong)
		if c.wrong > 0 || 10*c.served < 6*c.wanted {
			t.Errorf("%s: %+v", what, c)
		}
	}
	check("tuning", measure(t, "tuning.txt", true))
	check("held out", measure(t, "heldout.txt", false))
}

// TestTheStrictModelTakesSentencesOnly: it makes the call of a sentence that a tool declares and tells the result. It
// refuses everything else, so that a language model can be asked.
func TestTheStrictModelTakesSentencesOnly(t *testing.T) {
	m := newProvider().Model(offline.SentencesName)
	tools := llm.NewToolset(tool.Spec{Name: "home.control", Effect: tool.Action, Sentences: []string{"turn off the {device:label}"},
		Input: []byte(`{"type":"object","properties":{"device":{"type":"string"}},"required":["device"]}`), Log: tool.LogSpec{Summary: "Control {device}"}})
	for _, text := range []string{"Hello", "Is it dark outside?", "turn off", "Turn off the lamp and then tell me a story", "help", ""} {
		log := llm.NewTranscript(user(text))
		for _, err := range m.Stream(t.Context(), &llm.Request{Transcript: log, Tools: tools}) {
			if !fault.HasCode(err, "not_a_sentence") {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	log := llm.NewTranscript(user("Turn off the reading lamp"))
	r := ask(t, m, &llm.Request{Transcript: log, Tools: tools})
	if r.Model != "offline/sentences" || len(r.Blocks) != 1 || string(r.Blocks[0].(*message.ToolCall).Args) != `{"device":"reading lamp"}` {
		t.Fatalf("%+v", r)
	}
	made := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: r.Blocks, Model: r.Model}
	log.Append(made)
	c := made.Calls()[0]
	log.Append(&message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Call: c.Ref, CallID: c.CallID, Name: c.Name, Status: message.OK,
		Content: []message.Block{&message.Text{Text: "Done. The home now says:\nReading lamp: off"}}}}})
	if r = ask(t, m, &llm.Request{Transcript: log, Tools: tools}); r.Blocks[0].(*message.Text).Text != "Done. The home now says:\nReading lamp: off" {
		t.Errorf("%+v", r.Blocks[0])
	}
}
