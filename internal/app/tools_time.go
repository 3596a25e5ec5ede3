package app

import (
	"context"

	"steward/internal/jobs"
	"steward/internal/record"
	"steward/internal/secret"
	"steward/internal/settings"
	"steward/internal/tool"
	"steward/internal/tools/calendar"
	"steward/internal/tools/dav"
	"steward/internal/tools/job"
	domainlocal "steward/internal/tools/local"
	"steward/internal/tools/reminder"
	"steward/internal/tools/task"
)

// reminderTools are the reminders and timers.
func (l *Local) reminderTools(set *settings.Loaded) []BuiltIn {
	opt := reminder.Options{Options: domainlocal.Options{Zone: l.zone(set)}, Alarms: l.alarms, Note: func(ctx context.Context) string {
		if l.stays(ctx) {
			return ""
		}
		return mustRun
	}}
	group := func(name string, add func(*domainlocal.Kit, reminder.Options)) BuiltIn {
		return BuiltIn{Name: name, tools: func() ([]tool.Tool, error) {
			k := domainlocal.NewKit(builtInEnv(set, name), tool.OriginOwn) // they change nothing but the user's own list
			add(k, opt)
			return k.Tools()
		}}
	}
	return []BuiltIn{group(reminder.Reminder, reminder.AddReminders), group(reminder.Timer, reminder.AddTimers)}
}

// jobService makes jobs of words, and shows them.
func (l *Local) jobService(set *settings.Loaded) job.Service {
	s := job.Service{Options: domainlocal.Options{Zone: l.zone(set)}, Note: func(ctx context.Context) string {
		if l.stays == nil || l.stays(ctx) {
			return ""
		}
		return mustRun
	}, Hooks: secret.NewStore(secret.Folder(set.Data)), Check: func(ctx context.Context, j *record.Job) error { return l.checkJob(ctx, set, j) }}
	if l.alarms != nil {
		s.Jobs = l.alarms
	}
	return s
}

// jobTools let the assistant create and manage jobs.
func (l *Local) jobTools(set *settings.Loaded) BuiltIn {
	return BuiltIn{Name: job.Group, tools: func() ([]tool.Tool, error) {
		k := domainlocal.NewKit(builtInEnv(set, job.Group), "")
		job.Add(k, l.jobService(set))
		return k.Tools()
	}}
}

// diaryTools are the user's calendar and to-do list, in files of Steward's own or on servers.
func (l *Local) diaryTools(set *settings.Loaded) []BuiltIn {
	opt := domainlocal.Options{Zone: l.zone(set)}
	group := func(name, kind, holds, off, what, file string, add func(*domainlocal.Kit, domainlocal.Place, dav.Accounts)) BuiltIn {
		accounts, err := l.calendars(set, off)
		return BuiltIn{Name: name, tools: func() ([]tool.Tool, error) {
			if err != nil {
				return nil, err
			}
			return noted(builtInEnv(set, name), kind, file, func(k *domainlocal.Kit, p domainlocal.Place) { add(k, p, accounts) })
		}, Health: func(ctx context.Context) domainlocal.Health {
			if err != nil {
				return failingHealth(err)
			}
			if len(accounts.List) == 0 {
				return domainlocal.Health{State: domainlocal.Ready, Say: what + " in a file of Steward's own; calendars.NAME in the settings connects one on a server (docs/guides/time.md)"}
			}
			return checkDAV(ctx, accounts, holds)
		}}
	}
	return []BuiltIn{
		group("calendar", calendar.Kind, dav.Events, "tasks", "a calendar", calendar.File, func(k *domainlocal.Kit, p domainlocal.Place, a dav.Accounts) {
			calendar.Add(k, p, calendar.Options{Options: opt, Accounts: a})
		}),
		group("todo", task.Kind, dav.Tasks, "events", "a to-do list", task.File, func(k *domainlocal.Kit, p domainlocal.Place, a dav.Accounts) {
			task.Add(k, p, task.Options{Options: opt, Accounts: a})
		}),
	}
}

// alert returns the function that notifies users of alarms; nil: no way is set up.
func (l *Local) alert(set *settings.Loaded) (func(ctx context.Context, user, title, text string) error, error) {
	n, err := l.notifier(set)
	if err != nil || len(n.Receivers()) == 0 {
		return nil, err
	}
	owner := tool.OwnedBy(nil, nil)
	return func(ctx context.Context, user, title, text string) error {
		if !owner.Admits(user, nil) {
			return nil // the receivers are those of the machine's own user
		}
		return n.Notify(ctx, user, title, text)
	}, nil
}

var (
	_ reminder.Alarms = (*jobs.Scheduler)(nil)
	_ job.Jobs        = (*jobs.Scheduler)(nil)
)
