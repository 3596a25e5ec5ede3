package goals

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/tools/local"
)

// apply applies a change to an effort in memory, and says in a few words what has changed. Secrets in its
// texts are masked.
func (e *Engine) apply(ctx context.Context, f *record.Effort, c *client.EffortChange, by record.EffortAuthor, now time.Time) (what []string, err error) {
	said := func(format string, args ...any) { what = append(what, fmt.Sprintf(format, args...)) }
	text := func(s, name string, most int, to *string) error {
		s = strings.TrimSpace(e.opt.Mask(strings.ToValidUTF8(s, "\uFFFD")))
		if utf8.RuneCountInString(s) > most {
			return invalid("%s has %d characters; the limit is %d", name, utf8.RuneCountInString(s), most)
		}
		*to = s
		return nil
	}
	line := func(s, name string, most int, to *string) error {
		err := text(strings.Join(strings.Fields(s), " "), name, most, to)
		if err == nil && *to == "" {
			return invalid("%s is empty", name)
		}
		return err
	}
	if c.Title != nil {
		old := f.Title
		if err := line(*c.Title, "the title", maxTitle, &f.Title); err != nil {
			return nil, err
		}
		if old != "" && old != f.Title {
			said("renamed from %q", old)
		}
	}
	if c.Description != nil {
		if err := text(*c.Description, "the description", maxText, &f.Description); err != nil {
			return nil, err
		}
		said("described")
	}
	if c.Due != nil {
		if f.Due, err = day(*c.Due); err != nil {
			return nil, err
		}
		said("due %s", orNone(f.Due))
	}
	if f.Kind == record.KindProject && (c.Category != nil || c.Criteria != nil || c.Importance != nil) {
		return nil, invalid("a project has no category, no success criteria and no importance of its own; its goal has")
	}
	if f.Kind == record.KindGoal && c.Goal != nil {
		return nil, invalid("a goal cannot belong to a goal")
	}
	if c.Category != nil {
		if err := text(strings.Join(strings.Fields(*c.Category), " "), "the category", maxTitle, &f.Category); err != nil {
			return nil, err
		}
		said("category %s", orNone(f.Category))
	}
	if c.Criteria != nil {
		f.Criteria = nil
		for _, s := range *c.Criteria {
			var one string
			if err := line(s, "a success criterion", maxText, &one); err != nil {
				return nil, err
			}
			f.Criteria = append(f.Criteria, one)
		}
		said("success criteria: %s", orNone(strings.Join(f.Criteria, ", ")))
	}
	if c.Importance != nil {
		if !(*c.Importance >= 0 && *c.Importance <= 1) {
			return nil, invalid("the importance %g is not between 0 and 1", *c.Importance)
		}
		f.Importance = *c.Importance
		said("importance %g", f.Importance)
	}
	if c.Goal != nil {
		f.Goal = id.ID{}
		if *c.Goal != "" {
			g, err := e.Get(ctx, f.User, record.KindGoal, *c.Goal)
			if err != nil {
				return nil, err
			}
			f.Goal = g.ID
			f.Labels |= g.Labels // its title stands in the history
			said("belongs to the goal %q", g.Title)
		} else {
			said("belongs to no goal")
		}
	}
	for _, m := range c.Milestones {
		var one record.Milestone
		if err := line(m.Title, "a milestone", maxTitle, &one.Title); err != nil {
			return nil, err
		}
		if one.Due, err = day(m.Due); err != nil {
			return nil, err
		}
		f.Milestones = append(f.Milestones, one)
		said("milestone: %s", one.Title)
	}
	milestones := func() (titles []string) {
		for _, m := range f.Milestones {
			titles = append(titles, m.Title)
		}
		return titles
	}
	for _, which := range c.Reached {
		i, err := pick("milestone", which, milestones())
		if err != nil {
			return nil, err
		}
		if m := &f.Milestones[i]; m.Reached.IsZero() {
			m.Reached = now
			said("milestone reached: %s", m.Title)
		} else {
			said("milestone was reached already: %s", m.Title)
		}
	}
	for _, which := range c.Unreached {
		i, err := pick("milestone", which, milestones())
		if err != nil {
			return nil, err
		}
		said("milestone removed: %s", f.Milestones[i].Title)
		f.Milestones = slices.Delete(f.Milestones, i, i+1)
	}
	var done []int
	for _, which := range c.Done { // numbers are those before the change
		i, err := pick("action", which, f.Next)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(done, i) {
			done = append(done, i)
			said("done: %s", f.Next[i])
		}
	}
	slices.Sort(done)
	for _, i := range slices.Backward(done) {
		f.Next = slices.Delete(f.Next, i, i+1)
	}
	for _, s := range c.Next {
		var one string
		if err := line(s, "a next action", maxTitle, &one); err != nil {
			return nil, err
		}
		if !slices.Contains(f.Next, one) {
			f.Next = append(f.Next, one)
		}
		said("next action: %s", one)
	}
	if p := c.Progress; p != nil {
		n := record.ProgressNote{At: now, Labels: by.Labels}
		if err := text(p.Summary, "the summary", maxText, &n.Summary); err != nil {
			return nil, err
		}
		if p.Percent != nil {
			if !(*p.Percent >= 0 && *p.Percent <= 100) {
				return nil, invalid("the progress %g is not between 0 and 100 percent", *p.Percent)
			}
			part := math.Round(*p.Percent*100) / 10000
			n.Progress, f.Progress = &part, &part
		}
		if n.Summary == "" && n.Progress == nil {
			return nil, invalid("progress needs a summary or a percentage")
		}
		f.Notes = append(f.Notes, n)
		f.Notes = f.Notes[max(0, len(f.Notes)-maxNotes):]
		said("%s", strings.TrimSuffix("progress"+percentOf(n.Progress)+": "+n.Summary, ": "))
	}
	if what, err = e.applyTasks(ctx, f, c, what); err != nil {
		return nil, err
	}
	if c.Status != nil {
		s := *c.Status
		if !slices.Contains(statuses(f.Kind), s) {
			return nil, badStatus(f.Kind, s)
		}
		switch wasOver := f.Over(); {
		case s == f.Status:
			said("it is %s already", s)
		default:
			f.Status = s
			said("%s", s)
			if f.Over() && !wasOver {
				f.Ended = now
			} else if !f.Over() {
				f.Ended = time.Time{}
			}
		}
	}
	for name, n := range map[string]int{"milestones": len(f.Milestones), "next actions": len(f.Next), "success criteria": len(f.Criteria), "tasks": len(f.Tasks)} {
		if n > maxList {
			return nil, fault.New(fault.Exhausted, "effort_full", "the %s would have %d %s; the limit is %d", f.Kind, n, name, maxList)
		}
	}
	return what, nil
}

// applyTasks adds the tasks that are to belong to the effort, and takes others off.
func (e *Engine) applyTasks(ctx context.Context, f *record.Effort, c *client.EffortChange, what []string) ([]string, error) {
	find := func(which string) (string, error) {
		if e.opt.Tasks == nil {
			return "", fault.New(fault.Unsupported, "tasks_unsupported", "no plans are kept here")
		}
		u, err := e.opt.Tasks.Find(ctx, f.User, which)
		return u.String(), err
	}
	for _, which := range c.Untask {
		if !slices.Contains(f.Tasks, which) { // what was deleted is found by its URI alone
			u, err := find(which)
			if err != nil {
				return nil, err
			}
			which = u
		}
		i := slices.Index(f.Tasks, which)
		if i < 0 {
			return nil, fault.New(fault.NotFound, "task_not_found", "%.200s does not belong to the %s", which, f.Kind)
		}
		f.Tasks = slices.Delete(f.Tasks, i, i+1)
		what = append(what, "tasks taken off")
	}
	for _, which := range c.Tasks {
		u, err := find(which)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(f.Tasks, u) {
			f.Tasks = append(f.Tasks, u)
		}
		what = append(what, "tasks belong to it")
	}
	return what, nil
}

// pick finds one of several texts by its number (from 1), the whole text, or words of it. Error codes:
// KIND_not_found, KIND_ambiguous.
func pick(kind, which string, texts []string) (int, error) {
	which = strings.TrimSpace(which)
	if n, err := strconv.Atoi(which); err == nil && n >= 1 && n <= len(texts) {
		return n - 1, nil
	}
	all := make([]int, len(texts))
	for i := range all {
		all[i] = i
	}
	found := local.FirstMatches(all, func(int) bool { return true },
		func(i int) bool { return strings.EqualFold(texts[i], which) },
		func(i int) bool { return local.HasWords(texts[i], which) })
	return local.ExactlyOne(kind, which, found, func(i int) string { return texts[i] })
}

// day checks a day. Error code: time_invalid.
func day(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return "", nil
	}
	t, err := local.ParseDay(s, time.Time{})
	return t.Format(time.DateOnly), err
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func percentOf(part *float64) string {
	if part == nil {
		return ""
	}
	return fmt.Sprintf(" %g %%", math.Round(*part*1000)/10)
}
