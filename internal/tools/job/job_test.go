package job

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/tool"
	"steward/internal/tools/local"
	"steward/test/storetest"
)

// world is the tools of one user in Vienna, over a scheduler that does not run.
type world struct {
	t     *testing.T
	s     Service
	tools map[string]tool.Tool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, tools: map[string]tool.Tool{}}
	w.s = Service{Options: local.Options{Zone: func(string) *time.Location { return zone }}, Jobs: jobs.New(jobs.Options{Store: storetest.NewModel()})}
	k := local.NewKit(tool.Env{Name: Group}, "")
	Add(k, w.s)
	list, err := k.Tools()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		w.tools[x.Spec().Name] = x
	}
	return w
}

func (w *world) in(key string, args any) tool.Invocation {
	b, err := json.Marshal(args)
	if err != nil {
		w.t.Fatal(err)
	}
	return tool.Invocation{Args: b, Key: key, User: "ann", Labels: message.Private | message.Untrusted, Sources: []string{"mail"},
		Conversation: record.ConversationURI(id.Derive("conversation"))}
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
func TestCreating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		args := m{"text": "Tell me what is in my mail", "every": "weekday", "at": "7:00", "max_cost": 0.1, "tools": m{"mail.send": "deny"}}
		p, ok := tool.PreviewerOf(w.tools["job.create"])
		if !ok {
			t.Fatal("the approval shows nothing")
		}
		shown, err := p.Preview(t.Context(), w.in("1", args))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"tell-me-what-is-in-my-mail", "every weekday at 7:00 (Europe/Vienna)", "Mon 3 Jan 2000 07:00 CET, Tue 4 Jan 2000 07:00 CET, Wed 5 Jan 2000 07:00 CET",
			"mail.send: deny", "at most $0.1 each time", "the last one runs"} {
			if !strings.Contains(shown, part) {
				t.Errorf("the approval lacks %q:\n%s", part, shown)
			}
		}
		if spec := w.tools["job.create"].Spec(); !spec.Asks || spec.Effect != tool.Action {
			t.Error("job.create does not ask")
		}
		for range 2 { // a repeated call creates one
			got := w.call("1", "job.create", args)
			if !strings.HasPrefix(got, "The job tell-me-what-is-in-my-mail is created: every weekday at 7:00. Next: Mon 3 Jan 2000 07:00 CET,") {
				t.Error(got)
			}
		}
		if got := w.call("2", "job.create", args); !strings.Contains(got, "tell-me-what-is-in-my-mail-2 is created") {
			t.Error(got)
		}
		j, err := w.s.Jobs.Job(t.Context(), "ann", "tell-me-what-is-in-my-mail")
		if err != nil || j.Labels != message.Private|message.Untrusted || len(j.Sources) != 1 || j.Creator != "agent:assistant" || j.MaxCost != 0.1 ||
			j.Deliver.Conversation != id.Derive("conversation") || !j.Deliver.Notify {
			t.Errorf("%+v %v", j, err)
		}
		set, _ := tool.SettlerOf(w.tools["job.create"])
		for key, want := range map[string]bool{"1": true, "9": false} {
			if ok, _, err := set.Settle(t.Context(), w.in(key, m{})); ok != want || err != nil {
				t.Errorf("settled %s: %v %v", key, ok, err)
			}
		}
	})
}

// A job that cannot begin is refused before a person is asked.
func TestNobodyIsAskedAboutWhatCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.tools["job.create"].(tool.Checker)
		for code, args := range map[string]m{"trigger_invalid": {"text": "x"}, "cron_invalid": {"text": "x", "cron": "1 2 3"}, "rule_unsupported": {"text": "x", "rule": "FREQ=SECONDLY"},
			"time_invalid": {"text": "x", "every": "day", "at": "noonish"}, "job_invalid": {"text": "x", "every": "day", "quiet": "night"}} {
			if err := c.Check(w.in("1", args).Args); !fault.HasCode(err, code) {
				t.Errorf("%v: %v, want %s", args, err, code)
			}
		}
		if err := c.Check(w.in("1", m{"text": "x", "every": "day", "at": "7:00"}).Args); err != nil {
			t.Error(err)
		}
		if _, err := w.try("2", "job.create", m{"text": "x", "once": "1999-12-31T10:00"}); !fault.HasCode(err, "time_past") {
			t.Error(err)
		}
	})
}

func TestManaging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if got := w.call("l", "job.list", m{}); got != "There are no jobs." {
			t.Error(got)
		}
		w.call("1", "job.create", m{"text": "Tell me what is in my mail", "name": "mail", "every": "day", "at": "7:00"})
		w.call("2", "job.create", m{"text": "Check the backups", "every": "2 weeks", "at": "3:30", "missed": "skip", "retries": 2})
		if got := w.call("l", "job.list", m{}); got != "- check-the-backups: \"Check the backups\", every 2 weeks on Saturday at 3:30, next Sat 1 Jan 2000 03:30 CET\n"+
			"- mail: \"Tell me what is in my mail\", every day at 7:00, next Sat 1 Jan 2000 07:00 CET\n" {
			t.Error(got)
		}
		if got := w.call("s", "job.show", m{"name": "backups"}); !strings.Contains(got, "check-the-backups") || !strings.Contains(got, "up to 2 times") || !strings.Contains(got, "active, 0 due") {
			t.Error(got)
		}
		if got := w.call("h", "job.history", m{"name": "mail"}); got != "The job mail has not begun yet." {
			t.Error(got)
		}
		for range 2 { // repeated calls change nothing
			if got := w.call("p", "job.pause", m{"name": "mail"}); got != "The job mail is paused." {
				t.Error(got)
			}
		}
		for range 2 {
			if got := w.call("r", "job.resume", m{"name": "mail"}); got != "The job mail begins again: Sat 1 Jan 2000 07:00 CET." {
				t.Error(got)
			}
		}
		for range 2 {
			if got := w.call("n", "job.run", m{"name": "mail"}); got != "The job mail begins now." {
				t.Error(got)
			}
		}
		if got := w.call("h", "job.history", m{"name": "mail"}); got != "- Sat 1 Jan 2000 01:00 CET: due\n" {
			t.Error(got)
		}
		if got := w.call("d", "job.remove", m{"name": "mail"}); got != "The job mail is removed." {
			t.Error(got)
		}
		if _, err := w.try("d", "job.show", m{"name": "mail"}); !fault.HasCode(err, "job_not_found") {
			t.Error(err)
		}
	})
}

// What people write about when a job begins, and what Steward says of it.
func TestWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, c := range []struct {
			words client.NewJob
			when  string
			next  string // the first two times
		}{
			{client.NewJob{Every: "day", At: "7:00"}, "every day at 7:00", "Sat 1 Jan 2000 07:00 CET, Sun 2 Jan 2000 07:00 CET"},
			{client.NewJob{Every: "day", At: "0:30"}, "every day at 0:30", "Sun 2 Jan 2000 00:30 CET, Mon 3 Jan 2000 00:30 CET"},
			{client.NewJob{Every: "every day at 7am"}, "every day at 7:00", "Sat 1 Jan 2000 07:00 CET, Sun 2 Jan 2000 07:00 CET"},
			{client.NewJob{Every: "every day at 7"}, "every day at 7:00", "Sat 1 Jan 2000 07:00 CET, Sun 2 Jan 2000 07:00 CET"},
			{client.NewJob{Every: "day", At: "2000-01-05T06:00:00Z"}, "every day at 7:00", "Sat 1 Jan 2000 07:00 CET, Sun 2 Jan 2000 07:00 CET"},
			{client.NewJob{Every: "weekday", At: "7pm"}, "every weekday at 19:00", "Mon 3 Jan 2000 19:00 CET, Tue 4 Jan 2000 19:00 CET"},
			{client.NewJob{Every: "weekends", At: "noon"}, "at weekends at 12:00", "Sat 1 Jan 2000 12:00 CET, Sun 2 Jan 2000 12:00 CET"},
			{client.NewJob{Every: "Mon, Thursdays and tue", At: "9:05"}, "every Monday, Thursday, Tuesday at 9:05", "Mon 3 Jan 2000 09:05 CET, Tue 4 Jan 2000 09:05 CET"},
			{client.NewJob{Every: "week", At: "9:00"}, "every week on Saturday at 9:00", "Sat 1 Jan 2000 09:00 CET, Sat 8 Jan 2000 09:00 CET"},
			{client.NewJob{Every: "month", At: "9:00"}, "every month at 9:00", "Sat 1 Jan 2000 09:00 CET, Tue 1 Feb 2000 09:00 CET"},
			{client.NewJob{Every: "3 days", At: "0:30"}, "every 3 days at 0:30", "Sun 2 Jan 2000 00:30 CET, Wed 5 Jan 2000 00:30 CET"},
			{client.NewJob{Every: "30 minutes"}, "every 30 minutes", "Sat 1 Jan 2000 01:30 CET, Sat 1 Jan 2000 02:00 CET"},
			{client.NewJob{Every: "90m"}, "every 90 minutes", "Sat 1 Jan 2000 02:30 CET, Sat 1 Jan 2000 04:00 CET"},
			{client.NewJob{Every: "1h30m"}, "every 90 minutes", "Sat 1 Jan 2000 02:30 CET, Sat 1 Jan 2000 04:00 CET"},
			{client.NewJob{Every: "hour"}, "every hour", "Sat 1 Jan 2000 02:00 CET, Sat 1 Jan 2000 03:00 CET"},
			{client.NewJob{Once: "9:00"}, "once, on Sat 1 Jan 2000 09:00 CET", "Sat 1 Jan 2000 09:00 CET"},
			{client.NewJob{Once: "0:30"}, "once, on Sun 2 Jan 2000 00:30 CET", "Sun 2 Jan 2000 00:30 CET"},
			{client.NewJob{Once: "tomorrow at 9:00"}, "once, on Sun 2 Jan 2000 09:00 CET", "Sun 2 Jan 2000 09:00 CET"},
			{client.NewJob{Once: "in 20 minutes"}, "once, on Sat 1 Jan 2000 01:20 CET", "Sat 1 Jan 2000 01:20 CET"},
			{client.NewJob{Once: "2h"}, "once, on Sat 1 Jan 2000 03:00 CET", "Sat 1 Jan 2000 03:00 CET"},
			{client.NewJob{Once: "2000-06-01T10:00:00Z"}, "once, on Thu 1 Jun 2000 12:00 CEST", "Thu 1 Jun 2000 12:00 CEST"},
			{client.NewJob{Once: "9:00", Zone: "America/New_York"}, "once, on Sat 1 Jan 2000 09:00 EST", "Sat 1 Jan 2000 09:00 EST"},
			{client.NewJob{Cron: "0 7 * * 1-5"}, "cron 0 7 * * 1-5", "Mon 3 Jan 2000 07:00 CET, Tue 4 Jan 2000 07:00 CET"},
			{client.NewJob{Rule: "RRULE:FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=16;BYMINUTE=0"}, "by the rule FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=16;BYMINUTE=0", "Fri 28 Jan 2000 16:00 CET, Fri 25 Feb 2000 16:00 CET"},
		} {
			c.words.Text = "do it"
			j, err := w.s.Job("ann", c.words)
			if err != nil {
				t.Errorf("%+v: %v", c.words, err)
				continue
			}
			v, err := w.s.Preview(j)
			if err != nil {
				t.Errorf("%+v: %v", c.words, err)
				continue
			}
			v.Next = v.Next[:min(2, len(v.Next))]
			if v.When != c.when || Times(&v) != c.next {
				t.Errorf("%+v:\n%s: %s, want\n%s: %s", c.words, v.When, Times(&v), c.when, c.next)
			}
		}
		for _, words := range []client.NewJob{{}, {Every: "day", Cron: "@daily"}, {At: "7:00"}, {Every: "sometimes"}, {Every: "moon"}, {Every: "0 days"}, {Every: "hour", At: "7:00"},
			{Every: "and"}, {Every: "-5m"}} {
			if _, err := w.s.Job("ann", words); !fault.HasCode(err, "trigger_invalid") || fault.Of(err).Remedy == "" {
				t.Errorf("%+v: %v", words, err)
			}
		}
	})
}

func TestNames(t *testing.T) {
	for text, want := range map[string]string{"Tell me what is in my mail": "tell-me-what-is-in-my-mail", "Überprüfe 2 Dinge": "berpr-fe-2-dinge", "…": "job",
		"Donaudampfschifffahrtsgesellschaftskapitän": "donaudampfschifffahrtsgesellsc"} {
		if got := nameOf(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
