package conversation

import (
	"context"
	"slices"
	"time"

	"steward/internal/conversation/window"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// invalidation is a result that a call invalidated, and the place of that call.
type invalidation struct {
	window.Obsolete
	interaction id.ID
	branch      string
	pos         int64
}

// track returns a new tracker for the branch. It takes the tools from the agent
// that owns the conversation when a call is first seen.
func (s *Session) track() *window.Tracker {
	e := s.engine
	t := window.NewTracker(func(name string) (tool.Tool, bool) { return e.opt.Tools(s.conv.Agent, name) }, e.opt.Names(s.conv.Agent)...)
	t.OnRefused = func(err error) { e.opt.Log.Warn("result of a tool's optimizer ignored", "error", err) }
	return t
}

// follow passes a message of the branch to the tracker, in order, and collects
// the results that it makes obsolete until they are recorded.
func (s *Session) follow(ctx context.Context, e Entry) {
	for _, o := range s.tracker.Observe(ctx, e.Message, e.Pos) {
		if k := s.marks[o.Pos]; k != nil && k.undone(o, &e) {
			s.tracker.Keep(o.Ref) // a person reverted it: only a later call makes it obsolete again
			continue
		}
		s.due = append(s.due, invalidation{o, e.Interaction, e.Branch, e.Pos})
	}
}

// invalidated returns the changes that record the results that became obsolete
// since the last commit, including those that are too old by now, and clears the
// list.
func (s *Session) invalidated(now time.Time) []store.Change {
	for _, o := range s.tracker.Aged(now) {
		s.due = append(s.due, invalidation{o, record.IDOf(s.interaction, record.TypeInteraction), s.branch.ID, s.pos})
	}
	return s.recorded(now)
}

// Expired reports whether the model is shown a result that is older than its tool allows.
func (s *Session) Expired(now time.Time) bool {
	for _, o := range s.tracker.Old(now) {
		if k := s.marks[o.Pos]; k == nil || k.accepts(invalidation{Obsolete: o}, &s.branch) {
			return true
		}
	}
	for _, k := range s.marks {
		c := k.On(&s.branch, false)
		if c.State == record.Invalidated && c.Strategy == string(tool.ByAge) && c.Revision > s.branch.View.Revision {
			return true
		}
	}
	return false
}

// Expire has expired results leave the view now, and with them everything else that is obsolete. It
// does nothing if none is expired.
func (s *Session) Expire(ctx context.Context) error {
	for try := 1; s.broken == nil && s.Expired(time.Now()); try++ {
		changes := s.invalidated(time.Now().UTC())
		next := s.branch
		next.View.Revision++
		err := s.revise(ctx, next, changes)
		if !fault.Is(err, fault.Conflict) || try == maxTries {
			return err
		}
		if err = s.reloadBranch(ctx); err != nil {
			s.broken = err
		}
	}
	return s.broken
}

// recorded returns the changes that record the collected invalidations, and
// clears the list.
func (s *Session) recorded(now time.Time) []store.Change {
	var out []store.Change
	for _, o := range s.due {
		k := s.marks[o.Pos]
		if k == nil {
			k = &marked{Mark: record.Mark{Message: o.Message, Pos: o.Pos, Branch: s.listOf(o.Pos)}}
		}
		if !k.accepts(o, &s.branch) {
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

// listOf returns the branch whose list holds a message of the session.
func (s *Session) listOf(pos int64) string {
	spans := s.branch.Spans()
	at := slices.IndexFunc(spans, func(x record.Span) bool { return x.Holds(x.Branch, pos) })
	return spans[max(at, 0)].Branch
}

// items converts entries for package window, with their states on the branch. If
// shown is set, a state counts only if the view's revision includes it.
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

// options returns how the branch is rendered.
func (e *Engine) options(ctx context.Context, sc store.Scope, b *record.Branch) (window.Options, error) {
	v := &b.View
	opt := window.Options{Clip: v.Clip, Cut: v.Start.Pos != 0}
	if v.Summary == "" {
		return opt, nil
	}
	var err error
	if opt.Summary, err = e.summary(ctx, sc, v.Summary); fault.Is(err, fault.NotFound) {
		return opt, nil // it was erased together with its sources
	}
	return opt, err
}

// show builds the transcript of the branch's present view.
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
	s.releaseEncoded()
	return nil
}

// releaseEncoded lets the transcript release messages that are already encoded, since it
// can read them again from the store. The view does not change while the
// transcript is in use.
func (s *Session) releaseEncoded() {
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

// readAgain is the timeout for reading the messages again.
const readAgain = 30 * time.Second

// summary reads the message that replaces what is out of view.
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
