// Package jobs is the scheduler: it makes things happen at their time.
//
// An alarm is a resource in its user's space (record.Alarm). While it has a next occurrence, its
// state is "due", by which the scheduler finds it at the start. From then on the due times are in
// memory, in a heap, and the scheduler sleeps until the first one.
//
// An occurrence passes in two steps. First it is delivered (Options.Tell), under an id that derives
// from the alarm and its time, so that telling it twice has no effect. Then the alarm's next
// occurrence is committed, with the alarm's version as a precondition. After a crash between the
// two, the occurrence is delivered again under the same id. So every occurrence is delivered, and once only,
// as far as the receiver recognizes the id.
//
// What was due while Steward did not run is delivered at the start. Of the occurrences of a repeated
// alarm that were missed, only the last one is delivered, with the number of the others: a person is
// not reminded thirty times of the same thing.
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
}

// Scheduler keeps alarms and lets them go off. Set, List and Cancel may be used before and
// without Run. Safe for concurrent use.
type Scheduler struct {
	opt Options

	mu      sync.Mutex
	waiting queue
	known   map[id.ID]bool // alarms that are waiting or being told
	news    chan struct{}  // holds a token when the first alarm may have changed
}

// New returns a scheduler.
func New(opt Options) *Scheduler {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Scheduler{opt: opt, known: map[id.ID]bool{}, news: make(chan struct{}, 1)}
}

// entry is an alarm in the queue.
type entry struct {
	at   time.Time
	user string
	id   id.ID
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Next.IsZero() || s.known[a.ID] {
		return
	}
	s.known[a.ID] = true
	heap.Push(&s.waiting, entry{a.Next, a.User, a.ID})
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Deliver tells the user of an alarm that goes off. It returns once that is durable. It may be
// called again for the same occurrence, and must then change nothing. An error for which final
// holds ends the alarm; after any other, Tell is called again.
type Deliver func(ctx context.Context, a record.Alarm, o Occurrence) (final bool, err error)

// Run lets alarms go off until ctx is done. It may be called once.
func (s *Scheduler) Run(ctx context.Context, tell Deliver) error {
	sc := store.ForNode("")
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
	var telling sync.WaitGroup
	defer telling.Wait()
	room := make(chan struct{}, maxParallel)
	for {
		e, ok := s.next(ctx)
		if !ok {
			return ctx.Err()
		}
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		await := func(do func() error) error {
			<-room
			defer func() { room <- struct{}{} }()
			return do()
		}
		telling.Go(func() {
			defer func() { <-room }()
			s.process(ctx, e, func(ctx context.Context, a record.Alarm, o Occurrence) (bool, error) {
				o.Await = await
				return tell(ctx, a, o)
			})
		})
	}
}

// next waits for the first alarm and takes it out of the queue.
func (s *Scheduler) next(ctx context.Context) (entry, bool) {
	for {
		s.mu.Lock()
		var wake <-chan time.Time
		if len(s.waiting) > 0 {
			left := s.waiting[0].at.Sub(s.opt.Now())
			if left <= 0 {
				e := heap.Pop(&s.waiting).(entry)
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
			s.mu.Lock()
			delete(s.known, e.id)
			s.mu.Unlock()
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
