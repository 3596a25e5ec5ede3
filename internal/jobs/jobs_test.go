package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
	_ "steward/test/seed"
	"steward/test/storetest"
)

// told records what a scheduler tells.
type told struct {
	mu   sync.Mutex
	list []string
	seen map[id.ID]int
	fail func(o Occurrence) error // may be nil
}

func (x *told) tell(_ context.Context, a record.Alarm, o Occurrence) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fail != nil {
		if err := x.fail(o); err != nil {
			return fault.Is(err, fault.Invalid), err
		}
	}
	if x.seen == nil {
		x.seen = map[id.ID]int{}
	}
	x.seen[o.ID]++
	if x.seen[o.ID] == 1 {
		x.list = append(x.list, fmt.Sprintf("%s %s missed %d", a.Text, o.Due.Format("02 15:04:05"), o.Missed))
	}
	return false, nil
}

func (x *told) all() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Join(x.list, ", ")
}

// running starts a scheduler over a store and returns the function that stops it.
func running(t *testing.T, st store.Store, x *told) (*Scheduler, func()) {
	t.Helper()
	s := New(Options{Store: st})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx, Handlers{Alarm: x.tell}) }()
	return s, func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func set(t *testing.T, s *Scheduler, text string, after time.Duration, rule string) record.Alarm {
	t.Helper()
	a, err := s.Set(t.Context(), record.Alarm{ID: id.Derive(text), User: "ann", Kind: "reminder", Text: text, Start: time.Now().Add(after), Rule: rule, Zone: "UTC"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// In synctest's world it is midnight of 1 January 2000.
func TestAlarmsGoOffAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &told{}
		s, stop := running(t, storetest.NewModel(), x)
		defer stop()
		set(t, s, "later", time.Hour, "")
		set(t, s, "soon", time.Second, "")
		set(t, s, "gone", 2*time.Second, "")
		if _, err := s.Cancel(t.Context(), "ann", id.Derive("gone"), id.Derive("call")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := x.all(); got != "soon 01 00:00:01 missed 0" {
			t.Error(got)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := x.all(); got != "soon 01 00:00:01 missed 0, later 01 01:00:00 missed 0" {
			t.Error(got)
		}
		if list, err := s.List(t.Context(), "ann"); len(list) != 0 || err != nil {
			t.Error(list, err)
		}
		if a, err := s.CancelledBy(t.Context(), "ann", id.Derive("call")); a.Text != "gone" || err != nil {
			t.Error(a, err)
		}
		if _, err := s.Cancel(t.Context(), "ann", id.Derive("soon"), id.Derive("call 2")); !fault.HasCode(err, "alarm_over") {
			t.Error(err)
		}
		if _, err := s.Get(t.Context(), "bob", id.Derive("soon")); !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
	})
}

// What was due while nothing ran is told at the start, the last occurrence of each alarm.
func TestAlarmsOfAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := storetest.NewModel()
		x := &told{}
		s, stop := running(t, st, x)
		set(t, s, "once", time.Hour, "")
		set(t, s, "daily", 9*time.Hour, "FREQ=DAILY")
		set(t, s, "minutes", time.Minute, "FREQ=MINUTELY;INTERVAL=7;COUNT=3")
		stop()
		time.Sleep(3*24*time.Hour + 10*time.Hour)
		_, stop = running(t, st, x)
		defer stop()
		synctest.Wait()
		got := strings.Split(x.all(), ", ")
		slices.Sort(got)
		if want := "daily 04 09:00:00 missed 3, minutes 01 00:15:00 missed 2, once 01 01:00:00 missed 0"; strings.Join(got, ", ") != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if !strings.HasSuffix(x.all(), "daily 05 09:00:00 missed 0") {
			t.Error(x.all())
		}
	})
}

// Telling is tried again, with the same id, until it works or can never work.
func TestTellingThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := 3
		x := &told{fail: func(o Occurrence) error {
			if fails--; fails >= 0 {
				return errors.New("not now")
			}
			return nil
		}}
		s, stop := running(t, storetest.NewModel(), x)
		defer stop()
		set(t, s, "tea", time.Second, "")
		time.Sleep(time.Minute)
		synctest.Wait()
		if x.all() != "tea 01 00:00:01 missed 0" {
			t.Error(x.all())
		}
		x.mu.Lock()
		x.fail = func(Occurrence) error { return fault.New(fault.Invalid, "never", "never") }
		x.mu.Unlock()
		set(t, s, "never", time.Second, "FREQ=DAILY")
		time.Sleep(time.Minute)
		synctest.Wait()
		if a, err := s.Get(t.Context(), "ann", id.Derive("never")); a.Ended != "never" || !a.Next.IsZero() || err != nil {
			t.Errorf("%+v %v", a, err)
		}
	})
}

// Occurrences that wait for a person hold up no others.
func TestAlarmsThatWaitHoldUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, answered := &told{}, make(chan struct{})
		s := New(Options{Store: storetest.NewModel()})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- s.Run(ctx, Handlers{Alarm: func(ctx context.Context, a record.Alarm, o Occurrence) (bool, error) {
				if a.Text != "free" {
					err := o.Await(func() error { <-answered; return nil })
					if err != nil {
						return false, err
					}
				}
				return x.tell(ctx, a, o)
			}})
		}()
		for i := range 2 * maxParallel {
			set(t, s, fmt.Sprint("waits ", i), time.Second, "")
		}
		set(t, s, "free", 2*time.Second, "")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := x.all(); got != "free 01 00:00:02 missed 0" {
			t.Error(got)
		}
		close(answered)
		synctest.Wait()
		if got := strings.Count(x.all(), "waits"); got != 2*maxParallel {
			t.Errorf("%d were told: %s", got, x.all())
		}
		cancel()
		<-done
	})
}

func TestWhatIsNotSet(t *testing.T) {
	s := New(Options{Store: storetest.NewModel()})
	soon := time.Now().Add(time.Hour)
	// In some months, these would stop the scheduler.
	for _, rule := range []string{"FREQ=MONTHLY;BYDAY=1MO,-6MO", "FREQ=MONTHLY;BYDAY=1MO,10MO", "FREQ=YEARLY;BYMONTH=1;BYDAY=1MO,-53MO"} {
		if _, err := s.Set(t.Context(), record.Alarm{ID: id.New(), User: "ann", Start: soon, Rule: rule, Zone: "UTC"}); !fault.HasCode(err, "rule_invalid") {
			t.Errorf("%s: %v", rule, err)
		}
	}
	for code, a := range map[string]record.Alarm{
		"time_past":        {Start: time.Now().Add(-time.Hour)},
		"text_too_long":    {Start: soon, Text: strings.Repeat("x", MaxText+1)},
		"rule_invalid":     {Start: soon, Rule: "FREQ=OFTEN", Zone: "UTC"},
		"rule_unsupported": {Start: soon, Rule: "FREQ=SECONDLY", Zone: "UTC"},
		"rule_never":       {Start: soon, Rule: "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30", Zone: "UTC"},
		"zone_unknown":     {Start: soon, Rule: "FREQ=DAILY", Zone: "Mars/Base"},
	} {
		a.ID, a.User = id.New(), "ann"
		if _, err := s.Set(t.Context(), a); !fault.HasCode(err, code) || code != "zone_unknown" && fault.Of(err).Remedy == "" && code != "text_too_long" {
			t.Errorf("%v, want %s", err, code)
		}
	}
	set(t, s, "0", time.Hour, "")
	for i := 1; i < MaxAlarms; i++ { // without Set, which reads those that are there each time
		a := record.Alarm{ID: id.New(), User: "ann", Start: soon, Next: soon}
		if err := s.put(t.Context(), store.ForUser("ann"), a, store.If{Absent: true}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Set(t.Context(), record.Alarm{ID: id.New(), User: "ann", Start: soon}); !fault.HasCode(err, "alarms_too_many") {
		t.Error(err)
	}
	first := set(t, s, "0", 2*time.Hour, "") // again: it stays as it was
	if first.Start.After(time.Now().Add(90 * time.Minute)) {
		t.Error(first.Start)
	}
}

// A daily alarm keeps its time of day when the clocks change: in Vienna on 29 March 2026.
func TestClocksThatChange(t *testing.T) {
	a := record.Alarm{Rule: "FREQ=DAILY", Zone: "Europe/Vienna", Start: time.Date(2026, 3, 27, 8, 0, 0, 0, time.UTC)}
	a.Next = a.Start
	var got []string
	for range 4 {
		_, next, _ := advance(a, a.Next)
		got = append(got, a.Next.Format("02 15:04"))
		a.Next = next
	}
	if want := "[27 08:00 28 08:00 29 07:00 30 07:00]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// However a scheduler is stopped and started, each occurrence of a rule passes once: it is told
// or counted as missed, in order.
func TestEveryOccurrencePassesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
		rule := rapid.SampledFrom([]string{"FREQ=DAILY", "FREQ=WEEKLY;BYDAY=MO,TH", "FREQ=MINUTELY;INTERVAL=90", "FREQ=MONTHLY;BYMONTHDAY=-1", "FREQ=DAILY;INTERVAL=3"}).Draw(t, "rule")
		count := rapid.IntRange(0, 12).Draw(t, "count")
		if count > 0 {
			rule += fmt.Sprintf(";COUNT=%d", count)
		}
		a := record.Alarm{Rule: rule, Zone: "UTC", Start: start}
		now, err := first(a, start)
		if err != nil {
			t.Fatal(err)
		}
		a.Start, a.Next = now, now
		total, last := 0, time.Time{}
		for range 20 {
			due, next, passed := advance(a, now)
			if !due.After(last) || due.After(now) || passed < 1 || !next.IsZero() && !next.After(now) {
				t.Fatalf("%s: at %s: %s, next %s, %d passed, after %s", rule, now, due, next, passed, last)
			}
			total += passed
			last, a.Next, a.Fired = due, next, total
			if next.IsZero() {
				break
			}
			now = next.Add(time.Duration(rapid.IntRange(0, 30*24*3600).Draw(t, "late")) * time.Second)
		}
		if a.Next.IsZero() != (count > 0) && count > 0 && total > count {
			t.Fatalf("%s: %d passed", rule, total)
		}
		if count > 0 && total > count {
			t.Fatalf("%s: %d of %d passed", rule, total, count)
		}
		if want := occurrences(t, rule, start, last); total != want {
			t.Fatalf("%s: %d passed up to %s, and there are %d", rule, total, last, want)
		}
	})
}

// occurrences counts a rule's occurrences the slow way.
func occurrences(t *rapid.T, rule string, start, until time.Time) int {
	o, err := parse(record.Alarm{Rule: rule, Zone: "UTC", Start: start})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for at := after(o, start.Add(-time.Second), start); !at.IsZero() && !at.After(until); at = after(o, at, at) {
		n++
	}
	return n
}

func FuzzRule(f *testing.F) {
	for _, r := range []string{"FREQ=DAILY", "RRULE:FREQ=WEEKLY;BYDAY=MO;UNTIL=20270101T000000Z", "FREQ=MONTHLY;BYSETPOS=-1;BYDAY=FR", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=MINUTELY"} {
		f.Add(r)
	}
	f.Fuzz(func(t *testing.T, rule string) {
		start := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
		a := record.Alarm{Rule: rule, Zone: "Europe/Vienna", Start: start}
		at, err := first(a, start)
		if err != nil {
			if fault.Of(err).Code == "" {
				t.Errorf("an error without a code: %v", err)
			}
			return
		}
		a.Next = at
		if _, next, _ := advance(a, at); !next.IsZero() && rule != "" && next.Sub(at) < time.Minute {
			t.Errorf("%q: %s, then %s", rule, at, next)
		}
	})
}
