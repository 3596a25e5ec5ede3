package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/record"
	"steward/internal/settings"
	"steward/internal/tools/job"
)

// agentJobs keeps the jobs that the folders of agents define. A job belongs to the person who approved its agent. It
// is added when the agent may be used, paused while the agent may not be, and removed with its definition. So an
// agent whose folder has changed starts nothing until it is approved again.
type agentJobs struct {
	local *Local
	jobs  job.Service
}

// run keeps the jobs up to date until ctx is done.
func (k agentJobs) run(ctx context.Context) {
	for {
		changed := k.local.Catalog.Changed()
		if err := k.update(ctx); err != nil && ctx.Err() == nil {
			k.local.Log.Warn("the jobs of agents cannot be brought up to date", "error", err)
			fault.Pause(ctx, time.Minute)
			if ctx.Err() == nil {
				continue
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// update brings the jobs in line with the folders.
func (k agentJobs) update(ctx context.Context) error {
	stored, err := k.local.alarms.FolderJobs(ctx)
	if err != nil {
		return err
	}
	old := map[string]record.Job{} // by user and name
	for _, j := range stored {
		old[j.User+" "+j.Name] = j
	}
	accounts, err := k.local.Keys.Accounts(ctx)
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	var all error
	for _, a := range k.local.Catalog.Listings() {
		listed[a.Path] = true
		if !a.Usable || !slices.ContainsFunc(accounts, func(x identity.Account) bool { return x.User == a.By }) {
			continue
		}
		for name, d := range a.Jobs {
			key := a.By + " " + jobName(a.Path, name)
			all = errors.Join(all, k.put(ctx, &a, name, d, old[key]))
			delete(old, key)
		}
	}
	for _, j := range old { // a definition that cannot be used now may come back
		usable := k.local.Catalog.Tree().ByPath[j.Folder] != nil
		if listed[j.Folder] && !usable {
			err = k.local.alarms.SwitchJob(ctx, j.User, j.Name, false)
		} else {
			_, err = k.local.alarms.RemoveJob(ctx, j.User, j.Name)
		}
		if !fault.Is(err, fault.NotFound) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// put adds a job, or changes it as its definition says. A definition that cannot be carried out is logged.
func (k agentJobs) put(ctx context.Context, a *catalog.Listing, name string, d catalog.Job, old record.Job) error {
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:16])
	if old.Folder != "" && old.Defined == hash {
		return k.local.alarms.SwitchJob(ctx, old.User, old.Name, true)
	}
	j, err := k.jobs.Job(a.By, jobWords(a.Path, name, d))
	if err == nil {
		err = k.jobs.Check(ctx, &j)
	}
	j.Folder, j.Defined, j.Creator = a.Path, hash, "folder:"+a.Path
	switch {
	case err != nil:
	case old.Folder == "":
		_, err = k.local.alarms.AddJob(ctx, j)
	default:
		_, err = k.local.alarms.EditJob(ctx, old.User, old.Name, func(now *record.Job) error {
			now.Trigger, now.Text, now.Zone, now.Missed, now.Overlap, now.Retries, now.Quiet = j.Trigger, j.Text, j.Zone, j.Missed, j.Overlap, j.Retries, j.Quiet
			now.MaxCost, now.MaxTime, now.Tools, now.Deliver, now.Defined = j.MaxCost, j.MaxTime, j.Tools, j.Deliver, j.Defined
			return nil
		})
		if err == nil {
			err = k.local.alarms.SwitchJob(ctx, old.User, old.Name, true)
		}
	}
	if err != nil && ctx.Err() == nil {
		k.local.Log.Warn("a job of an agent cannot be added", "agent", a.Path, "job", name, "error", err)
		return nil
	}
	return err
}

// jobName is the name of an agent's job among the jobs of its owner.
func jobName(agent, name string) string {
	return strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(agent + "-" + name))
}

// jobWords describes an agent's job.
func jobWords(agent, name string, d catalog.Job) client.NewJob {
	w := client.NewJob{Text: d.Text, Name: jobName(agent, name), Agent: agent, Every: d.Every, At: d.At, Once: d.Once, Cron: d.Cron, Rule: d.Rule, On: job.Events(d.On, ""),
		File: d.File, Home: d.Home, Zone: d.Zone, Missed: d.Missed, Overlap: d.Overlap, Retries: d.Retries, Quiet: d.Quiet, MaxCost: d.MaxCost, MaxTime: 60 * d.MaxTime, Tools: d.Tools,
		Deliver: client.JobDelivery{Notify: d.Notify}}
	if d.Mail != (catalog.JobMail{}) {
		w.Mail = &client.JobMail{Account: d.Mail.Account, From: d.Mail.From, Subject: d.Mail.Subject}
	}
	return w
}

// readJob says in words when a job of an agent begins.
func (l *Local) readJob(set *settings.Loaded) func(string, catalog.Job) (string, error) {
	return func(name string, d catalog.Job) (string, error) {
		s := l.jobService(set)
		j, err := s.Job(l.User, jobWords("agent", name, d))
		if err == nil && s.Jobs != nil {
			_, err = s.Jobs.Preview(j, 1)
		}
		return job.When(&j), err
	}
}
