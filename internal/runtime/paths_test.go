package runtime_test

import (
	"fmt"
	"strings"
	"testing"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
)

// wording reads all that a reading tells, and joins what it says.
func (w *world) wording(conv id.ID, r runtime.Reading) string {
	w.t.Helper()
	var out []string
	for {
		page, next, err := w.ReadMessages(w.t.Context(), "anna", conv, r)
		ok(w.t, err)
		for _, m := range page {
			out = append(out, m.Text())
		}
		if r.After = next; next == "" {
			return strings.Join(out, "|")
		}
	}
}

func TestReadingBranchesAndWhatWasDeleted(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	conv, _ := w.turn(id.ID{}, "say one")
	w.atRest(conv)
	w.turn(conv, "say two")
	w.atRest(conv)
	page, _, err := w.ReadMessages(ctx, "anna", conv, runtime.Reading{})
	if err != nil || len(page) != 4 {
		t.Fatalf("%d, %v", len(page), err)
	}
	b, err := w.Fork(ctx, "anna", conv, conversation.Fork{Message: page[2].ID, Before: true, Title: "other"})
	ok(t, err)
	w.turn(conv, "call math.multiply {\"a\":6,\"b\":7}")
	w.atRest(conv)
	for _, c := range []struct {
		r    runtime.Reading
		want string
	}{
		{runtime.Reading{Limit: 1}, "say one|one|call math.multiply {\"a\":6,\"b\":7}||42|ok: 42"},
		{runtime.Reading{Branch: b.ID, Reverse: true}, "ok: 42|42||call math.multiply {\"a\":6,\"b\":7}|one|say one"},
		{runtime.Reading{Branch: record.MainBranch, Limit: 3}, "say one|one|say two|two"},
		{runtime.Reading{Deleted: true}, ""},
	} {
		if got := w.wording(conv, c.r); got != c.want {
			t.Errorf("%+v: %s, want %s", c.r, got, c.want)
		}
	}
	for _, c := range []struct {
		user string
		conv id.ID
		r    runtime.Reading
		code string
	}{
		{"anna", conv, runtime.Reading{Branch: "none"}, "branch_not_found"},
		{"eve", conv, runtime.Reading{Branch: record.MainBranch}, "conversation_not_found"},
		{"eve", conv, runtime.Reading{Deleted: true}, "conversation_not_found"},
		{"anna", id.New(), runtime.Reading{}, "conversation_not_found"},
		{"anna", conv, runtime.Reading{After: "nonsense"}, "cursor_invalid"},
	} {
		if _, _, err := w.ReadMessages(ctx, c.user, c.conv, c.r); !fault.HasCode(err, c.code) {
			t.Errorf("%+v: %v", c, err)
		}
	}

	// What is deleted is told in the order of its deletion, until it is back.
	mark := func(state record.Validity, msg id.ID) {
		t.Helper()
		ok(t, second(w.Mark(ctx, "anna", conv, conversation.Verdict{State: state, Reason: "so"}, msg)))
	}
	mark(record.Deleted, page[1].ID)
	mark(record.Deleted, page[0].ID)
	list, _, err := w.ReadMessages(ctx, "anna", conv, runtime.Reading{Deleted: true})
	if err != nil || len(list) != 2 || list[0].Change.State != record.Deleted || list[0].Change.Reason != "so" {
		t.Errorf("%v %+v", err, list)
	}
	if got := w.wording(conv, runtime.Reading{Branch: record.MainBranch}); got != "say two|two" {
		t.Error(got)
	}
	mark(record.Active, page[1].ID)
	if got := w.wording(conv, runtime.Reading{Deleted: true}); got != "say one" {
		t.Error(got)
	}
}

func TestPathsAreToldInWords(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	conv, _ := w.turn(id.ID{}, "say "+strings.Repeat("long ", 60))
	w.atRest(conv)
	page, _, err := w.ReadMessages(ctx, "anna", conv, runtime.Reading{})
	ok(t, err)
	// An answer given anew, a question put anew, and a branch of a branch.
	from := runtime.Cursor{Seq: page[1].Seq}
	ok(t, second(w.Send(ctx, "anna", runtime.Turn{Conversation: conv, Regenerate: page[1].ID})))
	w.until(conv, from, isKind(runtime.FrameComplete))
	w.atRest(conv)
	again := w.path(conv, func(p runtime.Path) bool { return p.Preferred })
	ok(t, second(w.Send(ctx, "anna", runtime.Turn{Conversation: conv, Replace: page[0].ID, Content: text("say anew")})))
	w.atRest(conv)
	anew := w.path(conv, func(p runtime.Path) bool { return p.Preferred })
	ok(t, second(w.Fork(ctx, "anna", conv, conversation.Fork{Title: "side"})))
	secret := &message.Message{ID: id.New(), Role: message.User, Blocks: []message.Block{
		&message.Text{Common: message.Common{Origin: record.OriginUser, Labels: message.Secret}, Text: "hunter2"}}}
	ok(t, second(w.Insert(ctx, "anna", conv, id.ID{}, secret)))
	list, err := w.Paths(ctx, "anna", conv, false)
	if err != nil || len(list) != 5 {
		t.Fatalf("%d, %v", len(list), err)
	}
	var got []string
	names := map[string]string{"": "-", "main": "main", again.ID: "again", anew.ID: "anew", list[3].ID: "side", list[4].ID: "secret"}
	for _, p := range list {
		got = append(got, fmt.Sprint(names[p.ID], " ", names[p.Stem], " ", p.Title, " ", p.Messages, " ", p.Own, " ", p.Preferred, " ", len([]rune(p.Begins))))
	}
	want := "main -  2 2 false 201|again main  2 1 false 201|anew -  2 2 false 8|side anew side 2 0 false 0|secret anew  3 1 true 0"
	if strings.Join(got, "|") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "|"), want)
	}
	ok(t, w.DeleteBranch(ctx, "anna", conv, again.ID))
	if list, err = w.Paths(ctx, "anna", conv, true); err != nil || len(list) != 1 || list[0].ID != again.ID {
		t.Errorf("%+v, %v", list, err)
	}
	for _, user := range []string{"eve", "anna"} {
		if _, err := w.Paths(ctx, user, id.New(), false); !fault.HasCode(err, "conversation_not_found") {
			t.Error(err)
		}
	}
	if _, err := w.Paths(ctx, "eve", conv, false); !fault.HasCode(err, "conversation_not_found") {
		t.Error(err)
	}
}

func (w *world) path(conv id.ID, is func(runtime.Path) bool) runtime.Path {
	w.t.Helper()
	list, err := w.Paths(w.t.Context(), "anna", conv, false)
	ok(w.t, err)
	for _, p := range list {
		if is(p) {
			return p
		}
	}
	w.t.Fatal("there is no such branch")
	return runtime.Path{}
}

// A store that fails is told of, whatever is read.
func TestReadingFromABrokenStore(t *testing.T) {
	w := newWorld(t)
	conv, _ := w.turn(id.ID{}, "say one")
	w.atRest(conv)
	n := w.Node
	w.close()
	if _, _, err := n.ReadMessages(t.Context(), "anna", conv, runtime.Reading{Deleted: true}); err == nil {
		t.Error("read from a closed store")
	}
	if _, err := n.Paths(t.Context(), "anna", conv, false); err == nil {
		t.Error("read from a closed store")
	}
}
