package runtime_test

import (
	"iter"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sqlite3 "zombiezen.com/go/sqlite"

	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/store"
	"steward/internal/turn"
)

// BenchmarkTurn measures a turn with one tool call and a model that answers at
// once: the cost of Steward itself, including its store.
func BenchmarkTurn(b *testing.B) {
	w := newWorld(b)
	acc, err := w.Send(b.Context(), "anna", turn.Input{Content: text("say begin")})
	if err != nil {
		b.Fatal(err)
	}
	next, stop := iter.Pull2(w.Watch(b.Context(), "anna", acc.Conversation, turn.Cursor{Seq: acc.Seq}))
	defer stop()
	answered := func() {
		for {
			f, err, ok := next()
			if err != nil || !ok {
				b.Fatal(err, ok)
			}
			if f.Kind == turn.FrameComplete {
				return
			}
		}
	}
	answered()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Send(b.Context(), "anna", turn.Input{Conversation: acc.Conversation,
			Content: text(`call math.multiply {"a":6,"b":7}`)}); err != nil {
			b.Fatal(err)
		}
		answered()
	}
}

// bareCommit returns a function that commits a row of 500 bytes to a database of its own, with the settings of the store,
// and returns how long that took.
func bareCommit(b *testing.B) func() time.Duration {
	db, err := sqlite3.OpenConn(filepath.Join(b.TempDir(), "bare.db"), sqlite3.OpenReadWrite|sqlite3.OpenCreate)
	ok(b, err)
	b.Cleanup(func() { db.Close() })
	run := func(sql string, body []byte) {
		st, err := db.Prepare(sql)
		ok(b, err)
		if body != nil {
			st.BindBytes(1, body)
		}
		_, err = st.Step()
		ok(b, err)
		ok(b, st.Reset())
	}
	run("PRAGMA journal_mode=WAL", nil)
	run("PRAGMA synchronous=FULL", nil)
	run("CREATE TABLE log (seq INTEGER PRIMARY KEY, body BLOB)", nil)
	body := make([]byte, 500)
	return func() time.Duration {
		began := time.Now()
		run("INSERT INTO log (body) VALUES (?)", body)
		return time.Since(began)
	}
}

// designedOrder makes the planner have an agent designed that calls one tool.
const designedOrder = `call plan.start {"analysis":"a product","plan":"multiply","confidence":1,"purpose":"call math.multiply {\"a\":6,\"b\":7}","selected_tools":["math.multiply"]}`

// designing returns a world that counts its commits.
func designing(t testing.TB) (*world, *atomic.Int64) {
	var commits atomic.Int64
	return made(t, &world{aliases: map[string]llm.Alias{"default": {Models: []string{"test/m"}}, "strong": {Models: []string{"test/m"}}},
		fail: func(store.Batch) error { commits.Add(1); return nil }}).open(), &commits
}

// A turn in which an agent is designed waits for the disk no more often than it has to.
func TestADesignedTurnCommitsSeldom(t *testing.T) {
	w, commits := designing(t)
	w.turn(id.ID{}, "say first") // the store's own first commits
	before := commits.Load()
	acc := w.sent(turn.Input{Agent: kits.PlannerAgent, Content: text(designedOrder)})
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	w.quietened(acc.Conversation)
	if n := commits.Load() - before; n > 10 {
		t.Errorf("%d commits", n)
	}
}

// BenchmarkDesignedTurn measures a turn in which an agent is designed for what is asked, with one tool call of it: the cost
// of Steward itself, including its store, between two models that answer at once. Beside each turn it measures a bare commit.
func BenchmarkDesignedTurn(b *testing.B) {
	w, commits := designing(b)
	cpu := func() float64 { // of the process, in ms
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
	}
	var took, bare []time.Duration
	commit := bareCommit(b)
	before := cpu()
	for b.Loop() {
		began := time.Now()
		acc, err := w.Send(b.Context(), "anna", turn.Input{Agent: kits.PlannerAgent, Content: text(designedOrder)})
		if err != nil {
			b.Fatal(err)
		}
		for f, err := range w.Watch(b.Context(), "anna", acc.Conversation, turn.Cursor{Seq: acc.Seq}) {
			if err != nil {
				b.Fatal(err)
			}
			if f.Kind == turn.FrameComplete {
				break
			}
		}
		took, bare = append(took, time.Since(began)), append(bare, commit())
	}
	b.ReportMetric(float64(commits.Load())/float64(len(took)), "commits/op")
	b.ReportMetric((cpu()-before)/float64(len(took)), "cpu-ms/op")
	for unit, all := range map[string][]time.Duration{"ms": took, "bare-commit-ms": bare} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)*95/100].Microseconds())/1000, "p95-"+unit)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-"+unit)
	}
}
