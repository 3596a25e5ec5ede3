package plan_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/plan"
	_ "steward/test/seed"
)

// office is a worker whose agents do what a script says. It keeps what was
// saved, as the store would.
type office struct {
	mu     sync.Mutex
	saved  map[id.ID]plan.Task
	order  []id.ID // of the first save
	worked []string
	failed map[string]bool                                      // tasks that fail
	judges func(t *plan.Task, parts []*plan.Task) plan.Verdict  // nil: everything is achieved
	steers func(t *plan.Task, parts []*plan.Task) plan.Steering // nil: all go on as planned
	hold   map[string]chan struct{}                             // tasks that work until it is closed
	broken error                                                // of the next save
	over   int                                                  // tasks of the tree that is over
}

func (o *office) Save(_ context.Context, tasks, over []*plan.Task) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken != nil {
		return o.broken
	}
	if o.over > 0 {
		panic("something was saved after the tree was over")
	}
	o.over = len(over)
	if o.saved == nil {
		o.saved = map[id.ID]plan.Task{}
	}
	for _, t := range tasks {
		was, known := o.saved[t.ID]
		if known && was.State != t.State && !reachable(was.State, t.State) {
			panic(fmt.Sprintf("%s went from %s to %s", t.Name, was.State, t.State))
		}
		if !known {
			o.order = append(o.order, t.ID)
		}
		o.saved[t.ID] = *t
	}
	return nil
}

// reachable reports whether some legal transitions lead from one state to the other: several of
// them may be saved at once.
func reachable(from, to plan.State) bool {
	seen := []plan.State{from}
	for i := 0; i < len(seen); i++ {
		for _, s := range []plan.State{plan.Pending, plan.Running, plan.Judging, plan.Paused, plan.Done, plan.Failed, plan.Skipped, plan.Cancelled} {
			if slices.Contains(plan.Next(seen[i]), s) && !slices.Contains(seen, s) {
				seen = append(seen, s)
			}
		}
	}
	return slices.Contains(seen, to)
}

func (o *office) Work(ctx context.Context, t *plan.Task, before []*plan.Task) (plan.Output, error) {
	var given []string
	for _, b := range before {
		if b.State != plan.Done {
			panic(t.Name + " is given the output of " + b.Name + ", which is " + string(b.State))
		}
		given = append(given, b.Name)
	}
	o.mu.Lock()
	o.worked = append(o.worked, t.Name)
	hold, fails := o.hold[t.Name], o.failed[t.Name]
	o.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return plan.Output{}, context.Cause(ctx)
		}
	}
	if fails {
		return plan.Output{Labels: message.Untrusted}, fault.New(fault.Unavailable, "agent_failed", "it failed")
	}
	return plan.Output{Summary: t.Name + "<" + strings.Join(given, ","), Labels: t.Labels}, nil
}

func (o *office) Judge(_ context.Context, t *plan.Task, parts []*plan.Task) (plan.Verdict, error) {
	if o.judges == nil {
		return plan.Verdict{Achieved: true}, nil
	}
	return o.judges(t, parts), nil
}

func (o *office) Steer(_ context.Context, t *plan.Task, parts []*plan.Task) (plan.Steering, error) {
	o.mu.Lock()
	o.worked = append(o.worked, "steer "+t.Name)
	o.mu.Unlock()
	if o.steers == nil {
		return plan.Steering{}, errors.New("nobody steers")
	}
	return o.steers(t, parts), nil
}

// tasks returns what was saved, as a later run takes it up.
func (o *office) tasks() []*plan.Task {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []*plan.Task
	for _, x := range o.order {
		t := o.saved[x]
		t.ID = x
		out = append(out, &t)
	}
	return out
}

// cancelledAbove reports whether a task above a task was cancelled.
func (o *office) cancelledAbove(t *plan.Task) bool {
	above, ok := o.saved[t.Parent]
	return ok && above.State == plan.Cancelled
}

func (o *office) named(name string) *plan.Task {
	for _, t := range o.tasks() {
		if t.Name == name {
			return t
		}
	}
	return nil
}

func (o *office) times(name string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.worked {
		if w == name {
			n++
		}
	}
	return n
}

// open saves the tree of a draft.
func (o *office) open(tb rapid.TB, d plan.Draft) {
	if bad := plan.Check(&d, plan.World{}); bad != nil {
		tb.Fatalf("%+v", bad)
	}
	if err := o.Save(context.Background(), plan.Tree(id.Derive("root"), &d, message.Private), nil); err != nil {
		tb.Fatal(err)
	}
}

func step(name string, after ...string) plan.Draft {
	return plan.Draft{Name: name, Purpose: "do " + name, After: after}
}

func TestSiblingsRunInOrderAndInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &office{hold: map[string]chan struct{}{"weather": make(chan struct{}), "lodging": make(chan struct{})}}
		o.open(t, plan.Draft{Purpose: "a trip", Subtasks: []plan.Draft{step("weather"), step("lodging"), step("book", "lodging", "weather")}})
		r := plan.New(o, o.tasks(), plan.Options{})
		var err error
		go func() { err = r.Work(t.Context()) }()
		synctest.Wait()
		if o.times("weather") != 1 || o.times("lodging") != 1 || o.times("book") != 0 {
			t.Errorf("%v", o.worked)
		}
		close(o.hold["weather"])
		synctest.Wait()
		if o.times("book") != 0 {
			t.Error("book began before lodging was done")
		}
		close(o.hold["lodging"])
		synctest.Wait()
		root := o.named("request")
		if err != nil || root.State != plan.Done || root.CompletedAt.IsZero() || root.Output.Labels != message.Private {
			t.Errorf("%v: %+v", err, root)
		}
		if got := o.named("book").Output.Summary; got != "book<weather,lodging" {
			t.Errorf("book was given %q", got)
		}
	})
}

func TestAFailureSkipsWhatComesAfterIt(t *testing.T) {
	t.Parallel()
	o := &office{failed: map[string]bool{"a": true}}
	o.open(t, plan.Draft{Purpose: "x", Subtasks: []plan.Draft{step("a"), {Name: "b", Purpose: "b", After: []string{"a"}, Subtasks: []plan.Draft{step("c")}}, step("d")}})
	if err := plan.New(o, o.tasks(), plan.Options{}).Work(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]plan.State{"a": plan.Failed, "b": plan.Skipped, "c": plan.Skipped, "d": plan.Done} {
		if got := o.named(name).State; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	root := o.named("request")
	if root.State != plan.Done || !strings.Contains(root.Output.Summary, "## a (failed)\nit failed") { // the judge let it pass
		t.Errorf("%+v", root)
	}
}

func TestWhatFallsShortIsCorrected(t *testing.T) {
	t.Parallel()
	o := &office{judges: func(t *plan.Task, parts []*plan.Task) plan.Verdict {
		return plan.Verdict{Achieved: t.Rounds == 2, Reasons: fmt.Sprint("round ", t.Rounds), Subtasks: []plan.Draft{step("mend")}}
	}}
	sub := step("a")
	sub.Evaluation = "a is well done"
	o.open(t, plan.Draft{Purpose: "x", Evaluation: "all is well", Subtasks: []plan.Draft{sub}})
	check := func(all []plan.Draft) []plan.Problem {
		return plan.Check(&plan.Draft{Purpose: "x", Subtasks: all}, plan.World{})
	}
	if err := plan.New(o, o.tasks(), plan.Options{Check: check}).Work(t.Context()); err != nil {
		t.Fatal(err)
	}
	if root := o.named("request"); root.State != plan.Done || root.Rounds != 2 || root.Children != 3 || root.Verdict != "round 2" {
		t.Errorf("%+v", root)
	}
	if o.times("a") != 3 || o.times("mend") != 2 {
		t.Errorf("%v", o.worked)
	}
	if got := o.named("mend").Output.Summary; got != "mend<a" {
		t.Errorf("mend was given %q", got)
	}
}

func TestCorrectionsAreBounded(t *testing.T) {
	t.Parallel()
	for name, subtasks := range map[string][]plan.Draft{"for ever": {step("more")}, "none": nil, "nested": {{Name: "n", Purpose: "n", Subtasks: []plan.Draft{step("m")}}}, "wrong": {{Name: "w"}}} {
		o := &office{judges: func(*plan.Task, []*plan.Task) plan.Verdict { return plan.Verdict{Reasons: "no", Subtasks: subtasks} }}
		o.open(t, plan.Draft{Purpose: "x", Evaluation: "never", Subtasks: []plan.Draft{step("a")}})
		check := func(all []plan.Draft) []plan.Problem {
			return plan.Check(&plan.Draft{Purpose: "x", Subtasks: all}, plan.World{})
		}
		if err := plan.New(o, o.tasks(), plan.Options{Check: check}).Work(t.Context()); err != nil {
			t.Fatal(err)
		}
		if root := o.named("request"); root.State != plan.Failed || root.Error != "task_fell_short" || len(o.worked) > 1+plan.MaxRounds {
			t.Errorf("%s: %+v after %v", name, root, o.worked)
		}
	}
}

func TestOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &office{hold: map[string]chan struct{}{"a": make(chan struct{})}}
		o.open(t, plan.Draft{Purpose: "x", Subtasks: []plan.Draft{step("a"), step("b", "a")}})
		r := plan.New(o, o.tasks(), plan.Options{})
		go func() { _ = r.Work(t.Context()) }() // its end is what is looked at
		give := func(c plan.Command, name, code string, d *plan.Draft) {
			t.Helper()
			synctest.Wait()
			err := r.Order(t.Context(), c, o.named(name).ID, d)
			if (code == "") != (err == nil) || code != "" && !fault.HasCode(err, code) {
				t.Errorf("%s %s: %v, want %q", c, name, err, code)
			}
			synctest.Wait()
		}
		give(plan.Edit, "a", "task_transition_illegal", &plan.Draft{})
		give(plan.Edit, "b", "", &plan.Draft{Purpose: "edited"})
		give(plan.Pause, "request", "", nil)
		if a := o.named("a"); a.State != plan.Paused || o.named("b").Purpose != "edited" {
			t.Errorf("%+v", a)
		}
		give(plan.Pause, "a", "task_transition_illegal", nil)
		give(plan.Resume, "request", "", nil)
		if a := o.named("a"); a.State != plan.Running || o.times("a") != 2 {
			t.Errorf("%+v", a)
		}
		give(plan.Cancel, "b", "", nil)
		give(plan.Retry, "b", "", nil)
		give(plan.Retry, "a", "task_transition_illegal", nil)
		close(o.hold["a"])
		synctest.Wait()
		if o.named("request").State != plan.Done || o.named("b").State != plan.Done {
			t.Error(o.named("request"))
		}
		if err := r.Order(t.Context(), plan.Cancel, o.named("b").ID, nil); !fault.HasCode(err, "tree_over") {
			t.Error(err)
		}
		// A later run retries what failed.
		o.failed = map[string]bool{}
	})
}

// TestATreeIsTakenUpAgain: what was running goes on in the next run, however often it was put aside.
func TestATreeIsTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &office{hold: map[string]chan struct{}{"a": make(chan struct{})}}
		o.open(t, plan.Draft{Purpose: "x", Subtasks: []plan.Draft{step("a")}})
		suspended := errors.New("closing")
		for range 5 {
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { synctest.Wait(); cancel(suspended) }()
			if err := plan.New(o, o.tasks(), plan.Options{}).Work(ctx); !errors.Is(err, suspended) {
				t.Fatal(err)
			}
		}
		if a := o.named("a"); a.State != plan.Running || o.times("a") != 5 {
			t.Errorf("%+v", a)
		}
	})
}

func TestWhatCannotBeSavedDoesNotHappen(t *testing.T) {
	t.Parallel()
	o := &office{}
	o.open(t, plan.Draft{Purpose: "x", Subtasks: []plan.Draft{step("a")}})
	o.broken = errors.New("disk full")
	if err := plan.New(o, o.tasks(), plan.Options{}).Work(t.Context()); !errors.Is(err, o.broken) || len(o.worked) != 0 {
		t.Errorf("%v, %v", err, o.worked)
	}
}

// TestAFailureSteersTheOthers: after a subtask has failed, the task above cancels one that is being worked
// on and one that waits, and tells another one what it has to mind; nothing begins before that is decided.
func TestAFailureSteersTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &office{failed: map[string]bool{"bad": true}, hold: map[string]chan struct{}{"bad": make(chan struct{}), "slow": make(chan struct{}), "x": make(chan struct{})}}
		o.steers = func(p *plan.Task, parts []*plan.Task) plan.Steering {
			if len(parts) != 6 || p.Failing != parts[0].ID || parts[0].State != plan.Failed || parts[1].State != plan.Running || parts[3].State != plan.Pending || parts[5].State != plan.Skipped {
				t.Errorf("%+v", parts)
			}
			return plan.Steering{Orders: []plan.Steer{{Task: "slow", Cancel: true, Say: "no use"}, {Task: "Wait", Cancel: true, Say: "nor this"},
				{Task: "told", Say: "do without"}, {Task: "x", Say: "too late"}, {Task: "bad", Say: "over"}, {Task: "nobody", Cancel: true}}}
		}
		o.open(t, plan.Draft{Purpose: "x", Subtasks: []plan.Draft{step("bad"), step("slow"), step("x"), step("wait"), step("told"), step("after", "bad")}})
		go func() { _ = plan.New(o, o.tasks(), plan.Options{Parallel: 3}).Work(t.Context()) }() // its end is what is looked at
		synctest.Wait()
		close(o.hold["bad"])
		synctest.Wait()
		for name, want := range map[string][2]string{"slow": {"cancelled", "no use"}, "wait": {"cancelled", "nor this"}, "told": {"done", "do without"}, "x": {"running", ""}, "after": {"skipped", ""}} {
			if got := o.named(name); string(got.State) != want[0] || got.Told != want[1] {
				t.Errorf("%+v", got)
			}
		}
		if told, x := o.named("told").Output, o.named("x"); !told.Labels.Has(message.Untrusted) || x.Labels.Has(message.Untrusted) {
			t.Errorf("what is told has the labels of what had been read: %v, %v", told.Labels, x.Labels)
		}
		close(o.hold["x"])
		synctest.Wait()
		if root := o.named("request"); !root.Output.Labels.Has(message.Untrusted) || root.State != plan.Done || root.Steers != 1 || !root.Failing.Zero() {
			t.Errorf("%+v", root)
		}
	})
}

// TestSteeringIsBounded: it is done a few times for each task, not when nothing is left, and again after a crash.
func TestSteeringIsBounded(t *testing.T) {
	t.Parallel()
	o := &office{failed: map[string]bool{}}
	var all []plan.Draft
	for i := range 3 * plan.MaxSteers {
		all = append(all, step(fmt.Sprint("t", i)))
		o.failed[fmt.Sprint("t", i)] = true
	}
	o.open(t, plan.Draft{Purpose: "x", Subtasks: all})
	if err := plan.New(o, o.tasks(), plan.Options{Parallel: 1}).Work(t.Context()); err != nil {
		t.Fatal(err)
	}
	if root := o.named("request"); root.Steers != plan.MaxSteers || o.times("steer request") != plan.MaxSteers || !root.Failing.Zero() {
		t.Errorf("%+v, %v", root, o.worked)
	}
	one := &office{failed: map[string]bool{"a": true}}
	one.open(t, plan.Draft{Purpose: "x", Subtasks: []plan.Draft{step("a"), step("b", "a")}})
	if err := plan.New(one, one.tasks(), plan.Options{}).Work(t.Context()); err != nil || one.times("steer request") != 0 || !one.named("request").Failing.Zero() {
		t.Errorf("%v, %v", err, one.worked)
	}
	crashed := &office{}
	crashed.open(t, plan.Draft{Purpose: "x", Subtasks: []plan.Draft{step("a"), step("b")}})
	tasks := crashed.tasks()
	tasks[0].State, tasks[0].Failing, tasks[1].State = plan.Running, tasks[1].ID, plan.Failed
	if err := crashed.Save(t.Context(), tasks, nil); err != nil {
		t.Fatal(err)
	}
	crashed.steers = func(*plan.Task, []*plan.Task) plan.Steering {
		return plan.Steering{Orders: []plan.Steer{{Task: "b", Cancel: true, Say: "why"}}}
	}
	if err := plan.New(crashed, crashed.tasks(), plan.Options{}).Work(t.Context()); err != nil || crashed.named("b").State != plan.Cancelled || crashed.times("b") != 0 {
		t.Errorf("%v, %v", err, crashed.worked)
	}
}

// TestTreesEnd works through random trees, whose work fails at random, whose judges want
// corrections at random, and which are interrupted at random.
func TestTreesEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		names := 0
		var draft func(depth int) plan.Draft
		draft = func(depth int) plan.Draft {
			names++
			d := step(fmt.Sprint("t", names))
			if rapid.Bool().Draw(rt, "evaluated") {
				d.Evaluation = "well"
			}
			if depth < 3 {
				for i := range rapid.IntRange(0, 3).Draw(rt, "subtasks") {
					c := draft(depth + 1)
					if i > 0 && rapid.Bool().Draw(rt, "after") {
						c.After = []string{d.Subtasks[rapid.IntRange(0, i-1).Draw(rt, "which")].Name}
					}
					d.Subtasks = append(d.Subtasks, c)
				}
			}
			return d
		}
		o := &office{failed: map[string]bool{}}
		o.open(rt, draft(0))
		for i := range names {
			o.failed[fmt.Sprint("t", i+1)] = rapid.IntRange(0, 4).Draw(rt, "fails") == 0
		}
		verdicts := rapid.SliceOfN(rapid.Bool(), 8, 8).Draw(rt, "verdicts")
		o.judges = func(t *plan.Task, _ []*plan.Task) plan.Verdict {
			return plan.Verdict{Achieved: verdicts[(len(t.Name)+t.Rounds)%8], Reasons: "r", Subtasks: []plan.Draft{step("mend_" + t.Name)}}
		}
		cancels := rapid.SliceOfN(rapid.Bool(), 8, 8).Draw(rt, "cancels")
		o.steers = func(p *plan.Task, parts []*plan.Task) (s plan.Steering) {
			for i, x := range parts {
				if x.State == plan.Pending && p.State != plan.Running {
					rt.Errorf("%s is %s and steers", p.Name, p.State)
				}
				s.Orders = append(s.Orders, plan.Steer{Task: x.Name, Cancel: cancels[i%8], Say: "so"})
			}
			return s
		}
		for !o.tasks()[0].State.Over() {
			ctx, cancel := context.WithCancel(context.Background())
			if rapid.Bool().Draw(rt, "interrupted") {
				cancel()
			}
			err := plan.New(o, o.tasks(), plan.Options{Parallel: 2}).Work(ctx)
			cancel()
			if err != nil && !errors.Is(err, context.Canceled) {
				rt.Fatal(err)
			}
		}
		if o.over != len(o.tasks()) {
			rt.Errorf("the last save knew of %d tasks of %d", o.over, len(o.tasks()))
		}
		for _, x := range o.tasks() {
			switch {
			case !x.State.Over():
				rt.Errorf("%s is still %s", x.Name, x.State)
			case x.State == plan.Done && !x.Supervised() && o.times(x.Name) == 0:
				rt.Errorf("%s is done, and nobody worked on it", x.Name)
			case x.State == plan.Skipped && o.times(x.Name) > 0:
				rt.Errorf("%s was skipped after it was worked on", x.Name)
			case x.Steers > plan.MaxSteers || !x.Failing.Zero() || o.times("steer "+x.Name) > 0 && !x.Supervised():
				rt.Errorf("%s was steered %d times: %+v", x.Name, x.Steers, x)
			case x.State == plan.Cancelled && x.Told == "" && !o.cancelledAbove(x):
				rt.Errorf("%s was cancelled without a reason", x.Name)
			}
		}
	})
}

// What tasks carry out is the plan that they were made from, until a task is edited.
func TestCarriedIsWhatWasPlanned(t *testing.T) {
	d := plan.Draft{Purpose: "all", Plan: "p", Confidence: 1, Subtasks: []plan.Draft{
		{Name: "a", Purpose: "first", Tools: []string{"time.now"}},
		{Name: "b", Purpose: "second", After: []string{"a"}, Subtasks: []plan.Draft{{Name: "a", Purpose: "inner"}, {Name: "c", After: []string{"a"}}}},
	}}
	if got := plan.Carried(plan.Tree(id.New(), &d, 0)); !reflect.DeepEqual(got, d) {
		t.Errorf("%+v, want %+v", got, d)
	}
}
