package worklog_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/conversation/worklog"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	_ "steward/test/seed"
)

// expected is the expected entry of a call.
type expected struct {
	ref     string
	conv    id.ID
	inter   id.ID
	tool    string
	outcome worklog.Outcome
	at      time.Time
	off     bool // it is not on the preferred branch
	seq     int  // the order in which the calls were stored
}

// history builds random conversations and keeps the expected entries.
type history struct {
	t     *rapid.T
	chats []*chat
	calls []*expected
}

// turn adds an interaction with rounds of calls.
func (h *history) turn(c *chat) {
	t := h.t
	c.hold = true
	c.turn("Do something")
	open := false
	for range rapid.IntRange(0, 3).Draw(t, "rounds") {
		var list []call
		for range rapid.IntRange(1, 4).Draw(t, "calls") {
			list = append(list, call{rapid.SampledFrom([]string{"files.read", "files.list", "mail.send", "gone.tool"}).Draw(t, "tool"),
				rapid.SampledFrom([]string{`{"path":"a"}`, `{}`, `{"to":"b","token":"opensesame"}`, `{"`}).Draw(t, "args")})
		}
		for _, k := range c.calls(list...) {
			h.calls = append(h.calls, &expected{ref: k.Ref.String(), conv: c.id, inter: c.inter, tool: k.Name, at: c.at, seq: len(h.calls)})
			if open = open || rapid.IntRange(0, 9).Draw(t, "open") == 0; open {
				h.calls[len(h.calls)-1].outcome = worklog.Pending
				if rapid.Bool().Draw(t, "asked") {
					c.intent(k, intent.Awaiting, "", false)
				}
			}
		}
		for i, k := range c.asked {
			en := h.calls[len(h.calls)-len(list)+i]
			if en.outcome == "" {
				h.result(c, k, en)
			}
		}
		if open {
			break
		}
	}
	if !open {
		c.final("Done")
	}
	c.flush()
}

// result answers a call with a random outcome.
func (h *history) result(c *chat, k message.Call, en *expected) {
	status := rapid.SampledFrom([]message.Status{message.OK, message.OK, message.Failed, message.DeniedCall, message.Unavailable,
		message.Interrupted, message.Queued, message.UnknownEnd}).Draw(h.t, "status")
	text := "what came of it"
	if strings.Contains(string(k.Args), "opensesame") {
		text = "what came of opensesame"
	}
	c.result(k, status, text)
	switch status {
	case message.OK:
		en.outcome = worklog.Success
	case message.Queued, message.UnknownEnd:
		state := rapid.SampledFrom(intent.States()).Draw(h.t, "state")
		c.intent(k, state, "because", true)
		switch {
		case state.InFlight():
			en.outcome = worklog.Pending
		case state == intent.Done:
			en.outcome = worklog.Success
		case state == intent.Unknown:
			en.outcome = worklog.Partial
		default:
			en.outcome = worklog.Failure
		}
	default:
		en.outcome = worklog.Failure
	}
}

// fork continues on another branch, which becomes the preferred one. The last turn
// stays on the previous branch.
func (h *history) fork(c *chat, before int64, n int) {
	name := fmt.Sprint("b", n)
	rope := append(slices.Clone(c.rope), record.Span{Branch: c.branch, From: c.open, To: before})
	if before < max(c.open, 1) { // it has no earlier messages of its own
		rope = slices.Clone(c.rope)
	}
	c.rope, c.branch, c.open = rope, name, c.pos+1
	c.commit(store.Change{URI: record.BranchURI(c.id, name), Body: record.Encode(record.Branch{Rope: rope, Open: c.open})},
		store.Change{URI: record.ConversationURI(c.id), Body: record.Encode(record.Conversation{Branch: name})})
	c.flush()
}

// For random conversations, the log contains each call once, in order, with its
// outcome. Pages of any size together form the whole log, and filters work.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	st := openStore(t)
	e := engine(t, st)
	users := 0
	rapid.Check(t, func(rt *rapid.T) {
		users++
		sc := store.ForUser(fmt.Sprint("user", users))
		h := &history{t: rt}
		for range rapid.IntRange(1, 3).Draw(rt, "conversations") {
			c := newChat(t, st, sc, "Any")
			c.at, c.step = time.Now().UTC().Truncate(time.Microsecond).Add(-10*time.Second), time.Millisecond
			h.chats = append(h.chats, c)
		}
		for n := range rapid.IntRange(0, 8).Draw(rt, "turns") {
			c := h.chats[rapid.IntRange(0, len(h.chats)-1).Draw(rt, "chat")]
			before, had := c.pos, len(h.calls)
			h.turn(c)
			if rapid.IntRange(0, 3).Draw(rt, "fork") == 0 {
				for _, en := range h.calls[had:] {
					en.off = true
				}
				h.fork(c, before, n)
			}
		}
		h.check(t, e, sc, worklog.Filter{}, func(en *expected) bool { return true })
		for _, c := range h.chats {
			h.check(t, e, sc, worklog.Filter{Conversation: c.id}, func(en *expected) bool { return en.conv == c.id && !en.off })
			h.check(t, e, sc, worklog.Filter{Conversation: c.id, AllBranches: true}, func(en *expected) bool { return en.conv == c.id })
			if !c.inter.Zero() {
				h.check(t, e, sc, worklog.Filter{Conversation: c.id, Interaction: c.inter}, func(en *expected) bool { return en.inter == c.inter })
			}
		}
		outcome := rapid.SampledFrom(worklog.Outcomes()).Draw(rt, "outcome")
		h.check(t, e, sc, worklog.Filter{Outcome: outcome}, func(en *expected) bool { return en.outcome == outcome })
		h.check(t, e, sc, worklog.Filter{Conversation: h.chats[0].id, Outcome: outcome},
			func(en *expected) bool { return en.conv == h.chats[0].id && en.outcome == outcome && !en.off })
		h.check(t, e, sc, worklog.Filter{Tool: "files.*"}, func(en *expected) bool { return en.tool == "files.read" || en.tool == "files.list" })
		if len(h.calls) > 0 {
			pick := h.calls[rapid.IntRange(0, len(h.calls)-1).Draw(rt, "pick")]
			h.check(t, e, sc, worklog.Filter{Since: pick.at}, func(en *expected) bool { return !en.at.Before(pick.at) })
			h.check(t, e, sc, worklog.Filter{Until: pick.at}, func(en *expected) bool { return en.at.Before(pick.at) })
			got, msgs, err := e.Show(context.Background(), sc, pick.ref)
			if err != nil || got.ID != pick.ref || got.Outcome != pick.outcome || len(msgs) != len(got.Messages) {
				rt.Fatalf("shown as %+v, %v; want %+v", got, err, pick)
			}
		}
	})
}

func (h *history) check(t *testing.T, e *worklog.Engine, sc store.Scope, f worklog.Filter, wanted func(*expected) bool) {
	limit := rapid.SampledFrom([]int{1, 2, 3, 7, 1000}).Draw(h.t, "limit")
	var want []string
	for _, en := range slices.Backward(h.calls) {
		if wanted(en) {
			want = append(want, fmt.Sprint(en.ref, " ", en.tool, " ", en.outcome, " ", en.conv, " ", en.inter))
		}
	}
	var got []string
	for _, en := range all(t, e, sc, f, limit) {
		got = append(got, fmt.Sprint(en.ID, " ", en.Tool, " ", en.Outcome, " ", en.Conversation, " ", en.Interaction))
		if b, err := en.MarshalJSON(); err != nil || strings.Contains(string(b), "sesame") {
			h.t.Fatalf("a secret is told: %s, %v", b, err)
		}
	}
	if !slices.Equal(got, want) {
		h.t.Fatalf("%+v, %d at a time:\ngot  %q\nwant %q", f, limit, got, want)
	}
}
