package worklog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/conversation/worklog"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

func told(list []worklog.Entry) []string {
	out := []string{}
	for _, en := range list {
		s := string(en.Outcome) + " " + en.Summary
		if en.Error != "" {
			s += " [" + en.Error + "]"
		}
		if en.Obsolete {
			s += " (obsolete)"
		}
		out = append(out, s)
	}
	return out
}

func expect(t *testing.T, got []worklog.Entry, want ...string) {
	t.Helper()
	if s := told(got); !slices.Equal(s, want) {
		t.Errorf("told\n  %s\nwant\n  %s", strings.Join(s, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestAStory(t *testing.T) {
	st := openStore(t)
	c := newChat(t, st, ana, "Chores\n\x1b[31m")
	c.turn("Do my chores")
	k := c.calls(call{"files.read", `{"path":"notes/a.txt"}`}, call{"files.list", `{}`}, call{"home.turn_on", `{"entity":"light.kitchen","brightness":40}`})
	c.result(k[0], message.OK, "alpha")
	c.result(k[1], message.Failed, "there is no\n \"notes\"; list the folder")
	c.result(k[2], message.OK, "on")
	gone := c.calls(call{"gone.by_now", `{"a":1,"b":[1,2]}`}, call{"broken", `{"a":`})
	c.result(gone[0], message.Unavailable, "It cannot be reached.")
	last := c.result(gone[1], message.DeniedCall, "Denied, nothing was done: policy does not allow it")
	c.final("Done.")

	e := engine(t, st)
	list, next := page(t, e, ana, worklog.Filter{Conversation: c.id}, "", 0)
	if next != "" {
		t.Errorf("there is more: %s", next)
	}
	expect(t, list,
		"failure Broken [Denied, nothing was done: policy does not allow it]",
		"failure Gone: by now [It cannot be reached.]",
		"success Home: turn on light.kitchen",
		`failure Listed the granted folders [there is no "notes"; list the folder]`,
		"success Read notes/a.txt")
	first := list[4]
	want := worklog.Entry{ID: k[0].Ref.String(), At: first.At, Took: time.Second, Conversation: c.id, Title: "Chores [31m", Interaction: c.inter,
		Request: c.request, Actor: "ana", Tool: "files.read", Summary: "Read notes/a.txt", Parameters: map[string]any{"path": "notes/a.txt"},
		Outcome: worklog.Success, Impact: []string{"notes/a.txt"}, Call: c.uri(k[0].Message), Messages: first.Messages}
	if !reflect.DeepEqual(first, want) || len(first.Messages) != 2 || first.Messages[0] != k[0].Message {
		t.Errorf("got  %+v\nwant %+v", first, want)
	}
	if list[0].Messages[1] != last.ID || list[0].Parameters != nil || list[2].Took != 3*time.Second {
		t.Errorf("%+v, %+v", list[0], list[2])
	}
	if got := fmt.Sprint(list[2].Parameters); got != "map[brightness:40 entity:light.kitchen]" {
		t.Error(got)
	}
	b, err := json.Marshal(first)
	if err != nil || !strings.Contains(string(b), `"conversation_id":"`+c.id.String()+`","title":"Chores [31m"`) || !strings.Contains(string(b), `"took_ms":1000}`) {
		t.Errorf("%s, %v", b, err)
	}
	across, _ := page(t, e, ana, worklog.Filter{}, "", 0)
	if !reflect.DeepEqual(across, list) {
		t.Errorf("the log of all conversations differs:\n%+v\n%+v", across, list)
	}
	for _, sc := range []store.Scope{eve} {
		if list, _ := page(t, e, sc, worklog.Filter{}, "", 0); len(list) != 0 {
			t.Errorf("eve sees %+v", list)
		}
		if _, _, err := e.Log(context.Background(), sc, worklog.Filter{Conversation: c.id}, "", 0); !fault.HasCode(err, "conversation_not_found") {
			t.Error(err)
		}
	}
}

func TestOutcomesOfWhatWasNotAnsweredAtOnce(t *testing.T) {
	st := openStore(t)
	e := engine(t, st)
	for _, v := range []struct {
		status   message.Status // none: there is no result
		state    intent.State   // none: there is no intent
		reason   string
		deferred bool
		running  bool
		want     string
	}{
		{status: "", running: true, want: "pending [it is running]"},
		{status: "", running: false, want: "failure [no result was recorded]"},
		{status: "", state: intent.Proposed, running: true, want: "pending [it is being checked against policy]"},
		{status: "", state: intent.Awaiting, reason: "it writes", running: true, want: "pending [it is waiting for approval: it writes]"},
		{status: "", state: intent.Approved, running: true, want: "pending [it is about to start]"},
		{status: "", state: intent.Executing, running: true, want: "pending [it is running]"},
		{status: "", state: intent.Done, running: true, want: "success"},
		{status: message.Queued, state: intent.Approved, deferred: true, want: "pending [it will be done when the turn ends]"},
		{status: message.Queued, running: true, want: "pending [it will be done when the turn ends]"},
		{status: message.Queued, want: "partial [it was queued; its outcome is not recorded here]"},
		{status: message.Queued, state: intent.Done, want: "success"},
		{status: message.Queued, state: intent.Failed, reason: "no such address", want: "failure [it was not done: no such address]"},
		{status: message.Queued, state: intent.Cancelled, want: "failure [it was not done]"},
		{status: message.Queued, state: intent.Denied, reason: "not now", want: "failure [denied: not now]"},
		{status: message.Queued, state: intent.Expired, want: "failure [the approval request expired without an answer]"},
		{status: message.UnknownEnd, state: intent.Unknown, reason: "the line broke", want: "partial [outcome unknown: the line broke]"},
		{status: message.UnknownEnd, want: "partial [what came]"},
		{status: message.UnknownEnd, state: intent.Done, want: "success"},
		{status: message.UnknownEnd, state: intent.Failed, want: "failure [it was not done]"},
		{status: message.Interrupted, want: "failure [what came]"},
	} {
		c := newChat(t, st, ana, "x")
		c.turn("Send it")
		k := c.calls(call{"mail.send", `{"to":["bob","eve"],"subject":"Hi"}`})
		if v.state != "" {
			c.intent(k[0], v.state, v.reason, v.deferred)
		}
		if v.status != "" {
			c.result(k[0], v.status, "what came")
		}
		if !v.running {
			c.end()
		}
		list, _ := page(t, e, ana, worklog.Filter{Conversation: c.id}, "", 0)
		want := strings.Replace(v.want, " ", " Sent Hi to bob, eve ", 1)
		if want == v.want {
			want += " Sent Hi to bob, eve"
		}
		expect(t, list, want)
		if en := list[0]; en.Outcome == worklog.Pending && en.Took != 0 || !slices.Equal(en.Impact, []string{"bob", "eve"}) {
			t.Errorf("%+v", en)
		}
		one, msgs, err := e.Show(context.Background(), ana, list[0].ID)
		if err != nil || !reflect.DeepEqual(one, list[0]) || len(msgs) != len(list[0].Messages) {
			t.Errorf("%+v, %v", one, err)
		}
	}
}

func TestBranches(t *testing.T) {
	st := openStore(t)
	e := engine(t, st)
	c := newChat(t, st, ana, "Branched")
	c.turn("First")
	k := c.calls(call{"files.read", `{"path":"a"}`})
	c.result(k[0], message.OK, "")
	c.final("So")
	fork := c.pos
	c.turn("Second")
	k = c.calls(call{"files.read", `{"path":"old"}`})
	c.result(k[0], message.OK, "")
	c.final("So")
	main := worklog.Filter{Conversation: c.id}
	_, old := page(t, e, ana, main, "", 1)

	// Another branch, in which an interaction of a third one is inserted.
	end := c.pos
	c.branch = "side"
	c.turn("Aside")
	from := c.pos
	k = c.calls(call{"files.read", `{"path":"aside"}`})
	c.result(k[0], message.OK, "")
	c.final("So")
	c.branch = "new"
	c.commit(store.Change{URI: record.BranchURI(c.id, "new"), Body: record.Encode(record.Branch{Parent: "main", At: fork, Open: c.pos + 1,
		Rope: []record.Span{{Branch: "main", To: fork}, {Branch: "side", From: from, To: c.pos}, {Branch: "main", From: fork + 1, To: end}}})},
		store.Change{URI: record.ConversationURI(c.id), Body: record.Encode(record.Conversation{Title: "Branched", Branch: "new"})})
	c.turn("Third")
	k = c.calls(call{"files.read", `{"path":"new"}`}, call{"files.read", `{"path":"newer"}`})
	c.result(k[0], message.OK, "")
	c.result(k[1], message.OK, "")
	for limit := 1; limit < 7; limit++ {
		expect(t, all(t, e, ana, main, limit), "success Read newer", "success Read new", "success Read old", "success Read aside", "success Read a")
		expect(t, all(t, e, ana, worklog.Filter{Conversation: c.id, AllBranches: true}, limit),
			"success Read newer", "success Read new", "success Read aside", "success Read old", "success Read a")
	}
	list, _ := page(t, e, ana, main, old, 10)
	expect(t, list, "success Read a") // a cursor of the old branch continues on the old branch
	c.commit(store.Change{URI: record.BranchURI(c.id, "main"), Body: record.Encode(record.Branch{Open: c.pos + 1})})
	if _, _, err := e.Log(context.Background(), ana, main, old, 0); !fault.HasCode(err, "cursor_invalid") {
		t.Errorf("a place that is not on its branch any more: %v", err)
	}
}

func TestMergedInteractions(t *testing.T) {
	st := openStore(t)
	e := engine(t, st)
	c := newChat(t, st, ana, "Merged")
	var inters []id.ID
	for i := range 3 {
		c.turn("Say")
		inters = append(inters, c.inter)
		k := c.calls(call{"files.read", fmt.Sprintf(`{"path":"%d"}`, i)})
		c.result(k[0], message.OK, "")
		c.final("So")
	}
	c.commit(store.Change{URI: record.InteractionURI(c.id, inters[2]), Body: record.Encode(record.Interaction{Holds: []id.ID{inters[0], id.New()}})},
		store.Change{URI: record.InteractionURI(c.id, inters[0]), Body: record.Encode(record.Interaction{Into: inters[2], Holds: []id.ID{inters[2]}})})
	expect(t, all(t, e, ana, worklog.Filter{Conversation: c.id, Interaction: inters[2]}, 1), "success Read 2", "success Read 0")
	expect(t, all(t, e, ana, worklog.Filter{Conversation: c.id, Interaction: inters[1]}, 1), "success Read 1")
}

func TestWhatBecameOfMessages(t *testing.T) {
	st := openStore(t)
	e := engine(t, st)
	c := newChat(t, st, ana, "Marked")
	c.turn("First")
	k := c.calls(call{"files.read", `{"path":"a"}`}, call{"files.read", `{"path":"b"}`}, call{"files.read", `{"path":"c"}`}, call{"files.read", `{"path":"d"}`})
	var res []*message.Message
	var pos []int64
	for i := range k {
		res, pos = append(res, c.result(k[i], message.OK, "")), append(pos, c.pos)
	}
	cause := record.Change{State: record.Invalidated, Tool: "files.write", Branch: "main", Pos: c.pos}
	elsewhere, undone := cause, cause
	elsewhere.Branch = "other"
	undone.Undone = time.Now()
	c.mark(res[0].ID, pos[0], cause)
	c.mark(res[1].ID, pos[1], elsewhere)
	c.mark(res[2].ID, pos[2], undone)
	c.mark(res[3].ID, pos[3], record.Change{State: record.Deleted})
	want := []string{"success Read c", "success Read b", "success Read a (obsolete)"}
	for _, f := range []worklog.Filter{{}, {Conversation: c.id}, {Conversation: c.id, AllBranches: true}} {
		expect(t, all(t, e, ana, f, 50), want...)
		expect(t, all(t, e, ana, f, 1), want...)
	}
	if _, _, err := e.Show(context.Background(), ana, k[3].Ref.String()); !fault.HasCode(err, "call_not_found") {
		t.Errorf("a deleted call is shown: %v", err)
	}
	// For messages that are not on the preferred branch, the newest change counts.
	c.commit(store.Change{URI: record.ConversationURI(c.id), Body: record.Encode(record.Conversation{Branch: "empty"})})
	expect(t, all(t, e, ana, worklog.Filter{}, 50), "success Read c", "success Read b (obsolete)", "success Read a (obsolete)")
	if list := all(t, e, ana, worklog.Filter{Conversation: c.id}, 50); len(list) != 0 {
		t.Errorf("%q", told(list))
	}
	// Deleting the message removes its calls, and deleting the conversation all of them.
	c.commit(store.Change{URI: record.ConversationURI(c.id), Body: record.Encode(record.Conversation{})})
	c.mark(k[0].Message, 2, record.Change{State: record.Deleted})
	if list := all(t, e, ana, worklog.Filter{Conversation: c.id}, 50); len(list) != 0 {
		t.Errorf("%q", told(list))
	}
	d := newChat(t, st, ana, "Deleted")
	d.turn("First")
	kept := d.calls(call{"files.read", `{"path":"x"}`})
	d.commit(store.Change{URI: record.ConversationURI(d.id), Body: record.Encode(record.Conversation{Deleted: time.Now()})})
	if list := all(t, e, ana, worklog.Filter{}, 50); len(list) != 0 {
		t.Errorf("%q", told(list))
	}
	for _, ref := range []string{kept[0].Ref.String(), "last"} {
		if _, _, err := e.Show(context.Background(), ana, ref); !fault.HasCode(err, "call_not_found") {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

// A copy of a conversation adds no entries for the copied calls.
func TestCopies(t *testing.T) {
	st := openStore(t)
	e := engine(t, st)
	c := newChat(t, st, ana, "First")
	c.turn("First")
	k := c.calls(call{"files.read", `{"path":"a"}`})
	c.result(k[0], message.OK, "")
	k = c.calls(call{"files.read", `{"path":"b"}`})
	c.result(k[0], message.OK, "")
	c.final("So")
	d := newChat(t, st, ana, "Copy")
	d.at = time.Now().UTC()
	page1, err := st.Query(context.Background(), ana, store.Query{List: record.BranchURI(c.id, "main")})
	must(t, err)
	for _, it := range page1.Items {
		d.pos = it.Pos
		d.commit(store.Change{URI: record.InteractionURI(d.id, c.inter).Child(record.TypeMessage, it.URI.ID()), Body: it.Body,
			Place: &store.Place{List: record.BranchURI(d.id, "main"), Pos: it.Pos}})
	}
	d.turn("More")
	k = d.calls(call{"files.read", `{"path":"c"}`})
	d.result(k[0], message.OK, "")
	d.final("So")
	for limit := 1; limit < 4; limit++ {
		expect(t, all(t, e, ana, worklog.Filter{}, limit), "success Read c", "success Read b", "success Read a")
		expect(t, all(t, e, ana, worklog.Filter{Interaction: c.inter}, limit), "success Read b", "success Read a")
		expect(t, all(t, e, ana, worklog.Filter{Conversation: d.id}, limit), "success Read c", "success Read b", "success Read a")
	}
	en, _, err := e.Show(context.Background(), ana, all(t, e, ana, worklog.Filter{}, 9)[2].ID)
	if err != nil || en.Title != "First" {
		t.Errorf("%+v, %v", en, err)
	}
	c.commit(store.Change{URI: record.ConversationURI(c.id), Body: record.Encode(record.Conversation{Deleted: time.Now()})})
	expect(t, all(t, e, ana, worklog.Filter{}, 9), "success Read c", "success Read b", "success Read a")
}

func TestWhatWasErasedIsNotTold(t *testing.T) {
	st := openStore(t)
	e := engine(t, st)
	c := newChat(t, st, ana, "Erased")
	c.turn("First")
	k := c.calls(call{"files.read", `{"path":"a"}`})
	m := c.result(k[0], message.OK, "")
	c.end()
	c.commit(store.Change{Op: store.Erase, URI: c.uri(m.ID)})
	expect(t, all(t, e, ana, worklog.Filter{}, 50), "failure Read a [no result was recorded]")
	c.commit(store.Change{Op: store.Erase, URI: c.uri(k[0].Message)})
	for _, f := range []worklog.Filter{{}, {Conversation: c.id}} {
		if list := all(t, e, ana, f, 50); len(list) != 0 {
			t.Errorf("%q", told(list))
		}
	}
}

func TestShow(t *testing.T) {
	st := openStore(t)
	e := engine(t, st)
	ctx := context.Background()
	if _, _, err := e.Show(ctx, ana, "last"); !fault.HasCode(err, "call_not_found") {
		t.Error(err)
	}
	c := newChat(t, st, ana, "Shown")
	c.turn("First")
	k := c.calls(call{"files.read", `{"path":"a"}`}, call{"mail.send", `{"to":"bob","route":"backdoor","api_key":"hunter2"}`})
	c.result(k[0], message.OK, "It holds sk-abcdefghijklmnop and hunter2.")
	c.result(k[1], message.Failed, "no")
	old := id.ID{6: 0x40, 8: 0x80, 15: 9} // an id that contains no time
	imported := c.say(&message.Message{ID: old, Role: message.Assistant, Blocks: []message.Block{&message.ToolCall{Name: "files.list", Args: []byte(`{}`)}}})
	c.result(imported.Calls()[0], message.OK, "x")
	for range 20 { // other messages to search
		newChat(t, st, ana, "Other")
	}
	whole := k[0].Ref.String()
	end := whole[len(whole)-8:]
	for ref, want := range map[string]string{whole: "Read a", end: "Read a", strings.ToUpper(end): "Read a", old.String() + "/0": "Listed the granted folders",
		"last": "Listed the granted folders", "0009/0": "Listed the granted folders"} {
		en, msgs, err := e.Show(ctx, ana, ref)
		if err != nil || en.Summary != want || len(msgs) != 2 || msgs[0].ID != en.Messages[0] || msgs[1].ID != en.Messages[1] {
			t.Errorf("%s: %+v, %v", ref, en, err)
		}
	}
	_, msgs, err := e.Show(ctx, ana, whole)
	must(t, err)
	if got := string(message.Append(message.Append(nil, msgs[0]), msgs[1])); strings.Contains(got, "hunter2") || strings.Contains(got, "backdoor") ||
		strings.Contains(got, "sk-abc") || !strings.Contains(got, "Let me see.") || !strings.Contains(got, "It holds [secret] and [secret].") {
		t.Error(got)
	}
	for _, ref := range []string{"", "x", "abc/0", whole[:36], whole[:36] + "/x", "/1", whole[:36] + "/-1", "zzzz/1"} {
		if _, _, err := e.Show(ctx, ana, ref); !fault.HasCode(err, "ref_invalid") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for _, ref := range []string{whole[:37] + "0", whole[:37] + "9", id.New().String() + "/0", id.Derive("x").String() + "/0", "00000000/0", old.String() + "/1"} {
		if _, _, err := e.Show(ctx, ana, ref); !fault.HasCode(err, "call_not_found") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if _, _, err := e.Show(ctx, eve, whole); !fault.HasCode(err, "call_not_found") {
		t.Error(err)
	}
}
