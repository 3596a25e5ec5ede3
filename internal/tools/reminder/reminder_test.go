package reminder

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/jobs"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
	"steward/test/storetest"
)

// world is the tools of one user in Vienna, over a scheduler that does not run.
type world struct {
	t     *testing.T
	tools map[string]tool.Tool
}

func newWorld(t *testing.T) *world { return newWorldWith(t, nil) }

func newWorldWith(t *testing.T, note func(context.Context) string) *world {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Options: local.Options{Zone: func(string) *time.Location { return zone }}, Alarms: jobs.New(jobs.Options{Store: storetest.NewModel()}), Note: note}
	w := &world{t, map[string]tool.Tool{}}
	for name, add := range map[string]func(*local.Kit, Options){Reminder: AddReminders, Timer: AddTimers} {
		k := local.NewKit(tool.Env{Name: name}, tool.OriginOwn)
		add(k, opt)
		list, err := k.Tools()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			w.tools[x.Spec().Name] = x
		}
	}
	return w
}

func (w *world) in(key string, args any) tool.Invocation {
	b, err := json.Marshal(args)
	if err != nil {
		w.t.Fatal(err)
	}
	return tool.Invocation{Args: b, Key: key, User: "ann"}
}

func (w *world) try(key, name string, args any) (string, error) {
	w.t.Helper()
	res, err := w.tools[name].Call(w.t.Context(), w.in(key, args))
	if err != nil {
		return "", err
	}
	return res.Content[0].(*message.Text).Text, nil
}

func (w *world) call(key, name string, args any) string {
	w.t.Helper()
	text, err := w.try(key, name, args)
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	return text
}

type m = map[string]any

// In synctest's world it is 1:00 on Saturday, 1 January 2000, in Vienna.
func TestReminders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, c := range []struct {
			args m
			want string
		}{
			{m{"text": "call Ann", "at": "09:00"}, "The reminder is set for Sat 1 Jan 2000 09:00:00 CET."},
			{m{"text": "late", "at": "00:30"}, "The reminder is set for Sun 2 Jan 2000 00:30:00 CET."},
			{m{"text": "soon", "in_minutes": 30}, "The reminder is set for Sat 1 Jan 2000 01:30:00 CET."},
			{m{"text": "rent", "at": "2000-02-01T08:00", "repeat": "monthly"}, "The reminder is set for Tue 1 Feb 2000 08:00:00 CET, and repeats (FREQ=MONTHLY)."},
			{m{"text": "stand-up", "at": "2000-01-01 09:15", "repeat": "weekdays"}, "The reminder is set for Mon 3 Jan 2000 09:15:00 CET, and repeats (FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR)."},
			{m{"text": "zone", "at": "2000-06-01T10:00:00Z"}, "The reminder is set for Thu 1 Jun 2000 12:00:00 CEST."},
		} {
			key := fmt.Sprint(c.args)
			for range 2 { // a repeated call sets one
				if got := w.call(key, "reminder.set", c.args); got != c.want {
					t.Errorf("%v: %q, want %q", c.args, got, c.want)
				}
			}
		}
		if got := strings.Count(w.call("l", "reminder.list", m{}), "\n"); got != 6 {
			t.Errorf("%d reminders", got)
		}
		if got := w.call("l", "timer.list", m{}); got != "No timer is set." {
			t.Error(got)
		}
		for code, args := range map[string]m{"time_missing": {"text": "x"}, "time_invalid": {"text": "x", "at": "soon"}, "time_past": {"text": "x", "at": "1999-12-31T10:00"},
			"rule_unsupported": {"text": "x", "at": "10:00", "repeat": "FREQ=SECONDLY"}} {
			if _, err := w.try("k", "reminder.set", args); !fault.HasCode(err, code) || fault.Of(err).Remedy == "" {
				t.Errorf("%v, want %s", err, code)
			}
		}
	})
}

func TestCancelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.call("1", "timer.set", m{"seconds": 60, "name": "tea"})
		w.call("2", "timer.set", m{"seconds": 600, "name": "green tea"})
		w.call("3", "reminder.set", m{"text": "tea with Ann", "in_minutes": 5})
		if _, err := w.try("4", "timer.cancel", m{}); !fault.HasCode(err, "timer_ambiguous") {
			t.Error(err)
		}
		for range 2 { // a repeated call has cancelled the same one
			if got := w.call("5", "timer.cancel", m{"which": "green"}); got != `The timer "green tea" was cancelled.` {
				t.Error(got)
			}
		}
		if _, err := w.try("6", "timer.cancel", m{"which": "green"}); !fault.HasCode(err, "timer_not_found") {
			t.Error(err)
		}
		settle := func(name, key string) bool {
			s, _ := tool.SettlerOf(w.tools[name])
			ok, _, err := s.Settle(t.Context(), w.in(key, m{}))
			if err != nil {
				t.Error(err)
			}
			return ok
		}
		for key, want := range map[string]bool{"1": true, "9": false} {
			if settle("timer.set", key) != want {
				t.Errorf("set %s", key)
			}
		}
		for key, want := range map[string]bool{"5": true, "6": false} {
			if settle("timer.cancel", key) != want {
				t.Errorf("cancel %s", key)
			}
		}
		u, ok := tool.UndoerOf(w.tools["timer.set"])
		if !ok {
			t.Fatal("it cannot be undone")
		}
		for range 2 {
			if res, err := u.Undo(t.Context(), w.in("1", m{}), tool.Result{}); err != nil || res.Content[0].(*message.Text).Text != `The timer "tea" was cancelled.` {
				t.Error(res, err)
			}
		}
		if got := w.call("l", "timer.list", m{}) + w.call("l", "reminder.list", m{}); !strings.HasPrefix(got, "No timer is set.- Sat 1 Jan 2000 01:05:00 CET \"tea with Ann\" (id ") {
			t.Error(got)
		}
	})
}

// A note on whether anything will run then stands behind what was set.
func TestANoteIsAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		say := "Steward has to be running then."
		w := newWorldWith(t, func(context.Context) string { return say })
		if got := w.call("1", "timer.set", m{"seconds": 60}); got != "The timer is set for Sat 1 Jan 2000 01:01:00 CET. "+say {
			t.Error(got)
		}
		say = ""
		if got := w.call("2", "reminder.set", m{"text": "tea", "in_minutes": 1}); got != "The reminder is set for Sat 1 Jan 2000 01:01:00 CET." {
			t.Error(got)
		}
	})
}
