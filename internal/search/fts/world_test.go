package fts_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/test/killed"
	"steward/test/leak"
)

func TestMain(m *testing.M) {
	killed.Inside(catchUpKilled)
	leak.Main(m)
}

// fatal is the part of testing.TB that a world needs.
type fatal interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// world is a store with conversations, and an index over it.
type world struct {
	t     fatal
	dir   string
	store *sqlite.Store
	index *fts.Index
	log   strings.Builder
	now   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := openWorld(t, t.TempDir())
	t.Cleanup(w.close)
	return w
}

func openWorld(t fatal, dir string) *world {
	t.Helper()
	w := &world{t: t, dir: dir, now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	st, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(dir, "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	w.store = st
	w.index = w.another(fts.Options{})
	return w
}

func (w *world) another(o fts.Options) *fts.Index {
	o.Path, o.Store = w.path(), w.store
	o.Log = slog.New(slog.NewTextHandler(&w.log, nil))
	return fts.New(o)
}

func (w *world) path() string { return filepath.Join(w.dir, "search.db") }

func (w *world) close() {
	if err := w.index.Close(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) commit(user string, changes ...store.Change) store.Receipt {
	w.t.Helper()
	rec, err := w.store.Commit(context.Background(), store.ForUser(user), store.Batch{Changes: changes})
	if err != nil {
		w.t.Fatal(err)
	}
	return rec
}

// talk is a conversation of a user.
type talk struct {
	*world
	record.Conversation
	inter id.ID
	head  id.ID
	pos   int64
}

func (w *world) talk(user, title string) *talk {
	c := &talk{world: w, Conversation: record.Conversation{ID: id.New(), Owner: user, Title: title, Created: w.now, Updated: w.now}, inter: id.New()}
	c.put()
	return c
}

// put writes the conversation's record.
func (c *talk) put() {
	c.t.Helper()
	c.commit(c.Owner, store.Change{URI: record.ConversationURI(c.ID), Body: record.Encode(&c.Conversation)})
}

func (c *talk) uri(msg id.ID) resource.URI {
	return record.InteractionURI(c.ID, c.inter).ChildID(record.TypeMessage, msg)
}

// change returns the change that adds a message. A message without a time gets one a
// second after the last.
func (c *talk) change(m *message.Message) store.Change {
	if m.ID.Zero() {
		m.ID = id.New()
	}
	if m.Prev.Zero() {
		m.Prev = c.head
	}
	if m.At.IsZero() {
		c.now = c.now.Add(time.Second)
		m.At = c.now
	}
	c.head = m.ID
	c.pos++
	stored := *m
	stored.ID = id.ID{}
	return store.Change{URI: c.uri(m.ID), Body: message.Append(nil, &stored),
		Place: &store.Place{List: record.BranchURI(c.ID, record.MainBranch), Pos: c.pos}}
}

func (c *talk) add(m *message.Message) id.ID {
	c.t.Helper()
	c.commit(c.Owner, c.change(m))
	return m.ID
}

func text(s string) []message.Block { return []message.Block{&message.Text{Text: s}} }

// say adds a message of a user.
func (c *talk) say(s string) id.ID {
	c.t.Helper()
	return c.add(&message.Message{Role: message.User, Blocks: text(s)})
}

func (c *talk) answer(s string) id.ID {
	c.t.Helper()
	return c.add(&message.Message{Role: message.Assistant, Blocks: text(s), Final: true, Stop: message.StopEnd})
}

// mark writes a message's mark.
func (c *talk) mark(msg id.ID, changes ...record.Change) {
	c.t.Helper()
	c.commit(c.Owner, store.Change{URI: record.MarkURI(c.ID, msg), Body: record.Encode(record.Mark{Branch: record.MainBranch, Changes: changes})})
}

func (w *world) search(user string, q search.Query) search.Page {
	w.t.Helper()
	if q.Order == "" {
		q.Order = search.Newest
	}
	page, err := w.index.Search(context.Background(), store.ForUser(user), q)
	if err != nil {
		w.t.Fatalf("%+v: %v", q, err)
	}
	return page
}

// find returns the snippets that a search finds, with the matches in brackets.
func (w *world) find(user string, q search.Query) []string {
	w.t.Helper()
	var out []string
	for _, h := range w.search(user, q).Hits {
		out = append(out, search.Marked(h.Text, h.Spans, "[", "]"))
	}
	return out
}

// expect checks what a search finds, one line each.
func (w *world) expect(user, query string, want ...string) {
	w.t.Helper()
	if got := w.find(user, search.Query{Text: query}); strings.Join(got, "\n") != strings.Join(want, "\n") {
		w.t.Fatalf("%s finds with %q:\n%s\nnot\n%s", user, query, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
