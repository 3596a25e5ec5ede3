package jobs

import (
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"context"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/test/storetest"
)

// A call of a webhook begins its job once, however often it is repeated, also after a restart.
func TestACallBeginsAJobOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, st := &worker{takes: 10 * time.Second}, storetest.NewModel()
		s, stop := w.run(t, st)
		hook := id.New()
		j := addJob(t, s, func(j *record.Job) { j.Hook = hook })
		call := func(s *Scheduler, key string) record.Occurrence {
			o, err := s.Happened(t.Context(), hook, key, Event{Cause: "a call", Text: "body " + key})
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		first := call(s, "a")
		if first.State != record.OccurrenceDue || first.Text != "body a" {
			t.Errorf("%+v", first)
		}
		second := call(s, "b") // it waits for the first, and for a minute
		time.Sleep(90 * time.Second)
		synctest.Wait()
		is(t, w.began(), "01 00:00:00, 01 00:01:00")
		stop()
		s, stop = w.run(t, st)
		defer stop()
		if again := call(s, "a"); again.ID != first.ID || again.State != record.OccurrenceDone || again.Text != "" {
			t.Errorf("%+v", again)
		}
		if again := call(s, "b"); again.ID != second.ID {
			t.Errorf("%+v", again)
		}
		time.Sleep(time.Hour)
		is(t, w.began(), "")

		// Another hook, and that of a job which is paused or removed.
		if _, err := s.Happened(t.Context(), id.New(), "c", Event{}); !fault.HasCode(err, "hook_unknown") {
			t.Error(err)
		}
		if _, err := s.PauseJob(t.Context(), "ann", "mail"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Happened(t.Context(), hook, "c", Event{}); !fault.HasCode(err, "job_paused") {
			t.Error(err)
		}
		if _, err := s.RemoveJob(t.Context(), "ann", "mail"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Happened(t.Context(), hook, "c", Event{}); !fault.HasCode(err, "hook_unknown") {
			t.Error(err)
		}
		if j.Next != (time.Time{}) || j.Cursor != "" {
			t.Errorf("%+v", j)
		}
	})
}

// A caller whose call finds no room is told, and nothing is recorded. Calls that may still be repeated are never
// erased from the history.
func TestManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{takes: time.Hour}
		s, stop := w.run(t, storetest.NewModel())
		defer stop()
		hook := id.New()
		addJob(t, s, func(j *record.Job) { j.Hook = hook })
		for i := range maxOpen {
			if _, err := s.Happened(t.Context(), hook, fmt.Sprint(i), Event{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Happened(t.Context(), hook, "more", Event{}); !fault.HasCode(err, "hook_busy") {
			t.Error(err)
		}
		j, err := s.Job(t.Context(), "ann", "mail")
		if err != nil || j.Count.Due != maxOpen {
			t.Errorf("%+v %v", j.Count, err)
		}
		if _, err := s.changeJob(t.Context(), "ann", "mail", func(j *record.Job) error { j.Overlap = record.OverlapSkip; return nil }); err != nil {
			t.Fatal(err)
		}
		const calls = keep + 100
		for i := range calls {
			if o, err := s.Happened(t.Context(), hook, fmt.Sprint("skipped ", i), Event{Text: "x"}); err != nil || o.Reason != record.ReasonOverlap || o.Text != "" {
				t.Fatalf("%+v %v", o, err)
			}
		}
		for i := range calls {
			if o, err := s.Happened(t.Context(), hook, fmt.Sprint("skipped ", i), Event{}); err != nil || o.Reason != record.ReasonOverlap {
				t.Fatalf("%d %+v %v", i, o, err)
			}
		}
		if j, err = s.Job(t.Context(), "ann", "mail"); err != nil || j.Count.Due != maxOpen+calls || j.Count.Skipped != calls {
			t.Errorf("%+v %v", j.Count, err)
		}
	})
}

// What was last seen is kept, also if it begins nothing; and what happened while the job could not be followed is one
// occurrence.
func TestWhatIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, st := &worker{}, storetest.NewModel()
		seen := make(chan Events)
		var from []string
		run := func() (*Scheduler, func()) {
			s := New(Options{Store: st})
			h := w.handlers()
			h.Events = func(ctx context.Context, j record.Job) iter.Seq2[Events, error] {
				return func(yield func(Events, error) bool) {
					from = append(from, j.Cursor)
					for {
						select {
						case b := <-seen:
							if !yield(b, nil) {
								return
							}
						case <-ctx.Done():
							return
						}
					}
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _ = s.Run(ctx, h) }()
			return s, func() { cancel(); <-done }
		}
		s, stop := run()
		addJob(t, s, func(j *record.Job) { j.Home = "light.hall=on" })
		seen <- Events{Cursor: "off", Keep: true}
		seen <- Events{Cursor: "on", Keep: true, List: []Event{{ID: "1", Cause: "light.hall=on"}}}
		seen <- Events{Cursor: "off", Keep: true}
		synctest.Wait()
		stop()
		s, stop = run()
		defer stop()
		seen <- Events{Cursor: "on", Keep: true, List: []Event{{ID: "2", Cause: "x"}, {ID: "3", Cause: "y", Text: "z"}}}
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		is(t, fmt.Sprintf("%q", from), `["" "off"]`)
		is(t, history(t, s), "01 00:00 done, 01 00:00 done")
		is(t, w.began(), "01 00:00:00, 01 00:01:00") // a minute passes in between
		if j, err := s.Job(t.Context(), "ann", "mail"); err != nil || j.Cursor != "on" || j.Count.Due != 3 || j.Count.Done != 3 {
			t.Errorf("%+v %v", j, err)
		}
	})
}

// Two jobs whose work makes the other begin run once a minute each, not more.
func TestTwoJobsThatBeginEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := storetest.NewModel()
		s := New(Options{Store: st})
		hooks := map[string]id.ID{"ping": id.New(), "pong": id.New()}
		runs := map[string]int{}
		h := Handlers{Job: func(ctx context.Context, a *Attempt) (Result, error) {
			other := map[string]string{"ping": "pong", "pong": "ping"}[a.Job.Name]
			runs[a.Job.Name]++
			_, err := s.Happened(ctx, hooks[other], a.Key(), Event{})
			return Result{}, err
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Run(ctx, h) }()
		defer func() { cancel(); <-done }()
		for name, hook := range hooks {
			addJob(t, s, func(j *record.Job) { j.Name, j.Hook = name, hook })
		}
		if _, err := s.Happened(t.Context(), hooks["ping"], "first", Event{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		if runs["ping"] > 61 || runs["pong"] > 61 || runs["ping"] < 30 {
			t.Errorf("%v", runs)
		}
	})
}

func TestEditJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{}
		s, stop := w.run(t, storetest.NewModel())
		defer stop()
		addJob(t, s, func(j *record.Job) { j.Rule = "FREQ=HOURLY;COUNT=2" })
		time.Sleep(150 * time.Minute)
		synctest.Wait()
		is(t, w.began(), "01 00:00:00, 01 01:00:00")
		edit := func(do func(*record.Job)) (record.Job, error) {
			return s.EditJob(t.Context(), "ann", "mail", func(j *record.Job) error { do(j); return nil })
		}
		// A new text alone does not let an ended job begin; a new trigger does, and counts from there.
		if j, err := edit(func(j *record.Job) { j.Text = "another" }); err != nil || j.State != record.JobEnded || j.Text != "another" {
			t.Errorf("%+v %v", j, err)
		}
		if j, err := edit(func(j *record.Job) { j.Rule, j.Start = "FREQ=HOURLY;COUNT=3", time.Now() }); err != nil || j.State != record.JobActive || j.Next.IsZero() {
			t.Errorf("%+v %v", j, err)
		}
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		is(t, w.began(), "01 02:30:00, 01 03:30:00, 01 04:30:00")
		for code, do := range map[string]func(*record.Job){
			"cron_invalid": func(j *record.Job) { j.Rule, j.Cron = "", "x" }, "job_invalid": func(j *record.Job) { j.Retries = -1 },
			"trigger_invalid": func(j *record.Job) { j.Cron = "@daily" }} {
			if _, err := edit(do); !fault.HasCode(err, code) {
				t.Errorf("%s: %v", code, err)
			}
		}
		if j, err := s.Job(t.Context(), "ann", "mail"); err != nil || j.Retries != 0 || j.Rule != "FREQ=HOURLY;COUNT=3" || j.Count.Due != 5 {
			t.Errorf("%+v %v", j, err)
		}
		if _, err := s.EditJob(t.Context(), "bob", "mail", func(*record.Job) error { return nil }); !fault.HasCode(err, "not_found") {
			t.Error(err)
		}
	})
}
