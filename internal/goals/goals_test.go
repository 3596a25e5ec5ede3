package goals

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	_ "steward/test/seed"
)

// world is an engine over a real database, with a clock that a test sets.
type world struct {
	*Engine
	t     *testing.T
	st    store.Store
	now   time.Time
	tasks map[string]client.EffortTask
}

func newWorld(t *testing.T) *world {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: t.TempDir() + "/db"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	zone, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, st: st, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), tasks: map[string]client.EffortTask{}}
	w.Engine = New(Options{Store: st, Tasks: w, Now: func() time.Time { return w.now }, Zone: func(string) *time.Location { return zone },
		Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[masked]") }})
	return w
}

// Find and Count implement Tasks.
func (w *world) Find(_ context.Context, _, which string) (resource.URI, error) {
	if _, ok := w.tasks[which]; !ok {
		return resource.URI{}, fault.New(fault.NotFound, "task_not_found", "no task")
	}
	return resource.Parse(which)
}

func (w *world) Count(_ context.Context, _ string, at resource.URI) (client.EffortTask, error) {
	t, ok := w.tasks[at.String()]
	t.URI = at.String()
	if !ok {
		t.State = "missing"
	}
	return t, nil
}

func (w *world) must(f record.Effort, err error) record.Effort {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

func (w *world) add(kind, title string, c client.EffortChange) record.Effort {
	w.t.Helper()
	c.Title = &title
	return w.must(w.Create(w.t.Context(), "ann", kind, c, byUser()))
}

func (w *world) change(which string, c client.EffortChange) record.Effort {
	w.t.Helper()
	f := w.must(w.Get(w.t.Context(), "ann", "", which))
	return w.must(w.Change(w.t.Context(), "ann", f.Kind, f.ID.String(), c, byUser()))
}

func byUser() record.EffortAuthor { return record.EffortAuthor{Call: id.New(), Actor: "user"} }

func to[T any](v T) *T { return &v }

func TestGoalWithProject(t *testing.T) {
	w := newWorld(t)
	w.add(record.KindGoal, "Learn Italian", client.EffortChange{Criteria: &[]string{"Read a novel"}, Importance: to(0.8), Category: to("learning"), Due: to("2027-06-30")})
	w.add(record.KindProject, "Evening course", client.EffortChange{Goal: to("italian"), Next: []string{"Ask for the dates"}})
	w.change("course", client.EffortChange{Milestones: []client.NewMilestone{{Title: "Pass A2", Due: "2026-02-28"}, {Title: "Pass B1"}}})
	w.change("course", client.EffortChange{Reached: []string{"a2"}, Next: []string{"Book the exam", "Buy the book"}, Done: []string{"1"}})

	show := func(which string) client.Effort {
		f := w.must(w.Get(t.Context(), "ann", "", which))
		v, _, err := w.View(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	p := show("course")
	if p.Progress != 0.5 || p.GoalTitle != "Learn Italian" || !slices.Equal(p.Next, []string{"Book the exam", "Buy the book"}) || p.Steps[0].Reached.IsZero() || !p.Steps[1].Reached.IsZero() {
		t.Errorf("%+v", p)
	}
	if g := show("italian"); g.Progress != 0.5 || len(g.Projects) != 1 || g.Related[0] != p.ID || g.Importance != 0.8 || g.Criteria[0] != "Read a novel" {
		t.Errorf("%+v", g)
	}
	w.change("course", client.EffortChange{Progress: &client.NewProgress{Summary: "Finished unit 4", Percent: to(20.0)}})
	if g := show("italian"); g.Progress != 0.2 {
		t.Errorf("a recorded progress counts before milestones: %v", g.Progress)
	}
	if p := show("course"); len(p.Notes) != 1 || *p.Notes[0].Percent != 20 || p.LastChange != "progress 20 %: Finished unit 4" {
		t.Errorf("%+v", p)
	}
	f := w.change("course", client.EffortChange{Status: to("archived")})
	if f.Ended.IsZero() || !f.Over() {
		t.Errorf("%+v", f)
	}
	if f := w.change("course", client.EffortChange{Status: to("active")}); !f.Ended.IsZero() {
		t.Errorf("%+v", f)
	}
	// A removed goal leaves its projects, and nothing of itself in the log.
	if _, err := w.Remove(t.Context(), "ann", record.KindGoal, "italian"); err != nil {
		t.Fatal(err)
	}
	if p := show("course"); p.GoalTitle != "" {
		t.Errorf("%+v", p)
	}
	page, err := w.st.Log(t.Context(), store.ForUser("ann"), store.LogQuery{Type: record.TypeGoal})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if e.Body != nil {
			t.Errorf("the log still has %s", e.Body)
		}
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.add(record.KindGoal, "Learn Italian", client.EffortChange{})
	w.add(record.KindGoal, "Learn Latin", client.EffortChange{})
	w.add(record.KindProject, "Evening course", client.EffortChange{Next: []string{"Book", "Book again"}})
	long := strings.Repeat("x", maxText+1)
	for _, c := range []struct {
		kind, which string
		change      client.EffortChange
		code        string
	}{
		{record.KindGoal, "learn", client.EffortChange{Status: to("paused")}, "goal_ambiguous"},
		{record.KindGoal, "course", client.EffortChange{Status: to("paused")}, "goal_not_found"},
		{record.KindProject, "nothing", client.EffortChange{}, "project_not_found"},
		{record.KindProject, "course", client.EffortChange{}, "effort_invalid"},
		{record.KindProject, "course", client.EffortChange{Title: to(" ")}, "effort_invalid"},
		{record.KindProject, "course", client.EffortChange{Title: &long}, "effort_invalid"},
		{record.KindProject, "course", client.EffortChange{Description: &long}, "effort_invalid"},
		{record.KindProject, "course", client.EffortChange{Due: to("soon")}, "time_invalid"},
		{record.KindProject, "course", client.EffortChange{Status: to("open")}, "status_invalid"},
		{record.KindProject, "course", client.EffortChange{Importance: to(0.5)}, "effort_invalid"},
		{record.KindProject, "course", client.EffortChange{Goal: to("greek")}, "goal_not_found"},
		{record.KindProject, "course", client.EffortChange{Done: []string{"3"}}, "action_not_found"},
		{record.KindProject, "course", client.EffortChange{Done: []string{"boo"}}, "action_ambiguous"},
		{record.KindProject, "course", client.EffortChange{Reached: []string{"1"}}, "milestone_not_found"},
		{record.KindProject, "course", client.EffortChange{Progress: &client.NewProgress{}}, "effort_invalid"},
		{record.KindProject, "course", client.EffortChange{Progress: &client.NewProgress{Percent: to(101.0)}}, "effort_invalid"},
		{record.KindProject, "course", client.EffortChange{Next: slices.Repeat([]string{"a b"}, maxList)[:1], Milestones: make([]client.NewMilestone, 1)}, "effort_invalid"},
		{record.KindProject, "course", client.EffortChange{Tasks: []string{"x"}}, "task_not_found"},
		{record.KindProject, "course", client.EffortChange{Untask: []string{"x"}}, "task_not_found"},
		{record.KindGoal, "italian", client.EffortChange{Status: to("archived")}, "status_invalid"},
		{record.KindGoal, "italian", client.EffortChange{Importance: to(1.5)}, "effort_invalid"},
		{record.KindGoal, "italian", client.EffortChange{Goal: to("latin")}, "effort_invalid"},
		{record.KindGoal, "italian", client.EffortChange{Criteria: to(slices.Repeat([]string{"x"}, maxList+1))}, "effort_full"},
	} {
		if _, err := w.Change(t.Context(), "ann", c.kind, c.which, c.change, byUser()); !fault.HasCode(err, c.code) {
			t.Errorf("%+v: %v, want %s", c.change, err, c.code)
		}
	}
	if _, err := w.Create(t.Context(), "ann", record.KindGoal, client.EffortChange{Title: to("learn italian")}, byUser()); !fault.HasCode(err, "goal_exists") {
		t.Error(err)
	}
	if _, err := w.Create(t.Context(), "ann", record.KindGoal, client.EffortChange{}, byUser()); !fault.HasCode(err, "effort_invalid") {
		t.Error(err)
	}
	// What is refused changes nothing, also not in part.
	if _, err := w.Change(t.Context(), "ann", record.KindProject, "course", client.EffortChange{Next: []string{"x"}, Due: to("soon")}, byUser()); err == nil {
		t.Error("an invalid day was accepted")
	}
	if f := w.must(w.Get(t.Context(), "ann", "", "course")); len(f.History) != 1 || len(f.Next) != 2 {
		t.Errorf("%+v", f)
	}
}

// What belongs to one user does not exist for another.
func TestOwners(t *testing.T) {
	w := newWorld(t)
	f := w.add(record.KindGoal, "Learn Italian", client.EffortChange{})
	for _, which := range []string{"italian", f.ID.String(), f.URI().String()} {
		if _, err := w.Get(t.Context(), "bob", "", which); !fault.HasCode(err, "goal_not_found") {
			t.Error(err)
		}
		if _, err := w.Remove(t.Context(), "bob", record.KindGoal, which); !fault.HasCode(err, "goal_not_found") {
			t.Error(err)
		}
	}
	if _, err := w.Create(t.Context(), "bob", record.KindProject, client.EffortChange{Title: to("Course"), Goal: to(f.ID.String())}, byUser()); !fault.HasCode(err, "goal_not_found") {
		t.Error(err)
	}
	c, _, err := w.Changes(t.Context(), "bob", time.Time{})
	if err != nil || c.News {
		t.Errorf("%+v %v", c, err)
	}
}

// The texts of an effort are masked, and its labels grow with everything that its texts come from.
func TestSecretsAndLabels(t *testing.T) {
	w := newWorld(t)
	const key = "the key is hunter2"
	w.add(record.KindGoal, "Goal "+key, client.EffortChange{Description: to(key), Category: to(key), Criteria: &[]string{key}})
	w.add(record.KindProject, "Course", client.EffortChange{Next: []string{key}, Milestones: []client.NewMilestone{{Title: key}}})
	f := w.must(w.Change(t.Context(), "ann", record.KindProject, "course", client.EffortChange{Progress: &client.NewProgress{Summary: key}},
		record.EffortAuthor{Call: id.New(), Actor: "agent:assistant", Labels: message.Untrusted, Sources: []string{"mail"}}))
	if f.Labels != message.Untrusted || !slices.Equal(f.Sources, []string{"mail"}) || f.Notes[0].Labels != message.Untrusted {
		t.Errorf("%+v", f)
	}
	f = w.change("course", client.EffortChange{Title: to("Evening course")})
	if f.Labels != message.Untrusted {
		t.Errorf("a person's change took labels off: %v", f.Labels)
	}
	goal := w.must(w.Get(t.Context(), "ann", record.KindGoal, "key"))
	if goal.Labels != 0 {
		t.Errorf("%v", goal.Labels)
	}
	// A goal that shows an untrusted project is untrusted to whoever sees it, and the project learns the goal's labels.
	w.change("course", client.EffortChange{Goal: to(goal.ID.String())})
	if _, labels, err := w.View(t.Context(), goal); err != nil || !labels.Has(message.Untrusted) {
		t.Error(labels, err)
	}
	page, err := w.st.Log(t.Context(), store.ForUser("ann"), store.LogQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if strings.Contains(string(e.Body), "hunter2") {
			t.Errorf("%s", e.Body)
		}
	}
}

// A repeated call changes nothing, and its change can be undone unless another one came after it.
func TestRepeatAndUndo(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	first, second, third, undo := byUser(), byUser(), byUser(), id.New()
	for range 2 {
		w.must(w.Create(ctx, "ann", record.KindProject, client.EffortChange{Title: to("Course")}, first))
		w.must(w.Change(ctx, "ann", record.KindProject, "course", client.EffortChange{Next: []string{"Book"}}, second))
	}
	f := w.must(w.Change(ctx, "ann", record.KindProject, "course", client.EffortChange{Title: to("Classes")}, third))
	if len(f.History) != 3 {
		t.Errorf("%+v", f.History)
	}
	if _, err := w.Undo(ctx, "ann", second.Call, undo); !fault.HasCode(err, "changed_since") {
		t.Error(err)
	}
	for range 2 {
		f := w.must(w.Undo(ctx, "ann", third.Call, undo))
		if f.Title != "Course" || !slices.Equal(f.Next, []string{"Book"}) || len(f.History) != 4 {
			t.Errorf("%+v", f)
		}
	}
	if f, c, err := w.ChangedBy(ctx, "ann", third.Call); err != nil || f.Title != "Course" || c.What != `renamed from "Course"` {
		t.Errorf("%+v %+v %v", f, c, err)
	}
	last := byUser()
	w.must(w.Create(ctx, "ann", record.KindGoal, client.EffortChange{Title: to("Rest")}, last))
	if _, err := w.Undo(ctx, "ann", last.Call, id.New()); err != nil {
		t.Error(err)
	}
	if _, err := w.Get(ctx, "ann", "", "rest"); !fault.HasCode(err, "goal_not_found") {
		t.Error(err)
	}
	if _, err := w.Undo(ctx, "ann", last.Call, id.New()); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// Concurrent changes are all kept.
func TestConcurrentChanges(t *testing.T) {
	w := newWorld(t)
	w.add(record.KindProject, "Course", client.EffortChange{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := w.Change(t.Context(), "ann", record.KindProject, "course", client.EffortChange{Next: []string{fmt.Sprintf("action %d", i)}}, byUser()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if f := w.must(w.Get(t.Context(), "ann", "", "course")); len(f.Next) != 8 || len(f.History) != 9 {
		t.Errorf("%+v", f)
	}
}

func TestTasks(t *testing.T) {
	w := newWorld(t)
	uri := "cld:common.Conversation." + id.New().String() + "/plan.Task." + id.New().String()
	w.tasks[uri] = client.EffortTask{Title: "Find lodging", State: "running", Open: 2, Done: 1}
	w.add(record.KindGoal, "Trip", client.EffortChange{Tasks: []string{uri, uri}})
	list, err := w.List(t.Context(), "ann", record.KindGoal, "open")
	if err != nil {
		t.Fatal(err)
	}
	views, labels, err := w.Views(t.Context(), "ann", list)
	if err != nil || len(views) != 1 || len(views[0].Tasks) != 1 || views[0].TasksOpen != 2 || views[0].TasksDone != 1 || !labels.Has(message.Untrusted) {
		t.Errorf("%+v %v %v", views, labels, err)
	}
	delete(w.tasks, uri)
	v, _, err := w.View(t.Context(), list[0])
	if err != nil || v.Tasks[0].State != "missing" {
		t.Errorf("%+v %v", v, err)
	}
	if f := w.change("trip", client.EffortChange{Untask: []string{uri}}); len(f.Tasks) != 0 { // also if it was deleted
		t.Errorf("%+v", f)
	}
}

// Each thing is news once: when it is changed, when it becomes overdue in the user's time zone, and when it
// stalls.
func TestChanges(t *testing.T) {
	w := newWorld(t)
	day := func(n int) time.Time { return time.Date(2026, 3, 1+n, 12, 0, 0, 0, time.UTC) }
	at := func(n int, since time.Time) string {
		w.now = day(n)
		c, _, err := w.Changes(t.Context(), "ann", since)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		if c.News {
			out = append(out, "news")
		}
		for _, e := range slices.Concat(c.Created, c.Progressed, c.Ended) {
			out = append(out, e.Title+": "+e.What)
		}
		for _, d := range c.Overdue {
			out = append(out, fmt.Sprintf("%s %s overdue %t", d.Title, d.Milestone, d.New))
		}
		for _, r := range c.NoNext {
			out = append(out, r.Title+" has no next action")
		}
		for _, s := range c.Stalled {
			out = append(out, fmt.Sprintf("%s stalled %t", s.Title, s.New))
		}
		return strings.Join(out, "; ")
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	want(at(0, day(-1)), "")
	w.add(record.KindGoal, "Italian", client.EffortChange{})
	w.add(record.KindProject, "Course", client.EffortChange{Goal: to("italian"), Next: []string{"Book"}, Milestones: []client.NewMilestone{{Title: "A2", Due: "2026-03-03"}}})
	want(at(0, day(-1)), `news; Italian: created; Course: created; belongs to the goal "Italian"; milestone: A2; next action: Book`)
	want(at(1, day(0)), "")
	want(at(2, day(1)), "")
	want(at(3, day(2)), "news; Course A2 overdue true")
	want(at(4, day(3)), "Course A2 overdue false")
	w.now = day(4)
	w.change("course", client.EffortChange{Reached: []string{"a2"}, Done: []string{"book"}})
	want(at(5, day(4).Add(-time.Hour)), "news; Course: milestone reached: A2; done: Book; Italian has no next action; Course has no next action")
	w.change("italian", client.EffortChange{Status: to("paused")}) // on day 5
	want(at(18, day(17)), "news; Course has no next action; Course stalled true")
	want(at(19, day(18)), "Course has no next action; Course stalled false")
	w.change("course", client.EffortChange{Status: to("completed")})
	want(at(20, day(18)), "news; Course: completed")
	want(at(60, day(20)), "")

	// The day ends at midnight in Vienna, which is an hour before midnight in UTC.
	w.add(record.KindProject, "Taxes", client.EffortChange{Due: to("2026-04-30"), Next: []string{"Begin"}})
	w.now = time.Date(2026, 4, 30, 21, 59, 0, 0, time.UTC)
	if c, _, err := w.Changes(t.Context(), "ann", w.now.Add(-time.Minute)); err != nil || len(c.Overdue) != 0 {
		t.Errorf("%+v %v", c, err)
	}
	w.now = time.Date(2026, 4, 30, 22, 1, 0, 0, time.UTC)
	if c, _, err := w.Changes(t.Context(), "ann", w.now.Add(-2*time.Minute)); err != nil || len(c.Overdue) != 1 || !c.News {
		t.Errorf("%+v %v", c, err)
	}
}

// Each thing is told in one of the windows that follow each other, wherever they are cut, and what the user
// has done is not told.
func TestNews(t *testing.T) {
	w := newWorld(t)
	start := w.now
	w.add(record.KindGoal, "Italian", client.EffortChange{Due: to("2026-03-20")})
	w.add(record.KindProject, "Course", client.EffortChange{Goal: to("italian"), Next: []string{"Book"}, Milestones: []client.NewMilestone{{Title: "A2", Due: "2026-03-29"}}}) // the clocks change on this day
	w.add(record.KindProject, "Idle", client.EffortChange{})
	for i := range 3 {
		w.now = start.Add(time.Duration(i+1) * 31 * time.Hour)
		by := record.EffortAuthor{Call: id.New(), Actor: "agent:assistant"}
		w.must(w.Change(t.Context(), "ann", record.KindProject, "course", client.EffortChange{Progress: &client.NewProgress{Summary: fmt.Sprintf("unit %d", i)}}, by))
	}
	end := start.AddDate(0, 3, 0)
	told := func(since, until time.Time) (out []string) {
		list, err := w.News(t.Context(), "ann", since, until)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list {
			if !n.At.After(since) || n.At.After(until) || !strings.HasPrefix(n.URI, "cld:goals.") {
				t.Errorf("%+v is not between %s and %s", n, since, until)
			}
			out = append(out, n.Text)
		}
		return out
	}
	all := told(start, end)
	if want := []string{"Project Course: progress: unit 0", "Project Course: progress: unit 1", "Project Course: progress: unit 2", "Project Idle: no change since 2026-03-01",
		"Project Course: no change since 2026-03-05", "Goal Italian: it was due on 2026-03-20", "Project Course: the milestone A2 was due on 2026-03-29", "Goal Italian: no change since 2026-03-05"}; !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
	rapid.Check(t, func(rt *rapid.T) {
		cuts := rapid.SliceOfN(rapid.Int64Range(0, int64(end.Sub(start)/time.Minute)), 0, 20).Draw(rt, "cuts")
		slices.Sort(cuts)
		var got []string
		since := start
		for _, cut := range cuts {
			until := start.Add(time.Duration(cut) * time.Minute)
			got, since = append(got, told(since, until)...), until
		}
		if got = append(got, told(since, end)...); !slices.Equal(got, all) {
			rt.Fatalf("%q", got)
		}
	})
}

// Whatever happens, an effort stays within its bounds, its body can be read again, and each call is in its
// history once.
func TestRandomChanges(t *testing.T) {
	w := newWorld(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		user := fmt.Sprintf("user%d", n)
		texts := rapid.StringN(0, 20, -1)
		some := func(name string) []string { return rapid.SliceOfN(texts, 0, 2).Draw(rt, name) }
		var calls []record.EffortAuthor
		kind := rapid.SampledFrom([]string{record.KindGoal, record.KindProject}).Draw(rt, "kind")
		f, err := w.Create(t.Context(), user, kind, client.EffortChange{Title: to("Thing")}, byUser())
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			by := byUser()
			if len(calls) > 0 && rapid.Bool().Draw(rt, "again") {
				by = rapid.SampledFrom(calls).Draw(rt, "call")
			}
			c := client.EffortChange{Next: some("next"), Done: some("done"), Reached: some("reached"), Description: to(texts.Draw(rt, "description"))}
			for _, title := range some("milestones") {
				c.Milestones = append(c.Milestones, client.NewMilestone{Title: title})
			}
			if rapid.Bool().Draw(rt, "status") {
				c.Status = to(rapid.SampledFrom([]string{"active", "paused", "completed", "dropped", "x"}).Draw(rt, "to"))
			}
			if rapid.Bool().Draw(rt, "progress") {
				c.Progress = &client.NewProgress{Summary: texts.Draw(rt, "summary"), Percent: to(rapid.Float64Range(-1, 101).Draw(rt, "percent"))}
			}
			got, err := w.Change(t.Context(), user, kind, f.ID.String(), c, by)
			if err != nil {
				if fault.Is(err, fault.Internal) {
					rt.Fatal(err)
				}
				continue
			}
			calls = append(calls, by)
			if got.Over() == got.Ended.IsZero() || len(got.Next) > maxList || len(got.Milestones) > maxList {
				rt.Fatalf("%+v", got)
			}
		}
		got, err := w.Get(t.Context(), user, kind, f.ID.String())
		if err != nil {
			rt.Fatal(err)
		}
		seen := map[id.ID]bool{}
		for _, h := range got.History {
			if seen[h.By] {
				rt.Fatalf("%s is there twice", h.By)
			}
			seen[h.By] = true
		}
		if _, _, err := w.View(t.Context(), got); err != nil {
			rt.Fatal(err)
		}
	})
}

// An effort with as much in it as is allowed is bounded.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	f := w.add(record.KindProject, "Course", client.EffortChange{})
	for i := range maxNotes + 5 {
		f = w.change("course", client.EffortChange{Progress: &client.NewProgress{Summary: fmt.Sprintf("note %d", i)}})
	}
	if len(f.Notes) != maxNotes || f.Notes[maxNotes-1].Summary != "note 104" || len(f.History) != maxHistory {
		t.Errorf("%d notes, %d changes", len(f.Notes), len(f.History))
	}
	if b, err := json.Marshal(f); err != nil || len(b) > 100<<10 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
