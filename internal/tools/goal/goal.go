// Package goal lets an agent keep the user's goals and projects, which package goals stores.
//
// goal.list, goal.show, goal.changes and project.list are queries. Their results have the labels of what
// they show, so a goal that the user has typed does not count as text of others, and a progress note that
// was taken from a mail does.
//
// The other tools are deferred actions: the model is told that they are queued, and they are carried out
// in order when the turn ends. A tool takes a goal or project by its id or its title, so a model can use
// one that it has created in the same turn. What is stored has the labels of everything that the model had
// been shown. A repeated call changes nothing, and the last change of a goal or project can be undone.
package goal

import (
	"context"
	"fmt"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// The first words of the tools' names.
const (
	Goal    = "goal"
	Project = "project"
)

// Goals keeps goals and projects; package goals does.
type Goals interface {
	Create(ctx context.Context, user, kind string, c client.EffortChange, by record.EffortAuthor) (record.Effort, error)
	Change(ctx context.Context, user, kind, which string, c client.EffortChange, by record.EffortAuthor) (record.Effort, error)
	List(ctx context.Context, user, kind, status string) ([]record.Effort, error)
	Get(ctx context.Context, user, kind, which string) (record.Effort, error)
	View(ctx context.Context, f record.Effort) (client.Effort, message.Labels, error)
	Views(ctx context.Context, user string, list []record.Effort) ([]client.Effort, message.Labels, error)
	Changes(ctx context.Context, user string, since time.Time) (client.EffortChanges, message.Labels, error)
	ChangedBy(ctx context.Context, user string, call id.ID) (record.Effort, record.EffortChange, error)
	Undo(ctx context.Context, user string, call, by id.ID) (record.Effort, error)
}

// Options configure the tools. Goals is required.
type Options struct {
	local.Options
	Goals Goals
}

type listArgs struct {
	Status string `json:"status,omitzero" jsonschema:"active unless given; all for every one" enum:"active,paused,completed,dropped,archived,all"`
}

type showArgs struct {
	Which string `json:"which" jsonschema:"Id or title of a goal or project" minlen:"1" maxlen:"300"`
}

type changesArgs struct {
	Days int `json:"days,omitzero" jsonschema:"Of how many days, 7 unless given" min:"1" max:"366"`
}

type createArgs struct {
	Title       string   `json:"title" minlen:"1" maxlen:"200"`
	Description string   `json:"description,omitzero" maxlen:"2000"`
	Criteria    []string `json:"success_criteria,omitzero" jsonschema:"What shows that it is achieved" maxlen:"50"`
	Category    string   `json:"category,omitzero" maxlen:"200"`
	Importance  *float64 `json:"importance,omitzero" jsonschema:"0 to 1" min:"0" max:"1"`
	Due         string   `json:"due,omitzero" jsonschema:"A day: 2026-12-31" maxlen:"10"`
}

type projectArgs struct {
	Title       string   `json:"title" minlen:"1" maxlen:"200"`
	Goal        string   `json:"goal_id,omitzero" jsonschema:"Id or title of its goal" maxlen:"300"`
	Description string   `json:"description,omitzero" maxlen:"2000"`
	Next        []string `json:"next_actions,omitzero" maxlen:"50"`
	Due         string   `json:"due,omitzero" jsonschema:"A day: 2026-12-31" maxlen:"10"`
}

type progressArgs struct {
	Project string   `json:"project_id" jsonschema:"Id or title of a project or goal" minlen:"1" maxlen:"300"`
	Summary string   `json:"summary" jsonschema:"What was done" minlen:"1" maxlen:"2000"`
	Percent *float64 `json:"progress_percent,omitzero" jsonschema:"How much of the whole is done now" min:"0" max:"100"`
}

type updateArgs struct {
	Which     string   `json:"which" jsonschema:"Id or title of a goal or project" minlen:"1" maxlen:"300"`
	Status    string   `json:"status,omitzero" enum:"active,paused,completed,dropped,archived"`
	Next      []string `json:"next_actions,omitzero" jsonschema:"Next actions to add" maxlen:"50"`
	Done      []string `json:"done,omitzero" jsonschema:"Next actions that are done" maxlen:"50"`
	Milestone string   `json:"milestone,omitzero" jsonschema:"A milestone to add" maxlen:"200"`
	Due       string   `json:"milestone_due,omitzero" jsonschema:"Its day" maxlen:"10"`
	Reached   []string `json:"reached,omitzero" jsonschema:"Milestones that are reached" maxlen:"50"`
	Goal      string   `json:"goal_id,omitzero" jsonschema:"The goal that a project belongs to" maxlen:"300"`
	Tasks     []string `json:"tasks,omitzero" jsonschema:"URIs of plans or their tasks that belong to it" maxlen:"50"`
}

// AddGoals adds the tools to a kit named "goal".
func AddGoals(k *local.Kit, opt Options) {
	s := service{opt}
	stale := tool.Strategy{Kind: tool.ByTool, Tools: []string{Goal + ".list", Project + ".list", Goal + ".changes"}}
	local.Query(k, tool.Spec{Name: "list", Yields: message.Private, Tidy: []tool.Strategy{stale}, Sentences: listGoals,
		Description: "Lists the user's long-term goals with their progress and projects.", Log: tool.LogSpec{Summary: "List the goals[ that are {status}]"}},
		func(ctx context.Context, in tool.Invocation, a listArgs) (tool.Result, error) {
			return s.list(ctx, in.User, record.KindGoal, a.Status)
		})
	local.Query(k, tool.Spec{Name: "show", Yields: message.Private, Tidy: local.ReplacesEarlier("which"),
		Description: "Shows all of a goal or project: milestones, next actions, progress notes, tasks.", Log: tool.LogSpec{Summary: "Show the goal or project {which}"}}, s.show)
	local.Query(k, tool.Spec{Name: "changes", Yields: message.Private, Tidy: []tool.Strategy{stale}, Sentences: reviewGoals,
		Description: "Reviews goals and projects: what has changed, is overdue, has stalled or has no next action.", Log: tool.LogSpec{Summary: "Review the goals and projects[ of {days} days]"}}, s.changes)
	change(k, s, record.KindGoal, tool.Spec{Name: "create", Tidy: []tool.Strategy{stale}, Sentences: createGoal,
		Description: "Creates a long-term goal of the user.",
		Log:         tool.LogSpec{Summary: "Add the goal {title}[, due {due}]", Does: "adds a goal"},
		Widths:      []tool.Width{{Name: "add any goal", Any: []string{"title", "description", "success_criteria", "category", "importance", "due"}}}},
		func(ctx context.Context, in tool.Invocation, a createArgs, by record.EffortAuthor) (record.Effort, error) {
			c := client.EffortChange{Title: &a.Title, Description: given(a.Description), Category: given(a.Category), Due: given(a.Due), Importance: a.Importance}
			if len(a.Criteria) > 0 {
				c.Criteria = &a.Criteria
			}
			return s.Goals.Create(ctx, in.User, record.KindGoal, c, by)
		})
	change(k, s, "", tool.Spec{Name: "progress", Tidy: []tool.Strategy{stale},
		Description: "Records progress on a project or goal.",
		Log:         tool.LogSpec{Summary: "Record progress on {project_id}[ ({progress_percent} %)]: {summary}", Does: "records progress on a goal or project"},
		Widths: []tool.Width{{Name: "record any progress on {project_id}", Any: []string{"summary", "progress_percent"}},
			{Name: "record any progress", Any: []string{"project_id", "summary", "progress_percent"}}}},
		func(ctx context.Context, in tool.Invocation, a progressArgs, by record.EffortAuthor) (record.Effort, error) {
			return s.update(ctx, in.User, a.Project, client.EffortChange{Progress: &client.NewProgress{Summary: a.Summary, Percent: a.Percent}}, by)
		})
	change(k, s, "", tool.Spec{Name: "update", Tidy: []tool.Strategy{stale},
		Description: "Changes a goal or project: next actions, milestones, status, tasks.",
		Log: tool.LogSpec{Summary: "Change {which}[: it is {status}][, next: {next_actions}][, done: {done}][, milestone: {milestone}][ until {milestone_due}][, reached: {reached}][, of the goal {goal_id}][, tasks: {tasks}]",
			Does: "changes a goal or project"},
		Widths: []tool.Width{{Name: "change {which} in any way", Any: []string{"status", "next_actions", "done", "milestone", "milestone_due", "reached", "goal_id", "tasks"}},
			{Name: "change any goal or project", Any: []string{"which", "status", "next_actions", "done", "milestone", "milestone_due", "reached", "goal_id", "tasks"}}}},
		func(ctx context.Context, in tool.Invocation, a updateArgs, by record.EffortAuthor) (record.Effort, error) {
			c := client.EffortChange{Status: given(a.Status), Goal: given(a.Goal), Next: a.Next, Done: a.Done, Reached: a.Reached, Tasks: a.Tasks}
			if a.Milestone != "" {
				c.Milestones = []client.NewMilestone{{Title: a.Milestone, Due: a.Due}}
			}
			return s.update(ctx, in.User, a.Which, c, by)
		})
}

// AddProjects adds the tools to a kit named "project". Those of a kit named "goal" change projects too.
func AddProjects(k *local.Kit, opt Options) {
	s := service{opt}
	stale := tool.Strategy{Kind: tool.ByTool, Tools: []string{Goal + ".list", Project + ".list", Goal + ".changes"}}
	local.Query(k, tool.Spec{Name: "list", Yields: message.Private, Tidy: []tool.Strategy{stale}, Sentences: listProjects,
		Description: "Lists the user's projects with their goals, progress and next actions.", Log: tool.LogSpec{Summary: "List the projects[ that are {status}]"}},
		func(ctx context.Context, in tool.Invocation, a listArgs) (tool.Result, error) {
			return s.list(ctx, in.User, record.KindProject, a.Status)
		})
	change(k, s, record.KindProject, tool.Spec{Name: "create", Tidy: []tool.Strategy{stale}, Sentences: createProject,
		Description: "Creates a project of the user, which may belong to a goal.",
		Log:         tool.LogSpec{Summary: "Add the project {title}[ of the goal {goal_id}][, due {due}]", Does: "adds a project"},
		Widths:      []tool.Width{{Name: "add any project", Any: []string{"title", "goal_id", "description", "next_actions", "due"}}}},
		func(ctx context.Context, in tool.Invocation, a projectArgs, by record.EffortAuthor) (record.Effort, error) {
			return s.Goals.Create(ctx, in.User, record.KindProject, client.EffortChange{Title: &a.Title, Goal: given(a.Goal), Description: given(a.Description), Due: given(a.Due), Next: a.Next}, by)
		})
}

// given returns an argument that may be missing.
func given(s string) *string {
	if s = strings.TrimSpace(s); s == "" {
		return nil
	}
	return &s
}

type service struct{ Options }

// update changes a goal or a project.
func (s service) update(ctx context.Context, user, which string, c client.EffortChange, by record.EffortAuthor) (record.Effort, error) {
	f, err := s.Goals.Get(ctx, user, "", which)
	if err != nil {
		return f, err
	}
	return s.Goals.Change(ctx, user, f.Kind, f.ID.String(), c, by)
}

// callID returns the identity of a call in the history of goals and projects.
func callID(key string) id.ID { return id.Derive("goal", "call", key) }

// change adds a deferred action. creates is the kind that it creates, if it creates one.
func change[In any](k *local.Kit, s service, creates string, spec tool.Spec, do func(context.Context, tool.Invocation, In, record.EffortAuthor) (record.Effort, error)) {
	spec.Delivery, spec.Yields = tool.Deferred, message.Private
	local.Change(k, spec, func(_ context.Context, user string) (own, error) { return own{s, user, creates}, nil },
		func(ctx context.Context, in tool.Invocation, a In, _ own) (string, error) {
			by := record.EffortAuthor{Call: callID(local.Key(in)), Actor: "agent:" + in.Agent, Labels: in.Labels}
			if in.Agent == "" {
				by.Actor = "agent:assistant"
			}
			if in.Labels.Has(message.Private) {
				by.Sources = in.Sources
			}
			f, err := do(ctx, in, a, by)
			if err != nil {
				return "", err
			}
			return reply(&f, f.History[len(f.History)-1].What), nil
		}, tool.Text)
}

func reply(f *record.Effort, what string) string {
	return fmt.Sprintf("The %s %q: %s.", f.Kind, f.Title, strings.TrimRight(what, "."))
}

// own are a user's goals and projects. It implements local.Changes.
type own struct {
	service
	user    string
	creates string
}

// Applied implements local.Changes.
func (o own) Applied(ctx context.Context, key string) (string, bool, error) {
	f, c, err := o.Goals.ChangedBy(ctx, o.user, callID(key))
	if fault.Is(err, fault.NotFound) {
		return "", false, nil
	}
	return reply(&f, c.What), err == nil, err
}

// Revert implements local.Changes.
func (o own) Revert(ctx context.Context, key string) (string, error) {
	f, err := o.Goals.Undo(ctx, o.user, callID(key), id.Derive("goal", "undo", key))
	switch {
	case o.creates != "" && (err == nil || fault.Is(err, fault.NotFound)):
		return "The " + o.creates + " is removed.", nil
	case fault.Is(err, fault.NotFound):
		return "", local.NotApplied()
	case err != nil:
		return "", err
	}
	return reply(&f, f.History[len(f.History)-1].What), nil
}

// shown makes a result of what shows goals and projects.
func shown(text string, labels message.Labels, err error) (tool.Result, error) {
	res := tool.Text(text)
	res.Labels = message.Private | labels
	return res, err
}

func (s service) list(ctx context.Context, user, kind, status string) (tool.Result, error) {
	switch status {
	case "":
		status = record.EffortActive
	case "all":
		status = ""
	}
	list, err := s.Goals.List(ctx, user, kind, status)
	if err != nil {
		return tool.Result{}, err
	}
	views, labels, err := s.Goals.Views(ctx, user, list)
	if err != nil {
		return tool.Result{}, err
	}
	if len(views) == 0 {
		return shown(strings.Join(strings.Fields("There is no "+status+" "+kind+"."), " "), 0, nil)
	}
	return shown(local.List(views, 50, func(v client.Effort) string { return "- " + line(v) })+"\n", labels, nil)
}

// line shows a goal or project in a line.
func line(v client.Effort) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s", v.Title, Percent(v.Progress))
	if v.Status != record.EffortActive {
		b.WriteString(", " + v.Status)
	}
	if v.Due != "" {
		b.WriteString(", due " + v.Due)
	}
	if v.Overdue {
		b.WriteString(", overdue")
	}
	if v.GoalTitle != "" {
		fmt.Fprintf(&b, ", goal: %s", v.GoalTitle)
	}
	if n := len(v.Related); n > 0 {
		fmt.Fprintf(&b, ", projects: %d", n)
	}
	if n := v.TasksOpen + v.TasksDone; n > 0 {
		fmt.Fprintf(&b, ", tasks: %d open, %d done", v.TasksOpen, v.TasksDone)
	}
	b.WriteString(")")
	if len(v.Next) > 0 {
		fmt.Fprintf(&b, ", next: %s", v.Next[0])
	}
	return b.String()
}

// Percent writes a progress from 0 to 1.
func Percent(part float64) string { return fmt.Sprintf("%.0f %%", part*100) }

func (s service) show(ctx context.Context, in tool.Invocation, a showArgs) (tool.Result, error) {
	f, err := s.Goals.Get(ctx, in.User, "", a.Which)
	if err != nil {
		return tool.Result{}, err
	}
	v, labels, err := s.Goals.View(ctx, f)
	return shown(Text(&v, s.Location(in.User), 20), labels, err)
}

// Text shows all of a goal or project, with at most so many progress notes.
func Text(v *client.Effort, zone *time.Location, notes int) string {
	var b strings.Builder
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-13s%s\n", name, text)
		}
	}
	list := func(name string, all []string) {
		if len(all) > 0 {
			fmt.Fprintf(&b, "%s\n", name)
		}
		for i, text := range all {
			fmt.Fprintf(&b, "  %d. %s\n", i+1, text)
		}
	}
	late := func(due string, overdue bool) string {
		if overdue {
			due += " (overdue)"
		}
		return due
	}
	row(v.Kind, v.Title)
	row("id", v.ID)
	row("status", v.Status)
	row("progress", Percent(v.Progress))
	row("due", late(v.Due, v.Overdue))
	row("goal", v.GoalTitle)
	row("category", v.Category)
	if v.Importance > 0 {
		row("importance", fmt.Sprint(v.Importance))
	}
	row("description", strings.ReplaceAll(v.Description, "\n", "\n"+strings.Repeat(" ", 13)))
	row("labels", strings.Join(v.Labels, ", "))
	list("success criteria", v.Criteria)
	var lines []string
	for _, m := range v.Steps {
		text := m.Title
		if !m.Reached.IsZero() {
			text += ", reached " + m.Reached.In(zone).Format(time.DateOnly)
		} else if m.Due != "" {
			text += ", due " + late(m.Due, m.Overdue)
		}
		lines = append(lines, text)
	}
	list("milestones", lines)
	list("next actions", v.Next)
	lines = nil
	for _, p := range v.Projects {
		p.GoalTitle = ""
		lines = append(lines, line(p))
	}
	list("projects", lines)
	lines = nil
	for _, t := range v.Tasks {
		text := t.Title
		if text == "" {
			text = t.URI
		}
		text += ": " + t.State
		if t.Open+t.Done+t.Failed > 1 {
			text += fmt.Sprintf(" (%d open, %d done, %d failed)", t.Open, t.Done, t.Failed)
		}
		lines = append(lines, text)
	}
	list("tasks", lines)
	lines = nil
	for _, n := range v.Notes[:min(len(v.Notes), notes)] {
		text := n.At.In(zone).Format("2006-01-02 15:04")
		if n.Percent != nil {
			text += fmt.Sprintf(", %.0f %%", *n.Percent)
		}
		lines = append(lines, strings.TrimSuffix(text+": "+n.Summary, ": "))
	}
	list("progress notes, newest first", lines)
	return b.String()
}

func (s service) changes(ctx context.Context, in tool.Invocation, a changesArgs) (tool.Result, error) {
	days := a.Days
	if days == 0 {
		days = 7
	}
	c, labels, err := s.Goals.Changes(ctx, in.User, s.Time().AddDate(0, 0, -days))
	return shown(ChangesText(&c, s.Location(in.User)), labels, err)
}

// ChangesText shows what has become of goals and projects.
func ChangesText(c *client.EffortChanges, zone *time.Location) string {
	var b strings.Builder
	section := func(name string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s\n%s\n", name, local.List(lines, 50, func(s string) string { return "- " + s }))
	}
	events := func(name string, list []client.EffortEvent) {
		var lines []string
		for _, e := range list {
			lines = append(lines, fmt.Sprintf("%s %s %s: %s", e.At.In(zone).Format("2006-01-02 15:04"), e.Kind, e.Title, e.What))
		}
		section(name, lines)
	}
	events("Created", c.Created)
	events("Changed", c.Progressed)
	events("Over", c.Ended)
	var lines []string
	for _, d := range c.Overdue {
		what := d.Kind + " " + d.Title
		if d.Milestone != "" {
			what += ", milestone " + d.Milestone
		}
		lines = append(lines, fmt.Sprintf("%s: due %s", what, d.Due))
	}
	section("Overdue", lines)
	lines = nil
	for _, r := range c.NoNext {
		lines = append(lines, r.Kind+" "+r.Title)
	}
	section("No next action", lines)
	lines = nil
	for _, st := range c.Stalled {
		lines = append(lines, fmt.Sprintf("%s %s: no change since %s", st.Kind, st.Title, st.Since.In(zone).Format(time.DateOnly)))
	}
	section("Stalled", lines)
	if b.Len() == 0 {
		return "Nothing has changed, and nothing needs attention.\n"
	}
	return b.String()
}
