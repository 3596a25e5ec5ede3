package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

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

func BenchmarkLongList(b *testing.B) {
	s := open1(b, filepath.Join(b.TempDir(), "steward.db"))
	conversation, branch := longConversation(b, s, longList)
	s = reopened(b, s)
	for _, c := range []struct {
		name  string
		q     store.Query
		items int
	}{
		{"Last1000", store.Query{List: branch, From: longList, Reverse: true, Limit: 1000}, 1000},
		{"From1000", store.Query{List: branch, From: longList - 999, Limit: 10000}, 1000},
		{"Middle1000", store.Query{List: branch, From: longList / 2, Limit: 1000}, 1000},
		{"NoBody1000", store.Query{List: branch, Reverse: true, Limit: 1000, NoBody: true}, 1000},
		{"Last1", store.Query{List: branch, Reverse: true, Limit: 1}, 1},
		{"Term1", store.Query{Term: store.Term{Name: "kind", Value: "message"}, Reverse: true, Limit: 1}, 1},
		{"Term10Under", store.Query{Term: store.Term{Name: "kind", Value: "message"}, Under: conversation, Limit: 10}, 10},
	} {
		for _, cold := range []bool{false, true} {
			name := c.name
			if cold {
				name += "/cold"
			} else {
				name += "/warm"
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				used := int64(0)
				for b.Loop() {
					if cold {
						b.StopTimer()
						s.readers.forget(b)
						b.StartTimer()
					}
					before := cpu()
					p, err := s.Query(b.Context(), ada, c.q)
					if err != nil || len(p.Items) != c.items {
						b.Fatal(len(p.Items), err)
					}
					used += cpu() - before
				}
				b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
			})
		}
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
			b.ReportAllocs()
			for b.Loop() {
				c := benchMessage(in, n)
				n++
				c.Place = &store.Place{List: branch, Pos: int64(n)}
				if _, err := s.Commit(b.Context(), ada, store.Batch{Changes: []store.Change{c}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
