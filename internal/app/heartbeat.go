package app

import (
	"context"
	"fmt"
	"time"

	"steward/internal/heartbeat"
	"steward/internal/identity"
	"steward/internal/runtime"
	"steward/internal/settings"
	"steward/internal/tools/calendar"
	"steward/internal/tools/dav"
	"steward/internal/tools/job"
	domainlocal "steward/internal/tools/local"
	"steward/internal/tools/task"
)

// heartbeatService turns the heartbeat of users on and off.
func (l *Local) heartbeatService(set *settings.Loaded) heartbeat.Service {
	zone := l.zone(set)
	s := heartbeat.Service{Settings: heartbeat.Settings{Every: set.Heartbeat.Every, At: set.Heartbeat.At, Quiet: set.Heartbeat.Quiet, Model: set.Heartbeat.Model, Caps: heartbeatCaps(set)},
		Zone: func(user string) *time.Location {
			named, err := time.LoadLocation(job.ZoneName(zone(user)))
			if err != nil {
				return time.UTC
			}
			return named
		},
		Notifies: func(user string) bool {
			n, err := l.notifier(set)
			return err == nil && user == identity.Local && len(n.Receivers()) > 0
		},
		Note: l.jobService(set).Note}
	if l.alarms != nil {
		s.Jobs = l.alarms
	}
	return s
}

func heartbeatCaps(set *settings.Loaded) heartbeat.Caps {
	return heartbeat.Caps{Calls: set.Heartbeat.Calls, Cost: set.Heartbeat.Cost}
}

// heartbeatOptions says where the heartbeat looks beside the node itself.
func (l *Local) heartbeatOptions(set *settings.Loaded) runtime.HeartbeatOptions {
	return runtime.HeartbeatOptions{Caps: heartbeatCaps(set), Sources: []heartbeat.Source{l.dueTasks(set), l.dueEvents(set), l.goalNews()}}
}

// dueHour is the hour at which a task is due that has only a date.
const dueHour = 6

// dueTasks finds open tasks that are due.
func (l *Local) dueTasks(set *settings.Loaded) heartbeat.Source {
	return heartbeat.Source{Name: "due tasks", Look: func(ctx context.Context, w heartbeat.Window) (out heartbeat.Found, err error) {
		place, accounts, err := l.diary(set, "todo", task.File, "events")
		if err != nil {
			return out, err
		}
		list, err := task.Open(ctx, place, task.Options{Options: domainlocal.Options{Zone: l.zone(set)}, Accounts: accounts}, w.User)
		for _, t := range list {
			day, err := time.ParseInLocation(time.DateOnly, t.Due, w.Zone)
			if err != nil {
				continue // it has no date
			}
			due := time.Date(day.Year(), day.Month(), day.Day(), dueHour, 0, 0, 0, w.Zone)
			if due.After(w.DueAfter) && !due.After(w.DueUntil) {
				out.Changes = append(out.Changes, heartbeat.Change{At: due, Text: fmt.Sprintf("the task %q is due on %s", t.Title, day.Format("Mon 2 Jan"))})
			}
		}
		return out, err
	}}
}

// dueEvents finds events of the calendars that begin soon.
func (l *Local) dueEvents(set *settings.Loaded) heartbeat.Source {
	return heartbeat.Source{Name: "calendar", Look: func(ctx context.Context, w heartbeat.Window) (out heartbeat.Found, err error) {
		from := w.DueAfter
		if from.Before(w.Until) { // what has begun is over, or known
			from = w.Until
		}
		if !from.Before(w.DueUntil) {
			return out, nil
		}
		place, accounts, err := l.diary(set, "calendar", calendar.File, "tasks")
		if err != nil {
			return out, err
		}
		list, err := calendar.Between(ctx, place, calendar.Options{Options: domainlocal.Options{Zone: l.zone(set)}, Accounts: accounts}, w.User, from, w.DueUntil.Add(time.Second))
		for i := range list {
			e := &list[i]
			if !e.Start.After(from) || e.Start.After(w.DueUntil) {
				continue
			}
			when := e.Start.In(w.Zone).Format("Mon 2 Jan at 15:04")
			if e.AllDay {
				when = e.Start.In(w.Zone).Format("Mon 2 Jan, all day")
			}
			text := fmt.Sprintf("%q begins on %s", e.Title, when)
			if e.Location != "" {
				text += fmt.Sprintf(", at %q", e.Location)
			}
			out.Changes = append(out.Changes, heartbeat.Change{At: e.Start, Text: text})
		}
		return out, err
	}}
}

// diary returns where a calendar or a to-do list of Steward's own is kept, and the accounts on servers.
func (l *Local) diary(set *settings.Loaded, name, file, otherwise string) (domainlocal.Place, dav.Accounts, error) {
	accounts, err := l.calendars(set, otherwise)
	if err != nil {
		return domainlocal.Place{}, accounts, err
	}
	place, err := domainlocal.NewPlace(builtInEnv(set, name), file)
	return place, accounts, err
}

// goalNews is what others than the user have changed in the user's goals and projects, and what of them has
// become overdue or has stalled.
func (l *Local) goalNews() heartbeat.Source {
	return heartbeat.Source{Name: "goals", Look: func(ctx context.Context, w heartbeat.Window) (out heartbeat.Found, err error) {
		list, err := l.goals.News(ctx, w.User, w.Since, w.Until)
		for _, n := range list {
			out.Changes = append(out.Changes, heartbeat.Change{At: n.At, Text: n.Text, URI: n.URI})
		}
		return out, err
	}}
}
