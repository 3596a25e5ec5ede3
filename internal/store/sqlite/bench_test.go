package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver of the bare loop

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// A turn of a chat with one tool call is eight entries in four batches: the
// person's message with its interaction and run; the call; its result; the
// answer. Beside it stands the bare loop: the same library, settings and group
// commit, but one plain INSERT of the message per batch, through database/sql.

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
			perTurn(b, writers, 8, func(w int) func(n int64) error {
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

func BenchmarkBare(b *testing.B) {
	for _, writers := range []int{1, 32} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			l := newBareLoop(b)
			perTurn(b, writers, 4, func(w int) func(n int64) error {
				conversation := id.New()
				return func(n int64) error {
					for i := range int64(4) {
						message := id.New()
						if err := l.insert(conversation[:], 4*n+i, message[:], benchBody); err != nil {
							return err
						}
					}
					return nil
				}
			})
		})
	}
}

// perTurn spreads b.N turns over the writers and reports CPU time and
// allocations by turn and entry.
func perTurn(b *testing.B, writers, entries int, start func(w int) func(n int64) error) {
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
	b.ReportMetric(used/float64(b.N*entries), "cpu-ns/entry")
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

// bareLoop is a table, and a goroutine that inserts into it in groups.
type bareLoop struct {
	jobs chan *bareJob
}

type bareJob struct {
	args [4]any
	done chan error
}

func newBareLoop(b *testing.B) *bareLoop {
	path := filepath.Join(b.TempDir(), "bare.db")
	pragmas := []string{"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)",
		fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages), "temp_store(MEMORY)", "cache_size(-4096)"}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma="+strings.Join(pragmas, "&_pragma="))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE message (conversation BLOB, pos INTEGER, id BLOB, body BLOB)"); err != nil {
		b.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	insert, err := conn.PrepareContext(context.Background(), "INSERT INTO message VALUES (?, ?, ?, ?)")
	if err != nil {
		b.Fatal(err)
	}
	l := &bareLoop{jobs: make(chan *bareJob, groupBatches)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.loop(conn, insert)
	}()
	b.Cleanup(func() {
		close(l.jobs)
		<-ended
		insert.Close()
		conn.Close()
		db.Close()
	})
	return l
}

func (l *bareLoop) insert(args ...any) error {
	j := &bareJob{args: [4]any(args), done: make(chan error, 1)}
	l.jobs <- j
	return <-j.done
}

func (l *bareLoop) loop(conn *sql.Conn, insert *sql.Stmt) {
	for first := range l.jobs {
		group := []*bareJob{first}
	drain:
		for len(group) < groupBatches {
			select {
			case j, ok := <-l.jobs:
				if !ok {
					break drain
				}
				group = append(group, j)
			default:
				break drain
			}
		}
		err := l.commit(conn, insert, group)
		for _, j := range group {
			j.done <- err
		}
	}
}

func (l *bareLoop) commit(conn *sql.Conn, insert *sql.Stmt, group []*bareJob) error {
	tx, err := conn.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	in := tx.Stmt(insert)
	for _, j := range group {
		if _, err := in.Exec(j.args[:]...); err != nil {
			return err
		}
	}
	return tx.Commit()
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
