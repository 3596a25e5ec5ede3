package timer

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/domain/local"
	"steward/internal/domain/local/localtest"
	"steward/internal/fault"
	"steward/internal/tool"
)

// wait calls timer.set and returns its outcome and what it reported on the way.
func wait(t *testing.T, ctx context.Context, s *localtest.Source, call, args string) (string, []tool.Progress, error) {
	t.Helper()
	tl, _ := s.Registry.Get("timer.set")
	in := s.Invocation(call, "timer.set", args)
	var mu sync.Mutex
	var told []tool.Progress
	in.Progress = func(p tool.Progress) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, p)
	}
	res, err := tl.Call(ctx, in)
	return localtest.TextOf(res), told, err
}

func TestATimerGoesOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := localtest.Open(t, Opener(Options{}), localtest.Env(t, "timer"), "")
		start := time.Now()
		got, told, err := wait(t, t.Context(), s, "a", `{"seconds":300,"name":"tea"}`)
		if took := time.Since(start); err != nil || got != `The timer "tea" is over.` || took != 300*time.Second {
			t.Errorf("%q, %v after %v", got, err, took)
		}
		if len(told) < 5 || len(told) > reports+1 || told[0].Message != `the timer "tea": 5 minutes left` || told[0].Fraction != 0 {
			t.Errorf("told %v", told)
		}
		for i := 1; i < len(told); i++ {
			if told[i].Fraction <= told[i-1].Fraction || told[i].Fraction > 1 {
				t.Errorf("told %v", told)
			}
		}
		again, _, err := wait(t, t.Context(), s, "a", `{"seconds":300,"name":"tea"}`)
		if err != nil || again != got || time.Since(start) != 300*time.Second {
			t.Errorf("done again: %q, %v", again, err)
		}
		if happened, told := s.Settle("a", "timer.set", `{"seconds":300,"name":"tea"}`); !happened || told != got {
			t.Errorf("settled %v %q", happened, told)
		}
	})
}

// The call is taken up again after a restart, and waits for what is left.
func TestATimerSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := localtest.Env(t, "timer")
		start := time.Now()
		const args = `{"seconds":600}`
		for i := range 3 {
			s := localtest.Open(t, Opener(Options{}), env, "")
			ctx, stop := context.WithTimeout(t.Context(), 100*time.Second)
			if _, _, err := wait(t, ctx, s, "a", args); err != context.DeadlineExceeded {
				t.Fatalf("round %d: %v", i, err)
			}
			stop()
			if happened, _ := s.Settle("a", "timer.set", args); happened {
				t.Error("a running timer is settled")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		s := localtest.Open(t, Opener(Options{}), env, "")
		got, told, err := wait(t, t.Context(), s, "a", args)
		if took := time.Since(start); err != nil || got != "The timer is over." || took != 600*time.Second || told[0].Fraction != 0.5 {
			t.Errorf("%q, %v after %v, first told %v", got, err, took, told[0])
		}
	})
}

func TestATimerThatEndedWhileNobodyWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := localtest.Env(t, "timer")
		opt := Options{Zone: func(string) *time.Location { return time.FixedZone("X", 3600) }}
		s := localtest.Open(t, Opener(opt), env, "")
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, _, err := wait(t, ctx, s, "a", `{"seconds":60,"name":"egg"}`); err == nil {
			t.Fatal("it did not wait")
		}
		time.Sleep(time.Hour) // of the bubble
		s = localtest.Open(t, Opener(opt), env, "")
		got, _, err := wait(t, t.Context(), s, "a", `{"seconds":60,"name":"egg"}`)
		if err != nil || got != `The timer "egg" is over. It ended at 01:01 on Sat 1 Jan; Steward was not running then.` {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestCancelAndList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := localtest.Open(t, Opener(Options{}), localtest.Env(t, "timer"), "")
		if got := s.Call("q", "timer.list", `{}`); got != "No timer is running." {
			t.Errorf("listed %s", got)
		}
		outcome := make(chan string, 2)
		for _, name := range []string{"tea", "bread"} {
			go func() {
				got, _, err := wait(t, t.Context(), s, name, `{"seconds":3661,"name":"`+name+`"}`)
				if err != nil {
					got = err.Error()
				}
				outcome <- got
			}()
		}
		synctest.Wait()
		if got := s.Call("q", "timer.list", `{}`); strings.Count(got, "1 hour and 1 minute left") != 2 {
			t.Errorf("listed %s", got)
		}
		if _, err := s.Try("b", "timer.cancel", `{}`); !fault.HasCode(err, "timer_ambiguous") {
			t.Errorf("several: %v", err)
		}
		if _, err := s.Try("b", "timer.cancel", `{"name":"soup"}`); !fault.HasCode(err, "timer_not_found") {
			t.Errorf("none of that name: %v", err)
		}
		if happened, _ := s.Settle("b", "timer.cancel", `{"name":"Tea"}`); happened {
			t.Error("settled before it was done")
		}
		for range 2 {
			if got := s.Call("b", "timer.cancel", `{"name":"Tea"}`); got != `Cancelled the timer "tea".` {
				t.Errorf("told %s", got)
			}
		}
		if happened, told := s.Settle("b", "timer.cancel", `{"name":"Tea"}`); !happened || told != `Cancelled the timer "tea".` {
			t.Errorf("settled %v %s", happened, told)
		}
		if got := <-outcome; got != `The timer "tea" was cancelled.` {
			t.Errorf("the waiting call: %s", got)
		}
		if got := s.Call("c", "timer.cancel", `{}`); got != `Cancelled the timer "bread".` {
			t.Errorf("the only one: %s", got)
		}
		<-outcome
		if _, err := s.Try("d", "timer.cancel", `{}`); !fault.HasCode(err, "timer_not_found") {
			t.Errorf("none: %v", err)
		}
		if got := s.Call("q", "timer.list", `{}`); got != "No timer is running." {
			t.Errorf("listed %s", got)
		}
	})
}

// An agent's source is opened anew when its folder changes: what waits in the
// old one goes on, and hears of what is done through the new one.
func TestTimersOutliveTheirSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := localtest.Env(t, "timer")
		old := localtest.Open(t, Opener(Options{}), env, "")
		outcome := make(chan string, 2)
		for _, name := range []string{"tea", "bread"} {
			go func() {
				got, _, err := wait(t, t.Context(), old, name, `{"seconds":1200,"name":"`+name+`"}`)
				if err != nil {
					got = err.Error()
				}
				outcome <- got
			}()
		}
		synctest.Wait()
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		localtest.Open(t, Opener(Options{}), env, "").Call("b", "timer.cancel", `{"name":"tea"}`)
		if got := <-outcome; got != `The timer "tea" was cancelled.` || time.Since(start) > time.Minute {
			t.Errorf("%s after %v", got, time.Since(start))
		}
		if got := <-outcome; got != `The timer "bread" is over.` || time.Since(start) != 1200*time.Second {
			t.Errorf("%s after %v", got, time.Since(start))
		}
	})
}

func TestTheFiles(t *testing.T) {
	f := files{filepath.Join(t.TempDir(), "timers")}
	now := time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC)
	ctx := t.Context()
	if list, err := f.All(ctx); err != nil || len(list) != 0 {
		t.Fatal(list, err)
	}
	one := Timer{Key: "1", Name: "a", Set: now, Ends: now.Add(time.Minute), State: Running}
	if got, err := f.Accept(ctx, one); err != nil || got != one {
		t.Fatal(got, err)
	}
	later := one
	later.Set, later.Ends = now.Add(time.Hour), now.Add(2*time.Hour)
	if got, err := f.Accept(ctx, later); err != nil || got != one {
		t.Errorf("accepted again as %v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "broken.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "notes.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := f.All(ctx); err != nil || len(list) != 1 {
		t.Errorf("with a broken file: %v, %v", list, err)
	}
	if _, err := f.Finish(ctx, "2", Over, ""); !fault.HasCode(err, "timer_not_found") {
		t.Errorf("%v", err)
	}
	if got, err := f.Finish(ctx, "1", Over, ""); err != nil || got.State != Over {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := f.Finish(ctx, "1", Cancelled, "x"); err != nil || got.State != Over {
		t.Errorf("an end changed: %v, %v", got, err)
	}
	if _, err := f.Accept(ctx, Timer{Key: "3", Set: now.Add(keep + time.Hour), Ends: now.Add(keep + 2*time.Hour), State: Running}); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := f.Get(ctx, "1"); ok || err != nil {
		t.Errorf("an old timer is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "broken.json")); err != nil {
		t.Errorf("a broken file was taken away: %v", err)
	}
	if err := local.Replace(f.path("4"), []byte("[]")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Get(ctx, "4"); !fault.HasCode(err, "timer_invalid") {
		t.Errorf("%v", err)
	}
	if _, err := f.Accept(ctx, Timer{Key: "4", Set: now}); !fault.HasCode(err, "timer_invalid") {
		t.Errorf("%v", err)
	}
}
