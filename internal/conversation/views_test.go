package conversation_test

import (
	"slices"
	"strings"
	"testing"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/record"
)

func TestUnfitGoesBackStepByStep(t *testing.T) {
	k := newTalk(t)
	for _, w := range []string{"one", "two", "three", "four"} {
		k.turn(w)
	}
	whole := k.view()
	k.fit(counting(600))
	first := k.view()
	if len(first) >= len(whole) {
		t.Fatal(first)
	}
	k.turn("five")
	k.turn("six")
	mid := k.view()
	k.fit(counting(500))
	k.ok(k.e.Unfit(t.Context(), anna, k.conv))
	k.expect("the view after one step back", k.view(), mid...)
	k.ok(k.e.Unfit(t.Context(), anna, k.conv))
	k.expect("the view after two steps back", k.view(), append(whole, "five", "re: five", "six", "re: six")...)
	k.code(k.e.Unfit(t.Context(), anna, k.conv), "nothing_to_undo")
}

func TestUnfitOfAForkShowsAll(t *testing.T) {
	k := newTalk(t)
	for _, w := range []string{"one", "two", "three", "four", "five"} {
		k.turn(w)
	}
	whole := k.view()
	k.fit(counting(600))
	_, err := k.e.Fork(t.Context(), anna, k.conv, conversation.Fork{})
	k.ok(err)
	k.ok(k.e.Unfit(t.Context(), anna, k.conv))
	k.expect("the view", k.view(), whole...)
	k.code(k.e.Unfit(t.Context(), anna, k.conv), "nothing_to_undo")
}

func TestASummaryMadeOutsideOfATurnBelongsToTheConversation(t *testing.T) {
	k := newTalk(t)
	for range 8 {
		k.turn("more")
	}
	k.fit(counting(1000))
	u := k.branch().View.Summary
	if !strings.HasPrefix(u, record.ConversationURI(k.conv).String()+"/") {
		t.Errorf("the summary stands at %s", u)
	}
}

func TestPackingAgainDoesNothing(t *testing.T) {
	k := newTalk(t)
	k.turn("one")
	k.turn("two")
	for _, step := range []string{"main", "fork"} {
		n, err := k.e.Pack(t.Context(), anna, k.conv, true)
		if err != nil || n == 0 && step == "main" {
			t.Fatal(n, err)
		}
		before := k.seq()
		if n, err := k.e.Pack(t.Context(), anna, k.conv, true); err != nil || n != 0 || k.seq() != before {
			t.Errorf("on the %s: packed %d again (%v), %d entries", step, n, err, k.seq()-before)
		}
		_, err = k.e.Fork(t.Context(), anna, k.conv, conversation.Fork{Message: k.all[1]})
		k.ok(err)
	}
}

func TestATitleDuringATurnDoesNotBreakIt(t *testing.T) {
	k := newTalk(t)
	for _, w := range []string{"one", "two", "three", "four", "five"} {
		k.turn(w)
	}
	s := k.session()
	k.begin(s, "six")
	k.ok(k.e.Title(t.Context(), anna, k.conv, "main", "mine"))
	fits, err := s.Fit(t.Context(), counting(600))
	if !fits || err != nil {
		t.Fatal(fits, err)
	}
	k.end(s, "done")
	if b := k.branch(); b.Title != "mine" || b.View.Start.Pos == 0 {
		t.Errorf("%+v", b)
	}
}

func TestARenameDoesNotStandInTheWayOfAnEdit(t *testing.T) {
	k := newTalk(t)
	m := k.turn("one")
	s, err := k.e.OpenFork(t.Context(), anna, k.conv, conversation.Fork{Message: m[0], Before: true})
	k.ok(err)
	_, err = k.e.Update(t.Context(), anna, k.conv, func(c *record.Conversation) { c.Title = "mine" })
	k.ok(err)
	k.begin(s, "two")
	k.end(s, "done")
	k.expect("the branch", k.list(), "two", "done")
	if c, _ := k.e.Get(t.Context(), anna, k.conv); c.Title != "mine" || c.Branch == "" {
		t.Errorf("%+v", c)
	}
}

func TestWhatTheViewKeepsIsSaidToBeShown(t *testing.T) {
	k := newTalk(t)
	s := k.session()
	k.begin(s, "do much")
	for range 8 {
		k.call(s, "web.get x")
	}
	fits, err := s.Fit(t.Context(), counting(600))
	if !fits || err != nil || len(s.Branch().View.Keep) == 0 {
		t.Fatal(fits, err, s.Branch().View)
	}
	k.end(s, "done")
	page, _, err := k.e.Messages(t.Context(), anna, k.conv, "", 1, false)
	k.ok(err)
	if m := page[0]; !m.Shown || m.Change.State != record.Active {
		t.Errorf("the question is told as %+v, shown %v", m.Change, m.Shown)
	}
}

func TestAnswerAnewNeedsTheQuestion(t *testing.T) {
	k := newTalk(t)
	k.turn("one")
	m := k.turn("two")
	k.ok(second(k.e.Mark(t.Context(), anna, k.conv, conversation.Verdict{State: record.Archived}, m[0])))
	_, err := k.e.OpenAgain(t.Context(), anna, k.conv, m[1])
	k.code(err, "nothing_asked")
}

// If the first message of the view is removed, the view begins with the next one.
func TestRemovingWhereTheViewBegins(t *testing.T) {
	k := newTalk(t)
	for range 12 {
		k.turn("more", "web.get x")
	}
	k.fit(counting(1500))
	start := k.branch().View.Start.Pos
	page, _, err := k.e.Messages(t.Context(), anna, k.conv, "", 1000, false)
	k.ok(err)
	at := slices.IndexFunc(page, func(m conversation.Entry) bool { return m.Pos == start })
	before := k.view()
	_, err = k.e.Remove(t.Context(), anna, k.conv, page[at].ID, page[at+1].ID)
	k.ok(err)
	b := k.branch()
	if b.View.Start.Pos <= start || b.View.Summary == "" {
		t.Errorf("the view begins at %v, after %d", b.View.Start, start)
	}
	k.expect("the view", k.view()[1:], before[4:]...)
	var rest []id.ID
	for _, m := range page[at:] {
		rest = append(rest, m.ID)
	}
	_, err = k.e.Remove(t.Context(), anna, k.conv, rest...)
	k.ok(err)
	if v := k.view(); len(v) != at { // nothing follows the start: everything is shown
		t.Errorf("%d of %d are shown", len(v), at)
	}
}

// Opening a conversation counts the messages of a turn that a crash interrupted, even
// if a part of the turn has left the view.
func TestCountsAfterACrash(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		k := newTalk(t)
		k.turn("zero")
		k.ok(k.e.Pin(t.Context(), anna, k.conv, pinned, k.all[0]))
		s := k.session()
		k.begin(s, "one")
		for range 10 {
			k.call(s, "web.get x")
		}
		fits, err := s.Fit(t.Context(), counting(900))
		if !fits || err != nil || s.Branch().View.Start.Pos == 0 {
			t.Fatal(fits, err)
		}
		want, again := s.Conversation(), k.session().Conversation()
		if want.ToolCalls != 10 || again.ToolCalls != want.ToolCalls || again.Messages != want.Messages {
			t.Errorf("pinned %v: counted %d calls and %d messages, there are %d and %d", pinned, again.ToolCalls, again.Messages, want.ToolCalls, want.Messages)
		}
	}
}

// If a message's branch was deleted, a fork departs from another branch that holds
// the message. Without one, the fork fails.
func TestMessagesOfDeletedBranches(t *testing.T) {
	k := newTalk(t)
	ctx := t.Context()
	k.turn("one")
	first, err := k.e.Fork(ctx, anna, k.conv, conversation.Fork{})
	k.ok(err)
	shared := k.turn("shared")
	_, err = k.e.Fork(ctx, anna, k.conv, conversation.Fork{})
	k.ok(err)
	k.turn("on")
	k.ok(k.e.Switch(ctx, anna, k.conv, "main"))
	k.ok(k.e.DeleteBranch(ctx, anna, k.conv, first.ID))
	_, err = k.e.Fork(ctx, anna, k.conv, conversation.Fork{Message: shared[1]})
	k.ok(err)
	k.expect("the branch", k.list(), "one", "re: one", "shared", "re: shared")
	s, err := k.e.OpenAgain(ctx, anna, k.conv, shared[1])
	k.ok(err)
	k.end(begun(k, s), "anew")
	k.expect("the branch", k.list(), "one", "re: one", "shared", "anew")
	sib, err := k.e.Siblings(ctx, anna, k.conv, shared[1])
	if err != nil || len(sib) != 2 || !sib[1].Current || sib[0].Current {
		t.Errorf("%+v %v", sib, err)
	}
}

// begun begins a turn without a message.
func begun(k *talk, s *conversation.Session) *conversation.Session {
	k.t.Helper()
	_, err := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "regenerate", Run: record.Run{ID: id.New()}})(k.t.Context())
	k.ok(err)
	return s
}
