package jobs

import (
	"context"
	"hash/fnv"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
)

// due records the occurrences of a job that is due, and its next time, in one commit. It returns the
// job as it is then. Whether an occurrence runs or not is decided here.
func (s *Scheduler) due(ctx context.Context, e entry, h *Handlers) (record.Job, error) {
	j, version, err := s.job(ctx, e.user, e.id)
	if fault.Is(err, fault.NotFound) { // it was removed
		return record.Job{}, nil
	}
	now := s.opt.Now()
	if err != nil || j.State != record.JobActive || j.Next.IsZero() || j.Next.After(now) {
		return j, err
	}
	tt, err := newTimetable(&j)
	var times []time.Time
	if err != nil { // the zone has been dropped from the zone data, or the like
		s.opt.Log.Error("a job ends, because its trigger cannot be read", "job", j.Name, "error", err)
		times, j.Next = []time.Time{j.Next}, time.Time{}
	} else {
		times, j.Next = passed(&tt, &j, now)
	}
	if j.Next.IsZero() {
		j.State, j.Ended = record.JobEnded, "over"
	}
	var list []record.Occurrence
	if idle, err := s.idle(ctx, &j, &tt, times, now, h); err != nil {
		s.opt.Log.Warn("a job cannot look whether there is anything to do", "job", j.Name, "error", err)
		list = s.divide(&j, &tt, times, now) // which leads to an occurrence that fails for this reason
	} else if !idle {
		list = s.divide(&j, &tt, times, now)
	}
	changes := []store.Change{putJob(&j, store.If{Version: version})}
	for i := range list {
		changes = append(changes, putOccurrence(&j, &list[i], store.If{Absent: true}))
	}
	_, err = s.opt.Store.Commit(ctx, store.ForUser(j.User), store.Batch{Changes: changes})
	if fault.Is(err, fault.Conflict) { // it was changed meanwhile: look again
		return record.Job{ID: j.ID, User: j.User, State: record.JobActive, Next: now}, nil
	}
	if err != nil {
		return j, err
	}
	s.counted(list...)
	for i := range list {
		if list[i].State == record.OccurrenceMissed {
			s.report(ctx, &j, &list[i])
		}
	}
	if open(&j) > 0 {
		s.wake(j.User, j.ID, now)
	}
	s.prune(ctx, &j)
	return j, nil
}

// counted counts occurrences that have reached their state.
func (s *Scheduler) counted(list ...record.Occurrence) {
	for i := range list {
		s.opt.Telemetry.Occurrences(list[i].State, list[i].Times())
	}
}

// idle reports whether a heartbeat has nothing to do at its times, and then counts them. A heartbeat is due
// so often that times at which there is nothing to do are only counted: they leave no occurrence behind.
func (s *Scheduler) idle(ctx context.Context, j *record.Job, tt *timetable, times []time.Time, now time.Time, h *Handlers) (bool, error) {
	if j.Kind != record.KindHeartbeat || h.Look == nil || len(times) == 0 {
		return false, nil
	}
	var sight Sight
	switch {
	case open(j) > 0:
		return false, nil
	case tt.loc != nil && inQuiet(j.Quiet, tt.loc, now).After(now):
		sight.Idle = record.ReasonQuiet
	default:
		var err error
		if sight, err = h.Look(ctx, *j); err != nil || sight.Idle == "" {
			return false, err
		}
	}
	j.Count.Due += len(times)
	j.Count.Missed += len(times) - 1 // Steward did not run then
	j.Count.Skipped++
	j.Last = record.Look{At: now.UTC(), Reason: sight.Idle, Failed: sight.Failed}
	if sight.Seen != "" {
		j.Seen = sight.Seen
	}
	return true, nil
}

// passed returns the times at which the job was due until now, at most maxCatchUp, and the next one.
func passed(tt *timetable, j *record.Job, now time.Time) (times []time.Time, next time.Time) {
	left := maxCatchUp
	if tt.count > 0 {
		left = min(left, tt.count-j.Triggered())
	}
	for next = j.Next; !next.IsZero() && !next.After(now) && len(times) < left; next = tt.next(next) {
		times = append(times, next)
	}
	if tt.count > 0 && j.Triggered()+len(times) >= tt.count {
		next = time.Time{}
	}
	return times, next
}

// divide makes occurrences of the times at which a job was due: those that are to run, and one that
// stands for all that are missed. It counts them in the job.
func (s *Scheduler) divide(j *record.Job, tt *timetable, times []time.Time, now time.Time) (out []record.Occurrence) {
	run := 0 // from this one on they run
	switch j.Missed {
	case record.MissedAll:
		run = max(len(times)-maxOpen, 0)
	case record.MissedSkip:
		for run < len(times) && now.Sub(times[run]) > late {
			run++
		}
	default:
		run = max(len(times)-1, 0)
	}
	if run > 0 {
		o := s.occurrence(j, times[0], times[0].Format(time.RFC3339))
		o.State, o.Reason, o.Ended = record.OccurrenceMissed, record.ReasonOff, now.UTC()
		if run > 1 {
			o.Several, o.Last = run, times[run-1]
		}
		j.Count.Due += run
		j.Count.Missed += run
		out = append(out, o)
	}
	for _, t := range times[run:] {
		o := s.occurrence(j, t, t.Format(time.RFC3339))
		o.After = beginsAfter(j, tt, &o)
		switch n := open(j); {
		case n > 0 && !j.Queues() && (j.Missed != record.MissedAll || now.Sub(t) <= late):
			o.State, o.Reason = record.OccurrenceSkipped, record.ReasonOverlap
		case n >= maxOpen:
			o.State, o.Reason = record.OccurrenceSkipped, record.ReasonQueueFull
		}
		j.Count.Due++
		if o.Over() {
			o.Ended = now.UTC()
			j.Count.Skipped++
		}
		out = append(out, o)
	}
	return out
}

// occurrence returns a new occurrence of a job. what tells it from the job's others.
func (s *Scheduler) occurrence(j *record.Job, due time.Time, what string) record.Occurrence {
	j.Count.Records++
	return record.Occurrence{ID: id.Derive("occurrence", j.ID.String(), j.Created.Format(time.RFC3339Nano), what),
		Number: j.Count.Records, Due: due, After: due, State: record.OccurrenceDue}
}

// beginsAfter returns the time before which an occurrence does not begin. The jitter derives from the
// occurrence's id, so it is the same after a crash.
func beginsAfter(j *record.Job, tt *timetable, o *record.Occurrence) time.Time {
	t := o.Due
	if j.Jitter > 0 {
		h := fnv.New64a()
		h.Write(o.ID[:])
		t = t.Add(time.Duration(h.Sum64()%uint64(j.Jitter*1000+1)) * time.Millisecond)
	}
	if tt.loc == nil {
		return t
	}
	return inQuiet(j.Quiet, tt.loc, t)
}

// begin adds an occurrence that does not come from a time. what tells it from the job's others.
func (s *Scheduler) begin(ctx context.Context, user string, job id.ID, cause, what string) (record.Occurrence, error) {
	sc := store.ForUser(user)
	for {
		j, version, err := s.job(ctx, user, job)
		if err != nil {
			return record.Occurrence{}, err
		}
		now := s.opt.Now().UTC()
		o := s.occurrence(&j, now.Truncate(time.Second), cause+" "+what)
		if r, err := s.opt.Store.Get(ctx, sc, record.OccurrenceURI(j.ID, o.ID)); err == nil {
			return record.DecodeOccurrence(r.URI, r.Body)
		} else if !fault.Is(err, fault.NotFound) {
			return o, err
		}
		o.Cause = cause
		j.Count.Due++
		j.Count.Manual++
		if n := open(&j) - 1; n > 0 && !j.Queues() || n >= maxOpen {
			return o, fault.New(fault.Conflict, "job_busy", "the job %q is already running", j.Name).WithHint("wait for its end")
		}
		_, err = s.opt.Store.Commit(ctx, sc, store.Batch{Changes: []store.Change{
			putJob(&j, store.If{Version: version}), putOccurrence(&j, &o, store.If{Absent: true})}})
		if fault.Is(err, fault.Conflict) {
			continue
		}
		if err == nil {
			s.counted(o)
			s.wake(user, job, now)
		}
		return o, err
	}
}

// prune erases the oldest occurrences of a job that has very many. What fails is done next time.
func (s *Scheduler) prune(ctx context.Context, j *record.Job) {
	if j.Count.Records <= keep || j.Count.Records%8 != 0 {
		return
	}
	sc := store.ForUser(j.User)
	hook := !j.Hook.Zero()
	page, err := s.opt.Store.Query(ctx, sc, store.Query{List: record.OccurrencesURI(j.ID), Limit: 2 * maxOpen, NoBody: !hook})
	var changes []store.Change
	for _, it := range page.Items {
		if it.Pos <= j.Count.Records-keep && it.State == "" {
			if o, err := record.DecodeOccurrence(it.URI, it.Body); hook && err == nil && s.opt.Now().Sub(o.Due) < keepCalls {
				break
			}
			changes = append(changes, store.Change{Op: store.Erase, URI: it.URI})
		}
	}
	if err == nil && len(changes) > 0 {
		_, err = s.opt.Store.Commit(ctx, sc, store.Batch{Changes: changes})
	}
	if err != nil && ctx.Err() == nil {
		s.opt.Log.Warn("cannot erase old occurrences of a job", "job", j.Name, "error", err)
	}
}
