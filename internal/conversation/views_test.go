package conversation_test

import (
	"strings"
	"testing"

	"steward/internal/conversation"
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

func TestWhatWasRolledBackBecomesObsoleteAnew(t *testing.T) {
	k := newTalk(t)
	k.turn("read", "file.read a")
	k.turn("read again", "file.read a")
	n, err := k.e.Rollback(t.Context(), anna, k.conv, k.in[1], "file.read")
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
	k.turn("write", "file.write a")
	k.ok(k.e.Refresh(t.Context(), anna, k.conv))
	if v := strings.Join(k.view(), "\n"); strings.Contains(v, "of file.read") {
		t.Errorf("what was written over is still shown:\n%s", v)
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
	k.ok(k.e.Mark(t.Context(), anna, k.conv, conversation.Verdict{State: record.Archived}, m[0]))
	_, err := k.e.OpenAgain(t.Context(), anna, k.conv, m[1])
	k.code(err, "nothing_asked")
}
