package jobs

import (
	"context"
	"iter"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// How long to wait before an occurrence that failed is tried again.
const (
	firstRetry = 30 * time.Second
	lastRetry  = time.Hour
	maxJobs    = 4 // occurrences of jobs that run at the same time, apart from those that wait for a person
)

// Handlers do what is due. Alarm is required; without Job no job begins.
type Handlers struct {
	Alarm Deliver

	// Job carries out an occurrence and returns when that is over. It may be called again for the same
	// attempt (Attempt.Key) after a crash, and then follows what has begun. An error is the failure of
	// the attempt, unless ctx is done; its code becomes the reason.
	Job func(ctx context.Context, a *Attempt) (Result, error)

	// Check runs the job's query and returns what Job.Seen is compared with. May be nil if no job has one.
	Check func(ctx context.Context, j record.Job) (string, error)

	// Look finds out whether a job with a Kind has anything to do. It is asked at each of the job's times,
	// and calls no model. Required if there are such jobs.
	Look func(ctx context.Context, j record.Job) (Sight, error)

	// Events yields what happens after j.Cursor (empty: from now on), that j's trigger selects and the user
	// may read, and a batch without events now and then. Nil: no job begins on what is followed.
	Events func(ctx context.Context, j record.Job) iter.Seq2[Events, error]

	// Spaces are the users whose occurrences are carried out here; nil: all.
	Spaces Spaces

	// Report tells the user of occurrences that failed or were missed. Both are in the history, too.
	// May be nil.
	Report func(ctx context.Context, j record.Job, o record.Occurrence)
}

// Sight is what Handlers.Look found.
type Sight struct {
	Idle   string   // why there is nothing to do; empty: there is something
	Seen   string   // becomes Job.Seen once the occurrence is done, or there is nothing to do; empty: Job.Seen stays
	Found  string   // becomes Occurrence.Found; with Idle: what a person is told nevertheless who begins the job
	Failed []string // where it could not look
}

// Result is what an attempt led to.
type Result struct {
	Reason                    string // a remark on an attempt that succeeded
	Said                      string // see record.Occurrence
	Calls                     int    // of models
	Conversation, Interaction id.ID
	Cost                      float64 // US dollars
	Final                     bool    // with an error: another attempt would be in vain, or is not wanted
}

// Attempt is one try of an occurrence.
type Attempt struct {
	Job        record.Job
	Occurrence record.Occurrence

	s       *Scheduler
	room    chan struct{}
	version uint64
	idle    record.Look // of an occurrence that had nothing to do
}

// Key identifies the attempt. It is the same when the attempt is resumed after a crash.
func (a *Attempt) Key() string {
	if a.Occurrence.Attempts == 1 {
		return a.Occurrence.ID.String()
	}
	return a.Occurrence.ID.String() + " " + strconv.Itoa(a.Occurrence.Attempts)
}

// Interrupted yields the attempts in the spaces of a scope that were going on when the process ended. Run makes them
// again.
func (s *Scheduler) Interrupted(ctx context.Context, sc store.Scope) iter.Seq2[*Attempt, error] {
	return func(yield func(*Attempt, error) bool) {
		for _, state := range []string{record.OccurrenceRunning, record.OccurrenceWaiting} {
			for it, err := range store.Items(ctx, s.opt.Store, sc, store.Query{Type: record.TypeOccurrence, State: state}) {
				a := &Attempt{s: s}
				if err == nil {
					a.Occurrence, err = record.DecodeOccurrence(it.URI, it.Body)
				}
				if err == nil {
					a.Job, _, err = s.job(ctx, userOf(it.Space), record.IDOf(it.URI, record.TypeJob))
				}
				if fault.Is(err, fault.NotFound) { // it was removed
					continue
				}
				if !yield(a, err) || err != nil {
					return
				}
			}
		}
	}
}

func userOf(s resource.Space) string { return strings.TrimPrefix(string(s), "user:") }

// Wait calls a function that waits for a person. Meanwhile the occurrence is recorded as waiting, and
// another one may run in its place.
func (a *Attempt) Wait(ctx context.Context, do func() error) error {
	if err := a.put(ctx, record.OccurrenceWaiting); err != nil {
		return err
	}
	<-a.room
	err := do()
	select {
	case a.room <- struct{}{}:
	case <-ctx.Done():
		// The worker gives its place back, so it needs one; nobody waits for it any more.
		a.room = nil
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	return a.put(ctx, record.OccurrenceRunning)
}

func (a *Attempt) put(ctx context.Context, state string) error {
	a.Occurrence.State = state
	r, err := a.s.opt.Store.Commit(ctx, store.ForUser(a.Job.User), store.Batch{Changes: []store.Change{
		putOccurrence(&a.Job, &a.Occurrence, store.If{Version: a.version})}})
	if err == nil {
		a.version = r.Versions[0]
	}
	return err
}

// wake has a worker look at the open occurrences of a job, at a time.
func (s *Scheduler) wake(user string, job id.ID, at time.Time) {
	s.push(entry{at: at, user: user, id: job, kind: kindOccurrence})
}

// perform runs the open occurrences of a job, one after the other, until none is left or the first one
// has to wait. One worker at a time does this for a job.
func (s *Scheduler) perform(ctx context.Context, user string, job id.ID, h *Handlers, room chan struct{}) error {
	for {
		j, _, err := s.job(ctx, user, job)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil || open(&j) == 0 {
			return err
		}
		o, version, found, err := s.firstOpen(ctx, &j)
		if err != nil || !found {
			return err
		}
		if o.After.After(s.opt.Now()) && o.State == record.OccurrenceDue {
			s.wake(user, job, o.After)
			return nil
		}
		a := &Attempt{Job: j, Occurrence: o, s: s, room: room, version: version}
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		err = s.attempt(ctx, a, h)
		if a.room != nil {
			<-a.room
		}
		if fault.Is(err, fault.NotFound) { // it was removed
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// firstOpen returns the oldest occurrence of a job that is not over.
func (s *Scheduler) firstOpen(ctx context.Context, j *record.Job) (first record.Occurrence, version uint64, found bool, err error) {
	for _, state := range []string{record.OccurrenceRunning, record.OccurrenceWaiting, record.OccurrenceDue} {
		for it, err := range store.Items(ctx, s.opt.Store, store.ForUser(j.User), store.Query{Under: record.JobURI(j.ID), Type: record.TypeOccurrence, State: state}) {
			if err != nil {
				return first, 0, false, err
			}
			o, err := record.DecodeOccurrence(it.URI, it.Body)
			if err != nil {
				return first, 0, false, err
			}
			if !found || o.Number < first.Number {
				first, version, found = o, it.Version, true
			}
		}
		if found { // what has begun goes first
			return first, version, true, nil
		}
	}
	return first, version, found, nil
}

// attempt tries an occurrence once, and records what came of it.
func (s *Scheduler) attempt(ctx context.Context, a *Attempt, h *Handlers) error {
	j, o := &a.Job, &a.Occurrence
	if o.State == record.OccurrenceDue {
		if j.Kind != "" && o.Found == "" {
			done, err := s.look(ctx, a, h)
			if done || err != nil {
				return err
			}
		}
		if j.Check.Tool != "" && h.Check != nil && o.Cause != CausePerson {
			seen, err := h.Check(ctx, *j)
			if err != nil {
				o.Attempts++
				return s.failed(ctx, a, err, false)
			}
			if seen == j.Seen {
				o.State, o.Reason = record.OccurrenceSkipped, record.ReasonUnchanged
				return s.finish(ctx, a)
			}
			o.Seen = seen
		}
		o.Attempts++
		if o.Began.IsZero() {
			o.Began = s.opt.Now().UTC()
		}
		if err := a.put(ctx, record.OccurrenceRunning); err != nil {
			return err
		}
	}
	r, err := h.Job(ctx, a)
	if ctx.Err() != nil {
		return ctx.Err() // it goes on after the next start
	}
	o.Conversation, o.Interaction = r.Conversation, r.Interaction
	o.Cost += r.Cost
	o.Calls += r.Calls
	if err != nil {
		return s.failed(ctx, a, err, r.Final)
	}
	o.State, o.Reason, o.Said = record.OccurrenceDone, r.Reason, r.Said
	return s.finish(ctx, a)
}

// look asks whether an occurrence of a job with a Kind has anything to do. If it has not, look records
// that and returns true.
func (s *Scheduler) look(ctx context.Context, a *Attempt, h *Handlers) (done bool, err error) {
	o := &a.Occurrence
	sight, err := h.Look(ctx, a.Job)
	if err != nil {
		o.Attempts++
		return true, s.failed(ctx, a, err, false)
	}
	o.Seen, o.Found = sight.Seen, sight.Found
	if sight.Idle == "" || o.Cause == CausePerson && sight.Found != "" {
		return false, nil
	}
	o.State, o.Reason, o.Found = record.OccurrenceSkipped, sight.Idle, ""
	a.idle = record.Look{At: s.opt.Now().UTC(), Reason: sight.Idle, Failed: sight.Failed}
	return true, s.finish(ctx, a)
}

// failed records that an attempt failed.
func (s *Scheduler) failed(ctx context.Context, a *Attempt, err error, final bool) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	o := &a.Occurrence
	if o.Reason = fault.Of(err).Code; o.Reason == "" {
		o.Reason = "failed"
	}
	s.opt.Log.Warn("an occurrence of a job failed", "job", a.Job.Name, "attempt", o.Attempts, "error", err)
	if o.Attempts <= a.Job.Retries && !final {
		o.After = s.opt.Now().UTC().Add(min(firstRetry<<(o.Attempts-1), lastRetry))
		return a.put(ctx, record.OccurrenceDue)
	}
	o.State = record.OccurrenceFailed
	if err := s.finish(ctx, a); err != nil {
		return err
	}
	s.report(ctx, &a.Job, o)
	return nil
}

// finish records an occurrence that is over, and counts it. It returns a Conflict only if another
// process has recorded it.
func (s *Scheduler) finish(ctx context.Context, a *Attempt) error {
	o, sc := &a.Occurrence, store.ForUser(a.Job.User)
	o.Ended, o.Text = s.opt.Now().UTC(), ""
	for {
		j, version, err := s.job(ctx, a.Job.User, a.Job.ID)
		if err != nil {
			return err
		}
		switch o.State {
		case record.OccurrenceDone:
			j.Count.Done += o.Times()
			if o.Seen != "" {
				j.Seen = o.Seen
			}
			if j.Kind != "" {
				j.Last = record.Look{}
			}
		case record.OccurrenceFailed:
			j.Count.Failed += o.Times()
		default:
			j.Count.Skipped += o.Times()
			if j.Kind != "" {
				j.Last = a.idle
				if o.Seen != "" {
					j.Seen = o.Seen
				}
			}
		}
		j.Count.Cost += o.Cost
		if j.Kind != "" {
			spend(&j, o)
		}
		_, err = s.opt.Store.Commit(ctx, sc, store.Batch{Changes: []store.Change{
			putJob(&j, store.If{Version: version}), putOccurrence(&j, o, store.If{Version: a.version})}})
		if err == nil {
			s.counted(*o)
		}
		if !fault.Is(err, fault.Conflict) {
			a.Job = j
			return err
		}
		if r, err := s.opt.Store.Get(ctx, sc, record.OccurrenceURI(j.ID, o.ID)); err != nil || r.Version != a.version {
			return err
		}
	}
}

// spend adds what an occurrence has used to what its job has spent on the day on which it ended.
func spend(j *record.Job, o *record.Occurrence) {
	loc, err := zone(j.Zone)
	if err != nil {
		loc = time.UTC
	}
	date := o.Ended.In(loc).Format(time.DateOnly)
	calls, cost := j.Today.Spent(date)
	j.Today = record.JobDay{Date: date, Calls: calls + o.Calls, Cost: cost + o.Cost}
}

// report tells the user of an occurrence that did not run as it should.
func (s *Scheduler) report(ctx context.Context, j *record.Job, o *record.Occurrence) {
	if s.reportTo != nil {
		s.reportTo(ctx, *j, *o)
	}
}
