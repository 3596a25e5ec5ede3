package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/turn"
)

// wording reads all pages of a reading and joins the texts.
func (w *world) wording(conv id.ID, r conversation.Reading) string {
	w.t.Helper()
	var out []string
	for {
		page, next, err := w.Conversations.Read(w.t.Context(), store.ForUser("anna"), conv, r)
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
	page, _, err := w.Conversations.Read(ctx, store.ForUser("anna"), conv, conversation.Reading{})
	if err != nil || len(page) != 4 {
		t.Fatalf("%d, %v", len(page), err)
	}
	b, err := w.Fork(ctx, "anna", conv, conversation.Fork{Message: page[2].ID, Before: true, Title: "other"})
	ok(t, err)
	w.turn(conv, "call math.multiply {\"a\":6,\"b\":7}")
	w.atRest(conv)
	for _, c := range []struct {
		r    conversation.Reading
		want string
	}{
		{conversation.Reading{Limit: 1}, "say one|one|call math.multiply {\"a\":6,\"b\":7}||42|ok: 42"},
		{conversation.Reading{Branch: b.ID, Reverse: true}, "ok: 42|42||call math.multiply {\"a\":6,\"b\":7}|one|say one"},
		{conversation.Reading{Branch: record.MainBranch, Limit: 3}, "say one|one|say two|two"},
		{conversation.Reading{Deleted: true}, ""},
	} {
		if got := w.wording(conv, c.r); got != c.want {
			t.Errorf("%+v: %s, want %s", c.r, got, c.want)
		}
	}
	for _, c := range []struct {
		user string
		conv id.ID
		r    conversation.Reading
		code string
	}{
		{"anna", conv, conversation.Reading{Branch: "none"}, "branch_not_found"},
		{"eve", conv, conversation.Reading{Branch: record.MainBranch}, "conversation_not_found"},
		{"eve", conv, conversation.Reading{Deleted: true}, "conversation_not_found"},
		{"anna", id.New(), conversation.Reading{}, "conversation_not_found"},
		{"anna", conv, conversation.Reading{After: "nonsense"}, "cursor_invalid"},
	} {
		if _, _, err := w.Conversations.Read(ctx, store.ForUser(c.user), c.conv, c.r); !fault.HasCode(err, c.code) {
			t.Errorf("%+v: %v", c, err)
		}
	}

	// Deleted messages are listed in the order of their deletion, until restored.
	mark := func(state record.Validity, msg id.ID) {
		t.Helper()
		ok(t, second(w.Mark(ctx, "anna", conv, conversation.Verdict{State: state, Reason: "so"}, msg)))
	}
	mark(record.Deleted, page[1].ID)
	mark(record.Deleted, page[0].ID)
	list, _, err := w.Conversations.Read(ctx, store.ForUser("anna"), conv, conversation.Reading{Deleted: true})
	if err != nil || len(list) != 2 || list[0].Change.State != record.Deleted || list[0].Change.Reason != "so" {
		t.Errorf("%v %+v", err, list)
	}
	if got := w.wording(conv, conversation.Reading{Branch: record.MainBranch}); got != "say two|two" {
		t.Error(got)
	}
	mark(record.Active, page[1].ID)
	if got := w.wording(conv, conversation.Reading{Deleted: true}); got != "say one" {
		t.Error(got)
	}
}

func TestPaths(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	conv, _ := w.turn(id.ID{}, "say "+strings.Repeat("long ", 60))
	w.atRest(conv)
	page, _, err := w.Conversations.Read(ctx, store.ForUser("anna"), conv, conversation.Reading{})
	ok(t, err)
	// A regenerated answer, a replaced question, and a branch of a branch.
	from := turn.Cursor{Seq: page[1].Seq}
	ok(t, second(w.Send(ctx, "anna", turn.Input{Conversation: conv, Regenerate: page[1].ID})))
	w.until(conv, from, isKind(turn.FrameComplete))
	w.atRest(conv)
	again := w.path(conv, func(p conversation.Path) bool { return p.Preferred })
	ok(t, second(w.Send(ctx, "anna", turn.Input{Conversation: conv, Replace: page[0].ID, Content: text("say anew")})))
	w.atRest(conv)
	anew := w.path(conv, func(p conversation.Path) bool { return p.Preferred })
	ok(t, second(w.Fork(ctx, "anna", conv, conversation.Fork{Title: "side"})))
	secret := &message.Message{ID: id.New(), Role: message.User, Blocks: []message.Block{
		&message.Text{Common: message.Common{Origin: record.OriginUser, Labels: message.Secret}, Text: "hunter2"}}}
	ok(t, second(w.Insert(ctx, "anna", conv, id.ID{}, secret)))
	list, err := w.Conversations.Paths(ctx, store.ForUser("anna"), conv, false)
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
	if list, err = w.Conversations.Paths(ctx, store.ForUser("anna"), conv, true); err != nil || len(list) != 1 || list[0].ID != again.ID {
		t.Errorf("%+v, %v", list, err)
	}
	for _, user := range []string{"eve", "anna"} {
		coded(t, second(w.Conversations.Paths(ctx, store.ForUser(user), id.New(), false)), "conversation_not_found")
	}
	coded(t, second(w.Conversations.Paths(ctx, store.ForUser("eve"), conv, false)), "conversation_not_found")
}

func (w *world) path(conv id.ID, is func(conversation.Path) bool) conversation.Path {
	w.t.Helper()
	list, err := w.Conversations.Paths(w.t.Context(), store.ForUser("anna"), conv, false)
	ok(w.t, err)
	for _, p := range list {
		if is(p) {
			return p
		}
	}
	w.t.Fatal("there is no such branch")
	return conversation.Path{}
}

// Errors of the store are returned.
func TestReadingFromABrokenStore(t *testing.T) {
	w := newWorld(t)
	conv, _ := w.turn(id.ID{}, "say one")
	w.atRest(conv)
	n := w.Node
	w.close()
	if _, _, err := n.Conversations.Read(t.Context(), store.ForUser("anna"), conv, conversation.Reading{Deleted: true}); err == nil {
		t.Error("read from a closed store")
	}
	if _, err := n.Conversations.Paths(t.Context(), store.ForUser("anna"), conv, false); err == nil {
		t.Error("read from a closed store")
	}
}

// everything runs every operation on a conversation by its id.
func everything(w *world, user string, conv, msg, inter id.ID, branch string) map[string]error {
	ctx := w.t.Context()
	out := map[string]error{}
	_, _, out["Branches"] = w.Branches(ctx, user, conv)
	_, out["Siblings"] = w.Conversations.Siblings(ctx, store.ForUser(user), conv, msg)
	_, out["Fork"] = w.Fork(ctx, user, conv, conversation.Fork{Message: msg})
	out["Switch"] = w.Switch(ctx, user, conv, branch)
	_, _, out["Rewind"] = w.Rewind(ctx, user, conv, msg, false)
	_, _, out["Rewind, withdraw"] = w.Rewind(ctx, user, conv, msg, true)
	out["TitleBranch"] = w.TitleBranch(ctx, user, conv, branch, "x")
	_, out["CopyBranch"] = w.CopyBranch(ctx, user, conv, branch)
	out["DeleteBranch"] = w.DeleteBranch(ctx, user, conv, branch)
	out["Undelete branch"] = w.Undelete(ctx, user, conv, branch)
	_, out["Remove"] = w.Remove(ctx, user, conv, msg)
	_, out["Insert"] = w.Insert(ctx, user, conv, msg, &message.Message{ID: id.New(), Role: message.User, Blocks: text("x")})
	_, out["Interaction"] = w.Conversations.Interaction(ctx, store.ForUser(user), conv, inter)
	out["Merge"] = w.Merge(ctx, user, conv, inter, id.New())
	_, out["Mark"] = w.Mark(ctx, user, conv, conversation.Verdict{State: record.Archived}, msg)
	out["Pin"] = w.Pin(ctx, user, conv, true, msg)
	_, out["Audit"] = w.Conversations.Audit(ctx, store.ForUser(user), conv, id.ID{}, "")
	_, out["Rollback"] = w.Rollback(ctx, user, conv, inter, "")
	for _, how := range []runtime.Tidying{runtime.TidyRefresh, runtime.TidyCompact, runtime.TidyWhole, runtime.TidyOptimize, runtime.TidyRestore} {
		_, out["Tidy "+string(how)] = w.Tidy(ctx, user, conv, how, nil)
	}
	_, out["Send, replace"] = w.Send(ctx, user, turn.Input{Conversation: conv, Replace: msg, Content: text("x")})
	_, out["Send, regenerate"] = w.Send(ctx, user, turn.Input{Conversation: conv, Regenerate: msg})
	return out
}

func TestForeignAndDeletedConversations(t *testing.T) {
	w := newWorld(t)
	conv, frames := w.turn(id.ID{}, "say one")
	msg, inter := w.message(conv, 0), frames[0].Interaction
	ok(t, second(w.Fork(t.Context(), "anna", conv, conversation.Fork{})))
	before := w.logged()
	for name, err := range everything(w, "bert", conv, msg, inter, record.MainBranch) {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("bert, %s: %v", name, err)
		}
	}
	if err := w.Undelete(t.Context(), "bert", conv, ""); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	if now := w.logged(); now != before {
		t.Errorf("bert's attempts wrote %d entries", now-before)
	}
	// For its owner a deleted conversation can only be restored.
	ok(t, w.Delete(t.Context(), "anna", conv))
	before = w.logged()
	for name, err := range everything(w, "anna", conv, msg, inter, record.MainBranch) {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("deleted, %s: %v", name, err)
		}
	}
	if now := w.logged(); now != before {
		t.Errorf("attempts at what is deleted wrote %d entries", now-before)
	}
	ok(t, w.Undelete(t.Context(), "anna", conv, ""))
	w.expect(conv, "say one", "one")
	if n := w.CachedConversations(); n > 1 {
		t.Errorf("%d conversations are held", n)
	}
}

// logged returns the newest position of the log.
func (w *world) logged() uint64 {
	w.t.Helper()
	page, err := w.store.Log(w.t.Context(), store.ForNode("system"), store.LogQuery{Reverse: true, Limit: 1})
	ok(w.t, err)
	return page.Entries[0].Seq
}

func TestManagingBranches(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		ok(t, err)
	}
	conv, frames := w.turn(id.ID{}, "say one")
	one := frames[0].Interaction
	_, frames = w.turn(conv, "say two")
	two := frames[len(frames)-1].Interaction
	ok(w.TitleBranch(ctx, "anna", conv, record.MainBranch, "trunk"))
	b, err := w.Remove(ctx, "anna", conv, w.message(conv, 2), w.message(conv, 3))
	ok(err)
	w.expect(conv, "say one", "one")
	_, err = w.Insert(ctx, "anna", conv, w.message(conv, 1), &message.Message{ID: id.New(), Role: message.User,
		Blocks: []message.Block{&message.Text{Common: message.Common{Origin: "user"}, Text: "say between"}}})
	ok(err)
	w.expect(conv, "say one", "one", "say between")
	copied, err := w.CopyBranch(ctx, "anna", conv, b.ID)
	ok(err)
	w.expect(copied, "say one", "one")
	ok(w.DeleteBranch(ctx, "anna", conv, b.ID))
	coded(t, w.Switch(ctx, "anna", conv, b.ID), "branch_not_found")
	ok(w.Undelete(ctx, "anna", conv, b.ID))
	ok(w.Switch(ctx, "anna", conv, record.MainBranch))
	ok(w.Merge(ctx, "anna", conv, one, two))
	in, err := w.Conversations.Interaction(ctx, store.ForUser("anna"), conv, one)
	if err != nil || len(in.Entries) != 5 || in.Outcome != "answered" || in.Stopped.IsZero() { // with the inserted one
		t.Errorf("%d messages, %+v %v", len(in.Entries), in, err)
	}
	ok(second(w.Mark(ctx, "anna", conv, conversation.Verdict{State: record.Archived, Reason: "old"}, w.message(conv, 0))))
	audit, err := w.Conversations.Audit(ctx, store.ForUser("anna"), conv, id.ID{}, "")
	if err != nil || len(audit) != 1 || audit[0].Actor != "anna" || audit[0].Reason != "old" {
		t.Errorf("%+v %v", audit, err)
	}
	ok(w.Pin(ctx, "anna", conv, true, w.message(conv, 1)))
	if n, err := w.Rollback(ctx, "anna", conv, one, ""); n != 0 || err != nil {
		t.Error(n, err)
	}
	for _, how := range []runtime.Tidying{runtime.TidyRefresh, runtime.TidyCompact, runtime.TidyOptimize, runtime.TidyRestore} {
		if _, err := w.Tidy(ctx, "anna", conv, how, []string{"math.multiply"}); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
	coded(t, second(w.Tidy(ctx, "anna", conv, runtime.TidyWhole, nil)), "nothing_to_undo")
	coded(t, second(w.Tidy(ctx, "anna", conv, "dust", nil)), "tidying_unknown")
	paths, err := w.Conversations.Paths(ctx, store.ForUser("anna"), conv, false)
	if err != nil || len(paths) != 3 || paths[0].Title != "trunk" || !paths[0].Preferred || paths[0].Own != 4 {
		t.Errorf("%+v %v", paths, err)
	}
	w.turn(conv, "say three")
}

// A conversation that is renamed while a message is replaced keeps its new
// name, and the message is stored.
func TestRenamingWhileEditing(t *testing.T) {
	w := newTight(t, 100_000, true)
	w.answered("hello", "ok")
	first := w.all()[0].ID
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := w.Rename(t.Context(), "anna", w.conv, "mine"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		if _, err := w.Send(t.Context(), "anna", turn.Input{Conversation: w.conv, Replace: first, Content: text("hello again")}); err != nil {
			t.Error(err)
		}
	}
	cancel()
	wg.Wait()
	for w.Running("anna", w.conv) {
		<-time.After(time.Millisecond)
	}
	c, err := w.Conversations.Get(t.Context(), store.ForUser("anna"), w.conv)
	if list, _, err := w.Branches(t.Context(), "anna", w.conv); len(list) != 21 || err != nil || c.Title != "mine" || c.Messages != 42 {
		t.Errorf("%d branches, %+v, %v", len(list), c, err)
	}
	if err != nil {
		t.Error(err)
	}
}
