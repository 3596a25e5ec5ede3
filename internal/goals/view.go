package goals

import (
	"cmp"
	"context"
	"slices"
	"time"

	"steward/client"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
)

// After how long without a change an active effort has stalled.
const (
	projectStalls = 14 * 24 * time.Hour
	goalStalls    = 30 * 24 * time.Hour
)

// Views shows efforts of a user in short: with the projects of goals, the goals of projects, and their
// newest progress note.
func (e *Engine) Views(ctx context.Context, user string, list []record.Effort) ([]client.Effort, message.Labels, error) {
	all, err := e.all(ctx, user, "")
	if err != nil {
		return nil, 0, err
	}
	var labels message.Labels
	out := []client.Effort{}
	for i := range list {
		v, l, err := e.view(ctx, &list[i], all)
		if err != nil {
			return nil, 0, err
		}
		v.Notes = v.Notes[:min(len(v.Notes), 1)]
		labels |= l
		out = append(out, v)
	}
	return out, labels, nil
}

// View shows an effort, a goal with its projects. The labels are those of everything in it.
func (e *Engine) View(ctx context.Context, f record.Effort) (client.Effort, message.Labels, error) {
	all, err := e.all(ctx, f.User, "")
	if err != nil {
		return client.Effort{}, 0, err
	}
	v, labels, err := e.view(ctx, &f, all)
	for i := range all {
		if p := &all[i]; f.Kind == record.KindGoal && p.Goal == f.ID && err == nil {
			var pv client.Effort
			pv, _, err = e.view(ctx, p, all)
			pv.Notes, pv.Tasks = nil, nil
			labels |= p.Labels
			v.Projects = append(v.Projects, pv)
		}
	}
	return v, labels, err
}

// view shows an effort among all of its user's.
func (e *Engine) view(ctx context.Context, f *record.Effort, all []record.Effort) (client.Effort, message.Labels, error) {
	today := e.today(f.User, e.now())
	late := func(due string, open bool) bool { return open && due != "" && due < today }
	labels := f.Labels
	v := client.Effort{ID: f.ID.String(), URI: f.URI().String(), Kind: f.Kind, Title: f.Title, Description: f.Description, Status: f.Status, Due: f.Due, Overdue: late(f.Due, !f.Over()),
		Progress: progressOf(f, all), Created: f.Created, Changed: f.Changed, Ended: f.Ended, Category: f.Category, Criteria: f.Criteria, Importance: f.Importance, Next: f.Next}
	if n := len(f.History); n > 0 {
		v.LastChange = f.History[n-1].What
	}
	for _, m := range f.Milestones {
		v.Steps = append(v.Steps, client.Milestone{Title: m.Title, Due: m.Due, Overdue: late(m.Due, !f.Over() && m.Reached.IsZero()), Reached: m.Reached})
	}
	for _, n := range slices.Backward(f.Notes) {
		note := client.ProgressNote{At: n.At, Summary: n.Summary}
		if n.Progress != nil {
			percent := *n.Progress * 100
			note.Percent = &percent
		}
		v.Notes = append(v.Notes, note)
	}
	for i := range all {
		switch o := &all[i]; {
		case f.Kind == record.KindGoal && o.Kind == record.KindProject && o.Goal == f.ID:
			v.Related = append(v.Related, o.ID.String())
		case f.Kind == record.KindProject && o.Kind == record.KindGoal && o.ID == f.Goal:
			v.GoalID, v.GoalTitle = o.ID.String(), o.Title
			labels |= o.Labels
		}
	}
	for _, uri := range f.Tasks {
		t := client.EffortTask{URI: uri, State: "missing"}
		at, err := resource.Parse(uri)
		if err == nil && e.opt.Tasks != nil {
			if t, err = e.opt.Tasks.Count(ctx, f.User, at); err != nil {
				return v, labels, err
			}
			labels |= message.Untrusted // a plan's text may come from anybody
		}
		v.Tasks, v.TasksOpen, v.TasksDone = append(v.Tasks, t), v.TasksOpen+t.Open, v.TasksDone+t.Done
	}
	v.Labels = labels.Names()
	return v, labels, nil
}

// progressOf returns the progress that was last recorded for an effort; if none was, that of a goal's
// projects or of the milestones.
func progressOf(f *record.Effort, all []record.Effort) float64 {
	switch {
	case f.Progress != nil:
		return *f.Progress
	case f.Status == record.EffortCompleted:
		return 1
	}
	var sum, n float64
	for i := range all {
		p := &all[i]
		if f.Kind == record.KindGoal && p.Kind == record.KindProject && p.Goal == f.ID && p.Status != record.EffortDropped {
			sum, n = sum+progressOf(p, nil), n+1
		}
	}
	if n == 0 {
		for _, m := range f.Milestones {
			if n++; !m.Reached.IsZero() {
				sum++
			}
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

func stallsAfter(kind string) time.Duration {
	if kind == record.KindGoal {
		return goalStalls
	}
	return projectStalls
}

// lastChange returns when an effort, or a project of a goal, was last changed.
func lastChange(f *record.Effort, all []record.Effort) time.Time {
	last := f.Changed
	for i := range all {
		if p := &all[i]; f.Kind == record.KindGoal && p.Kind == record.KindProject && p.Goal == f.ID && p.Changed.After(last) {
			last = p.Changed
		}
	}
	return last
}

// today returns the day of a time in the user's time zone.
func (e *Engine) today(user string, at time.Time) string {
	return at.In(e.local.Location(user)).Format(time.DateOnly)
}

// Changes says what has become of a user's efforts after a time, and what needs attention now. It calls
// no model and changes nothing. Nothing in it is news exactly if nothing was changed since, and nothing
// has become overdue or has stalled since. The labels are those of all texts in it.
func (e *Engine) Changes(ctx context.Context, user string, since time.Time) (client.EffortChanges, message.Labels, error) {
	return e.changes(ctx, user, since, e.now())
}

// changes is Changes at a time that has just been.
func (e *Engine) changes(ctx context.Context, user string, since, now time.Time) (client.EffortChanges, message.Labels, error) {
	out := client.EffortChanges{Since: since.UTC(), Until: now}
	all, err := e.all(ctx, user, "")
	if err != nil {
		return out, 0, err
	}
	var labels message.Labels
	today, before := e.today(user, now), e.today(user, since)
	working := map[string]bool{} // the goals that have an active project with a next action
	for i := range all {
		if p := &all[i]; p.Kind == record.KindProject && p.Status == record.EffortActive && len(p.Next) > 0 {
			working[p.Goal.String()] = true
		}
	}
	for i := range all {
		f, told := &all[i], false
		ref := client.EffortRef{ID: f.ID.String(), Kind: f.Kind, Title: f.Title}
		for n, h := range f.History {
			if !h.At.After(since) || h.At.After(now) {
				continue
			}
			told = true
			ev := client.EffortEvent{EffortRef: ref, At: h.At, Actor: h.Actor, What: h.What}
			switch {
			case n == 0 && h.At.Equal(f.Created):
				out.Created = append(out.Created, ev)
			case f.Over() && h.At.Equal(f.Ended):
				out.Ended = append(out.Ended, ev)
			default:
				out.Progressed = append(out.Progressed, ev)
			}
		}
		overdue := func(milestone, due string) {
			if due != "" && due < today {
				told = true
				out.Overdue = append(out.Overdue, client.EffortDue{EffortRef: ref, Milestone: milestone, Due: due, New: due >= before})
			}
		}
		if !f.Over() {
			overdue("", f.Due)
		}
		for _, m := range f.Milestones {
			if f.Status == record.EffortActive && m.Reached.IsZero() {
				overdue(m.Title, m.Due)
			}
		}
		if f.Status == record.EffortActive {
			if len(f.Next) == 0 && !(f.Kind == record.KindGoal && working[f.ID.String()]) {
				told = true
				out.NoNext = append(out.NoNext, ref)
			}
			last := lastChange(f, all)
			if stalls := last.Add(stallsAfter(f.Kind)); !stalls.After(now) {
				told = true
				out.Stalled = append(out.Stalled, client.EffortStalled{EffortRef: ref, Since: last, New: stalls.After(since)})
			}
		}
		if told {
			labels |= f.Labels
		}
	}
	byTime := func(a, b client.EffortEvent) int { return a.At.Compare(b.At) }
	for _, list := range [][]client.EffortEvent{out.Created, out.Progressed, out.Ended} {
		slices.SortStableFunc(list, byTime)
	}
	slices.SortStableFunc(out.Overdue, func(a, b client.EffortDue) int { return cmp.Compare(a.Due, b.Due) })
	out.News = len(out.Created)+len(out.Progressed)+len(out.Ended) > 0 ||
		slices.ContainsFunc(out.Overdue, func(d client.EffortDue) bool { return d.New }) ||
		slices.ContainsFunc(out.Stalled, func(s client.EffortStalled) bool { return s.New })
	out.Labels = labels.Names()
	return out, labels, nil
}
