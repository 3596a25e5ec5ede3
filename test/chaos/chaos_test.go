//go:build long

// Package chaos kills Steward at random moments of many conversations. It
// checks from outside that nothing acknowledged is lost, no effect happens
// twice, and every turn continues.
package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/test/built"
	"steward/test/edge"
)

const (
	// restartLimit is how soon after a restart the turns that it interrupted
	// must end, and trees and their tasks must go on. Only the long forms enforce
	// it, since a machine may be slow.
	restartLimit = 10 * time.Second
	long         = 200 // kills
	many         = 50  // trees
	// ending is how long everything may take to end after the last restart.
	ending = 5 * time.Minute
)

// TestKill is the short form; CHAOS_KILLS=200 is the long one (make chaos).
// CHAOS_CONVERSATIONS says how many conversations there are, and CHAOS_TREES how
// many more of which each turn is carried out as a tree of tasks.
// CHAOS_SEED repeats a run's choices, but not its timing.
func TestKill(t *testing.T) {
	kills := number(t, "CHAOS_KILLS", 10)
	seed := uint64(number(t, "CHAOS_SEED", 1))
	conversations, trees := number(t, "CHAOS_CONVERSATIONS", 32), number(t, "CHAOS_TREES", 3)
	t.Logf("CHAOS_SEED=%d, %d kills, %d conversations, %d with trees", seed, kills, conversations, trees)
	r := rand.New(rand.NewPCG(seed, 0))

	b := &board{phase: map[string]string{}, trees: newPulse()}
	model := httptest.NewServer(edge.Script(t, (&model{b, pacer(seed+1, 20*time.Millisecond)}).reply))
	defer model.Close()
	led := newLedger(b, pacer(seed+2, 40*time.Millisecond))
	ledgerURL := httptest.NewServer(led)
	defer ledgerURL.Close()

	binary, err := built.Program("steward/test/chaos/node")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, binary: binary, data: t.TempDir(), args: []string{model.URL + "/v1", ledgerURL.URL}}
	n.start()
	defer n.kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(kills)*30*time.Second+ending)
	defer cancel()
	stop := make(chan struct{})
	clients := make([]*client, conversations+trees)
	errs := make(chan error, len(clients))
	for i := range clients {
		clients[i] = &client{number: i, board: b, addr: n.address, errors: map[string]int{}, early: map[string]json.RawMessage{},
			tools: chooser(seed + 10 + uint64(i)), rest: pacer(seed+100+uint64(i), 30*time.Millisecond)}
		if i >= conversations {
			clients[i].tools = func() string { return tree }
		}
		go func() { errs <- clients[i].run(ctx, stop) }()
	}
	answered := make(chan struct{})
	left, done := context.WithCancel(ctx)
	defer done()
	go func() { defer close(answered); answerAll(left, n.address) }()
	tally := map[string]int{}
	for k := range kills {
		if k%2 == 1 { // else it may be killed while it recovers
			b.trees.wait(ctx)
		}
		pause(ctx, time.Duration(50+r.IntN(400))*time.Millisecond*time.Duration(1+len(clients)/50)) // many need longer to get going
		n.kill()
		b.count(tally)
		b.trees.killed()
		at := n.start()
		b.trees.restarted(at)
		for _, c := range clients {
			c.struck(at)
		}
	}
	b.trees.wait(ctx)
	close(stop)
	defer time.AfterFunc(ending, cancel).Stop()
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.Logf("the node said:\n%s", n.said.String())
		return
	}
	n.drain(ctx)
	done()
	<-answered
	n.kill()
	check(t, n.data, clients, led, kills >= long)
	b.trees.report(t, trees >= many)
	for _, p := range []string{sending, asked, streaming, calling, awaiting, executing, resulting, answering, settled} {
		t.Logf("%5d conversations were killed in: %s", tally[p], p)
		if kills >= long && tally[p] < 20 {
			t.Errorf("%s was hit %d times, want 20 or more", p, tally[p])
		}
	}
}

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

// chooser returns a function that draws the tools that a turn calls.
func chooser(seed uint64) func() string {
	r := rand.New(rand.NewPCG(seed, 0))
	kinds := []string{"ledger.look", "ledger.ask", "ledger.dedup", "ledger.blind", "ledger.ask,ledger.look", "ledger.dedup,ledger.ask,ledger.blind",
		"later.ask", "later.dedup", "later.blind", "later.batch,later.batch,later.batch", "later.blind,ledger.ask,later.dedup"}
	return func() string { return kinds[r.IntN(len(kinds))] }
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// node is the Steward process that is killed.
type node struct {
	t      *testing.T
	binary string
	data   string
	args   []string
	said   strings.Builder

	mu   sync.Mutex
	addr string
	cmd  *exec.Cmd
}

func (n *node) address() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

// start starts the process and returns the time of the start.
func (n *node) start() time.Time {
	n.t.Helper()
	began := time.Now()
	cmd := exec.Command(n.binary, append([]string{n.data, "127.0.0.1:0"}, n.args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd.Stderr = &n.said
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		cmd.Wait()
		n.t.Fatalf("the node does not start: %v\n%s", err, n.said.String())
	}
	n.mu.Lock()
	n.cmd, n.addr = cmd, strings.TrimSpace(strings.TrimPrefix(line, "ready "))
	n.mu.Unlock()
	return began
}

// kill sends SIGKILL.
func (n *node) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return
	}
	n.cmd.Process.Kill()
	n.cmd.Wait()
	n.cmd, n.addr = nil, "127.0.0.1:1"
}

// drain waits until no request is open.
func (n *node) drain(ctx context.Context) {
	n.t.Helper()
	var open string
	for ctx.Err() == nil {
		res, err := http.Get("http://" + n.address() + "/open")
		if err == nil {
			b, err := io.ReadAll(res.Body)
			res.Body.Close()
			if open = string(b); err == nil && open == "0" {
				return
			}
		}
		pause(ctx, 20*time.Millisecond)
	}
	n.t.Errorf("requests are still open: %s", open)
}

// intents returns the states of the actions by token.
func intents(t *testing.T, db store.Store) map[string]intent.State {
	t.Helper()
	out := map[string]intent.State{}
	for it, err := range store.Items(t.Context(), db, store.ForUser("local"), store.Query{Type: "effect.Intent"}) {
		if err != nil {
			t.Fatal(err)
		}
		in, err := intent.Decode(it.Body)
		if err != nil {
			t.Fatal(err)
		}
		var e struct{ Token string }
		if err := json.Unmarshal([]byte(in.Args), &e); err != nil {
			t.Fatal(err)
		}
		out[e.Token] = in.State
		if in.State.InFlight() {
			t.Errorf("%s is left %s", e.Token, in.State)
		}
	}
	return out
}

// check compares what the clients were told, what the ledger counted and what
// is stored. If inTime is true, it also fails for turns that ended late.
func check(t *testing.T, data string, clients []*client, led *ledger, inTime bool) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(data, "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	engine := conversation.New(db, conversation.Options{})
	states := intents(t, db)
	turns, unknown, effects := 0, 0, 0
	kinds, slow := map[string]int{}, map[bool]time.Duration{}
	for _, c := range clients {
		for _, late := range c.late {
			if inTime {
				t.Errorf("after a restart %s", late)
			}
		}
		stored := messages(t, engine, c)
		slow[c.turns[0].tools == tree] = max(slow[c.turns[0].tools == tree], c.slow)
		for _, tn := range c.turns {
			turns++
			if !slices.Contains(stored, tn.tools+" "+tn.token) {
				t.Errorf("the acknowledged message %q is lost", tn.token)
			}
			if !slices.Contains(stored, tn.answer) {
				t.Errorf("the answer %q to %s is lost", tn.answer, tn.token)
			}
			if tn.tools == tree {
				continue
			}
			for k, tool := range strings.Split(tn.tools, ",") {
				n := led.effects[fmt.Sprintf("%s/%d", tn.token, k)]
				effects += n
				kinds[tool]++
				unknown += judge(t, tn, k, tool, n, states[fmt.Sprintf("%s/%d", tn.token, k)])
			}
		}
	}
	runs, err := engine.OpenRuns(t.Context(), store.ForUser("local"), resource.URI{})
	if err != nil || len(runs) > 0 {
		t.Errorf("%d runs have not ended, %v", len(runs), err)
	}
	checkTrees(t, db, clients, led)
	t.Logf("the last turn ended %s after a restart, the last tree %s", slow[false].Round(time.Millisecond), slow[true].Round(time.Millisecond))
	t.Logf("%d turns, %d effects, none twice, %d reported as unknown; calls: %v", turns, effects, unknown, kinds)
}

// judge compares the effect count of a call with its status in the
// conversation. For a queued call it uses the state of the intent.
func judge(t *testing.T, tn *turn, k int, tool string, n int, state intent.State) (unknown int) {
	var status string
	for id, s := range tn.statuses {
		if strings.HasSuffix(id, "/"+strconv.Itoa(k)) {
			status = s
		}
	}
	if strings.HasPrefix(tool, "later.") && status == string(message.Queued) {
		switch state {
		case intent.Done:
			status = string(message.OK)
		case intent.Unknown:
			status = string(message.UnknownEnd)
		}
	}
	switch {
	case tool == "ledger.look":
		if n != 0 || status != string(message.OK) {
			t.Errorf("%s: a query has the status %q and %d effects", tn.token, status, n)
		}
	case n > 1:
		t.Errorf("%s: the effect of call %d (%s) happened %d times", tn.token, k, tool, n)
	case status == string(message.OK) && n != 1:
		t.Errorf("%s: call %d (%s) is reported done and happened %d times", tn.token, k, tool, n)
	case status == string(message.UnknownEnd) && strings.HasSuffix(tool, ".blind"):
		return 1
	case status != string(message.OK):
		t.Errorf("%s: call %d (%s) has the status %q and happened %d times", tn.token, k, tool, status, n)
	}
	return 0
}

// messages returns the texts of a client's stored conversation.
func messages(t *testing.T, e *conversation.Engine, c *client) []string {
	t.Helper()
	u, ok := id.Parse(c.conv)
	if !ok {
		t.Fatalf("conversation %d has the id %q", c.number, c.conv)
	}
	var texts []string
	var all []*message.Message
	for after := store.Cursor(""); ; {
		page, next, err := e.Messages(t.Context(), store.ForUser("local"), u, after, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			texts = append(texts, m.Text())
			all = append(all, m.Message)
		}
		if after = next; next == "" {
			break
		}
	}
	if err := message.CheckHistory(all); err != nil {
		t.Errorf("the history of conversation %d is broken: %v", c.number, err)
	}
	return texts
}
