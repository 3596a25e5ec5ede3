package conversation

import (
	"context"
	"fmt"
	"maps"
	"path"
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
	"steward/internal/tool"
)

// Refresh removes obsolete results from the view now, without waiting for the
// window to fill. It returns how many messages left the view.
func (e *Engine) Refresh(ctx context.Context, sc store.Scope, conv id.ID) (int, error) {
	n := 0
	err := e.change(ctx, sc, conv, func(b *record.Branch) ([]store.Change, error) {
		n = 0
		was := *b
		all, err := e.branches(ctx, sc, conv)
		if err != nil {
			return nil, err
		}
		for i := range all { // what was recorded on another branch counts by that one's revisions
			b.View.Revision = max(b.View.Revision, all[i].View.Revision)
		}
		after := *b
		after.View.Revision++ // as change leaves it
		_, spans, lowest, err := e.reach(ctx, sc, conv, b)
		if err != nil {
			return nil, err
		}
		marks, err := e.marks(ctx, sc, conv, lowest, 0)
		if err != nil {
			return nil, err
		}
		for _, k := range marks {
			seen := slices.ContainsFunc(spans, func(s record.Span) bool { return s.Holds(k.Branch, k.Pos) })
			if seen && k.On(&was, true).State == record.Active && k.On(&after, true).State != record.Active {
				n++
			}
		}
		return nil, nil
	})
	return n, err
}

// Optimization is one recorded change of a message's state.
type Optimization struct {
	record.Change
	Message id.ID // zero: many, as the reason tells
	Pos     int64
}

// Audit returns the recorded changes of the states of a conversation's messages,
// oldest first: all of them, or those that an interaction caused, optionally only
// by one tool. Reverted changes are included.
func (e *Engine) Audit(ctx context.Context, sc store.Scope, conv, interaction id.ID, toolName string) ([]Optimization, error) {
	if _, _, err := e.get(ctx, sc, conv); err != nil {
		return nil, err
	}
	marks, err := e.marks(ctx, sc, conv, 0, 0)
	if err != nil {
		return nil, err
	}
	var out []Optimization
	if interaction.Zero() && toolName == "" {
		if out, err = e.roomDecisions(ctx, sc, conv); err != nil {
			return nil, err
		}
	}
	for _, k := range marks {
		for _, c := range k.Changes {
			if (interaction.Zero() || c.Interaction == interaction) && (toolName == "" || c.Tool == toolName) {
				out = append(out, Optimization{c, k.Message, k.Pos})
			}
		}
	}
	slices.SortFunc(out, func(a, b Optimization) int {
		if n := a.At.Compare(b.At); n != 0 {
			return n
		}
		return int(a.Pos - b.Pos)
	})
	return out, nil
}

// roomDecisions returns the decisions to make room on the preferred branch.
func (e *Engine) roomDecisions(ctx context.Context, sc store.Scope, conv id.ID) ([]Optimization, error) {
	_, b, err := e.current(ctx, sc, conv)
	var out []Optimization
	for _, r := range b.View.Room {
		out = append(out, Optimization{Change: record.Change{State: record.Invalidated, At: r.At, Actor: r.Actor, Strategy: record.StrategySequence,
			Reason: fmt.Sprintf("%d results of queries other than %s were left out to make room", r.Results, strings.Join(r.Keep, ", ")),
			Undone: r.Undone, UndoneBy: r.UndoneBy}, Pos: r.Upto})
	}
	return out, err
}

// Rollback reverts the invalidations by an interaction's calls of a tool (of all
// tools, if toolName is empty). The results are shown again at once, unless other
// calls also make them obsolete. It returns how many messages it restored.
func (e *Engine) Rollback(ctx context.Context, sc store.Scope, conv, interaction id.ID, toolName string) (int, error) {
	n := 0
	err := e.change(ctx, sc, conv, func(b *record.Branch) ([]store.Change, error) {
		marks, err := e.marks(ctx, sc, conv, 0, 0)
		if err != nil {
			return nil, err
		}
		now := time.Now().UTC().Truncate(time.Microsecond)
		rolled, puts := map[int64]*marked{}, map[resource.URI]store.Change{}
		for pos, k := range marks {
			for i := range k.Changes {
				c := &k.Changes[i]
				if c.Undone.IsZero() && c.Tool != "" && c.Interaction == interaction && (toolName == "" || c.Tool == toolName) {
					c.Undone, c.UndoneBy, c.Whole, rolled[pos] = now, sc.Actor, toolName == "", k
				}
			}
			if rolled[pos] != nil {
				puts[record.MarkURI(conv, k.Message)] = k.put(conv)
			}
		}
		if len(puts) == 0 {
			return nil, errUnchanged
		}
		again, err := e.stillStale(ctx, sc, conv, b, rolled)
		n = len(puts) - len(again)
		for _, p := range again {
			puts[p.URI] = p
		}
		return slices.Collect(maps.Values(puts)), err
	})
	return n, err
}

// stillStale follows a branch again and returns the changes of those marks, of
// results that were rolled back just now, that calls of other interactions or
// tools make obsolete.
func (e *Engine) stillStale(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, marks map[int64]*marked) ([]store.Change, error) {
	c, _, err := e.get(ctx, sc, conv)
	if err != nil {
		return nil, err
	}
	entries, _, err := e.shown(ctx, sc, conv, b)
	if err != nil {
		return nil, err
	}
	s := &Session{engine: e, scope: sc, conv: c, branch: *b, marks: marks, actor: sc.Actor}
	s.tracker = s.track()
	for _, m := range entries {
		s.follow(ctx, m)
	}
	s.due = slices.DeleteFunc(s.due, func(o invalidation) bool { return marks[o.Pos] == nil })
	return s.recorded(time.Now().UTC()), nil
}

// Optimize prepares a conversation for the tools that are about to be used, named
// by names and globs: results of other queries that these do not build on leave the
// view, and so do obsolete results. Results of actions stay, and so do those of tools
// that are not there any more: without the result, the model might do it again. It
// makes one record in the branch, which Restore reverts. It returns how many results
// left the view. Error codes: room_full, tool_unknown, tool_pattern_invalid.
func (e *Engine) Optimize(ctx context.Context, sc store.Scope, conv id.ID, tools []string) (int, error) {
	c, _, err := e.get(ctx, sc, conv)
	if err != nil {
		return 0, err
	}
	lookup := func(name string) (tool.Tool, bool) { return e.opt.Tools(c.Agent, name) }
	names := e.opt.Names(c.Agent)
	if tools, err = named(names, tools); err != nil {
		return 0, err
	}
	keep := window.Related(lookup, tools, names...)
	stays := func(name string) bool {
		if t, ok := lookup(name); !ok || t.Spec().Effect != tool.Query {
			keep[name] = true
		}
		return keep[name]
	}
	n := 0
	err = e.change(ctx, sc, conv, func(b *record.Branch) ([]store.Change, error) {
		n = 0
		room := record.Room{At: time.Now().UTC().Truncate(time.Millisecond), Actor: sc.Actor}
		entries, _, err := e.shown(ctx, sc, conv, b)
		for _, m := range entries {
			room.Upto = max(room.Upto, m.Pos)
			r := m.Result()
			if r != nil && !stays(r.Name) && r.Status == message.OK && !m.Pinned && m.Change.State == record.Active {
				n++
			}
		}
		room.Keep = slices.Sorted(maps.Keys(keep))
		if err != nil || n == 0 {
			return nil, err
		}
		room.Results = n
		list, err := makeRoom(b.View.Room, room)
		b.View.Room = list
		return nil, err
	})
	return n, err
}

// named returns the tools among names that names and globs mean. A glob may mean none.
func named(names, patterns []string) ([]string, error) {
	var out []string
	for _, p := range patterns {
		found := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !tool.PatternMatches(p, name) })
		switch _, err := path.Match(p, ""); {
		case err != nil:
			return nil, fault.New(fault.Invalid, "tool_pattern_invalid", "invalid pattern for tool names %q", tool.Clip(p, 80)).
				WithHint("write a name, or a glob such as math.*")
		case len(found) == 0 && !tool.IsGlob(p):
			bad := fault.New(fault.NotFound, "tool_unknown", "there is no tool named %s", tool.Clip(p, 80)).Detail("tool", tool.Clip(p, 80))
			if near := tool.SimilarNames(p, names, 3); len(near) > 0 {
				return nil, bad.WithHint("did you mean %s?", strings.Join(near, " or "))
			}
			return nil, bad.WithHint("steward tools list shows the tools")
		}
		out = append(out, found...)
	}
	return out, nil
}

// makeRoom adds a decision. It replaces earlier ones that keep the same tools. If there are
// too many, those that were undone are forgotten.
func makeRoom(list []record.Room, add record.Room) ([]record.Room, error) {
	out := slices.DeleteFunc(slices.Clone(list), func(r record.Room) bool {
		same := r.Undone.IsZero() && slices.Equal(r.Keep, add.Keep)
		if same {
			add.Results += r.Results
		}
		return same
	})
	if len(out) >= maxRoom {
		out = slices.DeleteFunc(out, func(r record.Room) bool { return !r.Undone.IsZero() })
	}
	if len(out) >= maxRoom {
		return nil, fault.New(fault.Conflict, "room_full", "this branch already has %d optimizations", len(out)).
			WithHint("undo them first: steward conversations optimize --undo")
	}
	return append(out, add), nil
}

// Restore reverts what Optimize left out on the preferred branch. It returns how
// many results had been left out.
func (e *Engine) Restore(ctx context.Context, sc store.Scope, conv id.ID) (int, error) {
	n := 0
	err := e.change(ctx, sc, conv, func(b *record.Branch) ([]store.Change, error) {
		n = 0
		b.View.Room = slices.Clone(b.View.Room)
		for i := range b.View.Room {
			if r := &b.View.Room[i]; r.Undone.IsZero() {
				n += r.Results
				r.Undone, r.UndoneBy = time.Now().UTC().Truncate(time.Millisecond), sc.Actor
			}
		}
		if n == 0 {
			return nil, errUnchanged
		}
		return nil, nil
	})
	return n, err
}
