package fts

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/store"
)

// writing is a transaction that indexes entries of the log.
type writing struct {
	ctx    context.Context
	c      *sqlite.Conn
	store  store.Store
	log    *slog.Logger
	nums   map[string]int64 // the numbers of spaces, tools and conversations
	erased bool             // something must be expunged from the file
	cuts   map[id.ID]bool   // conversations whose branches must be examined

	rank, last int64 // of the last message: the rank of its time, and the number that it got
	top        int64 // the highest number of all messages; -1: not known yet
	words      []byte
	stems      []byte
	tables     map[int64]bool // the spaces whose tables are known to exist
}

func newBatch(ctx context.Context, c *sqlite.Conn, st store.Store, log *slog.Logger) *writing {
	return &writing{ctx: ctx, c: c, store: st, log: log, nums: map[string]int64{}, cuts: map[id.ID]bool{}, tables: map[int64]bool{}, top: -1}
}

func (w *writing) exec(query string, args ...any) error { return exec(w.c, query, args...) }

func (w *writing) number(query string, args ...any) (n int64, found bool, err error) {
	return number(w.c, query, args...)
}

// entry indexes one entry of the log.
func (w *writing) entry(e *resource.Entry) error {
	switch e.URI.Type() {
	case record.TypeConversation:
		return w.conversation(e)
	case record.TypeMessage:
		return w.message(e)
	case record.TypeMark:
		return w.mark(e)
	case record.TypeBranch:
		return w.branch(e)
	}
	return nil
}

// unreadable logs an entry that is left out: a broken record must not prevent the search
// in all others.
func (w *writing) unreadable(e *resource.Entry, err error) {
	w.log.Warn("skipped a record in the search index", "uri", e.URI.String(), "seq", e.Seq, "error", err)
}

func (w *writing) conversation(e *resource.Entry) error {
	uid := record.IDOf(e.URI, record.TypeConversation)
	switch {
	case uid.Zero():
		return nil
	case e.Op == resource.OpErase:
		return w.eraseConversation(uid)
	case e.Op == resource.OpDelete:
		return w.conversationGone(uid, true)
	case e.Body == nil:
		return nil // erased since
	}
	c, err := record.DecodeConversation(e.URI, e.Body)
	if err != nil {
		w.unreadable(e, err)
		return nil
	}
	// Conversations between agents are not searched: neither the user nor the assistant
	// wrote them, and their result is in the conversation that asked.
	if err := w.conversationGone(uid, !c.Deleted.IsZero() || e.State == record.StateDeleted || !c.Asked.Zero()); err != nil {
		return err
	}
	return w.exec("UPDATE conv SET agent = ? WHERE uid = ? AND agent <> ?", c.Agent, uid[:], c.Agent)
}

func (w *writing) conversationGone(uid id.ID, gone bool) error {
	n, err := w.conv(uid)
	if err != nil {
		return err
	}
	return w.exec("UPDATE conv SET gone = ? WHERE id = ? AND gone <> ?", gone, n, gone)
}

// eraseConversation removes a conversation, unless only earlier versions of its record
// were erased and it still exists.
func (w *writing) eraseConversation(uid id.ID) error {
	_, err := w.store.Get(w.ctx, nodeScope(), record.ConversationURI(uid))
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	n, err := w.conv(uid)
	if err != nil {
		return err
	}
	w.erased = true
	all, err := spaces(w.c)
	if err != nil {
		return err
	}
	for _, space := range all {
		if err := w.exec("DELETE FROM "+wordTable(space)+" WHERE rowid IN (SELECT id FROM doc WHERE conv = ? AND space = ?)", n, space); err != nil {
			return err
		}
	}
	if err := w.exec("DELETE FROM doc WHERE conv = ?", n); err != nil {
		return err
	}
	return w.exec("UPDATE conv SET gone = 1 WHERE id = ?", n)
}

// named returns the number of a name, and assigns one to a new name.
func (w *writing) named(table string, column string, value any) (int64, error) {
	key := fmt.Sprint(table, " ", value)
	if n, ok := w.nums[key]; ok {
		return n, nil
	}
	n, found, err := w.number("SELECT id FROM "+table+" WHERE "+column+" = ?", value)
	if err == nil && !found {
		if err = w.exec("INSERT INTO "+table+" ("+column+") VALUES (?)", value); err == nil {
			n, _, err = w.number("SELECT last_insert_rowid()")
		}
	}
	if err == nil {
		w.nums[key] = n
	}
	return n, err
}

func (w *writing) conv(uid id.ID) (int64, error) { return w.named("conv", "uid", uid[:]) }

// mark hides a message that a person has deleted, or restores it.
func (w *writing) mark(e *resource.Entry) error {
	conv, msg := record.IDOf(e.URI, record.TypeConversation), record.IDOf(e.URI, record.TypeMark)
	if conv.Zero() || msg.Zero() {
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
		gone = deleted(&m)
	}
	n, err := w.conv(conv)
	if err != nil {
		return err
	}
	return w.exec("UPDATE doc SET gone = ? WHERE conv = ? AND msg = ? AND gone <> ?", gone, n, msg[:], gone)
}

// deleted reports whether a person has deleted the message and not undone that, whatever
// changed since: the message will be erased.
func deleted(m *record.Mark) bool {
	return slices.ContainsFunc(m.Changes, func(c record.Change) bool { return c.State == record.Deleted && c.Undone.IsZero() })
}

func (w *writing) message(e *resource.Entry) error {
	conv, msg := record.IDOf(e.URI, record.TypeConversation), record.IDOf(e.URI, record.TypeMessage)
	if conv.Zero() || msg.Zero() {
		return nil
	}
	n, err := w.conv(conv)
	if err != nil {
		return err
	}
	var doc int64
	var there bool
	if e.Version > 1 { // a first version cannot be indexed yet
		if doc, there, err = w.number("SELECT id FROM doc WHERE conv = ? AND msg = ?", n, msg[:]); err != nil {
			return err
		}
	}
	if e.Op != resource.OpPut {
		w.erased = w.erased || e.Op == resource.OpErase
		if !there {
			return nil
		}
		return w.forget(doc)
	}
	if e.Body == nil {
		return nil // erased since
	}
	m, err := record.DecodeMessage(e.URI, e.Body)
	if err != nil {
		w.unreadable(e, err)
		return nil
	}
	if there {
		if err := w.forget(doc); err != nil {
			return err
		}
	}
	return w.add(e, m, n)
}

func (w *writing) forget(doc int64) error {
	space, _, err := w.number("SELECT space FROM doc WHERE id = ?", doc)
	if err != nil {
		return err
	}
	if err := w.exec("DELETE FROM "+wordTable(space)+" WHERE rowid = ?", doc); err != nil {
		return err
	}
	return w.exec("DELETE FROM doc WHERE id = ?", doc)
}

// add indexes a message. A message without words is only kept as a neighbour.
func (w *writing) add(e *resource.Entry, m *message.Message, conv int64) error {
	space, err := w.space(string(e.Space))
	if err != nil {
		return err
	}
	at := m.At
	if at.IsZero() || at.Unix() == 0 {
		at = e.At
	}
	doc, err := w.place(rankOf(at))
	if err != nil {
		return err
	}
	inter, text := record.IDOf(e.URI, record.TypeInteraction), search.Read(m)
	err = w.exec("INSERT INTO doc (id, seq, at, space, conv, inter, msg, prev, key, labels, asks, gone) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		doc, int64(e.Seq), at.UnixMicro(), space, conv, inter[:], m.ID[:], m.Prev[:], e.URI.Key(), int64(text.Labels),
		m.Role == message.User && asks(text.Text), e.State == record.StateDeleted)
	if err != nil {
		return err
	}
	w.words, w.stems = w.words[:0], w.stems[:0]
	for t := range search.Tokens(text.Text) {
		w.words = append(append(w.words, t.Text...), ' ')
	}
	if len(w.words) == 0 {
		return nil
	}
	search.StemWords(text.Text, func(stem string) { w.stems = append(append(w.stems, stem...), ' ') })
	facets, err := w.facets(conv, m.Role, text.Tools)
	if err != nil {
		return err
	}
	return w.exec("INSERT INTO "+wordTable(space)+" (rowid, facets, body, stem) VALUES (?, ?, ?, ?)", doc, facets, string(w.words), string(w.stems))
}

// asks reports whether a text ends with a question mark of any script.
func asks(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(strings.TrimSpace(text))
	return strings.ContainsRune("?？؟;", r)
}

// space returns the number of a space, with a table for its words.
func (w *writing) space(name string) (int64, error) {
	n, err := w.named("space", "name", name)
	if err == nil && !w.tables[n] {
		if err = makeWordTable(w.c, n); err == nil {
			w.tables[n] = true
		}
	}
	return n, err
}

func (w *writing) facets(conv int64, role message.Role, tools []string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "c%d r%s", conv, role)
	for _, name := range tools {
		n, err := w.named("tool", "name", name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, " t%d", n)
	}
	return b.String(), nil
}

// rankOf returns the lowest number for messages of a time: milliseconds, with room for 64
// messages in each.
func rankOf(at time.Time) int64 { return max(at.UnixMilli(), 0) << 6 }

// place returns the number for a message of a rank, above all others of that rank. If there
// are more than 64, they use the numbers of the following milliseconds. For a message newer
// than all others, which is the usual case, the table is not read.
func (w *writing) place(rank int64) (int64, error) {
	if w.top < 0 {
		top, _, err := w.number("SELECT COALESCE(max(id), 0) FROM doc")
		if err != nil {
			return 0, err
		}
		w.top = top
	}
	at := rank
	if rank == w.rank {
		at = w.last + 1
	}
	for at <= w.top {
		end := at | 63
		top, _, err := w.number("SELECT COALESCE(max(id), -1) FROM doc WHERE id BETWEEN ? AND ?", at, end)
		if err != nil {
			return 0, err
		}
		if top < end {
			at = max(at, top+1)
			break
		}
		at = end + 1
	}
	w.rank, w.last, w.top = rank, at, max(w.top, at)
	return at, nil
}
