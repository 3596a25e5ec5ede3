package worklog_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"steward/internal/conversation/worklog"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
)

var (
	ana = store.ForUser("ana")
	eve = store.ForUser("eve")
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db"), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// registry holds tools whose calls are described in all ways.
func registry(t testing.TB) *tool.Registry {
	t.Helper()
	r := &tool.Registry{}
	for _, sp := range []tool.Spec{
		{Name: "files.read", Log: tool.LogSpec{Summary: "Read {path}{offset|}", Impact: []string{"path"}}},
		{Name: "files.list", Log: tool.LogSpec{Summary: "Listed {path|the granted folders}"}},
		{Name: "mail.send", Effect: tool.Action, Log: tool.LogSpec{Summary: "Sent {subject} to {to}", Parameters: []string{"to", "subject", "body"},
			Secret: []string{"route"}, Impact: []string{"to"}}},
		{Name: "home.turn_on"},
	} {
		sp.Description, sp.Input = "A tool.", []byte(`{"type":"object"}`)
		if sp.Effect == "" {
			sp.Effect = tool.Query
		}
		tl, err := tool.New(sp, func(context.Context, tool.Invocation, map[string]any) (string, error) { return "", nil })
		must(t, err)
		must(t, r.Add(tl))
	}
	return r
}

func engine(t testing.TB, s store.Store) *worklog.Engine {
	r := registry(t)
	return worklog.New(s, func(name string) (tool.Spec, bool) {
		tl, ok := r.Get(name)
		if !ok {
			return tool.Spec{}, false
		}
		return tl.Spec(), true
	}, nil)
}

// chat builds a conversation in the store, as conversation.Engine does.
type chat struct {
	t       testing.TB
	st      store.Store
	sc      store.Scope
	id      id.ID
	branch  string
	pos     int64
	at      time.Time
	step    time.Duration // between messages
	prev    id.ID
	inter   id.ID
	request id.ID
	run     resource.URI
	pending []store.Change
	hold    bool // changes are gathered until flush
	rope    []record.Span
	open    int64
	asked   []message.Call // by the newest message with calls
}

func (c *chat) commit(changes ...store.Change) {
	c.t.Helper()
	c.pending = append(c.pending, changes...)
	if !c.hold {
		c.flush()
	}
}

func (c *chat) flush() {
	c.t.Helper()
	if len(c.pending) > 0 {
		_, err := c.st.Commit(context.Background(), c.sc, store.Batch{Request: c.request, Changes: c.pending})
		must(c.t, err)
	}
	c.pending = nil
}

func newChat(t testing.TB, st store.Store, sc store.Scope, title string) *chat {
	c := &chat{t: t, st: st, sc: sc, id: id.New(), branch: record.MainBranch, step: time.Second, at: time.Now().UTC().Truncate(time.Microsecond).Add(-time.Hour)}
	c.commit(store.Change{URI: record.ConversationURI(c.id), Body: record.Encode(record.Conversation{Title: title, Created: c.at, Updated: c.at}),
		Terms: []store.Term{{Name: record.TermRecent}}},
		store.Change{URI: record.BranchURI(c.id, c.branch), Body: []byte("{}")})
	return c
}

// turn opens an interaction with what the user says.
func (c *chat) turn(text string) {
	c.inter, c.request = id.New(), id.New()
	u := record.InteractionURI(c.id, c.inter)
	c.run = u.ChildID(record.TypeRun, id.New())
	c.commit(store.Change{URI: u, Body: record.Encode(record.Interaction{Started: c.at, Origin: record.OriginUser})},
		store.Change{URI: c.run, Body: record.Encode(record.Run{Started: c.at}), State: record.StateRunning})
	c.say(&message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Common: message.Common{Origin: record.OriginUser}, Text: text}}})
}

// end ends the turn's run.
func (c *chat) end() {
	c.commit(store.Change{URI: c.run, Body: record.Encode(record.Run{Started: c.at, Ended: c.at})})
}

func (c *chat) uri(m id.ID) resource.URI {
	return record.InteractionURI(c.id, c.inter).ChildID(record.TypeMessage, m)
}

// say stores a message at the end of the branch.
func (c *chat) say(m *message.Message) *message.Message {
	c.t.Helper()
	if m.ID.Zero() {
		m.ID = id.New()
	}
	c.at = c.at.Add(c.step)
	m.At, m.Prev = c.at, c.prev
	must(c.t, message.Validate(m))
	c.pos++
	c.prev = m.ID
	stored := *m
	stored.ID = id.ID{}
	c.commit(store.Change{URI: c.uri(m.ID), Body: message.Append(nil, &stored), If: store.If{Absent: true},
		Place: &store.Place{List: record.BranchURI(c.id, c.branch), Pos: c.pos}})
	return m
}

type call struct{ name, args string }

// calls stores an assistant message with a text and calls.
func (c *chat) calls(calls ...call) []message.Call {
	m := &message.Message{Role: message.Assistant, Stop: message.StopTools, Blocks: []message.Block{&message.Text{Text: "Let me see."}}}
	for i, k := range calls {
		m.Blocks = append(m.Blocks, &message.ToolCall{CallID: "c" + strconv.Itoa(i), Name: k.name, Args: []byte(k.args)})
	}
	c.asked = c.say(m).Calls()
	return c.asked
}

// result stores what answers a call.
func (c *chat) result(k message.Call, status message.Status, text string) *message.Message {
	return c.say(&message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Call: k.Ref, CallID: k.CallID, Name: k.Name,
		Status: status, Content: []message.Block{&message.Text{Text: text}}}}})
}

func (c *chat) final(text string) {
	c.say(&message.Message{Role: message.Assistant, Final: true, Blocks: []message.Block{&message.Text{Text: text}}})
	c.end()
}

// intent stores the intent of a call.
func (c *chat) intent(k message.Call, state intent.State, reason string, deferred bool) {
	args := "{}"
	body, err := intent.Encode(intent.Intent{Tool: k.Name, Args: args, ArgsHash: intent.HashArgs([]byte(args)), Call: k.Ref, State: state,
		Reason: reason, Deferred: deferred, Created: c.at})
	must(c.t, err)
	c.commit(store.Change{URI: c.uri(k.Message).Child("effect.Intent", fmt.Sprint(k.Block)), Body: body, State: state.Mark()})
}

// mark records a change of a message's state.
func (c *chat) mark(m id.ID, pos int64, changes ...record.Change) {
	c.commit(store.Change{URI: record.MarkURI(c.id, m), Body: record.Encode(record.Mark{Pos: pos, Branch: c.branch, Changes: changes}),
		Place: &store.Place{List: record.MarksURI(c.id), Pos: pos}})
}

func page(t testing.TB, e *worklog.Engine, sc store.Scope, f worklog.Filter, after store.Cursor, limit int) ([]worklog.Entry, store.Cursor) {
	t.Helper()
	list, next, err := e.Log(context.Background(), sc, f, after, limit)
	must(t, err)
	return list, next
}

// all reads all pages.
func all(t testing.TB, e *worklog.Engine, sc store.Scope, f worklog.Filter, limit int) []worklog.Entry {
	t.Helper()
	var out []worklog.Entry
	for after := store.Cursor(""); ; {
		list, next := page(t, e, sc, f, after, limit)
		if len(list) > limit {
			t.Fatalf("%d entries on a page of %d", len(list), limit)
		}
		out = append(out, list...)
		if next == "" {
			return out
		}
		if next == after {
			t.Fatal("the cursor stands still")
		}
		after = next
	}
}
