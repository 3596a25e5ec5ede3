package worklog_test

import (
	"context"
	"testing"
	"time"

	"steward/internal/conversation/worklog"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/store"
)

func TestFilters(t *testing.T) {
	st := openStore(t)
	e := engine(t, st)
	c := newChat(t, st, ana, "One")
	c.turn("First")
	inter := c.inter
	k := c.calls(call{"files.read", `{"path":"a"}`}, call{"files.list", `{"path":"b"}`})
	c.result(k[0], message.OK, "")
	c.result(k[1], message.Failed, "no")
	c.final("So")
	middle := c.at
	c.turn("Second")
	k = c.calls(call{"mail.send", `{"to":"bob"}`})
	c.result(k[0], message.OK, "")
	c.final("So")
	d := newChat(t, st, ana, "Two")
	d.turn("Third")
	k = d.calls(call{"files__read", `{"path":"d"}`})
	d.result(k[0], message.OK, "")
	d.final("So")
	const read, list, send, wire = "success Read a", "failure Listed b [no]", "success Sent to bob", "success Read d"
	for _, v := range []struct {
		name string
		f    worklog.Filter
		want []string
	}{
		{"all", worklog.Filter{}, []string{wire, send, list, read}},
		{"conversation", worklog.Filter{Conversation: c.id}, []string{send, list, read}},
		{"interaction", worklog.Filter{Conversation: c.id, Interaction: inter}, []string{list, read}},
		{"interaction alone", worklog.Filter{Interaction: inter}, []string{list, read}},
		{"all branches", worklog.Filter{Conversation: c.id, AllBranches: true}, []string{send, list, read}},
		{"tool", worklog.Filter{Tool: "files.list"}, []string{list}},
		{"tools", worklog.Filter{Tool: "files.*"}, []string{wire, list, read}},
		{"outcome", worklog.Filter{Outcome: worklog.Failure}, []string{list}},
		{"pending", worklog.Filter{Outcome: worklog.Pending}, nil},
		{"since", worklog.Filter{Conversation: c.id, Since: middle}, []string{send}},
		{"until", worklog.Filter{Conversation: c.id, Until: middle}, []string{list, read}},
		{"since in all", worklog.Filter{Since: time.Now().Add(time.Minute)}, nil},
		{"since in one", worklog.Filter{Conversation: c.id, Since: time.Now().Add(time.Minute)}, nil},
	} {
		t.Run(v.name, func(t *testing.T) {
			whole, next := page(t, e, ana, v.f, "", 100)
			if next != "" {
				t.Errorf("there is more: %s", next)
			}
			expect(t, whole, v.want...)
			expect(t, all(t, e, ana, v.f, 1), v.want...)
		})
	}
	for code, f := range map[string]worklog.Filter{
		"outcome_unknown": {Outcome: "fine"}, "tool_pattern_invalid": {Tool: "[x"}, "conversation_not_found": {Conversation: id.New()},
		"interaction_not_found": {Conversation: c.id, Interaction: id.New()},
	} {
		if _, _, err := e.Log(context.Background(), ana, f, "", 0); !fault.HasCode(err, code) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestCursors(t *testing.T) {
	st := openStore(t)
	e := engine(t, st)
	c := newChat(t, st, ana, "One")
	c.turn("First")
	k := c.calls(call{"files.read", `{"path":"a"}`}, call{"files.read", `{"path":"b"}`}, call{"files.read", `{"path":"c"}`})
	for i := range k {
		c.result(k[i], message.OK, "")
	}
	f := worklog.Filter{Conversation: c.id}
	first, next := page(t, e, ana, f, "", 1)
	expect(t, first, "success Read c")
	c.final("So") // later pages do not include new messages
	c.turn("Second")
	k = c.calls(call{"files.read", `{"path":"d"}`})
	c.result(k[0], message.OK, "")
	second, after := page(t, e, ana, f, next, 1)
	expect(t, second, "success Read b")
	third, end := page(t, e, ana, f, after, 5)
	expect(t, third, "success Read a")
	if end != "" {
		t.Error("there is more")
	}
	_, tape := page(t, e, ana, worklog.Filter{}, "", 1)
	for _, v := range []struct {
		f worklog.Filter
		c store.Cursor
	}{{f, "!"}, {f, "e30"}, {f, "bm8"}, {worklog.Filter{}, next}, {f, tape}, {worklog.Filter{Conversation: c.id, Tool: "x"}, next}} {
		if _, _, err := e.Log(context.Background(), ana, v.f, v.c, 0); !fault.HasCode(err, "cursor_invalid") {
			t.Errorf("%+v %s: %v", v.f, v.c, err)
		}
	}
}

// A long range without calls is read in several pages.
func TestASparseFilterGoesOnInPieces(t *testing.T) {
	t.Parallel()
	st := openStore(t)
	e := engine(t, st)
	c := newChat(t, st, ana, "Long")
	c.hold = true
	c.turn("First")
	k := c.calls(call{"files.read", `{"path":"a"}`})
	for c.pos < 7000 {
		c.say(&message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: `It says {"type":"tool_call"} here.`}}})
	}
	c.result(k[0], message.OK, "late")
	c.flush()
	for name, f := range map[string]worklog.Filter{"rope": {Conversation: c.id}, "tape": {}, "below": {Conversation: c.id, AllBranches: true}} {
		list, next := page(t, e, ana, f, "", 10)
		if len(list) != 0 || next == "" {
			t.Fatalf("%s: %v and the cursor %q", name, told(list), next)
		}
		list, next = page(t, e, ana, f, next, 10)
		if next != "" {
			t.Errorf("%s: there is more", name)
		}
		expect(t, list, "success Read a")
	}
}
