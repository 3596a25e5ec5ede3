package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
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
	// Agent reports whether an agent of this level may be given tasks.
	Agent func(path string) bool
	// Iterations bounds those of a task; zero: IterationsComplex.
	Iterations int
}

// Code says what is wrong with a part of a plan.
type Code string

// The codes.
const (
	UnknownTool       Code = "unknown_tool"
	NotApproved       Code = "not_approved"
	PermissionDenied  Code = "permission_denied"
	MissingCredential Code = "missing_credential"
	TooManyTools      Code = "too_many_tools"
	UnknownAgent      Code = "unknown_agent"
	UnknownTask       Code = "unknown_task"
	Cycle             Code = "cycle"
	TooDeep           Code = "too_deep"
	TooManyTasks      Code = "too_many_tasks"
	NoPurpose         Code = "no_purpose"
	SameName          Code = "same_name"
	NotJSON           Code = "not_json"
)

// Problem is a part of a plan that does not hold.
type Problem struct {
	Task    string   `json:"task,omitzero"` // its path of names, such as trip/lodging
	Code    Code     `json:"code"`
	Subject string   `json:"subject,omitzero"` // the name of the tool, agent or task
	Near    []string `json:"near,omitzero"`    // what may have been meant
	Message string   `json:"message"`
}

// Describe puts problems into lines for the model that is to write the plan again.
func Describe(all []Problem) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "- %s: ", p.Code)
		if p.Task != "" {
			fmt.Fprintf(&b, "in %s, ", p.Task)
		}
		b.WriteString(p.Message)
		if len(p.Near) > 0 {
			fmt.Fprintf(&b, " (did you mean %s?)", strings.Join(p.Near, " or "))
		}
		b.WriteByte('\n')
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

var taskName = regexp.MustCompile(`^[a-z0-9][a-z0-9_]{0,39}$`)

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

func (c *check) bad(at string, code Code, subject, format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, Problem{Task: at, Code: code, Subject: subject, Message: fmt.Sprintf(format, args...)})
	}
}

func (c *check) task(d *Draft, above string, depth int) {
	d.Name = nameOf(d.Name)
	at := strings.TrimPrefix(above+"/"+d.Name, "/")
	c.tasks++
	switch {
	case c.tasks == MaxTasks+1:
		c.bad("", TooManyTasks, "", "the plan has more than %d tasks: divide it into fewer", MaxTasks)
		return
	case c.tasks > MaxTasks: // told already
		return
	case depth > MaxDepth:
		c.bad(at, TooDeep, "", "tasks are nested more than %d levels deep: put its steps into the task above", MaxDepth)
		return
	}
	if strings.TrimSpace(d.Purpose+d.Instructions+d.Plan) == "" {
		c.bad(at, NoPurpose, "", "it says neither what it is for nor what is to be done: write purpose or instructions")
	}
	c.tools(d, at)
	if d.Assistant != "" && (c.world.Agent == nil || !c.world.Agent(d.Assistant)) {
		c.bad(at, UnknownAgent, d.Assistant, "there is no agent %q: leave assistant out to have one designed", clip(d.Assistant))
	}
	most := c.world.Iterations
	if most == 0 {
		most = IterationsComplex
	}
	d.Iterations = min(max(d.Iterations, 0), most)
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
		c.bad(at, TooManyTools, "", "it selects %d tools, and %d are the most: choose those that it really needs, or divide it into subtasks", len(kept), MaxTools)
		return
	}
	for _, name := range kept {
		code := Code("")
		if c.world.Tool != nil {
			code = c.world.Tool(name)
		}
		if code == "" {
			continue
		}
		c.bad(at, code, name, "%s", toolProblem(code, name))
		if n := len(c.problems); code == UnknownTool && c.world.Near != nil && c.problems[n-1].Subject == name {
			c.problems[n-1].Near = c.world.Near(name)
		}
	}
}

func toolProblem(code Code, name string) string {
	switch name = clip(name); code {
	case NotApproved:
		return fmt.Sprintf("the tool %q waits for a person's approval: plan without it", name)
	case PermissionDenied:
		return fmt.Sprintf("this user may not use the tool %q: plan without it", name)
	case MissingCredential:
		return fmt.Sprintf("the tool %q is not set up: plan without it, and let the answer say what is missing", name)
	}
	return fmt.Sprintf("there is no tool %q", name)
}

// siblings checks the names of tasks beside each other, and their order.
func (c *check) siblings(all []Draft, at string) {
	byName := map[string]int{}
	for i := range all {
		name := nameOf(all[i].Name)
		if name == "" {
			name = fmt.Sprintf("step_%d", i+1)
		}
		if _, taken := byName[name]; taken {
			c.bad(at, SameName, name, "two subtasks are called %q: give each a name of its own", name)
		}
		all[i].Name, byName[name] = name, i
	}
	for i := range all {
		var kept []string
		for _, name := range all[i].After {
			name = nameOf(name)
			if _, there := byName[name]; !there {
				c.bad(at, UnknownTask, name, "%s comes after %q, which is none of its siblings", all[i].Name, clip(name))
			} else if !slices.Contains(kept, name) {
				kept = append(kept, name)
			}
		}
		all[i].After = kept
	}
	if around := circle(all, byName); around != nil {
		c.bad(at, Cycle, around[0], "these wait for each other, so that none of them can begin: %s comes after %s; leave one of the names in after out",
			around[0], strings.Join(around[1:], ", which comes after "))
	}
}

// circle returns tasks each of which comes after the next one, the last one
// being the first, or nil.
func circle(all []Draft, byName map[string]int) []string {
	const open, over = 1, 2
	marks := make([]int, len(all))
	var path []string
	var visit func(i int) []string
	visit = func(i int) []string {
		switch marks[i] {
		case open:
			return append(path[slices.Index(path, all[i].Name):], all[i].Name)
		case over:
			return nil
		}
		marks[i] = open
		path = append(path, all[i].Name)
		for _, name := range all[i].After {
			if j, ok := byName[name]; ok {
				if found := visit(j); found != nil {
					return found
				}
			}
		}
		marks[i], path = over, path[:len(path)-1]
		return nil
	}
	for i := range all {
		if found := visit(i); found != nil {
			return found
		}
	}
	return nil
}

// nameOf brings a name into its form: lower case, words joined by "_".
func nameOf(name string) string {
	if taskName.MatchString(name) {
		return name
	}
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

func clip(name string) string {
	if len(name) > 80 {
		return strings.ToValidUTF8(name[:80], "") + "…"
	}
	return name
}
