//go:build long

// Package leases lets several worker processes do work that one store holds,
// stops and kills them, and checks from outside that each piece of work ends
// once, that nothing happens twice, and that nobody writes who has lost a lease.
package leases

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/lease"
	"steward/internal/store/sqlite"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(envSocket); socket != "" {
		fmt.Fprintln(os.Stderr, play(socket, os.Getenv(envName)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func isSuspend(err error) bool { return errors.Is(err, request.ErrSuspend) }

// Effect is one effect on the outside.
type Effect struct {
	Key, Task string
	Number    uint64
	Ask       bool // it may have happened already
}

// Outside is where effects happen. It does not recognize an effect that it had
// before, but can be asked, and refuses who comes with an older number.
type Outside struct {
	mu     sync.Mutex
	counts map[string]int
	newest map[string]uint64 // numbers, by task
	stale  int
}

// Do has an effect.
func (o *Outside) Do(in *Effect, refused *bool) error {
	time.Sleep(rand.N(5 * time.Millisecond))
	o.mu.Lock()
	defer o.mu.Unlock()
	if *refused = in.Number < o.newest[in.Task]; *refused {
		o.stale++
		return nil
	}
	o.newest[in.Task] = in.Number
	if !in.Ask || o.counts[in.Key] == 0 {
		o.counts[in.Key]++
	}
	return nil
}

// crew is the worker processes.
type crew struct {
	t       *testing.T
	socket  string
	all     []*exec.Cmd
	names   int
	struck  map[string]time.Time // when a worker was killed or stopped, by name
	stopped map[int]time.Time    // until when a worker stands still, by place
	said    bytes.Buffer
}

func (c *crew) start(place int) {
	c.t.Helper()
	c.names++
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envSocket+"="+c.socket, envName+"="+c.name(c.names))
	cmd.Stderr = &c.said
	cmd.Args = append(cmd.Args, c.name(c.names))
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.all[place] = cmd
}

func (c *crew) name(n int) string { return "worker-" + strconv.Itoa(n) }

func (c *crew) signal(place int, s syscall.Signal) {
	if s != syscall.SIGCONT {
		c.struck[c.all[place].Args[1]] = time.Now()
	}
	c.all[place].Process.Signal(s)
}

// TestThreeProcesses: three processes work on tasks, are killed, and are stopped for longer than
// their leases. LEASES_STRIKES sets how often, LEASES_SEED repeats a run's choices.
func TestThreeProcesses(t *testing.T) {
	strikes, seed := number("LEASES_STRIKES", 10), uint64(number("LEASES_SEED", int(time.Now().UnixNano()%1_000_000)))
	t.Logf("LEASES_SEED=%d, %d strikes", seed, strikes)
	r := rand.New(rand.NewPCG(seed, 0))
	db := open(t)
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	out := &Outside{counts: map[string]int{}, newest: map[string]uint64{}}
	if err := serve(db, out, ln); err != nil {
		t.Fatal(err)
	}
	q := lease.New(lease.Options{Store: db, Holder: "nobody"})
	add := func(name string) {
		_, err := db.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{{URI: task(name), Body: encoded(progress{})}, q.Add(lease.At(task(name)))}})
		if err != nil {
			t.Fatal(err)
		}
	}
	c := &crew{t: t, socket: socket, all: make([]*exec.Cmd, 3), struck: map[string]time.Time{}, stopped: map[int]time.Time{}}
	for i := range c.all {
		c.start(i)
		defer func() { c.all[i].Process.Kill(); c.all[i].Wait() }()
	}
	tasks := 0
	for last := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		for i := range c.all {
			if until, ok := c.stopped[i]; ok && time.Now().After(until) {
				delete(c.stopped, i)
				c.signal(i, syscall.SIGCONT)
			}
			var ws syscall.WaitStatus
			if pid, _ := syscall.Wait4(c.all[i].Process.Pid, &ws, syscall.WNOHANG, nil); pid != 0 {
				c.start(i)
			}
		}
		open, holders := c.count(db)
		switch {
		case strikes > 0 && open < 4: // there is always something to do
			tasks++
			add(fmt.Sprint("task-", tasks))
		case strikes > 0 && len(holders) > 0 && time.Since(last) > time.Duration(50+r.IntN(100))*time.Millisecond:
			i := holders[r.IntN(len(holders))]
			strikes, last = strikes-1, time.Now()
			if r.IntN(2) == 0 {
				c.signal(i, syscall.SIGKILL)
			} else {
				c.signal(i, syscall.SIGSTOP)
				c.stopped[i] = time.Now().Add(promise * 2)
			}
		case strikes == 0 && open == 0 && len(c.stopped) == 0:
			c.check(db, out, tasks)
			return
		case time.Since(last) > time.Minute:
			t.Fatalf("%d tasks are still open; the workers said:\n%s", open, c.said.String())
		}
	}
}

// count returns how much work is not over, and the places of the workers that
// hold some and do not stand still.
func (c *crew) count(db store.Store) (open int, holders []int) {
	for _, state := range []string{lease.Waiting, lease.Held} {
		for it, err := range store.Items(c.t.Context(), db, ada, store.Query{Type: lease.TypeWork, State: state}) {
			if err != nil {
				c.t.Fatal(err)
			}
			open++
			var h held
			if err := json.Unmarshal(it.Body, &h); err != nil {
				c.t.Fatal(err)
			}
			for i, cmd := range c.all {
				if _, still := c.stopped[i]; state == lease.Held && cmd.Args[1] == h.Holder && !still {
					holders = append(holders, i)
				}
			}
		}
	}
	return open, holders
}

// held is what this test reads of a lease.
type held struct{ Holder string }

// check goes through the log: it has each write in the order in which the store
// took it.
func (c *crew) check(db store.Store, out *Outside, tasks int) {
	version, owner, ended := map[resource.URI]uint64{}, map[resource.URI]held{}, map[resource.URI]int{}
	writes, taken := 0, 0
	var slowest time.Duration
	for e, err := range store.Entries(c.t.Context(), db, ada, store.LogQuery{Limit: store.MaxLimit}) {
		if err != nil {
			c.t.Fatal(err)
		}
		switch e.URI.Type() {
		case lease.TypeWork:
			var h held
			if err := json.Unmarshal(e.Body, &h); err != nil {
				c.t.Fatal(err)
			}
			if at, ok := c.struck[owner[e.URI].Holder]; ok && e.State == lease.Held && e.At.After(at) {
				taken++
				slowest = max(slowest, e.At.Sub(at))
			}
			version[e.URI], owner[e.URI] = e.Version, h
			if e.State == "" {
				ended[e.URI]++
			}
		case "test.Task":
			var p progress
			if err := json.Unmarshal(e.Body, &p); err != nil {
				c.t.Fatal(err)
			}
			if p.Number == 0 {
				continue // it was made
			}
			if writes++; p.Number != version[lease.At(e.URI)] {
				c.t.Errorf("%s was written under lease %d while %d was valid", e.URI, p.Number, version[lease.At(e.URI)])
			}
		}
	}
	for i := range tasks {
		name := fmt.Sprint("task-", i+1)
		if n := ended[lease.At(task(name))]; n != 1 {
			c.t.Errorf("%s ended %d times", name, n)
		}
		for s := range steps {
			if n := out.counts[fmt.Sprintf("%s/%d", name, s)]; n != 1 {
				c.t.Errorf("the effect of step %d of %s happened %d times", s, name, n)
			}
		}
	}
	c.t.Logf("%d tasks ended once, %d effects happened once, %d writes, none by one who had lost the lease (%d effects of such were refused)", tasks, len(out.counts), writes, out.stale)
	c.t.Logf("%d tasks of struck workers were taken over, the last of them %s after the strike; workers: %d", taken, slowest.Round(time.Millisecond), c.names)
	if left := slices.Sorted(maps.Keys(c.stopped)); len(left) > 0 {
		c.t.Errorf("workers still stand still: %v", left)
	}
}

func open(t *testing.T) *sqlite.Store {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}
