package jobs

import (
	"context"
	"encoding/json"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Limits of jobs.
const (
	MaxJobs    = 200  // of a user
	MaxJobText = 8000 // bytes
	MaxRetries = 10

	maxOpen    = 24               // occurrences of a job that are not over, so also how many are caught up
	maxCatchUp = 10_000           // occurrences that are looked at in one step
	keep       = 200              // occurrences of a job in its history
	keepCalls  = 15 * time.Minute // occurrences of a webhook are not erased before: a call that is repeated finds them
	late       = time.Minute      // an occurrence that is not later than this is not missed
)

// CausePerson is the cause of occurrences that a person has begun.
const CausePerson = "person"

// The terms of jobs.
const (
	termJobs = "jobs" // lists a user's jobs
	termHook = "hook" // finds the job of a webhook
)

var (
	nameForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	typeForm = regexp.MustCompile(`^[a-z]+\.(\*|[A-Z][A-Za-z]*)$`)
	hourForm = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)
)

// AddJob stores a job, of which the caller gives User, Name, Text, By, the trigger, and what else it
// wants to set apart from ID, Created, Conversation, and what changes later (from State on). It returns the job with its first
// occurrence in Next, so that "scheduled" is only said of a job that begins. A job that the same call
// (By) has added is returned as it is.
//
// Error codes: job_invalid, name_taken (Conflict), trigger_invalid, rule_invalid, rule_unsupported,
// cron_invalid, zone_unknown, time_past, rule_never, text_too_long, jobs_too_many, and those of the
// store.
func (s *Scheduler) AddJob(ctx context.Context, j record.Job) (record.Job, error) {
	j.ID, j.Created = record.JobID(j.User, j.Name), s.opt.Now().UTC()
	if j.Start.IsZero() {
		j.Start = j.Created
	}
	j.Start = j.Start.UTC().Truncate(time.Second)
	if err := checkJob(&j); err != nil {
		return j, err
	}
	old, _, err := s.job(ctx, j.User, j.ID)
	switch {
	case err == nil && !j.By.Zero() && old.By == j.By:
		return old, nil
	case err == nil:
		return old, nameTaken(j.Name)
	case !fault.Is(err, fault.NotFound):
		return j, err
	}
	j.State, j.Ended, j.Count, j.Seen, j.Cursor, j.Held = record.JobActive, "", record.JobCount{}, "", "", time.Time{}
	j.Conversation = id.Derive("conversation", "job", j.ID.String(), j.Created.Format(time.RFC3339Nano))
	if j.Next, err = firstDue(&j, j.Created); err != nil {
		return j, err
	}
	list, err := s.Jobs(ctx, j.User)
	if err != nil {
		return j, err
	}
	if len(list) >= MaxJobs {
		return j, fault.New(fault.Exhausted, "jobs_too_many", "there are already %d jobs; the limit is %d", len(list), MaxJobs).WithHint("remove some")
	}
	_, err = s.opt.Store.Commit(ctx, store.ForUser(j.User), store.Batch{Changes: []store.Change{putJob(&j, store.If{Absent: true})}})
	if fault.Is(err, fault.Conflict) {
		return j, nameTaken(j.Name)
	}
	if err == nil {
		s.addJob(&j)
	}
	return j, err
}

func nameTaken(name string) error {
	return fault.New(fault.Conflict, "name_taken", "there is already a job %q", name).WithHint("use another name, or remove that job first")
}

// firstDue returns the first time at or after now at which the job begins; zero for a job that begins when something
// happens.
func firstDue(j *record.Job, now time.Time) (time.Time, error) {
	tt, err := newTimetable(j)
	if err != nil || !j.Timed() {
		return time.Time{}, err
	}
	next := tt.next(now.Add(-time.Second))
	switch {
	case next.IsZero() && !j.At.IsZero():
		return next, fault.New(fault.Invalid, "time_past", "%s is in the past", j.At.Format(time.RFC3339)).WithHint("give a time in the future")
	case next.IsZero() || tt.count > 0 && j.Triggered() >= tt.count:
		return time.Time{}, fault.New(fault.Invalid, "rule_never", "the job would not begin within the next five years").WithHint("check the days and months of its trigger")
	}
	return next, nil
}

// checkJob checks all but the trigger.
func checkJob(j *record.Job) error {
	invalid := func(hint, format string, args ...any) error {
		return fault.New(fault.Invalid, "job_invalid", format, args...).WithHint("%s", hint)
	}
	switch {
	case len(j.Name) > 60 || !nameForm.MatchString(j.Name):
		return invalid("use lower case letters, digits and hyphens, for example morning-mail", "the name %.70q is not valid", j.Name)
	case j.Text == "":
		return invalid("say what is to be done", "the job has no text")
	case len(j.Text) > MaxJobText:
		return fault.New(fault.TooLarge, "text_too_long", "the text has %d bytes; the limit is %d", len(j.Text), MaxJobText).WithHint("put long instructions into a file or a skill, and name it in the text")
	case !slices.Contains([]string{"", record.MissedOnce, record.MissedAll, record.MissedSkip}, j.Missed):
		return invalid("use once, all or skip", "unknown policy for missed occurrences %.40q", j.Missed)
	case !slices.Contains([]string{"", record.OverlapSkip, record.OverlapQueue}, j.Overlap):
		return invalid("use skip or queue", "unknown policy for overlap %.40q", j.Overlap)
	case j.Retries < 0 || j.Retries > MaxRetries:
		return invalid("give 0 to 10 retries", "%d retries are not possible", j.Retries)
	case j.Jitter < 0 || j.Jitter > 24*3600:
		return invalid("give at most one day", "a jitter of %d seconds is not possible", j.Jitter)
	case !(j.MaxCost >= 0) || j.MaxTime < 0: // NaN is not possible either
		return invalid("give a positive number, or none for no cap", "a cap is negative")
	case j.Quiet != record.Quiet{} && (!hourForm.MatchString(j.Quiet.From) || !hourForm.MatchString(j.Quiet.To) || j.Quiet.From == j.Quiet.To):
		return invalid("give two times such as 22:00 and 07:00", "the quiet hours are not valid")
	case j.Check.Args != "" && !json.Valid([]byte(j.Check.Args)):
		return invalid("give the arguments of the tool as a JSON object", "the arguments of the check are not JSON")
	}
	switch m := j.Mail; {
	case m != record.MailFilter{} && m.Account == "":
		return invalid("name the account; steward accounts list shows them", "the e-mails of no account are meant")
	case len(m.From) > 200 || len(m.Subject) > 200:
		return invalid("give at most 200 bytes of each", "the filter for e-mails is too long")
	case j.File != "" && !validPattern(j.File):
		return invalid("give a file, or a pattern for files in one folder, such as workspace/in/*.pdf", "the job cannot begin on the file %.200q", j.File)
	case len(j.Home) > 300:
		return invalid("write it as light.hall=on", "the state of the home is too long")
	}
	if on := j.On; !on.Zero() {
		_, err := resource.Parse(on.URI)
		switch {
		case on.Type == "" && on.URI == "":
			return invalid("name a type such as mail.Message, or the URI of a place", "the job would begin at every event")
		case on.URI != "" && err != nil:
			return invalid("give the URI of a resource", "%.80q is not a URI: %w", on.URI, err)
		case on.Type != "" && !typeForm.MatchString(on.Type):
			return invalid("write a type such as mail.Message, or its beginning and *, as in mail.*", "invalid type %.80q", on.Type)
		case on.Verb != "" && on.Verb != "put" && on.Verb != "delete":
			return invalid("use put or delete", "unknown verb %.40q", on.Verb)
		}
	}
	for tool, may := range j.Tools {
		if may != record.ToolAllow && may != record.ToolAsk && may != record.ToolDeny {
			return invalid("use allow, ask or deny", "unknown permission %.40q for the tool %.60q", may, tool)
		}
	}
	return nil
}

// validPattern reports whether a file can be followed: a path below a folder that the file tools know by its name, with a
// pattern at most in its last element.
func validPattern(name string) bool {
	dir, last := path.Split(name)
	_, err := path.Match(last, "")
	return len(name) <= 500 && fs.ValidPath(name) && dir != "" && !strings.ContainsAny(dir, "*?[\\") && err == nil
}

// Preview returns the next n (at most 100) occurrences of a job that need not be stored, from now on.
// Error codes are those of AddJob, without name_taken and time_past.
func (s *Scheduler) Preview(j record.Job, n int) ([]time.Time, error) {
	if err := checkJob(&j); err != nil {
		return nil, err
	}
	now := s.opt.Now().UTC()
	if j.Start.IsZero() {
		j.Start = now.Truncate(time.Second)
	}
	tt, err := newTimetable(&j)
	if err != nil {
		return nil, err
	}
	if n = min(n, 100); tt.count > 0 {
		n = min(n, tt.count-j.Triggered())
	}
	var out []time.Time
	for t := tt.next(now.Add(-time.Second)); !t.IsZero() && len(out) < n; t = tt.next(t) {
		out = append(out, t)
	}
	return out, nil
}

// Job returns a user's job by its name. Error code: not_found.
func (s *Scheduler) Job(ctx context.Context, user, name string) (record.Job, error) {
	j, _, err := s.job(ctx, user, record.JobID(user, name))
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "not_found", "there is no job %.60q", name).WithHint("list the jobs")
	}
	return j, err
}

// Jobs returns the user's jobs, in the order of their names.
func (s *Scheduler) Jobs(ctx context.Context, user string) ([]record.Job, error) {
	var out []record.Job
	for it, err := range store.Items(ctx, s.opt.Store, store.ForUser(user), store.Query{Term: store.Term{Name: termJobs, Value: "all"}, Type: record.TypeJob}) {
		if err != nil {
			return nil, err
		}
		j, err := record.DecodeJob(it.URI, it.Body)
		if err != nil {
			return nil, err
		}
		out = append(out, j)
	}
	slices.SortFunc(out, func(a, b record.Job) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out, nil
}

// FolderJobs returns the jobs of all users that the folders of agents define.
func (s *Scheduler) FolderJobs(ctx context.Context) (out []record.Job, err error) {
	for it, err := range store.Items(ctx, s.opt.Store, store.ForNode(""), store.Query{Term: store.Term{Name: termJobs, Value: "folder"}, Type: record.TypeJob}) {
		if err != nil {
			return nil, err
		}
		j, err := record.DecodeJob(it.URI, it.Body)
		if err != nil {
			return nil, err
		}
		out = append(out, j)
	}
	return out, nil
}

// SetJob stores a job with a Kind, or gives the one that exists under its name another trigger, zone and
// limits, and lets it begin again. What the job has seen and spent stays, unless it had been paused: then
// what has changed meanwhile is not told. Error codes: those of AddJob.
func (s *Scheduler) SetJob(ctx context.Context, j record.Job) (record.Job, error) {
	added, err := s.AddJob(ctx, j)
	if !fault.HasCode(err, "name_taken") {
		return added, err
	}
	return s.changeJob(ctx, j.User, j.Name, func(old *record.Job) (err error) {
		if old.Kind != j.Kind {
			return nameTaken(j.Name)
		}
		now := s.opt.Now().UTC()
		if old.State != record.JobActive {
			old.Seen, old.Last, old.Start = "", record.Look{}, now.Truncate(time.Second)
		}
		old.Text, old.Agent, old.Model, old.Zone, old.Missed, old.Overlap = j.Text, j.Agent, j.Model, j.Zone, j.Missed, j.Overlap
		start := old.Start
		old.Trigger, old.State, old.Ended = j.Trigger, record.JobActive, ""
		old.Start = start
		old.Jitter, old.Quiet, old.MaxCost, old.MaxTime, old.Tools, old.Deliver = j.Jitter, j.Quiet, j.MaxCost, j.MaxTime, j.Tools, j.Deliver
		if err = checkJob(old); err == nil {
			old.Next, err = firstDue(old, now)
		}
		return err
	})
}

// PauseJob makes a job begin no more until it is resumed. An occurrence that has begun goes on. What
// would have been due meanwhile is not missed. Error codes: not_found, job_over (Conflict).
func (s *Scheduler) PauseJob(ctx context.Context, user, name string) (record.Job, error) {
	return s.changeJob(ctx, user, name, func(j *record.Job) error {
		if j.State == record.JobEnded {
			return fault.New(fault.Conflict, "job_over", "the job %q has ended", j.Name)
		}
		j.State, j.Next, j.Off = record.JobPaused, time.Time{}, false
		return nil
	})
}

// EditJob changes what a job says. do may change all but ID, User, Name and what changes by itself (from State on).
// If it changes the trigger, the job begins by the new one from now on, also one that has ended. Error codes:
// not_found, those of do, and those of AddJob.
func (s *Scheduler) EditJob(ctx context.Context, user, name string, do func(*record.Job) error) (record.Job, error) {
	return s.changeJob(ctx, user, name, func(j *record.Job) (err error) {
		before, zone := j.Trigger, j.Zone
		if err := do(j); err != nil {
			return err
		}
		if err := checkJob(j); err != nil {
			return err
		}
		if j.Trigger == before && j.Zone == zone {
			return nil
		}
		now := s.opt.Now().UTC()
		if j.Start.IsZero() {
			j.Start = now
		}
		j.Start = j.Start.UTC().Truncate(time.Second)
		j.Cursor, j.Held, j.Count.Earlier = "", time.Time{}, j.Count.Due-j.Count.Manual
		next, err := firstDue(j, now)
		if err != nil {
			return err
		}
		if j.State == record.JobEnded {
			j.State, j.Ended = record.JobActive, ""
		}
		if j.Next = next; j.State == record.JobPaused {
			j.Next = time.Time{}
		}
		return nil
	})
}

// ResumeJob lets a paused job begin again, from its next time on. Error codes: not_found, job_over
// (Conflict), and those of AddJob for a trigger that never comes true any more.
func (s *Scheduler) ResumeJob(ctx context.Context, user, name string) (record.Job, error) {
	return s.changeJob(ctx, user, name, func(j *record.Job) (err error) {
		switch j.State {
		case record.JobEnded:
			return fault.New(fault.Conflict, "job_over", "the job %q has ended", j.Name)
		case record.JobPaused:
			j.State, j.Cursor, j.Off = record.JobActive, "", false // events are followed from now on
			j.Next, err = firstDue(j, s.opt.Now().UTC())
		}
		return err
	})
}

// RemoveJob removes a job and its history. Its conversation stays. An occurrence that is running is
// not stopped, and its end is not recorded. Error code: not_found.
func (s *Scheduler) RemoveJob(ctx context.Context, user, name string) (record.Job, error) {
	j, err := s.Job(ctx, user, name)
	if err != nil {
		return j, err
	}
	sc := store.ForUser(user)
	changes := []store.Change{{Op: store.Erase, URI: record.JobURI(j.ID)}}
	for it, err := range store.Items(ctx, s.opt.Store, sc, store.Query{List: record.OccurrencesURI(j.ID), NoBody: true}) {
		if err != nil {
			return j, err
		}
		changes = append(changes, store.Change{Op: store.Erase, URI: it.URI})
	}
	_, err = s.opt.Store.Commit(ctx, sc, store.Batch{Changes: changes})
	s.reread(j.ID)
	return j, err
}

// RunJob makes a job begin now, also a paused one or one that has ended. by identifies the call: a
// second time it returns the same occurrence. Error codes: not_found, job_busy (Conflict; an occurrence
// is not over, and the job queues none).
func (s *Scheduler) RunJob(ctx context.Context, user, name string, by id.ID) (record.Occurrence, error) {
	return s.begin(ctx, user, record.JobID(user, name), CausePerson, by.String())
}

// Occurrences returns the newest occurrences of a job, the newest first, at most 200.
func (s *Scheduler) Occurrences(ctx context.Context, user, name string, limit int) ([]record.Occurrence, error) {
	if _, err := s.Job(ctx, user, name); err != nil {
		return nil, err
	}
	limit = min(max(limit, 1), keep)
	page, err := s.opt.Store.Query(ctx, store.ForUser(user), store.Query{List: record.OccurrencesURI(record.JobID(user, name)), Reverse: true, Limit: limit})
	if err != nil {
		return nil, err
	}
	out := make([]record.Occurrence, 0, len(page.Items))
	for _, it := range page.Items {
		o, err := record.DecodeOccurrence(it.URI, it.Body)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// SwitchJob pauses the job of an agent's folder because the agent may not be used, or lets it begin again if it was
// paused so, and not by a person.
func (s *Scheduler) SwitchJob(ctx context.Context, user, name string, on bool) error {
	_, err := s.changeJob(ctx, user, name, func(j *record.Job) (err error) {
		switch {
		case !on && j.State == record.JobActive:
			j.State, j.Next, j.Off = record.JobPaused, time.Time{}, true
		case on && j.State == record.JobPaused && j.Off:
			j.State, j.Cursor, j.Off = record.JobActive, "", false
			j.Next, err = firstDue(j, s.opt.Now().UTC())
		}
		return err
	})
	return err
}

// changeJob changes a job under its version.
func (s *Scheduler) changeJob(ctx context.Context, user, name string, do func(*record.Job) error) (record.Job, error) {
	for {
		if _, err := s.Job(ctx, user, name); err != nil {
			return record.Job{}, err
		}
		j, version, err := s.job(ctx, user, record.JobID(user, name))
		if err == nil {
			err = do(&j)
		}
		if err != nil {
			return j, err
		}
		_, err = s.opt.Store.Commit(ctx, store.ForUser(user), store.Batch{Changes: []store.Change{putJob(&j, store.If{Version: version})}})
		if err == nil {
			s.reread(j.ID)
			s.addJob(&j)
		}
		if !fault.Is(err, fault.Conflict) {
			return j, err
		}
	}
}

func (s *Scheduler) job(ctx context.Context, user string, job id.ID) (record.Job, uint64, error) {
	r, err := s.opt.Store.Get(ctx, store.ForUser(user), record.JobURI(job))
	if err != nil {
		return record.Job{}, 0, err
	}
	j, err := record.DecodeJob(r.URI, r.Body)
	return j, r.Version, err
}

func putJob(j *record.Job, cond store.If) store.Change {
	ch := store.Change{URI: record.JobURI(j.ID), Body: record.Encode(j), If: cond, Terms: []store.Term{{Name: termJobs, Value: "all"}}}
	if j.Folder != "" {
		ch.Terms = append(ch.Terms, store.Term{Name: termJobs, Value: "folder"})
	}
	if !j.Hook.Zero() {
		ch.Terms = append(ch.Terms, store.Term{Name: termHook, Value: j.Hook.String()})
	}
	if j.State != record.JobEnded {
		ch.State = j.State
	}
	return ch
}

func putOccurrence(j *record.Job, o *record.Occurrence, cond store.If) store.Change {
	ch := store.Change{URI: record.OccurrenceURI(j.ID, o.ID), Body: record.Encode(o), If: cond, Place: &store.Place{List: record.OccurrencesURI(j.ID), Pos: o.Number}}
	if !o.Over() {
		ch.State = o.State
	}
	return ch
}

// open returns how many occurrences of a job are not over.
func open(j *record.Job) int {
	return j.Count.Due - j.Count.Done - j.Count.Failed - j.Count.Missed - j.Count.Skipped
}
