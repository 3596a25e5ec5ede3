//go:build long

package fts_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/store"
	_ "steward/test/seed"
)

// said is a message in the reference model.
type said struct {
	id            id.ID
	user          string
	role          message.Role
	at            time.Time
	words         []string // of Latin letters
	dense         string   // of Chinese ones
	talk          *talk
	deleted, gone bool // gone: erased
}

// machine drives a store with an index, and a list for comparison.
type machine struct {
	*world
	t      *rapid.T
	talks  []*talk
	said   []*said
	erased map[*talk]bool
}

var vocabulary = []string{"sun", "sunny", "sunset", "moon", "star", "stare"}

const characters = "日月星天"

func (m *machine) pick(name string, n int) int { return rapid.IntRange(0, n-1).Draw(m.t, name) }

func (m *machine) begin() {
	user := []string{"ana", "ben", "eve"}[m.pick("user", 3)]
	m.talks = append(m.talks, m.world.talk(user, "t"))
}

func (m *machine) say() {
	c := m.talks[m.pick("talk", len(m.talks))]
	if m.erased[c] {
		return
	}
	var changes []store.Change
	for range 1 + m.pick("messages", 4) {
		changes = append(changes, m.message(c))
	}
	m.commit(c.Owner, changes...)
}

func (m *machine) message(c *talk) store.Change {
	s := &said{user: c.Owner, talk: c, role: []message.Role{message.User, message.Assistant}[m.pick("role", 2)]}
	for range m.pick("words", 5) {
		s.words = append(s.words, vocabulary[m.pick("word", len(vocabulary))])
	}
	for range m.pick("characters", 4) {
		s.dense += string([]rune(characters)[m.pick("character", 4)])
	}
	s.at = time.Date(2030, 1, 1, 0, 0, m.pick("second", 5), 0, time.UTC)
	msg := &message.Message{Role: s.role, Blocks: text(strings.ToUpper(strings.Join(s.words, ", ")) + " — " + s.dense), At: s.at}
	change := c.change(msg)
	s.id = msg.ID
	m.said = append(m.said, s)
	return change
}

// some returns a message that was not erased, or nil.
func (m *machine) some() *said {
	var left []*said
	for _, s := range m.said {
		if !s.gone {
			left = append(left, s)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return left[m.pick("message", len(left))]
}

func (m *machine) toggleMessage() {
	if s := m.some(); s != nil {
		s.deleted = !s.deleted
		change := record.Change{State: record.Deleted, At: s.at}
		if !s.deleted {
			change.Undone = s.at
		}
		s.talk.mark(s.id, change)
	}
}

func (m *machine) eraseMessage() {
	if s := m.some(); s != nil {
		s.gone = true
		m.commit(s.user, store.Change{Op: store.Erase, URI: s.talk.uri(s.id)})
	}
}

func (m *machine) toggleTalk() {
	c := m.talks[m.pick("talk", len(m.talks))]
	if m.erased[c] {
		return
	}
	if c.Deleted.IsZero() {
		c.Deleted = c.now
	} else {
		c.Deleted = time.Time{}
	}
	c.put()
}

func (m *machine) eraseTalk() {
	c := m.talks[m.pick("talk", len(m.talks))]
	if m.erased[c] {
		return
	}
	m.erased[c] = true
	var changes []store.Change
	for _, s := range m.said {
		if s.talk == c && !s.gone {
			s.gone = true
			changes = append(changes, store.Change{Op: store.Erase, URI: c.uri(s.id)})
		}
	}
	m.commit(c.Owner, append(changes, store.Change{Op: store.Erase, URI: record.ConversationURI(c.ID)})...)
}

func (m *machine) reopen() {
	if err := m.index.Close(); err != nil {
		m.t.Fatal(err)
	}
	if rapid.Bool().Draw(m.t, "lost") {
		if err := os.Remove(m.path()); err != nil && !errors.Is(err, os.ErrNotExist) {
			m.t.Fatal(err)
		}
	}
	m.index = m.another(fts.Options{})
}

func (m *machine) catch() {
	if err := m.index.CatchUp(context.Background()); err != nil {
		m.t.Fatal(err)
	}
}

// interrupt interrupts reading the log at some point.
func (m *machine) interrupt() {
	ctx, cancel := context.WithCancel(context.Background())
	ix := fts.New(fts.Options{Path: m.path(), Store: &broken{m.store, cancel, m.pick("calls", 6)}})
	err := ix.CatchUp(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		m.t.Fatal(err)
	}
	cancel()
	if err := ix.Close(); err != nil {
		m.t.Fatal(err)
	}
}

// broken is a store whose reader's context ends after some calls.
type broken struct {
	store.Store
	cancel func()
	left   int
}

func (b *broken) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	if q.Limit > 3 {
		q.Limit = 3
	}
	page, err := b.Store.Log(ctx, sc, q)
	if b.left--; b.left <= 0 {
		b.cancel()
	}
	return page, err
}

// term is a part of a query, and its meaning for scan.
type term struct {
	text string
	is   func(*said) bool
}

func (m *machine) term() term {
	w := vocabulary[m.pick("word", len(vocabulary))]
	switch m.pick("kind", 4) {
	case 0:
		return term{strings.ToTitle(w), func(s *said) bool { return slices.Contains(s.words, w) }}
	case 1:
		w = w[:2]
		return term{w + "*", func(s *said) bool {
			return slices.ContainsFunc(s.words, func(x string) bool { return strings.HasPrefix(x, w) })
		}}
	case 2:
		v := vocabulary[m.pick("next", len(vocabulary))]
		return term{`"` + w + " " + v + `"`, func(s *said) bool {
			return strings.Contains(" "+strings.Join(s.words, " ")+" ", " "+w+" "+v+" ")
		}}
	}
	part := ""
	for range 1 + m.pick("length", 3) {
		part += string([]rune(characters)[m.pick("character", 4)])
	}
	return term{part, func(s *said) bool { return strings.Contains(s.dense, part) }}
}

func (m *machine) search() {
	q := search.Query{Order: search.Newest}
	var text []string
	var tests []func(*said) bool
	for range 1 + m.pick("groups", 2) {
		a := m.term()
		if rapid.Bool().Draw(m.t, "or") {
			b := m.term()
			text, tests = append(text, a.text+" OR "+b.text), append(tests, func(s *said) bool { return a.is(s) || b.is(s) })
			continue
		}
		text, tests = append(text, a.text), append(tests, a.is)
	}
	if m.pick("not", 3) == 0 {
		a := m.term()
		text, tests = append(text, "-"+a.text), append(tests, func(s *said) bool { return !a.is(s) })
	}
	q.Text = strings.Join(text, " ")
	if m.pick("in one", 3) == 0 {
		c := m.talks[m.pick("talk", len(m.talks))]
		q.Conversation, tests = c.ID, append(tests, func(s *said) bool { return s.talk == c })
	}
	if m.pick("of one", 3) == 0 {
		q.Role, tests = message.User, append(tests, func(s *said) bool { return s.role == message.User })
	}
	if m.pick("since", 3) == 0 {
		q.Since = time.Date(2030, 1, 1, 0, 0, m.pick("second", 5), 0, time.UTC)
		tests = append(tests, func(s *said) bool { return !s.at.Before(q.Since) })
	}
	if m.pick("until", 3) == 0 {
		q.Until = time.Date(2030, 1, 1, 0, 0, m.pick("second", 5), 0, time.UTC)
		tests = append(tests, func(s *said) bool { return s.at.Before(q.Until) })
	}
	q.Limit, q.Around = 1+m.pick("limit", 5), m.pick("around", 2)
	sc := store.ForUser([]string{"ana", "ben", "eve"}[m.pick("user", 3)])
	if rapid.Bool().Draw(m.t, "two spaces") {
		sc.Read = append(sc.Read, "user:ana")
	}
	m.compare(sc, q, m.scan(sc, tests))
}

// scan searches all messages without an index.
func (m *machine) scan(sc store.Scope, tests []func(*said) bool) []id.ID {
	var found []*said
	for _, s := range m.said {
		ok := slices.Contains(sc.Read, resource.UserSpace(s.user)) && !s.deleted && !s.gone && s.talk.Deleted.IsZero() && !m.erased[s.talk]
		for _, is := range tests {
			ok = ok && is(s)
		}
		if ok {
			found = append(found, s)
		}
	}
	slices.Reverse(found)
	slices.SortStableFunc(found, func(a, b *said) int { return cmp.Compare(b.at.Unix(), a.at.Unix()) })
	var out []id.ID
	for _, s := range found {
		out = append(out, s.id)
	}
	return out
}

func (m *machine) compare(sc store.Scope, q search.Query, want []id.ID) {
	var got []id.ID
	first := q
	for {
		page, err := m.index.Search(context.Background(), sc, q)
		if err != nil {
			m.t.Fatalf("%+v: %v", q, err)
		}
		for _, h := range page.Hits {
			got = append(got, h.Message)
			if len(h.Spans) == 0 {
				m.t.Fatalf("%q marks nothing in %q", q.Text, h.Text)
			}
			m.visible(sc, slices.Concat(h.Before, h.After))
		}
		if page.Next == "" {
			break
		}
		q.After = page.Next
	}
	if !slices.Equal(got, want) {
		m.t.Fatalf("%+v in %v: %d found, %d are there\n%v\n%v", first, sc.Read, len(got), len(want), got, want)
	}
}

// visible checks that neighbours are in the scope and not deleted.
func (m *machine) visible(sc store.Scope, lines []search.Line) {
	for _, l := range lines {
		i := slices.IndexFunc(m.said, func(s *said) bool { return s.id == l.Message })
		if s := m.said[i]; s.deleted || s.gone || !sc.Sees(resource.UserSpace(s.user)) {
			m.t.Fatalf("a neighbour of %s: %+v", s.user, s)
		}
	}
}

// The index finds exactly what a scan of all messages finds, whatever happens to the
// messages, the file and the readers of the log.
func TestIndexAgainstAScan(t *testing.T) {
	t.Parallel()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), fmt.Sprint(n))
		if err != nil {
			rt.Fatal(err)
		}
		n++
		m := &machine{world: openWorld(rt, dir), t: rt, erased: map[*talk]bool{}}
		defer m.close()
		m.begin()
		m.begin()
		steps := []func(){m.say, m.say, m.say, m.say, m.search, m.search, m.begin, m.toggleMessage, m.eraseMessage,
			m.toggleTalk, m.eraseTalk, m.reopen, m.catch, m.interrupt}
		for range 25 {
			steps[m.pick("step", len(steps))]()
		}
		for range 5 {
			m.search()
		}
	})
}
