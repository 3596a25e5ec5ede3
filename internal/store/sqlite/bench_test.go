package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// A turn of a chat with one tool call is eight entries in four batches: the
// person's message with its interaction and run; the call; its result; the
// answer.

const turnsPerConversation = 100

var benchBody = bytes.Repeat([]byte("0123456789"), 30)

// turn returns the batches of one turn. pos is the next position in the list.
func turn(conversation, branch resource.URI, pos int64) []store.Batch {
	request := id.New()
	in := conversation.ChildID("common.Interaction", request)
	run := in.ChildID("agent.Run", id.New())
	message := func() store.Change {
		pos++
		return store.Change{URI: in.ChildID("common.Message", id.New()), If: store.If{Absent: true}, Body: benchBody,
			Place: &store.Place{List: branch, Pos: pos}}
	}
	running := func(state string) store.Change { return store.Change{URI: run, State: state, Body: benchBody[:200]} }
	return []store.Batch{
		{Request: request, Changes: []store.Change{{URI: in, Body: benchBody[:100]}, message(), running("running")}},
		{Request: request, Changes: []store.Change{message(), running("running")}},
		{Request: request, Changes: []store.Change{message()}},
		{Request: request, Changes: []store.Change{message(), running("")}},
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 32} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "steward.db")
			s := open1(b, path)
			perTurn(b, writers, func(w int) func(n int64) error {
				sc := store.ForUser("ada")
				var conversation, branch resource.URI
				return func(n int64) error {
					if n%turnsPerConversation == 0 {
						conversation = resource.Root("common.Conversation", id.New().String())
						branch = conversation.Child("common.Branch", "main")
					}
					for _, batch := range turn(conversation, branch, 4*(n%turnsPerConversation)) {
						if _, err := s.Commit(b.Context(), sc, batch); err != nil {
							return err
						}
					}
					return nil
				}
			})
			reportSize(b, s, path)
		})
	}
}

// perTurn spreads b.N turns over the writers and reports CPU time and
// allocations by turn.
func perTurn(b *testing.B, writers int, start func(w int) func(n int64) error) {
	b.ReportAllocs()
	before := cpu()
	b.ResetTimer()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			one := start(w)
			for n := int64(0); int(n)*writers+w < b.N; n++ {
				if err := one(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	used := float64(cpu() - before)
	b.ReportMetric(used/float64(b.N), "cpu-ns/turn")
}

func cpu() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// reportSize reports bytes on disk by entry, beyond its key and body.
func reportSize(b *testing.B, s *Store, path string) {
	if err := s.writer.c.exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		b.Fatal(err)
	}
	c, err := s.readers.get(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer s.readers.put(c)
	entries, err := c.number("SELECT count(*) FROM log")
	if err != nil {
		b.Fatal(err)
	}
	content, err := c.number("SELECT sum(length(key) + length(body)) FROM log")
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(f.Size()-content)/float64(entries), "disk-B/entry")
}

// BenchmarkRead: one resource; the last 100 messages of one of 100 conversations.
func BenchmarkRead(b *testing.B) {
	s := open1(b, filepath.Join(b.TempDir(), "steward.db"))
	sc := store.ForUser("ada")
	var branch resource.URI
	for range 100 {
		conversation := resource.Root("common.Conversation", id.New().String())
		branch = conversation.Child("common.Branch", "main")
		var all store.Batch
		for n := range int64(50) {
			for _, one := range turn(conversation, branch, 4*n) {
				all.Changes = append(all.Changes, one.Changes...)
			}
		}
		if _, err := s.Commit(b.Context(), sc, all); err != nil {
			b.Fatal(err)
		}
	}
	page := store.Query{List: branch, Reverse: true}
	last, err := s.Query(b.Context(), sc, page)
	if err != nil || len(last.Items) != 100 {
		b.Fatal(len(last.Items), err)
	}
	b.Run("Get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Get(b.Context(), sc, last.Items[0].URI); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("List100", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Query(b.Context(), sc, page); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPack: a thousand messages are packed, read packed, and erased; the
// times are of all of them.
func BenchmarkPack(b *testing.B) {
	s := open1(b, filepath.Join(b.TempDir(), "steward.db"))
	sc := store.ForUser("ada")
	for b.Loop() {
		conversation := resource.Root("common.Conversation", id.New().String())
		branch := conversation.Child("common.Branch", "main")
		var all store.Batch
		for n := range int64(250) {
			for _, one := range turn(conversation, branch, 4*n) {
				all.Changes = append(all.Changes, one.Changes...)
			}
		}
		if _, err := s.Commit(b.Context(), sc, all); err != nil {
			b.Fatal(err)
		}
		for _, op := range []store.Op{store.Pack, store.Erase} {
			began := time.Now()
			page, err := s.Query(b.Context(), sc, store.Query{List: branch, Limit: 1000})
			if err != nil || len(page.Items) != 1000 {
				b.Fatal(len(page.Items), err)
			}
			b.ReportMetric(float64(time.Since(began)), "read-ns")
			all.Changes = nil
			for _, it := range page.Items {
				all.Changes = append(all.Changes, store.Change{Op: op, URI: it.URI})
			}
			began = time.Now()
			if _, err := s.Commit(b.Context(), sc, all); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(began)), map[store.Op]string{store.Pack: "pack-ns", store.Erase: "erase-ns"}[op])
		}
	}
}
