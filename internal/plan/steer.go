package plan

import (
	"slices"

	"steward/internal/id"
	"steward/internal/message"
)

// MaxSteers bounds how often the subtasks of a task are steered.
const MaxSteers = 3

// Steering is what is to become of the other subtasks of a task after one of
// them has failed. Those that it does not name go on as planned.
type Steering struct {
	Orders []Steer `json:"orders"`
}

// Steer is about one subtask: it is cancelled, or gets something to mind if it
// has not begun.
type Steer struct {
	Task   string `json:"task"`
	Cancel bool   `json:"cancel,omitzero"`
	Say    string `json:"say"` // why it is cancelled, or what it has to mind
}

// SteeringSchema is the JSON Schema of a Steering.
const SteeringSchema = `{"type":"object","properties":{"orders":{"type":"array","maxItems":50,"items":{"type":"object","properties":{` +
	`"task":{"type":"string","description":"the name of a subtask that is not over"},` +
	`"cancel":{"type":"boolean","description":"true: it makes no sense any more, and is stopped"},` +
	`"say":{"type":"string","description":"why it is cancelled, or what it has to mind now; short"}},` +
	`"required":["task","say"],"additionalProperties":false}}},"required":["orders"],"additionalProperties":false}`

// fail settles a task as failed, and has the task above it decide what becomes
// of those beside it. Until that is decided none of them begins.
func (r *Run) fail(t *Task, code string) {
	r.settle(t, Failed, code)
	if p := r.byID[t.Parent]; p != nil && p.State == Running && p.Failing.Zero() && p.Steers < MaxSteers {
		p.Failing = t.ID
		r.changed = append(r.changed, p)
	}
}

// needsSteering reports whether a subtask has failed and nothing is left to be steered.
func (r *Run) needsSteering(t *Task) bool {
	return !t.Failing.Zero() && r.active[t.ID] == nil && r.partsOver(t)
}

// applySteering carries out a steering. Without one the subtasks go on as planned.
func (r *Run) applySteering(t *Task, s Steering) {
	t.Failing = id.ID{}
	t.Steers++
	r.changed = append(r.changed, t)
	parts := r.parts(t)
	seen := t.Labels | LabelsOf(parts...)
	for _, o := range s.Orders {
		i := slices.IndexFunc(parts, func(x *Task) bool { return !x.State.Over() && x.Name == nameOf(o.Task) })
		switch {
		case i < 0: // it has ended meanwhile
			continue
		case o.Cancel:
			r.stop(parts[i], Cancelled, errCancelled)
		case parts[i].State != Pending && parts[i].State != Paused:
			continue // what it works with was given to it
		}
		parts[i].Told = clip(o.Say, MaxSummary)
		parts[i].Labels |= seen
		r.changed = append(r.changed, parts[i])
	}
}

// LabelsOf returns the labels of all that tasks hold.
func LabelsOf(tasks ...*Task) (l message.Labels) {
	for _, t := range tasks {
		l |= t.Labels | t.Output.Labels
	}
	return l
}
