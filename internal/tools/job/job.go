// Package job makes jobs (record.Job) of what people and models say, and lets an agent create and manage
// them.
//
// A job begins by itself, so it has to be clear before it is stored when that is, what it may do and what
// it may cost. Service.Job makes a job of words: "every weekday" and "7:00" become a rule in the user's
// time zone. A job that would never begin is refused. View shows a job with the next times at which it
// begins; every place that lists, shows or adds jobs (the command line, the API, the tools) shows this.
//
// job.create is an action that always asks. Its preview is what the person approves: the next three times,
// the tools that the job may use, its cap on cost. The job keeps the labels of everything that the model
// had been shown when it created the job, so a mail cannot use a job to lose the label "untrusted". A job
// gives nobody rights: what it does later is judged then, with the rights that its owner has then.
//
// A repeated call of a tool changes nothing: a created job has the call (record.Job.By), and pausing,
// resuming and removing lead to the same state again.
package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/tools/local"
)

// Jobs keeps jobs; package jobs does.
type Jobs interface {
	AddJob(ctx context.Context, j record.Job) (record.Job, error)
	EditJob(ctx context.Context, user, name string, do func(*record.Job) error) (record.Job, error)
	Preview(j record.Job, n int) ([]time.Time, error)
	Job(ctx context.Context, user, name string) (record.Job, error)
	Jobs(ctx context.Context, user string) ([]record.Job, error)
	PauseJob(ctx context.Context, user, name string) (record.Job, error)
	ResumeJob(ctx context.Context, user, name string) (record.Job, error)
	RemoveJob(ctx context.Context, user, name string) (record.Job, error)
	RunJob(ctx context.Context, user, name string, by id.ID) (record.Occurrence, error)
	Occurrences(ctx context.Context, user, name string, limit int) ([]record.Occurrence, error)
}

// Service makes jobs of words, and shows them. Jobs is required.
type Service struct {
	local.Options
	Jobs Jobs
	// Note returns a sentence for whoever has added a job, about whether anything will run at its time;
	// empty, or a nil function: there is nothing to say.
	Note func(ctx context.Context) string
	// Check refuses a job that names what there is not: an agent, a model, a tool, an account. It names files
	// as the file tools do. nil: nothing is checked.
	Check func(ctx context.Context, j *record.Job) error
	Hooks Secrets // of webhooks; nil: there are no webhooks
}

// Secrets stores secrets; secret.Store does.
type Secrets interface {
	Set(name, value string) error
	Remove(name string) error
}

// shownTimes is how many of the next times are shown.
const shownTimes = 3

// maxNames is how many names are tried for a job that is given none.
const maxNames = 50

// Job makes a job of words. It is not stored. Error codes: trigger_invalid, time_invalid, zone_unknown,
// conversation_invalid, job_invalid.
func (s Service) Job(user string, w client.NewJob) (record.Job, error) {
	zone := s.Location(user)
	j := record.Job{User: user, Name: w.Name, Text: strings.TrimSpace(w.Text), Agent: w.Agent, Model: w.Model, Creator: "user",
		Zone: cmp.Or(strings.TrimSpace(w.Zone), ZoneName(zone)), Missed: w.Missed, Overlap: w.Overlap, Retries: w.Retries, Jitter: w.Jitter,
		MaxCost: w.MaxCost, MaxTime: w.MaxTime, Tools: w.Tools, Deliver: record.Delivery{Notify: w.Deliver.Notify}}
	zone, err := time.LoadLocation(j.Zone)
	if err != nil || j.Zone == "Local" {
		return j, fault.New(fault.Invalid, "zone_unknown", "unknown time zone %.60q", j.Zone).WithHint("use a name such as Europe/Vienna")
	}
	if j.Name == "" {
		j.Name = nameOf(j.Text)
	}
	if w.Check != nil {
		j.Check = record.Check{Tool: w.Check.Tool, Args: w.Check.Args, Pointer: w.Check.Pointer}
	}
	if w.Deliver.Conversation != "" {
		conv, ok := id.Parse(w.Deliver.Conversation)
		if !ok || conv.Zero() {
			return j, fault.New(fault.Invalid, "conversation_invalid", "%.80q is not the id of a conversation", w.Deliver.Conversation).
				WithHint("steward conversations list shows the ids")
		}
		j.Deliver.Conversation = conv
	}
	if j.Quiet, err = quiet(w.Quiet); err != nil {
		return j, err
	}
	j.Trigger, err = trigger(&w, s.Time().In(zone))
	return j, err
}

// Add stores a job that words describe. If they do not name it, and there is another one with its name, it
// gets a number. Error codes: webhook_unsupported, those of Check, and those of the scheduler.
func (s Service) Add(ctx context.Context, j record.Job, w client.NewJob) (record.Job, error) {
	if s.Check != nil {
		if err := s.Check(ctx, &j); err != nil {
			return j, err
		}
	}
	if err := s.keepSecret(&j, w.Webhook); err != nil {
		return j, err
	}
	base := j.Name
	for n := 2; ; n++ {
		added, err := s.Jobs.AddJob(ctx, j)
		if w.Name == "" && n <= maxNames && fault.HasCode(err, "name_taken") {
			j.Name = fmt.Sprintf("%s-%d", base, n)
			continue
		}
		if err != nil {
			return added, errors.Join(err, s.dropSecret(j.Hook))
		}
		return added, nil
	}
}

// minSecret is the length of a webhook's secret, in bytes.
const minSecret = 32

// keepSecret stores the secret of a job's webhook, before the job.
func (s Service) keepSecret(j *record.Job, w *client.JobWebhook) error {
	switch {
	case w == nil:
		return nil
	case s.Hooks == nil:
		return fault.New(fault.Unsupported, "webhook_unsupported", "webhooks are not served here")
	case len(w.Secret) < minSecret:
		return fault.New(fault.Invalid, "webhook_secret", "the secret of a webhook has at least %d characters", minSecret).WithHint("make it at random: openssl rand -hex 32")
	}
	return s.Hooks.Set(record.HookSecret(j.Hook), w.Secret)
}

// dropSecret removes the secret of a webhook.
func (s Service) dropSecret(hook id.ID) error {
	if hook.Zero() || s.Hooks == nil {
		return nil
	}
	if err := s.Hooks.Remove(record.HookSecret(hook)); !fault.HasCode(err, "secret_missing") {
		return err
	}
	return nil
}

// definedElsewhere refuses to change a job of an agent's folder.
func definedElsewhere(j *record.Job) error {
	if j.Folder == "" {
		return nil
	}
	return fault.New(fault.Conflict, "job_of_agent", "the job %q is defined by the agent %s", j.Name, j.Folder).
		WithHint("pause it, or change jobs: in the agent's folder")
}

// Remove removes a job, and the secret of its webhook. Error code: not_found.
func (s Service) Remove(ctx context.Context, user, name string) (record.Job, error) {
	j, err := s.Jobs.Job(ctx, user, name)
	if err == nil {
		err = definedElsewhere(&j)
	}
	if err != nil {
		return j, err
	}
	j, err = s.Jobs.RemoveJob(ctx, user, name)
	if err != nil {
		return j, err
	}
	return j, s.dropSecret(j.Hook)
}

// Edit replaces what a job says by what words say. What they leave open about when it begins stays. Error
// codes: webhook_unsupported, those of Job and Check, and those of the scheduler.
func (s Service) Edit(ctx context.Context, user, name string, w client.NewJob) (record.Job, error) {
	old, err := s.Jobs.Job(ctx, user, name)
	if err != nil {
		return old, err
	}
	if err := definedElsewhere(&old); err != nil {
		return old, err
	}
	w.Name = old.Name
	if old.Overlap == "" && w.Overlap == overlapOf(&old) { // the default of the new trigger may differ
		w.Overlap = ""
	}
	sameTrigger := triggers(&w) == 0
	if sameTrigger && w.At != "" {
		return old, invalid("give every too, for example every day", "a time of day alone does not say on which days")
	}
	if sameTrigger {
		w.Cron = "@daily" // in its place
	}
	j, err := s.Job(user, w)
	if err != nil {
		return old, err
	}
	if sameTrigger {
		j.Trigger = old.Trigger
	}
	if s.Check != nil {
		if err := s.Check(ctx, &j); err != nil {
			return old, err
		}
	}
	if err := s.keepSecret(&j, w.Webhook); err != nil {
		return old, err
	}
	edited, err := s.Jobs.EditJob(ctx, user, old.Name, func(now *record.Job) error {
		now.Text, now.Agent, now.Model, now.Zone = cmp.Or(j.Text, now.Text), j.Agent, j.Model, j.Zone
		now.Missed, now.Overlap, now.Retries, now.Jitter, now.Quiet = j.Missed, j.Overlap, j.Retries, j.Jitter, j.Quiet
		now.MaxCost, now.MaxTime, now.Tools, now.Deliver = j.MaxCost, j.MaxTime, j.Tools, j.Deliver
		if now.Check != j.Check {
			now.Check, now.Seen = j.Check, ""
		}
		if !sameTrigger {
			now.Trigger = j.Trigger
		}
		return nil
	})
	if err == nil && old.Hook != edited.Hook {
		return edited, s.dropSecret(old.Hook)
	}
	if err != nil && w.Webhook != nil {
		err = errors.Join(err, s.dropSecret(j.Hook))
	}
	return edited, err
}

// View shows a job, with the next times at which it begins. Error codes: those of the scheduler for a
// trigger that cannot be read.
func (s Service) View(j record.Job) (client.Job, error) {
	v := client.Job{NewJob: client.NewJob{Text: j.Text, Name: j.Name, Cron: j.Cron, Rule: j.Rule, Zone: j.Zone, Agent: j.Agent, Model: j.Model,
		Missed: cmp.Or(j.Missed, record.MissedOnce), Overlap: overlapOf(&j), Retries: j.Retries, Jitter: j.Jitter, MaxCost: j.MaxCost, MaxTime: j.MaxTime, Tools: j.Tools,
		Deliver: client.JobDelivery{Notify: j.Deliver.Notify}},
		When: When(&j), Labels: j.Labels.Names(), Created: j.Created, Creator: j.Creator, State: cmp.Or(j.State, record.JobActive),
		Count: client.JobCount{Due: j.Count.Due, Done: j.Count.Done, Failed: j.Count.Failed, Missed: j.Count.Missed, Skipped: j.Count.Skipped, Manual: j.Count.Manual, Cost: j.Count.Cost}}
	if j.Every > 0 {
		v.Every = fmt.Sprintf("%ds", j.Every)
	}
	if !j.At.IsZero() {
		v.Once = j.At.Format(time.RFC3339)
	}
	if !j.On.Zero() {
		v.On = &client.JobEvents{Type: j.On.Type, URI: j.On.URI, Verb: j.On.Verb}
	}
	if !j.Hook.Zero() {
		v.Path = HookPath + j.Hook.String()
	}
	if j.Mail != (record.MailFilter{}) {
		v.Mail = &client.JobMail{Account: j.Mail.Account, From: j.Mail.From, Subject: j.Mail.Subject}
	}
	v.File, v.Home = j.File, j.Home
	if j.Quiet != (record.Quiet{}) {
		v.Quiet = j.Quiet.From + "-" + j.Quiet.To
	}
	if j.Check != (record.Check{}) {
		v.Check = &client.JobCheck{Tool: j.Check.Tool, Args: j.Check.Args, Pointer: j.Check.Pointer}
	}
	if !j.Deliver.Conversation.Zero() {
		v.Deliver.Conversation = j.Deliver.Conversation.String()
	}
	if !j.Conversation.Zero() {
		v.Conversation = j.Conversation.String()
	}
	if v.State != record.JobActive {
		return v, nil
	}
	zone, err := time.LoadLocation(j.Zone)
	if err != nil {
		zone = time.UTC
	}
	v.Next, err = s.Jobs.Preview(j, shownTimes)
	for i := range v.Next {
		v.Next[i] = v.Next[i].In(zone)
	}
	return v, err
}

// Preview shows a job that is not stored. Error codes: job_never (it would not begin), and those of View.
func (s Service) Preview(j record.Job) (client.Job, error) {
	v, err := s.View(j)
	if err == nil && len(v.Next) == 0 && j.Timed() {
		err = fault.New(fault.Invalid, "job_never", "the job would never begin: %s", v.When).WithHint("give a time in the future")
	}
	return v, err
}

// HookPath is where webhooks are called, below the URL of the server.
const HookPath = "/hooks/"

func overlapOf(j *record.Job) string {
	if j.Queues() {
		return record.OverlapQueue
	}
	return record.OverlapSkip
}

// ViewOccurrence shows an occurrence in a time zone.
func ViewOccurrence(o *record.Occurrence, zone *time.Location) client.Occurrence {
	at := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return t.In(zone)
	}
	v := client.Occurrence{ID: o.ID.String(), Due: at(o.Due), Last: at(o.Last), Several: o.Several, Cause: o.Cause, Began: at(o.Began), Ended: at(o.Ended),
		State: o.State, Reason: o.Reason, Attempts: o.Attempts, Cost: o.Cost}
	if !o.Conversation.Zero() {
		v.Conversation, v.Interaction = o.Conversation.String(), o.Interaction.String()
	}
	return v
}

// Times writes the next times of a job.
func Times(v *client.Job) string {
	switch {
	case v.State == record.JobPaused:
		return "it is paused"
	case v.State == record.JobActive && v.Path != "":
		return "at each call"
	case v.State == record.JobActive && (v.On != nil || v.Mail != nil || v.File != "" || v.Home != ""):
		return "each time, from now on"
	case len(v.Next) == 0:
		return "it does not begin any more"
	}
	zone, err := time.LoadLocation(v.Zone)
	if err != nil {
		zone = time.UTC
	}
	var list []string
	for _, t := range v.Next {
		list = append(list, t.In(zone).Format(clockForm))
	}
	return strings.Join(list, ", ")
}

// May says what a job may do.
func May(tools map[string]string) string {
	text := "what its agent may do; a question reaches you, and the job waits for your answer"
	var list []string
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		list = append(list, name+": "+tools[name])
	}
	if len(list) > 0 {
		text += ". " + strings.Join(list, ", ")
	}
	return text
}

// MayCost says what a job may cost.
func MayCost(v *client.Job) string {
	cost := "no cap on cost is set"
	if v.MaxCost > 0 {
		cost = fmt.Sprintf("at most $%g each time", v.MaxCost)
		if v.Retries > 0 {
			cost = fmt.Sprintf("at most $%g for each of up to %d attempts", v.MaxCost, v.Retries+1)
		}
	}
	if v.MaxTime > 0 {
		cost += fmt.Sprintf(", and at most %s", time.Duration(v.MaxTime)*time.Second)
	}
	return cost
}
