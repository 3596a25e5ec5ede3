package conversation_test

import (
	"testing"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/test/storetest"
)

// family is a conversation that calls an agent, which calls another agent.
type family struct {
	t      *testing.T
	st     store.Store
	e      *conversation.Engine
	top    id.ID
	child  id.ID
	grand  id.ID
	call   message.Ref // in the top conversation
	result id.ID
}

func newFamily(t *testing.T) *family {
	st := storetest.NewModel()
	f := &family{t: t, st: st, e: conversation.New(st, conversation.Options{}), top: id.New()}
	var inter id.ID
	f.call, inter, f.result = f.talk(f.top, record.Conversation{ID: f.top, Owner: "anna"}, "user")
	f.child = record.AskedConversation(f.call)
	at := record.RequestURI(f.top, inter, id.Derive("a request", f.call.String()))
	must(t, second(st.Commit(t.Context(), anna, store.Batch{Changes: []store.Change{{URI: at, Body: []byte(`{"kind":"agent"}`)}}})))
	call, inter, _ := f.talk(f.child, record.Conversation{ID: f.child, Owner: "anna", Agent: "a", Asked: at}, "agent:assistant")
	f.grand = record.AskedConversation(call)
	f.talk(f.grand, record.Conversation{ID: f.grand, Owner: "anna", Agent: "a/b",
		Asked: record.RequestURI(f.child, inter, id.New())}, "agent:a")
	return f
}

// talk is a turn with a call.
func (f *family) talk(conv id.ID, c record.Conversation, origin string) (call message.Ref, inter, result id.ID) {
	f.t.Helper()
	s := f.e.Create(anna, c)
	inter = id.New()
	say := func(role message.Role, b message.Block) *message.Message {
		b.Base().Origin = origin
		return &message.Message{ID: id.New(), Role: role, Blocks: []message.Block{b}}
	}
	if _, err := s.Begin(conversation.Opening{Request: inter, Interaction: inter, Origin: origin,
		Message: say(message.User, &message.Text{Text: "look after it"}), Run: record.Run{ID: id.New(), Agent: "x"}})(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	ask := say(message.Assistant, &message.ToolCall{CallID: "1", Name: "a.ask", Args: []byte("{}")})
	ask.Stop = message.StopTools
	call = message.Ref{Message: ask.ID}
	res := say(message.Tool, &message.ToolResult{Call: call, CallID: "1", Name: "a.ask", Status: message.OK,
		Content: []message.Block{&message.Text{Common: message.Common{Labels: message.Private}, Text: "private"}}})
	if _, err := s.Append(f.t.Context(), ask, res); err != nil {
		f.t.Fatal(err)
	}
	final := say(message.Assistant, &message.Text{Text: "looked"})
	final.Final, final.Stop = true, message.StopEnd
	if _, err := s.Finish(f.t.Context(), final, "answered", "", nil); err != nil {
		f.t.Fatal(err)
	}
	return call, inter, res.ID
}

func (f *family) there(conv id.ID) bool {
	f.t.Helper()
	_, err := f.e.Get(f.t.Context(), anna, conv)
	if err != nil && !fault.HasCode(err, "conversation_not_found") {
		f.t.Fatal(err)
	}
	return err == nil
}

func (f *family) must(err error) {
	f.t.Helper()
	must(f.t, err)
}

func TestAFamilyIsListedFoundAndDeletedAsOne(t *testing.T) {
	f := newFamily(t)
	list, _, err := f.e.List(t.Context(), anna, "", 0)
	if err != nil || len(list) != 1 || list[0].ID != f.top {
		t.Errorf("listed: %+v, %v", list, err)
	}
	below, err := f.e.Children(t.Context(), anna, f.top)
	if err != nil || len(below) != 2 || below[0] != f.child || below[1] != f.grand {
		t.Errorf("below: %v, %v", below, err)
	}
	if c, err := f.e.Get(t.Context(), anna, f.child); err != nil || c.Title != "look after it" {
		t.Errorf("the child: %+v, %v", c, err)
	}
	for _, do := range []func() error{
		func() error { return f.e.Delete(t.Context(), anna, f.child) },
		func() error { return f.e.Undelete(t.Context(), anna, f.grand) },
	} {
		if err := do(); !fault.HasCode(err, "conversation_asked") {
			t.Errorf("one below alone: %v", err)
		}
	}
	f.must(f.e.Delete(t.Context(), anna, f.top))
	if f.there(f.top) || f.there(f.child) || f.there(f.grand) {
		t.Error("deleted, and there")
	}
	if err := f.e.Delete(t.Context(), anna, f.top); !fault.HasCode(err, "conversation_not_found") {
		t.Errorf("deleted twice: %v", err)
	}
	f.must(f.e.Undelete(t.Context(), anna, f.top))
	f.must(f.e.Undelete(t.Context(), anna, f.top)) // again
	if !f.there(f.top) || !f.there(f.child) || !f.there(f.grand) {
		t.Error("brought back, and not there")
	}
	f.must(f.e.Delete(t.Context(), anna, f.top))
	if n, err := f.e.Purge(t.Context(), time.Now().Add(time.Hour)); err != nil || n != 1 {
		t.Errorf("purged: %d, %v", n, err)
	}
	for it, err := range store.Items(t.Context(), f.st, anna, store.Query{}) {
		t.Errorf("erased, and there: %s, %v", it.URI, err)
	}
	if err := f.e.Undelete(t.Context(), anna, f.top); !fault.HasCode(err, "conversation_not_found") {
		t.Errorf("bringing back what is erased: %v", err)
	}
}

func TestWhatAnAgentWasAskedGoesWithTheMessage(t *testing.T) {
	for name, which := range map[string]func(*family) id.ID{
		"the call":   func(f *family) id.ID { return f.call.Message },
		"the result": func(f *family) id.ID { return f.result },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFamily(t)
			copied, err := f.e.CopyBranch(t.Context(), anna, f.top, record.MainBranch)
			f.must(err)
			f.must(second(f.e.Mark(t.Context(), anna, f.top, conversation.Verdict{State: record.Deleted}, which(f))))
			_, err = f.e.Purge(t.Context(), time.Now().Add(time.Hour))
			f.must(err)
			if f.there(f.child) || f.there(f.grand) || !f.there(f.top) || !f.there(copied) {
				t.Errorf("child %v, grandchild %v, the one above %v, its copy %v", f.there(f.child), f.there(f.grand), f.there(f.top), f.there(copied))
			}
			f2 := newFamily(t)
			copied, err = f2.e.CopyBranch(t.Context(), anna, f2.top, record.MainBranch)
			f2.must(err)
			f2.must(second(f2.e.Mark(t.Context(), anna, copied, conversation.Verdict{State: record.Deleted}, which(f2))))
			_, err = f2.e.Purge(t.Context(), time.Now().Add(time.Hour))
			f2.must(err)
			if !f2.there(f2.child) {
				t.Error("a message that was deleted in a copy has taken along what is the original's")
			}
		})
	}
}

func TestACopyOfAChildIsAPersons(t *testing.T) {
	f := newFamily(t)
	copied, err := f.e.CopyBranch(t.Context(), anna, f.child, record.MainBranch)
	f.must(err)
	c, err := f.e.Get(t.Context(), anna, copied)
	if err != nil || !c.Asked.Zero() {
		t.Errorf("the copy: %+v, %v", c, err)
	}
	if list, _, _ := f.e.List(t.Context(), anna, "", 0); len(list) != 2 {
		t.Errorf("listed: %+v", list)
	}
}

func TestHowAnInteractionEnded(t *testing.T) {
	f := newFamily(t)
	s, err := f.e.Open(t.Context(), anna, f.top)
	f.must(err)
	inter := id.New()
	if _, err := f.e.End(t.Context(), anna, f.top, inter); !fault.HasCode(err, "run_not_found") {
		t.Errorf("one that there is not: %v", err)
	}
	s.HandTo("poet", false)
	m := &message.Message{ID: id.New(), Role: message.User, Blocks: []message.Block{&message.Text{Common: message.Common{Origin: "user"}, Text: "rhyme"}}}
	_, err = s.Begin(conversation.Opening{Request: inter, Interaction: inter, Origin: "user", Message: m, Run: record.Run{ID: id.New(), Agent: "poet"}})(t.Context())
	f.must(err)
	if _, err := f.e.End(t.Context(), anna, f.top, inter); !fault.HasCode(err, "run_not_found") {
		t.Errorf("one that has not ended: %v", err)
	}
	_, err = f.e.Update(t.Context(), anna, f.top, func(c *record.Conversation) { c.Title = "renamed" })
	f.must(err)
	_, err = s.Finish(t.Context(), nil, "failed", "no_luck", nil)
	f.must(err)
	end, err := f.e.End(t.Context(), anna, f.top, inter)
	if err != nil || end.Final != nil || end.Run.Outcome != "failed" || end.Run.Error != "no_luck" || end.Interaction != inter {
		t.Errorf("%+v, %v", end, err)
	}
	if c, err := f.e.Get(t.Context(), anna, f.top); err != nil || c.Agent != "poet" || c.Title != "renamed" {
		t.Errorf("handed over while it was renamed: %+v, %v", c, err)
	}
	child, err := f.e.Get(t.Context(), anna, f.child)
	f.must(err)
	for _, part := range interactionsOf(t, f.st, f.child) {
		end, err := f.e.End(t.Context(), anna, f.child, part)
		if err != nil || end.Final.Text() != "looked" {
			t.Errorf("%s's: %+v, %v", child.Agent, end, err)
		}
	}
}

func interactionsOf(t *testing.T, st store.Store, conv id.ID) (out []id.ID) {
	t.Helper()
	for it, err := range store.Items(t.Context(), st, anna, store.Query{Under: record.ConversationURI(conv), Type: record.TypeInteraction}) {
		must(t, err)
		out = append(out, record.IDOf(it.URI, record.TypeInteraction))
	}
	return out
}
