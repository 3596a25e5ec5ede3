package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"steward/internal/fault"
)

// World is what a plan is held against. All functions may be nil.
type World struct {
	// Tool says why a tool cannot be planned with, or "" if it can.
	Tool func(name string) Code
	// Near returns names that a tool's name may have been meant as.
	Near func(name string) []string
	// Agent says why an agent of this level cannot be given tasks, or "" if it can.
	Agent func(path string) Code
}

// Code says what is wrong with a part of a plan.
type Code string

// The codes.
const (
	UnknownTool      Code = "unknown_tool"
	NotApproved      Code = "not_approved"
	PermissionDenied Code = "permission_denied"
	TooManyTools     Code = "too_many_tools"
	UnknownAgent     Code = "unknown_agent"
	UnknownTask      Code = "unknown_task"
	Cycle            Code = "cycle"
	TooDeep          Code = "too_deep"
	TooManyTasks     Code = "too_many_tasks"
	NoPurpose        Code = "no_purpose"
	SameName         Code = "same_name"
)

// Problem is a part of a plan that does not hold.
type Problem struct {
	Task    string // its path of names, such as trip/lodging
	Code    Code
	Message string
}

// Describe puts problems into lines for the model that is to write the plan again.
func Describe(all []Problem) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "- %s: ", p.Code)
		if p.Task != "" {
			fmt.Fprintf(&b, "in %s, ", p.Task)
		}
		b.WriteString(p.Message + "\n")
	}
	return b.String()
}

// Parse reads a plan strictly: unknown members, and anything behind it, are
// errors (plan_invalid), as are plans of more than MaxPlanSize bytes.
func Parse(text []byte) (*Draft, error) {
	invalid := func(why error) error {
		return fault.New(fault.Invalid, "plan_invalid", "the plan cannot be read: %w", why).WithHint("write it once more, as the schema says")
	}
	if len(text) > MaxPlanSize {
		return nil, fault.New(fault.TooLarge, "plan_too_large", "the plan has %d bytes, and %d are read at most", len(text), MaxPlanSize).
			WithHint("plan in less detail")
	}
	var d Draft
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, invalid(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, invalid(errors.New("something follows it"))
	}
	return &d, nil
}

// maxProblems bounds how many problems a check reports.
const maxProblems = 20

// Check holds a plan against the world. It corrects in place what can only be
// meant in one way: names are brought into their form, repeated tools are
// dropped, iterations are kept within bounds. What it returns does not hold; a
// plan with problems is not to be carried out.
func Check(d *Draft, w World) []Problem {
	c := &check{world: w}
	if d.Name == "" {
		d.Name = "request"
	}
	c.task(d, "", 1)
	return c.problems
}

type check struct {
	world    World
	tasks    int
	problems []Problem
}

func (c *check) bad(at string, code Code, format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, Problem{at, code, fmt.Sprintf(format, args...)})
	}
}

func (c *check) task(d *Draft, above string, depth int) {
	d.Name = nameOf(d.Name)
	at := strings.TrimPrefix(above+"/"+d.Name, "/")
	c.tasks++
	switch {
	case c.tasks == MaxTasks+1:
		c.bad("", TooManyTasks, "the plan has more than %d tasks: divide it into fewer", MaxTasks)
		return
	case c.tasks > MaxTasks: // told already
		return
	case depth > MaxDepth:
		c.bad(at, TooDeep, "tasks are nested more than %d levels deep: put its steps into the task above", MaxDepth)
		return
	}
	if strings.TrimSpace(d.Purpose+d.Instructions+d.Plan) == "" {
		c.bad(at, NoPurpose, "purpose and instructions are both missing: write one of them")
	}
	c.tools(d, at)
	if d.Assistant != "" && c.world.Agent != nil {
		if code := c.world.Agent(d.Assistant); code != "" {
			c.bad(at, code, "%s; leave assistant out to have one designed", c.unfit(code, "agent", d.Assistant))
		}
	}
	d.Iterations = min(max(d.Iterations, 0), IterationsComplex)
	d.Tokens, d.Cost, d.Seconds = max(d.Tokens, 0), max(d.Cost, 0), max(d.Seconds, 0)
	d.Confidence = min(max(d.Confidence, 0), 1)
	c.siblings(d.Subtasks, at)
	for i := range d.Subtasks {
		c.task(&d.Subtasks[i], at, depth+1)
	}
}

// tools checks the names of a task's tools.
func (c *check) tools(d *Draft, at string) {
	var kept []string
	for _, name := range d.Tools {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	d.Tools = kept
	if len(kept) > MaxTools {
		c.bad(at, TooManyTools, "it selects %d tools, and %d are the most: choose those that it really needs, or divide it into subtasks", len(kept), MaxTools)
		return
	}
	if c.world.Tool == nil {
		return
	}
	for _, name := range kept {
		if code := c.world.Tool(name); code != "" {
			c.bad(at, code, "%s", c.unfit(code, "tool", name))
		}
	}
}

// unfit says why a tool or an agent cannot be planned with.
func (c *check) unfit(code Code, what, name string) string {
	switch code {
	case NotApproved:
		return fmt.Sprintf("the %s %.80q waits for a person's approval: plan without it", what, name)
	case PermissionDenied:
		return fmt.Sprintf("this user may not use the %s %.80q: plan without it", what, name)
	}
	text := fmt.Sprintf("there is no %s %.80q", what, name)
	if code == UnknownTool && c.world.Near != nil {
		if near := c.world.Near(name); len(near) > 0 {
			text += fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
		}
	}
	return text
}

// siblings checks the names of tasks beside each other, and their order.
func (c *check) siblings(all []Draft, at string) {
	if len(all) > MaxTasks {
		return // that is told later
	}
	byName := map[string]int{}
	for i := range all {
		name := nameOf(all[i].Name)
		if name == "" {
			name = fmt.Sprintf("step_%d", i+1)
		}
		if _, taken := byName[name]; taken {
			c.bad(at, SameName, "two subtasks are called %q: give each a name of its own", name)
		}
		all[i].Name, byName[name] = name, i
	}
	for i := range all {
		var kept []string
		for _, name := range all[i].After {
			name = nameOf(name)
			if _, there := byName[name]; !there {
				c.bad(at, UnknownTask, "%s comes after %.80q, which is not a sibling", all[i].Name, name)
			} else if !slices.Contains(kept, name) {
				kept = append(kept, name)
			}
		}
		all[i].After = kept
	}
	if left := unreachable(all); left != nil {
		c.bad(at, Cycle, "none of these can begin, because they wait for each other: %s; remove one of the names in after", strings.Join(left, ", "))
	}
}

// unreachable returns the names of the tasks that can never begin.
func unreachable(all []Draft) []string {
	done := map[string]bool{}
	for {
		var left []string
		before := len(done)
		for i := range all {
			if !done[all[i].Name] && slices.ContainsFunc(all[i].After, func(name string) bool { return !done[name] }) {
				left = append(left, all[i].Name)
			} else {
				done[all[i].Name] = true
			}
		}
		if len(done) == before {
			return left
		}
	}
}

// nameOf brings a name into its form: lower case, words joined by "_".
func nameOf(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	out := b.String()
	return strings.Trim(out[:min(len(out), 40)], "_")
}
