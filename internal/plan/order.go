package plan

import (
	"context"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
)

// Command is what a person, or the task above, wants done with a task.
type Command string

// The commands.
const (
	Pause  Command = "pause"  // it and everything below it; running work ends at its next safe point
	Resume Command = "resume" // what was paused goes on
	Cancel Command = "cancel" // it and everything below it
	Retry  Command = "retry"  // it failed, was skipped or cancelled: it begins again
	Edit   Command = "edit"   // it has not begun: it gets another description
)

type order struct {
	command Command
	task    id.ID
	draft   *Draft
	answer  chan error
}

// Order carries out a command. The change is durable when it returns nil. Error
// codes: task_not_found, task_transition_illegal, tree_over.
func (r *Run) Order(ctx context.Context, c Command, task id.ID, edited *Draft) error {
	o := order{c, task, edited, make(chan error, 1)}
	select {
	case r.orders <- o:
		return <-o.answer
	case <-r.over:
		return fault.New(fault.Conflict, "tree_over", "these tasks are not running any more").WithHint("see the answer, or ask again")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Run) execute(ctx context.Context, o order) error {
	t := r.byID[o.task]
	if t == nil {
		return fault.New(fault.NotFound, "task_not_found", "no such task in this plan").WithHint("steward requests show lists them")
	}
	if !slices.Contains(statesFor(o.command), t.State) {
		return fault.New(fault.Conflict, "task_transition_illegal", "%s is not possible for the task %s, which is %s", o.command, t.Name, t.State).
			WithHint("look at it again: steward requests show")
	}
	switch o.command {
	case Pause:
		r.stop(t, Paused, errPaused)
	case Cancel:
		r.stop(t, Cancelled, errCancelled)
	case Resume:
		r.reopen(t, func(x *Task) bool { return x.State == Paused })
	case Retry:
		r.retry(t)
	case Edit:
		d := *o.draft // its place in the tree stays, and what it may use
		d.Name, d.Tokens, d.Cost, d.Seconds = t.Name, t.Tokens, t.Cost, t.Seconds
		t.describe(&d)
		r.changed = append(r.changed, t)
	}
	return r.save(ctx)
}

// statesFor are the states in which a task obeys a command.
func statesFor(c Command) []State {
	switch c {
	case Pause:
		return []State{Pending, Running, Judging}
	case Cancel:
		return []State{Pending, Running, Judging, Paused}
	case Resume:
		return []State{Paused}
	case Retry:
		return []State{Failed, Skipped, Cancelled}
	}
	return []State{Pending, Paused} // edit: it has not begun
}

// stop pauses or cancels a task and everything below it that is not over.
func (r *Run) stop(t *Task, to State, cause error) {
	for _, x := range append([]*Task{t}, r.below(t)...) {
		if x.State.Over() || x.State == to {
			continue
		}
		if cancel := r.active[x.ID]; cancel != nil {
			cancel(cause)
		}
		if to == Cancelled {
			r.settle(x, to, "task_cancelled")
		} else {
			r.move(x, to)
		}
	}
}

// reopen makes tasks pending again: a task and, if they fit, those below it.
func (r *Run) reopen(t *Task, fit func(*Task) bool) {
	for _, x := range append([]*Task{t}, r.below(t)...) {
		if fit(x) {
			r.move(x, Pending)
			x.Error, x.CompletedAt = "", time.Time{}
			x.Attempt++
		}
	}
}

// retry begins a task again, with what was skipped because of it, and reopens
// the tasks above it.
func (r *Run) retry(t *Task) {
	again := func(x *Task) bool { return x.State.Over() && x.State != Done }
	r.reopen(t, again)
	for _, x := range r.all {
		if x.Parent == t.Parent && x.State == Skipped {
			r.reopen(x, again)
		}
	}
	for p := r.byID[t.Parent]; p != nil; p = r.byID[p.Parent] {
		if again(p) {
			r.move(p, Pending)
			p.Error = ""
		}
	}
}

// below returns everything below a task.
func (r *Run) below(t *Task) []*Task {
	var out []*Task
	for _, c := range r.parts(t) {
		out = append(append(out, c), r.below(c)...)
	}
	return out
}
