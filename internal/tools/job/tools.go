package job

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Group is the first word of the tools' names.
const Group = "job"

// ownLabels are the labels of what is listed: it belongs to the user, and may come from what others wrote.
const ownLabels = message.Private | message.Untrusted

type createArgs struct {
	Text    string            `json:"text" jsonschema:"What is to be done each time, as a request in the user's words, without when" minlen:"1" maxlen:"4000"`
	Every   string            `json:"every,omitzero" jsonschema:"How it repeats: day, weekday, weekend, monday, 'monday, thursday', week, month, 2 weeks, hour, 30 minutes" maxlen:"100"`
	At      string            `json:"at,omitzero" jsonschema:"With every: the time of day in the user's time zone, such as 7:00" maxlen:"40"`
	Once    string            `json:"once,omitzero" jsonschema:"In place of every: one time, such as 2026-12-01T09:00" maxlen:"40"`
	Cron    string            `json:"cron,omitzero" jsonschema:"In place of every: a cron expression of five fields" maxlen:"200"`
	Rule    string            `json:"rule,omitzero" jsonschema:"In place of every: an RRULE such as FREQ=MONTHLY;BYDAY=1MO;BYHOUR=7;BYMINUTE=0" maxlen:"300"`
	On      string            `json:"on,omitzero" jsonschema:"In place of every: an event, by the type or URI of what changes, such as mail.Message" maxlen:"200"`
	Mail    string            `json:"mail,omitzero" jsonschema:"In place of every: new mail in this account" maxlen:"60"`
	From    string            `json:"from,omitzero" jsonschema:"With mail: only from a sender with this part" maxlen:"200"`
	Subject string            `json:"subject,omitzero" jsonschema:"With mail: only if the subject has this part" maxlen:"200"`
	File    string            `json:"file,omitzero" jsonschema:"In place of every: a file that is new or changes, such as workspace/in/*.pdf" maxlen:"500"`
	Home    string            `json:"home,omitzero" jsonschema:"In place of every: a state of the home that comes true, such as light.hall=on or sensor.hall>25" maxlen:"200"`
	Name    string            `json:"name,omitzero" jsonschema:"A short name: lower case letters, digits and hyphens" maxlen:"60"`
	Missed  string            `json:"missed,omitzero" jsonschema:"What to do about times at which Steward did not run: once, all or skip" enum:"once,all,skip"`
	Overlap string            `json:"overlap,omitzero" jsonschema:"What to do while an earlier occurrence runs: skip or queue" enum:"skip,queue"`
	Retries int               `json:"retries,omitzero" jsonschema:"How often an occurrence that failed is tried again" min:"0" max:"10"`
	Quiet   string            `json:"quiet,omitzero" jsonschema:"Hours in which it does not begin, such as 22:00-7:00" maxlen:"20"`
	MaxCost float64           `json:"max_cost,omitzero" jsonschema:"Cap on the cost of one attempt, in US dollars" min:"0"`
	MaxTime int               `json:"max_minutes,omitzero" jsonschema:"Cap on the time of one attempt, in minutes" min:"0" max:"1440"`
	Tools   map[string]string `json:"tools,omitzero" jsonschema:"Limits for tools by name or glob: ask or deny, such as mail.send: deny"`
}

// words returns the job that a call describes. Its answers come to the conversation of the call.
func (a *createArgs) words(in tool.Invocation) client.NewJob {
	w := client.NewJob{Text: a.Text, Name: a.Name, Every: a.Every, At: a.At, Once: a.Once, Cron: a.Cron, Rule: a.Rule, Missed: a.Missed, Overlap: a.Overlap,
		Retries: a.Retries, Quiet: a.Quiet, MaxCost: a.MaxCost, MaxTime: 60 * a.MaxTime, Tools: a.Tools, Agent: in.Agent, Deliver: client.JobDelivery{Notify: true}}
	w.On, w.File, w.Home = Events(a.On, ""), a.File, a.Home
	if a.Mail != "" || a.From != "" || a.Subject != "" {
		w.Mail = &client.JobMail{Account: a.Mail, From: a.From, Subject: a.Subject}
	}
	if !in.Conversation.Zero() {
		w.Deliver.Conversation = record.IDOf(in.Conversation, record.TypeConversation).String()
	}
	return w
}

type whichArgs struct {
	Name string `json:"name" jsonschema:"The job's name, or words of its text" minlen:"1" maxlen:"200"`
}

type historyArgs struct {
	Name  string `json:"name" jsonschema:"The job's name, or words of its text" minlen:"1" maxlen:"200"`
	Limit int    `json:"limit,omitzero" jsonschema:"How many occurrences to list, 20 unless given" min:"1" max:"200"`
}

// Add adds the tools to a kit named "job".
func Add(k *local.Kit, s Service) {
	stale := []tool.Strategy{{Kind: tool.ByTool, Tools: []string{k.Name("list")}}}
	local.Action(k, tool.Spec{Name: "create", Asks: true, Dedupes: true, Tidy: stale, Sentences: createJob,
		Description: "Creates a job: a request that you carry out by yourself later, once or repeatedly, such as a summary of new mail every weekday at seven. " +
			"Use it when something has to be looked up or done at that time; a reminder only tells a text. The user is shown when it begins next, and approves it.",
		Log: tool.LogSpec{Summary: "Create the job {text}", Does: "has Steward do this by itself later", Parameters: []string{"text", "every", "at", "once", "cron", "rule", "on", "mail", "from", "subject", "file", "home", "name"},
			Previewed: []string{"every", "at", "once", "cron", "rule", "on", "mail", "from", "subject", "file", "home", "name", "missed", "overlap", "retries", "quiet", "max_cost", "max_minutes", "tools"}},
	}, s.create, s.settleCreate)
	k.Wrap(func(l local.Layer) tool.Tool { return creating{l, s} })
	local.Query(k, tool.Spec{Name: "list", Yields: ownLabels, Sentences: listJobs, Tidy: []tool.Strategy{{Kind: tool.ByAge, MaxAge: time.Minute}, stale[0]},
		Description: "Lists the jobs, with their names and when they begin next.", Log: tool.LogSpec{Summary: "List the jobs"}}, s.list)
	local.Query(k, tool.Spec{Name: "show", Yields: ownLabels, Tidy: local.ReplacesEarlier("name"),
		Description: "Shows everything about a job: what it does, when it begins, what it may do and cost.", Log: tool.LogSpec{Summary: "Show the job {name}"}}, s.show)
	local.Query(k, tool.Spec{Name: "history", Yields: ownLabels, Tidy: local.ReplacesEarlier("name"),
		Description: "Lists the occurrences of a job, the newest first: which were done, failed, missed or skipped, and why.", Log: tool.LogSpec{Summary: "List the occurrences of the job {name}"}}, s.history)
	change := func(name, describe, summary, does string, do func(context.Context, tool.Invocation, record.Job) (string, error)) {
		local.Action(k, tool.Spec{Name: name, Dedupes: true, Tidy: stale, Description: describe, Log: tool.LogSpec{Summary: summary, Does: does},
			Widths: []tool.Width{{Name: name + " any job", Any: []string{"name"}}}},
			func(ctx context.Context, in tool.Invocation, a whichArgs) (string, error) {
				j, err := s.one(ctx, in.User, strings.TrimSpace(a.Name))
				if err != nil {
					return "", tool.NotDone(err)
				}
				return do(ctx, in, j)
			}, nil)
	}
	change("pause", "Pauses a job: it does not begin until it is resumed.", "Pause the job {name}", "pauses a job", s.pause)
	change("resume", "Lets a paused job begin again, from its next time on.", "Resume the job {name}", "lets a job begin again", s.resume)
	change("run", "Lets a job begin now, in the background, apart from its times.", "Run the job {name} now", "lets a job begin now", s.run)
	local.Action(k, tool.Spec{Name: "remove", Dedupes: true, Yields: ownLabels, Tidy: stale, Description: "Removes a job and its history.",
		Log: tool.LogSpec{Summary: "Remove the job {name}", Does: "removes a job"}, Widths: []tool.Width{{Name: "remove any job", Any: []string{"name"}}}}, s.remove, nil)
}

// creating is job.create with its preview.
type creating struct {
	local.Layer
	s Service
}

// Check implements tool.Checker: nobody is asked about a job that cannot begin. Whether a time has passed
// is not checked, because the same call is checked again after its answer.
func (c creating) Check(args []byte) error {
	if err := c.Layer.Check(args); err != nil {
		return err
	}
	j, err := c.job(tool.Invocation{Args: args})
	if err == nil && c.s.Jobs != nil {
		_, err = c.s.Jobs.Preview(j, 1)
	}
	return err
}

func (c creating) job(in tool.Invocation) (record.Job, error) {
	var a createArgs
	if err := json.Unmarshal(in.Args, &a); err != nil {
		return record.Job{}, err
	}
	return c.s.Job(in.User, a.words(in))
}

// Preview implements tool.Previewer: it shows what the person approves.
func (c creating) Preview(ctx context.Context, in tool.Invocation) (string, error) {
	j, err := c.job(in)
	if err == nil && c.s.Check != nil {
		err = c.s.Check(ctx, &j)
	}
	if err != nil {
		return "", err
	}
	v, err := c.s.Preview(j)
	return preview(&v), err
}

func preview(v *client.Job) string {
	rows := [][2]string{{"job", v.Name}, {"begins", v.When + " (" + v.Zone + ")"}, {"next", Times(v)}, {"may do", May(v.Tools)}, {"may cost", MayCost(v)},
		{"if missed", missedWords(v.Missed)}}
	if v.Overlap == record.OverlapQueue {
		rows = append(rows, [2]string{"overlap", "it waits until the earlier one is over"})
	}
	if v.Retries > 0 {
		rows = append(rows, [2]string{"if it fails", fmt.Sprintf("it is tried again, up to %s", plural2(v.Retries, "time"))})
	}
	if v.Quiet != "" {
		rows = append(rows, [2]string{"quiet", v.Quiet})
	}
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%-12s%s\n", r[0], r[1])
	}
	return b.String()
}

func plural2(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return plural(n, unit)
}

func missedWords(missed string) string {
	switch missed {
	case record.MissedAll:
		return "all that were missed run, one after the other"
	case record.MissedSkip:
		return "nothing runs; you are told"
	}
	return "the last one runs"
}

func (s Service) create(ctx context.Context, in tool.Invocation, a createArgs) (string, error) {
	by := id.Derive("job", "call", local.Key(in))
	if j, ok, err := s.createdBy(ctx, in.User, by); err != nil || ok {
		return s.created(ctx, j), err
	}
	j, err := s.Job(in.User, a.words(in))
	if err != nil {
		return "", tool.NotDone(err)
	}
	j.By, j.Labels, j.Creator = by, in.Labels, "agent:"+in.Agent
	if in.Agent == "" {
		j.Creator = "agent:assistant"
	}
	if j.Labels.Has(message.Private) {
		j.Sources = in.Sources
	}
	if j, err = s.Add(ctx, j, a.words(in)); err != nil {
		return "", err
	}
	return s.created(ctx, j), nil
}

// createdBy returns the job that a call has created.
func (s Service) createdBy(ctx context.Context, user string, by id.ID) (record.Job, bool, error) {
	list, err := s.Jobs.Jobs(ctx, user)
	i := slices.IndexFunc(list, func(j record.Job) bool { return j.By == by })
	if err != nil || i < 0 {
		return record.Job{}, false, err
	}
	return list[i], true, nil
}

func (s Service) settleCreate(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
	j, ok, err := s.createdBy(ctx, in.User, id.Derive("job", "call", local.Key(in)))
	if err != nil || !ok {
		return false, tool.Result{}, err
	}
	return true, tool.Text(s.created(ctx, j)), nil
}

// created says when a job begins that was created.
func (s Service) created(ctx context.Context, j record.Job) string {
	if j.Name == "" {
		return ""
	}
	text := fmt.Sprintf("The job %s is created: %s.", j.Name, When(&j))
	if v, err := s.View(j); err == nil {
		text = fmt.Sprintf("The job %s is created: %s. Next: %s.", j.Name, v.When, Times(&v))
	}
	if s.Note != nil {
		text = strings.TrimSpace(text + " " + s.Note(ctx))
	}
	return text
}

// one finds the job that is meant: by its name, or by words of its text.
func (s Service) one(ctx context.Context, user, which string) (record.Job, error) {
	list, err := s.Jobs.Jobs(ctx, user)
	if err != nil {
		return record.Job{}, err
	}
	var found []record.Job
	for _, j := range list {
		if strings.EqualFold(j.Name, which) {
			return j, nil
		}
		if strings.EqualFold(j.Text, which) || local.HasWords(j.Text+" "+strings.ReplaceAll(j.Name, "-", " "), which) {
			found = append(found, j)
		}
	}
	return local.ExactlyOne("job", which, found, func(j record.Job) string { return j.Name })
}

func (s Service) list(ctx context.Context, in tool.Invocation, _ struct{}) (string, error) {
	list, err := s.Jobs.Jobs(ctx, in.User)
	if err != nil || len(list) == 0 {
		return "There are no jobs.", err
	}
	return local.List(list, len(list), func(j record.Job) string {
		next := j.State
		if !j.Next.IsZero() {
			next = "next " + s.clock(&j, j.Next)
		}
		return fmt.Sprintf("- %s: %q, %s, %s", j.Name, j.Text, When(&j), next)
	}) + "\n", nil
}

// clock writes a time in a job's zone.
func (s Service) clock(j *record.Job, t time.Time) string {
	zone, err := time.LoadLocation(j.Zone)
	if err != nil {
		zone = time.UTC
	}
	return t.In(zone).Format(clockForm)
}

func (s Service) show(ctx context.Context, in tool.Invocation, a whichArgs) (string, error) {
	j, err := s.one(ctx, in.User, strings.TrimSpace(a.Name))
	if err != nil {
		return "", err
	}
	v, err := s.View(j)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%-12s%s\n%s%-12s%s, %d due: %d done, %d failed, %d missed, %d skipped, $%.4f\n", "text", v.Text, preview(&v), "state", v.State,
		v.Count.Due, v.Count.Done, v.Count.Failed, v.Count.Missed, v.Count.Skipped, v.Count.Cost), nil
}

func (s Service) history(ctx context.Context, in tool.Invocation, a historyArgs) (string, error) {
	j, err := s.one(ctx, in.User, strings.TrimSpace(a.Name))
	if err != nil {
		return "", err
	}
	limit := a.Limit
	if limit == 0 {
		limit = 20
	}
	list, err := s.Jobs.Occurrences(ctx, in.User, j.Name, limit)
	if err != nil || len(list) == 0 {
		return "The job " + j.Name + " has not begun yet.", err
	}
	return local.List(list, len(list), func(o record.Occurrence) string {
		text := "- " + s.clock(&j, o.Due) + ": " + o.State
		if o.Several > 1 {
			text += fmt.Sprintf(" %d times until %s", o.Several, s.clock(&j, o.Last))
		}
		if o.Reason != "" {
			text += " (" + o.Reason + ")"
		}
		return text
	}) + "\n", nil
}

func (s Service) pause(ctx context.Context, in tool.Invocation, j record.Job) (string, error) {
	j, err := s.Jobs.PauseJob(ctx, in.User, j.Name)
	return fmt.Sprintf("The job %s is paused.", j.Name), err
}

func (s Service) resume(ctx context.Context, in tool.Invocation, j record.Job) (string, error) {
	j, err := s.Jobs.ResumeJob(ctx, in.User, j.Name)
	return fmt.Sprintf("The job %s begins again: %s.", j.Name, s.clock(&j, j.Next)), err
}

func (s Service) run(ctx context.Context, in tool.Invocation, j record.Job) (string, error) {
	_, err := s.Jobs.RunJob(ctx, in.User, j.Name, id.Derive("job", "run", local.Key(in)))
	return fmt.Sprintf("The job %s begins now.", j.Name), err
}

// remove is job.remove. If the call is repeated after a crash, the job is gone.
func (s Service) remove(ctx context.Context, in tool.Invocation, a whichArgs) (string, error) {
	j, err := s.one(ctx, in.User, strings.TrimSpace(a.Name))
	if err != nil {
		return "", tool.NotDone(err)
	}
	_, err = s.Remove(ctx, in.User, j.Name)
	return fmt.Sprintf("The job %s is removed.", j.Name), err
}
