package fts

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
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
	cuts   map[id.ID]conv   // conversations whose branches must be examined

	ends   map[int64]*end // by space
	words  []byte
	stems  []byte
	hashes []byte
	seen   map[uint32]bool // the stems of a message
	grown  map[int64]growth
}

// conv is a conversation: its number within its space.
type conv struct{ space, id int64 }

// end is where the messages of a space end.
type end struct {
	rank, last int64 // of the message that was added last: the rank of its time, and its number
	top        int64 // the highest number of all messages
}

func newBatch(ctx context.Context, c *sqlite.Conn, st store.Store, log *slog.Logger) *writing {
	return &writing{ctx: ctx, c: c, store: st, log: log, nums: map[string]int64{}, cuts: map[id.ID]conv{},
		ends: map[int64]*end{}, seen: map[uint32]bool{}, grown: map[int64]growth{}}
}

func (w *writing) exec(query string, args ...any) error { return exec(w.c, query, args...) }

// in runs a statement on a table of a space, whose number takes the place of %d.
func (w *writing) in(space int64, query string, args ...any) error {
	return exec(w.c, fmt.Sprintf(query, space), args...)
}

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
	if uid.Zero() {
		return nil
	}
	n, err := w.conv(e.Space, uid)
	switch {
	case err != nil:
		return err
	case e.Op == resource.OpErase:
		return w.eraseConversation(uid, n)
	case e.Op == resource.OpDelete:
		return w.in(n.space, "UPDATE conv_%d SET gone = 1 WHERE id = ?", n.id)
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
	gone := !c.Deleted.IsZero() || e.State == record.StateDeleted || !c.Asked.Zero()
	return w.in(n.space, "UPDATE conv_%d SET gone = ?, agent = ? WHERE id = ?", gone, c.Agent, n.id)
}

// eraseConversation removes a conversation, unless only earlier versions of its record
// were erased and it still exists.
func (w *writing) eraseConversation(uid id.ID, n conv) error {
	_, err := w.store.Get(w.ctx, nodeScope(), record.ConversationURI(uid))
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	w.erased = true
	if err := w.in(n.space, "DELETE FROM fts_%[1]d WHERE rowid IN (SELECT id FROM doc_%[1]d WHERE conv = ?)", n.id); err != nil {
		return err
	}
	if err := w.in(n.space, "DELETE FROM doc_%d WHERE conv = ?", n.id); err != nil {
		return err
	}
	return w.in(n.space, "UPDATE conv_%d SET gone = 1 WHERE id = ?", n.id)
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

func (w *writing) conv(space resource.Space, uid id.ID) (conv, error) {
	sp, err := w.space(string(space))
	if err != nil {
		return conv{}, err
	}
	n, err := w.named(fmt.Sprintf("conv_%d", sp), "uid", uid[:])
	return conv{sp, n}, err
}

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
	n, err := w.conv(e.Space, conv)
	if err != nil {
		return err
	}
	return w.in(n.space, "UPDATE doc_%d SET gone = ? WHERE conv = ? AND msg = ? AND gone <> ?", gone, n.id, msg[:], gone)
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
	n, err := w.conv(e.Space, conv)
	if err != nil {
		return err
	}
	var doc int64
	var there bool
	if e.Version > 1 { // a first version cannot be indexed yet
		if doc, there, err = w.number(fmt.Sprintf("SELECT id FROM doc_%d WHERE conv = ? AND msg = ?", n.space), n.id, msg[:]); err != nil {
			return err
		}
	}
	if e.Op != resource.OpPut {
		w.erased = w.erased || e.Op == resource.OpErase
		if !there {
			return nil
		}
		return w.forget(n.space, doc)
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
		if err := w.forget(n.space, doc); err != nil {
			return err
		}
	}
	return w.add(e, m, n)
}

func (w *writing) forget(space, doc int64) error {
	if err := w.in(space, "DELETE FROM fts_%d WHERE rowid = ?", doc); err != nil {
		return err
	}
	return w.in(space, "DELETE FROM doc_%d WHERE id = ?", doc)
}

// add indexes a message. A message without words is only kept as a neighbour.
func (w *writing) add(e *resource.Entry, m *message.Message, n conv) error {
	at := m.At
	if at.IsZero() || at.Unix() == 0 {
		at = e.At
	}
	doc, err := w.place(n.space, rankOf(at))
	if err != nil {
		return err
	}
	inter, text := record.IDOf(e.URI, record.TypeInteraction), search.Read(m)
	w.words, w.stems, w.hashes = w.words[:0], w.stems[:0], w.hashes[:0]
	clear(w.seen)
	size := 0
	for t := range search.Tokens(text.Text) {
		w.words = append(append(w.words, t.Text...), ' ')
		size++
	}
	search.StemWords(text.Text, func(stem string) {
		w.stems = append(append(w.stems, stem...), ' ')
		if h := hashOf(stem); !w.seen[h] && len(w.seen) < maxHashes {
			w.seen[h] = true
			w.hashes = binary.LittleEndian.AppendUint32(w.hashes, h)
		}
	})
	err = w.in(n.space, "INSERT INTO doc_%d (id, seq, at, conv, inter, msg, prev, key, labels, size, asks, gone, stems) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		doc, int64(e.Seq), at.UnixMicro(), n.id, inter[:], m.ID[:], m.Prev[:], e.URI.Key(), int64(text.Labels), size,
		m.Role == message.User && asks(text.Text), e.State == record.StateDeleted, w.hashes)
	if err != nil || size == 0 {
		return err
	}
	sum := w.grown[n.space]
	w.grown[n.space] = growth{sum.docs + 1, sum.size + size}
	facets, err := w.facets(n, m.Role, text.Tools)
	if err != nil {
		return err
	}
	return w.in(n.space, "INSERT INTO fts_%d (rowid, facets, body, stem) VALUES (?, ?, ?, ?)", doc, facets, string(w.words), string(w.stems))
}

// maxHashes bounds the stems of a message whose hashes are kept.
const maxHashes = 4096

// hashOf returns the hash of a stem, as in the column stems.
func hashOf(stem string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(stem)) // a hash's Write does not fail
	return h.Sum32()
}

// asks reports whether a text ends with a question mark of any script.
func asks(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(strings.TrimSpace(text))
	return strings.ContainsRune("?？؟;", r)
}

// growth is what was added to a space: docs with words, and their words. What is erased is
// not subtracted: these are statistics.
type growth struct{ docs, size int }

// count adds what was added to the statistics.
func (w *writing) count() error {
	for space, g := range w.grown {
		if err := w.exec("UPDATE space SET docs = docs + ?, size = size + ? WHERE id = ?", g.docs, g.size, space); err != nil {
			return err
		}
	}
	return nil
}

// space returns the number of a space. A new one gets its tables.
func (w *writing) space(name string) (int64, error) {
	key := "space " + name
	if n, ok := w.nums[key]; ok {
		return n, nil
	}
	n, found, err := w.number("SELECT id FROM space WHERE name = ?", name)
	if err == nil && !found {
		if err = w.exec("INSERT INTO space (name) VALUES (?)", name); err == nil {
			n = w.c.LastInsertRowID()
			err = makeTables(w.c, n)
		}
	}
	if err == nil {
		w.nums[key] = n
	}
	return n, err
}

func (w *writing) facets(n conv, role message.Role, tools []string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "c%d r%s", n.id, role)
	for _, name := range tools {
		t, err := w.named(fmt.Sprintf("tool_%d", n.space), "name", name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, " t%d", t)
	}
	return b.String(), nil
}

// rankOf returns the lowest number for messages of a time: milliseconds, with room for 64
// messages in each.
func rankOf(at time.Time) int64 { return max(at.UnixMilli(), 0) << 6 }

// place returns the number for a message of a rank, above all others of that rank. If there
// are more than 64, they use the numbers of the following milliseconds. For a message newer
// than all others, which is the usual case, the table is not read.
func (w *writing) place(space, rank int64) (int64, error) {
	e := w.ends[space]
	if e == nil {
		top, _, err := w.number(fmt.Sprintf("SELECT COALESCE(max(id), 0) FROM doc_%d", space))
		if err != nil {
			return 0, err
		}
		e = &end{top: top}
		w.ends[space] = e
	}
	at := rank
	if rank == e.rank {
		at = e.last + 1
	}
	for at <= e.top {
		last := at | 63
		top, _, err := w.number(fmt.Sprintf("SELECT COALESCE(max(id), -1) FROM doc_%d WHERE id BETWEEN ? AND ?", space), at, last)
		if err != nil {
			return 0, err
		}
		if top < last {
			at = max(at, top+1)
			break
		}
		at = last + 1
	}
	e.rank, e.last, e.top = rank, at, max(e.top, at)
	return at, nil
}
