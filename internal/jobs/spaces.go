package jobs

import (
	"context"
	"time"

	"steward/internal/fault"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Spaces are the users that are worked on here, where several schedulers share a store (Handlers.Spaces).
//
// Every scheduler knows all due times: it reads them at the start, and is told what others change (Told). At its
// time, an occurrence is carried out by the scheduler on whose node its user is. The others make sure that there
// is such a node (Want), and look again until it is over. So nothing is forgotten, whichever of them stops. That
// nothing is done twice does not depend on this: each occurrence is recorded under preconditions.
type Spaces interface {
	// Enter begins something that is done for a user. It returns false if the user is not worked on here.
	// Otherwise the context ends when the user is let go, which waits for leave.
	Enter(ctx context.Context, user string) (_ context.Context, leave func(), ok bool)
	// Want has a user worked on, here or elsewhere, if nobody does.
	Want(ctx context.Context, user string) error
}

// How long a scheduler waits before it looks again at what another one has to do.
const (
	firstLook = 5 * time.Second
	lastLook  = time.Minute
)

// want makes sure that somebody does what is due for a user who is not worked on here, and looks again later.
func (s *Scheduler) want(ctx context.Context, e entry, spaces Spaces) {
	due, err := s.stillDue(ctx, e)
	if err == nil && !due {
		return
	}
	if err == nil {
		err = spaces.Want(ctx, e.user)
	}
	if err != nil && ctx.Err() == nil {
		s.opt.Log.Warn("cannot have the work of a user begun that is due", "user", e.user, "error", err)
	}
	s.push(entry{at: s.opt.Now().Add(min(firstLook<<min(e.looks, 8), lastLook)), user: e.user, id: e.id, kind: e.kind, looks: e.looks + 1})
}

// stillDue reports whether there is still something to do about an entry. If it is due later, it queues it for then.
func (s *Scheduler) stillDue(ctx context.Context, e entry) (bool, error) {
	now := s.opt.Now()
	if e.kind == kindAlarm {
		a, _, err := s.get(ctx, store.ForUser(e.user), e.id)
		if err != nil || a.Next.IsZero() {
			return false, ignoreNotFound(err)
		}
		if a.Next.After(now) {
			s.add(a)
			return false, nil
		}
		return true, nil
	}
	j, _, err := s.job(ctx, e.user, e.id)
	if err != nil {
		return false, ignoreNotFound(err)
	}
	switch {
	case e.kind == kindOccurrence:
		o, _, found, err := s.firstOpen(ctx, &j)
		if err != nil || !found {
			return false, err
		}
		if o.State == record.OccurrenceDue && o.After.After(now) {
			s.wake(e.user, e.id, o.After)
			return false, nil
		}
		return true, nil
	case j.State != record.JobActive:
		return false, nil
	case e.kind == kindEvents:
		return j.Followed(), nil
	case j.Next.IsZero():
		return false, nil
	case j.Next.After(now):
		s.addJob(&j)
		return false, nil
	}
	return true, nil
}

func ignoreNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Told learns from an entry of the log what another scheduler has changed.
func (s *Scheduler) Told(en *resource.Entry) {
	var err error
	switch at := en.URI; {
	case at.Type() == record.TypeAlarm && en.State == record.StateDue && len(en.Body) > 0:
		var a record.Alarm
		if a, err = record.DecodeAlarm(at, en.Body); err == nil {
			s.add(a)
		}
	case at.Type() == record.TypeJob && en.State == record.JobActive && len(en.Body) > 0:
		var j record.Job
		if j, err = record.DecodeJob(at, en.Body); err == nil {
			s.addJob(&j)
		}
	case at.Type() == record.TypeJob: // it was paused, has ended, or was removed
		s.reread(record.IDOf(at, record.TypeJob))
	case at.Type() == record.TypeOccurrence && en.State == record.OccurrenceDue && len(en.Body) > 0:
		var o record.Occurrence
		if o, err = record.DecodeOccurrence(at, en.Body); err == nil {
			s.wake(userOf(en.Space), record.IDOf(at, record.TypeJob), o.After)
		}
	}
	if err != nil {
		s.opt.Log.Error("skipped an invalid entry of the log", "uri", en.URI.String(), "error", err)
	}
}

// LoadUser queues what is due for a user some time, and jobs whose occurrences are not over: when the user begins to
// be worked on here, and when that ends.
func (s *Scheduler) LoadUser(ctx context.Context, user string) error {
	return s.load(ctx, store.ForUser(user), true)
}

// DueBy reports whether something is due for a user until a time, or a job begins when something happens: then the
// user must be worked on somewhere.
func (s *Scheduler) DueBy(user string, t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.waiting {
		if e.user == user && !e.at.After(t) && s.known[key{e.id, e.kind}] == e.at {
			return true
		}
	}
	return false
}
