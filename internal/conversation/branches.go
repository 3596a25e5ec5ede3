package conversation

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// Branches returns a conversation's branches, oldest first, without deleted ones.
func (e *Engine) Branches(ctx context.Context, sc store.Scope, conv id.ID) ([]record.Branch, error) {
	all, err := e.branches(ctx, sc, conv)
	return slices.DeleteFunc(all, func(b record.Branch) bool { return !b.Deleted.IsZero() }), err
}

// branches returns all branches, oldest first, including deleted ones that can be
// restored.
func (e *Engine) branches(ctx context.Context, sc store.Scope, conv id.ID) ([]record.Branch, error) {
	var out []record.Branch
	q := store.Query{Term: store.Term{Name: record.TermBranch, Value: conv.String()}, Under: record.ConversationURI(conv)}
	for it, err := range records[record.Branch](ctx, e, sc, q) {
		if err != nil {
			return nil, err
		}
		it.Record.ID = it.URI.ID()
		out = append(out, it.Record)
	}
	slices.SortStableFunc(out, func(a, b record.Branch) int {
		switch record.MainBranch {
		case a.ID:
			return -1
		case b.ID:
			return 1
		}
		return a.Created.Compare(b.Created)
	})
	return out, nil
}

// Fork says where a new branch departs from an existing one.
type Fork struct {
	Message id.ID  // zero: after the newest message
	Before  bool   // before the message, for example to rewrite it
	Title   string // empty: none
}

// Fork creates a branch and makes it the preferred one. The new branch shares all
// messages up to the fork with the preferred branch, or with a branch that holds
// the message. The old branch is unchanged. Error codes: message_not_found,
// splits_call.
func (e *Engine) Fork(ctx context.Context, sc store.Scope, conv id.ID, f Fork) (record.Branch, error) {
	var made record.Branch
	err := e.move(ctx, sc, conv, func(c *record.Conversation, b record.Branch) ([]store.Change, error) {
		var err error
		if made, err = e.newFork(ctx, sc, c, b, f); err != nil {
			return nil, err
		}
		c.Branch = made.ID
		return []store.Change{putBranch(conv, &made, store.If{Absent: true})}, nil
	})
	return made, err
}

// OpenFork opens a conversation on a new branch that departs as f says. The next
// turn stores the branch together with its first message; without a turn it is
// never stored.
func (e *Engine) OpenFork(ctx context.Context, sc store.Scope, conv id.ID, f Fork) (*Session, error) {
	c, b, version, err := e.preferredBranch(ctx, sc, conv)
	if err != nil {
		return nil, err
	}
	s := &Session{engine: e, scope: sc, conv: c, version: version, exists: true, fork: true, pos: c.Last}
	if s.branch, err = e.newFork(ctx, sc, &c, b, f); err != nil {
		return nil, err
	}
	s.conv.Branch = s.branch.ID
	_, err = s.load(ctx)
	return s, err
}

// newFork builds the branch of a fork without storing it.
func (e *Engine) newFork(ctx context.Context, sc store.Scope, c *record.Conversation, b record.Branch, f Fork) (record.Branch, error) {
	m, err := e.forkAt(ctx, sc, c.ID, &b, f)
	if err != nil {
		return record.Branch{}, err
	}
	if m.Branch != "" && !b.Holds(m.Branch, m.Pos) {
		if b, err = e.branchHolding(ctx, sc, c.ID, m); err != nil {
			return record.Branch{}, err
		}
	}
	made := e.newBranch(&b)
	made.Title, made.Open = f.Title, c.Last+1
	if m.Branch != "" {
		made.Rope, _ = b.Cut(m.Branch, m.Pos, !f.Before)
	}
	if made.At, err = e.lastOf(ctx, sc, c.ID, made.Rope); err != nil {
		return record.Branch{}, err
	}
	if b.View.Start.Pos != 0 && made.Start().Span < 0 { // the view began after the cut
		made.View = record.View{Revision: b.View.Revision, Clip: b.View.Clip, Room: b.View.Room}
	}
	return made, nil
}

// forkAt finds the message at which a branch departs.
func (e *Engine) forkAt(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, f Fork) (Entry, error) {
	if !f.Message.Zero() {
		m, err := e.Find(ctx, sc, conv, f.Message)
		if err == nil {
			err = e.parts(ctx, sc, conv, b, m, f.Before)
		}
		return m, err
	}
	newest, err := first(e.walk(ctx, sc, conv, b, 1, true))
	if err != nil || newest == nil {
		return Entry{}, err
	}
	return *newest, e.parts(ctx, sc, conv, b, *newest, false)
}

// parts returns an error if a cut before or after a message would separate a call
// from its results, even from results still to come: an agent that continued
// there would repeat the call.
func (e *Engine) parts(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, m Entry, before bool) error {
	if m.Role != message.Tool && len(m.Calls()) == 0 {
		return nil
	}
	group, err := e.callGroup(ctx, sc, conv, b, m)
	if err != nil {
		return err
	}
	first, last := group[0], group[len(group)-1]
	if before && m.ID == first.ID {
		return nil
	}
	if len(group)-1 < len(first.Calls()) {
		return fault.New(fault.Conflict, "call_open", "the calls of message %s have no results yet", first.ID).
			WithHint("wait for them, or choose an earlier message")
	}
	if !before && m.ID == last.ID {
		return nil
	}
	return fault.New(fault.Invalid, "splits_call", "a call and its results cannot be separated").
		WithHint("choose message %s, the last result, or %s, which made the call", last.ID, first.ID)
}

// branchHolding returns a branch that holds a message: if possible, the one that it was
// written on.
func (e *Engine) branchHolding(ctx context.Context, sc store.Scope, conv id.ID, m Entry) (record.Branch, error) {
	if b, _, err := e.branch(ctx, sc, conv, m.Branch); err == nil && b.Holds(m.Branch, m.Pos) {
		return b, nil
	}
	branches, err := e.Branches(ctx, sc, conv)
	if err != nil {
		return record.Branch{}, err
	}
	for _, b := range slices.Backward(branches) {
		if b.Holds(m.Branch, m.Pos) {
			return b, nil
		}
	}
	return record.Branch{}, fault.New(fault.NotFound, "branch_not_found", "no branch holds message %s", m.ID)
}

// OpenAgain opens a conversation on a new branch on which a message is answered
// again. The next turn stores the branch. Error codes: message_not_found,
// nothing_asked.
func (e *Engine) OpenAgain(ctx context.Context, sc store.Scope, conv, msg id.ID) (*Session, error) {
	m, err := e.questionBefore(ctx, sc, conv, msg)
	if err != nil {
		return nil, err
	}
	s, err := e.OpenFork(ctx, sc, conv, Fork{Message: m.ID})
	if err != nil {
		return nil, err
	}
	if shown := s.transcript.Messages(); len(shown) == 0 || shown[len(shown)-1].ID != m.ID {
		err = fault.New(fault.Invalid, "nothing_asked", "the message that was answered, %s, is no longer active", m.ID).
			WithHint("make it active again, or ask again")
	}
	return s, err
}

// questionBefore returns the user's message that a message answers: the nearest one before
// it, or the message itself if the user wrote it.
func (e *Engine) questionBefore(ctx context.Context, sc store.Scope, conv, msg id.ID) (Entry, error) {
	m, err := e.Find(ctx, sc, conv, msg)
	if err != nil {
		return Entry{}, err
	}
	_, b, err := e.current(ctx, sc, conv)
	if err == nil && !b.Holds(m.Branch, m.Pos) {
		b, err = e.branchHolding(ctx, sc, conv, m)
	}
	if err != nil {
		return Entry{}, err
	}
	rope, _ := b.Cut(m.Branch, m.Pos, true)
	upTo := record.Branch{ID: b.ID, Rope: rope, Open: math.MaxInt64}
	for m, err := range e.walk(ctx, sc, conv, &upTo, 32, true) {
		if err != nil {
			return Entry{}, err
		}
		if m.Role == message.User && len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == record.OriginUser {
			return m, nil
		}
	}
	return Entry{}, fault.New(fault.Invalid, "nothing_asked", "there is no message of the user before %s", msg)
}

// lastOf returns the position of a rope's last message, or 0 if it has none.
func (e *Engine) lastOf(ctx context.Context, sc store.Scope, conv id.ID, rope []record.Span) (int64, error) {
	for _, s := range slices.Backward(rope) {
		page, err := e.store.Query(ctx, sc, store.Query{List: record.BranchURI(conv, s.Branch), From: s.To, Reverse: true, Limit: 1, NoBody: true})
		if err != nil {
			return 0, err
		}
		if len(page.Items) > 0 && page.Items[0].Pos >= s.From {
			return page.Items[0].Pos, nil
		}
	}
	return 0, nil
}

// preferredBranch reads a conversation and its preferred branch, and updates the
// conversation's Last to the highest position assigned.
func (e *Engine) preferredBranch(ctx context.Context, sc store.Scope, conv id.ID) (record.Conversation, record.Branch, uint64, error) {
	c, r, err := e.get(ctx, sc, conv)
	if err != nil {
		return c, record.Branch{}, 0, err
	}
	b, _, err := e.branch(ctx, sc, conv, c.BranchID())
	if err != nil {
		return c, b, 0, err
	}
	own, err := e.lastOf(ctx, sc, conv, []record.Span{{Branch: b.ID}})
	c.Last = max(c.Last, own)
	return c, b, r.Version, err
}

// move changes a conversation together with its branches. It retries after a
// conflict.
func (e *Engine) move(ctx context.Context, sc store.Scope, conv id.ID, do func(c *record.Conversation, b record.Branch) ([]store.Change, error)) error {
	return e.commit(ctx, sc, func() ([]store.Change, error) {
		c, b, version, err := e.preferredBranch(ctx, sc, conv)
		if err != nil {
			return nil, err
		}
		changes, err := do(&c, b)
		return append(changes, putConversation(&c, store.If{Version: version})), err
	})
}

// Switch makes a branch the preferred one.
func (e *Engine) Switch(ctx context.Context, sc store.Scope, conv id.ID, branch string) error {
	return e.move(ctx, sc, conv, func(c *record.Conversation, _ record.Branch) ([]store.Change, error) {
		b, version, err := e.branch(ctx, sc, conv, branch)
		if err != nil {
			return nil, err
		}
		c.Branch, b.Used = branch, time.Now().UTC().Truncate(time.Millisecond)
		return []store.Change{putBranch(conv, &b, store.If{Version: version})}, nil
	})
}

// Sibling is one of the alternative continuations at a place in a conversation.
type Sibling struct {
	Branch  string // the branch to switch to: the most recently used of those that hold the message
	Message id.ID
	Current bool // it is on the preferred branch
}

// Siblings returns the messages that the conversation's branches have at the
// place of a message, including the message itself, oldest first.
func (e *Engine) Siblings(ctx context.Context, sc store.Scope, conv, msg id.ID) ([]Sibling, error) {
	c, b, err := e.current(ctx, sc, conv)
	if err != nil {
		return nil, err
	}
	m, err := e.Find(ctx, sc, conv, msg)
	if err != nil {
		return nil, err
	}
	if !b.Holds(m.Branch, m.Pos) {
		if b, err = e.branchHolding(ctx, sc, conv, m); err != nil {
			return nil, err
		}
	}
	before, _ := b.Cut(m.Branch, m.Pos, false)
	at, err := e.lastOf(ctx, sc, conv, before)
	if err != nil {
		return nil, err
	}
	branches, err := e.Branches(ctx, sc, conv)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(branches, func(a, b record.Branch) int { return b.Used.Compare(a.Used) })
	var out []Sibling
	pos := map[id.ID]int64{} // of the messages: ids are not ordered
	for i := range branches {
		next, err := e.nextAfter(ctx, sc, conv, &branches[i], at)
		if err != nil {
			return nil, err
		}
		if next == nil {
			continue
		}
		current := branches[i].ID == c.BranchID()
		if at := slices.IndexFunc(out, func(s Sibling) bool { return s.Message == next.ID }); at < 0 {
			pos[next.ID] = next.Pos
			out = append(out, Sibling{branches[i].ID, next.ID, current})
		} else if current {
			out[at].Branch, out[at].Current = branches[i].ID, true
		}
	}
	slices.SortFunc(out, func(a, b Sibling) int { return cmp.Compare(pos[a.Message], pos[b.Message]) })
	return out, nil
}

// nextAfter returns the message that follows a position on a branch (0: the first
// message). It returns nil if the branch does not hold the position or ends
// there.
func (e *Engine) nextAfter(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, pos int64) (*Entry, error) {
	if pos == 0 {
		return first(e.walk(ctx, sc, conv, b, 1, false))
	}
	for _, s := range b.Spans() {
		if pos < s.From || s.To > 0 && pos > s.To {
			continue
		}
		m, err := e.at(ctx, sc, conv, s.Branch, pos)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return first(e.following(ctx, sc, conv, b, m))
	}
	return nil, nil
}

// Title sets a branch's title.
func (e *Engine) Title(ctx context.Context, sc store.Scope, conv id.ID, branch, title string) error {
	return e.rewrite(ctx, sc, conv, branch, func(b *record.Branch) (bool, error) {
		b.Title = title
		return true, there(b)
	})
}

// there returns branch_not_found if the branch is deleted.
func there(b *record.Branch) error {
	if !b.Deleted.IsZero() {
		return noBranch(b.ID)
	}
	return nil
}

// rewrite applies change to a branch, deleted or not, and stores it if change
// returns true. It retries after a conflict.
func (e *Engine) rewrite(ctx context.Context, sc store.Scope, conv id.ID, branch string, change func(*record.Branch) (bool, error)) error {
	return e.commit(ctx, sc, func() ([]store.Change, error) {
		r, err := e.store.Get(ctx, sc, record.BranchURI(conv, branch))
		if fault.Is(err, fault.NotFound) {
			return nil, noBranch(branch)
		}
		if err != nil {
			return nil, err
		}
		b := record.Branch{ID: branch}
		if err := record.Decode(r.URI, r.Body, &b); err != nil {
			return nil, err
		}
		if write, err := change(&b); err != nil || !write {
			return nil, err
		}
		return []store.Change{putBranch(conv, &b, store.If{Version: r.Version})}, nil
	})
}
