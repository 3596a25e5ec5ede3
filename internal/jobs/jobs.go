// Package jobs is the scheduler: it makes things happen at their time.
//
// An alarm (record.Alarm: a reminder, a timer) tells its user a text. A job (record.Job) is a request
// that begins by itself, and opens a turn. Both are resources in their user's space. While they have a
// next occurrence, the state of the resource says so, by which the scheduler finds them at the start.
// From then on the due times are in memory, in one heap, and the scheduler sleeps until the first one.
// It never sleeps for long, because the clock may be set, or the machine may sleep.
//
// # Alarms
//
// An occurrence passes in two steps. First it is delivered (Handlers.Alarm), under an id that derives
// from the alarm and its time, so that telling it twice has no effect. Then the alarm's next
// occurrence is committed, with the alarm's version as a precondition. After a crash between the
// two, the occurrence is delivered again under the same id. So every occurrence is delivered, and once only,
// as far as the receiver recognizes the id.
//
// What was due while Steward did not run is delivered at the start. Of the occurrences of a repeated
// alarm that were missed, only the last one is delivered, with the number of the others: a person is
// not reminded thirty times of the same thing.
//
// # Jobs
//
// A job that is due leads to records first, and to work later. One commit (due) moves the job's Next
// beyond the present, creates an occurrence for each time that has passed, and counts them. The job's
// version is a precondition, and each occurrence must be absent: its id derives from the job and the
// time. So no time is lost and none counts twice, wherever a crash comes. The policies are applied in
// this commit: occurrences that do not run are recorded at once as missed (Steward did not run) or
// skipped (an earlier one is not over). Many that were missed in a row share one record.
//
// The others are recorded as due. A worker (perform) takes the open occurrences of a job one after the
// other. It asks the job's check whether there is anything to do, records the attempt as running, and
// calls Handlers.Job. The outcome is committed together with the job's counters. If Steward stops in
// between, the occurrence is still open at the next start, and the same attempt is made under the same
// key, which Handlers.Job recognizes. An attempt that fails is made again later, under a new key,
// until the job's retries are used up; then the occurrence has failed, and the user is told.
//
//	due ── running ── done | failed
//	 │        │  ↖ waiting (for a person)
//	 │        └─ due (another attempt)
//	 └─ skipped            missed, skipped: from the beginning
//
// A job of Steward's own (record.Job.Kind: the heartbeat and the reviews) looks first whether anything has
// changed (Handlers.Look). What it finds is recorded with the occurrence before a model is asked, and up to
// where it has looked becomes the job's own (Job.Seen) in the commit that ends the occurrence. So a change
// is told once, whatever happens in between. Package heartbeat says what is looked at.
//
// A job can also begin when something happens: an event of the log, an e-mail, a changed file, a state of
// the home. A follower reads what happens from the job's cursor on (Handlers.Events), and each batch becomes
// one occurrence, in a commit that moves the cursor too. A webhook is called instead, and has no cursor: its
// occurrence derives from the call's signature (Happened), so that a repeated call is the same occurrence.
// At least a minute passes from one occurrence to the next, so that a job whose work makes it begin again,
// or two jobs that make each other begin, cannot run without pause.
//
// What always holds for a job: the number of times that it was due is that of its occurrences which are
// done, failed, missed, skipped or still open (record.JobCount).
//
// Several schedulers can share a store, if each carries out what is due for users of its own (Spaces).
//
// Days and times of day are those of the job's zone. A time that the clocks leave out is the moment at
// which they are put forward; a time that comes twice counts once (timetable). A job that would never
// begin is refused. The newest occurrences are kept; older ones are erased.
package jobs

import (
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/lifetime/telemetry"
	"steward/internal/record"
	"steward/internal/store"
)

// Limits.
const (
	MaxAlarms = 500  // of a user, that have a next occurrence
	MaxText   = 2000 // bytes

	maxParallel = 16               // occurrences that are delivered at the same time
	maxSleep    = 20 * time.Second // the longest sleep while an alarm is due: the clock may be set, or the machine may have slept
	lastWait    = time.Minute      // the longest wait between two tries
	maxTries    = 100              // of telling an occurrence, some 95 minutes
)

// Occurrence is a time at which an alarm goes off.
type Occurrence struct {
	ID     id.ID // derived from the alarm and the time
	Due    time.Time
	Missed int // earlier occurrences that were not delivered

	// Await calls a function of Tell that may wait for long, for example for a person. Meanwhile
	// another occurrence may be told in place of this one.
	Await func(func() error) error
}

// Options configure a scheduler. Store is required.
type Options struct {
	Store store.Store
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: none

	Telemetry *telemetry.Telemetry // counts the occurrences; may be nil
}

// Scheduler keeps alarms and lets them go off. Set, List and Cancel may be used before and
// without Run. Safe for concurrent use.
type Scheduler struct {
	opt Options

	reportTo func(context.Context, record.Job, record.Occurrence) // set by Run; may be nil

	mu      sync.Mutex
	waiting queue
	known   map[key]time.Time            // the time of the valid entry in the queue; others are stale
	working map[id.ID]bool               // jobs that have a worker; true: it has to look once more
	follows map[id.ID]context.CancelFunc // jobs whose events are followed; calling it makes the follower read the job again
	news    chan struct{}                // holds a token when the first entry may have changed
}

// New returns a scheduler.
func New(opt Options) *Scheduler {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Scheduler{opt: opt, known: map[key]time.Time{}, working: map[id.ID]bool{}, follows: map[id.ID]context.CancelFunc{}, news: make(chan struct{}, 1)}
}

// The kinds of entries.
const (
	kindAlarm      = iota
	kindJob        // a job that is due
	kindOccurrence // a job with an occurrence that is to run
	kindEvents     // a job that begins on what is followed
)

// entry is something in the queue.
type entry struct {
	at   time.Time
	user string
	id   id.ID
	kind int

	looks int // how often it was looked at because another scheduler has to do it
}

type key struct {
	id   id.ID
	kind int
}

// queue is a heap by time.
type queue []entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(entry)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// Now returns the scheduler's time.
func (s *Scheduler) Now() time.Time { return s.opt.Now() }

// Set stores an alarm, of which the caller gives ID, User, Conversation, Kind, Text, Labels,
// Start, Rule and Zone. An alarm that exists under its ID is returned as it is: setting it twice
// has no effect. Error codes: time_past, text_too_long, alarms_too_many, rule_invalid,
// rule_unsupported, zone_unknown, and those of the store.
func (s *Scheduler) Set(ctx context.Context, a record.Alarm) (record.Alarm, error) {
	sc := store.ForUser(a.User)
	if old, _, err := s.get(ctx, sc, a.ID); err == nil || !fault.Is(err, fault.NotFound) {
		return old, err
	}
	if len(a.Text) > MaxText {
		return a, fault.New(fault.TooLarge, "text_too_long", "the text has %d bytes; the limit is %d", len(a.Text), MaxText)
	}
	a.Created, a.Start = s.opt.Now().UTC(), a.Start.UTC()
	var err error
	if a.Start, err = first(a, a.Created); err != nil {
		return a, err
	}
	a.Next, a.Fired, a.Ended = a.Start, 0, ""
	if a.Next.Before(a.Created) {
		return a, fault.New(fault.Invalid, "time_past", "%s is in the past", a.Next.Format(time.RFC3339)).WithHint("give a time in the future")
	}
	list, err := s.List(ctx, a.User)
	if err != nil {
		return a, err
	}
	if len(list) >= MaxAlarms {
		return a, fault.New(fault.Exhausted, "alarms_too_many", "there are already %d alarms; the limit is %d", len(list), MaxAlarms).WithHint("cancel some")
	}
	if err := s.put(ctx, sc, a, store.If{Absent: true}); err != nil {
		return a, err
	}
	s.add(a)
	return a, nil
}

// List returns the user's alarms that will go off, the next one first.
func (s *Scheduler) List(ctx context.Context, user string) ([]record.Alarm, error) {
	var out []record.Alarm
	for it, err := range store.Items(ctx, s.opt.Store, store.ForUser(user), store.Query{Type: record.TypeAlarm, State: record.StateDue}) {
		if err != nil {
			return nil, err
		}
		a, err := record.DecodeAlarm(it.URI, it.Body)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b record.Alarm) int { return a.Next.Compare(b.Next) })
	return out, nil
}

// Get returns an alarm, also one that has passed. Error code: not_found.
func (s *Scheduler) Get(ctx context.Context, user string, alarm id.ID) (record.Alarm, error) {
	a, _, err := s.get(ctx, store.ForUser(user), alarm)
	return a, err
}

// Cancel ends an alarm. by identifies the call: if it has cancelled the alarm before, nothing
// changes. Error codes: not_found, alarm_over (Conflict).
func (s *Scheduler) Cancel(ctx context.Context, user string, alarm, by id.ID) (record.Alarm, error) {
	sc := store.ForUser(user)
	for {
		a, version, err := s.get(ctx, sc, alarm)
		switch {
		case err != nil || a.Changed == by && a.Ended == "cancelled":
			return a, err
		case a.Next.IsZero():
			return a, fault.New(fault.Conflict, "alarm_over", "the alarm has ended or was cancelled")
		}
		a.Next, a.Ended, a.Changed = time.Time{}, "cancelled", by
		err = s.put(ctx, sc, a, store.If{Version: version})
		if !fault.Is(err, fault.Conflict) {
			return a, err
		}
	}
}

// CancelledBy returns the alarm that a call of Cancel has ended. Error code: not_found.
func (s *Scheduler) CancelledBy(ctx context.Context, user string, by id.ID) (record.Alarm, error) {
	for it, err := range store.Items(ctx, s.opt.Store, store.ForUser(user), store.Query{Term: store.Term{Name: termCancelled, Value: by.String()}}) {
		if err != nil {
			return record.Alarm{}, err
		}
		return record.DecodeAlarm(it.URI, it.Body)
	}
	return record.Alarm{}, fault.New(fault.NotFound, "not_found", "this call has not cancelled an alarm")
}

// termCancelled finds an alarm by what cancelled it.
const termCancelled = "cancelled_by"

func (s *Scheduler) get(ctx context.Context, sc store.Scope, alarm id.ID) (record.Alarm, uint64, error) {
	r, err := s.opt.Store.Get(ctx, sc, record.AlarmURI(alarm))
	if err != nil {
		return record.Alarm{}, 0, err
	}
	a, err := record.DecodeAlarm(r.URI, r.Body)
	return a, r.Version, err
}

func (s *Scheduler) put(ctx context.Context, sc store.Scope, a record.Alarm, cond store.If) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	ch := store.Change{URI: record.AlarmURI(a.ID), Body: b, If: cond}
	if !a.Next.IsZero() {
		ch.State = record.StateDue
	}
	if !a.Changed.Zero() {
		ch.Terms = []store.Term{{Name: termCancelled, Value: a.Changed.String()}}
	}
	_, err = s.opt.Store.Commit(ctx, sc, store.Batch{Changes: []store.Change{ch}})
	return err
}

// add queues an alarm for its next occurrence.
func (s *Scheduler) add(a record.Alarm) {
	if !a.Next.IsZero() {
		s.push(entry{at: a.Next, user: a.User, id: a.ID, kind: kindAlarm})
	}
}

// addJob queues a job for its next occurrence.
func (s *Scheduler) addJob(j *record.Job) {
	switch {
	case j.State != record.JobActive:
	case j.Followed():
		s.push(entry{user: j.User, id: j.ID, kind: kindEvents})
	case !j.Next.IsZero():
		s.push(entry{at: j.Next, user: j.User, id: j.ID, kind: kindJob})
	}
}

// push queues an entry, unless the same thing is queued for an earlier time.
func (s *Scheduler) push(e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{e.id, e.kind}
	if at, ok := s.known[k]; ok && !e.at.Before(at) {
		return
	}
	s.known[k] = e.at
	heap.Push(&s.waiting, e)
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Deliver tells the user of an alarm that goes off. It returns once that is durable. It may be
// called again for the same occurrence, and must then change nothing. An error for which final
// holds ends the alarm; after any other, Tell is called again.
type Deliver func(ctx context.Context, a record.Alarm, o Occurrence) (final bool, err error)

// Run does what is due until ctx is done. It may be called once.
func (s *Scheduler) Run(ctx context.Context, h Handlers) error {
	s.reportTo = h.Report
	if err := s.load(ctx, store.ForNode(""), h.Job != nil); err != nil {
		return err
	}
	var telling sync.WaitGroup
	defer telling.Wait()
	room, jobs := make(chan struct{}, maxParallel), make(chan struct{}, maxJobs)
	life := ctx
	for {
		e, ok := s.next(life)
		if !ok {
			return life.Err()
		}
		ctx, leave := life, func() {}
		if h.Spaces != nil {
			if ctx, leave, ok = h.Spaces.Enter(life, e.user); !ok {
				telling.Go(func() { s.want(life, e, h.Spaces) })
				continue
			}
		}
		if e.kind == kindOccurrence {
			telling.Go(func() {
				defer leave()
				s.work(ctx, e, &h, jobs)
			})
			continue
		}
		if e.kind == kindEvents {
			telling.Go(func() {
				defer leave()
				if h.Events != nil {
					s.followEvents(ctx, e, &h)
				}
			})
			continue
		}
		select {
		case room <- struct{}{}:
		case <-life.Done():
			leave()
			return life.Err()
		}
		await := func(do func() error) error {
			<-room
			defer func() { room <- struct{}{} }()
			return do()
		}
		telling.Go(func() {
			defer leave()
			defer func() { <-room }()
			if e.kind == kindJob {
				s.retry(ctx, e, func() error {
					j, err := s.due(ctx, e, &h)
					if err == nil {
						s.addJob(&j)
					}
					return err
				})
				return
			}
			s.process(ctx, e, func(ctx context.Context, a record.Alarm, o Occurrence) (bool, error) {
				o.Await = await
				return h.Alarm(ctx, a, o)
			})
		})
	}
}

// load queues what is due some time in the spaces of a scope, and jobs whose occurrences are not over.
func (s *Scheduler) load(ctx context.Context, sc store.Scope, jobs bool) error {
	for it, err := range store.Items(ctx, s.opt.Store, sc, store.Query{Type: record.TypeAlarm, State: record.StateDue}) {
		if err != nil {
			return err
		}
		a, err := record.DecodeAlarm(it.URI, it.Body)
		if err != nil {
			s.opt.Log.Error("skipped an invalid alarm", "error", err)
			continue
		}
		s.add(a)
	}
	if !jobs {
		return nil
	}
	for it, err := range store.Items(ctx, s.opt.Store, sc, store.Query{Type: record.TypeJob, State: record.JobActive}) {
		if err != nil {
			return err
		}
		j, err := record.DecodeJob(it.URI, it.Body)
		if err != nil {
			s.opt.Log.Error("skipped an invalid job", "error", err)
			continue
		}
		s.addJob(&j)
	}
	for _, state := range []string{record.OccurrenceDue, record.OccurrenceRunning, record.OccurrenceWaiting} {
		for it, err := range store.Items(ctx, s.opt.Store, sc, store.Query{Type: record.TypeOccurrence, State: state}) {
			if err != nil {
				return err
			}
			o, err := record.DecodeOccurrence(it.URI, it.Body)
			if err != nil {
				s.opt.Log.Error("skipped an invalid occurrence of a job", "error", err)
				continue
			}
			s.wake(userOf(it.Space), record.IDOf(it.URI, record.TypeJob), o.After)
		}
	}
	return nil
}

// work is the worker of a job, unless the job has one already, which then looks once more.
func (s *Scheduler) work(ctx context.Context, e entry, h *Handlers, room chan struct{}) {
	s.mu.Lock()
	if _, busy := s.working[e.id]; busy {
		s.working[e.id] = true
		s.mu.Unlock()
		return
	}
	s.working[e.id] = false
	s.mu.Unlock()
	s.retry(ctx, e, func() error { return s.perform(ctx, e.user, e.id, h, room) })
	s.mu.Lock()
	again := s.working[e.id]
	delete(s.working, e.id)
	s.mu.Unlock()
	if again {
		s.wake(e.user, e.id, s.opt.Now())
	}
}

// retry does something until it succeeds or ctx is done.
func (s *Scheduler) retry(ctx context.Context, e entry, do func() error) {
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, lastWait) {
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		s.opt.Log.Warn("cannot record what a job does", "job", e.id.String(), "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// next waits for the first entry and takes it out of the queue.
func (s *Scheduler) next(ctx context.Context) (entry, bool) {
	for {
		s.mu.Lock()
		var wake <-chan time.Time
		for len(s.waiting) > 0 && s.known[key{s.waiting[0].id, s.waiting[0].kind}] != s.waiting[0].at {
			heap.Pop(&s.waiting)
		}
		if len(s.waiting) > 0 {
			left := s.waiting[0].at.Sub(s.opt.Now())
			if left <= 0 {
				e := heap.Pop(&s.waiting).(entry)
				delete(s.known, key{e.id, e.kind})
				s.mu.Unlock()
				return e, true
			}
			wake = time.After(min(left, maxSleep))
		}
		s.mu.Unlock()
		select {
		case <-wake:
		case <-s.news:
		case <-ctx.Done():
			return entry{}, false
		}
	}
}

// process takes an alarm through an occurrence, until that is recorded or ctx is done.
func (s *Scheduler) process(ctx context.Context, e entry, tell Deliver) {
	wait := time.Second
	for try := 1; ctx.Err() == nil; try++ {
		a, err := s.deliver(ctx, e, tell, try == maxTries)
		if err == nil {
			s.add(a)
			return
		}
		s.opt.Log.Warn("cannot deliver an alarm", "alarm", e.id.String(), "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, lastWait)
	}
}

// deliver tells the occurrence that is due, and commits the next one. It returns the alarm as it
// is then.
func (s *Scheduler) deliver(ctx context.Context, e entry, tell Deliver, giveUp bool) (record.Alarm, error) {
	sc := store.ForUser(e.user)
	a, version, err := s.get(ctx, sc, e.id)
	if fault.Is(err, fault.NotFound) { // it was erased
		return record.Alarm{}, nil
	}
	now := s.opt.Now()
	if err != nil || a.Next.IsZero() || a.Next.After(now) { // cancelled, or told by another process
		return a, err
	}
	due, next, passed := advance(a, now)
	o := Occurrence{ID: id.Derive("occurrence", a.ID.String(), due.UTC().Format(time.RFC3339)), Due: due, Missed: passed - 1}
	final, err := tell(ctx, a, o)
	if err != nil && !final && !giveUp {
		return a, err
	}
	a.Next, a.Fired = next, a.Fired+passed
	if err != nil {
		s.opt.Log.Error("gave up on an alarm", "alarm", a.ID.String(), "error", err)
		a.Next, a.Ended = time.Time{}, fault.Of(err).Code
	} else if next.IsZero() {
		a.Ended = "over"
	}
	err = s.put(context.WithoutCancel(ctx), sc, a, store.If{Version: version})
	if errors.Is(err, context.Canceled) {
		return a, err
	}
	if fault.Is(err, fault.Conflict) { // it was cancelled meanwhile: read it again
		return s.reload(ctx, sc, e)
	}
	return a, err
}

func (s *Scheduler) reload(ctx context.Context, sc store.Scope, e entry) (record.Alarm, error) {
	a, _, err := s.get(ctx, sc, e.id)
	if fault.Is(err, fault.NotFound) {
		return record.Alarm{}, nil
	}
	return a, err
}
