package conversation

import (
	"context"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Purge erases for good what was deleted before a time: conversations,
// branches and messages of all users, with all that lies below them and the
// summaries that were made of them. Projections follow the log, where each
// erasure has its entry. It returns how many of the deleted were erased.
func (e *Engine) Purge(ctx context.Context, before time.Time) (int, error) {
	n := 0
	q := store.Query{State: record.StateDeleted}
	for it, err := range store.Items(ctx, e.store, store.ForNode(resource.System), q) {
		if err != nil {
			return n, err
		}
		sc := store.ForNode(it.Space)
		erased := false
		switch it.URI.Type() {
		case record.TypeConversation:
			var c record.Conversation
			if err = record.Decode(it.URI, it.Body, &c); err == nil && c.Deleted.Before(before) {
				erased, err = true, e.erase(ctx, sc, it.URI)
			}
		case record.TypeBranch:
			erased, err = e.purgeBranch(ctx, sc, it, before)
		case record.TypeMark:
			erased, err = e.purgeMessage(ctx, sc, it, before)
		}
		if err != nil {
			return n, err
		}
		if erased {
			n++
		}
	}
	return n, nil
}

// eraseBatch is how many resources are erased in one commit.
const eraseBatch = 200

// erase erases a resource and all that lies below it, itself last: what a
// crash leaves is found again.
func (e *Engine) erase(ctx context.Context, sc store.Scope, u resource.URI) error {
	var batch []store.Change
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		_, err := e.store.Commit(ctx, sc, store.Batch{Changes: batch})
		batch = batch[:0]
		return err
	}
	for it, err := range store.Items(ctx, e.store, sc, store.Query{Under: u, NoBody: true}) {
		if err != nil {
			return err
		}
		if it.URI == u {
			continue
		}
		if batch = append(batch, store.Change{Op: store.Erase, URI: it.URI}); len(batch) == eraseBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	batch = append(batch, store.Change{Op: store.Erase, URI: u})
	return flush()
}

// purgeBranch erases a branch and the messages of its list that are on no
// other branch.
func (e *Engine) purgeBranch(ctx context.Context, sc store.Scope, it store.Item, before time.Time) (bool, error) {
	b := record.Branch{ID: it.URI.ID()}
	if err := record.Decode(it.URI, it.Body, &b); err != nil || !b.Deleted.Before(before) {
		return false, err
	}
	conv := record.IDOf(it.URI, record.TypeConversation)
	others, err := e.Branches(ctx, sc, conv)
	if err != nil {
		return false, err
	}
	for m, err := range store.Items(ctx, e.store, sc, store.Query{List: it.URI, NoBody: true}) {
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(others, func(o record.Branch) bool { return o.Holds(b.ID, m.Pos) }) {
			continue
		}
		if err := e.erase(ctx, sc, m.URI); err != nil {
			return false, err
		}
	}
	if b.View.Summary != "" && !slices.ContainsFunc(others, func(o record.Branch) bool { return o.View.Summary == b.View.Summary }) {
		if err := e.eraseSummary(ctx, sc, b.View.Summary); err != nil {
			return false, err
		}
	}
	return true, e.erase(ctx, sc, it.URI)
}

func (e *Engine) eraseSummary(ctx context.Context, sc store.Scope, uri string) error {
	u, err := resource.Parse(uri)
	if err != nil {
		return err
	}
	if err = e.erase(ctx, sc, u); fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// purgeMessage erases a deleted message, and the summaries that were made
// when it had been shown. Its mark stays, without a reason.
func (e *Engine) purgeMessage(ctx context.Context, sc store.Scope, it store.Item, before time.Time) (bool, error) {
	k := &marked{version: it.Version}
	if err := record.Decode(it.URI, it.Body, &k.Mark); err != nil {
		return false, err
	}
	k.Message, _ = id.Parse(it.URI.ID())
	at := slices.IndexFunc(k.Changes, func(c record.Change) bool { return c.State == record.Deleted && c.Undone.IsZero() })
	if at < 0 || !k.Changes[at].At.Before(before) {
		return false, nil
	}
	conv := record.IDOf(it.URI, record.TypeConversation)
	m, err := e.at(ctx, sc, conv, k.Branch, k.Pos)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	if err == nil {
		if err := e.forget(ctx, sc, conv, &m); err != nil {
			return false, err
		}
		if err := e.erase(ctx, sc, m.URI(conv)); err != nil {
			return false, err
		}
	}
	for i := range k.Changes {
		k.Changes[i].Reason = ""
	}
	put := k.put(conv)
	put.State = "" // it is done
	_, err = e.store.Commit(ctx, sc, store.Batch{Changes: []store.Change{put}})
	return err == nil, err
}

// forget takes back what was derived from a message: summaries of what it
// stood in, and a title made of it.
func (e *Engine) forget(ctx context.Context, sc store.Scope, conv id.ID, m *Entry) error {
	branches, err := e.Branches(ctx, sc, conv)
	if err != nil {
		return err
	}
	for _, b := range branches {
		if b.View.Summary == "" || !b.PlaceOf(m.Branch, m.Pos).Before(b.Start()) {
			continue
		}
		if err := e.eraseSummary(ctx, sc, b.View.Summary); err != nil {
			return err
		}
		fresh, version, err := e.branch(ctx, sc, conv, b.ID)
		if err != nil {
			return err
		}
		fresh.View.Summary = ""
		fresh.View.Revision++
		if _, err := e.store.Commit(ctx, sc, store.Batch{Changes: []store.Change{putBranch(conv, &fresh, store.If{Version: version})}}); err != nil {
			return err
		}
	}
	c, _, err := e.get(ctx, sc, conv)
	if fault.Is(err, fault.NotFound) {
		return nil // the conversation is deleted as a whole
	}
	if err != nil || c.Title != titleOf(m.Message) {
		return err
	}
	_, err = e.Update(ctx, sc, conv, func(c *record.Conversation) { c.Title = "" })
	return err
}

// Pack has the store keep compactly what the model is not shown any more of a
// conversation's preferred branch, or, of one that nobody uses, all of it.
// Reading is as before. It returns how many messages it has packed.
func (e *Engine) Pack(ctx context.Context, sc store.Scope, conv id.ID, all bool) (int, error) {
	_, b, err := e.current(ctx, sc, conv)
	if err != nil {
		return 0, err
	}
	done, end := b.PlaceOf(b.Packed.Branch, b.Packed.Pos-1), b.Start() // the last message that is packed
	n := 0
	var last record.Point
	var batch []store.Change
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		_, err := e.store.Commit(ctx, sc, store.Batch{Changes: batch})
		n += len(batch)
		batch = batch[:0]
		return err
	}
	for i, s := range b.Spans() {
		if i < done.Span || !all && i > end.Span {
			continue
		}
		if i == done.Span {
			s.From = done.Pos + 1
		}
		q := store.Query{List: record.BranchURI(conv, s.Branch), From: s.From, NoBody: true, Limit: 1000}
		for it, err := range store.Items(ctx, e.store, sc, q) {
			if err != nil {
				return n, err
			}
			if !s.Holds(s.Branch, it.Pos) || !all && i == end.Span && it.Pos >= end.Pos {
				break
			}
			last = record.Point{Branch: s.Branch, Pos: it.Pos + 1}
			if batch = append(batch, store.Change{Op: store.Pack, URI: it.URI}); len(batch) == 1000 {
				if err := flush(); err != nil {
					return n, err
				}
			}
		}
	}
	if err := flush(); err != nil || n == 0 {
		return n, err
	}
	return n, e.packed(ctx, sc, conv, b.ID, last)
}

// packed records how far a branch is packed.
func (e *Engine) packed(ctx context.Context, sc store.Scope, conv id.ID, branch string, to record.Point) error {
	for try := 1; ; try++ {
		b, version, err := e.branch(ctx, sc, conv, branch)
		if err != nil {
			return err
		}
		b.Packed = to
		_, err = e.store.Commit(ctx, sc, store.Batch{Changes: []store.Change{putBranch(conv, &b, store.If{Version: version})}})
		if !fault.Is(err, fault.Conflict) || try == maxTries {
			return err
		}
	}
}
