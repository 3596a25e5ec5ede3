package conversation

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Purge permanently erases everything that was deleted before a time:
// conversations, branches and messages of all users, with everything below them
// and the summaries made of them. Projections follow the log, which has an entry
// for each erasure. Purge returns the number of deleted resources that it erased.
func (e *Engine) Purge(ctx context.Context, before time.Time) (int, error) {
	all := func(resource.URI) bool { return true }
	return e.purge(ctx, store.ForNode(resource.System), store.Query{State: record.StateDeleted}, before, all)
}

// PurgeUser is Purge for one user.
func (e *Engine) PurgeUser(ctx context.Context, user string, before time.Time) (int, error) {
	all := func(resource.URI) bool { return true }
	return e.purge(ctx, store.ForUser(user), store.Query{State: record.StateDeleted}, before, all)
}

// Erase permanently erases what is deleted in a conversation: the named branches
// and messages, or, without names, everything.
func (e *Engine) Erase(ctx context.Context, sc store.Scope, conv id.ID, names ...string) (int, error) {
	q := store.Query{State: record.StateDeleted, Under: record.ConversationURI(conv)}
	named := func(u resource.URI) bool { return len(names) == 0 || slices.Contains(names, u.ID()) }
	return e.purge(ctx, sc, q, time.Now().Add(time.Minute), named)
}

// EraseMessages permanently erases deleted messages, and those that were deleted
// as part of the same group: a call and its results.
func (e *Engine) EraseMessages(ctx context.Context, sc store.Scope, conv id.ID, msgs ...id.ID) (int, error) {
	_, b, err := e.current(ctx, sc, conv)
	if err != nil {
		return 0, err
	}
	group, err := e.group(ctx, sc, conv, &b, msgs, record.Deleted)
	if err != nil || len(group) == 0 {
		return 0, err
	}
	var names []string
	for _, m := range group {
		names = append(names, m.ID.String())
	}
	return e.Erase(ctx, sc, conv, names...)
}

func (e *Engine) purge(ctx context.Context, in store.Scope, q store.Query, before time.Time, which func(resource.URI) bool) (int, error) {
	n := 0
	for it, err := range store.Items(ctx, e.store, in, q) {
		if err != nil {
			return n, err
		}
		if !which(it.URI) {
			continue
		}
		sc := store.ForNode(it.Space)
		erased := false
		switch it.URI.Type() {
		case record.TypeConversation:
			var c record.Conversation
			// A conversation that an agent holds is erased with its parent.
			if err = record.Decode(it.URI, it.Body, &c); err == nil && c.Asked.Zero() && c.Deleted.Before(before) {
				if err = e.eraseBelow(ctx, sc, record.IDOf(it.URI, record.TypeConversation)); err == nil {
					erased, err = true, e.erase(ctx, sc, it.URI)
				}
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

// erase erases a resource and everything below it. It erases the resource itself
// last, so that a retry after a crash finds the rest.
func (e *Engine) erase(ctx context.Context, sc store.Scope, u resource.URI) error {
	if err := store.EraseAbout(ctx, e.store, sc.Actor, sc.Write, u); err != nil {
		return err
	}
	erasing := &batch{engine: e, ctx: ctx, sc: sc}
	for it, err := range store.Items(ctx, e.store, sc, store.Query{Under: u, NoBody: true}) {
		if err != nil {
			return err
		}
		if it.URI == u {
			continue
		}
		if err := erasing.add(store.Change{Op: store.Erase, URI: it.URI}); err != nil {
			return err
		}
	}
	if err := erasing.add(store.Change{Op: store.Erase, URI: u}); err != nil {
		return err
	}
	return erasing.flush()
}

// EraseSpace erases everything that was ever stored in a space, on behalf of an
// actor, and the records about its conversations in other spaces. If it returns no
// error, nothing is left. Error code: space_in_use (Conflict), if something keeps
// writing to the space.
func (e *Engine) EraseSpace(ctx context.Context, actor string, space resource.Space) error {
	sc := store.Scope{Actor: actor, Read: []resource.Space{space}, Write: space}
	for range maxTries {
		n := 0
		for it, err := range store.Items(ctx, e.store, sc, store.Query{Type: record.TypeConversation, NoBody: true}) {
			if err == nil {
				n++
				err = e.erase(ctx, sc, it.URI)
			}
			if err != nil {
				return err
			}
		}
		left, err := e.eraseLogged(ctx, sc)
		if err != nil || n+left == 0 {
			return err
		}
	}
	return fault.New(fault.Conflict, "space_in_use", "%s is still in use", space).
		WithHint("wait until nothing runs there, and try again")
}

// eraseLogged erases all resources that exist or have a body in the log, and
// returns their number. Deleted resources are found only in the log.
func (e *Engine) eraseLogged(ctx context.Context, sc store.Scope) (int, error) {
	erasing := &batch{engine: e, ctx: ctx, sc: sc}
	add := func(u resource.URI) error {
		if slices.ContainsFunc(erasing.changes, func(c store.Change) bool { return c.URI == u }) {
			return nil // a batch may not contain a URI twice
		}
		return erasing.add(store.Change{Op: store.Erase, URI: u})
	}
	for it, err := range store.Items(ctx, e.store, sc, store.Query{NoBody: true}) {
		if err == nil {
			err = add(it.URI)
		}
		if err != nil {
			return erasing.done, err
		}
	}
	for en, err := range store.Entries(ctx, e.store, sc, store.LogQuery{}) {
		if err == nil && en.Op == resource.OpPut && len(en.Body) > 0 {
			err = add(en.URI)
		}
		if err != nil {
			return erasing.done, err
		}
	}
	err := erasing.flush()
	return erasing.done, err
}

// purgeBranch erases a branch, the messages that no other branch holds, and
// everything derived from these messages.
func (e *Engine) purgeBranch(ctx context.Context, sc store.Scope, it store.Item, before time.Time) (bool, error) {
	b := record.Branch{ID: it.URI.ID()}
	if err := record.Decode(it.URI, it.Body, &b); err != nil || !b.Deleted.Before(before) {
		return false, err
	}
	conv := record.IDOf(it.URI, record.TypeConversation)
	others, err := e.branches(ctx, sc, conv)
	if err != nil {
		return false, err
	}
	others = slices.DeleteFunc(others, func(o record.Branch) bool { return o.ID == b.ID })
	lists := listsOf(b) // including those of branches that were erased before
	for _, l := range lists {
		if err := e.purgeList(ctx, sc, conv, l, others); err != nil {
			return false, err
		}
	}
	own, err := e.summaries(ctx, sc, conv, b)
	if err != nil {
		return false, err
	}
	elsewhere, err := e.summaries(ctx, sc, conv, others...)
	if err != nil {
		return false, err
	}
	for _, s := range own {
		if !slices.ContainsFunc(elsewhere, func(o summarized) bool { return o.uri == s.uri }) {
			if err := e.eraseSummary(ctx, sc, s.uri); err != nil {
				return false, err
			}
		}
	}
	return true, e.erase(ctx, sc, it.URI)
}

// purgeList erases the messages of a list that no branch holds any more.
func (e *Engine) purgeList(ctx context.Context, sc store.Scope, conv id.ID, list string, held []record.Branch) error {
	for it, err := range store.Items(ctx, e.store, sc, store.Query{List: record.BranchURI(conv, list)}) {
		if err != nil {
			return err
		}
		if slices.ContainsFunc(held, func(o record.Branch) bool { return o.Holds(list, it.Pos) }) {
			continue
		}
		m, err := entry(list, it)
		if err != nil {
			return err
		}
		if err := e.removeTitle(ctx, sc, conv, m.Message); err != nil {
			return err
		}
		if err := e.eraseAsked(ctx, sc, &m, conv); err != nil {
			return err
		}
		if err := e.erase(ctx, sc, it.URI); err != nil {
			return err
		}
	}
	return nil
}

// summarized is a version of a branch whose view has a summary.
type summarized struct {
	record.Branch
	seq     uint64
	uri     string
	earlier string // the summary in the previous version
}

// summaries returns the versions of branches in which a summary entered the view,
// in the order of the log.
func (e *Engine) summaries(ctx context.Context, sc store.Scope, conv id.ID, branches ...record.Branch) ([]summarized, error) {
	var out []summarized
	for _, b := range branches {
		last := ""
		for en, err := range store.Entries(ctx, e.store, sc, store.LogQuery{Of: record.BranchURI(conv, b.ID)}) {
			if err != nil {
				return nil, err
			}
			if en.Op != resource.OpPut || en.Body == nil {
				continue
			}
			v := record.Branch{ID: b.ID}
			if err := record.Decode(en.URI, en.Body, &v); err != nil {
				return nil, err
			}
			if v.View.Summary != "" && v.View.Summary != last {
				out = append(out, summarized{v, en.Seq, v.View.Summary, last})
			}
			last = v.View.Summary
		}
	}
	slices.SortFunc(out, func(a, b summarized) int { return cmp.Compare(a.seq, b.seq) })
	return out, nil
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

// purgeMessage erases a deleted message and everything derived from it. Its mark
// stays, without reasons.
func (e *Engine) purgeMessage(ctx context.Context, sc store.Scope, it store.Item, before time.Time) (bool, error) {
	f := found[record.Mark]{Item: it}
	if err := record.Decode(it.URI, it.Body, &f.Record); err != nil {
		return false, err
	}
	k := markOf(f)
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
		if err := e.eraseAsked(ctx, sc, &m, conv); err != nil {
			return false, err
		}
		if err := e.erase(ctx, sc, m.URI(conv)); err != nil {
			return false, err
		}
	}
	err = e.removeReasons(ctx, sc, conv, k, "")
	return err == nil, err
}

// removeReasons removes from all versions of a mark the reasons of changes whose Call
// begins with calls. If calls is "", it removes all reasons and settles the mark,
// because the marked message is erased.
func (e *Engine) removeReasons(ctx context.Context, sc store.Scope, conv id.ID, k *marked, calls string) error {
	for i := range k.Changes {
		if c := &k.Changes[i]; strings.HasPrefix(c.Call, calls) {
			c.Reason = ""
		}
	}
	erase := store.Change{Op: store.Erase, URI: record.MarkURI(conv, k.Message), If: store.If{Version: k.version}}
	k.version = 0 // the mark is created again
	put := k.put(conv)
	if calls == "" {
		put.State = "" // the deletion is complete
	}
	_, err := e.store.Commit(ctx, sc, store.Batch{Changes: []store.Change{erase, put}})
	return err
}

// forget erases everything derived from a message: its summaries and summaries of
// those, a title made from it, and the reasons with which its calls made results
// obsolete.
func (e *Engine) forget(ctx context.Context, sc store.Scope, conv id.ID, m *Entry) error {
	branches, err := e.branches(ctx, sc, conv)
	if err != nil {
		return err
	}
	all, err := e.summaries(ctx, sc, conv, branches...)
	if err != nil {
		return err
	}
	derived := map[string]bool{}
	for _, s := range all {
		if derived[s.earlier] || s.PlaceOf(m.Branch, m.Pos).Before(s.Start()) {
			derived[s.uri] = true
		}
	}
	for _, b := range branches {
		if derived[b.View.Summary] {
			if err := e.unsummarize(ctx, sc, conv, b.ID, derived); err != nil {
				return err
			}
		}
	}
	for uri := range derived {
		if err := e.eraseSummary(ctx, sc, uri); err != nil {
			return err
		}
	}
	if err := e.removeReasonsOf(ctx, sc, conv, m.Message); err != nil {
		return err
	}
	return e.removeTitle(ctx, sc, conv, m.Message)
}

// removeReasonsOf removes the reasons with which the calls of a message made results
// obsolete.
func (e *Engine) removeReasonsOf(ctx context.Context, sc store.Scope, conv id.ID, m *message.Message) error {
	if len(m.Calls()) == 0 {
		return nil
	}
	marks, err := e.marks(ctx, sc, conv, 0, 0)
	if err != nil {
		return err
	}
	calls := m.ID.String() + "/"
	for _, k := range marks {
		its := func(c record.Change) bool { return strings.HasPrefix(c.Call, calls) && c.Reason != "" }
		if slices.ContainsFunc(k.Changes, its) {
			if err := e.removeReasons(ctx, sc, conv, k, calls); err != nil {
				return err
			}
		}
	}
	return nil
}

// unsummarize removes a summary that will be erased from a branch's view.
func (e *Engine) unsummarize(ctx context.Context, sc store.Scope, conv id.ID, branch string, derived map[string]bool) error {
	return e.rewrite(ctx, sc, conv, branch, func(b *record.Branch) (bool, error) {
		had := derived[b.View.Summary]
		b.View.Summary = ""
		b.View.Revision++
		return had, nil
	})
}

// removeTitle removes a title made from a message. If any version of the conversation's
// record has it, all versions are erased and the record is written without it.
func (e *Engine) removeTitle(ctx context.Context, sc store.Scope, conv id.ID, m *message.Message) error {
	title := titleOf(m)
	if m.Role != message.User || title == "" {
		return nil
	}
	mark := append([]byte(`"title":`), record.Encode(title)...)
	return e.commit(ctx, sc, func() ([]store.Change, error) {
		c, r, err := e.get(ctx, sc, conv)
		if fault.Is(err, fault.NotFound) {
			return nil, nil // the conversation is deleted as a whole
		}
		if err != nil {
			return nil, err
		}
		had := false
		for en, err := range store.Entries(ctx, e.store, sc, store.LogQuery{Of: r.URI}) {
			if err != nil {
				return nil, err
			}
			had = had || bytes.Contains(en.Body, mark)
		}
		if !had {
			return nil, nil
		}
		if c.Title == title {
			c.Title = ""
		}
		return []store.Change{{Op: store.Erase, URI: r.URI, If: store.If{Version: r.Version}}, putConversation(&c, store.If{Absent: true})}, nil
	})
}
