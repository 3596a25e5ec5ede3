package conversation

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"steward/internal/conversation/window"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Window is what the messages of a conversation must fit into.
type Window struct {
	Tokens int64                        // for messages; what else goes to the model is not part of it
	Count  func(*message.Message) int64 // tokens of a message
	// Summarize writes what is to stand for messages that are not shown any
	// more, in at most so many tokens; earlier is the summary that stood for
	// what came before them, or nil. Nil, or with an error or a text that is
	// too long: a list of what was asked and done is made instead.
	Summarize func(ctx context.Context, earlier *message.Message, msgs []*message.Message, tokens int64) (string, error)
	Log       func(msg string, err error) // told why a summary was not used; may be nil
}

// Fit fits what the model is shown into a window: what was recorded as
// obsolete leaves the view, oversized results are clipped, and what is oldest
// falls out of view with a summary in its place. All of it is one revision of
// the branch's view, recorded, and undone by Unfit. It reports whether the
// view fits now. It is called between commits, when all is durable.
func (s *Session) Fit(ctx context.Context, w Window) (fits bool, err error) {
	for try := 1; s.broken == nil; try++ {
		fits, err = s.fit(ctx, w)
		if !fault.Is(err, fault.Conflict) || try == maxTries {
			return fits, err
		}
		if err = s.again(ctx); err != nil {
			s.broken = err
		}
	}
	return false, s.broken
}

// again takes over what somebody else has changed in the branch meanwhile: its
// title, or that a summary was erased.
func (s *Session) again(ctx context.Context) error {
	b, version, err := s.engine.branch(ctx, s.scope, s.conv.ID, s.branch.ID)
	if err == nil && version == s.branchVer {
		err = fault.New(fault.Conflict, "run_ended", "the conversation has gone on elsewhere")
	}
	if err == nil {
		s.branch, s.branchVer = b, version
		_, err = s.load(ctx)
	}
	return err
}

func (s *Session) fit(ctx context.Context, w Window) (fits bool, err error) {
	entries, marks, err := s.engine.shown(ctx, s.scope, s.conv.ID, &s.branch)
	if err != nil {
		return false, err
	}
	all := items(s.conv.ID, entries, marks, &s.branch, false)
	reserve := min(w.Tokens/summaryShare, summaryMost)
	opt, err := s.engine.options(ctx, s.scope, &s.branch)
	if err != nil {
		return false, err
	}
	plan := window.Fit(all, window.Budget{Window: w.Tokens, SummaryTokens: reserve,
		Start: s.branch.View.Start.Pos, Clip: opt.Clip, Summary: opt.Summary, Cut: opt.Cut}, w.Count)

	next := s.branch
	next.View.Revision++
	next.View.Clip = plan.Clip
	var changes []store.Change
	if plan.StartIndex > 0 {
		next.View.Start = record.Point{Branch: entries[plan.StartIndex].Branch, Pos: plan.Start}
		at := s.interaction
		if at.Zero() { // between turns
			at = record.InteractionURI(s.conv.ID, entries[len(entries)-1].Interaction)
		}
		put, uri, err := s.summarize(ctx, w, at, opt.Summary, all[plan.Summarize.From:plan.Summarize.To], reserve)
		if err != nil {
			return false, err
		}
		next.View.Summary = uri
		if uri != "" {
			changes = append(changes, put)
		}
	}
	next.View.Keep = nil
	for _, i := range plan.Pins {
		if m := &entries[i]; !m.Pinned {
			next.View.Keep = append(next.View.Keep, record.Point{Branch: m.Branch, Pos: m.Pos})
		}
	}
	return plan.Fits, s.revise(ctx, next, changes)
}

// The part of a window that a summary may take, and the tokens that it takes
// at most.
const (
	summaryShare = 8
	summaryMost  = 4000
)

// revise records a new view of the branch and shows it.
func (s *Session) revise(ctx context.Context, next record.Branch, changes []store.Change) error {
	changes = append(changes, putBranch(s.conv.ID, &next, store.If{Version: s.branchVer}))
	rec, err := s.engine.store.Commit(ctx, s.scope, store.Batch{Request: s.request, Changes: changes})
	if fault.Is(err, fault.Conflict) {
		return err // nothing was written
	}
	if err == nil {
		s.branch, s.branchVer = next, rec.Versions[len(changes)-1]
		_, err = s.load(ctx)
	}
	if err != nil {
		s.broken = err
	}
	return err
}

// summarize makes the message that stands for what is not shown any more, and
// its URI, in an interaction; "" where there is none.
func (s *Session) summarize(ctx context.Context, w Window, at resource.URI, earlier *message.Message, gone []window.Item, most int64) (store.Change, string, error) {
	msgs := window.Render(gone, window.Options{Clip: summaryClip})
	if len(msgs) > 0 && !slices.ContainsFunc(gone, func(it window.Item) bool { return it.Message.ID == msgs[0].ID }) {
		msgs = msgs[1:] // the notice that nothing, or something, comes before them
	}
	m := &message.Message{ID: id.New(), Role: message.User, At: time.Now().UTC().Truncate(time.Microsecond)}
	from := msgs[:len(msgs):len(msgs)]
	if earlier != nil {
		from = append(from, earlier)
	}
	labels, sources := taint(from, nil)
	words := func(text string) *message.Message {
		m.Blocks = []message.Block{&message.Text{Common: message.Common{Origin: "system", Labels: labels, Sources: sources}, Text: summaryHead + text}}
		return m
	}
	written := false
	if w.Summarize != nil {
		writing, cancel := context.WithTimeout(ctx, summaryTime(ctx))
		text, err := w.Summarize(writing, earlier, msgs, most)
		cancel()
		if ctx.Err() != nil {
			return store.Change{}, "", ctx.Err()
		}
		switch {
		case err == nil && strings.TrimSpace(text) == "":
			err = fmt.Errorf("the summary is empty")
		case err == nil && w.Count(words(text)) > most:
			err = fmt.Errorf("the summary takes %d tokens, and %d is the most", w.Count(m), most)
		}
		written = err == nil
		if err != nil && w.Log != nil {
			w.Log("a summary by the model is not used", err)
		}
	}
	if !written && !fitDigest(earlier, msgs, func(text string) bool { return w.Count(words(text)) <= most }) {
		return store.Change{}, "", nil // the window is too small for any
	}
	u := at.ChildID(record.TypeMessage, m.ID)
	return putMessage(u, m, nil), u.String(), nil
}

// summaryTime is what a model may take for a summary: a minute, and half of
// what is left to the turn. After that the digest does.
func summaryTime(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(time.Minute, time.Until(end)/2)
	}
	return time.Minute
}

const (
	summaryHead = "[Earlier messages are not shown any more. This stands for them:]\n"
	summaryClip = 4 << 10 // bytes of a tool result that a summary is made from
)

// fitDigest makes the longest digest that fits: of all messages, else of the
// newest of them. It reports whether any does.
func fitDigest(earlier *message.Message, msgs []*message.Message, fits func(string) bool) bool {
	lines := digest(earlier, msgs)
	lo, hi := 0, len(lines) // the least number of lines to leave out
	for lo < hi {
		mid := (lo + hi) / 2
		if fits(strings.Join(lines[mid:], "\n")) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo < len(lines) && fits(strings.Join(lines[lo:], "\n"))
}

// digest lists what was asked, done and answered, a line each.
func digest(earlier *message.Message, msgs []*message.Message) []string {
	var out []string
	if earlier != nil {
		out = strings.Split(strings.TrimPrefix(earlier.Text(), summaryHead), "\n")
	}
	for _, m := range msgs {
		switch m.Role {
		case message.User:
			if len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == "system" {
				continue // Steward's own words
			}
			out = append(out, "- The user: "+gist(m.Text()))
		case message.Assistant:
			for _, c := range m.Calls() {
				out = append(out, "- Called "+c.Name+" with "+gist(string(c.Args)))
			}
			if t := m.Text(); t != "" {
				out = append(out, "- The assistant: "+gist(t))
			}
		case message.Tool:
			if r := m.Result(); r != nil {
				out = append(out, fmt.Sprintf("- %s gave (%s): %s", r.Name, r.Status, gist(r.Text())))
			}
		}
	}
	return out
}

// gist is the beginning of a text, on one line.
func gist(s string) string {
	const most = 200
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(runes)
}

func putPin(conv id.ID, p record.Pin) store.Change {
	return store.Change{URI: record.PinURI(conv, p.Message), Body: record.Encode(p),
		Place: &store.Place{List: record.PinsURI(conv), Pos: p.Pos}}
}

// putBranch returns the change that stores a branch.
func putBranch(conv id.ID, b *record.Branch, cond store.If) store.Change {
	ch := store.Change{URI: record.BranchURI(conv, b.ID), Body: record.Encode(b), If: cond,
		Terms: []store.Term{{Name: record.TermBranch, Value: conv.String()}}}
	if !b.Deleted.IsZero() {
		ch.State = record.StateDeleted
	}
	return ch
}

// Unfit takes the preferred branch's view back to what it was before the last
// messages fell out of it: they are shown again, in place of their summary.
// Error code: nothing_to_undo.
func (e *Engine) Unfit(ctx context.Context, sc store.Scope, conv id.ID) error {
	return e.change(ctx, sc, conv, func(b *record.Branch) ([]store.Change, error) {
		q := store.LogQuery{Of: record.BranchURI(conv, b.ID), Reverse: true}
		for en, err := range store.Entries(ctx, e.store, sc, q) {
			if err != nil {
				return nil, err
			}
			var old record.Branch
			if err := record.Decode(en.URI, en.Body, &old); err != nil {
				return nil, err
			}
			if shows(b, old.View, b.View) {
				old.View.Revision, old.View.Room = b.View.Revision, b.View.Room
				b.View = old.View
				return nil, nil
			}
		}
		if shows(b, record.View{}, b.View) { // it was fitted before the branch was made
			b.View = record.View{Revision: b.View.Revision, Room: b.View.Room}
			return nil, nil
		}
		return nil, fault.New(fault.NotFound, "nothing_to_undo", "all of this branch is shown")
	})
}

// shows reports whether a view of a branch shows more than another one.
func shows(b *record.Branch, v, than record.View) bool {
	whole := func(v record.View) int {
		if v.Clip == 0 {
			return math.MaxInt
		}
		return v.Clip
	}
	at, from := b.PlaceOf(v.Start.Branch, v.Start.Pos), b.PlaceOf(than.Start.Branch, than.Start.Pos)
	switch {
	case v.Start.Pos != 0 && at.Span < 0: // its start is not on the branch
		return false
	case at == from:
		return whole(v) > whole(than)
	}
	return at.Compare(from) < 0 // the beginning is before everything
}
