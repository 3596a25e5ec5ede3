package conversation_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/tool"
	"steward/test/storetest"
)

// A result also expires in a turn that calls no tool.
func TestAgeIsSeenInATurnWithoutCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := &tool.Registry{}
		x, err := tool.New(tool.Spec{Name: "clock.now", Description: "For tests.", Effect: tool.Query, Tidy: []tool.Strategy{{Kind: tool.ByAge, MaxAge: time.Hour}}},
			func(context.Context, tool.Invocation, struct{}) (string, error) { return "", nil })
		if err == nil {
			err = reg.Add(x)
		}
		must(t, err)
		st := storetest.NewModel()
		k := &talk{t: t, conv: id.New(), db: st, e: conversation.New(st, conversation.Options{
			Tools: func(_, name string) (tool.Tool, bool) { return reg.Get(name) }, Names: func(string) []string { return reg.Names() }})}
		k.turn("what time is it?", "clock.now x")
		time.Sleep(2 * time.Hour)
		k.turn("and how are you?")
		list, err := k.e.Audit(t.Context(), anna, k.conv, id.ID{}, "")
		if err != nil || len(list) != 1 || list[0].Strategy != string(tool.ByAge) || list[0].Interaction != k.in[1] {
			t.Errorf("%+v, %v", list, err)
		}
		k.ok(second(k.e.Refresh(t.Context(), anna, k.conv)))
		if v := k.view(); !strings.HasPrefix(v[2], "[obsolete: ") {
			t.Errorf("the model is still shown\n%s", strings.Join(v, "\n"))
		}
	})
}

// A rollback reverts the changes of one interaction. A result that another
// interaction's write also made obsolete stays obsolete, with that cause. Two writes
// of one interaction are reverted together.
func TestARollbackDoesNotReviveWhatAnotherWriteMadeStale(t *testing.T) {
	k := newTalk(t)
	ctx := t.Context()
	k.turn("read", "file.read a")
	read := k.all[2]
	k.turn("write", "file.write a", "file.write a")
	k.turn("write again", "file.write a")
	holds := func(what string, want record.Validity, cause id.ID) {
		t.Helper()
		k.turn(what) // opens the conversation again
		m, err := k.e.Find(ctx, anna, k.conv, read)
		k.ok(err)
		i, err := k.e.Interaction(ctx, anna, k.conv, m.Interaction)
		k.ok(err)
		for _, m := range i.Entries {
			if m.ID == read && (m.Change.State != want || m.Change.Interaction != cause) {
				t.Errorf("%s: the result is %+v", what, m.Change)
			}
		}
	}
	roll := func(inter id.ID, want int) {
		t.Helper()
		if n, err := k.e.Rollback(ctx, anna, k.conv, inter, ""); err != nil || n != want {
			t.Errorf("%d restored, %v; want %d", n, err, want)
		}
	}
	holds("before", record.Invalidated, k.in[1])
	roll(k.in[1], 0)
	holds("one rolled back", record.Invalidated, k.in[2])
	roll(k.in[2], 1)
	holds("both rolled back", record.Active, id.ID{})
	k.turn("once more", "file.write a")
	holds("written once more", record.Invalidated, k.in[len(k.in)-1])
	k.ok(second(k.e.Mark(ctx, anna, k.conv, conversation.Verdict{State: record.Active}, read)))
	holds("a person says that it holds", record.Active, id.ID{})
}

// Rolling back a whole interaction reverts the changes of all its calls, not only of
// the first.
func TestARollbackTakesBackWhatEachCallOfATurnSays(t *testing.T) {
	k := newTalk(t)
	k.turn("read", "file.read a")
	before := k.view()
	k.turn("read and write", "file.read a", "file.write a")
	n, err := k.e.Rollback(t.Context(), anna, k.conv, k.in[1], "")
	if err != nil || n == 0 {
		t.Fatalf("%d restored, %v", n, err)
	}
	k.expect("the view", k.view()[:len(before)], before...)
}

// Reverting a deletion does not restore results that were left out to make room.
func TestADeletionTakenBackMakesNoRoomUndone(t *testing.T) {
	k := newTalk(t)
	ctx := t.Context()
	k.turn("read", "file.read a")
	k.turn("go on")
	if n, err := k.e.Optimize(ctx, anna, k.conv, []string{"web.get"}); err != nil || n != 1 {
		t.Fatalf("%d left out, %v", n, err)
	}
	before, call := k.view(), k.all[1]
	k.ok(second(k.e.Mark(ctx, anna, k.conv, conversation.Verdict{State: record.Deleted}, call)))
	k.ok(second(k.e.Mark(ctx, anna, k.conv, conversation.Verdict{State: record.Active}, call)))
	k.expect("the view", k.view(), before...)
	k.ok(second(k.e.Mark(ctx, anna, k.conv, conversation.Verdict{State: record.Active}, call)))
	if v := k.view(); strings.Contains(strings.Join(v, "\n"), "left out to make room") {
		t.Errorf("a person wants it shown:\n%s", strings.Join(v, "\n"))
	}
}

// If a message that replaces others is hidden or not on the branch, the others are
// shown.
func TestWhatStoodForMessagesLeavesThemWhenItGoes(t *testing.T) {
	k := newTalk(t)
	ctx := t.Context()
	k.turn("one")
	k.turn("two")
	k.turn("in short")
	one, two, short := k.all[0], k.all[2], k.all[4]
	mark := func(v conversation.Verdict, msgs ...id.ID) {
		t.Helper()
		k.ok(second(k.e.Mark(ctx, anna, k.conv, v, msgs...)))
	}
	mark(conversation.Verdict{State: record.Superseded, By: short}, one, two)
	brief := k.view()
	if slices.Contains(brief, "one") || slices.Contains(brief, "two") {
		t.Fatalf("%q", brief)
	}
	for _, state := range []record.Validity{record.Deleted, record.Archived, record.Invalidated} {
		mark(conversation.Verdict{State: state}, short)
		if got := k.view(); !slices.Contains(got, "one") || !slices.Contains(got, "two") || slices.Contains(got, "in short") {
			t.Errorf("%s: %q", state, got)
		}
		mark(conversation.Verdict{State: record.Active}, short)
		k.expect(string(state)+" and taken back", k.view(), brief...)
	}
	mark(conversation.Verdict{State: record.Deleted}, short, one)
	if got := k.view(); slices.Contains(got, "one") || !slices.Contains(got, "two") {
		t.Errorf("one of them deleted, too: %q", got)
	}
	mark(conversation.Verdict{State: record.Active}, short, one)
	_, err := k.e.Fork(ctx, anna, k.conv, conversation.Fork{Message: short, Before: true})
	k.ok(err)
	if got := k.view(); !slices.Contains(got, "one") || !slices.Contains(got, "two") {
		t.Errorf("on a branch without it: %q", got)
	}
}
