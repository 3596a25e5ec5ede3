package fts

import (
	"fmt"
	"slices"

	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// branch notes the conversation of a branch that was deleted or may have been restored.
func (w *writing) branch(e *resource.Entry) error {
	uid := record.IDOf(e.URI, record.TypeConversation)
	if uid.Zero() || e.Op != resource.OpPut || e.Body == nil {
		return nil
	}
	var b record.Branch
	if err := record.Decode(e.URI, e.Body, &b); err != nil {
		w.unreadable(e, err)
		return nil
	}
	if !b.Deleted.IsZero() {
		return w.cutLater(e.Space, uid)
	}
	n, err := w.conv(e.Space, uid)
	if err != nil {
		return err
	}
	_, cut, err := w.number(fmt.Sprintf("SELECT 1 FROM conv_%d WHERE id = ? AND cut = 1", n.space), n.id)
	if cut {
		w.cuts[uid] = n
	}
	return err
}

func (w *writing) cutLater(space resource.Space, uid id.ID) error {
	n, err := w.conv(space, uid)
	if err == nil {
		w.cuts[uid] = n
	}
	return err
}

// cut hides the messages of a conversation that only deleted branches hold. That depends on
// all branches, which are read in their present state, and again after each change.
func (w *writing) cut(st store.Store, uid id.ID, conv conv) error {
	live, dead, err := w.branches(st, uid)
	if err != nil {
		return err
	}
	if err := w.in(conv.space, "UPDATE doc_%d SET cut = 0 WHERE conv = ? AND cut = 1", conv.id); err != nil {
		return err
	}
	for _, d := range dead {
		q := store.Query{List: record.BranchURI(uid, d.ID), Type: record.TypeMessage, NoBody: true, Limit: store.MaxLimit}
		for it, err := range store.Items(w.ctx, st, nodeScope(), q) {
			if err != nil {
				return err
			}
			if slices.ContainsFunc(live, func(b record.Branch) bool { return b.Holds(d.ID, it.Pos) }) {
				continue
			}
			msg := record.IDOf(it.URI, record.TypeMessage)
			if err := w.in(conv.space, "UPDATE doc_%d SET cut = 1 WHERE conv = ? AND msg = ?", conv.id, msg[:]); err != nil {
				return err
			}
		}
	}
	return w.in(conv.space, "UPDATE conv_%d SET cut = ? WHERE id = ?", len(dead) > 0, conv.id)
}

// branches returns a conversation's branches, and its deleted ones.
func (w *writing) branches(st store.Store, uid id.ID) (live, dead []record.Branch, err error) {
	q := store.Query{Under: record.ConversationURI(uid), Type: record.TypeBranch}
	for it, err := range store.Items(w.ctx, st, nodeScope(), q) {
		if err != nil {
			return nil, nil, err
		}
		b := record.Branch{ID: it.URI.ID()}
		if err := record.Decode(it.URI, it.Body, &b); err != nil {
			w.log.Warn("skipped a branch in the search index", "uri", it.URI.String(), "error", err)
			continue
		}
		if b.Deleted.IsZero() {
			live = append(live, b)
		} else {
			dead = append(dead, b)
		}
	}
	return live, dead, nil
}
