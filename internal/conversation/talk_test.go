package conversation_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
)

var bert = store.ForUser("bert")

// talk is a conversation of anna's, on a real store, with tools that make results
// obsolete.
type talk struct {
	t    *testing.T
	e    *conversation.Engine
	db   store.Store
	path string // of the database
	conv id.ID
	all  []id.ID // every message, in the order in which they were written
	in   []id.ID // every interaction
}

// files are the tools: reading again or writing makes earlier reads obsolete, and
// writing also makes listings obsolete.
func files(t testing.TB) *tool.Registry {
	t.Helper()
	type args struct {
		Path string `json:"path"`
	}
	reg := &tool.Registry{}
	for _, sp := range []tool.Spec{
		{Name: "file.read", Effect: tool.Query, Tidy: []tool.Strategy{{Kind: tool.ByParameters, Parameters: []string{"path"}}}},
		{Name: "file.write", Effect: tool.Action, Tidy: []tool.Strategy{
			{Kind: tool.ByTool, Tools: []string{"file.read"}, Parameters: []string{"path"}, Cascade: []string{"file.list"}}}},
		{Name: "file.list", Effect: tool.Query},
		{Name: "web.get", Effect: tool.Query},
	} {
		sp.Description = "For tests."
		x, err := tool.New(sp, func(context.Context, tool.Invocation, args) (string, error) { return "", nil })
		if err == nil {
			err = reg.Add(x)
		}
		must(t, err)
	}
	return reg
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	k := &talk{t: t, path: filepath.Join(t.TempDir(), "steward.db"), conv: id.New()}
	k.open()
	return k
}

// open opens the database.
func (k *talk) open() {
	k.t.Helper()
	db, err := sqlite.Open(k.t.Context(), sqlite.Options{Path: k.path})
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		if err := db.Close(); err != nil {
			k.t.Error(err)
		}
	})
	k.over(db)
}

// over creates the engine over a store.
func (k *talk) over(st store.Store) {
	k.t.Helper()
	reg := files(k.t)
	k.db, k.e = st, conversation.New(st, conversation.Options{
		Tools: func(_, name string) (tool.Tool, bool) { return reg.Get(name) },
		Names: func(string) []string { return reg.Names() }})
}

// session opens the conversation, or creates it.
func (k *talk) session() *conversation.Session {
	k.t.Helper()
	s, err := k.e.Open(k.t.Context(), anna, k.conv)
	if fault.Is(err, fault.NotFound) {
		return k.e.Create(anna, record.Conversation{ID: k.conv, Owner: "anna"})
	}
	k.ok(err)
	return s
}

func must(t errorer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (k *talk) ok(err error) {
	k.t.Helper()
	must(k.t, err)
}

func (k *talk) code(err error, want string) {
	k.t.Helper()
	if !fault.HasCode(err, want) {
		k.t.Errorf("error %v, want the code %s", err, want)
	}
}

// begin opens an interaction of a session with the user's words.
func (k *talk) begin(s *conversation.Session, words string) id.ID {
	k.t.Helper()
	m := say(message.User, words)
	in := id.New()
	_, err := s.Begin(conversation.Opening{Request: id.New(), Actor: "agent:test", Interaction: in, Origin: "user", Message: m,
		Run: record.Run{ID: id.New(), Agent: "test"}})(k.t.Context())
	k.ok(err)
	k.all, k.in = append(k.all, m.ID), append(k.in, in)
	return m.ID
}

// call appends a message with calls ("tool path"), and their results.
func (k *talk) call(s *conversation.Session, calls ...string) []id.ID {
	k.t.Helper()
	a := &message.Message{ID: id.New(), Role: message.Assistant}
	for _, c := range calls {
		name, path, _ := strings.Cut(c, " ")
		a.Blocks = append(a.Blocks, &message.ToolCall{Common: message.Common{Origin: "model:test/m"},
			CallID: id.New().String(), Name: name, Args: fmt.Appendf(nil, `{"path":%q}`, path)})
	}
	ids := []id.ID{a.ID}
	_, err := s.Append(k.t.Context(), a)
	k.ok(err)
	for i, c := range a.Calls() {
		r := &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{
			Common: message.Common{Origin: "tool:" + c.Name}, Call: c.Ref, CallID: c.CallID, Name: c.Name, Status: message.OK,
			Content: []message.Block{&message.Text{Text: fmt.Sprintf("content %d of %s", len(k.all)+i, calls[i])}}}}}
		_, err := s.Append(k.t.Context(), r)
		k.ok(err)
		ids = append(ids, r.ID)
	}
	k.all = append(k.all, ids...)
	return ids
}

func (k *talk) end(s *conversation.Session, words string) id.ID {
	k.t.Helper()
	m := say(message.Assistant, words)
	m.Final = true
	_, err := s.Finish(k.t.Context(), m, "answered", "", nil)
	k.ok(err)
	k.all = append(k.all, m.ID)
	return m.ID
}

// turn runs a turn: a question, rounds of one call each, an answer. It returns
// the ids of its messages.
func (k *talk) turn(words string, calls ...string) []id.ID {
	k.t.Helper()
	from := len(k.all)
	s := k.session()
	k.begin(s, words)
	for _, c := range calls {
		k.call(s, c)
	}
	k.end(s, "re: "+words)
	return k.all[from:]
}

// edit runs a turn on a fork.
func (k *talk) edit(f conversation.Fork, words string) []id.ID {
	k.t.Helper()
	from := len(k.all)
	s, err := k.e.OpenFork(k.t.Context(), anna, k.conv, f)
	k.ok(err)
	k.begin(s, words)
	k.end(s, "re: "+words)
	return k.all[from:]
}

// counting counts each message as 100 tokens.
func counting(tokens int64) conversation.Window {
	return conversation.Window{Tokens: tokens, Count: func(*message.Message) int64 { return 100 }}
}

// fit fits the conversation outside of a turn.
func (k *talk) fit(w conversation.Window) {
	k.t.Helper()
	fits, err := k.session().Fit(k.t.Context(), w)
	if err != nil || !fits {
		k.t.Fatal(fits, err)
	}
}

// branch returns the preferred branch.
func (k *talk) branch() record.Branch {
	k.t.Helper()
	return k.session().Branch()
}

// list returns the texts of the preferred branch's messages.
func (k *talk) list() []string {
	k.t.Helper()
	var out []string
	for after := store.Cursor(""); ; {
		page, next, err := k.e.Messages(k.t.Context(), anna, k.conv, after, 3, false)
		k.ok(err)
		for _, m := range page {
			out = append(out, brief(m.Message))
		}
		if after = next; after == "" {
			return out
		}
	}
}

// view returns the model's view, and checks that a provider would accept it.
func (k *talk) view() []string {
	k.t.Helper()
	msgs := k.session().Transcript().Messages()
	if err := message.CheckView(msgs); err != nil {
		k.t.Errorf("the view is no history: %v", err)
	}
	out := make([]string, len(msgs))
	for i, m := range msgs {
		out[i] = brief(m)
	}
	return out
}

func brief(m *message.Message) string {
	if calls := m.Calls(); len(calls) > 0 {
		var s []string
		for _, c := range calls {
			s = append(s, c.Name)
		}
		return "call " + strings.Join(s, ",")
	}
	return m.Text()
}

func (k *talk) expect(what string, got []string, want ...string) {
	k.t.Helper()
	if !slices.Equal(got, want) {
		k.t.Errorf("%s is\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// seq returns the newest log position.
func (k *talk) seq() uint64 {
	k.t.Helper()
	page, err := k.db.Log(k.t.Context(), store.ForNode(resource.System), store.LogQuery{Reverse: true, Limit: 1})
	k.ok(err)
	return page.Entries[0].Seq
}
