package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/test/leak"
	_ "steward/test/seed"
)

func TestMain(m *testing.M) {
	inside() // in a process that a test has started, it does not return
	if n := runtime.NumGoroutine(); n > 1 {
		buf := make([]byte, 1<<20)
		if all := string(buf[:runtime.Stack(buf, true)]); strings.Contains(all, "nats") {
			fmt.Fprintln(os.Stderr, "importing the package starts goroutines:", all)
			os.Exit(1)
		}
	}
	leak.Main(m)
}

// long is a silence that no test reaches, however slow the machine is.
const long = 10 * time.Minute

// world is a store that nodes share, and a NATS server.
type world struct {
	testing.TB
	st   *sqlite.Store
	nats *server.Server
}

func newWorld(t testing.TB) *world {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	s, err := server.NewServer(&server.Options{ServerName: "test", Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	return &world{t, st, s}
}

// node opens a node that works.
func (w *world) node(name string, more ...func(*Options)) (*Cluster, *worker) {
	w.Helper()
	o := Options{Store: w.st, Name: name, Works: true, Silence: long, IdleFor: long, Servers: w.nats.ClientURL()}
	for _, f := range more {
		f(&o)
	}
	c, err := Open(w.Context(), o)
	if err != nil {
		w.Fatal(err)
	}
	wk := &worker{name: name, pieces: map[Piece]*state{}}
	w.Cleanup(func() {
		wk.letLeave()
		if err := c.Close(context.WithoutCancel(w.Context())); err != nil {
			w.Error(err)
		}
	})
	c.Start(wk)
	return c, wk
}

// state is what a worker knows about a piece.
type state struct {
	active         bool
	takes, crashes int
	leaves         int
}

// worker is a double of the engines of a node.
type worker struct {
	name  string
	mu    sync.Mutex
	idle  bool
	stuck chan struct{} // Leave waits until it is closed; nil: it does not wait
	fails int           // so many times Take fails
	take  func(p Piece)
	leave func(p Piece)

	pieces map[Piece]*state
	faults []string
}

func (w *worker) of(p Piece) *state {
	if w.pieces[p] == nil {
		w.pieces[p] = &state{}
	}
	return w.pieces[p]
}

func (w *worker) get(p Piece) state {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.of(p)
}

func (w *worker) Take(_ context.Context, p Piece, crashed bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails > 0 {
		w.fails--
		return fmt.Errorf("not now")
	}
	s := w.of(p)
	if s.active {
		w.faults = append(w.faults, fmt.Sprintf("%s takes %s twice", w.name, p))
	}
	s.active = true
	s.takes++
	if crashed {
		s.crashes++
	}
	if w.take != nil {
		w.take(p)
	}
	return nil
}

func (w *worker) Leave(p Piece) {
	w.mu.Lock()
	stuck := w.stuck
	w.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.of(p)
	if s.active = false; w.leave != nil {
		w.leave(p)
	}
	s.leaves++
}

func (w *worker) Idle(Piece) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.idle
}

func (w *worker) setIdle(idle bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = idle
}

// hangInLeave has Leave wait until letLeave is called.
func (w *worker) hangInLeave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stuck = make(chan struct{})
}

func (w *worker) letLeave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stuck != nil {
		close(w.stuck)
		w.stuck = nil
	}
}

// until waits until something is so, or the time of all tests is over.
func (w *world) until(what string, is func() bool) {
	w.Helper()
	for told := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(told) > time.Minute {
			w.Log("still waiting:", what)
			told = time.Now()
		}
	}
}

func (w *world) reach(c *Cluster, p Piece) (string, bool) {
	w.Helper()
	node, here, err := c.Reach(w.Context(), p)
	if err != nil {
		w.Fatal(err)
	}
	return node, here
}

func (w *world) put(c *Cluster, space resource.Space, name string) error {
	w.Helper()
	rec, err := c.Store().Commit(w.Context(), store.ForNode(space), store.Batch{Changes: []store.Change{{URI: resource.Root("test.Thing", name), Body: []byte("{}")}}})
	if err == nil && (len(rec.Versions) != 1 || rec.Versions[0] == 0) {
		w.Errorf("the receipt has the versions %v", rec.Versions)
	}
	return err
}

func of(user string) Piece { return Piece{Space: resource.UserSpace(user)} }

var ada = of("ada")

// state returns the state of a record.
func (w *world) state(p Piece) (string, record) {
	w.Helper()
	at, _ := p.URI()
	r, err := w.st.Get(w.Context(), store.ForNode(""), at)
	if err != nil {
		w.Fatal(err)
	}
	e, err := decode(at, r.Version, r.Seq, r.State, r.Body)
	if err != nil {
		w.Fatal(err)
	}
	return e.State, e.record
}
