//go:build long

package chaos

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/store"
)

// tree is what the message of a turn begins with that is carried out as a tree
// of tasks.
const tree = "tree"

// leaves are the tools that the tasks of a tree call. The tree has three levels.
var leaves = []string{"ledger.ask", "ledger.dedup", "ledger.look", "ledger.dedup", "ledger.ask"}

// treeTasks is how many tasks a tree has.
const treeTasks = 8

// planOf returns the plan that the planner's model makes.
func planOf(token string) map[string]any {
	leaf := func(k int, after ...string) map[string]any {
		return map[string]any{"name": fmt.Sprint("leaf-", k), "purpose": fmt.Sprintf("task %s %s+%d", leaves[k], token, k), "selected_tools": []string{leaves[k]},
			"after": append([]string{}, after...)}
	}
	part := func(name string, subtasks ...map[string]any) map[string]any {
		return map[string]any{"name": name, "purpose": name, "subtasks": subtasks}
	}
	return map[string]any{"analysis": "-", "plan": "-", "confidence": 1, "subtasks": []map[string]any{
		part("left", leaf(0), leaf(1, "leaf-0")), part("right", leaf(2), leaf(3)), leaf(4, "left", "right")}}
}

// checkTrees checks that each task of each tree ended exactly once, and had its
// effect exactly once.
func checkTrees(t *testing.T, db store.Store, clients []*client, led *ledger) {
	t.Helper()
	trees, effects := 0, 0
	for _, c := range clients {
		for _, tn := range c.turns {
			if tn.tools != tree {
				continue
			}
			trees++
			for k, tool := range leaves {
				want := 1
				if tool == "ledger.look" {
					want = 0
				}
				if n := led.effects[fmt.Sprintf("%s+%d/0", tn.token, k)]; n != want {
					t.Errorf("%s: the effect of task %d (%s) happened %d times", tn.token, k, tool, n)
				}
				effects += want
			}
		}
	}
	over, tasks := map[string]int{}, 0
	for e, err := range store.Entries(t.Context(), db, store.ForUser("local"), store.LogQuery{Type: "plan.Task", Limit: store.MaxLimit}) {
		if err != nil {
			t.Fatal(err)
		}
		var task plan.Task
		if err := record.Decode(e.URI, e.Body, &task); err != nil {
			t.Fatal(err)
		}
		if e.Version == 1 {
			tasks++
		}
		if task.State.Over() {
			over[e.URI.String()]++
			if task.State != plan.Done {
				t.Errorf("the task %s of %s is %s: %s", task.Name, task.Purpose, task.State, task.Error)
			}
		}
	}
	for at, n := range over {
		if n != 1 {
			t.Errorf("%s ended %d times", at, n)
		}
	}
	if len(over) != tasks || tasks != trees*treeTasks {
		t.Errorf("%d tasks of %d trees, of which %d ended", tasks, trees, len(over))
	}
	t.Logf("%d trees with %d tasks, each ended once; %d effects of theirs, each happened once", trees, tasks, effects)
}

// pulse measures how soon after a restart trees and their tasks go on: until the
// process asks the model, or calls the ledger, for a tree or a task for which the
// killed one had done so. Of a task that had ended nothing is heard again; a tree is
// heard of until its turn has been answered.
type pulse struct {
	mu       sync.Mutex
	begun    map[string]bool // tokens of the trees that are not over, and of their tasks
	silent   map[string]bool // those that were begun before the last kill, and not heard of since
	listens  time.Time       // zero while the process does not
	starting time.Duration   // the longest time until it did
	trees    waits
	tasks    waits
}

// waits are times from a restart until something went on.
type waits struct {
	n, again int // again: that were struck again before
	most     time.Duration
}

func newPulse() *pulse { return &pulse{begun: map[string]bool{}, silent: map[string]bool{}} }

// heard notes that the process works on a tree, or on a task of one.
func (p *pulse) heard(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun[token] = true
	p.goesOn(token)
}

func (p *pulse) goesOn(token string) {
	whole, _, isTask := strings.Cut(token, "+")
	if p.listens.IsZero() {
		return
	}
	after := time.Since(p.listens)
	if isTask && p.silent[token] {
		delete(p.silent, token)
		p.tasks.n, p.tasks.most = p.tasks.n+1, max(p.tasks.most, after)
	}
	if p.silent[whole] {
		delete(p.silent, whole)
		p.trees.n, p.trees.most = p.trees.n+1, max(p.trees.most, after)
	}
}

// over notes that the turn of a tree has been answered.
func (p *pulse) over(whole string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.goesOn(whole)
	for _, tokens := range []map[string]bool{p.begun, p.silent} {
		for token := range tokens {
			if token == whole || strings.HasPrefix(token, whole+"+") {
				delete(tokens, token)
			}
		}
	}
}

func (p *pulse) killed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trees.again += p.quiet()
	p.listens, p.silent = time.Time{}, maps.Clone(p.begun)
}

func (p *pulse) restarted(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listens = time.Now()
	p.starting = max(p.starting, p.listens.Sub(at))
}

// quiet returns how many trees do not go on yet.
func (p *pulse) quiet() (n int) {
	for token := range p.silent {
		if !strings.Contains(token, "+") {
			n++
		}
	}
	return n
}

// wait waits until all trees go on.
func (p *pulse) wait(ctx context.Context) {
	for ctx.Err() == nil {
		p.mu.Lock()
		n := p.quiet()
		p.mu.Unlock()
		if n == 0 {
			return
		}
		pause(ctx, 5*time.Millisecond)
	}
}

// report logs how soon trees and tasks went on. If inTime is true, it fails if one
// did so late.
func (p *pulse) report(t *testing.T, inTime bool) {
	t.Logf("Steward listened at most %s after its start; trees went on %d times, at most %s later (%d were struck again before), and tasks %d times, at most %s later",
		p.starting.Round(time.Millisecond), p.trees.n, p.trees.most.Round(time.Millisecond), p.trees.again, p.tasks.n, p.tasks.most.Round(time.Millisecond))
	if late := max(p.trees.most, p.tasks.most); inTime && late > restartLimit {
		t.Errorf("a tree or a task went on %s after Steward listened", late)
	}
}
