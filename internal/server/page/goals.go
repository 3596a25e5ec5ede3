package page

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
)

// goalsScreen lists goals and projects.
func (v *visit) goalsScreen() (content, error) {
	goals, err := v.api().Efforts(v.ctx(), client.Goals, "")
	if err != nil {
		return content{}, err
	}
	projects, err := v.api().Efforts(v.ctx(), client.Projects, "")
	if err != nil {
		return content{}, err
	}
	var body g.Group
	if len(goals) == 0 && len(projects) == 0 {
		body = append(body, empty(v.t("You have no goals yet. Steward reminds you of them, and tells you how they go.")))
	}
	for _, part := range []struct {
		kind, title string
		list        []client.Effort
	}{{client.Goals, v.t("Goals"), goals}, {client.Projects, v.t("Projects"), projects}} {
		if len(part.list) > 0 {
			body = append(body, H2(g.Text(part.title)), Div(Class("cards"), g.Map(part.list, func(e client.Effort) g.Node { return v.effortCard(part.kind, &e) })))
		}
	}
	return content{title: v.t("Goals"), nav: "goals", main: Div(
		head(v.t("Goals"), v.button("effort-ask", v.t("New goal"), "primary", "kind", client.Goals), v.button("effort-ask", v.t("New project"), "", "kind", client.Projects)), body)}, nil
}

func (v *visit) effortCard(kind string, e *client.Effort) g.Node {
	return Div(Class("item"),
		H3(A(Href("/goals/"+kind+"/"+e.ID), ownText(e.Title))),
		v.effortState(e), progressBar(e.Progress),
		g.If(e.LastChange != "", P(Class("quiet"), ownText(e.LastChange), g.Text(" · "), when(e.Changed))),
		g.If(len(e.Next) > 0, P(g.Text(v.t("Next:")+" "), ownText(first(e.Next)))))
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func (v *visit) effortState(e *client.Effort) g.Node {
	status := map[string]string{"active": v.t("active"), "paused": v.t("paused"), "completed": v.t("completed"), "dropped": v.t("dropped"), "archived": v.t("archived")}[e.Status]
	class := "state"
	if e.Status == "completed" {
		class += " good"
	}
	return P(Span(Class(class), g.Text(status)), g.If(e.Due != "", Span(Class("state"+map[bool]string{true: " bad"}[e.Overdue]), g.Text(" · "+v.t("due {day}", e.Due)))))
}

func progressBar(x float64) g.Node {
	percent := strconv.Itoa(int(x*100 + .5))
	return Div(Class("bar"), Role("progressbar"), Aria("valuenow", percent), Aria("valuemin", "0"), Aria("valuemax", "100"), Aria("label", percent+" %"), SVG(g.Attr("viewBox", "0 0 100 8"), g.Attr("preserveAspectRatio", "none"), Aria("hidden", "true"), g.El("rect", Width(percent), Height("8"))))
}

// effortScreen shows one goal or project.
func (v *visit) effortScreen() (content, error) {
	kind, err := effortKind(v.r.PathValue("kind"))
	if err != nil {
		return content{}, err
	}
	e, err := v.api().Effort(v.ctx(), kind, v.r.PathValue("id"))
	if err != nil {
		return content{}, err
	}
	fields := []string{"kind", kind, "id", e.ID}
	status := func(to, label string) g.Node {
		if e.Status == to {
			return nil
		}
		return v.button("effort-change", label, "", append(fields, "status", to)...)
	}
	main := Div(head(e.Title, v.button("effort-ask", v.t("Edit"), "", fields...), v.button("effort-progress-ask", v.t("Note progress"), "primary", fields...)),
		v.effortState(&e), progressBar(e.Progress),
		g.If(e.GoalTitle != "", P(g.Text(v.t("Goal")+": "), A(Href("/goals/goals/"+e.GoalID), ownText(e.GoalTitle)))),
		g.If(e.Description != "", P(Class("typed"), ownText(e.Description))),
		g.If(len(e.Criteria) > 0, g.Group{H2(g.Text(v.t("It is reached when"))), Ul(g.Map(e.Criteria, func(s string) g.Node { return Li(ownText(s)) }))}),
		g.If(len(e.Steps) > 0, g.Group{H2(g.Text(v.t("Milestones"))), Ul(Class("list"), g.Map(e.Steps, func(m client.Milestone) g.Node {
			do := "reached"
			label := v.t("Reached")
			if !m.Reached.IsZero() {
				do, label = "unreached", v.t("Not reached")
			}
			return Li(Class("row"), ownText(m.Title), g.If(m.Due != "", Span(Class("state"+map[bool]string{true: " bad"}[m.Overdue]), g.Text(v.t("due {day}", m.Due)))),
				g.If(!m.Reached.IsZero(), Span(Class("state good"), when(m.Reached))), Span(Class("space")), v.button("effort-change", label, "", append(fields, do, m.Title)...))
		}))}),
		g.If(len(e.Next) > 0, g.Group{H2(g.Text(v.t("Next actions"))), Ul(Class("list"), g.Map(e.Next, func(s string) g.Node {
			return Li(Class("row"), ownText(s), Span(Class("space")), v.button("effort-change", v.t("Done"), "", append(fields, "done", s)...))
		}))}),
		g.If(len(e.Projects) > 0, g.Group{H2(g.Text(v.t("Projects"))), Div(Class("cards"), g.Map(e.Projects, func(p client.Effort) g.Node { return v.effortCard(client.Projects, &p) }))}),
		g.If(len(e.Tasks) > 0, g.Group{H2(g.Text(v.t("Tasks"))), Ul(Class("list"), g.Map(e.Tasks, func(t client.EffortTask) g.Node {
			return Li(ownText(t.Title), g.Text(" "), Span(Class("state"), g.Text(t.State)))
		}))}),
		g.If(len(e.Notes) > 0, g.Group{H2(g.Text(v.t("Progress"))), Ul(Class("list"), g.Map(e.Notes, func(n client.ProgressNote) g.Node {
			percent := ""
			if n.Percent != nil {
				percent = fmt.Sprintf("%.0f %%", *n.Percent)
			}
			return Li(when(n.At), g.Text(" "), ownText(n.Summary), g.Text(" "), Span(Class("state"), g.Text(percent)))
		}))}),
		Div(Class("row"), status("active", v.t("Resume")), status("paused", v.t("Pause")), status("completed", v.t("Completed")), status("dropped", v.t("Drop")),
			v.button("effort-remove-ask", v.t("Delete"), "danger", append(fields, "title", e.Title)...)))
	return content{title: e.Title, nav: "goals", main: main}, nil
}

func effortKind(s string) (string, error) {
	if s != client.Goals && s != client.Projects {
		return "", fault.New(fault.NotFound, "unknown_url", "there is no kind %.40q", s).WithHint("use goals or projects")
	}
	return s, nil
}

// effortAsk asks for a new goal or project, or for changes of one.
func (v *visit) effortAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Kind, ID string }](in)
	if err != nil {
		return nil, err
	}
	kind, err := effortKind(x.Kind)
	if err != nil {
		return nil, err
	}
	var e client.Effort
	title, label := v.t("New goal"), v.t("Add")
	if kind == client.Projects {
		title = v.t("New project")
	}
	if x.ID != "" {
		if e, err = v.api().Effort(v.ctx(), kind, x.ID); err != nil {
			return nil, err
		}
		title, label = v.t("Edit"), v.t("Save")
	}
	var goals []client.Effort
	if kind == client.Projects {
		if goals, err = v.api().Efforts(v.ctx(), client.Goals, "active"); err != nil {
			return nil, err
		}
	}
	return v.dialog(title, Form(Data("do", "effort-save"), hiddenFields("kind", kind, "id", e.ID),
		Label(g.Text(v.t("Title")), Input(Name("title"), Value(e.Title), Required(), MaxLength("200"), AutoFocus())),
		Label(g.Text(v.t("Description")), Textarea(Name("description"), Rows("3"), g.Text(e.Description))),
		Label(g.Text(v.t("Due")), Input(Type("date"), Name("due"), Value(e.Due))),
		g.If(kind == client.Goals, Label(g.Text(v.t("It is reached when (one line each)")), Textarea(Name("criteria"), Rows("3"), g.Text(strings.Join(e.Criteria, "\n"))))),
		g.If(kind == client.Projects && x.ID == "", Label(g.Text(v.t("Goal")), Select(Name("goal"), Option(Value(""), g.Text("–")), g.Map(goals, func(o client.Effort) g.Node { return Option(Value(o.ID), g.Text(o.Title)) })))),
		Label(g.Text(v.t("New milestone")), Input(Name("milestone"), MaxLength("200"))),
		Label(g.Text(v.t("New next action")), Input(Name("next"), MaxLength("200"))),
		v.dialogButtons(label))), nil
}

func (v *visit) effortSave(in json.RawMessage) (*reply, error) {
	x, err := read[struct {
		Kind, ID, Title, Description, Due, Milestone, Next, Goal string
		Criteria                                                 *string
	}](in)
	if err != nil {
		return nil, err
	}
	kind, err := effortKind(x.Kind)
	if err != nil {
		return nil, err
	}
	c := client.EffortChange{Title: &x.Title, Description: &x.Description, Due: &x.Due}
	if x.Criteria != nil {
		var list []string
		for line := range strings.Lines(*x.Criteria) {
			if line = strings.TrimSpace(line); line != "" {
				list = append(list, line)
			}
		}
		c.Criteria = &list
	}
	if x.Milestone != "" {
		c.Milestones = []client.NewMilestone{{Title: x.Milestone}}
	}
	if x.Next != "" {
		c.Next = []string{x.Next}
	}
	if x.Goal != "" {
		c.Goal = &x.Goal
	}
	var e client.Effort
	if x.ID == "" {
		e, err = v.api().AddEffort(v.ctx(), kind, c)
	} else {
		e, err = v.api().ChangeEffort(v.ctx(), kind, x.ID, c)
	}
	return &reply{Go: "/goals/" + kind + "/" + e.ID}, err
}

func (v *visit) effortProgressAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Kind, ID string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Note progress"), Form(Data("do", "effort-change"), hiddenFields("kind", x.Kind, "id", x.ID),
		Label(g.Text(v.t("What was done?")), Input(Name("summary"), MaxLength("500"), AutoFocus())),
		Label(g.Text(v.t("Progress in percent")), Input(Type("number"), Name("percent"), Min("0"), Max("100"))),
		v.dialogButtons(v.t("Save")))), nil
}

func (v *visit) effortChange(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Kind, ID, Status, Reached, Unreached, Done, Summary, Percent string }](in)
	if err != nil {
		return nil, err
	}
	kind, err := effortKind(x.Kind)
	if err != nil {
		return nil, err
	}
	var c client.EffortChange
	if x.Status != "" {
		c.Status = &x.Status
	}
	one := func(s string) []string {
		if s == "" {
			return nil
		}
		return []string{s}
	}
	c.Reached, c.Unreached, c.Done = one(x.Reached), one(x.Unreached), one(x.Done)
	if x.Summary != "" || x.Percent != "" {
		c.Progress = &client.NewProgress{Summary: x.Summary}
		if x.Percent != "" {
			p, err := strconv.ParseFloat(x.Percent, 64)
			if err != nil {
				return nil, fault.New(fault.Invalid, "fields_invalid", "%.40q is not a number", x.Percent)
			}
			c.Progress.Percent = &p
		}
	}
	e, err := v.api().ChangeEffort(v.ctx(), kind, x.ID, c)
	return &reply{Go: "/goals/" + kind + "/" + e.ID}, err
}

func (v *visit) effortRemoveAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Kind, ID, Title string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Delete?"), Form(Data("do", "effort-remove"), hiddenFields("kind", x.Kind, "id", x.ID),
		P(g.Text(v.t("{what} is deleted with its history.", x.Title))), v.dialogButtons(v.t("Delete")))), nil
}

func (v *visit) effortRemove(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Kind, ID string }](in)
	if err != nil {
		return nil, err
	}
	kind, err := effortKind(x.Kind)
	if err != nil {
		return nil, err
	}
	return &reply{Go: "/goals"}, v.api().RemoveEffort(v.ctx(), kind, x.ID)
}
