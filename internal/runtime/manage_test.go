package runtime_test

import (
	"context"
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
)

// everything is every operation on a conversation by its id.
func everything(w *world, user string, conv, msg, inter id.ID, branch string) map[string]error {
	ctx := w.t.Context()
	out := map[string]error{}
	_, _, out["Branches"] = w.Branches(ctx, user, conv)
	_, out["Siblings"] = w.Siblings(ctx, user, conv, msg)
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
	_, out["Interaction"] = w.Interaction(ctx, user, conv, inter)
	out["Merge"] = w.Merge(ctx, user, conv, inter, id.New())
	_, out["Mark"] = w.Mark(ctx, user, conv, conversation.Verdict{State: record.Archived}, msg)
	out["Pin"] = w.Pin(ctx, user, conv, true, msg)
	_, out["Audit"] = w.Audit(ctx, user, conv, id.ID{}, "")
	_, out["Rollback"] = w.Rollback(ctx, user, conv, inter, "")
	for _, how := range []runtime.Tidying{runtime.TidyRefresh, runtime.TidyCompact, runtime.TidyWhole, runtime.TidyOptimize, runtime.TidyRestore} {
		_, out["Tidy "+string(how)] = w.Tidy(ctx, user, conv, how, nil)
	}
	_, out["Send, replace"] = w.Send(ctx, user, runtime.Turn{Conversation: conv, Replace: msg, Content: text("x")})
	_, out["Send, regenerate"] = w.Send(ctx, user, runtime.Turn{Conversation: conv, Regenerate: msg})
	return out
}

func TestForeignConversationsCannotBeTouched(t *testing.T) {
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
	// What is deleted is not there for its owner either, and can only come back.
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
	if n := w.Held(); n > 1 {
		t.Errorf("%d conversations are held", n)
	}
}

// logged is the newest position of the log.
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
	if err := w.Switch(ctx, "anna", conv, b.ID); !fault.HasCode(err, "branch_not_found") {
		t.Error(err)
	}
	ok(w.Undelete(ctx, "anna", conv, b.ID))
	ok(w.Switch(ctx, "anna", conv, record.MainBranch))
	ok(w.Merge(ctx, "anna", conv, one, two))
	in, err := w.Interaction(ctx, "anna", conv, one)
	if err != nil || len(in.Entries) != 5 || in.Outcome != "answered" || in.Stopped.IsZero() { // with the inserted one
		t.Errorf("%d messages, %+v %v", len(in.Entries), in, err)
	}
	ok(second(w.Mark(ctx, "anna", conv, conversation.Verdict{State: record.Archived, Reason: "old"}, w.message(conv, 0))))
	audit, err := w.Audit(ctx, "anna", conv, id.ID{}, "")
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
	if _, err := w.Tidy(ctx, "anna", conv, runtime.TidyWhole, nil); !fault.HasCode(err, "nothing_to_undo") {
		t.Error(err)
	}
	if _, err := w.Tidy(ctx, "anna", conv, "dust", nil); !fault.HasCode(err, "tidying_unknown") {
		t.Error(err)
	}
	paths, err := w.Paths(ctx, "anna", conv, false)
	if err != nil || len(paths) != 3 || paths[0].Title != "trunk" || !paths[0].Preferred || paths[0].Own != 4 {
		t.Errorf("%+v %v", paths, err)
	}
	w.turn(conv, "say three")
}

// What is renamed while a message is written anew keeps its name, and the
// message is stored.
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
		if _, err := w.Send(t.Context(), "anna", runtime.Turn{Conversation: w.conv, Replace: first, Content: text("hello again")}); err != nil {
			t.Error(err)
		}
	}
	cancel()
	wg.Wait()
	for w.Running("anna", w.conv) {
		<-time.After(time.Millisecond)
	}
	c, err := w.Conversation(t.Context(), "anna", w.conv)
	if list, _, err := w.Branches(t.Context(), "anna", w.conv); len(list) != 21 || err != nil || c.Title != "mine" || c.Messages != 42 {
		t.Errorf("%d branches, %+v, %v", len(list), c, err)
	}
	if err != nil {
		t.Error(err)
	}
}
