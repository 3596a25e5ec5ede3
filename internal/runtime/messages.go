package runtime

import (
	"cmp"
	"context"
	"slices"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
)

// Reading selects messages of a conversation. The zero value selects the first
// page of the preferred branch.
type Reading struct {
	Branch  string // empty: the preferred one
	After   store.Cursor
	Limit   int
	Reverse bool // newest first
	Deleted bool // instead of all that, the messages that can be restored: in one page, in order of deletion
}

// ReadMessages reads messages of one of the user's conversations. Error
// codes: conversation_not_found, branch_not_found, cursor_invalid.
func (k *Records) ReadMessages(ctx context.Context, user string, conv id.ID, r Reading) ([]conversation.Entry, store.Cursor, error) {
	e, sc := k.conversations, store.ForUser(user)
	switch {
	case r.Deleted:
		list, err := deleted(ctx, e, sc, conv)
		return list, "", err
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
			WithHint("steward branch list shows those that it has")
	}
	return e.MessagesOf(ctx, sc, conv, &list[i], r.After, r.Limit, r.Reverse)
}

// deleted returns the messages that are deleted, can be restored, and have not
// been erased.
func deleted(ctx context.Context, e *conversation.Engine, sc store.Scope, conv id.ID) ([]conversation.Entry, error) {
	changes, err := e.Audit(ctx, sc, conv, id.ID{}, "")
	if err != nil {
		return nil, err
	}
	out := []conversation.Entry{}
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
	slices.SortStableFunc(out, func(a, b conversation.Entry) int {
		return cmp.Or(a.Change.At.Compare(b.Change.At), cmp.Compare(a.Pos, b.Pos))
	})
	return out, nil
}
