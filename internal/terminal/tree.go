package terminal

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"steward/client"
)

// tree is the tree of a plan's tasks, with the newest frame of each.
type tree struct {
	call  string // that carries out the plan
	tasks []*client.Frame
}

// take adds what a frame says of a task.
func (p *tree) take(f *client.Frame) {
	if f.Task == nil {
		return
	}
	if f.CallID != p.call {
		*p = tree{call: f.CallID}
	}
	c := *f
	if i := slices.IndexFunc(p.tasks, func(x *client.Frame) bool { return x.Task.ID == f.Task.ID }); i >= 0 {
		p.tasks[i] = &c
		return
	}
	p.tasks = append(p.tasks, &c)
	slices.SortStableFunc(p.tasks, func(a, b *client.Frame) int { return a.Order - b.Order })
}

// asker returns the name of an agent that asks something. One that was made for a task is called after it.
func (p *tree) asker(path string) string {
	for _, f := range p.tasks {
		if path == f.Task.Agent+"/"+f.Task.ID {
			return "task " + f.Task.Title
		}
	}
	return path
}

// node is a task in its place on the screen.
type node struct {
	*client.Request
	depth int
	leaf  bool
}

// nodes returns the tasks from the top to the bottom of the screen.
func (p *tree) nodes() []node {
	var out []node
	var add func(parent string, depth int)
	add = func(parent string, depth int) {
		for _, f := range p.tasks {
			if f.Task.Parent == parent && depth <= 16 {
				at := len(out)
				out = append(out, node{f.Task, depth, false})
				add(f.Task.ID, depth+1)
				out[at].leaf = len(out) == at+1
			}
		}
	}
	add("", 0)
	return out
}

// count sums up the tasks without subtasks in words, and what they have cost.
func (p *tree) count() (said string, cost float64) {
	states := map[string]int{}
	total := 0
	for _, n := range p.nodes() {
		if cost += n.Cost; n.leaf {
			states[n.Status]++
			total++
		}
	}
	said = fmt.Sprintf("%d of %d tasks done", states["done"], total)
	for _, s := range []string{"failed", "skipped", "cancelled", "paused"} {
		if states[s] > 0 {
			said += fmt.Sprintf(", %d %s", states[s], s)
		}
	}
	if n := states[client.CallAwaiting]; n > 0 {
		said += ", " + fmt.Sprint(n) + " waiting for you"
	}
	return said, cost
}

// tree returns the lines of a plan that is carried out: how far it is, and a line a task. If there are more
// than most, tasks that are done and then those that have not begun are summed up.
func (t *turn) tree(most int, spin string) []string {
	nodes := t.plan.nodes()
	hidden := map[string]int{}
	for _, state := range []string{"done", "pending"} {
		for i := 0; len(nodes)+len(hidden)+1 > max(most, 3) && i < len(nodes); {
			if n := nodes[i]; n.Status != state || !n.leaf && state == "done" && i+1 < len(nodes) && nodes[i+1].depth > n.depth {
				i++
				continue
			}
			hidden[state]++
			nodes = slices.Delete(nodes, i, i+1)
		}
	}
	said, cost := t.plan.count()
	head := spin + " " + said
	if a := t.find(t.plan.call); a != nil {
		head += " · " + clock(t.now().Sub(a.began))
	}
	if cost > 0 {
		head += fmt.Sprintf(" · $%.4f", cost)
	}
	out := []string{t.dim.Render(cut(head, t.paint.width-1))}
	if n := hidden["done"]; n > 0 {
		out = append(out, t.dim.Render(fmt.Sprintf("  ✓ %d more", n)))
	}
	wide := 0
	for _, n := range nodes {
		wide = max(wide, 2*n.depth+lipgloss.Width(Visible(n.Title)))
	}
	wide = min(wide, max(t.paint.width*2/5, 12))
	for _, n := range nodes {
		out = append(out, t.taskLine(&n, wide, spin))
	}
	if n := hidden["pending"]; n > 0 {
		out = append(out, t.dim.Render(fmt.Sprintf("  · %d more", n)))
	}
	if n := len(out) - max(most, 1); n > 0 {
		out = slices.Delete(out, 1, n+1)
	}
	return out
}

// taskLine returns a task in one line: its state and name in a number of cells, its agent, time and cost, and
// what it does now or why it is not done.
func (t *turn) taskLine(n *node, wide int, spin string) string {
	inside := strings.Repeat("  ", min(n.depth, wide/4))
	name := cut(Visible(n.Title), wide-len(inside))
	name += strings.Repeat(" ", max(0, wide-len(inside)-lipgloss.Width(name)))
	var rest []string
	if n.leaf {
		rest = append(rest, Visible(n.Agent))
	}
	switch took := n.Took(t.now()); {
	case n.Started.IsZero():
	case n.Ended.IsZero():
		rest = append(rest, clock(took))
	default:
		rest = append(rest, elapsed(took))
	}
	if n.Cost > 0 {
		rest = append(rest, fmt.Sprintf("$%.4f", n.Cost))
	}
	sign, said := t.dim.Render("·"), ""
	switch n.Status {
	case "running", "judging":
		sign, said = spin, n.Message
		if n.Status == "judging" {
			said = "is checked"
		}
	case client.CallAwaiting:
		sign, said = t.warn.Render("?"), "waits for you"
	case "paused":
		sign, said = t.warn.Render("‖"), "paused"
	case "done":
		sign = t.good.Render("✓")
	case "pending":
	default:
		sign, said = t.bad.Render("✗"), strings.TrimSuffix(strings.ReplaceAll(n.Status+": "+strings.TrimPrefix(n.Error, "task_"), "_", " "), ": "+n.Status)
		if n.Message != "" {
			said += ", " + n.Message
		}
	}
	if said != "" {
		rest = append(rest, oneLine(said, 400))
	}
	return inside + "  " + sign + " " + name + t.dim.Render(cut("  "+strings.Join(rest, "  "), max(t.paint.width-wide-5, 1)))
}

// folded prints a plan that has been carried out: as one line, or unfolded as its tree.
func (t *turn) folded(took string) {
	said, cost := t.plan.count()
	if took != "" {
		said += " · " + took
	}
	if cost > 0 {
		said += fmt.Sprintf(" · $%.4f", cost)
	}
	nodes := t.plan.nodes()
	sign := t.good.Render("✓")
	if slices.ContainsFunc(nodes, func(n node) bool { return n.leaf && n.Status != "done" }) {
		sign = t.bad.Render("✗")
	}
	if !t.unfolded {
		said += " · Ctrl-O: tasks"
	}
	lines := []string{sign + " " + cut(said, t.paint.width-3)}
	if t.unfolded {
		lines = append(lines, t.tree(1000, "…")[1:]...)
	}
	t.print(kindCall, strings.Join(lines, "\n"))
}
