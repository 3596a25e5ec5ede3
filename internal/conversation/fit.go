package conversation

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
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

// Window is the budget for a conversation's messages.
type Window struct {
	Tokens int64                        // for messages only; everything else that is sent to the model is extra
	Count  func(*message.Message) int64 // tokens of a message
	// Summarize writes a summary of messages that leave the view, in at most the
	// given number of tokens. earlier is the summary of what came before them, or
	// nil. If Summarize is nil, fails or returns a text that is too long, a list
	// of what was asked and done is used instead.
	Summarize func(ctx context.Context, earlier *message.Message, msgs []*message.Message, tokens int64) (string, error)
	Log       func(msg string, err error) // receives the reason why a summary was not used; may be nil
}

// Fit makes the model's view fit into a window. Results recorded as obsolete
// leave the view, oversized results are clipped, and the oldest messages are
// replaced by a summary. All of this is stored as one revision of the branch's
// view, which Unfit reverts. Fit reports whether the view fits now. It must be
// called between commits, when everything is durable.
func (s *Session) Fit(ctx context.Context, w Window) (fits bool, err error) {
	for try := 1; s.broken == nil; try++ {
		fits, err = s.fit(ctx, w)
		if !fault.Is(err, fault.Conflict) || try == maxTries {
			return fits, err
		}
		if err := backOff(ctx, try); err != nil {
			return false, err
		}
		if err = s.reloadBranch(ctx); err != nil {
			s.broken = err
		}
	}
	return false, s.broken
}

// reloadBranch reloads the branch after another writer has changed it, for example its
// title, or erased a summary.
func (s *Session) reloadBranch(ctx context.Context) error {
	b, version, err := s.engine.branch(ctx, s.scope, s.conv.ID, s.branch.ID)
	if err == nil && version == s.branchVer {
		err = fault.New(fault.Conflict, "run_ended", "the conversation has continued elsewhere")
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

// The share of the window that a summary may take, and its maximum in tokens.
const (
	summaryShare = 8
	summaryMost  = 4000
)

// revise stores a new view of the branch and shows it.
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

// summarize returns the change that stores a summary of the messages that leave
// the view, as a message of the interaction, and its URI. The URI is "" if no
// summary fits.
func (s *Session) summarize(ctx context.Context, w Window, at resource.URI, earlier *message.Message, gone []window.Item, most int64) (store.Change, string, error) {
	msgs := window.Render(gone, window.Options{Clip: summaryClip})
	if len(msgs) > 0 && !slices.ContainsFunc(gone, func(it window.Item) bool { return it.Message.ID == msgs[0].ID }) {
		msgs = msgs[1:] // the notice about missing earlier messages
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
			err = fmt.Errorf("the summary has %d tokens; the limit is %d", w.Count(m), most)
		}
		written = err == nil
		if err != nil && w.Log != nil {
			w.Log("summary by the model rejected", err)
		}
	}
	if !written && !fitDigest(earlier, msgs, func(text string) bool { return w.Count(words(text)) <= most }) {
		return store.Change{}, "", nil // not even a digest fits
	}
	u := at.ChildID(record.TypeMessage, m.ID)
	return putMessage(u, m, nil), u.String(), nil
}

// summaryTime is how long the model may take for a summary: a minute, but at most
// half of the turn's remaining time. After that the digest is used.
func summaryTime(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(time.Minute, time.Until(end)/2)
	}
	return time.Minute
}

const (
	summaryHead = "[Earlier messages are not shown any more. This stands for them:]\n"
	summaryClip = 4 << 10 // bytes of each tool result that go into a summary
)

// fitDigest builds the longest digest that fits, dropping the oldest lines first.
// It reports whether any digest fits.
func fitDigest(earlier *message.Message, msgs []*message.Message, fits func(string) bool) bool {
	lines := digest(earlier, msgs)
	fitsFrom := func(i int) bool { return fits(strings.Join(lines[i:], "\n")) }
	drop := sort.Search(len(lines), fitsFrom)
	return drop < len(lines) && fitsFrom(drop) // fits keeps the text that it was asked about last
}

// digest lists what was asked, done and answered, one line each.
func digest(earlier *message.Message, msgs []*message.Message) []string {
	var out []string
	if earlier != nil {
		out = strings.Split(strings.TrimPrefix(earlier.Text(), summaryHead), "\n")
	}
	for _, m := range msgs {
		switch m.Role {
		case message.User:
			if len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == "system" {
				continue // Steward's own text
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

// gist returns the beginning of a text, on one line.
func gist(s string) string { return message.OneLine(s, 200) }

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

// Unfit reverts the preferred branch's view to what it was before the last
// messages left it: they are shown again in place of their summary. Error code:
// nothing_to_undo.
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
		if shows(b, record.View{}, b.View) { // the branch inherited this view
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
	case v.Start.Pos != 0 && at.Span < 0: // its start is not on this branch
		return false
	case at == from:
		return whole(v) > whole(than)
	}
	return at.Compare(from) < 0 // a view without a start begins before everything
}
