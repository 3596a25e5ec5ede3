package conversation_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store/storetest"
	"steward/internal/tool"
)

// A result grows too old in a turn that calls no tool, too.
func TestAgeIsSeenInATurnWithoutCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := &tool.Registry{}
		x, err := tool.New(tool.Spec{Name: "clock.now", Description: "For tests.", Effect: tool.Query, Tidy: []tool.Strategy{{Kind: tool.ByAge, MaxAge: time.Hour}}},
			func(context.Context, tool.Invocation, struct{}) (string, error) { return "", nil })
		if err == nil {
			err = reg.Add(x)
		}
		if err != nil {
			t.Fatal(err)
		}
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

// A message stands for others only if it is shown itself in the end: never for
// itself, in a circle, or when it is deleted.
func TestWhatStandsForMessagesIsShown(t *testing.T) {
	k := newTalk(t)
	ctx := t.Context()
	k.turn("one", "file.read a")
	k.turn("two")
	first, call, result, later, last := k.all[0], k.all[1], k.all[2], k.all[4], k.all[5]
	before := k.view()
	mark := func(by id.ID, msgs ...id.ID) error {
		_, err := k.e.Mark(ctx, anna, k.conv, conversation.Verdict{State: record.Superseded, By: by}, msgs...)
		return err
	}
	k.code(mark(first, first), "supersedes_itself")
	k.code(mark(result, call), "supersedes_itself") // they live and fall together
	k.code(mark(later, first, later), "supersedes_itself")
	k.ok(second(k.e.Mark(ctx, anna, k.conv, conversation.Verdict{State: record.Deleted}, last)))
	k.code(mark(last, first), "superseded_by_hidden")
	k.ok(second(k.e.Mark(ctx, anna, k.conv, conversation.Verdict{State: record.Active}, last)))
	k.expect("the view", k.view(), before...)
	k.ok(mark(later, first))
	k.code(mark(first, later), "supersedes_itself")
	k.ok(mark(last, later))
	k.code(mark(first, last), "supersedes_itself")
}
