package importexport_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/message"
	"steward/internal/record"
	"steward/test/messagetest"
)

// whole is an export with its messages read.
type whole struct {
	importexport.Own
	messages []importexport.Placed
}

func readOwn(t errorer, in string, o importexport.Options) ([]whole, []error) {
	t.Helper()
	var out []whole
	var errs []error
	for c, err := range importexport.Read(context.Background(), strings.NewReader(in), o) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if c.Own == nil || c.Source != importexport.Steward || c.SourceID != c.Own.Conversation.ID.String() {
			t.Fatalf("%+v", c)
		}
		var w whole
		for p, err := range c.Own.Messages {
			if err != nil {
				errs = append(errs, err)
				break
			}
			w.messages = append(w.messages, p)
		}
		w.Own = *c.Own // settled only now
		w.Own.Messages = nil
		out = append(out, w)
	}
	return out, errs
}

type errorer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func must(t errorer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }

func written(t errorer, w *whole) string { return sealed(t, w, nil) }

func sealed(t errorer, w *whole, seal importexport.Seal) string {
	t.Helper()
	var b bytes.Buffer
	x := importexport.NewWriter(&b, &w.Conversation, seal)
	for i := range w.Branches {
		x.Branch(&w.Branches[i])
	}
	for i := range w.Interactions {
		x.Interaction(&w.Interactions[i])
	}
	for i := range w.Runs {
		x.Run(&w.Runs[i])
	}
	for i := range w.Marks {
		x.Mark(&w.Marks[i])
	}
	for i := range w.Pins {
		x.Pin(&w.Pins[i])
	}
	for _, s := range w.Summaries {
		x.Summary(s)
	}
	for _, m := range w.messages {
		must(t, x.Message(m))
	}
	must(t, x.Close())
	return b.String()
}

// generated draws an export.
func generated(t *rapid.T) *whole {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	draw := func(label string) id.ID { return messagetest.ID().Draw(t, label) }
	w := &whole{Own: importexport.Own{Version: importexport.Version}}
	w.Conversation = record.Conversation{ID: draw("id"), Owner: "ana", Title: rapid.String().Draw(t, "title"), Created: at, Updated: at, Last: 9}
	w.Conversation.Title = strings.ToValidUTF8(w.Conversation.Title, "")
	w.Branches = []record.Branch{{ID: "main"}}
	inter := draw("interaction")
	if rapid.Bool().Draw(t, "more") {
		w.Branches = append(w.Branches, record.Branch{ID: draw("branch").String(), Title: "x", Created: at, Parent: "main", At: 1, Rope: []record.Span{{Branch: "main", To: 1}}, Open: 5,
			View: record.View{Revision: 2, Start: record.Point{Branch: "main", Pos: 1}, Summary: "cld:x", Clip: 600}})
		w.Interactions = []importexport.Interaction{{ID: inter, Interaction: record.Interaction{Started: at, Origin: "user", Holds: []id.ID{draw("held")}}}}
		w.Runs = []importexport.Run{{ID: draw("run"), Interaction: inter, Run: record.Run{Agent: "a", Version: "1", Model: "m", Started: at, Ended: at, Outcome: "answered"}}}
		w.Marks = []record.Mark{{Message: draw("marked"), Pos: 1, Branch: "main", Changes: []record.Change{{State: record.Archived, At: at, Actor: "ana", Interaction: inter, By: draw("by")}}}}
		w.Pins = []record.Pin{{Message: draw("pinned"), Pos: 2, Branch: "main", By: "ana", At: at}}
		w.Summaries = []importexport.Placed{{Message: messagetest.Message().Draw(t, "summary"), Interaction: inter}}
	}
	for i, m := range messagetest.History().Draw(t, "history") {
		p := importexport.Placed{Message: m, Interaction: inter, Branch: "main", Pos: int64(i) + 1}
		if rapid.IntRange(0, 3).Draw(t, "rest") == 0 {
			p.Rests = []importexport.Rest{{Block: 1, Body: []byte("{}\nthe rest \xff")}}
		}
		w.messages = append(w.messages, p)
	}
	return w
}

// Exports can be read again: as a stream, which then writes the same bytes; in a
// list; and several in a row.
func TestOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := generated(t)
		text := written(t, w)
		got, errs := readOwn(t, text+text, importexport.Options{})
		if len(errs) != 0 || len(got) != 2 {
			t.Fatalf("%d exports, %v\n%s", len(got), errs, text)
		}
		for _, g := range got {
			if again := written(t, &g); again != text {
				t.Fatalf("it was\n%s\nand is\n%s", text, again)
			}
		}
		turned := "[" + text + "]"
		got, errs = readOwn(t, turned, importexport.Options{})
		if len(errs) != 0 || len(got) != 1 || written(t, &got[0]) != text {
			t.Fatalf("%v\n%s", errs, turned)
		}
	})
}

// example is a small export.
func example(t errorer) (string, *whole) {
	inter := id.Derive("inter")
	w := &whole{}
	w.Conversation = record.Conversation{ID: id.Derive("c"), Owner: "ana", Title: "Six"}
	w.Branches = []record.Branch{{ID: "main"}}
	w.Interactions = []importexport.Interaction{{ID: inter}}
	for i, words := range []string{"one", "two"} {
		w.messages = append(w.messages, importexport.Placed{Interaction: inter, Branch: "main", Pos: int64(i) + 1,
			Message: &message.Message{ID: id.Derive(words), Role: message.User, Blocks: []message.Block{&message.Text{Text: words}}}})
	}
	return written(t, w), w
}

func TestOwnBroken(t *testing.T) {
	good, w := example(t)
	inter := w.Interactions[0].ID.String()
	for name, c := range map[string]struct{ in, code, says string }{
		"a version to come":      {strings.Replace(good, `t":2`, `t":3`, 1), "import_version_unknown", "version 3"},
		"a version that is none": {strings.Replace(good, `t":2`, `t":"x"`, 1), "import_version_unknown", ""},
		"no id":                  {strings.Replace(good, `"id":"`+w.Conversation.ID.String()+`",`, "", 1), "import_chat_broken", "id"},
		"a bad id":               {strings.Replace(good, w.Conversation.ID.String(), "x", 1), "import_chat_broken", "id: not an id"},
		"an id that is no text":  {strings.Replace(good, `"`+w.Conversation.ID.String()+`"`, "7", 1), "import_chat_broken", "id"},
		"a conversation of text": {strings.Replace(good, `"conversation":{`, `"conversation":"","x":{`, 1), "import_chat_broken", "conversation"},
		"branches of text":       {strings.Replace(good, `"branches":[`, `"branches":"","x":[`, 1), "import_chat_broken", "branches"},
		"a branch of text":       {strings.Replace(good, `"branches":[`, `"branches":["x",`, 1), "import_chat_broken", "branches: number 1"},
		"a bad interaction":      {strings.Replace(good, `{"id":"`+inter, `{"id":"x`, 1), "import_chat_broken", "interactions: number 1"},
		"a bad run":              {strings.Replace(good, `"messages":[`, `"runs":[{"id":"x"}],"messages":[`, 1), "import_chat_broken", "runs: number 1"},
		"a bad mark":             {strings.Replace(good, `"messages":[`, `"marks":[{"message":"x"}],"messages":[`, 1), "import_chat_broken", "marks: number 1"},
		"a bad pin":              {strings.Replace(good, `"messages":[`, `"pins":[{"message":"x"}],"messages":[`, 1), "import_chat_broken", "pins: number 1"},
		"a bad summary":          {strings.Replace(good, `"messages":[`, `"summaries":[{"message":"x"}],"messages":[`, 1), "import_chat_broken", "summaries"},
		"summaries of text":      {strings.Replace(good, `"messages":[`, `"summaries":"","messages":[`, 1), "import_chat_broken", "summaries"},
		"messages of text":       {strings.Replace(good, `"messages":[`, `"messages":"x","y":[`, 1), "import_not_json", ""},
		"a bad message":          {strings.Replace(good, `"text":"two"`, `"text":2`, 1), "import_chat_broken", "message 2"},
		"a message of text":      {strings.Replace(good, "\n{\"interaction\":\""+inter, "\n\"x\",{\"interaction\":\""+inter, 1), "import_chat_broken", "message 1"},
		"a message not allowed":  {strings.Replace(good, `"role":"user"`, `"role":"user","final":true`, 1), "import_chat_broken", "final answer"},
		"a bad place":            {strings.Replace(good, "\n{\"interaction\":\""+inter, "\n{\"interaction\":\"x", 1), "import_chat_broken", "interaction: "},
		"no comma":               {strings.Replace(good, "}},\n{\"interaction", "}}\n{\"interaction", 1), "import_not_json", ""},
		"cut in the head":        {good[:60], "import_not_json", ""},
		"cut in a message":       {good[:len(good)-30], "import_not_json", ""},
		"cut behind messages":    {good[:len(good)-2], "import_not_json", ""},
	} {
		for _, behind := range []string{"", "\n" + good} {
			if behind != "" && strings.HasPrefix(name, "cut") {
				continue
			}
			got, errs := readOwn(t, c.in+behind, importexport.Options{Name: "x"})
			if len(errs) == 0 || fault.Of(errs[0]).Code != c.code || !strings.Contains(errs[0].Error(), c.says) || fault.Of(errs[0]).Remedy == "" {
				t.Errorf("%s: %v", name, errs)
			}
			if c.code != "import_chat_broken" || behind == "" {
				continue
			}
			if n := len(got); n == 0 || len(got[n-1].messages) != 2 {
				t.Errorf("%s: the export behind it is not read: %d, %v", name, n, errs)
			}
		}
		if _, errs := readOwn(t, "["+c.in+"]", importexport.Options{}); len(errs) == 0 {
			t.Errorf("%s, in a list: no error", name)
		}
	}
}

// Messages that the caller does not consume are skipped.
func TestOwnSkipped(t *testing.T) {
	good, _ := example(t)
	for take := range 3 {
		n := 0
		for c, err := range importexport.Read(context.Background(), strings.NewReader(good+good), importexport.Options{}) {
			must(t, err)
			left := take
			for _, err := range c.Own.Messages {
				if left--; err != nil || left < 0 {
					break
				}
			}
			n++
		}
		if n != 2 {
			t.Errorf("%d exports, when %d messages of each are read", n, take)
		}
	}
}

func TestOwnBounds(t *testing.T) {
	good, _ := example(t)
	big := strings.Replace(good, `"text":"one"`, `"text":"`+strings.Repeat("x", 5000)+`"`, 1)
	if got, errs := readOwn(t, big+good, importexport.Options{MaxChat: 1000}); len(errs) != 1 || !fault.HasCode(errs[0], "import_too_large") || len(got) != 2 || len(got[1].messages) != 2 {
		t.Errorf("%d, %v", len(got), errs)
	}
	head := strings.Replace(good, `"title":"Six"`, `"title":"`+strings.Repeat("x", 5000)+`"`, 1)
	if _, errs := readOwn(t, head, importexport.Options{MaxChat: 1000}); len(errs) != 1 || !fault.HasCode(errs[0], "import_too_large") {
		t.Errorf("%v", errs)
	}
}

type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, context.Canceled
	}
	return len(b), nil
}

func TestWriterFails(t *testing.T) {
	_, w := example(t)
	x := importexport.NewWriter(&failing{100}, &w.Conversation, nil)
	var err error
	for range 1000 {
		if err = x.Message(w.messages[0]); err != nil {
			break
		}
	}
	if !errors.Is(err, context.Canceled) || !errors.Is(x.Close(), context.Canceled) {
		t.Errorf("%v", err)
	}
}
