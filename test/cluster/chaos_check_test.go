//go:build long && linux

package cluster_test

import (
	"fmt"
	"strings"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/cluster"
)

// check compares what the clients were told, what the ledger counted and what is stored.
func (c *chaos) check(clients []*cluster.Client) {
	if out, err := c.rig.Nodes[0].Run("audit", "verify"); err != nil {
		c.Error(err)
	} else {
		c.Log(strings.TrimSpace(out))
	}
	st, err := c.rig.Open(c.ctx)
	if err != nil {
		c.Fatal(err)
	}
	defer st.Close()
	effects := c.load.Effects()
	turns, unknown, errors := 0, 0, map[string]int{}
	for _, client := range clients {
		for what, n := range client.Errors {
			errors[what] += n
		}
		stored := c.messages(conversation.New(st, conversation.Options{}), client)
		for _, t := range client.Turns {
			turns++
			if want := "done " + t.Token; t.Answer != want || stored[want] != 1 {
				c.Errorf("%s was answered %q, which is stored %d times", t.Token, t.Answer, stored[want])
			}
			asked := "run " + t.Token + " " + strings.Join(t.Tools, ",")
			if client.Tree {
				asked = "tree " + t.Token
			}
			if stored[asked] != 1 {
				c.Errorf("the acknowledged message %q is stored %d times", asked, stored[asked])
			}
			for k, tool := range t.Tools {
				unknown += c.judge(t, k, tool, effects)
			}
		}
	}
	c.Logf("%d turns, each acknowledged message and answer stored once; %d effects, none twice, %d unknown", turns, len(effects), unknown)
	c.Logf("instead of what they expected, clients got %v", errors)
	c.checkEnds(st)
	c.checkTrees(st, clients, effects)
	c.checkWriters(st)
}

// judge compares the effects of a call with what the conversation says about it. It returns 1 if the outcome is
// unknown, which only calls may be whose receiver does not recognise them.
func (c *chaos) judge(t *cluster.Turn, k int, tool string, effects map[string]int) int {
	n := effects[fmt.Sprintf("%s/%d", t.Token, k)]
	switch {
	case tool == "look" && n != 0, tool == "add" && n != 1, n > 1:
		c.Errorf("%s: the effect of call %d (%s) happened %d times", t.Token, k, tool, n)
	case tool == "blind" && n == 0:
		return 1
	}
	return 0
}

// messages counts the texts of a client's stored conversation.
func (c *chaos) messages(e *conversation.Engine, client *cluster.Client) map[string]int {
	u, ok := id.Parse(client.Conversation)
	if !ok {
		c.Errorf("conversation %d has the id %q", client.Number, client.Conversation)
		return nil
	}
	texts := map[string]int{}
	var all []*message.Message
	for after := store.Cursor(""); ; {
		page, next, err := e.Messages(c.ctx, store.ForUser(client.User), u, after, 0, false)
		if err != nil {
			c.Error(err)
			return texts
		}
		for _, m := range page {
			texts[m.Text()]++
			all = append(all, m.Message)
		}
		if after = next; next == "" {
			break
		}
	}
	if err := message.CheckHistory(all); err != nil {
		c.Errorf("the history of conversation %d is broken: %v", client.Number, err)
	}
	return texts
}

// checkEnds checks that each run and each request has ended, and the runs once.
func (c *chaos) checkEnds(st store.Store) {
	ends := map[resource.URI]int{}
	for e, err := range store.Entries(c.ctx, st, store.ForNode(resource.System), store.LogQuery{Type: record.TypeRun, Limit: store.MaxLimit}) {
		if err != nil {
			c.Fatal(err)
		}
		if ends[e.URI] += 0; e.State != record.StateRunning {
			ends[e.URI]++
		}
	}
	for at, n := range ends {
		if n != 1 {
			c.Errorf("the run %s has ended %d times", at, n)
		}
	}
	c.Logf("%d runs, each ended once", len(ends))
}

// checkTrees checks that each task of each tree ended exactly once, and had its effect exactly once.
func (c *chaos) checkTrees(st store.Store, clients []*cluster.Client, effects map[string]int) {
	trees := 0
	for _, client := range clients {
		for _, t := range client.Turns {
			if !client.Tree {
				continue
			}
			trees++
			for k, tool := range cluster.Leaves() {
				want := 1
				if tool == "look" {
					want = 0
				}
				if n := effects[fmt.Sprintf("%s+%d/0", t.Token, k)]; n != want {
					c.Errorf("%s: the effect of task %d (%s) happened %d times", t.Token, k, tool, n)
				}
			}
		}
	}
	over, tasks := map[resource.URI]int{}, 0
	for e, err := range store.Entries(c.ctx, st, store.ForNode(resource.System), store.LogQuery{Type: "plan.Task", Limit: store.MaxLimit}) {
		if err != nil {
			c.Fatal(err)
		}
		var task plan.Task
		if err := record.Decode(e.URI, e.Body, &task); err != nil {
			c.Fatal(err)
		}
		if e.Version == 1 {
			tasks++
		}
		if task.State.Over() {
			over[e.URI]++
			if task.State != plan.Done {
				c.Errorf("the task %s of %s is %s: %s", task.Name, task.Purpose, task.State, task.Error)
			}
		}
	}
	for at, n := range over {
		if n != 1 {
			c.Errorf("%s ended %d times", at, n)
		}
	}
	if len(over) != tasks || tasks != trees*cluster.TreeTasks {
		c.Errorf("%d tasks of %d trees, of which %d ended", tasks, trees, len(over))
	}
	c.Logf("%d trees with %d tasks, each ended once", trees, tasks)
}

// checkWriters checks that nobody wrote to a user's space but its holder.
func (c *chaos) checkWriters(st store.Store) {
	h, err := c.rig.Holding(c.ctx, st)
	if err != nil {
		c.Error(err)
		return
	}
	c.Logf("%d entries in users' spaces, which were taken %d times, %d times by another process than before", h.Entries, h.Takes, h.Moves)
	if len(c.rig.Nodes) == 1 {
		return
	}
	for what, n := range h.Stale {
		c.Errorf("a stale write, %d times: %s", n, what)
	}
	for what, n := range h.Free {
		c.Logf("while nobody held the space, %d times: %s", n, what)
	}
}
