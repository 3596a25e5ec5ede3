package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
)

// Limits of the screens of jobs.
const (
	maxJobsShown = 60              // on one page of the list
	historyShown = 50              // occurrences of a job, at first
	jobsEvery    = 3 * time.Second // at least between two looks
	jobsAgain    = time.Minute     // until the next look if nothing happens: a day may have begun
)

// jobsScreen lists the jobs, and shows the heartbeat.
func (v *visit) jobsScreen() (content, error) {
	shown := max(maxJobsShown, v.number("shown"))
	list, err := v.jobList(shown, lastRuns{})
	if err != nil {
		return content{}, err
	}
	beat, err := v.heartbeat()
	if err != nil {
		return content{}, err
	}
	alarms, err := v.alarms()
	if err != nil {
		return content{}, err
	}
	return content{title: v.t("Jobs"), nav: "jobs", live: "of=jobs&shown=" + strconv.Itoa(shown), main: Div(
		head(v.t("Jobs"), v.button("job-ask", v.t("New job"), "primary")), list, alarms, beat)}, nil
}

// number is a positive number of the address, or 0.
func (v *visit) number(name string) int {
	n, err := strconv.Atoi(v.r.URL.Query().Get(name))
	if err != nil || n < 0 || n > 1000 {
		return 0
	}
	return n
}

// ownJobs returns the jobs without those of the heartbeat.
func (v *visit) ownJobs() ([]client.Job, client.Heartbeat, error) {
	all, err := v.api().Jobs(v.ctx())
	if err != nil {
		return nil, client.Heartbeat{}, err
	}
	beat, err := v.api().Heartbeat(v.ctx())
	return slices.DeleteFunc(all, func(j client.Job) bool {
		return slices.ContainsFunc(beat.Jobs, func(b client.HeartbeatJob) bool { return b.Name == j.Name })
	}), beat, err
}

// lastRuns are the last runs of jobs, by name. They are read again only when the counts say that there is a new
// one, or while one is not over: a page that stays open asks little.
type lastRuns map[string]struct {
	count client.JobCount
	runs  []client.Occurrence
}

func (l lastRuns) of(v *visit, j *client.Job) ([]client.Occurrence, error) {
	x, known := l[j.Name]
	if known && x.count == j.Count && !slices.ContainsFunc(x.runs, func(o client.Occurrence) bool { return o.Open() }) {
		return x.runs, nil
	}
	var err error
	if x.runs, err = v.api().JobHistory(v.ctx(), j.Name, 1); err != nil {
		return nil, err
	}
	x.count = j.Count
	l[j.Name] = x
	return x.runs, nil
}

func (v *visit) jobList(shown int, runs lastRuns) (g.Node, error) {
	list, _, err := v.ownJobs()
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return Div(ID("jobs"), empty(v.t("You have no jobs yet. A job is a request that begins by itself: every weekday at 7:00, when mail arrives, when a door opens."))), nil
	}
	more := len(list) - shown
	var cards g.Group
	for _, j := range list[:min(shown, len(list))] {
		last, err := runs.of(v, &j)
		if err != nil {
			return nil, err
		}
		cards = append(cards, v.jobCard(&j, last))
	}
	return Div(ID("jobs"), Div(Class("cards"), cards),
		g.If(more > 0, P(A(Class("button"), Href("/jobs?shown="+strconv.Itoa(shown+maxJobsShown)), g.Text(v.t("{n} more", strconv.Itoa(more))))))), nil
}

func (v *visit) jobCard(j *client.Job, last []client.Occurrence) g.Node {
	return Div(Class("item"),
		H2(Class("small"), A(Href("/jobs/"+j.Name), ownText(j.Name)), g.Text(" "), v.jobState(j)),
		P(Class("clamp"), ownText(j.Text)),
		P(v.icon("repeat"), g.Text(" "), ownText(j.When)),
		Dl(Dt(g.Text(v.t("Next"))), Dd(v.nextTime(j)),
			g.Map(last, func(o client.Occurrence) g.Node {
				return g.Group{Dt(g.Text(v.t("Last"))), Dd(when(o.Due), g.Text(" "), v.occurrenceState(&o))}
			})),
		P(Class("quiet"), g.Text(v.jobCount(&j.Count))))
}

func (v *visit) jobState(j *client.Job) g.Node {
	text, class := map[string]string{"active": v.t("active"), "paused": v.t("paused"), "ended": v.t("ended")}[j.State], "state"
	if j.State == "active" {
		class += " good"
	}
	return Span(Class(class), g.Text(text))
}

func (v *visit) nextTime(j *client.Job) g.Node {
	switch {
	case len(j.Next) > 0:
		return when(j.Next[0])
	case j.State == "active":
		return g.Text(v.t("when it happens"))
	}
	return g.Text("–")
}

func (v *visit) jobCount(c *client.JobCount) string {
	if *c == (client.JobCount{}) {
		return v.t("It has not run yet.")
	}
	out := []string{v.t("{n} done", strconv.Itoa(c.Done))}
	for _, x := range []struct {
		n    int
		text string
	}{{c.Failed, v.t("{n} failed", strconv.Itoa(c.Failed))}, {c.Missed, v.t("{n} missed", strconv.Itoa(c.Missed))}, {c.Skipped, v.t("{n} skipped", strconv.Itoa(c.Skipped))}} {
		if x.n > 0 {
			out = append(out, x.text)
		}
	}
	if c.Cost > 0 {
		out = append(out, dollars(c.Cost))
	}
	return strings.Join(out, " · ")
}

func (v *visit) occurrenceState(o *client.Occurrence) g.Node {
	class := map[string]string{"done": " good", "failed": " bad", "missed": " warn", "waiting": " warn"}[o.State]
	text := map[string]string{"due": v.t("due"), "running": v.t("running"), "waiting": v.t("waits for you"), "done": v.t("done"), "failed": v.t("failed"),
		"missed": v.t("missed"), "skipped": v.t("skipped")}[o.State]
	return Span(Class("state"+class), g.Text(cmp.Or(text, o.State)))
}

// reason says in words why an occurrence failed or did not run.
func (v *visit) reason(code string) string {
	words := map[string]string{
		"overlap": v.t("an earlier run was not over"), "unchanged": v.t("nothing has changed since it last looked"), "queue_full": v.t("too many runs were waiting"),
		"not_running": v.t("Steward was not running"), "quiet_hours": v.t("it was within the quiet hours"), "covered": v.t("a longer review was due on the same day"),
		"day_cap": v.t("what may be spent in a day was spent"), "said_nothing": v.t("there was nothing worth telling"),
	}
	return cmp.Or(words[code], code)
}

// jobScreen shows one job with its history.
func (v *visit) jobScreen() (content, error) {
	shown := max(historyShown, v.number("shown"))
	name := v.r.PathValue("name")
	j, err := v.api().Job(v.ctx(), name)
	if err != nil {
		return content{}, err
	}
	state, err := v.jobNow(name, shown)
	if err != nil {
		return content{}, err
	}
	var checks, tools string
	if j.Check != nil {
		checks = strings.TrimSpace(j.Check.Tool + " " + j.Check.Args + " " + j.Check.Pointer)
	}
	tools = strings.Join(strings.Split(strings.TrimSpace(toolLines(j.Tools)), "\n"), " · ")
	hours := func(n int, unit string) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n) + " " + unit
	}
	money := ""
	if j.MaxCost > 0 {
		money = dollars(j.MaxCost)
	}
	rows := []struct{ name, text string }{
		{v.t("Time zone"), j.Zone}, {v.t("Agent"), j.Agent}, {v.t("Model"), j.Model}, {v.t("If Steward was not running"), v.missedWords(j.Missed)},
		{v.t("While an earlier run is not over"), v.overlapWords(j.Overlap)}, {v.t("Tried again"), hours(j.Retries, "×")}, {v.t("Begins up to this late"), hours(j.Jitter, "s")},
		{v.t("Quiet hours"), j.Quiet}, {v.t("Most a run may cost"), money}, {v.t("Longest a run may take"), hours(j.MaxTime, "s")},
		{v.t("Tools"), tools}, {v.t("Only if this has changed"), checks}, {v.t("Added by"), j.Creator},
	}
	main := Div(head(j.Name, v.button("job-edit-ask", v.t("Edit"), "", "name", j.Name), v.button("job-remove-ask", v.t("Delete"), "danger", "name", j.Name)),
		P(Class("typed"), ownText(j.Text)),
		g.If(j.Path != "", P(Class("item"), g.Text(v.t("It begins when this is called, signed with its secret:")+" "), Code(g.Text(j.Path)))),
		state,
		Details(Summary(g.Text(v.t("All settings"))), Dl(g.Map(rows, func(r struct{ name, text string }) g.Node {
			if r.text == "" {
				return nil
			}
			return g.Group{Dt(g.Text(r.name)), Dd(ownText(r.text))}
		}))))
	return content{title: j.Name, nav: "jobs", live: "of=job&name=" + j.Name + "&shown=" + strconv.Itoa(shown), main: main}, nil
}

// jobNow is what changes of a job: its state, the next times and the history.
func (v *visit) jobNow(name string, shown int) (g.Node, error) {
	j, err := v.api().Job(v.ctx(), name)
	if err != nil {
		return nil, err
	}
	list, err := v.api().JobHistory(v.ctx(), name, shown+1)
	if err != nil {
		return nil, err
	}
	pause := v.button("job-pause", v.t("Pause"), "", "name", j.Name)
	if j.State == "paused" {
		pause = v.button("job-resume", v.t("Resume"), "", "name", j.Name)
	}
	more := len(list) > shown
	return Div(ID("job-now"),
		Div(Class("row"), v.button("job-run", v.t("Run now"), "primary", "name", j.Name), g.If(j.State != "ended", pause),
			g.If(j.Conversation != "", A(Class("button"), Href("/chat/"+j.Conversation), g.Text(v.t("Conversation"))))),
		Dl(Dt(g.Text(v.t("State"))), Dd(v.jobState(&j), g.Text(" · "+v.jobCount(&j.Count))),
			Dt(g.Text(v.t("Begins"))), Dd(ownText(j.When)),
			Dt(g.Text(v.t("Next"))), Dd(v.nextTimes(&j))),
		H2(g.Text(v.t("History"))),
		g.If(len(list) == 0, P(Class("quiet"), g.Text(v.t("It has not run yet.")))),
		Ul(Class("list"), g.Map(list[:min(len(list), shown)], func(o client.Occurrence) g.Node { return v.occurrence(&o) })),
		g.If(more, P(A(Class("button"), Href("/jobs/"+j.Name+"?shown="+strconv.Itoa(min(1000, shown+historyShown))), g.Text(v.t("More")))))), nil
}

func (v *visit) nextTimes(j *client.Job) g.Node {
	if len(j.Next) == 0 {
		return v.nextTime(j)
	}
	var out g.Group
	for i, t := range j.Next {
		if i > 0 {
			out = append(out, g.Text(" · "))
		}
		out = append(out, when(t))
	}
	return out
}

func (v *visit) occurrence(o *client.Occurrence) g.Node {
	var facts []string
	if o.Several > 1 {
		facts = append(facts, v.t("{n} times", strconv.Itoa(o.Several)))
	}
	if !o.Began.IsZero() && !o.Ended.IsZero() {
		facts = append(facts, o.Ended.Sub(o.Began).Round(time.Second).String())
	}
	if o.Attempts > 1 {
		facts = append(facts, v.t("{n} attempts", strconv.Itoa(o.Attempts)))
	}
	if o.Cost > 0 {
		facts = append(facts, dollars(o.Cost))
	}
	cause := o.Cause
	if cause == "person" {
		cause = v.t("begun by you")
	}
	return Li(Div(Class("row"), when(o.Due), v.occurrenceState(o), g.If(o.Reason != "", ownText(v.reason(o.Reason))), Span(Class("space")),
		g.If(o.Conversation != "" && o.State != "skipped" && o.State != "missed", A(Href("/chat/"+o.Conversation), g.Text(v.t("Open"))))),
		g.If(cause != "" || len(facts) > 0, P(Class("quiet"), ownText(cause), g.If(cause != "" && len(facts) > 0, g.Text(" · ")), g.Text(strings.Join(facts, " · ")))))
}

// liveJobs follows the jobs, reminders and the heartbeat.
func (v *visit) liveJobs() subject {
	shown, runs := max(maxJobsShown, v.number("shown")), lastRuns{}
	return subject{name: "jobs " + strconv.Itoa(shown), pause: jobsEvery, types: anything, look: func(context.Context, cause) ([]patch, time.Duration, error) {
		list, err := v.jobList(shown, runs)
		if err != nil {
			return nil, 0, err
		}
		beat, err := v.heartbeat()
		if err != nil {
			return nil, 0, err
		}
		alarms, err := v.alarms()
		if err != nil {
			return nil, 0, err
		}
		return []patch{put("jobs", "", list), put("alarms", "", alarms), put("heartbeat", "", beat)}, jobsAgain, nil
	}}
}

func (v *visit) liveJob() subject {
	name, shown := v.r.URL.Query().Get("name"), max(historyShown, v.number("shown"))
	return subject{name: "job " + strconv.Itoa(shown) + " " + name, pause: jobsEvery, types: anything, look: func(context.Context, cause) ([]patch, time.Duration, error) {
		n, err := v.jobNow(name, shown)
		if err != nil {
			return nil, 0, err
		}
		return []patch{put("job-now", "", n)}, jobsAgain, nil
	}}
}

type jobName struct{ Name string }

// jobDone shows a job after a change.
func (v *visit) jobDone(name, toast string) (*reply, error) {
	n, err := v.jobNow(name, historyShown)
	if err != nil {
		return nil, err
	}
	return &reply{Patches: []patch{v.closed(), put("job-now", "", n)}, Toast: toast}, nil
}

func (v *visit) jobRun(in json.RawMessage) (*reply, error) {
	x, err := read[jobName](in)
	if err != nil {
		return nil, err
	}
	if _, err := v.api().RunJob(v.ctx(), x.Name); err != nil {
		return nil, err
	}
	return v.jobDone(x.Name, v.t("It begins now"))
}

func (v *visit) jobPause(in json.RawMessage) (*reply, error) {
	x, err := read[jobName](in)
	if err != nil {
		return nil, err
	}
	if _, err := v.api().PauseJob(v.ctx(), x.Name); err != nil {
		return nil, err
	}
	return v.jobDone(x.Name, "")
}

func (v *visit) jobResume(in json.RawMessage) (*reply, error) {
	x, err := read[jobName](in)
	if err != nil {
		return nil, err
	}
	if _, err := v.api().ResumeJob(v.ctx(), x.Name); err != nil {
		return nil, err
	}
	return v.jobDone(x.Name, "")
}

func (v *visit) jobRemoveAsk(in json.RawMessage) (*reply, error) {
	x, err := read[jobName](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Delete?"), Form(Data("do", "job-remove"), hiddenFields("name", x.Name),
		P(g.Text(v.t("{what} is deleted with its history.", x.Name))), v.dialogButtons(v.t("Delete")))), nil
}

func (v *visit) jobRemove(in json.RawMessage) (*reply, error) {
	x, err := read[jobName](in)
	if err != nil {
		return nil, err
	}
	return &reply{Go: "/jobs"}, v.api().RemoveJob(v.ctx(), x.Name)
}

func toolLines(tools map[string]string) string {
	var out strings.Builder
	for _, name := range sortedKeys(tools) {
		fmt.Fprintf(&out, "%s: %s\n", name, tools[name])
	}
	return out.String()
}
