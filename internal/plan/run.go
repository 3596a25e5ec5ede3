package plan

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
)

// Worker carries out what a Run decides. Safe for concurrent use.
type Worker interface {
	// Save makes the states of the tasks that have changed durable, all or none. With
	// the last change it is given all tasks of the tree: nothing follows.
	Save(ctx context.Context, changed, over []*Task) error
	// Work has an agent do a task, and goes on with what was interrupted. before are
	// the tasks whose outputs it is given. With a verdict, the task was done before
	// and fell short. When ctx ends, Work ends what it does and returns ctx's cause.
	// An output has the labels of all that was read, even if there is nothing else.
	Work(ctx context.Context, t *Task, before []*Task) (Output, error)
	// Judge holds the output of a task against its evaluation. parts are its
	// subtasks; empty: it was worked on directly.
	Judge(ctx context.Context, t *Task, parts []*Task) (Verdict, error)
	// Steer decides what becomes of the subtasks that are not over, after the one
	// that t.Failing names has failed.
	Steer(ctx context.Context, t *Task, parts []*Task) (Steering, error)
}

// Causes with which work is ended.
var (
	errPaused    error = fault.New(fault.Cancelled, "task_paused", "paused by a person")
	errCancelled error = fault.New(fault.Cancelled, "task_cancelled", "cancelled")
)

// Run works through one tree of tasks. One goroutine, that of Work, owns the
// tasks; others give orders through its methods.
type Run struct {
	worker   Worker
	parallel int
	check    func([]Draft) []Problem
	all      []*Task // parents before their subtasks
	byID     map[id.ID]*Task
	active   map[id.ID]context.CancelCauseFunc
	ended    chan ended
	orders   chan order
	over     chan struct{}
	changed  []*Task
}

// ended is the end of a piece of work.
type ended struct {
	task   *Task
	err    error
	labels message.Labels // of what was read for it
	take   func(error)    // takes what came of it
}

// Options are those of a Run.
type Options struct {
	// Parallel bounds how many tasks are worked on at the same time; zero: 4.
	Parallel int
	// Check says what is wrong with corrective subtasks. They are dropped if
	// anything is. May be nil.
	Check func(drafts []Draft) []Problem
	// Fresh says that the tasks were not saved yet.
	Fresh bool
}

// New returns a run over the tasks of a tree, parents before their subtasks, as
// they were saved last. The first is the root.
func New(w Worker, tasks []*Task, opt Options) *Run {
	if opt.Parallel == 0 {
		opt.Parallel = 4
	}
	r := &Run{worker: w, parallel: opt.Parallel, check: opt.Check, all: tasks, byID: map[id.ID]*Task{}, active: map[id.ID]context.CancelCauseFunc{},
		ended: make(chan ended), orders: make(chan order), over: make(chan struct{})}
	for _, t := range tasks {
		r.byID[t.ID] = t
	}
	if opt.Fresh {
		r.changed = slices.Clone(tasks)
	}
	return r
}

// Work works through the tree. It returns nil when the root is over, the cause
// of ctx's end if that comes first, or the error of a change that could not be
// saved; in these two cases the tree goes on in a later Run.
func (r *Run) Work(ctx context.Context) error {
	defer close(r.over)
	work, cancel := context.WithCancelCause(ctx)
	var err error
	for err == nil {
		if err = r.advance(work); err != nil || r.all[0].State.Over() && len(r.active) == 0 {
			break
		}
		select {
		case e := <-r.ended:
			if delete(r.active, e.task.ID); ctx.Err() == nil {
				r.end(e)
			}
		case o := <-r.orders:
			o.answer <- r.execute(context.WithoutCancel(ctx), o)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	cancel(err)
	for len(r.active) > 0 { // what ends now is taken up again later
		e := <-r.ended
		delete(r.active, e.task.ID)
	}
	if ctx.Err() == nil {
		return err
	}
	return errors.Join(err, r.save(context.WithoutCancel(ctx)))
}

// advance begins everything that can begin now.
func (r *Run) advance(ctx context.Context) error {
	for again := true; again; {
		again = false
		for _, t := range r.all {
			again = r.step(t) || again
		}
	}
	var begin []*Task
	for _, t := range r.all {
		if r.active[t.ID] == nil && (r.works(t) || r.ready(t)) && len(r.active)+len(begin) < r.parallel {
			if t.State == Pending {
				r.move(t, Running)
			}
			begin = append(begin, t)
		}
	}
	if err := r.save(ctx); err != nil {
		return err
	}
	for _, t := range begin {
		r.begin(ctx, t)
	}
	return nil
}

// step makes the changes of a task that need no work. It reports whether there
// was one.
func (r *Run) step(t *Task) bool {
	parent := r.byID[t.Parent]
	switch {
	case t.State == Pending && (parent == nil || parent.State == Running) && r.isBlocked(t):
		for _, x := range append(r.below(t), t) {
			r.settle(x, Skipped, "task_skipped")
		}
		return true
	case t.Supervised() && r.ready(t):
		r.move(t, Running)
		return true
	case t.State == Running && r.needsSteering(t):
		t.Failing = id.ID{}
		r.changed = append(r.changed, t)
		return true
	case t.State == Running && t.Supervised() && t.Failing.Zero() && r.partsOver(t):
		t.Output = combineOutputs(r.parts(t))
		if t.Evaluation == "" && !r.fellShort(t) {
			r.settle(t, Done, "")
		} else {
			r.move(t, Judging)
		}
		return true
	}
	return false
}

// isBlocked reports whether a task cannot begin any more, because one that had to
// come before it is over and not done.
func (r *Run) isBlocked(t *Task) bool {
	return slices.ContainsFunc(t.After, func(x id.ID) bool {
		before := r.byID[x]
		return before != nil && before.State.Over() && before.State != Done
	})
}

// ready reports whether a pending task can begin.
func (r *Run) ready(t *Task) bool {
	parent := r.byID[t.Parent]
	return t.State == Pending && (parent == nil || parent.State == Running && parent.Failing.Zero()) &&
		!slices.ContainsFunc(t.After, func(x id.ID) bool { return r.byID[x] != nil && r.byID[x].State != Done })
}

// works reports whether a task needs somebody to work on it, to judge it, or to
// steer its subtasks.
func (r *Run) works(t *Task) bool {
	return t.State == Judging || t.State == Running && (!t.Supervised() || !t.Failing.Zero())
}

// begin starts the work on a task, the judging of it, or the steering of its
// subtasks.
func (r *Run) begin(ctx context.Context, t *Task) {
	ctx, cancel := context.WithCancelCause(ctx)
	if t.Time() > 0 && t.State == Running {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, t.Time(), errTime)
		context.AfterFunc(ctx, stop)
	}
	r.active[t.ID] = cancel
	work := r.work(*t, copies(r.parts(t)), copies(r.before(t))) // a worker never sees a task change
	go func() {
		defer cancel(nil)
		e := work(ctx)
		if e.err != nil && ctx.Err() != nil {
			e.err = context.Cause(ctx)
		}
		r.ended <- e
	}()
}

// work returns what is to be done about a task.
func (r *Run) work(t Task, parts, before []*Task) func(context.Context) ended {
	own := r.byID[t.ID]
	switch {
	case t.State == Judging:
		return func(ctx context.Context) ended {
			v, err := r.worker.Judge(ctx, &t, parts)
			return ended{own, err, 0, func(err error) { r.applyVerdict(own, v, err) }}
		}
	case t.Supervised():
		return func(ctx context.Context) ended {
			s, err := r.worker.Steer(ctx, &t, parts)
			return ended{own, err, 0, func(error) { r.applySteering(own, s) }}
		}
	}
	return func(ctx context.Context) ended {
		out, err := r.worker.Work(ctx, &t, before)
		return ended{own, err, out.Labels, func(err error) { r.finishWork(own, out, err) }}
	}
}

var errTime error = fault.New(fault.Exhausted, "task_time", "the time of the task is up")

// end takes the end of a piece of work.
func (r *Run) end(e ended) {
	t := e.task
	if errors.Is(e.err, errPaused) || errors.Is(e.err, errCancelled) || !r.works(t) { // its state says what was ordered
		t.Labels |= e.labels
		r.changed = append(r.changed, t)
		return
	}
	e.take(e.err)
}

// finishWork takes the output of a task.
func (r *Run) finishWork(t *Task, out Output, err error) {
	t.Output = out
	if len(out.Summary) > MaxSummary {
		t.Output.Whole = len(out.Summary)
	}
	t.Output.Summary = clip(t.Output.Summary, MaxSummary)
	switch {
	case err != nil:
		t.Output.Summary = clip(fault.Of(err).Message, MaxSummary)
		r.fail(t, fault.Of(err).Code)
	case t.Evaluation == "":
		r.settle(t, Done, "")
	default:
		r.move(t, Judging)
	}
}

// applyVerdict takes a verdict. A task that fell short is corrected: one that was worked
// on directly is done again with the reasons, and one with subtasks gets
// further ones. What could not be judged stands as it is, unless parts of it
// failed.
func (r *Run) applyVerdict(t *Task, v Verdict, err error) {
	if err != nil {
		v = Verdict{Achieved: !r.fellShort(t), Reasons: "not judged: " + fault.Of(err).Message}
		t.Rounds = MaxRounds
	}
	t.Verdict = clip(v.Reasons, MaxSummary)
	switch {
	case v.Achieved:
		r.settle(t, Done, "")
	case t.Rounds >= MaxRounds:
		r.fail(t, "task_fell_short")
	case !t.Supervised():
		t.Rounds++
		t.Attempt++
		r.move(t, Running)
	default:
		r.correct(t, v.Subtasks)
	}
}

// correct adds a round of corrective subtasks.
func (r *Run) correct(t *Task, drafts []Draft) {
	t.Rounds++
	flat := slices.ContainsFunc(drafts, func(d Draft) bool { return len(d.Subtasks) > 0 })
	if len(drafts) == 0 || flat || len(r.all)+len(drafts) > MaxTasks || r.check != nil && len(r.check(drafts)) > 0 {
		r.fail(t, "task_fell_short")
		return
	}
	for i := range drafts {
		c := drafts[i].task(childID(t.ID, t.Rounds, drafts[i].Name), t.ID, t.Rounds, t.Labels|t.Output.Labels)
		c.Order = len(r.all)
		r.all, r.byID[c.ID] = append(r.all, c), c
		r.changed = append(r.changed, c)
	}
	t.Children += len(drafts)
	r.move(t, Running)
}

// parts returns the subtasks of a task.
func (r *Run) parts(t *Task) []*Task {
	var out []*Task
	for _, c := range r.all {
		if c.Parent == t.ID && c != t {
			out = append(out, c)
		}
	}
	return out
}

// before returns the tasks whose outputs a task is given: those that it comes
// after and, in a round of corrections, those that were done in earlier rounds.
func (r *Run) before(t *Task) []*Task {
	var out []*Task
	for _, c := range r.all {
		if slices.Contains(t.After, c.ID) || t.Round > 0 && c.Parent == t.Parent && c.Round < t.Round && c.State == Done {
			out = append(out, c)
		}
	}
	return out
}

func (r *Run) partsOver(t *Task) bool {
	return !slices.ContainsFunc(r.parts(t), func(c *Task) bool { return !c.State.Over() })
}

// fellShort reports whether a subtask of the last round is not done.
func (r *Run) fellShort(t *Task) bool {
	return slices.ContainsFunc(r.parts(t), func(c *Task) bool { return c.Round == t.Rounds && c.State != Done })
}

// move changes the state of a task. An illegal change is a bug.
func (r *Run) move(t *Task, to State) {
	if !slices.Contains(Next(t.State), to) {
		panic("a task that is " + t.State + " cannot become " + to)
	}
	t.State = to
	if to == Running && t.StartedAt.IsZero() {
		t.StartedAt = now()
	}
	r.changed = append(r.changed, t)
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// settle ends a task.
func (r *Run) settle(t *Task, to State, code string) {
	r.move(t, to)
	t.Error, t.Failing = code, id.ID{}
	t.CompletedAt = now()
}

// save makes the changes since the last save durable.
func (r *Run) save(ctx context.Context) error {
	if len(r.changed) == 0 {
		return nil
	}
	var once []*Task
	for _, t := range r.changed {
		if !slices.Contains(once, t) {
			once = append(once, t)
		}
	}
	var over []*Task
	if r.all[0].State.Over() && len(r.active) == 0 {
		over = r.all
	}
	if err := r.worker.Save(ctx, once, over); err != nil {
		return err // the changes stay, for the next attempt
	}
	r.changed = nil
	return nil
}

// combineOutputs returns the outputs of subtasks as one.
func combineOutputs(parts []*Task) Output {
	var out Output
	var b strings.Builder
	for _, p := range parts {
		out.Labels |= p.Output.Labels
		b.WriteString("## " + p.Name + " (" + string(p.State) + ")\n" + p.Output.Summary + "\n\n")
	}
	out.Summary = clip(strings.TrimSpace(b.String()), MaxSummary)
	return out
}

// clip shortens a text to at most so many bytes.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len("…")], "") + "…"
}

func copies(tasks []*Task) []*Task {
	out := make([]*Task, len(tasks))
	for i, t := range tasks {
		c := *t
		out[i] = &c
	}
	return out
}
