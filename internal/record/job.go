package record

import (
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
)

// The types of jobs and their occurrences.
const (
	TypeJob        = "jobs.Job"
	TypeOccurrence = "jobs.Occurrence"
)

// OriginJob and the id of the job are the origin of the message that an occurrence opens a turn with.
const OriginJob = "job:"

// The states of a job. The state of its resource is the same, but empty for a job that has ended.
const (
	JobActive = "active"
	JobPaused = "paused"
	JobEnded  = "ended"
)

// What happens to occurrences that were due while Steward did not run. Those that do not run are
// recorded as missed.
const (
	MissedOnce = "once" // the newest one runs
	MissedAll  = "all"  // they run one after the other, up to a bound
	MissedSkip = "skip" // none runs
)

// What happens to an occurrence that is due while an earlier one is not over.
const (
	OverlapSkip  = "skip"
	OverlapQueue = "queue"
)

// What a job may do with a tool; see Job.Tools.
const (
	ToolAllow = "allow"
	ToolAsk   = "ask"
	ToolDeny  = "deny"
)

// AllActions stands for all tools that change something, in Job.Tools. A name or glob that fits counts more.
const AllActions = "@action"

// Job is a request that begins by itself. It belongs to a user. Each time it begins is an Occurrence.
type Job struct {
	ID           id.ID          `json:"id"` // derived from the user and the name
	User         string         `json:"user"`
	Name         string         `json:"name"`                  // unique among the user's jobs; lower case letters, digits and hyphens
	Text         string         `json:"text"`                  // what is asked
	Agent        string         `json:"agent,omitzero"`        // path; empty: the assistant, or whom routing chooses
	Model        string         `json:"model,omitzero"`        // empty: the agent's
	Conversation id.ID          `json:"conversation,omitzero"` // the job's own, in which each occurrence opens a turn
	Labels       message.Labels `json:"labels,omitzero"`       // of what created the job; its text has them
	Sources      []string       `json:"sources,omitzero"`      // likewise
	Created      time.Time      `json:"created"`
	Creator      string         `json:"creator,omitzero"` // "user", "agent:PATH", "folder:PATH"
	Folder       string         `json:"folder,omitzero"`  // the path of the agent whose folder defines the job
	Defined      string         `json:"defined,omitzero"` // a hash of that definition
	Off          bool           `json:"off,omitzero"`     // paused because that agent may not be used, not by a person
	By           id.ID          `json:"by,omitzero"`      // the call that created the job: creating it again by the same call has no effect
	Kind         string         `json:"kind,omitzero"`    // of a job of Steward's own (KindHeartbeat, …), which looks before it begins; empty: an ordinary one

	Trigger
	Zone    string            `json:"zone,omitzero"`    // IANA name; rules, cron and quiet hours are counted there; empty: UTC
	Missed  string            `json:"missed,omitzero"`  // MissedOnce (also if empty), MissedAll or MissedSkip
	Overlap string            `json:"overlap,omitzero"` // OverlapSkip or OverlapQueue; empty: see Queues
	Retries int               `json:"retries,omitzero"` // how often an occurrence that failed is tried again
	Jitter  int               `json:"jitter,omitzero"`  // each occurrence begins up to so many seconds after it is due
	Quiet   Quiet             `json:"quiet,omitzero"`   // occurrences that are due then begin at the end
	MaxCost float64           `json:"max_cost,omitzero"`
	MaxTime int               `json:"max_time,omitzero"` // seconds, of one attempt, without waiting for a person
	Tools   map[string]string `json:"tools,omitzero"`    // what the job may do with tools, by name or glob: ToolAllow, ToolAsk, ToolDeny
	Check   Check             `json:"check,omitzero"`
	Deliver Delivery          `json:"deliver,omitzero"`

	State string    `json:"state"`
	Ended string    `json:"ended,omitzero"` // why: "over"
	Next  time.Time `json:"next,omitzero"`  // the next occurrence; zero: none is known
	Count JobCount  `json:"count,omitzero"`
	Seen  string    `json:"seen,omitzero"` // what the check found when the job last ran; of a job with a Kind: up to where it has told what changed
	Last  Look      `json:"last,omitzero"` // of a job with a Kind
	Today JobDay    `json:"today,omitzero"`

	// Jobs that begin when something happens:
	Cursor string    `json:"cursor,omitzero"` // how far the events have been read, or what was last seen of files or the home
	Held   time.Time `json:"held,omitzero"`   // nothing begins the job before
}

// The kinds of jobs of Steward's own. They begin only if something has changed, and tell what matters.
const (
	KindHeartbeat = "heartbeat"
	KindDaily     = "daily"
	KindWeekly    = "weekly"
	KindMonthly   = "monthly"
)

// KindBackup is the kind of the job that backs the data folder up. It asks no model.
const KindBackup = "backup"

// Look is the last time at which a job of Steward's own had nothing to do.
type Look struct {
	At     time.Time `json:"at,omitzero"`
	Reason string    `json:"reason,omitzero"`  // ReasonUnchanged, ReasonQuiet, ReasonDayCap
	Failed []string  `json:"failed,omitempty"` // where it could not look
}

// JobDay is what a job of Steward's own has spent on a day of its zone.
type JobDay struct {
	Date  string  `json:"date,omitzero"`  // 2006-01-02
	Calls int     `json:"calls,omitzero"` // of models
	Cost  float64 `json:"cost,omitzero"`  // US dollars
}

// Spent returns what was spent on a day.
func (d JobDay) Spent(date string) (calls int, cost float64) {
	if d.Date != date {
		return 0, 0
	}
	return d.Calls, d.Cost
}

// Trigger says when a job begins. Exactly one of At, Every, Cron, Rule, On, Hook, Mail, File and Home is set.
type Trigger struct {
	At    time.Time   `json:"at,omitzero"`    // once
	Every int         `json:"every,omitzero"` // seconds, counted from Start
	Cron  string      `json:"cron,omitzero"`  // five fields, or a name such as @daily
	Rule  string      `json:"rule,omitzero"`  // an RRULE of RFC 5545 without DTSTART, which is Start
	On    EventFilter `json:"on,omitzero"`
	Hook  id.ID       `json:"hook,omitzero"`  // a call of /hooks/ID, signed with the secret HookSecret(ID)
	Mail  MailFilter  `json:"mail,omitzero"`  // an e-mail that arrives
	File  string      `json:"file,omitzero"`  // a file that appears or changes: its path as the file tools take it, with a glob in its last element
	Home  string      `json:"home,omitzero"`  // a state that the home enters, such as "light.hall=on" or "sensor.hall>25"
	Start time.Time   `json:"start,omitzero"` // no occurrence is before it; zero when the job is created: now
}

// Timed reports whether the job begins at times, and not when something happens.
func (t *Trigger) Timed() bool {
	return !t.At.IsZero() || t.Every != 0 || t.Cron != "" || t.Rule != ""
}

// Followed reports whether a job begins on what is followed from a cursor on. A webhook is not: it is called.
func (t *Trigger) Followed() bool {
	return !t.On.Zero() || t.Mail != MailFilter{} || t.File != "" || t.Home != ""
}

// HookSecret returns the name of the secret with which calls of a webhook are signed.
func HookSecret(hook id.ID) string { return "hook-" + hook.String() }

// MailFilter selects e-mails of one account.
type MailFilter struct {
	Account string `json:"account,omitzero"`
	From    string `json:"from,omitzero"`    // part of the sender's name or address, in any case; empty: any
	Subject string `json:"subject,omitzero"` // part of the subject, in any case; empty: any
}

// EventFilter selects events. Empty fields select all; Type and URI are not both empty.
type EventFilter struct {
	Type string `json:"type,omitzero"` // of the resource; "mail.*" selects all that begin so
	URI  string `json:"uri,omitzero"`  // the resource or one that it is below
	Verb string `json:"verb,omitzero"` // what happened: "put", "delete"
}

// Zero reports whether no event is selected.
func (f EventFilter) Zero() bool { return f == EventFilter{} }

// Quiet is a part of each day, from From until before To, both "15:04" in the job's zone. It can
// include midnight.
type Quiet struct {
	From string `json:"from,omitzero"`
	To   string `json:"to,omitzero"`
}

// Check is a query that decides without a model whether an occurrence has anything to do: it has if
// the result has changed since the job last ran.
type Check struct {
	Tool    string `json:"tool,omitzero"` // empty: there is no check
	Args    string `json:"args,omitzero"` // JSON
	Pointer string `json:"pointer,omitzero"`
}

// Delivery says where the answer of an occurrence goes, apart from the job's own conversation.
type Delivery struct {
	Conversation id.ID `json:"conversation,omitzero"`
	Notify       bool  `json:"notify,omitzero"`
}

// JobCount counts occurrences. Due = Done + Failed + Missed + Skipped + those that are not over.
type JobCount struct {
	Due     int     `json:"due,omitzero"`
	Done    int     `json:"done,omitzero"`
	Failed  int     `json:"failed,omitzero"`
	Missed  int     `json:"missed,omitzero"`
	Skipped int     `json:"skipped,omitzero"`
	Manual  int     `json:"manual,omitzero"`  // of Due: begun by a person, not by the trigger
	Earlier int     `json:"earlier,omitzero"` // of Due: begun by triggers that the job had before it was edited
	Records int64   `json:"records,omitzero"`
	Cost    float64 `json:"cost,omitzero"` // US dollars, of all occurrences
}

// The states of an occurrence. The state of its resource is the same while it is not over, else empty.
const (
	OccurrenceDue     = "due"     // it has not begun, or is to be tried again
	OccurrenceRunning = "running" //
	OccurrenceWaiting = "waiting" // for a person's answer
	OccurrenceDone    = "done"
	OccurrenceFailed  = "failed"
	OccurrenceMissed  = "missed"  // Steward did not run, and the job's policy is not to catch up
	OccurrenceSkipped = "skipped" // there was nothing to do, or an earlier one was not over; see Reason
)

// Reasons of occurrences that were skipped, or are late.
const (
	ReasonOverlap   = "overlap"   // an earlier occurrence was not over
	ReasonUnchanged = "unchanged" // the check found nothing new
	ReasonQueueFull = "queue_full"
	ReasonOff       = "not_running" // Steward did not run
	ReasonQuiet     = "quiet_hours"
	ReasonCovered   = "covered"      // a longer review is due on the same day
	ReasonDayCap    = "day_cap"      // what may be spent in a day is spent
	ReasonSilent    = "said_nothing" // of one that is done: there was nothing worth telling
)

// Occurrence is one time at which a job begins, or several that were missed one after the other.
// Occurrences are the job's history.
type Occurrence struct {
	ID           id.ID     `json:"id"` // derived from the job and the time, or the call or event that it comes from
	Number       int64     `json:"number"`
	Due          time.Time `json:"due"`
	Last         time.Time `json:"last,omitzero"`    // of several that were missed: when the last one was due
	Several      int       `json:"several,omitzero"` // how many they are, or how many events came together; 0: one
	Cause        string    `json:"cause,omitzero"`   // empty: the time; "person", or what happened, such as the URI of a resource that an event is about
	Text         string    `json:"text,omitzero"`    // more about what happened, from outside: the body of a call, a subject; until the occurrence is over
	After        time.Time `json:"after"`            // it does not begin before: jitter, quiet hours, the wait before the next attempt
	Began        time.Time `json:"began,omitzero"`   // the first attempt
	Ended        time.Time `json:"ended,omitzero"`
	State        string    `json:"state"`
	Reason       string    `json:"reason,omitzero"` // why it failed (an error code) or did not run
	Attempts     int       `json:"attempts,omitzero"`
	Seen         string    `json:"seen,omitzero"`         // what the check found; becomes Job.Seen when the occurrence is done
	Conversation id.ID     `json:"conversation,omitzero"` // of the last attempt
	Interaction  id.ID     `json:"interaction,omitzero"`
	Cost         float64   `json:"cost,omitzero"` // US dollars, of all attempts

	// Of jobs with a Kind:
	Found string `json:"found,omitzero"` // JSON: what had changed, recorded before a model is asked
	Said  string `json:"said,omitzero"`  // what the user was told
	Calls int    `json:"calls,omitzero"` // of models, of all attempts
}

// Over reports whether nothing more happens.
func (o *Occurrence) Over() bool {
	switch o.State {
	case OccurrenceDue, OccurrenceRunning, OccurrenceWaiting:
		return false
	}
	return true
}

// Times returns how many times the record stands for.
func (o *Occurrence) Times() int { return max(o.Several, 1) }

// Queues reports whether an occurrence that is due while an earlier one is not over waits for its end. A call, an
// e-mail or a changed file says something of its own, so these wait unless the job says otherwise.
func (j *Job) Queues() bool {
	if j.Overlap == "" {
		return !j.Timed() && j.On.Zero()
	}
	return j.Overlap == OverlapQueue
}

// Triggered returns how many occurrences the present trigger has begun.
func (j *Job) Triggered() int { return j.Count.Due - j.Count.Manual - j.Count.Earlier }

// JobID returns the ID of a user's job.
func JobID(user, name string) id.ID { return id.Derive("job", user, name) }

// JobURI returns the URI of a job.
func JobURI(job id.ID) resource.URI { return resource.URI{}.ChildID(TypeJob, job) }

// OccurrenceURI returns the URI of an occurrence.
func OccurrenceURI(job, occurrence id.ID) resource.URI {
	return JobURI(job).ChildID(TypeOccurrence, occurrence)
}

// OccurrencesURI returns the URI of the list of a job's occurrences, ordered by their numbers.
func OccurrencesURI(job id.ID) resource.URI { return JobURI(job).Child(TypeOccurrence, "all") }

// DecodeJob reads a stored job (error code store_broken).
func DecodeJob(at resource.URI, body []byte) (j Job, err error) {
	err = Decode(at, body, &j)
	return j, err
}

// DecodeOccurrence reads a stored occurrence (error code store_broken).
func DecodeOccurrence(at resource.URI, body []byte) (o Occurrence, err error) {
	err = Decode(at, body, &o)
	return o, err
}
