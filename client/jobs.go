package client

import (
	"context"
	"strconv"
	"time"
)

// NewJob describes a job: a request that begins by itself. Exactly one of Every, Once, Cron, Rule, On, Webhook,
// Mail, File and Home says when it begins.
type NewJob struct {
	Text    string      `json:"text"`           // what is asked
	Name    string      `json:"name,omitzero"`  // lower case letters, digits and hyphens; empty: derived from the text
	Every   string      `json:"every,omitzero"` // "day", "weekday", "monday, thursday", "2 weeks", "30 minutes"
	At      string      `json:"at,omitzero"`    // with Every: a time of day, such as "7:00"
	Once    string      `json:"once,omitzero"`  // "2026-12-01T09:00", "9:00" for the next time it is nine, "20m" for in twenty minutes
	Cron    string      `json:"cron,omitzero"`  // five fields, or a name such as @daily
	Rule    string      `json:"rule,omitzero"`  // an RRULE of RFC 5545
	On      *JobEvents  `json:"on,omitzero"`
	Webhook *JobWebhook `json:"webhook,omitzero"`
	Mail    *JobMail    `json:"mail,omitzero"`
	File    string      `json:"file,omitzero"`    // a file that changes, as the file tools name it: "workspace/in/*.pdf"
	Home    string      `json:"home,omitzero"`    // a state that the home enters: "light.hall=on", "sensor.hall_temperature>25"
	Zone    string      `json:"zone,omitzero"`    // an IANA name; empty: the user's time zone
	Agent   string      `json:"agent,omitzero"`   // path; empty: the assistant, or whom routing chooses
	Model   string      `json:"model,omitzero"`   // empty: the agent's
	Missed  string      `json:"missed,omitzero"`  // what was due while Steward did not run: "once" (also if empty), "all" or "skip"
	Overlap string      `json:"overlap,omitzero"` // while an earlier occurrence is not over: "skip" or "queue"; empty: queue for Webhook, Mail, File and Home, else skip

	Retries int               `json:"retries,omitzero"`  // how often an occurrence that failed is tried again
	Jitter  int               `json:"jitter,omitzero"`   // each occurrence begins up to so many seconds late
	Quiet   string            `json:"quiet,omitzero"`    // hours in which it does not begin: "22:00-7:00"
	MaxCost float64           `json:"max_cost,omitzero"` // US dollars, of one attempt; 0: no cap
	MaxTime int               `json:"max_time,omitzero"` // seconds, of one attempt, without waiting for a person; 0: no cap
	Tools   map[string]string `json:"tools,omitzero"`    // "allow", "ask" or "deny", by the name or glob of a tool
	Check   *JobCheck         `json:"check,omitzero"`
	Deliver JobDelivery       `json:"deliver,omitzero"`
}

// JobEvents are the events that a job begins on. Type and URI are not both empty.
type JobEvents struct {
	Type string `json:"type,omitzero"` // of the resource; "mail.*" selects all that begin so
	URI  string `json:"uri,omitzero"`  // the resource, or one that it is below
	Verb string `json:"verb,omitzero"` // what happened: "put" or "delete"; empty: either
}

// JobWebhook has a job begin when a URL is called.
type JobWebhook struct {
	Secret string `json:"secret"` // with which calls are signed: at least 32 random characters. It is never returned.
}

// JobMail are the e-mails that a job begins on.
type JobMail struct {
	Account string `json:"account"`
	From    string `json:"from,omitzero"`    // part of the sender's name or address
	Subject string `json:"subject,omitzero"` // part of the subject
}

// JobCheck is a query that decides without a model whether there is anything to do: there is if its
// result has changed since the job last ran.
type JobCheck struct {
	Tool    string `json:"tool"`
	Args    string `json:"args,omitzero"`    // JSON
	Pointer string `json:"pointer,omitzero"` // to the part of the result that counts
}

// JobDelivery says where answers go, apart from the job's own conversation.
type JobDelivery struct {
	Conversation string `json:"conversation_id,omitzero"`
	Notify       bool   `json:"notify,omitzero"`
}

// Job is a job as it is stored.
type Job struct {
	NewJob                   // of Every, At, Once, Cron and Rule it has what When says: Every in seconds, Once as a time
	When         string      `json:"when"`
	Path         string      `json:"path,omitzero"`            // of the job's webhook, at the server: "/hooks/ID"
	Conversation string      `json:"conversation_id,omitzero"` // the job's own, in which it works
	Labels       []string    `json:"labels,omitzero"`          // of what created it
	Created      time.Time   `json:"created,omitzero"`
	Creator      string      `json:"creator,omitzero"` // "user", or "agent:PATH"
	State        string      `json:"state"`            // "active", "paused" or "ended"
	Next         []time.Time `json:"next,omitzero"`    // the next times at which it begins, at most three
	Count        JobCount    `json:"count,omitzero"`
	Note         string      `json:"note,omitzero"` // when the job is added: what has to be done so that it can begin
}

// JobCount counts the occurrences of a job.
type JobCount struct {
	Due     int     `json:"due"`
	Done    int     `json:"done,omitzero"`
	Failed  int     `json:"failed,omitzero"`
	Missed  int     `json:"missed,omitzero"`
	Skipped int     `json:"skipped,omitzero"`
	Manual  int     `json:"manual,omitzero"` // of Due: begun by a person, not by the trigger
	Cost    float64 `json:"cost,omitzero"`   // US dollars
}

// Occurrence is one time at which a job begins, or several that were missed one after the other.
type Occurrence struct {
	ID           string    `json:"id"`
	Due          time.Time `json:"due"`
	Last         time.Time `json:"last,omitzero"`    // of several: when the last one was due
	Several      int       `json:"several,omitzero"` // how many they are
	Cause        string    `json:"cause,omitzero"`   // empty: its time; "person", or the URI of what an event is about
	Began        time.Time `json:"began,omitzero"`
	Ended        time.Time `json:"ended,omitzero"`
	State        string    `json:"state"`           // "due", "running", "waiting", "done", "failed", "missed" or "skipped"
	Reason       string    `json:"reason,omitzero"` // why it failed or did not run
	Attempts     int       `json:"attempts,omitzero"`
	Conversation string    `json:"conversation_id,omitzero"`
	Interaction  string    `json:"interaction_id,omitzero"`
	Cost         float64   `json:"cost,omitzero"` // US dollars
}

// Open reports whether the occurrence is not over.
func (o *Occurrence) Open() bool {
	return o.State == "due" || o.State == "running" || o.State == "waiting"
}

// Jobs returns the caller's jobs, by name.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	return whole[Job](ctx, c, "GET /jobs", "jobs", nil)
}

// Job returns a job by its name.
func (c *Client) Job(ctx context.Context, name string) (Job, error) {
	return ask[Job](ctx, c, "GET /jobs/{name}", Params{"name": name}, nil)
}

// AddJob adds a job.
func (c *Client) AddJob(ctx context.Context, j NewJob) (Job, error) {
	return ask[Job](ctx, c, "POST /jobs", nil, j)
}

// EditJob replaces what a job says. If j does not say when it begins, that stays; and so does an empty text.
func (c *Client) EditJob(ctx context.Context, name string, j NewJob) (Job, error) {
	return ask[Job](ctx, c, "PUT /jobs/{name}", Params{"name": name}, j)
}

// PreviewJob returns the job that AddJob would add, and stores nothing.
func (c *Client) PreviewJob(ctx context.Context, j NewJob) (Job, error) {
	return ask[Job](ctx, c, "POST /jobs/preview", nil, j)
}

// RunJob lets a job begin now.
func (c *Client) RunJob(ctx context.Context, name string) (Occurrence, error) {
	return ask[Occurrence](ctx, c, "POST /jobs/{name}/run", Params{"name": name}, struct{}{})
}

// PauseJob lets a job begin no more until it is resumed.
func (c *Client) PauseJob(ctx context.Context, name string) (Job, error) {
	return ask[Job](ctx, c, "POST /jobs/{name}/pause", Params{"name": name}, struct{}{})
}

// ResumeJob lets a paused job begin again.
func (c *Client) ResumeJob(ctx context.Context, name string) (Job, error) {
	return ask[Job](ctx, c, "POST /jobs/{name}/resume", Params{"name": name}, struct{}{})
}

// RemoveJob removes a job and its history.
func (c *Client) RemoveJob(ctx context.Context, name string) error {
	return c.Call(ctx, "DELETE /jobs/{name}", Params{"name": name}, nil, nil)
}

// JobHistory returns at most limit occurrences of a job, the newest first.
func (c *Client) JobHistory(ctx context.Context, name string, limit int) ([]Occurrence, error) {
	p := Params{"name": name, "limit": strconv.Itoa(min(limit, maxPage))}
	return whole[Occurrence](ctx, c, "GET /jobs/{name}/history", "occurrences", p)
}
