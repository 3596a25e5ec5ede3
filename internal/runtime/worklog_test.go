package runtime_test

import (
	"fmt"
	"slices"
	"testing"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/worklog"
)

// told reads the work log of anna, two entries at a time.
func (w *world) told(f worklog.Filter) []string {
	w.t.Helper()
	out := []string{}
	list, next, err := w.WorkLog(w.t.Context(), "anna", f, "", 2)
	for ; err == nil; list, next, err = w.WorkLog(w.t.Context(), "anna", f, next, 2) {
		for _, en := range list {
			out = append(out, fmt.Sprint(en.Outcome, " ", en.Summary))
		}
		if next == "" {
			return out
		}
	}
	w.t.Fatal(err)
	return nil
}

func TestWorkLog(t *testing.T) {
	w := newWorld(t)
	expect := func(f worklog.Filter, want ...string) {
		t.Helper()
		if got := w.told(f); !slices.Equal(got, want) {
			t.Errorf("%+v: told %q, want %q", f, got, want)
		}
	}
	conv, _ := w.turn(id.ID{}, "call math.multiply {\"a\":6,\"b\":7}\ncall math.nothing {\"x\":1}\ncall math.multiply {\"a\":2,\"b\":3}")
	const first = "success Math: multiply"
	expect(worklog.Filter{}, first, "failure Math: nothing 1", first)

	acc := w.send(conv, `call ledger.add {"what":"x"}`)
	ask := w.until(conv, runtime.Cursor{Seq: acc.Seq}, func(f runtime.Frame) bool { return f.Call != nil && f.Call.Approval != nil })
	expect(worklog.Filter{Outcome: worklog.Pending}, "pending Ledger: add x")
	v := ask[len(ask)-1].Call.Approval
	if err := w.Decide(t.Context(), "anna", runtime.Verdict{ID: v.ID, Hash: v.Hash, Reason: "not today"}); err != nil {
		t.Fatal(err)
	}
	w.until(conv, runtime.Cursor{Seq: acc.Seq}, isKind(runtime.FrameComplete))
	w.atRest(conv)
	all := []string{"failure Ledger: add x", first, "failure Math: nothing 1", first}
	expect(worklog.Filter{Conversation: conv}, all...)
	expect(worklog.Filter{Conversation: conv, Interaction: acc.Interaction}, all[0])

	list, _, err := w.WorkLog(t.Context(), "anna", worklog.Filter{}, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, en := range list {
		one, msgs, err := w.WorkLogEntry(t.Context(), "anna", en.ID)
		if err != nil || one.Summary != en.Summary || len(msgs) != 2 || one.Request.Zero() || one.Actor != "anna" {
			t.Errorf("entry %d: %+v, %v", i, one, err)
		}
	}
	if _, _, err := w.WorkLogEntry(t.Context(), "bert", list[0].ID); !fault.HasCode(err, "call_not_found") {
		t.Error(err)
	}

	// Another branch from before the question: what was done stays in the log of all that was done.
	if _, err := w.Fork(t.Context(), "anna", conv, conversation.Fork{Message: acc.Message, Before: true}); err != nil {
		t.Fatal(err)
	}
	w.turn(conv, `call math.multiply {"a":1,"b":1}`)
	w.atRest(conv)
	expect(worklog.Filter{Conversation: conv}, first, first, "failure Math: nothing 1", first)
	expect(worklog.Filter{Conversation: conv, AllBranches: true}, append([]string{first}, all...)...)
	expect(worklog.Filter{}, append([]string{first}, all...)...)

	// What a person says of a message counts.
	if _, err := w.Mark(t.Context(), "anna", conv, conversation.Verdict{State: record.Invalidated, Reason: "wrong"}, list[1].Messages[1]); err != nil {
		t.Fatal(err)
	}
	if one, _, err := w.WorkLogEntry(t.Context(), "anna", list[1].ID); err != nil || !one.Obsolete {
		t.Errorf("%+v, %v", one, err)
	}
	if err := w.Delete(t.Context(), "anna", conv); err != nil {
		t.Fatal(err)
	}
	expect(worklog.Filter{})
	if _, _, err := w.WorkLog(t.Context(), "anna", worklog.Filter{Conversation: conv}, "", 0); !fault.HasCode(err, "conversation_not_found") {
		t.Error(err)
	}
}
