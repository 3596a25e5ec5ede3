//go:build long

// Package histories applies random sequences of all operations to conversations
// and checks the invariants after each step.
package histories

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/llm/tokens"
	"steward/internal/message"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/test/apis"
	_ "steward/test/seed"
	"steward/test/storetest"
)

var anna = store.ForUser("anna")

// vendors are the provider clients with strict checkers of their requests.
var vendors = []struct {
	name  string
	make  func(*http.Client) llm.Provider
	model string
	check func([]byte) error
}{
	{"openai", func(c *http.Client) llm.Provider { return openai.New(openai.Options{Key: "k", HTTP: c}) }, "gpt-5", apis.CheckOpenAI},
	{"anthropic", func(c *http.Client) llm.Provider { return anthropic.New(anthropic.Options{Key: "k", HTTP: c}) }, "claude-sonnet-4-5", apis.CheckAnthropic},
	{"gemini", func(c *http.Client) llm.Provider { return gemini.New(gemini.Options{Key: "k", HTTP: c}) }, "gemini-2.5-flash", apis.CheckGemini},
	{"gemini 3", func(c *http.Client) llm.Provider { return gemini.New(gemini.Options{Key: "k", HTTP: c}) }, "gemini-3-pro-preview", apis.CheckGemini3},
	{"ollama", func(c *http.Client) llm.Provider { return ollama.New(ollama.Options{HTTP: c}) }, "llama3", apis.CheckOllama},
}

var errCaught = errors.New("caught")

// catcher keeps the body of a request and does not send it.
type catcher struct{ body []byte }

func (c *catcher) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || !strings.Contains(r.Header.Get("Content-Type"), "json") {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("{}")), Header: http.Header{"Content-Type": {"application/json"}}, Request: r}, nil
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if len(b) > len(c.body) {
		c.body = b
	}
	return nil, errCaught
}

// accepted checks that every provider accepts the request for this transcript.
func accepted(ctx context.Context, t *rapid.T, tr *llm.Transcript) {
	for _, v := range vendors {
		c := &catcher{}
		for range v.make(&http.Client{Transport: c}).Model(v.model).Stream(ctx, &llm.Request{Transcript: tr}) {
		}
		if err := v.check(c.body); err != nil {
			t.Fatalf("%s would refuse this: %v\n%s", v.name, err, c.body)
		}
	}
}

type fileArgs struct {
	Path string `json:"path"`
	Page int    `json:"page,omitzero"`
}

// kit returns tools with all kinds of tidying strategies.
func kit(t *rapid.T) *tool.Registry {
	reg := &tool.Registry{}
	for _, sp := range []tool.Spec{
		{Name: "fs.read", Effect: tool.Query, Tidy: []tool.Strategy{{Kind: tool.ByParameters, Parameters: []string{"path", "page"}}}},
		{Name: "fs.write", Effect: tool.Action, Tidy: []tool.Strategy{{Kind: tool.ByTool, Tools: []string{"fs.read"}, Parameters: []string{"path"}, Cascade: []string{"fs.list"}}}},
		{Name: "fs.list", Effect: tool.Query},
		{Name: "clock.now", Effect: tool.Query, Tidy: []tool.Strategy{{Kind: tool.ByAge, MaxAge: time.Hour}}},
	} {
		sp.Description = "For tests."
		tl, err := tool.New(sp, func(context.Context, tool.Invocation, fileArgs) (string, error) { return "", nil })
		if err == nil {
			err = reg.Add(tl)
		}
		must(t, err)
	}
	return reg
}

// machine is a conversation under test and what is known about it.
type machine struct {
	ctx    context.Context
	store  *storetest.Model
	engine *conversation.Engine
	conv   id.ID
	inters []id.ID
	said   map[id.ID]string // every message ever stored, in its original form
	order  []id.ID
}

func text(m *message.Message) string {
	return string(message.Append(nil, m))
}

func newMachine(t *rapid.T) *machine {
	st := storetest.NewModel()
	m := &machine{ctx: context.Background(), store: st, conv: id.New(), said: map[id.ID]string{}}
	reg := kit(t)
	m.engine = conversation.New(st, conversation.Options{
		Tools: func(_, name string) (tool.Tool, bool) { return reg.Get(name) },
		Names: func(string) []string { return reg.Names() }})
	m.turn(t, m.engine.Create(anna, record.Conversation{ID: m.conv, Owner: "anna"}), true)
	return m
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *machine) keep(msgs ...*message.Message) {
	for _, x := range msgs {
		if _, ok := m.said[x.ID]; !ok {
			m.order = append(m.order, x.ID)
		}
		m.said[x.ID] = text(x)
	}
}

func words(t *rapid.T, label string) string {
	return rapid.SampledFrom([]string{"hello", "what is in a.txt?", "十二個月", "Привет, мир", strings.Repeat("long ", 300), "x"}).Draw(t, label)
}

func say(role message.Role, s string) *message.Message {
	origin := "user"
	if role == message.Assistant {
		origin = "model:test/m"
	}
	return &message.Message{ID: id.New(), Role: role, Blocks: []message.Block{&message.Text{Common: message.Common{Origin: origin}, Text: s}}}
}

// turn runs a turn on a session: rounds of parallel calls, then an answer.
func (m *machine) turn(t *rapid.T, s *conversation.Session, user bool) {
	var ask *message.Message
	if user {
		ask = say(message.User, words(t, "ask"))
	}
	m.begin(t, s, ask)
	for range rapid.IntRange(0, 3).Draw(t, "rounds") {
		m.round(t, s)
		if rapid.IntRange(0, 5).Draw(t, "fit inside") == 0 {
			m.fit(t, s)
		}
	}
	m.finish(t, s)
}

func (m *machine) begin(t *rapid.T, s *conversation.Session, ask *message.Message) {
	inter := id.New()
	m.inters = append(m.inters, inter)
	commit := s.Begin(conversation.Opening{Request: id.New(), Actor: "agent:test", Interaction: inter, Origin: "user", Message: ask,
		Run: record.Run{ID: id.New(), Agent: "test"}})
	must(t, second(commit(m.ctx)))
	if ask != nil {
		m.keep(ask)
	}
}

func (m *machine) finish(t *rapid.T, s *conversation.Session) {
	last := say(message.Assistant, words(t, "answer"))
	last.Final = true
	must(t, second(s.Finish(m.ctx, last, "answered", "", nil)))
	m.keep(last)
	m.same(t, s)
}

// called runs a turn that calls tools and returns its interaction.
func (m *machine) called(t *rapid.T) id.ID {
	s := m.open(t)
	m.begin(t, s, say(message.User, words(t, "ask")))
	m.round(t, s)
	m.finish(t, s)
	return m.inters[len(m.inters)-1]
}

func (m *machine) round(t *rapid.T, s *conversation.Session) {
	a := &message.Message{ID: id.New(), Role: message.Assistant}
	n := rapid.IntRange(1, 3).Draw(t, "calls")
	for i := range n {
		name := rapid.SampledFrom([]string{"fs.read", "fs.write", "fs.list", "clock.now", "gone.tool"}).Draw(t, "tool")
		args := fmt.Sprintf(`{"path":%q}`, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "path"))
		a.Blocks = append(a.Blocks, &message.ToolCall{Common: message.Common{Origin: "model:test/m"}, CallID: fmt.Sprintf("c%d_%s", i, a.ID), Name: name, Args: []byte(args)})
	}
	must(t, second(s.Append(m.ctx, a)))
	m.keep(a)
	for _, c := range a.Calls() {
		status := rapid.SampledFrom([]message.Status{message.OK, message.OK, message.OK, message.Failed}).Draw(t, "status")
		r := &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Common: message.Common{Origin: "tool:" + c.Name},
			Call: c.Ref, CallID: c.CallID, Name: c.Name, Status: status, Content: []message.Block{&message.Text{Text: words(t, "result")}}}}}
		must(t, second(s.Append(m.ctx, r)))
		m.keep(r)
	}
}

func (m *machine) open(t *rapid.T) *conversation.Session {
	s, err := m.engine.Open(m.ctx, anna, m.conv)
	must(t, err)
	return s
}

// view returns what the model would be shown now, as serialised messages.
func (m *machine) view(t *rapid.T) []string {
	return texts(m.open(t).Transcript().Messages())
}

func texts(msgs []*message.Message) []string {
	out := make([]string, len(msgs))
	for i, x := range msgs {
		out[i] = text(x)
	}
	return out
}

// same checks that a session shows the same as a newly opened one.
func (m *machine) same(t *rapid.T, s *conversation.Session) {
	if a, b := texts(s.Transcript().Messages()), m.view(t); !slices.Equal(a, b) {
		t.Fatalf("in memory the model is shown\n%s\nread anew\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}

func (m *machine) fit(t *rapid.T, s *conversation.Session) {
	w := conversation.Window{Tokens: rapid.Int64Range(200, 4000).Draw(t, "window"), Count: tokens.Counter{}.Message}
	switch rapid.IntRange(0, 2).Draw(t, "summary") {
	case 1:
		w.Summarize = func(_ context.Context, _ *message.Message, msgs []*message.Message, _ int64) (string, error) {
			return fmt.Sprintf("%d messages", len(msgs)), nil
		}
	case 2:
		w.Summarize = func(context.Context, *message.Message, []*message.Message, int64) (string, error) {
			return strings.Repeat("a summary that is longer than what it stands for ", 500), nil
		}
	}
	fits, err := s.Fit(m.ctx, w)
	must(t, err)
	if fits && s.Transcript().Tokens() > w.Tokens {
		t.Fatalf("it is said to fit %d tokens and takes %d\n%s", w.Tokens, s.Transcript().Tokens(), strings.Join(texts(s.Transcript().Messages()), "\n"))
	}
	m.same(t, s)
}

// pick draws a stored message that was not deleted.
func (m *machine) pick(t *rapid.T) id.ID {
	for range 50 {
		x := m.order[rapid.IntRange(0, len(m.order)-1).Draw(t, "message")]
		if _, err := m.engine.Find(m.ctx, anna, m.conv, x); err == nil {
			return x
		}
	}
	t.Skip("all that can be found was deleted")
	return id.ID{}
}

// may accepts errors with the given codes and reports whether there was no
// error.
func may(t *rapid.T, err error, codes ...string) bool {
	for _, c := range codes {
		if fault.HasCode(err, c) {
			return false
		}
	}
	must(t, err)
	return true
}

func (m *machine) actions() map[string]func(*rapid.T) {
	e, ctx := m.engine, m.ctx
	return map[string]func(*rapid.T){
		"turn": func(t *rapid.T) { m.turn(t, m.open(t), true) },
		"edit": func(t *rapid.T) {
			s, err := e.OpenFork(ctx, anna, m.conv, conversation.Fork{Message: m.pick(t), Before: true})
			if may(t, err, "splits_call", "branch_not_found") {
				m.turn(t, s, true)
			}
		},
		"regenerate": func(t *rapid.T) {
			s, err := e.OpenAgain(ctx, anna, m.conv, m.pick(t))
			if may(t, err, "nothing_asked", "branch_not_found") {
				m.turn(t, s, false)
			}
		},
		"fork": func(t *rapid.T) {
			_, err := e.Fork(ctx, anna, m.conv, conversation.Fork{Message: m.pick(t), Before: rapid.Bool().Draw(t, "before")})
			may(t, err, "splits_call", "branch_not_found")
		},
		"switch": func(t *rapid.T) {
			list, err := e.Branches(ctx, anna, m.conv)
			may(t, err)
			may(t, e.Switch(ctx, anna, m.conv, rapid.SampledFrom(list).Draw(t, "branch").ID))
		},
		"remove": func(t *rapid.T) {
			_, err := e.Remove(ctx, anna, m.conv, m.pick(t))
			may(t, err)
		},
		"insert": func(t *rapid.T) {
			x := say(message.User, words(t, "inserted"))
			var after id.ID
			if rapid.Bool().Draw(t, "behind") {
				after = m.pick(t)
			}
			_, err := e.Insert(ctx, anna, m.conv, after, x)
			if may(t, err, "splits_call", "message_not_found", "conversation_empty") {
				got, err := e.Find(ctx, anna, m.conv, x.ID)
				may(t, err)
				m.keep(got.Message)
			}
		},
		"mark": func(t *rapid.T) {
			v := conversation.Verdict{State: rapid.SampledFrom([]record.Validity{record.Active, record.Invalidated, record.Superseded, record.Archived}).Draw(t, "state"), Reason: "a test"}
			if v.State == record.Superseded {
				v.By = m.pick(t)
			}
			_, err := e.Mark(ctx, anna, m.conv, v, m.pick(t))
			may(t, err, "supersedes_itself", "superseded_by_hidden")
		},
		"delete and undo": func(t *rapid.T) {
			x := m.pick(t)
			got, err := e.Find(ctx, anna, m.conv, x)
			may(t, err)
			was, err := e.Interaction(ctx, anna, m.conv, got.Interaction)
			may(t, err)
			for _, y := range was.Entries {
				if y.Change.State != record.Active {
					return // a rollback would undo more than the deletion
				}
			}
			may(t, second(e.Refresh(ctx, anna, m.conv)))
			before := m.view(t)
			may(t, second(e.Mark(ctx, anna, m.conv, conversation.Verdict{State: record.Deleted}, x)))
			for _, line := range m.view(t) {
				if strings.HasPrefix(line, `{"id":"`+x.String()) {
					t.Fatalf("deleted, and shown: %s", line)
				}
			}
			may(t, second(e.Mark(ctx, anna, m.conv, conversation.Verdict{State: record.Active}, x)))
			if after := m.view(t); !slices.Equal(before, after) {
				t.Fatalf("before\n%s\nafter a deletion that was undone\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
		},
		"pin":     func(t *rapid.T) { may(t, e.Pin(ctx, anna, m.conv, rapid.Bool().Draw(t, "pinned"), m.pick(t))) },
		"refresh": func(t *rapid.T) { may(t, second(e.Refresh(ctx, anna, m.conv))) },
		"fit":     func(t *rapid.T) { m.fit(t, m.open(t)) },
		"compact and undo": func(t *rapid.T) {
			may(t, second(e.Refresh(ctx, anna, m.conv)))
			before, s := m.view(t), m.open(t)
			b := s.Branch()
			m.fit(t, s)
			if now := s.Branch(); now.View.Start == b.View.Start && now.View.Clip == b.View.Clip {
				return
			}
			may(t, e.Unfit(ctx, anna, m.conv))
			if after := m.view(t); !slices.Equal(before, after) {
				t.Fatalf("before\n%s\nafter a compaction that was taken back\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
		},
		"optimize and undo": func(t *rapid.T) {
			_, err := e.Restore(ctx, anna, m.conv)
			may(t, err)
			may(t, second(e.Refresh(ctx, anna, m.conv)))
			before := m.view(t)
			_, err = e.Optimize(ctx, anna, m.conv, []string{rapid.SampledFrom([]string{"fs.read", "clock.now"}).Draw(t, "next tool")})
			may(t, err)
			_, err = e.Restore(ctx, anna, m.conv)
			may(t, err)
			if after := m.view(t); !slices.Equal(before, after) {
				t.Fatalf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
		},
		"optimize": func(t *rapid.T) {
			_, err := e.Optimize(ctx, anna, m.conv, []string{"fs.read"})
			may(t, err)
		},
		"rollback": func(t *rapid.T) {
			_, err := e.Rollback(ctx, anna, m.conv, rapid.SampledFrom(m.inters).Draw(t, "interaction"),
				rapid.SampledFrom([]string{"", "fs.read", "fs.write"}).Draw(t, "of tool"))
			may(t, err)
		},
		"tidy and roll back": func(t *rapid.T) {
			m.called(t) // records what was already obsolete
			may(t, second(e.Refresh(ctx, anna, m.conv)))
			before := m.view(t)
			inter := m.called(t)
			may(t, second(e.Refresh(ctx, anna, m.conv)))
			_, err := e.Rollback(ctx, anna, m.conv, inter, "")
			may(t, err)
			if after := m.view(t); len(after) < len(before) || !slices.Equal(before, after[:len(before)]) {
				t.Fatalf("before\n%s\nafter a turn whose tidying was rolled back\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
		},
		"merge": func(t *rapid.T) {
			may(t, e.Merge(ctx, anna, m.conv, rapid.SampledFrom(m.inters).Draw(t, "into"), rapid.SampledFrom(m.inters).Draw(t, "from")),
				"merge_self", "merged_already")
		},
		"delete branch": func(t *rapid.T) {
			list, err := e.Branches(ctx, anna, m.conv)
			may(t, err)
			b := rapid.SampledFrom(list).Draw(t, "deleted branch").ID
			if may(t, e.DeleteBranch(ctx, anna, m.conv, b), "branch_last") && rapid.Bool().Draw(t, "and back") {
				may(t, e.UndeleteBranch(ctx, anna, m.conv, b))
			}
		},
		"pack": func(t *rapid.T) {
			_, err := e.Pack(ctx, anna, m.conv, rapid.Bool().Draw(t, "all"))
			may(t, err)
		},
		"": m.check,
	}
}

// check verifies the invariants after each step.
func (m *machine) check(t *rapid.T) {
	s := m.open(t)
	msgs := s.Transcript().Messages()
	must(t, message.CheckView(msgs))
	if len(msgs) > 0 {
		accepted(m.ctx, t, s.Transcript())
	}
	for _, x := range m.order {
		got, err := m.engine.Find(m.ctx, anna, m.conv, x)
		if err != nil {
			if fault.HasCode(err, "message_not_found") && m.onDeletedBranch(t, x) {
				continue
			}
			t.Fatalf("message %s is lost: %v", x, err)
		}
		if now := text(got.Message); now != m.said[x] {
			t.Fatalf("message %s was\n%s\nand is\n%s", x, m.said[x], now)
		}
	}
}

// onDeletedBranch reports whether a message belongs to a hidden branch and is
// still in the store.
func (m *machine) onDeletedBranch(t *rapid.T, x id.ID) bool {
	for it, err := range store.Items(m.ctx, m.store, anna, store.Query{Under: record.ConversationURI(m.conv), Type: record.TypeMessage}) {
		must(t, err)
		if record.IDOf(it.URI, record.TypeMessage) == x {
			return bytes.Contains(it.Body, []byte(`"role"`))
		}
	}
	return false
}

// TestConversationsHold checks that after any operation the view is a history
// that every provider accepts, that it is the same in memory and reloaded, and
// that no message is lost or changed.
func TestConversationsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(m.actions())
	})
}

func second[T any](_ T, err error) error { return err }
