// Package plan turns one request into a tree of tasks and works through it.
//
// A plan is written by a model in a single call: an analysis, the steps in
// words, the tools that they need, the prompt of an agent that takes them, and,
// where the work divides, subtasks that are plans of the same form. Check holds
// it against what there is: it corrects what can only be meant in one way, and
// names everything else, so that the model can write the plan once more.
//
// A task without subtasks is worked on directly: an agent gets it, and its
// answer is the task's output. A task with subtasks is supervised: when they are
// over, their outputs are judged against the task's evaluation. If they fall
// short, the judge names corrective subtasks, for a bounded number of rounds;
// then the supervising agent sums up. Siblings run in parallel, unless one
// names another in "after".
//
// The life of a task is a table, in states.go. Each change of it is durable
// before the next one relies on it, so that a tree that was interrupted goes on
// from its records: what is done stays done, and what was running runs again,
// in the same conversation. A task that waits is a record and nothing else: no
// goroutine and no timer belongs to it.
//
// The package knows no model, no store and no agents. A Worker does what it
// decides.
package plan

import (
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
)

// The bounds of a plan.
const (
	MaxDepth    = 8   // levels of tasks
	MaxTasks    = 200 // of a tree, corrective ones included
	MaxTools    = 15  // of a task; a plan that names more is sent back
	MaxRounds   = 2   // of corrections of a task
	MaxPlanSize = 256 << 10
)

// Iterations are the model calls that a task has unless its plan says otherwise.
const (
	IterationsPlanned = 10
	IterationsComplex = 15
)

// Draft is a plan, or one of its subtasks, as a model writes it.
type Draft struct {
	Name          string   `json:"name,omitzero"`
	Purpose       string   `json:"purpose,omitzero"`
	Instructions  string   `json:"instructions,omitzero"`
	Applicability string   `json:"applicability,omitzero"`
	Evaluation    string   `json:"evaluation,omitzero"`
	After         []string `json:"after,omitzero"` // names of siblings that have to be done first

	Analysis   string   `json:"analysis,omitzero"`
	Plan       string   `json:"plan,omitzero"` // the steps in words
	Assistant  string   `json:"assistant,omitzero"`
	Tools      []string `json:"selected_tools,omitzero"`
	Prompt     string   `json:"agent_system_prompt,omitzero"`
	Guidance   string   `json:"guidance_notes,omitzero"`
	Iterations int      `json:"max_iterations,omitzero"`
	Tokens     int64    `json:"max_tokens,omitzero"` // of the task and everything below it
	Cost       float64  `json:"max_cost,omitzero"`   // US dollars, likewise
	Seconds    float64  `json:"max_seconds,omitzero"`
	Confidence float64  `json:"confidence,omitzero"` // 0 to 1
	Reflect    bool     `json:"reflection,omitzero"` // the agent looks over its answer before it gives it

	Subtasks []Draft `json:"subtasks,omitzero"`
}

// Metadata returns the four-part description of a draft.
func (d *Draft) Metadata() resource.Metadata {
	return resource.Metadata{Purpose: d.Purpose, Instructions: d.Instructions, Applicability: d.Applicability, Evaluation: d.Evaluation}
}

// Time returns the limit of a draft's time; zero: that of its parent.
func (d *Draft) Time() time.Duration { return time.Duration(d.Seconds * float64(time.Second)) }

// Task is the record of a task. It is a resource below the message that asked
// for it, and below the task that it is a part of.
type Task struct {
	Draft // what is to be done; its Subtasks and After are tasks

	ID       id.ID   `json:"-"`
	Order    int     `json:"order"`           // of its making; parents come before their subtasks
	Parent   id.ID   `json:"parent,omitzero"` // zero: the root of the tree
	After    []id.ID `json:"after,omitzero"`
	Round    int     `json:"round,omitzero"` // of corrections of its parent in which it was made; 0: planned
	Children int     `json:"children,omitzero"`

	State       State          `json:"state"`
	Rounds      int            `json:"rounds,omitzero"`  // of corrections so far
	Attempt     int            `json:"attempt,omitzero"` // how often it was begun anew: for a correction, or by a person
	Verdict     string         `json:"verdict,omitzero"`
	Steers      int            `json:"steers,omitzero"`  // how often its subtasks were steered
	Failing     id.ID          `json:"failing,omitzero"` // the subtask that has failed, until the others are steered
	Told        string         `json:"told,omitzero"`    // by the task above: what it has to mind, or why it was cancelled
	Error       string         `json:"error,omitzero"`   // the code
	Output      Output         `json:"output,omitzero"`
	Labels      message.Labels `json:"labels,omitzero"`     // of what had been read when it was planned, steered or begun before
	StartedAt   time.Time      `json:"started_at,omitzero"` // for the first time
	CompletedAt time.Time      `json:"completed_at,omitzero"`
}

// Output is what a task brought: where it was worked on, and the beginning of its
// text, which later tasks are given.
type Output struct {
	Conversation id.ID          `json:"conversation,omitzero"`
	Summary      string         `json:"summary,omitzero"`
	Whole        int            `json:"whole,omitzero"` // bytes of the text; zero: Summary is all of it
	Labels       message.Labels `json:"labels,omitzero"`
}

// MaxSummary bounds Output.Summary, in bytes.
const MaxSummary = 4 << 10

// Supervised reports whether the task consists of subtasks.
func (t *Task) Supervised() bool { return t.Children > 0 }

// Tree makes the tasks of a checked plan, parents before their subtasks. The
// ids derive from the id of the root and the names, so that the same plan gives
// the same tasks after a crash.
func Tree(root id.ID, d *Draft, labels message.Labels) []*Task {
	var all []*Task
	var add func(d *Draft, own, parent id.ID)
	add = func(d *Draft, own, parent id.ID) {
		t := d.task(own, parent, 0, labels)
		t.Order = len(all)
		all = append(all, t)
		for i := range d.Subtasks {
			add(&d.Subtasks[i], childID(own, 0, d.Subtasks[i].Name), own)
		}
	}
	add(d, root, id.ID{})
	return all
}

// Carried returns the plan that tasks carry out: as it was made and then edited, without the subtasks that
// corrections added. Parents come before their subtasks.
func Carried(tasks []*Task) Draft {
	byID := map[id.ID]*Task{}
	for _, t := range tasks {
		byID[t.ID] = t
	}
	var draft func(t *Task) Draft
	draft = func(t *Task) Draft {
		d := t.Draft
		for _, x := range t.After {
			if before := byID[x]; before != nil {
				d.After = append(d.After, before.Name)
			}
		}
		for _, c := range tasks {
			if c.Parent == t.ID && c.Round == 0 {
				d.Subtasks = append(d.Subtasks, draft(c))
			}
		}
		return d
	}
	return draft(tasks[0])
}

func childID(parent id.ID, round int, name string) id.ID {
	return id.Derive("plan.task", parent.String(), string(rune('0'+round)), name)
}

// task makes the record of a draft.
func (d *Draft) task(own, parent id.ID, round int, labels message.Labels) *Task {
	t := &Task{ID: own, Parent: parent, Round: round, Children: len(d.Subtasks), State: Pending, Labels: labels}
	t.describe(d)
	for _, name := range d.After {
		t.After = append(t.After, childID(parent, round, name))
	}
	return t
}

// describe says what a task is about.
func (t *Task) describe(d *Draft) {
	t.Draft = *d
	t.Draft.After, t.Draft.Subtasks = nil, nil
}
