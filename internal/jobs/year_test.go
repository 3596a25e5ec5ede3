package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

// year is a simulated year: jobs, whose due times are known from an oracle, a clock that jumps, and a
// scheduler that is killed again and again, often between two commits.
type year struct {
	t      *testing.T
	rand   *rand.Rand
	store  *mortal
	jobs   int
	skew   time.Duration // how far the scheduler's clock is ahead of synctest's
	mu     sync.Mutex
	begun  map[string]int // attempts by key: how often they have begun anew
	ran    map[id.ID]int  // occurrences: how many attempts were carried out without a failure
	lasted map[string]bool
}

// mortal is a store whose process dies at a commit, just before or after it takes effect. It notes
// the occurrences that are committed.
type mortal struct {
	store.Store
	mu     sync.Mutex
	left   int // commits until death; negative: it lives on
	after  bool
	died   chan struct{}
	states map[id.ID]record.Occurrence
	of     map[id.ID]id.ID // occurrence to job
}

var errDead = errors.New("the process is dead")

func (m *mortal) alive() bool {
	select {
	case <-m.died:
		return false
	default:
		return true
	}
}

func (m *mortal) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.alive() {
		return store.Receipt{}, errDead
	}
	dies := false
	if m.left > 0 {
		m.left--
		if dies = m.left == 0; dies {
			close(m.died)
			if !m.after {
				return store.Receipt{}, errDead
			}
		}
	}
	r, err := m.Store.Commit(context.WithoutCancel(ctx), sc, b)
	if err == nil {
		for _, ch := range b.Changes {
			if ch.URI.Type() == record.TypeOccurrence && ch.Op == store.Put {
				o, err := record.DecodeOccurrence(ch.URI, ch.Body)
				if err != nil {
					panic(err)
				}
				m.states[o.ID], m.of[o.ID] = o, record.IDOf(ch.URI, record.TypeJob)
			}
		}
	}
	if dies && err == nil {
		err = errDead
	}
	return r, err
}

func (m *mortal) Get(ctx context.Context, sc store.Scope, u resource.URI) (res resource.Resource, err error) {
	if !m.alive() {
		return res, errDead
	}
	return m.Store.Get(ctx, sc, u)
}

func (m *mortal) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if !m.alive() {
		return store.Page{}, errDead
	}
	return m.Store.Query(ctx, sc, q)
}

func (y *year) now() time.Time { return time.Now().Add(y.skew) }

// perform is a receiver that recognizes attempts by their key, as turns do. Some take minutes, some
// fail, some wait for a person.
func (y *year) perform(ctx context.Context, a *Attempt) (Result, error) {
	k := a.Key()
	h := id.Derive("outcome", k)
	y.mu.Lock()
	if y.lasted[k] { // it is over already: only the record of that was lost
		y.mu.Unlock()
		return y.outcome(a, h)
	}
	y.begun[k]++
	y.mu.Unlock()
	last := func() error {
		select {
		case <-time.After(time.Duration(h[1]) * time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var err error
	if h[2] < 30 {
		err = a.Wait(ctx, last)
	} else {
		err = last()
	}
	if err != nil {
		return Result{}, err
	}
	y.mu.Lock()
	y.lasted[k] = true
	if h[0] >= 40 {
		y.ran[a.Occurrence.ID]++
	}
	y.mu.Unlock()
	return y.outcome(a, h)
}

func (y *year) outcome(_ *Attempt, h id.ID) (Result, error) {
	if h[0] < 40 {
		return Result{Cost: 1}, fault.New(fault.Unavailable, "no_luck", "no luck")
	}
	return Result{Cost: 1}, nil
}

// life runs a scheduler until the store dies, or for a time.
func (y *year) life(lasts time.Duration) {
	y.store.mu.Lock()
	y.store.died, y.store.left, y.store.after = make(chan struct{}), -1, y.rand.IntN(2) == 0
	if y.rand.IntN(6) > 0 {
		y.store.left = 1 + y.rand.IntN(20+2*y.jobs)
	}
	y.store.mu.Unlock()
	s := New(Options{Store: y.store, Now: y.now})
	ctx, cancel := context.WithCancel(y.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx, Handlers{Job: y.perform}); !errors.Is(err, context.Canceled) && !errors.Is(err, errDead) {
			y.t.Error(err)
		}
	}()
	select {
	case <-y.store.died:
	case <-time.After(lasts):
	}
	cancel()
	<-done
}

// kind is a way to trigger a job, with the oracle: the wall times at which it is due.
type kind struct {
	set func(*record.Job)
	due func(w, start time.Time) bool // w, start: wall times, w not before start
}

func (y *year) kind() kind {
	h, m := y.rand.IntN(24), y.rand.IntN(60)
	if y.rand.IntN(3) == 0 {
		h = 1 + y.rand.IntN(3) // when the clocks are changed
	}
	at := func(w time.Time) bool { return w.Hour() == h && w.Minute() == m }
	atStart := func(w, start time.Time) bool { return w.Hour() == start.Hour() && w.Minute() == start.Minute() }
	cron := func(format string, args ...any) func(*record.Job) {
		return func(j *record.Job) { j.Cron = fmt.Sprintf(format, args...) }
	}
	rule := func(rule string) func(*record.Job) { return func(j *record.Job) { j.Rule = rule } }
	days := func(w, start time.Time) int {
		return int(w.Truncate(24*time.Hour).Sub(start.Truncate(24*time.Hour)) / (24 * time.Hour))
	}
	switch y.rand.IntN(10) {
	case 0:
		return kind{cron("%d %d * * *", m, h), func(w, _ time.Time) bool { return at(w) }}
	case 1:
		return kind{cron("%d %d * * 1-5", m, h), func(w, _ time.Time) bool { return at(w) && w.Weekday() >= 1 && w.Weekday() <= 5 }}
	case 2:
		return kind{cron("*/20 2 * * *"), func(w, _ time.Time) bool { return w.Hour() == 2 && w.Minute()%20 == 0 }}
	case 3:
		return kind{cron("%d %d 29-31 * *", m, h), func(w, _ time.Time) bool { return at(w) && w.Day() >= 29 }}
	case 4:
		return kind{rule("FREQ=DAILY"), atStart}
	case 5:
		return kind{rule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU"), func(w, start time.Time) bool {
			monday := start.AddDate(0, 0, -(int(start.Weekday())+6)%7)
			return atStart(w, start) && (w.Weekday() == time.Monday || w.Weekday() == time.Sunday) && days(w, monday)/7%2 == 0
		}}
	case 6:
		return kind{rule("FREQ=DAILY;INTERVAL=3;BYHOUR=2,9"), func(w, start time.Time) bool {
			return w.Minute() == start.Minute() && (w.Hour() == 2 || w.Hour() == 9) && days(w, start)%3 == 0
		}}
	case 7:
		return kind{rule("FREQ=MONTHLY;BYMONTHDAY=-1"), func(w, start time.Time) bool { return atStart(w, start) && w.AddDate(0, 0, 1).Day() == 1 }}
	case 8:
		return kind{rule("FREQ=MONTHLY;BYDAY=2WE"), func(w, start time.Time) bool {
			return atStart(w, start) && w.Weekday() == time.Wednesday && w.Day() > 7 && w.Day() <= 14
		}}
	}
	return kind{set: func(j *record.Job) { j.Every = 60 * (90 + 10*m) }}
}

// zoneMinutes lists what the clock in a zone shows at each minute of a time: the oracle for the
// change of the clocks.
type zoneMinutes struct {
	from  time.Time
	walls []time.Time
}

func minutesOf(t *testing.T, name string, from time.Time, n int) zoneMinutes {
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	z := zoneMinutes{from: from}
	for i := range n {
		l := from.Add(time.Duration(i) * time.Minute).In(loc)
		z.walls = append(z.walls, time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC))
	}
	return z
}

// due returns when a wall time that fits is shown for the first time, or left out.
func (z zoneMinutes) due(k kind, start, until time.Time) (out []time.Time) {
	first := int(start.Sub(z.from) / time.Minute)
	wallStart := z.walls[first]
	newest := wallStart.Add(-time.Minute) // the latest wall time that has passed
	for i := first; i < len(z.walls); i++ {
		at := z.from.Add(time.Duration(i) * time.Minute)
		if at.After(until) {
			break
		}
		fits := false
		for ; newest.Before(z.walls[i]); newest = newest.Add(time.Minute) {
			fits = fits || k.due(newest.Add(time.Minute), wallStart)
		}
		if fits {
			out = append(out, at)
		}
	}
	return out
}

var zones = []string{"Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kolkata", "UTC"}

// Over a year, however the clock jumps, the machine sleeps and the process is killed: each time at
// which a job is due is run once, or recorded as missed or skipped.
func simulate(t *testing.T, seed uint64, jobs, days int, real bool) {
	path := filepath.Join(t.TempDir(), "steward.db")
	m := &mortal{left: -1, died: make(chan struct{}), states: map[id.ID]record.Occurrence{}, of: map[id.ID]id.ID{}}
	kinds := map[id.ID]kind{}
	y := &year{jobs: jobs, rand: rand.New(rand.NewPCG(seed, 1)), store: m, begun: map[string]int{}, ran: map[id.ID]int{}, lasted: map[string]bool{}}
	var end time.Time
	list := map[id.ID]record.Job{}
	synctest.Test(t, func(t *testing.T) {
		y.t = t
		if m.Store = newQuick(); real {
			st, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			m.Store = st
		}
		s := New(Options{Store: m, Now: y.now})
		for i := range jobs {
			k := y.kind()
			j := record.Job{User: fmt.Sprint("user-", i/100), Name: fmt.Sprint("job-", i), Text: "do it", Zone: zones[y.rand.IntN(len(zones))],
				Missed:  []string{"", record.MissedAll, record.MissedSkip}[y.rand.IntN(3)],
				Overlap: []string{"", record.OverlapQueue}[y.rand.IntN(2)], Retries: y.rand.IntN(3), Jitter: []int{0, 0, 600}[y.rand.IntN(3)]}
			if y.rand.IntN(4) == 0 {
				j.Quiet = record.Quiet{From: "22:00", To: "06:30"}
			}
			j.Start = y.now().Add(time.Duration(1+y.rand.IntN(7*24*60)) * time.Minute).Truncate(time.Minute)
			k.set(&j)
			j, err := s.AddJob(t.Context(), j)
			if err != nil {
				t.Fatal(err)
			}
			kinds[j.ID] = k
		}
		last := y.now() // the latest time that the scheduler's clock has shown
		for began := time.Now(); time.Since(began) < time.Duration(days)*24*time.Hour; {
			y.life(time.Duration(1+y.rand.IntN(20*24*60)) * time.Minute)
			switch y.rand.IntN(4) {
			case 0: // it is not started for days
				time.Sleep(time.Duration(y.rand.IntN(5*24*60)) * time.Minute)
			case 1: // the clock is set, forward or back
				if now := y.now(); now.After(last) {
					last = now
				}
				y.skew += time.Duration(y.rand.IntN(6*60)-3*60) * time.Minute
			}
		}
		m.died, m.left = make(chan struct{}), -1
		for !end.After(last) { // up to the present
			y.rest(48 * time.Hour)
			end = y.now()
		}
		for jid := range kinds {
			for u := range 1 + jobs/100 {
				if j, _, err := s.job(t.Context(), fmt.Sprint("user-", u), jid); err == nil {
					list[jid] = j
				}
			}
		}
	})
	y.t = t
	y.verify(list, kinds, end, days)
}

// rest lets a scheduler run that is not killed.
func (y *year) rest(d time.Duration) {
	s := New(Options{Store: y.store, Now: y.now})
	ctx, cancel := context.WithTimeout(y.t.Context(), d)
	defer cancel()
	_ = s.Run(ctx, Handlers{Job: y.perform})
}

func openOf(list []record.Occurrence) (n int) {
	for _, o := range list {
		if !o.Over() {
			n++
		}
	}
	return n
}

func (y *year) verify(list map[id.ID]record.Job, kinds map[id.ID]kind, end time.Time, days int) {
	byJob := map[id.ID][]record.Occurrence{}
	total := map[string]int{}
	for oid, o := range y.store.states {
		byJob[y.store.of[oid]] = append(byJob[y.store.of[oid]], o)
		total[o.State] += o.Times()
		if n := y.ran[oid]; n > 1 || n == 1 != (o.State == record.OccurrenceDone) {
			y.t.Errorf("occurrence %s is %s and was carried out %d times", oid, o.State, n)
		}
	}
	minutes := map[string]zoneMinutes{}
	from := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, z := range zones {
		minutes[z] = minutesOf(y.t, z, from, int(end.Sub(from)/time.Minute)+2)
	}
	times := 0
	for jid, k := range kinds {
		j := list[jid]
		var want []time.Time
		if k.due != nil {
			want = minutes[j.Zone].due(k, j.Start, end)
		} else {
			for at := j.Start; !at.After(end); at = at.Add(time.Duration(j.Every) * time.Second) {
				want = append(want, at)
			}
		}
		times += len(want)
		occs := byJob[jid]
		slices.SortFunc(occs, func(a, b record.Occurrence) int { return int(a.Number - b.Number) })
		for _, o := range occs {
			n := o.Times()
			if n > len(want) || !want[0].Equal(o.Due) || n > 1 && !want[n-1].Equal(o.Last) {
				y.t.Errorf("%s %+v: %+v, next due %v", j.Name, j.Trigger, o, want[:min(2, len(want))])
				break
			}
			want = want[n:]
		}
		c := j.Count
		if len(want) > 0 && !want[0].Equal(j.Next) || open(&j) != openOf(occs) {
			y.t.Errorf("%s %+v in %s: %d due times are left, the first is %v; next is %s, %+v", j.Name, j.Trigger, j.Zone, len(want), want[:min(1, len(want))], j.Next, c)
		}
	}
	again := 0
	for _, n := range y.begun {
		again += n - 1
	}
	y.t.Logf("%d jobs were due %d times: %v; %d attempts were resumed after a kill", len(kinds), times, total, again)
	if days > 300 && (total[record.OccurrenceDone] == 0 || total[record.OccurrenceMissed] == 0 || total[record.OccurrenceFailed] == 0 || total[record.OccurrenceSkipped] == 0 || again == 0) {
		y.t.Error("the simulation has left something out")
	}
}

func TestAYearOfJobs(t *testing.T) {
	t.Run("in memory", func(t *testing.T) { simulate(t, 1, 8, 366, false) })
	t.Run("in SQLite", func(t *testing.T) { simulate(t, 2, 6, 20, true) })
}
