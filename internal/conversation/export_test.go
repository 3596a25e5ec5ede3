package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// fitted makes a conversation whose view is a summary followed by the end.
func fitted(t *testing.T, e *conversation.Engine) id.ID {
	t.Helper()
	s := create(e)
	for i := range 12 {
		begin(t, s, fmt.Sprint("question ", i))
		finish(t, s, fmt.Sprint("answer ", i))
	}
	begin(t, s, "the last one")
	fits, err := s.Fit(t.Context(), conversation.Window{Tokens: 1000, Count: func(m *message.Message) int64 { return 100 }})
	if err != nil || !fits {
		t.Fatal(fits, err)
	}
	finish(t, s, "done")
	conv := s.Conversation().ID
	b, err := e.Branches(t.Context(), anna, conv)
	if err != nil || b[0].View.Summary == "" || b[0].View.Start.Pos == 0 {
		t.Fatalf("%+v, %v", b, err)
	}
	return conv
}

func TestExportOfSummaries(t *testing.T) {
	e, _ := engine(t)
	conv := fitted(t, e)
	text := export(t, e, conv)
	if !strings.Contains(text, "\n\"summaries\":[") {
		t.Errorf("the summary is missing:\n%s", text)
	}
	got, err := reimport(t, e, anna, text)
	must(t, err)
	again := got.Conversation.ID
	same(t, text, conv, export(t, e, again), again)
	if x, y := shownTo(t, e, conv), shownTo(t, e, again); x != y || strings.Contains(x, "answer 1\"") {
		t.Errorf("a model is shown\n%s\nand of what was imported\n%s", x, y)
	}
	b, err := e.Branches(t.Context(), anna, again)
	if err != nil || !strings.Contains(b[0].View.Summary, again.String()) {
		t.Errorf("%+v, %v", b, err)
	}
	var md strings.Builder
	must(t, e.ExportAs(t.Context(), anna, conv, conversation.ExportOptions{Format: "md"}, &md))
	if n := strings.Count(md.String(), "or only a summary of them"); n != 1 || strings.Contains(md.String(), "Replaced") || !strings.Contains(md.String(), "question 0") {
		t.Errorf("%d\n%s", n, md.String())
	}
	// Summaries of messages deleted since are not exported.
	page, _, err := e.Messages(t.Context(), anna, conv, "", 0, false)
	must(t, err)
	must(t, second(e.Mark(t.Context(), anna, conv, conversation.Verdict{State: record.Deleted}, page[1].ID)))
	if text := export(t, e, conv); strings.Contains(text, "summaries") || strings.Contains(text, "answer 0") {
		t.Errorf("what was deleted is told:\n%s", text)
	}
}

// Of a deleted branch, the messages that other branches hold are exported.
func TestExportOfDeletedBranch(t *testing.T) {
	e, _ := engine(t)
	s := create(e)
	first := begin(t, s, "one")
	finish(t, s, "first")
	conv := s.Conversation().ID
	dead, err := e.Fork(t.Context(), anna, conv, conversation.Fork{Message: first.ID, Before: true})
	must(t, err)
	s, err = e.Open(t.Context(), anna, conv)
	must(t, err)
	held := begin(t, s, "held")
	finish(t, s, "not held")
	must(t, second(e.Fork(t.Context(), anna, conv, conversation.Fork{Message: held.ID})))
	must(t, e.DeleteBranch(t.Context(), anna, conv, dead.ID))
	text := export(t, e, conv)
	if strings.Contains(text, "not held") || !strings.Contains(text, `"held"`) || !strings.Contains(text, `"first"`) {
		t.Errorf("%s", text)
	}
	got, err := reimport(t, e, anna, text)
	if err != nil || got.Branches != 2 || got.Stored != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	same(t, text, conv, export(t, e, got.Conversation.ID), got.Conversation.ID)
}

// rest keeps the rest of a result below a conversation's first message.
func rest(t *testing.T, e *conversation.Engine, db store.Store, conv id.ID) error {
	t.Helper()
	page, _, err := e.Messages(t.Context(), anna, conv, "", 0, false)
	if err != nil {
		return err
	}
	u := page[0].URI(conv).Child("tool.Overflow", "0")
	_, err = db.Commit(t.Context(), anna, store.Batch{Changes: []store.Change{{URI: u, Body: []byte("{\"tool\":\"a.b\"}\nrest")}, {URI: page[0].URI(conv).Child("tool.Overflow", "x"), Body: []byte("?")}}})
	return err
}

func TestMarkdownOfImported(t *testing.T) {
	e, _ := engine(t)
	got, err := reimport(t, e, anna, `[{"role":"system","content":"Be nice"},
{"role":"user","content":[{"type":"text","text":"Look"},{"type":"image_url","image_url":{"url":"https://x.example/a.png"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}]},
{"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"see","arguments":"not JSON"}}]},
{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a\n# b"},{"type":"image_url","image_url":{"url":"https://x.example/b.png"}}]},
{"role":"tool","tool_call_id":"2","content":"stray"},
{"role":"assistant","content":"Nice","model":"gpt-4"},{"role":"user","content":"And?"},{"role":"assistant","content":"Well"}]`)
	must(t, err)
	var md strings.Builder
	must(t, e.ExportAs(t.Context(), anna, got.Conversation.ID, conversation.ExportOptions{Format: "md"}, &md))
	for _, want := range []string{"# Look\n", "## Instructions\n\nBe nice", "[image, image/png]", "[file a.pdf, application/pdf]", "- tool `see` `not JSON`", "      a\n      # b",
		"## Told to the model", "## gpt-4\n\nNice", "## Assistant\n\nWell"} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("%q is missing in\n%s", want, md.String())
		}
	}
}

// A reminder is shown once, and not as the user's words.
func TestMarkdownOfReminders(t *testing.T) {
	e, _ := engine(t)
	s := create(e)
	m := say(message.User, "Reminder: tea")
	m.Blocks[0].Base().Origin = record.OriginAlarm + "7"
	commit := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: record.OriginAlarm + "7", Message: m,
		Run: record.Run{ID: id.New(), Agent: "assistant"}})
	must(t, second(commit(t.Context())))
	answer := say(message.Assistant, "Reminder: tea")
	answer.Final, answer.Model = true, record.RepeatModel
	must(t, second(s.Finish(t.Context(), answer, "answered", "", nil)))
	var md strings.Builder
	must(t, e.ExportAs(t.Context(), anna, s.Conversation().ID, conversation.ExportOptions{Format: "md"}, &md))
	if got := md.String(); !strings.Contains(got, "## ⏰ Reminder, ") || strings.Count(got, "Reminder: tea") != 1 || strings.Contains(got, "## You") {
		t.Error(got)
	}
}

func TestImportAll(t *testing.T) {
	e, _ := engine(t)
	const text = `[{"title":"A","messages":[{"role":"user","content":"a"}]},{"messages":[]},{"title":"B","messages":[{"role":"assistant","content":"b"}]}]`
	count := func(e *conversation.Engine, ctx context.Context) (good int, errs []error) {
		for got, err := range e.ImportAll(ctx, anna, "anna", strings.NewReader(text), importexport.Options{}) {
			if err == nil && got.Stored == 1 {
				good++
			}
			if err != nil {
				errs = append(errs, err)
			}
		}
		return good, errs
	}
	if good, errs := count(e, t.Context()); good != 2 || len(errs) != 1 || !fault.HasCode(errs[0], "import_chat_empty") {
		t.Errorf("%d, %v", good, errs)
	}
	list, _, err := e.List(t.Context(), anna, "", 0)
	if err != nil || len(list) != 2 || list[0].Title != "B" || list[0].Messages != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if good, errs := count(e, gone); good != 0 || len(errs) != 1 || !errors.Is(errs[0], context.Canceled) {
		t.Errorf("%d, %v", good, errs)
	}
}

// Import detects invalid content in every part of Steward's own export.
func TestImportRefusesParts(t *testing.T) {
	e, db := engine(t)
	conv := sample(t, e, 0)
	must(t, rest(t, e, db, conv))
	good := export(t, e, conv)
	if !strings.Contains(good, `"rests":[{"block":0`) || strings.Count(good, `"rests"`) != 1 {
		t.Fatalf("%s", good)
	}
	zero := `"interaction":"` + id.ID{1}.String() + `"`
	for name, text := range map[string]string{
		"a rest of no call": strings.Replace(good, `"rests":[{"block":0`, `"rests":[{"block":7`, 1),
		"a run twice":       strings.Replace(good, `"runs":[`, `"runs":[`+strings.TrimSuffix(lineWith(strings.Split(good, "\n"), `"agent":"assistant"`), ",")+",", 1),
		"a branch of none":  strings.Replace(good, `{"id":"main"`, `{"id":"a.b"`, 1),
	} {
		if _, err := reimport(t, e, anna, text); !fault.HasCode(err, "import_chat_broken") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An interaction that is only referenced is created.
	lines := strings.Split(good, "\n")
	last := lines[len(lines)-3]
	if _, err := reimport(t, e, anna, strings.Replace(good, last, strings.Replace(last, last[1:len(zero)+1], zero, 1), 1)); err != nil {
		t.Error(err)
	}
}

// An export in a vendor's form contains all texts. Import recognizes the form, and
// another export is identical.
func TestExportToVendors(t *testing.T) {
	e, _ := engine(t)
	got, err := reimport(t, e, anna, `{"title":"Stones","messages":[{"role":"system","content":"Be nice"},
{"role":"user","content":[{"type":"text","text":"Look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},
{"role":"assistant","content":"I see","tool_calls":[{"id":"1","function":{"name":"see","arguments":"{\"x\":1}"}},{"id":"2","function":{"name":"feel","arguments":"{}"}}]},
{"role":"tool","tool_call_id":"1","content":"grey"},
{"role":"assistant","content":"A stone","reasoning_content":"Hm"},{"role":"user","content":"And?"},{"role":"assistant","content":"Well"}]}`)
	must(t, err)
	for _, format := range importexport.Vendors() {
		write := func(conv id.ID) string {
			var out strings.Builder
			must(t, e.ExportAs(t.Context(), anna, conv, conversation.ExportOptions{Format: format}, &out))
			return out.String()
		}
		text := write(got.Conversation.ID)
		for _, want := range []string{"Stones", "Be nice", "Look", "iVBORw0KGgo=", "I see", "see", "grey", "[interrupted]", "A stone", "And?", "Well"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in\n%s", format, want, text)
			}
		}
		back, err := reimport(t, e, anna, text)
		if err != nil || back.Source != format || back.Conversation.Title != "Stones" || len(back.Notes) != 0 {
			t.Errorf("%s came back as %+v, %v", format, back, err)
			continue
		}
		if again := write(back.Conversation.ID); again != text {
			t.Errorf("%s comes out as\n%s\nand was\n%s", format, again, text)
		}
	}
	if err := e.ExportAs(t.Context(), anna, got.Conversation.ID, conversation.ExportOptions{Format: "pigeon"}, &strings.Builder{}); !fault.HasCode(err, "format_unknown") {
		t.Error(err)
	}
	secret := sample(t, e, message.Secret)
	var out strings.Builder
	if err := e.ExportAs(t.Context(), anna, secret, conversation.ExportOptions{Format: importexport.Anthropic}, &out); err != nil || !strings.Contains(out.String(), "[secret]") {
		t.Errorf("%s, %v", &out, err)
	}
}
