package jobs

import (
	"context"
	"errors"
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
}

// Events are events that were read together, and the cursor after them.
type Events struct {
	List   []Event
	Cursor string
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
		case len(b.List) == 0 && j.Cursor != "":
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
			continue
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

// eventOccurrence returns the occurrence that some events lead to, and counts it.
func (s *Scheduler) eventOccurrence(j *record.Job, list []Event) record.Occurrence {
	now := s.opt.Now().UTC()
	o := s.occurrence(j, now, "event "+list[0].ID)
	o.Cause = list[0].Cause
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
	case n > 0 && j.Overlap != record.OverlapQueue:
		o.State, o.Reason = record.OccurrenceSkipped, record.ReasonOverlap
	case n >= maxOpen:
		o.State, o.Reason = record.OccurrenceSkipped, record.ReasonQueueFull
	default:
		j.Held = o.After.Add(minEvery)
	}
	j.Count.Due += o.Times()
	if o.Over() {
		o.Ended = now
		j.Count.Skipped += o.Times()
	}
	return o
}
