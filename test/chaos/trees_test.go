package chaos

import (
	"fmt"
	"testing"

	"steward/internal/agent/plan"
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
				t.Errorf("the task %s of %s is %s: %s", task.Name, task.Meta.Purpose, task.State, task.Error)
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
