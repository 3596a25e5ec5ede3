package conversation_test

import (
	"testing"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
)

// What is another user's is not there, whatever is to be done to it.
func TestForeignConversationsAreNotThere(t *testing.T) {
	k := newTalk(t)
	k.turn("one")
	k.turn("two")
	ctx, e, msg, in := t.Context(), k.e, k.all[0], k.in[0]
	branch, err := e.Fork(ctx, anna, k.conv, conversation.Fork{Message: msg})
	k.ok(err)
	k.ok(e.Switch(ctx, anna, k.conv, record.MainBranch))
	before := k.view()
	for name, do := range map[string]func() error{
		"Get":         func() error { _, err := e.Get(ctx, bert, k.conv); return err },
		"Messages":    func() error { _, _, err := e.Messages(ctx, bert, k.conv, "", 0, false); return err },
		"Since":       func() error { _, err := e.Since(ctx, bert, k.conv, 0); return err },
		"Find":        func() error { _, err := e.Find(ctx, bert, k.conv, msg); return err },
		"Open":        func() error { _, err := e.Open(ctx, bert, k.conv); return err },
		"OpenFork":    func() error { _, err := e.OpenFork(ctx, bert, k.conv, conversation.Fork{Message: msg}); return err },
		"OpenAgain":   func() error { _, err := e.OpenAgain(ctx, bert, k.conv, msg); return err },
		"Fork":        func() error { _, err := e.Fork(ctx, bert, k.conv, conversation.Fork{Message: msg}); return err },
		"Switch":      func() error { return e.Switch(ctx, bert, k.conv, branch.ID) },
		"Title":       func() error { return e.Title(ctx, bert, k.conv, branch.ID, "mine") },
		"Siblings":    func() error { _, err := e.Siblings(ctx, bert, k.conv, msg); return err },
		"Remove":      func() error { _, err := e.Remove(ctx, bert, k.conv, msg); return err },
		"Insert":      func() error { _, err := e.Insert(ctx, bert, k.conv, msg, say(message.User, "x")); return err },
		"Interaction": func() error { _, err := e.Interaction(ctx, bert, k.conv, in); return err },
		"Merge":       func() error { return e.Merge(ctx, bert, k.conv, in, k.in[1]) },
		"Mark": func() error {
			return second(e.Mark(ctx, bert, k.conv, conversation.Verdict{State: record.Deleted}, msg))
		},
		"Pin":            func() error { return e.Pin(ctx, bert, k.conv, true, msg) },
		"Refresh":        func() error { return second(e.Refresh(ctx, bert, k.conv)) },
		"Audit":          func() error { _, err := e.Audit(ctx, bert, k.conv, id.ID{}, ""); return err },
		"Rollback":       func() error { _, err := e.Rollback(ctx, bert, k.conv, in, ""); return err },
		"Optimize":       func() error { _, err := e.Optimize(ctx, bert, k.conv, nil); return err },
		"Restore":        func() error { _, err := e.Restore(ctx, bert, k.conv); return err },
		"Unfit":          func() error { return e.Unfit(ctx, bert, k.conv) },
		"CopyBranch":     func() error { _, err := e.CopyBranch(ctx, bert, k.conv, record.MainBranch); return err },
		"Pack":           func() error { _, err := e.Pack(ctx, bert, k.conv, true); return err },
		"Delete":         func() error { return e.Delete(ctx, bert, k.conv) },
		"Undelete":       func() error { return e.Undelete(ctx, bert, k.conv) },
		"DeleteBranch":   func() error { return e.DeleteBranch(ctx, bert, k.conv, branch.ID) },
		"UndeleteBranch": func() error { return e.UndeleteBranch(ctx, bert, k.conv, branch.ID) },
	} {
		if err := do(); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s of a foreign conversation: %v", name, err)
		}
	}
	if list, err := e.Branches(ctx, bert, k.conv); len(list) > 0 {
		t.Errorf("a stranger sees %d branches, %v", len(list), err)
	}
	k.expect("the view after a stranger has tried everything", k.view(), before...)
}
