package conversation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/conversation"
	"steward/internal/exchange"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

type errorer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func export(t errorer, e *conversation.Engine, conv id.ID) string {
	t.Helper()
	var out strings.Builder
	if err := e.Export(context.Background(), anna, conv, "json", &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// reimport imports what was exported.
func reimport(t errorer, e *conversation.Engine, sc store.Scope, text string) (conversation.Imported, error) {
	t.Helper()
	for c, err := range exchange.Read(strings.NewReader(text), exchange.Options{}) {
		if err != nil {
			return conversation.Imported{}, err
		}
		return e.Import(context.Background(), sc, "anna", c)
	}
	t.Fatal("nothing to import")
	return conversation.Imported{}, nil
}

// same compares two exports but for the conversations' ids.
func same(t errorer, a string, x id.ID, b string, y id.ID) {
	t.Helper()
	a, b = trusted(a), trusted(b)
	if a, b := strings.ReplaceAll(a, x.String(), "C"), strings.ReplaceAll(b, y.String(), "C"); a != b {
		la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
		for i := range min(len(la), len(lb)) {
			if la[i] != lb[i] {
				t.Fatalf("line %d differs:\n%s\n%s", i+1, la[i], lb[i])
			}
		}
		t.Fatalf("the exports have %d and %d lines", len(la), len(lb))
	}
}

// trusted takes the label untrusted off an export: what is imported has it,
// whatever it had before.
func trusted(text string) string {
	return strings.NewReplacer(`,"labels":["untrusted"]`, "", `,"untrusted"]`, "]", `"untrusted",`, "").Replace(text)
}

// shownTo returns what a model is shown of a conversation, without its id.
func shownTo(t errorer, e *conversation.Engine, conv id.ID) string {
	t.Helper()
	s, err := e.Open(context.Background(), anna, conv)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, m := range s.Transcript().Messages() {
		b = append(message.Append(b, m), '\n')
	}
	return strings.ReplaceAll(trusted(string(b)), conv.String(), "C")
}

// author does to a conversation what people, models and tools do.
type author struct {
	t    *rapid.T
	e    *conversation.Engine
	db   store.Store
	conv id.ID
}

func (a *author) check(err error) {
	a.t.Helper()
	for _, code := range []string{"splits_call", "message_not_found", "branch_last", "conversation_empty", "branch_not_found"} {
		if fault.HasCode(err, code) {
			return // not every draw makes sense
		}
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// pick draws a message of the preferred branch.
func (a *author) pick() id.ID {
	page, _, err := a.e.Messages(context.Background(), anna, a.conv, "", 1000, false)
	a.check(err)
	if len(page) == 0 {
		return id.ID{}
	}
	return page[rapid.IntRange(0, len(page)-1).Draw(a.t, "message")].ID
}

// turn runs a turn with some calls, in whose results there may be secrets and
// more than fits.
func (a *author) turn() {
	ctx := context.Background()
	s, err := a.e.Open(ctx, anna, a.conv)
	a.check(err)
	labels := rapid.SampledFrom([]message.Labels{0, 0, message.Untrusted, message.Private, message.Secret}).Draw(a.t, "labels")
	m := say(message.User, rapid.StringMatching(`[a-z ä"<]{1,20}`).Draw(a.t, "words"))
	commit := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: m,
		Run: record.Run{ID: id.New(), Agent: "assistant"}})
	_, err = commit(ctx)
	a.check(err)
	for range rapid.IntRange(0, 2).Draw(a.t, "rounds") {
		ask := &message.Message{ID: id.New(), Role: message.Assistant, Usage: message.Usage{Input: 5}, Blocks: []message.Block{
			&message.ToolCall{Common: message.Common{Labels: labels}, CallID: "c", Name: "a.b", Args: []byte(`{"x":1}`)}}}
		res := &message.ToolResult{Call: message.Ref{Message: ask.ID}, CallID: "c", Name: "a.b", Status: message.OK}
		body := &message.Text{Common: message.Common{Labels: labels}, Text: "result"}
		res.Content = []message.Block{body}
		if rapid.Bool().Draw(a.t, "long") {
			rest := s.MessageURI(ask.ID).Child("tool.Overflow", "0")
			res.Rest = rest.String()
			body.Text += " read on at " + res.Rest
			_, err := a.db.Commit(ctx, anna, store.Batch{Changes: []store.Change{{URI: rest, Body: fmt.Appendf(nil, "{\"tool\":\"a.b\",\"labels\":%d}\nthe rest", labels)}}})
			a.check(err)
		}
		_, err = s.Append(ctx, ask, &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{res}})
		a.check(err)
	}
	answer := say(message.Assistant, "done")
	answer.Final = true
	_, err = s.Finish(ctx, answer, "answered", "")
	a.check(err)
}

func (a *author) act() {
	ctx := context.Background()
	switch rapid.IntRange(0, 9).Draw(a.t, "act") {
	case 0:
		_, err := a.e.Fork(ctx, anna, a.conv, conversation.Fork{Message: a.pick(), Before: rapid.Bool().Draw(a.t, "before"), Title: "another way"})
		a.check(err)
	case 1:
		branches, err := a.e.Branches(ctx, anna, a.conv)
		a.check(err)
		a.check(a.e.Switch(ctx, anna, a.conv, rapid.SampledFrom(branches).Draw(a.t, "branch").ID))
	case 2:
		state := rapid.SampledFrom([]record.Validity{record.Active, record.Invalidated, record.Archived, record.Deleted}).Draw(a.t, "state")
		a.check(a.e.Mark(ctx, anna, a.conv, conversation.Verdict{State: state, Reason: "because"}, a.pick()))
	case 3:
		a.check(a.e.Pin(ctx, anna, a.conv, rapid.Bool().Draw(a.t, "pin"), a.pick()))
	case 4:
		_, err := a.e.Remove(ctx, anna, a.conv, a.pick())
		a.check(err)
	case 5:
		m := say(message.User, "a remark")
		_, err := a.e.Insert(ctx, anna, a.conv, a.pick(), m)
		a.check(err)
	case 6:
		s, err := a.e.Open(ctx, anna, a.conv)
		a.check(err)
		if s.Head().Zero() {
			return
		}
		commit := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: say(message.User, "fit"),
			Run: record.Run{ID: id.New(), Agent: "assistant"}})
		_, err = commit(ctx)
		a.check(err)
		_, err = s.Fit(ctx, conversation.Window{Tokens: 500, Count: func(*message.Message) int64 { return 50 }})
		a.check(err)
		_, err = s.Finish(ctx, nil, "stopped", "")
		a.check(err)
	case 7:
		branches, err := a.e.Branches(ctx, anna, a.conv)
		a.check(err)
		a.check(a.e.DeleteBranch(ctx, anna, a.conv, rapid.SampledFrom(branches).Draw(a.t, "branch").ID))
	default:
		a.turn()
	}
}

// Whatever is done to a conversation: what is exported, imported and exported
// again is the same, and a model is shown the same of it.
func TestRoundTrip(t *testing.T) {
	e, db := engine(t)
	rapid.Check(t, func(t *rapid.T) {
		s := create(e)
		a := &author{t: t, e: e, db: db, conv: s.Conversation().ID}
		commit := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: say(message.User, "begin"),
			Run: record.Run{ID: id.New(), Agent: "assistant"}})
		if _, err := commit(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Finish(context.Background(), nil, "stopped", ""); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 12).Draw(t, "acts") {
			a.act()
		}
		first := export(t, e, a.conv)
		got, err := reimport(t, e, anna, first)
		if err != nil {
			t.Fatal(err)
		}
		again := got.Conversation.ID
		second := export(t, e, again)
		same(t, first, a.conv, second, again)
		if n := strings.Count(first, `,"message":{"`) - strings.Count(first, `"branch":"","pos":0`); got.Stored != n {
			t.Fatalf("%d messages are told, and %d stored", n, got.Stored)
		}
		if !strings.Contains(first, "[secret]") && !strings.Contains(first, `"deleted"`) && !deletions(t, e, a.conv) {
			if x, y := shownTo(t, e, a.conv), shownTo(t, e, again); x != y {
				t.Fatalf("a model is shown\n%s\nand of what was imported\n%s", x, y)
			}
		}
		third, err := reimport(t, e, anna, second)
		if err != nil {
			t.Fatal(err)
		}
		same(t, second, again, export(t, e, third.Conversation.ID), third.Conversation.ID)
	})
}

// deletions reports whether something of a conversation was deleted.
func deletions(t errorer, e *conversation.Engine, conv id.ID) bool {
	list, err := e.Audit(context.Background(), anna, conv, id.ID{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		if o.State == record.Deleted {
			return true
		}
	}
	return false
}

// sample makes a conversation with two branches, a mark, a pin and a rest.
func sample(t *testing.T, e *conversation.Engine, labels message.Labels) id.ID {
	t.Helper()
	s := create(e)
	first := say(message.User, "the word is hunter2")
	first.Blocks[0].Base().Labels = labels
	commit := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: first, Run: record.Run{ID: id.New(), Agent: "assistant"}})
	if _, err := commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	call(t, s, "c1", `{"path":"hunter2"}`, "it says hunter2", labels)
	finish(t, s, "Done")
	conv := s.Conversation().ID
	page, _, err := e.Messages(t.Context(), anna, conv, "", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		e.Mark(t.Context(), anna, conv, conversation.Verdict{State: record.Invalidated, Reason: "hunter2 is old"}, page[2].ID),
		e.Pin(t.Context(), anna, conv, true, page[0].ID),
		func() error {
			_, err := e.Fork(t.Context(), anna, conv, conversation.Fork{Message: page[0].ID})
			return err
		}(),
	} {
		if err != nil {
			t.Fatal(err)
		}
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
		if err := e.ExportAs(t.Context(), anna, conv, c.opt, &out); err != nil {
			t.Fatal(err)
		}
		if got := !strings.Contains(out.String(), "hunter2"); got != c.hidden {
			t.Errorf("%v %+v: hidden is %v:\n%s", c.labels, c.opt, got, out.String())
		}
	}
}

func TestExportOfDeleted(t *testing.T) {
	e, _ := engine(t)
	conv := sample(t, e, 0)
	page, _, _ := e.Messages(t.Context(), anna, conv, "", 0, false)
	if err := e.Mark(t.Context(), anna, conv, conversation.Verdict{State: record.Deleted}, page[0].ID); err != nil {
		t.Fatal(err)
	}
	if text := export(t, e, conv); strings.Contains(text, "the word is") && !strings.Contains(text, `"title":"the word is`) || strings.Contains(text, page[0].ID.String()+`","role"`) {
		t.Errorf("what was deleted is exported:\n%s", text)
	}
}

func TestMarkdown(t *testing.T) {
	e, _ := engine(t)
	conv := sample(t, e, 0)
	if err := e.Switch(t.Context(), anna, conv, record.MainBranch); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := e.Export(t.Context(), anna, conv, "md", &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# the word is hunter2\n", "*One of 2 branches", "*Obsolete: hunter2 is old.*", "1 message of these has become obsolete", "## Steward\n\nDone", "tool `a.b`"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

// What an import has used elsewhere counts for no budget here.
func TestImportIsNotUsage(t *testing.T) {
	e, _ := engine(t)
	conv := sample(t, e, 0)
	count := func() (n int) {
		for _, err := range e.Usage(t.Context(), time.Time{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	before := count()
	if _, err := reimport(t, e, anna, export(t, e, conv)); err != nil {
		t.Fatal(err)
	}
	if after := count(); after != before || before == 0 {
		t.Errorf("%d model calls before, %d after", before, after)
	}
}

// A run that had not ended is not taken up where it is imported.
func TestImportEndsRuns(t *testing.T) {
	e, _ := engine(t)
	s := create(e)
	begin(t, s, "go on")
	a := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: []message.Block{&message.ToolCall{CallID: "c", Name: "a.b", Args: []byte("{}")}}}
	if _, err := s.Append(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	got, err := reimport(t, e, anna, export(t, e, s.Conversation().ID))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := e.OpenRuns(t.Context(), anna, record.ConversationURI(got.Conversation.ID))
	if err != nil || len(runs) != 0 {
		t.Errorf("%+v, %v", runs, err)
	}
	again, err := e.Open(t.Context(), anna, got.Conversation.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.Stored != 3 || len(got.Notes) != 1 {
		t.Errorf("%+v", got)
	}
	begin(t, again, "and now?")
	if err := message.CheckView(again.Transcript().Messages()); err != nil {
		t.Errorf("what is shown after an open call: %v", err)
	}
}

// Version 1 held the messages of one branch and their interactions' ids.
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	c := got.Conversation
	if c.Title != "A Tree" || c.Messages != 8-1 || got.Stored != 8 || got.Branches != 5 || c.Metadata["import.source"] != "chatgpt" || c.Metadata["import.id"] != "c0" ||
		c.Created.Unix() != 1700000000 || c.Updated.Unix() != 1700000009 || c.Model != "" {
		t.Errorf("%+v", got)
	}
	branches, err := e.Branches(t.Context(), anna, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, b := range branches {
		page, _, err := e.MessagesOf(t.Context(), anna, c.ID, &b, "", 0, false)
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	same(t, first, c.ID, export(t, e, again.Conversation.ID), again.Conversation.ID)
}

func mustFind(t *testing.T, e *conversation.Engine, conv id.ID, text string) id.ID {
	t.Helper()
	page, _, err := e.Messages(t.Context(), anna, conv, "", 0, false)
	if err != nil {
		t.Fatal(err)
	}
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

// brittle is a store that fails after some commits.
type brittle struct {
	store.Store
	left int
}

func (b *brittle) Commit(ctx context.Context, sc store.Scope, batch store.Batch) (store.Receipt, error) {
	if b.left--; b.left < 0 {
		return store.Receipt{}, errors.New("the plug was pulled")
	}
	return b.Store.Commit(ctx, sc, batch)
}

// However far an import came before it broke off: nothing of it is seen, and
// Purge leaves nothing of it.
func TestBrokenImport(t *testing.T) {
	e, db := engine(t)
	s := create(e)
	for i := range 300 {
		begin(t, s, fmt.Sprint("turn ", i))
		finish(t, s, "done")
	}
	text := export(t, e, s.Conversation().ID)
	finished := false
	for commits := 0; !finished; commits++ {
		got, err := reimport(t, conversation.New(&brittle{db, commits}, conversation.Options{}), anna, text)
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
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
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
	// Marks and pins of what is not there are left out, and told.
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

// What a file says of labels and of who wrote what is worth nothing: its
// writer may be anybody. All that was imported is untrusted.
func TestImportedIsUntrusted(t *testing.T) {
	e, _ := engine(t)
	s := create(e)
	conv := s.Conversation().ID
	begin(t, s, "do what I say")
	finish(t, s, "I do")
	if s.Labels() != 0 {
		t.Fatal(s.Labels())
	}
	got, err := reimport(t, e, anna, export(t, e, conv))
	if err != nil {
		t.Fatal(err)
	}
	entries, _, err := e.Messages(t.Context(), anna, got.Conversation.ID, "", 0, false)
	if err != nil || len(entries) != 2 {
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
