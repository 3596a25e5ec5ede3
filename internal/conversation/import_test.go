package conversation_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// sample makes a conversation with two branches, a mark, a pin and a rest.
func sample(t *testing.T, e *conversation.Engine, labels message.Labels) id.ID {
	t.Helper()
	s := create(e)
	first := say(message.User, "the word is hunter2")
	first.Blocks[0].Base().Labels = labels
	commit := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: first, Run: record.Run{ID: id.New(), Agent: "assistant"}})
	must(t, second(commit(t.Context())))
	call(t, s, "c1", `{"path":"hunter2"}`, "it says hunter2", labels)
	finish(t, s, "Done")
	conv := s.Conversation().ID
	page, _, err := e.Messages(t.Context(), anna, conv, "", 0, false)
	must(t, err)
	for _, err := range []error{
		second(e.Mark(t.Context(), anna, conv, conversation.Verdict{State: record.Invalidated, Reason: "hunter2 is old"}, page[2].ID)),
		e.Pin(t.Context(), anna, conv, true, page[0].ID),
		func() error {
			_, err := e.Fork(t.Context(), anna, conv, conversation.Fork{Message: page[0].ID})
			return err
		}(),
	} {
		must(t, err)
	}
	return conv
}

func TestExportMasks(t *testing.T) {
	for _, c := range []struct {
		labels message.Labels
		opt    conversation.ExportOptions
		hidden bool
	}{
		{message.Secret, conversation.ExportOptions{}, true},
		{message.Secret, conversation.ExportOptions{Format: "markdown"}, true},
		{message.Private, conversation.ExportOptions{}, false},
		{message.Private, conversation.ExportOptions{MaskPrivate: true}, true},
		{message.Private, conversation.ExportOptions{Format: "md", MaskPrivate: true}, true},
		{message.Untrusted, conversation.ExportOptions{MaskPrivate: true}, false},
	} {
		e, _ := engine(t)
		conv := sample(t, e, c.labels)
		var out bytes.Buffer
		must(t, e.ExportAs(t.Context(), anna, conv, c.opt, &out))
		if got := !strings.Contains(out.String(), "hunter2"); got != c.hidden {
			t.Errorf("%v %+v: hidden is %v:\n%s", c.labels, c.opt, got, out.String())
		}
	}
}

func TestMarkdown(t *testing.T) {
	e, _ := engine(t)
	conv := sample(t, e, 0)
	must(t, e.Switch(t.Context(), anna, conv, record.MainBranch))
	var out strings.Builder
	must(t, e.ExportAs(t.Context(), anna, conv, conversation.ExportOptions{Format: "md"}, &out))
	for _, want := range []string{"# the word is hunter2\n", "*This is the preferred one of 2 branches.*", "*Obsolete: hunter2 is old.*", "Obsolete messages, which the model is no longer shown: 1.", "## Steward\n\nDone", "tool `a.b`"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

// The usage of imported and copied messages does not count towards a budget, since
// it was counted elsewhere or earlier.
func TestImportsAndCopiesAreNotUsage(t *testing.T) {
	e, _ := engine(t)
	conv := sample(t, e, 0)
	count := func() (n int) {
		for _, err := range e.Usage(t.Context(), store.ForNode(resource.System), time.Time{}) {
			must(t, err)
			n++
		}
		return n
	}
	before := count()
	must(t, second(reimport(t, e, anna, export(t, e, conv))))
	if after := count(); after != before || before == 0 {
		t.Errorf("%d model calls before the import, %d after", before, after)
	}
	must(t, second(e.CopyBranch(t.Context(), anna, conv, record.MainBranch)))
	if after := count(); after != before {
		t.Errorf("%d model calls before the copy, %d after", before, after)
	}
}

// An import does not continue a run that had not ended.
func TestImportEndsRuns(t *testing.T) {
	e, _ := engine(t)
	s := create(e)
	begin(t, s, "go on")
	a := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: []message.Block{&message.ToolCall{CallID: "c", Name: "a.b", Args: []byte("{}")}}}
	must(t, second(s.Append(t.Context(), a)))
	got, err := reimport(t, e, anna, export(t, e, s.Conversation().ID))
	must(t, err)
	runs, err := e.OpenRuns(t.Context(), anna, record.ConversationURI(got.Conversation.ID))
	if err != nil || len(runs) != 0 {
		t.Errorf("%+v, %v", runs, err)
	}
	again, err := e.Open(t.Context(), anna, got.Conversation.ID)
	must(t, err)
	if got.Stored != 3 || len(got.Notes) != 1 {
		t.Errorf("%+v", got)
	}
	begin(t, again, "and now?")
	if err := message.CheckView(again.Transcript().Messages()); err != nil {
		t.Errorf("what is shown after an open call: %v", err)
	}
}

// Version 1 contained the messages of one branch and their interactions' ids.
func TestImportVersion1(t *testing.T) {
	e, _ := engine(t)
	conv, inter := id.New(), id.New()
	u, a := say(message.User, "What is 6*7?"), say(message.Assistant, "42")
	a.Final, a.Prev, a.Model = true, u.ID, "test/m"
	text := fmt.Sprintf(`{"steward_export":1,"id":%q,"conversation":{"owner":"bert","title":"Six","created":"2025-01-02T03:04:05Z","updated":"2025-01-02T03:04:06Z","messages":2},"messages":[
{"interaction":%q,"message":%s},
{"interaction":%q,"message":%s}
]}`, conv, inter, message.Append(nil, u), inter, message.Append(nil, a))
	got, err := reimport(t, e, anna, text)
	must(t, err)
	if c := got.Conversation; c.Title != "Six" || c.Owner != "anna" || c.Messages != 2 || got.Stored != 2 || got.Branches != 1 || got.Source != "steward" {
		t.Errorf("%+v", got)
	}
	i, err := e.Interaction(t.Context(), anna, got.Conversation.ID, inter)
	if err != nil || len(i.Entries) != 2 || i.Origin != "user" || i.Stopped.IsZero() || i.Outcome != "answered" {
		t.Errorf("%+v, %v", i, err)
	}
	if m, err := e.Find(t.Context(), anna, got.Conversation.ID, a.ID); err != nil || m.Pos != 2 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestImportForeign(t *testing.T) {
	const text = `[{"title":"A\tTree ","create_time":1700000000,"current_node":"a2","conversation_id":"c0","mapping":{
"s":{"message":{"author":{"role":"system"},"content":{"content_type":"text","parts":["Be nice."]}},"children":["u1"]},
"u1":{"message":{"author":{"role":"user"},"create_time":1700000001,"content":{"content_type":"text","parts":["Hello"]}},"parent":"s","children":["a1","a2"]},
"a1":{"message":{"author":{"role":"assistant"},"create_time":1700000002,"content":{"content_type":"text","parts":["Hi"]}},"parent":"u1","children":["u3","u4"]},
"u3":{"message":{"author":{"role":"user"},"create_time":1700000003,"content":{"content_type":"text","parts":["Three"]}},"parent":"a1","children":[]},
"u4":{"message":{"author":{"role":"user"},"create_time":1700000004,"content":{"content_type":"text","parts":["Four"]}},"parent":"a1","children":[]},
"a2":{"message":{"author":{"role":"assistant"},"create_time":1700000005,"content":{"content_type":"text","parts":["Good day"]}},"parent":"u1","children":["u5"]},
"u5":{"message":{"author":{"role":"user"},"content":{"content_type":"text","parts":["Five"]}},"parent":"a2","children":[]},
"v1":{"message":{"author":{"role":"user"},"create_time":1700000009,"content":{"content_type":"text","parts":["Another beginning"]}},"children":[]}}}]`
	e, _ := engine(t)
	got, err := reimport(t, e, anna, text)
	must(t, err)
	c := got.Conversation
	if c.Title != "A Tree" || c.Messages != 8-1 || got.Stored != 8 || got.Branches != 5 || c.Metadata["import.source"] != "chatgpt" || c.Metadata["import.id"] != "c0" ||
		c.Created.Unix() != 1700000000 || c.Updated.Unix() != 1700000009 || c.Model != "" {
		t.Errorf("%+v", got)
	}
	branches, err := e.Branches(t.Context(), anna, c.ID)
	must(t, err)
	var paths []string
	for _, b := range branches {
		page, _, err := e.MessagesOf(t.Context(), anna, c.ID, &b, "", 0, false)
		must(t, err)
		var words []string
		var msgs []*message.Message
		for _, m := range page {
			words = append(words, m.Text())
			msgs = append(msgs, m.Message)
		}
		if err := message.CheckHistory(msgs); err != nil {
			t.Error(err)
		}
		paths = append(paths, strings.Join(words, ", "))
	}
	want := []string{"Be nice., Hello, Good day", "Be nice., Hello, Hi, Three", "Be nice., Hello, Hi, Four", "Be nice., Hello, Good day, Five", "Another beginning"}
	if fmt.Sprint(paths) != fmt.Sprint(want) {
		t.Errorf("%q", paths)
	}
	s, err := e.Open(t.Context(), anna, c.ID)
	must(t, err)
	begin(t, s, "and on")
	finish(t, s, "it goes")
	if err := message.CheckView(s.Transcript().Messages()); err != nil || s.Labels() != message.Untrusted {
		t.Errorf("%v, %v", err, s.Labels())
	}
	siblings, err := e.Siblings(t.Context(), anna, c.ID, mustFind(t, e, c.ID, "Good day"))
	if err != nil || len(siblings) != 2 {
		t.Errorf("%+v, %v", siblings, err)
	}
	first := export(t, e, c.ID)
	again, err := reimport(t, e, anna, first)
	must(t, err)
	same(t, first, c.ID, export(t, e, again.Conversation.ID), again.Conversation.ID)
}

func mustFind(t *testing.T, e *conversation.Engine, conv id.ID, text string) id.ID {
	t.Helper()
	page, _, err := e.Messages(t.Context(), anna, conv, "", 0, false)
	must(t, err)
	for _, m := range page {
		if m.Text() == text {
			if found, err := e.Find(t.Context(), anna, conv, m.ID); err != nil || found.Text() != text {
				t.Fatal(found, err)
			}
			return m.ID
		}
	}
	t.Fatalf("no message says %q", text)
	return id.ID{}
}

// Wherever an import is interrupted, nothing of it is visible, and Purge erases all
// of it.
func TestBrokenImport(t *testing.T) {
	t.Parallel()
	e, db := engine(t)
	s := create(e)
	for i := range 300 {
		begin(t, s, fmt.Sprint("turn ", i))
		finish(t, s, "done")
	}
	text := export(t, e, s.Conversation().ID)
	finished := false
	for commits := 0; !finished; commits += 1 + commits/4 { // an import only writes; all of the first commits, some of the later ones
		got, err := reimport(t, conversation.New(&crashing{Store: db, left: commits}, conversation.Options{Codecs: codecs()}), anna, text)
		if finished = err == nil; finished {
			if commits < 4 {
				t.Errorf("1,201 records in %d commits", commits)
			}
			if got.Stored != 600 {
				t.Errorf("%d messages", got.Stored)
			}
			break
		}
		list, _, err := e.List(t.Context(), anna, "", 0)
		if err != nil || len(list) != 1 {
			t.Fatalf("after %d commits %d conversations are seen, %v", commits, len(list), err)
		}
	}
	if n, err := e.Purge(t.Context(), time.Now().Add(time.Hour)); err != nil || n < 3 {
		t.Errorf("%d purged, %v", n, err)
	}
	left := map[id.ID]bool{}
	for it, err := range store.Items(t.Context(), db, anna, store.Query{Under: resource.URI{}, NoBody: true, Limit: 1000}) {
		must(t, err)
		left[record.IDOf(it.URI, record.TypeConversation)] = true
	}
	if len(left) != 2 {
		t.Errorf("%d conversations are left in the store", len(left))
	}
}

func TestImportRefuses(t *testing.T) {
	e, _ := engine(t)
	conv := sample(t, e, 0)
	good := export(t, e, conv)
	c, err := e.Get(t.Context(), anna, conv)
	must(t, err)
	lines := strings.Split(good, "\n")
	last := len(lines) - 4 // the last message but one
	for name, c := range map[string]struct{ text, code string }{
		"a message twice":       {strings.Replace(good, lines[last], lines[last]+"\n"+lines[last], 1), "import_chat_broken"},
		"cut off":               {good[:len(good)/2], ""},
		"cut off in a message":  {good[:len(good)-40], "import_not_json"},
		"no such branch":        {strings.Replace(good, `"branch":"main"`, `"branch":"a/b"`, 1), "import_chat_broken"},
		"no preferred branch":   {strings.Replace(good, `"branch":"`+c.Branch, `"branch":"x`+c.Branch[1:], 1), "import_chat_broken"},
		"an interaction twice":  {strings.Replace(good, `"interactions":[`, `"interactions":[`+strings.TrimSuffix(lineWith(lines, `"origin":"user"`), ",")+",", 1), "import_chat_broken"},
		"a place twice":         {strings.Replace(good, `"pos":2`, `"pos":1`, 1), "import_chat_broken"},
		"an invalid message":    {strings.Replace(good, `"role":"tool"`, `"role":"user"`, 1), "import_chat_broken"},
		"a version to come":     {strings.Replace(good, `"steward_export":2`, `"steward_export":3`, 1), "import_version_unknown"},
		"a branch of bad spans": {strings.Replace(good, `"rope":[{"b":"main"`, `"rope":[{"b":"a.b/c"`, 1), "import_chat_broken"},
	} {
		if c.text == good {
			t.Fatalf("%s: nothing is changed", name)
		}
		_, err := reimport(t, e, anna, c.text)
		if err == nil || c.code != "" && !fault.HasCode(err, c.code) || fault.Of(err).Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	list, _, err := e.List(t.Context(), anna, "", 0)
	if err != nil || len(list) != 1 {
		t.Errorf("%d conversations, %v", len(list), err)
	}
	// Marks and pins of missing messages are left out with a note.
	got, err := reimport(t, e, anna, strings.Replace(strings.Replace(good, `"marks":[`+"\n"+`{"message":"0`, `"marks":[`+"\n"+`{"message":"1`, 1),
		`"pins":[`+"\n"+`{"message":"0`, `"pins":[`+"\n"+`{"message":"1`, 1))
	if err != nil || len(got.Notes) != 2 {
		t.Errorf("%+v, %v", got.Notes, err)
	}
}

func lineWith(lines []string, part string) string {
	for _, l := range lines {
		if strings.Contains(l, part) {
			return l
		}
	}
	return ""
}

// Labels and origins in a file are not trusted, since anybody may have written it.
// All imported content is untrusted.
func TestImportedIsUntrusted(t *testing.T) {
	e, db := engine(t)
	s := create(e)
	conv := s.Conversation().ID
	begin(t, s, "do what I say")
	finish(t, s, "I do")
	if s.Labels() != 0 {
		t.Fatal(s.Labels())
	}
	call(t, s, "c1", "{}", "the beginning of it", 0)
	entries, _, err := e.Messages(t.Context(), anna, conv, "", 0, false)
	if err != nil || len(entries) != 4 {
		t.Fatalf("%d messages, %v", len(entries), err)
	}
	_, err = db.Commit(t.Context(), anna, store.Batch{Changes: []store.Change{
		{URI: entries[2].URI(conv).Child("tool.Overflow", "0"), Body: []byte("{\"tool\":\"a.b\"}\nall of it")}}})
	must(t, err)
	got, err := reimport(t, e, anna, export(t, e, conv))
	must(t, err)
	rest, err := db.Get(t.Context(), anna, entries[2].URI(got.Conversation.ID).Child("tool.Overflow", "0"))
	if err != nil || string(rest.Body) != "{\"tool\":\"a.b\",\"labels\":2}\nall of it" {
		t.Errorf("of a result that is read on: %s, %v", rest.Body, err)
	}
	entries, _, err = e.Messages(t.Context(), anna, got.Conversation.ID, "", 0, false)
	if err != nil || len(entries) < 4 {
		t.Fatalf("%d messages, %v", len(entries), err)
	}
	for _, m := range entries {
		for _, b := range m.Blocks {
			if !b.Base().Labels.Has(message.Untrusted) {
				t.Errorf("%s %q: %v", m.Role, m.Text(), b.Base().Labels)
			}
		}
	}
}
