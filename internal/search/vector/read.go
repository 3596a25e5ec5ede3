package vector

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// batch is the number of log entries that are read in one transaction.
const batch = 512

// CatchUp notes what the log has beyond the index's position. After it has returned
// without an error, nothing that was erased before the call is left in the file. It embeds
// nothing.
func (x *Index) CatchUp(ctx context.Context) error {
	return x.with(ctx, func(d *database) error {
		for more := true; more; {
			var err error
			if more, err = x.step(ctx, d); err != nil {
				return err
			}
		}
		return d.use(ctx, expunge)
	})
}

// step reads one batch. It returns false after the last one.
func (x *Index) step(ctx context.Context, d *database) (more bool, err error) {
	select {
	case x.reading <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-x.reading }()
	var at string
	err = d.use(ctx, func(c *sqlite.Conn) error {
		return query(c, "SELECT cursor FROM state", nil, func(s *sqlite.Stmt) { at = s.ColumnText(0) })
	})
	if err != nil {
		return false, err
	}
	page, err := x.opt.Store.Log(ctx, nodeScope(), store.LogQuery{After: store.Cursor(at), Limit: batch})
	if fault.HasCode(err, "cursor_invalid") {
		return false, broken("%w", err)
	}
	if err != nil || len(page.Entries) == 0 {
		return false, err
	}
	again := false
	var noted []int64
	err = d.write(ctx, func(c *sqlite.Conn) error {
		same, _, err := number(c, "SELECT cursor = ? FROM state", at)
		if err != nil {
			return err
		}
		if again = same == 0; again {
			return nil // another process has read it meanwhile
		}
		noted, err = x.apply(ctx, c, page)
		return err
	})
	switch {
	case err != nil:
	case again:
		x.due.everything()
	default:
		x.due.add(noted)
		x.opt.Lag.At(page.Entries[len(page.Entries)-1].Seq) // so that the reading of a large log is progress
	}
	return page.More || again, err
}

// apply writes a batch and its position. It returns the spaces that the entries are of.
func (x *Index) apply(ctx context.Context, c *sqlite.Conn, page store.LogPage) (noted []int64, err error) {
	w := &writing{ctx: ctx, c: c, store: x.opt.Store, log: x.log, spaces: map[resource.Space]int64{}, convs: map[id.ID]conv{}, cuts: map[id.ID]conv{}}
	for i := range page.Entries {
		if err := w.entry(&page.Entries[i]); err != nil {
			return nil, err
		}
	}
	for uid, at := range w.cuts {
		if err := w.cut(uid, at); err != nil {
			return nil, err
		}
	}
	last := page.Entries[len(page.Entries)-1]
	return slices.Collect(maps.Values(w.spaces)), exec(c, "UPDATE state SET cursor = ?, seq = ?, at = ?, key = ?, erase = erase + ?",
		string(page.Next), int64(last.Seq), last.At.UnixMicro(), last.URI.Key(), w.erased)
}

// expunge truncates the write-ahead log after an erasure. Freed pages of the file itself
// are overwritten (secure_delete).
func expunge(c *sqlite.Conn) error {
	due, _, err := number(c, "SELECT erase FROM state")
	if err != nil || due == 0 {
		return err
	}
	// Anything erased meanwhile is expunged next time. The count is written first, so
	// that it does not put older pages into the log again.
	if err := exec(c, "UPDATE state SET erase = erase - ?", due); err != nil {
		return err
	}
	busy, _, err := number(c, "PRAGMA wal_checkpoint(TRUNCATE)")
	if err == nil && busy != 0 {
		err = fault.New(fault.Unavailable, "search_busy", "cannot erase from the vector index: it is being read for too long").
			Retrying(fault.RetryBackoff, time.Second)
	}
	if err != nil {
		if e := exec(c, "UPDATE state SET erase = erase + ?", due); e != nil {
			return e
		}
	}
	return err
}

// behind returns the number of log entries that are not noted yet.
func (x *Index) behind(ctx context.Context, c *sqlite.Conn) (uint64, error) {
	seq, _, err := number(c, "SELECT seq FROM state")
	if err != nil {
		return 0, err
	}
	head, err := follow.Head(ctx, x.opt.Store)
	return head - min(uint64(seq), head), err
}

// conv is a conversation: its number within its space.
type conv struct{ space, id int64 }

// writing is a transaction that notes entries of the log.
type writing struct {
	ctx    context.Context
	c      *sqlite.Conn
	store  store.Store
	log    *slog.Logger
	spaces map[resource.Space]int64
	convs  map[id.ID]conv
	cuts   map[id.ID]conv // conversations whose branches must be examined
	erased bool           // something must be expunged from the file
}

// exec runs a statement on a table of a space, whose number takes the place of %d.
func (w *writing) exec(space int64, text string, args ...any) error {
	return exec(w.c, fmt.Sprintf(text, space), args...)
}

func (w *writing) entry(e *resource.Entry) error {
	uid := record.IDOf(e.URI, record.TypeConversation)
	if uid.Zero() {
		return nil
	}
	var do func(*resource.Entry, id.ID, conv) error
	switch e.URI.Type() {
	case record.TypeConversation:
		do = w.conversation
	case record.TypeMessage:
		do = w.message
	case record.TypeMark:
		do = w.mark
	case record.TypeBranch:
		do = w.branch
	default:
		return nil
	}
	at, err := w.conv(e.Space, uid)
	if err != nil {
		return err
	}
	return do(e, uid, at)
}

// unreadable logs an entry that is left out: a broken record must not prevent the search
// in all others.
func (w *writing) unreadable(e *resource.Entry, err error) {
	w.log.Warn("skipped a record in the vector index", "uri", e.URI.String(), "seq", e.Seq, "error", err)
}

// space returns the number of a space, and creates the tables of a new one.
func (w *writing) space(name resource.Space) (int64, error) {
	if n, ok := w.spaces[name]; ok {
		return n, nil
	}
	n, found, err := number(w.c, "SELECT id FROM space WHERE name = ?", string(name))
	if err == nil && !found {
		if err = exec(w.c, "INSERT INTO space (name) VALUES (?)", string(name)); err == nil {
			n = w.c.LastInsertRowID()
			err = script(w.c, fmt.Sprintf(spaceSchema, n))
		}
	}
	if err == nil {
		w.spaces[name] = n
	}
	return n, err
}

func (w *writing) conv(space resource.Space, uid id.ID) (conv, error) {
	if at, ok := w.convs[uid]; ok {
		return at, nil
	}
	sp, err := w.space(space)
	if err != nil {
		return conv{}, err
	}
	n, found, err := number(w.c, fmt.Sprintf("SELECT id FROM conv_%d WHERE uid = ?", sp), uid[:])
	if err == nil && !found {
		if err = w.exec(sp, "INSERT INTO conv_%d (uid) VALUES (?)", uid[:]); err == nil {
			n = w.c.LastInsertRowID()
		}
	}
	at := conv{sp, n}
	if err == nil {
		w.convs[uid] = at
	}
	return at, err
}

func (w *writing) conversation(e *resource.Entry, uid id.ID, at conv) error {
	switch {
	case e.Op == resource.OpErase:
		return w.eraseConversation(uid, at)
	case e.Op == resource.OpDelete:
		return w.exec(at.space, "UPDATE conv_%d SET gone = 1 WHERE id = ?", at.id)
	case e.Body == nil:
		return nil // erased since
	}
	c, err := record.DecodeConversation(e.URI, e.Body)
	if err != nil {
		w.unreadable(e, err)
		return nil
	}
	// Conversations between agents are not searched; see package fts.
	gone := !c.Deleted.IsZero() || e.State == record.StateDeleted || !c.Asked.Zero()
	return w.exec(at.space, "UPDATE conv_%d SET gone = ? WHERE id = ?", gone, at.id)
}

// eraseConversation removes a conversation, unless only earlier versions of its record were
// erased and it still exists.
func (w *writing) eraseConversation(uid id.ID, at conv) error {
	_, err := w.store.Get(w.ctx, nodeScope(), record.ConversationURI(uid))
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	w.erased = true
	var docs []int64
	err = query(w.c, fmt.Sprintf("SELECT id FROM doc_%d WHERE conv = ?", at.space), []any{at.id}, func(s *sqlite.Stmt) { docs = append(docs, s.ColumnInt64(0)) })
	if err != nil {
		return err
	}
	for _, doc := range docs {
		if err := w.forget(at.space, doc); err != nil {
			return err
		}
	}
	return w.exec(at.space, "UPDATE conv_%d SET gone = 1 WHERE id = ?", at.id)
}

func (w *writing) message(e *resource.Entry, _ id.ID, at conv) error {
	msg := record.IDOf(e.URI, record.TypeMessage)
	if msg.Zero() {
		return nil
	}
	if e.Version > 1 || e.Op != resource.OpPut { // a first version cannot be noted yet
		doc, there, err := number(w.c, fmt.Sprintf("SELECT id FROM doc_%d WHERE conv = ? AND msg = ?", at.space), at.id, msg[:])
		if err != nil {
			return err
		}
		w.erased = w.erased || e.Op == resource.OpErase
		if there {
			if err := w.forget(at.space, doc); err != nil {
				return err
			}
		}
	}
	if e.Op != resource.OpPut || e.Body == nil {
		return nil
	}
	m, err := record.DecodeMessage(e.URI, e.Body)
	if err != nil {
		w.unreadable(e, err)
		return nil
	}
	when := m.At
	if when.IsZero() || when.Unix() == 0 {
		when = e.At
	}
	inter := record.IDOf(e.URI, record.TypeInteraction)
	return w.exec(at.space, "INSERT INTO doc_%d (seq, at, conv, inter, msg, key, role, gone) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		int64(e.Seq), when.UnixMicro(), at.id, inter[:], msg[:], e.URI.Key(), int64(roleOf(m.Role)), e.State == record.StateDeleted)
}

// forget removes a doc and its vectors of all models.
func (w *writing) forget(space, doc int64) error {
	parts, err := numbers(w.c, "SELECT id FROM part WHERE space = ?", space)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := removeDoc(w.c, p, doc); err != nil {
			return err
		}
	}
	return w.exec(space, "DELETE FROM doc_%d WHERE id = ?", doc)
}

func removeDoc(c *sqlite.Conn, part, doc int64) error {
	for _, text := range []string{
		"DELETE FROM vec_%[1]d WHERE id IN (SELECT id FROM code_%[1]d WHERE doc = ?)",
		"DELETE FROM code_%d WHERE doc = ?",
		"DELETE FROM held_%d WHERE doc = ?",
	} {
		if err := exec(c, fmt.Sprintf(text, part), doc); err != nil {
			return err
		}
	}
	return exec(c, "UPDATE part SET gen = gen + 1, cut = cut + 1 WHERE id = ?", part)
}

// mark hides a message that a person has deleted, or restores it.
func (w *writing) mark(e *resource.Entry, _ id.ID, at conv) error {
	msg := record.IDOf(e.URI, record.TypeMark)
	if msg.Zero() {
		return nil
	}
	gone := false
	if e.Op == resource.OpPut {
		if e.Body == nil {
			return nil
		}
		var m record.Mark
		if err := record.Decode(e.URI, e.Body, &m); err != nil {
			w.unreadable(e, err)
			return nil
		}
		gone = slices.ContainsFunc(m.Changes, func(c record.Change) bool { return c.State == record.Deleted && c.Undone.IsZero() })
	}
	return w.exec(at.space, "UPDATE doc_%d SET gone = ? WHERE conv = ? AND msg = ?", gone, at.id, msg[:])
}

// branch notes the conversation of a branch that was deleted or may have been restored.
func (w *writing) branch(e *resource.Entry, uid id.ID, at conv) error {
	if e.Op != resource.OpPut || e.Body == nil {
		return nil
	}
	var b record.Branch
	if err := record.Decode(e.URI, e.Body, &b); err != nil {
		w.unreadable(e, err)
		return nil
	}
	cut, _, err := number(w.c, fmt.Sprintf("SELECT cut FROM conv_%d WHERE id = ?", at.space), at.id)
	if err == nil && (cut != 0 || !b.Deleted.IsZero()) {
		w.cuts[uid] = at
	}
	return err
}

// cut hides the messages of a conversation that only deleted branches hold.
func (w *writing) cut(uid id.ID, at conv) error {
	var live, dead []record.Branch
	for it, err := range store.Items(w.ctx, w.store, nodeScope(), store.Query{Under: record.ConversationURI(uid), Type: record.TypeBranch}) {
		if err != nil {
			return err
		}
		b := record.Branch{ID: it.URI.ID()}
		if err := record.Decode(it.URI, it.Body, &b); err != nil {
			w.log.Warn("skipped a branch in the vector index", "uri", it.URI.String(), "error", err)
			continue
		}
		if b.Deleted.IsZero() {
			live = append(live, b)
		} else {
			dead = append(dead, b)
		}
	}
	if err := w.exec(at.space, "UPDATE doc_%d SET cut = 0 WHERE conv = ? AND cut = 1", at.id); err != nil {
		return err
	}
	for _, d := range dead {
		q := store.Query{List: record.BranchURI(uid, d.ID), Type: record.TypeMessage, NoBody: true, Limit: store.MaxLimit}
		for it, err := range store.Items(w.ctx, w.store, nodeScope(), q) {
			if err != nil {
				return err
			}
			if slices.ContainsFunc(live, func(b record.Branch) bool { return b.Holds(d.ID, it.Pos) }) {
				continue
			}
			msg := record.IDOf(it.URI, record.TypeMessage)
			if err := w.exec(at.space, "UPDATE doc_%d SET cut = 1 WHERE conv = ? AND msg = ?", at.id, msg[:]); err != nil {
				return err
			}
		}
	}
	return w.exec(at.space, "UPDATE conv_%d SET cut = ? WHERE id = ?", len(dead) > 0, at.id)
}

func numbers(c *sqlite.Conn, text string, args ...any) (out []int64, err error) {
	err = query(c, text, args, func(s *sqlite.Stmt) { out = append(out, s.ColumnInt64(0)) })
	return out, err
}
