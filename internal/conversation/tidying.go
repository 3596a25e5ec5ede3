package conversation

import (
	"context"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/window"
)

// stale is a result that became obsolete, with where that was caused.
type stale struct {
	window.Obsolete
	interaction id.ID
	branch      string
	pos         int64
}

// track makes a tracker for the branch, which begins anew. The tools are those
// of the agent that has the conversation when a call is first seen.
func (s *Session) track() *window.Tracker {
	e := s.engine
	t := window.NewTracker(func(name string) (tool.Tool, bool) { return e.opt.Tools(s.conv.Agent, name) }, e.opt.Names(s.conv.Agent)...)
	t.OnRefused = func(err error) { e.opt.Log.Warn("a tool's optimizer was not heeded", "error", err) }
	return t
}

// follow has the tracker see a message of the branch, in order, and keeps
// what becomes obsolete by it until it is recorded.
func (s *Session) follow(ctx context.Context, e Entry) {
	for _, o := range s.tracker.Observe(ctx, e.Message, e.Pos) {
		if k := s.marks[o.Pos]; k != nil && k.undone(o, &e) {
			s.tracker.Keep(o.Ref) // a person took it back: only a later call makes it obsolete anew
			continue
		}
		s.due = append(s.due, stale{o, e.Interaction, e.Branch, e.Pos})
	}
}

// tidied returns the changes that record what became obsolete since the last
// commit, and forgets it.
func (s *Session) tidied(now time.Time) []store.Change {
	for _, o := range s.tracker.Aged(now) {
		s.due = append(s.due, stale{o, record.IDOf(s.interaction, record.TypeInteraction), s.branch.ID, s.pos})
	}
	return s.recorded(now)
}

// recorded returns the changes that record what is due, and forgets it.
func (s *Session) recorded(now time.Time) []store.Change {
	var out []store.Change
	for _, o := range s.due {
		k := s.marks[o.Pos]
		if k == nil {
			k = &marked{Mark: record.Mark{Message: o.Message, Pos: o.Pos, Branch: s.listOf(o.Pos)}}
		}
		if !k.takes(o, &s.branch) {
			continue
		}
		k.Changes = append(k.Changes, record.Change{State: record.Invalidated, At: now, Actor: s.actor,
			Tool: o.By, Call: o.Call.String(), Interaction: o.interaction, Strategy: o.Strategy, Reason: o.Reason,
			Branch: o.branch, Pos: o.pos, Revision: s.branch.View.Revision + 1})
		if s.marks == nil {
			s.marks = map[int64]*marked{}
		}
		s.marks[o.Pos] = k
		out = append(out, k.put(s.conv.ID))
		k.version++
	}
	s.due = s.due[:0]
	return out
}

// on returns what counts of a message on a branch, by its mark (nil: it has
// none) and by what was left out to make room.
func (k *marked) on(b *record.Branch, e *Entry, shown bool) record.Change {
	c := record.Change{State: record.Active}
	var mark *record.Mark
	if k != nil {
		mark, c = &k.Mark, k.On(b, shown)
	}
	if c.State == record.Active && !e.Pinned {
		if room, ok := b.LeftOut(e.Message, e.Pos, mark); ok {
			return room
		}
	}
	return c
}

// takes reports whether a mark is to record that its message became obsolete:
// not if it is marked already, nor if the same call's verdict was recorded
// before, which a person may have undone.
func (k *marked) takes(o stale, b *record.Branch) bool {
	same := func(c record.Change) bool { return c.Tool == o.By && c.Call == o.Call.String() }
	return k.On(b, false).State == record.Active && !slices.ContainsFunc(k.Changes, same)
}

// undone reports whether what a message's call says of a result is taken back:
// it was recorded so, or else all of its interaction and tool is, or a person has
// said since that the result holds.
func (k *marked) undone(o window.Obsolete, e *Entry) bool {
	for _, c := range k.Changes {
		if c.Tool == o.By && c.Call == o.Call.String() {
			return !c.Undone.IsZero()
		}
	}
	return slices.ContainsFunc(k.Changes, func(c record.Change) bool {
		together := c.Interaction == e.Interaction && (c.Tool == o.By || c.Whole)
		return !c.Undone.IsZero() && c.Tool != "" && (together || c.Kept && c.Undone.After(e.At))
	})
}

// put returns the change that stores a mark.
func (k *marked) put(conv id.ID) store.Change {
	ch := store.Change{URI: record.MarkURI(conv, k.Message), Body: record.Encode(k.Mark), If: store.If{Version: k.version}}
	if k.version == 0 {
		ch.If = store.If{Absent: true}
		ch.Place = &store.Place{List: record.MarksURI(conv), Pos: k.Pos}
	}
	if k.gone() {
		ch.State = record.StateDeleted
	}
	for _, c := range k.Changes {
		if t := (store.Term{Name: record.TermStands, Value: c.By.String()}); c.State == record.Superseded && !slices.Contains(ch.Terms, t) {
			ch.Terms = append(ch.Terms, t)
		}
	}
	return ch
}

// gone reports whether a person has deleted the message.
func (k *marked) gone() bool {
	return slices.ContainsFunc(k.Changes, func(c record.Change) bool { return c.State == record.Deleted && c.Undone.IsZero() })
}

// listOf returns the branch in whose list a message of the session stands.
func (s *Session) listOf(pos int64) string {
	spans := s.branch.Spans()
	at := slices.IndexFunc(spans, func(x record.Span) bool { return x.Holds(x.Branch, pos) })
	return spans[max(at, 0)].Branch
}

// items are entries as package view takes them, in the state that counts on
// the branch; with shown only what has entered its view counts.
func items(conv id.ID, entries []Entry, marks map[int64]*marked, b *record.Branch, shown bool) []window.Item {
	out := make([]window.Item, len(entries))
	for i := range entries {
		e := &entries[i]
		out[i] = window.Item{Message: e.Message, Pos: e.Pos, Pinned: e.Pinned}
		out[i].State = marks[e.Pos].on(b, e, shown)
		if e.Role == message.Tool {
			out[i].URI = e.URI(conv).String()
		}
	}
	return out
}

// options say how the branch is shown.
func (e *Engine) options(ctx context.Context, sc store.Scope, b *record.Branch) (window.Options, error) {
	v := &b.View
	opt := window.Options{Clip: v.Clip, Cut: v.Start.Pos != 0}
	if v.Summary == "" {
		return opt, nil
	}
	var err error
	if opt.Summary, err = e.summary(ctx, sc, v.Summary); fault.Is(err, fault.NotFound) {
		return opt, nil // it was erased with what it was made of
	}
	return opt, err
}

// show makes the transcript of the view that the branch has.
func (s *Session) show(ctx context.Context, entries []Entry) error {
	opt, err := s.engine.options(ctx, s.scope, &s.branch)
	if err != nil {
		return err
	}
	msgs := window.Render(items(s.conv.ID, entries, s.marks, &s.branch, true), opt)
	if s.labels, s.sources, err = s.engine.labels(ctx, s.scope, s.conv.ID, msgs); err != nil {
		return err
	}
	s.transcript = llm.NewTranscript(msgs...)
	s.letGo()
	return nil
}

// letGo has the transcript let go of messages that are encoded: the store has
// them, too. What is shown does not change while the transcript is used.
func (s *Session) letGo() {
	e, sc, conv, b := s.engine, s.scope, s.conv.ID, s.branch
	s.transcript.Again(func() ([]*message.Message, error) {
		ctx, cancel := context.WithTimeout(context.Background(), readAgain)
		defer cancel()
		entries, marks, err := e.shown(ctx, sc, conv, &b)
		if err != nil {
			return nil, err
		}
		opt, err := e.options(ctx, sc, &b)
		if err != nil {
			return nil, err
		}
		return window.Render(items(conv, entries, marks, &b, true), opt), nil
	})
}

// readAgain is how long reading messages anew may take.
const readAgain = 30 * time.Second

// summary reads the message that stands for what is not shown.
func (e *Engine) summary(ctx context.Context, sc store.Scope, uri string) (*message.Message, error) {
	u, err := resource.Parse(uri)
	if err != nil {
		return nil, err
	}
	r, err := e.store.Get(ctx, sc, u)
	if err != nil {
		return nil, err
	}
	return record.DecodeMessage(r.URI, r.Body)
}
