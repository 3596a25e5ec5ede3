//go:build long && linux

package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	api "steward/client"
	"steward/test/built"
	"steward/test/cluster"
)

const (
	// late is how soon after a fault everything has to go on. Only STRICT enforces it, since a machine may be slow.
	late = 10 * time.Second
	// ending is how long everything may take to end after the last fault.
	ending = 6 * time.Minute
	// stuck is how long after a fault something must go on, on any machine.
	stuck = 90 * time.Second
	turns = 5 // of a conversation
	calls = 4 // of a turn
)

func number(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s=%q is not a number", name, s)
	}
	return n
}

// fault is something that is done to the nodes.
type fault struct {
	name string
	do   func(c *chaos)
}

// The faults of a cluster. Each returns at once; what takes time, such as the restart of a node, goes on beside.
func faults() []fault {
	return []fault{
		{"kill -9, started again at once", func(c *chaos) { c.kill("kill", 0) }},
		{"kill -9, started again later", func(c *chaos) { c.kill("kill, down for a while", c.between(6*time.Second, 10*time.Second)) }},
		{"suspended past the silence", func(c *chaos) { c.suspend(c.between(cluster.Silence*6/5, 2*cluster.Silence)) }},
		{"cut off", func(c *chaos) { c.cut(c.between(cluster.Silence*6/5, 2*cluster.Silence)) }},
		{"database crashes", func(c *chaos) { c.database() }},
		{"NATS server ends", func(c *chaos) { c.server(c.between(time.Second, 8*time.Second)) }},
	}
}

// The faults of a node that is alone. It goes on when it is there again.
func faultsAlone() []fault {
	return []fault{
		{"kill -9, started again at once", func(c *chaos) { c.kill("kill", 0) }},
		{"database crashes", func(c *chaos) { c.database() }},
		{"suspended", func(c *chaos) { c.suspend(c.between(time.Second, 7*time.Second)) }},
		{"cut off", func(c *chaos) { c.cut(c.between(time.Second, 7*time.Second)) }},
	}
}

// chaos is one run.
type chaos struct {
	*testing.T
	ctx    context.Context
	cancel func()
	talks  []*cluster.Client
	rig    *cluster.Rig
	load   *cluster.Load
	random *rand.Rand
	beside sync.WaitGroup // what heals

	mu     sync.Mutex
	struck map[*cluster.Node]bool // nodes that are not healed yet
	begun  int                    // faults
	more   chan struct{}          // closed at the next fault
}

func (c *chaos) between(from, to time.Duration) time.Duration {
	return from + time.Duration(c.random.Int64N(int64(to-from)))
}

// target draws a node to strike. One node at least stays whole, if there are several.
func (c *chaos) target() *cluster.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	var whole []*cluster.Node
	for _, n := range c.rig.Nodes {
		if !c.struck[n] && n.Alive() {
			whole = append(whole, n)
		}
	}
	if len(whole) == 0 || len(whole) == 1 && len(c.rig.Nodes) > 1 {
		return nil
	}
	n := whole[c.random.IntN(len(whole))]
	c.struck[n] = true
	return n
}

// tell logs what is done, with the time, so that it can be found in the logs of the nodes.
func (c *chaos) tell(format string, args ...any) {
	c.Logf("%s %s", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// heals runs beside and takes back what was done to a node.
func (c *chaos) heals(n *cluster.Node, after time.Duration, how func() error) {
	c.beside.Go(func() {
		pause(c.ctx, after)
		if err := how(); err != nil && c.ctx.Err() == nil {
			c.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.struck, n)
	})
}

func (c *chaos) kill(name string, down time.Duration) {
	n := c.target()
	if n == nil {
		return
	}
	n.Kill()
	c.tell("%s, %s, down for %s", name, n.Name, down)
	c.load.Struck(name, n.Name)
	c.heals(n, down, func() error { return n.Start(c.ctx) })
}

func (c *chaos) suspend(d time.Duration) {
	n := c.target()
	if n == nil {
		return
	}
	n.Suspend()
	c.tell("suspension, %s, for %s", n.Name, d)
	c.load.Struck("suspension", n.Name)
	c.heals(n, d, func() error { n.Continue(); return nil })
}

func (c *chaos) cut(d time.Duration) {
	n := c.target()
	if n == nil {
		return
	}
	if err := n.Cut(); err != nil {
		c.Error(err)
	}
	c.tell("cut, %s, for %s", n.Name, d)
	c.load.Struck("cut", n.Name)
	c.heals(n, d, n.Heal)
}

func (c *chaos) database() {
	c.load.Struck("crash of the database", "")
	began := time.Now()
	if err := c.rig.CrashPostgres(); err != nil {
		c.Error(err)
	}
	c.tell("crash of the database, which took %s to be there again", time.Since(began).Round(time.Millisecond))
}

func (c *chaos) server(down time.Duration) {
	i := c.random.IntN(3)
	c.tell("end of NATS server %d, for %s", i, down)
	c.load.Struck("end of a NATS server", "")
	c.rig.StopServer(i)
	pause(c.ctx, down)
	if err := c.rig.StartServer(i); err != nil {
		c.Error(err)
	}
}

// advance lets the turns begin that wait for the next fault.
func (c *chaos) advance() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun++
	close(c.more)
	c.more = make(chan struct{})
}

// reach waits until so many faults have begun.
func (c *chaos) reach(n int) {
	for c.ctx.Err() == nil {
		c.mu.Lock()
		begun, more := c.begun, c.more
		c.mu.Unlock()
		if begun >= n {
			return
		}
		select {
		case <-more:
		case <-c.ctx.Done():
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// TestChaos puts three Stewards with PostgreSQL and a NATS cluster of three under load, and strikes them at random.
// CHAOS_SEED repeats a run's choices, but not its timing. make chaos-cluster is the long form.
func TestChaos(t *testing.T) { run(t, 3, faults()) }

// TestChaosAlone strikes one Steward on PostgreSQL that is told of no cluster.
func TestChaosAlone(t *testing.T) { run(t, 1, faultsAlone()) }

func run(t *testing.T, nodes int, kinds []fault) {
	seed := uint64(number(t, "CHAOS_SEED", 1))
	strikes, conversations, trees := number(t, "CHAOS_FAULTS", len(kinds)), number(t, "CHAOS_CONVERSATIONS", 24), number(t, "CHAOS_TREES", 4)
	users := number(t, "CHAOS_USERS", max(1, conversations/5))
	t.Logf("CHAOS_SEED=%d, %d nodes, %d faults, %d conversations of %d users, %d trees", seed, nodes, strikes, conversations, users, trees)
	binary, err := built.Program("steward/cmd/steward")
	if err != nil {
		t.Fatal(err)
	}
	load := cluster.NewLoad(seed, 400*time.Millisecond) // as slow as a model is
	rig, err := cluster.New(cluster.Options{Dir: t.TempDir(), Binary: binary, Nodes: nodes, Alone: nodes == 1, Proxies: os.Getenv("CHAOS_CUT") == "proxy",
		Model: load.Model(), Ledger: load.Ledger()})
	if err != nil {
		t.Fatal(err)
	}
	defer rig.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(strikes)*time.Minute+ending)
	defer cancel()
	if err := rig.StartAll(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("the nodes run; namespaces of their own: %v", rig.Separated())
	c := &chaos{T: t, ctx: ctx, cancel: cancel, rig: rig, load: load, random: rand.New(rand.NewPCG(seed, 0)), struck: map[*cluster.Node]bool{}, more: make(chan struct{})}
	clients := c.clients(conversations, trees, users, seed)
	c.talks = clients
	var talking sync.WaitGroup
	all := (conversations + trees) * turns
	for i, client := range clients {
		n := turns
		if client.Tree {
			n = 1
		}
		talking.Go(func() {
			for k := range n {
				at := k*len(clients) + i // of all turns
				if client.Tree {
					at = i * turns % all
				}
				c.reach(1 + strikes*at/all)
				if err := client.Say(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	c.strike(strikes, kinds)
	c.beside.Wait()
	time.AfterFunc(ending, cancel)
	talking.Wait()
	c.report()
	if t.Failed() {
		c.logs()
		return
	}
	defer c.logs()
	for _, n := range rig.Nodes {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	}
	c.check(clients)
}

// clients makes the people and their conversations.
func (c *chaos) clients(conversations, trees, users int, seed uint64) (out []*cluster.Client) {
	n := c.rig.Nodes[0]
	admin := api.New(api.Options{URL: n.URL(), Token: func() (string, error) { return n.Token(), nil }, HTTP: &http.Client{}})
	defer admin.Close()
	keys := make([]string, users)
	for i := range users {
		key, err := admin.CreateKey(c.ctx, fmt.Sprint("u", i), "chaos", time.Time{})
		if err != nil {
			c.Fatal(err)
		}
		keys[i] = key.Secret
	}
	for i := range conversations + trees {
		client := cluster.NewClient(c.rig, c.load, i, fmt.Sprint("u", i%users), keys[i%users], seed)
		client.Calls, client.Tree = calls, i >= conversations
		out = append(out, client)
	}
	c.random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// strike does what is to be done to the nodes, each kind equally often.
func (c *chaos) strike(strikes int, kinds []fault) {
	var order []fault
	for len(order) < strikes {
		next := slices.Clone(kinds)
		c.random.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
		order = append(order, next...)
	}
	for i, f := range order[:strikes] {
		c.advance()
		pause(c.ctx, c.between(300*time.Millisecond, 3*time.Second))
		began := time.Now()
		f.do(c)
		if i%3 == 2 { // else the next one may strike while they recover
			continue
		}
		for c.ctx.Err() == nil && len(c.load.Silent()) > 0 {
			pause(c.ctx, 20*time.Millisecond)
			if d := time.Since(began); d > stuck {
				c.stuck(fmt.Sprintf("%s after %q, nothing is heard of %v", d, f.name, c.load.Silent()))
				return
			}
		}
		c.Logf("%d: %s; all go on after %s", i+1, f.name, time.Since(began).Round(time.Millisecond))
	}
}

// logs writes what the nodes said to CHAOS_DUMP, or if the test has failed, to the test's log.
func (c *chaos) logs() {
	for _, n := range c.rig.Nodes {
		if to := os.Getenv("CHAOS_DUMP"); to != "" {
			if err := os.WriteFile(filepath.Join(to, n.Name+".log"), []byte(n.Log()), 0o600); err != nil {
				c.Error(err)
			}
		} else if c.Failed() {
			c.Logf("%s said:\n%.20000s", n.Name, n.Log())
		}
	}
}

// stuck fails the test, with what can be found out about it.
func (c *chaos) stuck(why string) {
	c.Error(why)
	for _, client := range c.talks {
		c.Logf("%s", client)
	}
	for _, n := range c.rig.Nodes {
		n.Dump()
	}
	c.cancel()
}

// report logs how soon turns went on.
func (c *chaos) report() {
	waits, again := c.load.Waits()
	for _, name := range slices.Sorted(mapKeys(waits)) {
		list := waits[name]
		at := func(p float64) time.Duration { return list[int(p*float64(len(list)-1))].Round(time.Millisecond) }
		c.Logf("after %s: %d turns went on, p50 %s, p90 %s, p99 %s, the last %s; %d were struck again before", name, len(list), at(0.5), at(0.9), at(0.99), at(1), again[name])
		if worst := at(1); os.Getenv("CHAOS_STRICT") != "" && worst > late {
			c.Errorf("after %s a turn went on after %s", name, worst)
		}
	}
	for _, late := range c.load.Slow() {
		c.Log(late)
	}
	for _, n := range c.rig.Nodes {
		for _, e := range n.Exits() {
			if strings.Contains(e, "panic:") || strings.Contains(e, "fatal error:") {
				c.Errorf("%s: %s", n.Name, e)
			}
			c.Logf("%s ended by itself, %s", n.Name, e)
		}
	}
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
