package conversation

import (
	"cmp"
	"context"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// Interaction is one user turn with everything that it caused, in its present
// state.
type Interaction struct {
	ID      id.ID
	Origin  string
	Started time.Time
	Stopped time.Time // zero: it is running
	Outcome string    // of its run
	Into    id.ID     // it was merged into this one
	Entries []Entry   // in the order in which they were written, on any branch
	State   record.Validity
	By      string         // the tool or person that made all of it obsolete
	Tools   map[string]int // calls by tool: the summary of its tool context
	Changes []Optimization // of the validity of messages that it caused
}

// Interaction reads an interaction, with the messages of those that were merged
// into it. Their states are those on the preferred branch.
func (e *Engine) Interaction(ctx context.Context, sc store.Scope, conv, inter id.ID) (Interaction, error) {
	_, b, err := e.current(ctx, sc, conv)
	if err != nil {
		return Interaction{}, err
	}
	r, _, err := e.interaction(ctx, sc, conv, inter)
	if err != nil {
		return Interaction{}, err
	}
	out := Interaction{ID: inter, Origin: r.Origin, Started: r.Started, Into: r.Into, State: record.Active, Tools: map[string]int{}}
	for _, part := range append([]id.ID{inter}, r.Holds...) {
		entries, run, err := e.turn(ctx, sc, conv, part)
		if err != nil {
			return Interaction{}, err
		}
		out.Entries = append(out.Entries, entries...)
		if run.Ended.After(out.Stopped) {
			out.Stopped, out.Outcome = run.Ended, run.Outcome
		}
	}
	slices.SortFunc(out.Entries, bySeq)
	agree := len(out.Entries) > 0 // on their state
	for i := range out.Entries {
		m := &out.Entries[i]
		k, err := e.mark(ctx, sc, conv, m)
		if err != nil {
			return Interaction{}, err
		}
		m.Change = k.On(&b, false)
		agree = agree && m.Change.State == out.Entries[0].Change.State
		for _, c := range m.Calls() {
			out.Tools[c.Name]++
		}
	}
	if agree {
		c := out.Entries[0].Change
		out.State, out.By = c.State, cmp.Or(c.Tool, c.Actor)
	}
	out.Changes, err = e.Audit(ctx, sc, conv, inter, "")
	return out, err
}

func bySeq(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) }

// turn reads an interaction's own messages, oldest first, and the run that ended
// last.
func (e *Engine) turn(ctx context.Context, sc store.Scope, conv, inter id.ID) ([]Entry, record.Run, error) {
	var out []Entry
	var last record.Run
	for it, err := range store.Items(ctx, e.store, sc, store.Query{Under: record.InteractionURI(conv, inter)}) {
		if err != nil {
			return nil, last, err
		}
		switch it.URI.Type() {
		case record.TypeMessage:
			m, err := entry("", it)
			if err != nil {
				return nil, last, err
			}
			out = append(out, m)
		case record.TypeRun:
			var run record.Run
			if err := record.Decode(it.URI, it.Body, &run); err != nil {
				return nil, last, err
			}
			if run.Ended.After(last.Ended) {
				last = run
				last.ID, _ = id.Parse(it.URI.ID())
			}
		}
	}
	slices.SortFunc(out, bySeq)
	return out, last, nil
}

// Turn reads the messages of an interaction as they were recorded, in the order
// in which they were written, whatever has become of them since.
func (e *Engine) Turn(ctx context.Context, sc store.Scope, conv, inter id.ID) ([]*message.Message, error) {
	entries, _, err := e.turn(ctx, sc, conv, inter)
	out := make([]*message.Message, len(entries))
	for i := range entries {
		out[i] = entries[i].Message
	}
	return out, err
}

// Ending describes how an interaction ended.
type Ending struct {
	Interaction id.ID
	Run         record.Run
	Final       *message.Message // nil: there is none
}

// End reads the result of an interaction's newest ended run. Error code:
// run_not_found, if none has ended.
func (e *Engine) End(ctx context.Context, sc store.Scope, conv, inter id.ID) (Ending, error) {
	entries, run, err := e.turn(ctx, sc, conv, inter)
	end := Ending{Interaction: inter, Run: run}
	for _, m := range entries {
		if m.Final {
			end.Final = m.Message
		}
	}
	if err == nil && run.ID.Zero() {
		err = fault.New(fault.NotFound, "run_not_found", "no run of this interaction has ended")
	}
	return end, err
}

// Delete hides a conversation, and those that agents hold on its behalf, from all
// lists and look-ups until Undelete. Purge erases it permanently. A conversation
// that an agent holds can only be deleted with its parent (conversation_asked).
func (e *Engine) Delete(ctx context.Context, sc store.Scope, conv id.ID) error {
	return e.hide(ctx, sc, conv, time.Now().UTC())
}

// Undelete restores a deleted conversation and those below it, unless it was
// erased.
func (e *Engine) Undelete(ctx context.Context, sc store.Scope, conv id.ID) error {
	return e.hide(ctx, sc, conv, time.Time{})
}

// DeleteBranch hides a branch until Purge erases what was written on it and is on
// no other branch. If it was the preferred branch, its parent (or else the oldest
// other branch) becomes preferred. The last branch cannot be deleted
// (branch_last): delete the conversation.
func (e *Engine) DeleteBranch(ctx context.Context, sc store.Scope, conv id.ID, branch string) error {
	return e.move(ctx, sc, conv, func(c *record.Conversation, _ record.Branch) ([]store.Change, error) {
		b, version, err := e.branch(ctx, sc, conv, branch)
		if err != nil {
			return nil, err
		}
		others, err := e.Branches(ctx, sc, conv)
		if err != nil {
			return nil, err
		}
		others = slices.DeleteFunc(others, func(o record.Branch) bool { return o.ID == branch })
		if len(others) == 0 {
			return nil, fault.New(fault.Conflict, "branch_last", "this is the conversation's only branch").
				WithHint("delete the conversation")
		}
		if c.BranchID() == branch {
			c.Branch = others[0].ID
			if slices.ContainsFunc(others, func(o record.Branch) bool { return o.ID == b.Parent }) {
				c.Branch = b.Parent
			}
		}
		b.Deleted = time.Now().UTC().Truncate(time.Millisecond)
		return []store.Change{putBranch(conv, &b, store.If{Version: version})}, nil
	})
}

// UndeleteBranch restores a deleted branch, unless it was erased.
func (e *Engine) UndeleteBranch(ctx context.Context, sc store.Scope, conv id.ID, branch string) error {
	if _, _, err := e.get(ctx, sc, conv); err != nil {
		return err
	}
	return e.rewrite(ctx, sc, conv, branch, func(b *record.Branch) (bool, error) {
		hidden := !b.Deleted.IsZero()
		b.Deleted = time.Time{}
		return hidden, nil
	})
}

// Merge makes an interaction part of another one: reading the latter returns the
// messages of both. No message is moved.
func (e *Engine) Merge(ctx context.Context, sc store.Scope, conv, into, from id.ID) error {
	if into == from {
		return fault.New(fault.Invalid, "merge_self", "an interaction cannot be merged with itself")
	}
	return e.commit(ctx, sc, func() ([]store.Change, error) {
		a, av, err := e.interaction(ctx, sc, conv, into)
		if err != nil {
			return nil, err
		}
		b, bv, err := e.interaction(ctx, sc, conv, from)
		if err != nil {
			return nil, err
		}
		if !a.Into.Zero() || !b.Into.Zero() {
			return nil, fault.New(fault.Conflict, "merged_already", "one of the interactions is already part of another one").
				WithHint("merge with that one")
		}
		a.Holds = append(append(a.Holds, from), b.Holds...)
		b.Into, b.Holds = into, nil
		return []store.Change{
			{URI: record.InteractionURI(conv, into), Body: record.Encode(a), If: store.If{Version: av}},
			{URI: record.InteractionURI(conv, from), Body: record.Encode(b), If: store.If{Version: bv}}}, nil
	})
}

func (e *Engine) interaction(ctx context.Context, sc store.Scope, conv, inter id.ID) (record.Interaction, uint64, error) {
	var out record.Interaction
	r, err := e.store.Get(ctx, sc, record.InteractionURI(conv, inter))
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "interaction_not_found", "this conversation has no interaction %s", inter)
	}
	if err == nil {
		err = record.Decode(r.URI, r.Body, &out)
	}
	return out, r.Version, err
}
