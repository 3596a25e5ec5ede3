package conversation

import (
	"cmp"
	"context"
	"slices"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// Reading selects messages of a conversation. The zero value selects the first
// page of the preferred branch.
type Reading struct {
	Branch  string // empty: the preferred one
	After   store.Cursor
	Limit   int
	Reverse bool  // newest first
	At      id.ID // instead of After: begin with this message, on the preferred branch
	Deleted bool  // instead of all that, the messages that can be restored: in one page, in order of deletion
}

// Read reads messages of a conversation. Error
// codes: conversation_not_found, branch_not_found, cursor_invalid.
func (e *Engine) Read(ctx context.Context, sc store.Scope, conv id.ID, r Reading) ([]Entry, store.Cursor, error) {
	switch {
	case r.Deleted:
		list, err := e.deletedMessages(ctx, sc, conv)
		return list, "", err
	case r.At != (id.ID{}):
		return e.readAt(ctx, sc, conv, r)
	case r.Branch == "":
		return e.Messages(ctx, sc, conv, r.After, r.Limit, r.Reverse)
	}
	if _, err := e.Get(ctx, sc, conv); err != nil {
		return nil, "", err
	}
	list, err := e.Branches(ctx, sc, conv)
	if err != nil {
		return nil, "", err
	}
	i := slices.IndexFunc(list, func(b record.Branch) bool { return b.ID == r.Branch })
	if i < 0 {
		return nil, "", fault.New(fault.NotFound, "branch_not_found", "this conversation has no branch %.80q", r.Branch).
			WithHint("steward branch list lists its branches")
	}
	return e.MessagesOf(ctx, sc, conv, &list[i], r.After, r.Limit, r.Reverse)
}

// readAt reads the preferred branch from a message on: with Reverse, back from it.
func (e *Engine) readAt(ctx context.Context, sc store.Scope, conv id.ID, r Reading) ([]Entry, store.Cursor, error) {
	_, b, err := e.current(ctx, sc, conv)
	if err != nil {
		return nil, "", err
	}
	m, err := e.Find(ctx, sc, conv, r.At)
	if err != nil {
		return nil, "", err
	}
	spans := b.Spans()
	at := slices.IndexFunc(spans, func(s record.Span) bool { return s.Holds(m.Branch, m.Pos) })
	if at < 0 {
		other, err := e.branchHolding(ctx, sc, conv, m)
		if err != nil {
			return nil, "", err
		}
		return nil, "", fault.New(fault.Conflict, "on_other_branch", "message %s is on the branch %s", m.ID, other.ID).WithHint("switch to this branch: steward branch switch").Detail("branch", other.ID)
	}
	list, next, err := e.pageFrom(ctx, sc, conv, spans, at, m.Pos, "", r.Limit, r.Reverse)
	if err == nil {
		list, err = e.withoutDeleted(ctx, sc, conv, &b, list)
	}
	return list, next, err
}

// deletedMessages returns the messages that are deleted, can be restored, and have not
// been erased.
func (e *Engine) deletedMessages(ctx context.Context, sc store.Scope, conv id.ID) ([]Entry, error) {
	changes, err := e.Audit(ctx, sc, conv, id.ID{}, "")
	if err != nil {
		return nil, err
	}
	out := []Entry{}
	for _, c := range changes {
		if c.State != record.Deleted || !c.Undone.IsZero() {
			continue
		}
		m, err := e.Find(ctx, sc, conv, c.Message)
		if fault.Is(err, fault.NotFound) {
			continue // erased for good
		}
		if err != nil {
			return nil, err
		}
		m.Change = c.Change
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b Entry) int {
		return cmp.Or(a.Change.At.Compare(b.Change.At), cmp.Compare(a.Pos, b.Pos))
	})
	return out, nil
}

// Path is a branch as it is shown to a person.
type Path struct {
	record.Branch
	Preferred bool
	Stem      string // the branch that the last shared message was written on; empty: it shares none
	Messages  int    // how many messages are on it
	Own       int    // how many of them were written on it
	Begins    string // the beginning of the first text among these; empty if there is none that may be shown
}

// Paths returns a conversation's branches, oldest first. If deleted is set, it
// returns the branches that can be restored instead.
func (e *Engine) Paths(ctx context.Context, sc store.Scope, conv id.ID, deleted bool) ([]Path, error) {
	c, err := e.Get(ctx, sc, conv)
	if err != nil {
		return nil, err
	}
	var out []Path
	q := store.Query{Term: store.Term{Name: record.TermBranch, Value: conv.String()}, Under: record.ConversationURI(conv)}
	for it, err := range store.Items(ctx, e.store, sc, q) {
		if err != nil {
			return nil, err
		}
		p := Path{Branch: record.Branch{ID: it.URI.ID()}}
		if err := record.Decode(it.URI, it.Body, &p.Branch); err != nil {
			return nil, err
		}
		if p.Deleted.IsZero() == deleted {
			continue
		}
		p.Preferred = p.ID == c.BranchID()
		for _, s := range slices.Backward(p.Rope) {
			if s.Branch != p.ID {
				p.Stem = s.Branch
				break
			}
		}
		out = append(out, p)
	}
	branches := make([]*record.Branch, len(out))
	for i := range out {
		branches[i] = &out[i].Branch
	}
	all, own, err := e.Counts(ctx, sc, conv, branches)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Messages, out[i].Own = all[i], own[i]
		if err := out[i].begins(ctx, e.store, sc, conv); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(out, func(a, b Path) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// begins sets how the messages that were written on a branch begin.
func (p *Path) begins(ctx context.Context, st store.Store, sc store.Scope, conv id.ID) error {
	if p.Own == 0 {
		return nil
	}
	const near = 20
	first, err := st.Query(ctx, sc, store.Query{List: record.BranchURI(conv, p.ID), Limit: near})
	if err != nil {
		return err
	}
	for _, it := range first.Items {
		m, err := record.DecodeMessage(it.URI, it.Body)
		if err != nil {
			return err
		}
		if p.Begins = Beginning(m); p.Begins != "" {
			return nil
		}
	}
	return nil
}

// Beginning returns the beginning of the user's or the assistant's text in a
// message, on one line. It returns "" for secret messages.
func Beginning(m *message.Message) string {
	if m.Role == message.Tool || message.LabelsOf(m.Blocks)&message.Secret != 0 {
		return ""
	}
	return llm.Line(m.Text())
}
