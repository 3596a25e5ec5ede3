package runtime_test

import (
	"context"
	"testing"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/runtime"
)

// What waits is found by what is recorded: in all conversations, also after a
// restart, and told again when it becomes otherwise.
func TestApprovalsOfAllConversations(t *testing.T) {
	w := newWorld(t)
	one := w.send(id.ID{}, `call ledger.add {"what":"x"}`)
	w.until(one.Conversation, runtime.Cursor{}, asksPerson)
	two := w.send(id.ID{}, `call ledger.add {"what":"y"}`)
	w.until(two.Conversation, runtime.Cursor{}, asksPerson)
	before, err := w.Approvals(t.Context(), "anna")
	if err != nil || len(before) != 2 || string(before[0].Args) != `{"what":"x"}` || !before[0].Yours {
		t.Fatalf("%+v, %v", before, err)
	}
	w.reopen()
	w.until(one.Conversation, runtime.Cursor{}, asksPerson)
	after, err := w.Approvals(t.Context(), "anna")
	if err != nil || len(after) != 2 || after[0].ID != before[0].ID || after[0].Hash != before[0].Hash || !after[0].Expires.Equal(before[0].Expires) {
		t.Errorf("after a restart %+v, %v", after, err)
	}
	if list, err := w.Approvals(t.Context(), "bert"); err != nil || len(list) != 0 {
		t.Errorf("bert is told %+v, %v", list, err)
	}
	if _, err := w.Approval(t.Context(), "bert", before[0].Short, nil); !fault.HasCode(err, "approval_not_found") {
		t.Error(err)
	}
	q, err := w.Approval(t.Context(), "anna", before[0].Short, intent.Pattern{"what": {Any: true}})
	if err != nil || q.Hash == before[0].Hash {
		t.Fatalf("%+v, %v", q, err)
	}
	told := 0
	for list, err := range w.FollowApprovals(t.Context(), "anna") {
		ok(t, err)
		told++
		switch len(list) {
		case 2:
			v := runtime.Verdict{ID: q.ID, Hash: q.Hash, Approve: true, Standing: effect.Always, Pattern: q.Pattern}
			ok(t, w.Decide(t.Context(), "anna", v))
			continue
		case 1:
			ok(t, w.Decide(t.Context(), "anna", runtime.Verdict{ID: list[0].ID, Hash: list[0].Hash}))
			continue
		}
		break
	}
	if told != 3 {
		t.Errorf("told %d times", told)
	}
	w.until(one.Conversation, runtime.Cursor{}, isKind(runtime.FrameComplete))
	w.until(two.Conversation, runtime.Cursor{}, isKind(runtime.FrameComplete))
	w.turn(id.ID{}, `call ledger.add {"what":"z"}`) // covered: nobody is asked
	if got := w.ledger.list(); got != "x,z" {
		t.Errorf("the ledger has %q", got)
	}
}

func TestGrantsOfANode(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	acc := w.send(id.ID{}, `call ledger.add {"what":"x"}`)
	frames := w.until(acc.Conversation, runtime.Cursor{}, asksPerson)
	a := frames[len(frames)-1].Call.Approval
	if a.Foreign || a.Pattern.String() != `what = "x"` || a.NoGrant != "" {
		t.Errorf("%+v", a)
	}
	ok(t, w.Decide(ctx, "anna", runtime.Verdict{ID: a.ID, Hash: a.Hash, Approve: true, Standing: effect.InConversation}))
	w.until(acc.Conversation, runtime.Cursor{}, isKind(runtime.FrameComplete))
	list, err := w.Grants(ctx, "anna", false)
	if err != nil || len(list) != 1 || list[0].State != "active" || list[0].Standing != effect.InConversation {
		t.Fatalf("%+v, %v", list, err)
	}
	g := list[0].ID
	for who, want := range map[string]string{"anna": "", "bert": "grant_not_found"} {
		if _, err := w.Grant(ctx, who, g); want == "" && err != nil || want != "" && !fault.HasCode(err, want) {
			t.Errorf("%s: %v", who, err)
		}
	}
	if err := w.RevokeGrant(ctx, "bert", g); !fault.HasCode(err, "grant_not_found") {
		t.Error(err)
	}
	ed := effect.GrantEdit{Standing: effect.Always}
	shown, err := w.ShowGrantEdit(ctx, "anna", g, ed)
	if err != nil || !shown.Wider || shown.Grant.Standing != effect.Always {
		t.Fatalf("%+v, %v", shown, err)
	}
	ed.Hash = shown.Hash
	if got, err := w.EditGrant(ctx, "anna", g, ed); err != nil || got.Standing != effect.Always {
		t.Errorf("%+v, %v", got, err)
	}
	if err := w.RevokeGrant(ctx, "anna", g); err != nil {
		t.Error(err)
	}
	if got, err := w.Grant(ctx, "anna", g); err != nil || got.State != "revoked" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFollowingEndsWithItsListener(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for list, err := range w.FollowApprovals(ctx, "anna") {
		if len(list) != 0 || err != nil {
			t.Errorf("%+v, %v", list, err)
		}
		cancel()
	}
	closed := make(chan struct{})
	for range w.FollowApprovals(t.Context(), "anna") {
		go func() {
			defer close(closed)
			w.close()
		}()
	}
	<-closed
	w.open()
}
