package api

import (
	"cmp"
	"context"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/tools/job"
)

// jobNamed is the path parameter that names one of the caller's jobs.
type jobNamed struct {
	Name string `path:"name"`
}

// servesJobs reports an error where there is no scheduler.
func (f *server) servesJobs() error {
	if f.Jobs.Jobs == nil {
		return fault.New(fault.Unsupported, "jobs_unsupported", "jobs are not served here")
	}
	return nil
}

// changesJobs also refuses programs. What a program asks for may come from anywhere, and a job that is added
// here has no labels.
func (f *server) changesJobs(c *call) error {
	if !c.Attended() {
		return fault.New(fault.Denied, "job_person", "only a person can add jobs, begin them or change them").WithHint("use a key of a user who is no service")
	}
	return f.servesJobs()
}

// jobs answers with the caller's jobs, by name.
func (f *server) jobs(ctx context.Context, c *call, _ struct{}) (map[string][]client.Job, error) {
	if err := f.servesJobs(); err != nil {
		return nil, err
	}
	list, err := f.Jobs.Jobs.Jobs(ctx, c.User)
	if err != nil {
		return nil, err
	}
	out := []client.Job{}
	for _, j := range list {
		v, err := f.Jobs.View(j)
		if err != nil { // the zone data have changed, for example: the others can be shown nevertheless
			f.Logger.Warn("the next times of a job are unknown", "job", j.Name, "error", err)
		}
		out = append(out, v)
	}
	return the("jobs", out), nil
}

// newJob is the body that describes a job.
type newJob struct {
	Body client.NewJob `body:""`
}

// addJob stores a job that its owner describes in person, so that its text has no labels.
func (f *server) addJob(ctx context.Context, c *call, in newJob) (client.Job, error) {
	j, err := f.made(c, in)
	if err == nil {
		j, err = f.Jobs.Add(ctx, j, in.Body)
	}
	if err != nil {
		return client.Job{}, err
	}
	v, err := f.Jobs.View(j)
	if f.Jobs.Note != nil {
		v.Note = f.Jobs.Note(ctx)
	}
	return v, err
}

// editJob replaces what a job says.
func (f *server) editJob(ctx context.Context, c *call, in struct {
	jobNamed
	newJob
}) (client.Job, error) {
	if err := f.changesJobs(c); err != nil {
		return client.Job{}, err
	}
	j, err := f.Jobs.Edit(ctx, c.User, in.Name, in.Body)
	if err != nil {
		return client.Job{}, err
	}
	return f.Jobs.View(j)
}

// previewJob answers with the job that addJob would store.
func (f *server) previewJob(ctx context.Context, c *call, in newJob) (client.Job, error) {
	j, err := f.made(c, in)
	if err == nil && f.Jobs.Check != nil {
		err = f.Jobs.Check(ctx, &j)
	}
	if err != nil {
		return client.Job{}, err
	}
	return f.Jobs.Preview(j)
}

func (f *server) made(c *call, in newJob) (record.Job, error) {
	if err := f.changesJobs(c); err != nil {
		return record.Job{}, err
	}
	return f.Jobs.Job(c.User, in.Body)
}

// job answers with one of the caller's jobs.
func (f *server) job(ctx context.Context, c *call, in jobNamed) (client.Job, error) {
	if err := f.servesJobs(); err != nil {
		return client.Job{}, err
	}
	j, err := f.Jobs.Jobs.Job(ctx, c.User, in.Name)
	if err != nil {
		return client.Job{}, err
	}
	return f.Jobs.View(j)
}

func (f *server) pauseJob(ctx context.Context, c *call, in jobNamed) (client.Job, error) {
	return f.changeJob(ctx, c, in, job.Jobs.PauseJob)
}

func (f *server) resumeJob(ctx context.Context, c *call, in jobNamed) (client.Job, error) {
	return f.changeJob(ctx, c, in, job.Jobs.ResumeJob)
}

func (f *server) changeJob(ctx context.Context, c *call, in jobNamed, do func(job.Jobs, context.Context, string, string) (record.Job, error)) (client.Job, error) {
	if err := f.changesJobs(c); err != nil {
		return client.Job{}, err
	}
	j, err := do(f.Jobs.Jobs, ctx, c.User, in.Name)
	if err != nil {
		return client.Job{}, err
	}
	return f.Jobs.View(j)
}

func (f *server) removeJob(ctx context.Context, c *call, in jobNamed) (noContent, error) {
	if err := f.changesJobs(c); err != nil {
		return noContent{}, err
	}
	_, err := f.Jobs.Remove(ctx, c.User, in.Name)
	return noContent{}, err
}

// runJob lets a job begin now. The answer does not wait for its end.
func (f *server) runJob(ctx context.Context, c *call, in jobNamed) (client.Occurrence, error) {
	if err := f.changesJobs(c); err != nil {
		return client.Occurrence{}, err
	}
	j, err := f.Jobs.Jobs.Job(ctx, c.User, in.Name)
	if err != nil {
		return client.Occurrence{}, err
	}
	o, err := f.Jobs.Jobs.RunJob(ctx, c.User, j.Name, id.New())
	return job.ViewOccurrence(&o, zoneOfJob(&j)), err
}

// jobHistory answers with the occurrences of a job, the newest first.
func (f *server) jobHistory(ctx context.Context, c *call, in struct {
	jobNamed
	Limit int `query:"limit" range:"1,1000"`
}) (map[string][]client.Occurrence, error) {
	if err := f.servesJobs(); err != nil {
		return nil, err
	}
	j, err := f.Jobs.Jobs.Job(ctx, c.User, in.Name)
	if err != nil {
		return nil, err
	}
	list, err := f.Jobs.Jobs.Occurrences(ctx, c.User, j.Name, cmp.Or(in.Limit, store.DefaultLimit))
	out := []client.Occurrence{}
	for i := range list {
		out = append(out, job.ViewOccurrence(&list[i], zoneOfJob(&j)))
	}
	return the("occurrences", out), err
}

func zoneOfJob(j *record.Job) *time.Location {
	zone, err := time.LoadLocation(j.Zone)
	if err != nil {
		return time.UTC
	}
	return zone
}
