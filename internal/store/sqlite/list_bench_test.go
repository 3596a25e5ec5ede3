package sqlite

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
)

// A conversation that has been going on for a hundred thousand messages, and
// what is done with it at once when it is opened or goes on.

const longList = 100_000

// longConversation fills a list with n messages of about 1 KB, between which
// stand the other entries of a turn, and returns the list.
func longConversation(b *testing.B, s *Store, n int) (conversation, branch resource.URI) {
	conversation = resource.Root("common.Conversation", id.New().String())
	branch = conversation.Child("common.Branch", "main")
	var all store.Batch
	flush := func() {
		if _, err := s.Commit(b.Context(), ada, all); err != nil {
			b.Fatal(err)
		}
		all.Changes = all.Changes[:0]
	}
	var in resource.URI
	for i := range n {
		if i%4 == 0 {
			in = conversation.ChildID("common.Interaction", id.New())
			all.Changes = append(all.Changes, store.Change{URI: in, Body: benchBody[:100]})
		}
		c := benchMessage(in, i)
		c.Place = &store.Place{List: branch, Pos: int64(i + 1)}
		if all.Changes = append(all.Changes, c); len(all.Changes) > 4000 {
			flush()
		}
	}
	flush()
	return conversation, branch
}

func benchMessage(in resource.URI, i int) store.Change {
	m := &message.Message{ID: id.New(), Role: message.User}
	if i%2 == 1 {
		m.Role, m.Model, m.Stop = message.Assistant, "anthropic/claude", message.StopEnd
	}
	var text strings.Builder
	for text.Len() < 850 {
		fmt.Fprintf(&text, "Sentence %d of message %d says %x. ", text.Len(), i, i*text.Len()*7919)
	}
	m.Blocks = []message.Block{&message.Text{Text: text.String()}}
	return store.Change{URI: in.ChildID("common.Message", m.ID), If: store.If{Absent: true}, Body: message.Append(nil, m),
		Terms: []store.Term{{Name: "kind", Value: "message"}}}
}

// reopened closes the store and opens it again, with nothing in SQLite's caches.
func reopened(b *testing.B, s *Store) *Store {
	close1(b, s)
	return open1(b, s.path)
}

// medianOf runs one b.N times and reports the median and the best besides the
// mean, as other work on the machine disturbs them less.
func medianOf(b *testing.B, before func(), one func() error) {
	b.ReportAllocs()
	var took []time.Duration
	for b.Loop() {
		if before != nil {
			b.StopTimer()
			before()
			b.StartTimer()
		}
		start := time.Now()
		if err := one(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "median-ns")
	b.ReportMetric(float64(took[0]), "best-ns")
}

func BenchmarkLongList(b *testing.B) {
	s := open1(b, filepath.Join(b.TempDir(), "steward.db"))
	conversation, branch := longConversation(b, s, longList)
	s = reopened(b, s)
	term := store.Term{Name: "kind", Value: "message"}
	for _, c := range []struct {
		name  string
		q     store.Query
		items int
	}{
		{"Last800", store.Query{List: branch, From: longList, Reverse: true, Limit: 800}, 800},
		{"From800", store.Query{List: branch, From: longList - 799, Limit: 10000}, 800},
		{"From1500", store.Query{List: branch, From: longList - 1499, Limit: 10000}, 1500},
		{"Middle800", store.Query{List: branch, From: longList / 2, Limit: 800}, 800},
		{"Last1", store.Query{List: branch, Reverse: true, Limit: 1}, 1},
		{"Term1", store.Query{Term: term, Reverse: true, Limit: 1}, 1},
		{"Term10Under", store.Query{Term: term, Under: conversation, Limit: 10}, 10},
	} {
		query := func() error {
			p, err := s.Query(b.Context(), ada, c.q)
			if err == nil && len(p.Items) != c.items {
				err = fmt.Errorf("%d items", len(p.Items))
			}
			return err
		}
		b.Run(c.name+"/warm", func(b *testing.B) { medianOf(b, nil, query) })
		b.Run(c.name+"/cold", func(b *testing.B) { medianOf(b, func() { s.readers.forget(b) }, query) })
	}
}

// forget lets the connections' pages go.
func (p *pool) forget(b *testing.B) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		if err := c.exec("PRAGMA shrink_memory"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppend: the length of a list does not matter to who appends.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{0, longList} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open1(b, filepath.Join(b.TempDir(), "steward.db"))
			conversation, branch := longConversation(b, s, n)
			s = reopened(b, s)
			in := conversation.ChildID("common.Interaction", id.New())
			medianOf(b, nil, func() error {
				c := benchMessage(in, n)
				n++
				c.Place = &store.Place{List: branch, Pos: int64(n)}
				_, err := s.Commit(b.Context(), ada, store.Batch{Changes: []store.Change{c}})
				return err
			})
		})
	}
}

// BenchmarkTerm: a few bearers of a term of which there are a hundred
// thousand, of one space and of a hundred.
func BenchmarkTerm(b *testing.B) {
	s := open1(b, filepath.Join(b.TempDir(), "steward.db"))
	term := store.Term{Name: "kind", Value: "message"}
	for u := range 100 {
		var all store.Batch
		for range longList / 100 {
			all.Changes = append(all.Changes, store.Change{URI: resource.Root("common.Conversation", id.New().String()), Terms: []store.Term{term}})
		}
		if _, err := s.Commit(b.Context(), store.ForUser(fmt.Sprint(u)), all); err != nil {
			b.Fatal(err)
		}
	}
	for name, sc := range map[string]store.Scope{
		"one": store.ForUser("7"), "all": store.ForNode(resource.System),
		"two": {Read: []resource.Space{"user:7", "user:8"}},
	} {
		b.Run(name, func(b *testing.B) {
			medianOf(b, nil, func() error {
				p, err := s.Query(b.Context(), sc, store.Query{Term: term, Reverse: true, Limit: 10})
				if err == nil && len(p.Items) != 10 {
					err = fmt.Errorf("%d items", len(p.Items))
				}
				return err
			})
		})
	}
}

// BenchmarkLogOfType: a page of what a long log has much, little and none of.
func BenchmarkLogOfType(b *testing.B) {
	s := open1(b, filepath.Join(b.TempDir(), "steward.db"))
	conversation, _ := longConversation(b, s, longList)
	commit(b, s, put(conversation, ""), put(conversation.Child("plan.Task", "t"), ""))
	for _, typ := range []string{"common.Message", "plan.Task"} {
		for _, reverse := range []bool{false, true} {
			b.Run(fmt.Sprint(typ, "/", reverse), func(b *testing.B) {
				medianOf(b, nil, func() error {
					_, err := s.Log(b.Context(), ada, store.LogQuery{Type: typ, Under: conversation, Reverse: reverse, Limit: 100})
					return err
				})
			})
		}
	}
}

// BenchmarkPack: a thousand messages are packed, read packed, and erased; the
// times are of all of them.
func BenchmarkPack(b *testing.B) {
	s := open1(b, filepath.Join(b.TempDir(), "steward.db"))
	_, branch := longConversation(b, s, longList)
	each := func(op store.Op) func(b *testing.B) {
		pos := int64(0)
		return func(b *testing.B) {
			var batch store.Batch
			medianOf(b, func() {
				p, err := s.Query(b.Context(), ada, store.Query{List: branch, From: pos + 1, Limit: 1000})
				if err != nil || len(p.Items) != 1000 {
					b.Fatal(len(p.Items), err)
				}
				pos, batch.Changes = p.Items[999].Pos, nil
				for _, it := range p.Items {
					batch.Changes = append(batch.Changes, store.Change{Op: op, URI: it.URI})
				}
			}, func() error {
				_, err := s.Commit(b.Context(), ada, batch)
				return err
			})
		}
	}
	b.Run("Pack1000", each(store.Pack))
	b.Run("Read1000", func(b *testing.B) {
		medianOf(b, nil, func() error {
			_, err := s.Query(b.Context(), ada, store.Query{List: branch, From: 1, Limit: 1000})
			return err
		})
	})
	b.Run("Erase1000", each(store.Erase))
}
