package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
)

// Event is something that begins a job.
type Event struct {
	ID    string
	Cause string // what happened, for the agent: becomes Occurrence.Cause
	Text  string // more about it; may be empty
}

// Events are events that were read together, and the cursor after them.
type Events struct {
	List   []Event
	Cursor string
	Keep   bool // the cursor is stored, even if there are no events
}

// errNotActive ends a follower whose job has been paused or has ended.
var errNotActive = errors.New("the job is not active")

// followEvents follows the events of a job until it is paused or removed.
func (s *Scheduler) followEvents(ctx context.Context, e entry, h *Handlers) {
	again := false
	for s.followOnce(ctx, e, h, again) {
		again = true
	}
}

// followOnce follows the events of a job until its subscription ends. It returns false if the job has a
// follower already, or needs none.
func (s *Scheduler) followOnce(ctx context.Context, e entry, h *Handlers, again bool) bool {
	sub, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if s.follows[e.id] != nil {
		s.mu.Unlock()
		return false
	}
	s.follows[e.id] = cancel
	s.mu.Unlock()
	if again {
		fault.Pause(sub, time.Second)
	}
	j, _, err := s.job(sub, e.user, e.id)
	if err == nil && j.State == record.JobActive {
		for b, failed := range h.Events(sub, j) {
			if err = failed; err == nil {
				err = s.happened(sub, e.user, e.id, b)
			}
			if err != nil {
				break
			}
		}
	}
	cancelled := sub.Err() != nil
	s.mu.Lock()
	delete(s.follows, e.id)
	s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil && !cancelled && !errors.Is(err, errNotActive) && !fault.Is(err, fault.NotFound):
		s.opt.Log.Warn("cannot follow the events of a job", "job", e.id.String(), "error", err)
		fault.Pause(ctx, lastWait)
	}
	// It is read once more after the follower has been struck off: it may have been resumed meanwhile.
	j, _, err = s.job(ctx, e.user, e.id)
	return err == nil && j.State == record.JobActive || err != nil && !fault.Is(err, fault.NotFound) && ctx.Err() == nil
}

// reread makes the follower of a job's events, if there is one, read the job again.
func (s *Scheduler) reread(job id.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.follows[job]; cancel != nil {
		cancel()
	}
}

// happened records an occurrence for a batch of events, and moves the job's cursor beyond them.
func (s *Scheduler) happened(ctx context.Context, user string, job id.ID, b Events) error {
	for {
		j, version, err := s.job(ctx, user, job)
		switch {
		case err != nil:
			return err
		case j.State != record.JobActive:
			return errNotActive
		case len(b.List) == 0 && j.Cursor != "" && (!b.Keep || b.Cursor == j.Cursor):
			return nil
		}
		j.Cursor = b.Cursor
		changes := []store.Change{putJob(&j, store.If{Version: version})}
		if len(b.List) > 0 {
			o := s.eventOccurrence(&j, b.List)
			changes = []store.Change{putJob(&j, store.If{Version: version}), putOccurrence(&j, &o, store.If{Absent: true})}
		}
		_, err = s.opt.Store.Commit(ctx, store.ForUser(user), store.Batch{Changes: changes})
		if fault.Is(err, fault.Conflict) {
			if len(changes) < 2 {
				continue
			}
			_, err := s.opt.Store.Get(ctx, store.ForUser(user), changes[1].URI)
			if fault.Is(err, fault.NotFound) {
				continue
			}
			return err // nil: it has begun the job already
		}
		if err == nil && open(&j) > 0 {
			s.wake(user, job, s.opt.Now())
		}
		if err == nil {
			s.prune(ctx, &j)
		}
		return err
	}
}

// Happened begins the job of a webhook, or finds the occurrence that the same call has begun before. key
// identifies the call. When Happened returns, the occurrence is stored: it runs, or its record says why not.
//
// Error codes: hook_unknown (NotFound), job_paused (Conflict), hook_busy (Exhausted; too many occurrences are
// not over, and nothing is stored).
func (s *Scheduler) Happened(ctx context.Context, hook id.ID, key string, e Event) (record.Occurrence, error) {
	j, err := s.jobOfHook(ctx, hook)
	if err != nil {
		return record.Occurrence{}, err
	}
	sc := store.ForUser(j.User)
	for {
		j, version, err := s.job(ctx, j.User, j.ID)
		if fault.Is(err, fault.NotFound) || err == nil && j.Hook != hook {
			return record.Occurrence{}, unknownHook()
		}
		if err != nil {
			return record.Occurrence{}, err
		}
		e.ID = "call " + key
		o := s.eventOccurrence(&j, []Event{e})
		if r, err := s.opt.Store.Get(ctx, sc, record.OccurrenceURI(j.ID, o.ID)); err == nil {
			return record.DecodeOccurrence(r.URI, r.Body)
		} else if !fault.Is(err, fault.NotFound) {
			return o, err
		}
		switch {
		case j.State != record.JobActive:
			return o, fault.New(fault.Conflict, "job_paused", "the job %q is paused", j.Name).WithHint("resume it with steward jobs resume %s", j.Name)
		case o.Reason == record.ReasonQueueFull:
			return o, fault.New(fault.Exhausted, "hook_busy", "%d earlier calls are not done yet", maxOpen).WithHint("call again later")
		}
		_, err = s.opt.Store.Commit(ctx, sc, store.Batch{Changes: []store.Change{
			putJob(&j, store.If{Version: version}), putOccurrence(&j, &o, store.If{Absent: true})}})
		if fault.Is(err, fault.Conflict) {
			continue
		}
		if err == nil {
			s.counted(o)
			if open(&j) > 0 {
				s.wake(j.User, j.ID, s.opt.Now())
			}
			s.prune(ctx, &j)
		}
		return o, err
	}
}

func unknownHook() error {
	return fault.New(fault.NotFound, "hook_unknown", "there is no such webhook")
}

// jobOfHook finds the job of a webhook.
func (s *Scheduler) jobOfHook(ctx context.Context, hook id.ID) (record.Job, error) {
	if hook.Zero() {
		return record.Job{}, unknownHook()
	}
	for it, err := range store.Items(ctx, s.opt.Store, store.ForNode(""), store.Query{Term: store.Term{Name: termHook, Value: hook.String()}, Type: record.TypeJob}) {
		if err != nil {
			return record.Job{}, err
		}
		return record.DecodeJob(it.URI, it.Body)
	}
	return record.Job{}, unknownHook()
}

// eventOccurrence returns the occurrence that some events lead to, and counts it.
func (s *Scheduler) eventOccurrence(j *record.Job, list []Event) record.Occurrence {
	now := s.opt.Now().UTC()
	o := s.occurrence(j, now, "event "+list[0].ID)
	o.Cause, o.Text = list[0].Cause, textOf(list)
	if len(list) > 1 {
		o.Several = len(list)
	}
	tt, _ := newTimetable(j) // for its zone; without one there are no quiet hours
	at := o
	if at.Due.Before(j.Held) {
		at.Due = j.Held
	}
	o.After = beginsAfter(j, &tt, &at)
	switch n := open(j); {
	case n > 0 && !j.Queues():
		o.State, o.Reason = record.OccurrenceSkipped, record.ReasonOverlap
	case n >= maxOpen:
		o.State, o.Reason = record.OccurrenceSkipped, record.ReasonQueueFull
	default:
		j.Held = o.After.Add(minEvery)
	}
	j.Count.Due += o.Times()
	if o.Over() {
		o.Ended, o.Text = now, ""
		j.Count.Skipped += o.Times()
	}
	return o
}

// maxEventText is how many bytes an occurrence says about what happened.
const maxEventText = 64 << 10

// textOf says what happened. The first event's cause is said elsewhere.
func textOf(list []Event) string {
	var b strings.Builder
	for i, e := range list {
		text := e.Text
		if i > 0 {
			text = strings.TrimSuffix(e.Cause+"\n"+e.Text, "\n")
		}
		if text == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if b.Len()+len(text) > maxEventText {
			fmt.Fprintf(&b, "(%d more)", len(list)-i)
			break
		}
		b.WriteString(text)
	}
	return b.String()
}
