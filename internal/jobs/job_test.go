package jobs

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
	"steward/test/storetest"
)

// worker carries out attempts as a test wants it, and notes them.
type worker struct {
	mu       sync.Mutex
	done     []string // when attempts began
	takes    time.Duration
	fails    int // so many attempts fail
	reported []string
}

func (w *worker) handlers() Handlers {
	return Handlers{
		Job: func(ctx context.Context, a *Attempt) (Result, error) {
			w.mu.Lock()
			w.done = append(w.done, time.Now().UTC().Format("02 15:04:05"))
			w.fails--
			fails := w.fails >= 0
			w.mu.Unlock()
			select {
			case <-time.After(w.takes):
			case <-ctx.Done():
				return Result{}, ctx.Err()
			}
			if fails {
				return Result{Cost: 0.5}, fault.New(fault.Unavailable, "no_luck", "no luck")
			}
			return Result{Cost: 0.5}, nil
		},
		Report: func(_ context.Context, j record.Job, o record.Occurrence) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reported = append(w.reported, fmt.Sprintf("%s %s %s %d", j.Name, o.State, o.Reason, o.Times()))
		},
	}
}

// began returns when attempts began, and forgets it.
func (w *worker) began() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := strings.Join(w.done, ", ")
	w.done = nil
	return out
}

func (w *worker) run(t *testing.T, st store.Store) (*Scheduler, func()) {
	s := New(Options{Store: st})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx, w.handlers()) }()
	return s, func() { cancel(); <-done }
}

func addJob(t *testing.T, s *Scheduler, set func(*record.Job)) record.Job {
	t.Helper()
	j := record.Job{User: "ann", Name: "mail", Text: "read my mail"}
	set(&j)
	j, err := s.AddJob(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// history renders the newest occurrences, the oldest first.
func history(t *testing.T, s *Scheduler) string {
	t.Helper()
	list, err := s.Occurrences(t.Context(), "ann", "mail", 100)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(list)
	var out []string
	for _, o := range list {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", o.Due.Format("02 15:04"), o.State, o.Reason)))
	}
	return strings.Join(out, ", ")
}

func is(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// In synctest's world it is midnight of Saturday, 1 January 2000.
func TestJobsBeginAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{}
		s, stop := w.run(t, storetest.NewModel())
		defer stop()
		j := addJob(t, s, func(j *record.Job) { j.Cron = "0 7 * * 1-5"; j.Zone = "Europe/Vienna" })
		is(t, j.Next.Format("Mon 02 15:04"), "Mon 03 06:00")
		time.Sleep(5 * 24 * time.Hour)
		synctest.Wait()
		is(t, w.began(), "03 06:00:00, 04 06:00:00, 05 06:00:00")
		is(t, history(t, s), "03 06:00 done, 04 06:00 done, 05 06:00 done")
		if j, err := s.Job(t.Context(), "ann", "mail"); j.Count.Done != 3 || j.Count.Due != 3 || j.Count.Cost != 1.5 || err != nil {
			t.Errorf("%+v %v", j.Count, err)
		}
		if _, err := s.Job(t.Context(), "bob", "mail"); !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
	})
}

func TestPauseResumeRunRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{takes: time.Minute}
		s, stop := w.run(t, storetest.NewModel())
		defer stop()
		addJob(t, s, func(j *record.Job) { j.Rule = "FREQ=DAILY"; j.Start = time.Now().Add(9 * time.Hour) })
		if j, err := s.PauseJob(t.Context(), "ann", "mail"); j.State != record.JobPaused || !j.Next.IsZero() || err != nil {
			t.Errorf("%+v %v", j, err)
		}
		time.Sleep(50 * time.Hour)
		if j, err := s.ResumeJob(t.Context(), "ann", "mail"); j.Next.Format("02 15:04") != "03 09:00" || err != nil {
			t.Errorf("%+v %v", j, err)
		}
		by := id.New()
		o, err := s.RunJob(t.Context(), "ann", "mail", by)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.RunJob(t.Context(), "ann", "mail", by); again.ID != o.ID || err != nil {
			t.Error(again, err)
		}
		if _, err := s.RunJob(t.Context(), "ann", "mail", id.New()); !fault.HasCode(err, "job_busy") {
			t.Error(err)
		}
		time.Sleep(8 * time.Hour)
		synctest.Wait()
		is(t, w.began(), "03 02:00:00, 03 09:00:00")
		if _, err := s.RemoveJob(t.Context(), "ann", "mail"); err != nil {
			t.Error(err)
		}
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		is(t, w.began(), "")
		if _, err := s.Occurrences(t.Context(), "ann", "mail", 9); !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
		addJob(t, s, func(j *record.Job) { j.At = time.Now().Add(time.Hour) }) // the name is free again
		time.Sleep(2 * time.Hour)
		is(t, history(t, s), "05 11:00 done")
		if j, err := s.Job(t.Context(), "ann", "mail"); j.State != record.JobEnded || err != nil {
			t.Errorf("%+v %v", j, err)
		}
		if _, err := s.ResumeJob(t.Context(), "ann", "mail"); !fault.HasCode(err, "job_over") {
			t.Error(err)
		}
	})
}

// What is due while Steward does not run is caught up by the job's policy, and reported.
func TestMissedOccurrences(t *testing.T) {
	for missed, want := range map[string][2]string{
		record.MissedOnce: {"01 09:00 missed not_running, 03 09:00 done, 04 09:00 done", "mail missed not_running 2"},
		record.MissedAll:  {"01 09:00 done, 02 09:00 done, 03 09:00 done, 04 09:00 done", ""},
		record.MissedSkip: {"01 09:00 missed not_running, 04 09:00 done", "mail missed not_running 3"},
	} {
		synctest.Test(t, func(t *testing.T) {
			st, w := storetest.NewModel(), &worker{}
			s := New(Options{Store: st})
			addJob(t, s, func(j *record.Job) { j.Cron = "0 9 * * *"; j.Missed = missed })
			time.Sleep(3 * 24 * time.Hour)
			s, stop := w.run(t, st)
			defer stop()
			time.Sleep(10 * time.Hour)
			synctest.Wait()
			is(t, history(t, s), want[0])
			is(t, strings.Join(w.reported, ", "), want[1])
		})
	}
}

func TestOverlap(t *testing.T) {
	for overlap, want := range map[string]string{
		record.OverlapSkip:  "01 01:00 done, 01 02:00 skipped overlap, 01 03:00 done, 01 04:00 skipped overlap",
		record.OverlapQueue: "01 01:00 done, 01 02:00 done, 01 03:00 done, 01 04:00 running",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{takes: 90 * time.Minute}
			s, stop := w.run(t, storetest.NewModel())
			defer stop()
			addJob(t, s, func(j *record.Job) { j.Every = 3600; j.Start = time.Now().Add(time.Hour); j.Overlap = overlap })
			time.Sleep(4*time.Hour + 50*time.Minute)
			if overlap == record.OverlapQueue {
				time.Sleep(2 * time.Hour)
			}
			synctest.Wait()
			if got := history(t, s); !strings.HasPrefix(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// A failure is tried again, later each time, and reported when the retries are used up.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{fails: 5}
		s, stop := w.run(t, storetest.NewModel())
		defer stop()
		addJob(t, s, func(j *record.Job) { j.Cron = "0 9 * * *"; j.Retries = 2 })
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		is(t, w.began(), "01 09:00:00, 01 09:00:30, 01 09:01:30")
		is(t, history(t, s), "01 09:00 failed no_luck")
		is(t, strings.Join(w.reported, ", "), "mail failed no_luck 1")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		is(t, w.began(), "02 09:00:00, 02 09:00:30, 02 09:01:30")
		is(t, history(t, s), "01 09:00 failed no_luck, 02 09:00 done")
	})
}

func TestQuietHoursAndJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{}
		s, stop := w.run(t, storetest.NewModel())
		defer stop()
		addJob(t, s, func(j *record.Job) { j.Cron = "30 */6 * * *"; j.Quiet = record.Quiet{From: "22:00", To: "07:15"} })
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		is(t, w.began(), "01 07:15:00, 01 12:30:00, 01 18:30:00") // what is due at 06:30 meets the one that is not over
		is(t, history(t, s), "01 00:30 done, 01 06:30 skipped overlap, 01 12:30 done, 01 18:30 done")
		if _, err := s.RemoveJob(t.Context(), "ann", "mail"); err != nil {
			t.Fatal(err)
		}
		addJob(t, s, func(j *record.Job) { j.Cron = "0 * * * *"; j.Jitter = 600 })
		seen := map[string]bool{}
		for range 24 {
			time.Sleep(time.Hour)
			synctest.Wait()
			if at := w.began(); at != "" {
				seen[at[6:]] = true
				if at[6:] > "10:00" {
					t.Error(at)
				}
			}
		}
		if len(seen) < 15 {
			t.Errorf("%v", seen)
		}
	})
}

// Old occurrences are erased, but only those that are over.
func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, w := newQuick(), &worker{}
		s, stop := w.run(t, st)
		defer stop()
		j := addJob(t, s, func(j *record.Job) { j.Every = 3600 })
		time.Sleep(3 * keep * time.Hour)
		synctest.Wait()
		if n := len(st.lists[record.OccurrencesURI(j.ID)]); n < keep || n > keep+16 {
			t.Errorf("%d occurrences", n)
		}
	})
}

func TestWhatIsNoJob(t *testing.T) {
	s := New(Options{Store: storetest.NewModel()})
	daily := record.Trigger{Cron: "@daily"}
	for _, c := range []struct {
		code string
		set  func(*record.Job)
	}{
		{"job_invalid", func(j *record.Job) { j.Name = "No Name" }},
		{"job_invalid", func(j *record.Job) { j.Text = "" }},
		{"job_invalid", func(j *record.Job) { j.Missed = "never" }},
		{"job_invalid", func(j *record.Job) { j.Overlap = "both" }},
		{"job_invalid", func(j *record.Job) { j.Retries = 99 }},
		{"job_invalid", func(j *record.Job) { j.Jitter = -1 }},
		{"job_invalid", func(j *record.Job) { j.MaxCost = -1 }},
		{"job_invalid", func(j *record.Job) { j.Quiet = record.Quiet{From: "25:00", To: "07:00"} }},
		{"job_invalid", func(j *record.Job) { j.Tools = map[string]string{"*": "maybe"} }},
		{"job_invalid", func(j *record.Job) { j.Check = record.Check{Tool: "x.y", Args: "{"} }},
		{"job_invalid", func(j *record.Job) {
			j.Trigger = record.Trigger{On: record.EventFilter{Type: "mail.Message", Verb: "eat"}}
		}},
		{"job_invalid", func(j *record.Job) { j.Trigger = record.Trigger{On: record.EventFilter{Type: "no type"}} }},
		{"text_too_long", func(j *record.Job) { j.Text = strings.Repeat("x", MaxJobText+1) }},
		{"zone_unknown", func(j *record.Job) { j.Zone = "Mars/Base" }},
		{"trigger_invalid", func(j *record.Job) { j.Trigger = record.Trigger{} }},
		{"trigger_invalid", func(j *record.Job) { j.Every = 3600 }}, // and the cron expression
		{"trigger_invalid", func(j *record.Job) { j.Trigger = record.Trigger{Every: 5} }},
		{"time_past", func(j *record.Job) { j.Trigger = record.Trigger{At: time.Now().Add(-time.Hour)} }},
		{"cron_invalid", func(j *record.Job) { j.Cron = "0 25 * * *" }},
		{"cron_invalid", func(j *record.Job) { j.Cron = "*/5 * * * * *" }},
		{"cron_invalid", func(j *record.Job) { j.Cron = "@everysecond" }},
		{"cron_invalid", func(j *record.Job) { j.Cron = "every day" }},
		{"rule_never", func(j *record.Job) { j.Cron = "0 0 30 2 *" }},
		{"rule_never", func(j *record.Job) { j.Trigger = record.Trigger{Rule: "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"} }},
		{"rule_invalid", func(j *record.Job) { j.Trigger = record.Trigger{Rule: "FREQ=OFTEN"} }},
	} {
		j := record.Job{User: "ann", Name: "mail", Text: "read my mail", Trigger: daily}
		c.set(&j)
		if _, err := s.Preview(j, 1); err == nil && strings.HasSuffix(c.code, "_invalid") {
			t.Errorf("%+v is shown as a job that can be added", j)
		}
		if _, err := s.AddJob(t.Context(), j); !fault.HasCode(err, c.code) {
			t.Errorf("%+v: %v, want %s", j, err, c.code)
		}
	}
	by := id.New()
	first := addJob(t, s, func(j *record.Job) { j.Trigger, j.By = daily, by })
	if again := addJob(t, s, func(j *record.Job) { j.Trigger, j.By = daily, by }); !again.Created.Equal(first.Created) {
		t.Error("the same call has added two jobs")
	}
	if _, err := s.AddJob(t.Context(), record.Job{User: "ann", Name: "mail", Text: "other", Trigger: daily}); !fault.HasCode(err, "name_taken") {
		t.Error(err)
	}
}

// Vienna puts its clocks forward on 26 March 2000 at 2:00, and back on 29 October at 3:00.
func TestDaysOnWhichClocksChange(t *testing.T) {
	vienna, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		trigger record.Trigger
		now     time.Time
		want    string
	}{
		{record.Trigger{Cron: "30 2 * * *"}, time.Date(2000, 3, 25, 0, 0, 0, 0, vienna), "25 02:30 +0100, 26 03:00 +0200, 27 02:30 +0200"},
		{record.Trigger{Cron: "*/30 2 * * *"}, time.Date(2000, 3, 25, 12, 0, 0, 0, vienna), "26 03:00 +0200, 27 02:00 +0200, 27 02:30 +0200"},
		{record.Trigger{Cron: "30 2 * * *"}, time.Date(2000, 10, 28, 0, 0, 0, 0, vienna), "28 02:30 +0200, 29 02:30 +0200, 30 02:30 +0100"},
		{record.Trigger{Rule: "FREQ=DAILY;BYHOUR=2;BYMINUTE=30"}, time.Date(2000, 3, 25, 0, 0, 0, 0, vienna), "25 02:30 +0100, 26 03:00 +0200, 27 02:30 +0200"},
		{record.Trigger{Rule: "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;UNTIL=20001029T010000Z"}, time.Date(2000, 10, 28, 0, 0, 0, 0, vienna), "28 02:30 +0200, 29 02:30 +0200"},
		{record.Trigger{Rule: "FREQ=HOURLY"}, time.Date(2000, 10, 29, 1, 0, 0, 0, vienna), "29 01:00 +0200, 29 02:00 +0200, 29 02:00 +0100"},
		{record.Trigger{Rule: "FREQ=DAILY;COUNT=2"}, time.Date(2000, 1, 1, 8, 0, 0, 0, vienna), "01 08:00 +0100, 02 08:00 +0100"},
	} {
		s := New(Options{Store: storetest.NewModel(), Now: func() time.Time { return c.now }})
		list, err := s.Preview(record.Job{Name: "x", Text: "x", Trigger: c.trigger, Zone: "Europe/Vienna"}, 3)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, at := range list {
			got = append(got, at.In(vienna).Format("02 15:04 -0700"))
		}
		is(t, fmt.Sprint(c.trigger.Cron, c.trigger.Rule, ": ", strings.Join(got, ", ")), fmt.Sprint(c.trigger.Cron, c.trigger.Rule, ": ", c.want))
	}
}

// Events that come together begin a job once; it holds at least a minute before the next; and none is
// lost or counts twice when Steward is stopped.
func TestJobsThatBeginOnEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, w := storetest.NewModel(), &worker{takes: time.Second}
		var mu sync.Mutex
		var log []string
		grown := make(chan struct{}, 1)
		happen := func(events ...string) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, events...)
			select {
			case grown <- struct{}{}:
			default:
			}
		}
		follow := func(ctx context.Context, j record.Job) iter.Seq2[Events, error] {
			return func(yield func(Events, error) bool) {
				at := 0
				if _, err := fmt.Sscan(j.Cursor, &at); err != nil {
					mu.Lock()
					at = len(log)
					mu.Unlock()
				}
				for {
					mu.Lock()
					b := Events{Cursor: fmt.Sprint(len(log))}
					for _, e := range log[at:] {
						b.List = append(b.List, Event{ID: e, Cause: e + " came"})
					}
					at = len(log)
					mu.Unlock()
					if !yield(b, nil) {
						return
					}
					select {
					case <-grown:
					case <-ctx.Done():
						return
					}
				}
			}
		}
		start := func() (*Scheduler, func()) {
			s := New(Options{Store: st})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			h := w.handlers()
			h.Events = follow
			go func() { defer close(done); _ = s.Run(ctx, h) }()
			return s, func() { cancel(); <-done }
		}
		s, stop := start()
		addJob(t, s, func(j *record.Job) { j.On = record.EventFilter{Type: "mail.Message"} })
		synctest.Wait()
		happen("a", "b")
		time.Sleep(5 * time.Second)
		happen("c") // held until a minute has passed
		time.Sleep(5 * time.Second)
		happen("d") // while c is open
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		is(t, w.began(), "01 00:00:00, 01 00:01:00")
		is(t, history(t, s), "01 00:00 done, 01 00:00 done, 01 00:00 skipped overlap")
		stop()
		happen("e")
		s, stop = start()
		time.Sleep(time.Minute)
		synctest.Wait()
		is(t, w.began(), "01 00:05:10")
		if _, err := s.PauseJob(t.Context(), "ann", "mail"); err != nil {
			t.Error(err)
		}
		happen("f")
		time.Sleep(time.Hour)
		is(t, w.began(), "")
		if _, err := s.ResumeJob(t.Context(), "ann", "mail"); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		is(t, w.began(), "") // f came while it was paused
		happen("g")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		is(t, w.began(), "01 01:08:10")
		if j, err := s.Job(t.Context(), "ann", "mail"); j.Count.Due != 6 || j.Count.Done != 5 || j.Count.Skipped != 1 || err != nil {
			t.Errorf("%+v %v", j.Count, err)
		}
		stop()
	})
}

// Whatever a trigger says, it is refused or yields times that grow.
func FuzzTrigger(f *testing.F) {
	for _, x := range []string{"0 7 * * 1-5", "*/15 2 * * *", "0 0 29 2 *", "0 12 * * 5#2", "0 7 L * *", "0 0 31W * 1", "@weekly"} {
		f.Add(x, true)
	}
	for _, x := range []string{"FREQ=DAILY", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;UNTIL=20270101T000000Z", "FREQ=MONTHLY;BYSETPOS=-1;BYDAY=FR", "FREQ=YEARLY;BYDAY=20MO", "FREQ=HOURLY;UNTIL=20260330"} {
		f.Add(x, false)
	}
	s := New(Options{Store: storetest.NewModel(), Now: func() time.Time { return time.Date(2026, 3, 28, 23, 30, 0, 0, time.UTC) }})
	f.Fuzz(func(t *testing.T, expr string, cron bool) {
		j := record.Job{Name: "x", Text: "x", Zone: "Europe/Vienna"}
		if j.Rule = expr; cron {
			j.Cron, j.Rule = expr, ""
		}
		list, err := s.Preview(j, 5)
		if err != nil && fault.Of(err).Code == "" {
			t.Errorf("an error without a code: %v", err)
		}
		for i := 1; i < len(list); i++ {
			if list[i].Sub(list[i-1]) < minEvery {
				t.Errorf("%q: %v", expr, list)
			}
		}
	})
}

// A heartbeat that finds nothing leaves no occurrence behind, and is counted nevertheless. What it found is
// recorded before the attempt begins.
func TestAJobThatLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{}
		var found atomic.Value
		found.Store("")
		looks := 0
		h := w.handlers()
		h.Look = func(_ context.Context, j record.Job) (Sight, error) {
			looks++
			news := found.Load().(string)
			if news == "fault" {
				return Sight{}, fault.New(fault.Unavailable, "no_luck", "no luck")
			}
			if news == "" {
				return Sight{Idle: record.ReasonUnchanged, Seen: fmt.Sprint(looks)}, nil
			}
			return Sight{Found: news, Seen: fmt.Sprint(looks)}, nil
		}
		st := storetest.NewModel()
		s := New(Options{Store: st})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Run(ctx, h) }()
		defer func() { cancel(); <-done }()
		set := func(every int) record.Job {
			j := record.Job{User: "ann", Name: "mail", Text: "look", Kind: record.KindHeartbeat, Quiet: record.Quiet{From: "03:00", To: "04:00"}}
			j.Every = every
			j, err := s.SetJob(t.Context(), j)
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		check := func(want record.JobCount, seen, reason string) {
			t.Helper()
			synctest.Wait()
			j, err := s.Job(t.Context(), "ann", "mail")
			want.Records, want.Cost = j.Count.Records, j.Count.Cost
			if err != nil || j.Count != want || j.Seen != seen || j.Last.Reason != reason {
				t.Errorf("%+v, seen %s, %+v; want %+v", j.Count, j.Seen, j.Last, want)
			}
		}
		set(3600)
		time.Sleep(150 * time.Minute) // 2:30
		check(record.JobCount{Due: 3, Skipped: 3}, "3", record.ReasonUnchanged)
		found.Store("news")
		time.Sleep(time.Hour) // 3:30; at three it is quiet
		check(record.JobCount{Due: 4, Skipped: 4}, "3", record.ReasonQuiet)
		time.Sleep(time.Hour) // 4:30; it has looked when it was due, and when it began
		check(record.JobCount{Due: 5, Skipped: 4, Done: 1}, "5", "")
		is(t, history(t, s), "01 04:00 done")
		found.Store("fault")
		time.Sleep(time.Hour)
		check(record.JobCount{Due: 6, Skipped: 4, Done: 1, Failed: 1}, "5", "")
		is(t, history(t, s), "01 04:00 done, 01 05:00 failed no_luck")

		// It gets another interval, and keeps what it has seen. After a pause it begins anew.
		found.Store("")
		if j := set(7200); j.Seen != "5" || j.Count.Due != 6 || j.Next.Format("15:04") != "06:00" {
			t.Errorf("%+v", j)
		}
		if _, err := s.PauseJob(t.Context(), "ann", "mail"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		if j := set(7200); j.Seen != "" || !j.Start.Equal(time.Now().UTC().Truncate(time.Second)) || j.State != record.JobActive {
			t.Errorf("%+v", j)
		}
		if _, err := s.SetJob(t.Context(), record.Job{User: "ann", Name: "mail", Text: "x", Kind: record.KindDaily, Trigger: record.Trigger{Every: 60}}); !fault.HasCode(err, "name_taken") {
			t.Error(err)
		}
	})
}
