package app

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/jobs"
	"steward/internal/record"
	"steward/internal/settings"
	"steward/internal/tool"
	"steward/internal/tools/home"
)

// checkJob refuses a job that names what there is not: an agent, a model, a tool, an account, a folder, a device.
func (l *Local) checkJob(ctx context.Context, set *settings.Loaded, j *record.Job) (err error) {
	if l.node == nil { // only the database is open: no command adds jobs so
		return nil
	}
	if err := l.node.CheckJob(ctx, *j); err != nil {
		return err
	}
	switch {
	case j.Mail != record.MailFilter{}:
		return canWatchMail(set, j)
	case j.File != "":
		folders := l.filesOptions(set)
		if filepath.IsAbs(j.File) {
			if j.File, err = folders.NameOf(ctx, j.User, j.File); err != nil {
				return err
			}
		}
		return folders.CanWatch(ctx, j.User, j.File)
	case j.Home != "":
		h, c, err := l.watchedHome(ctx, set, j)
		if err == nil {
			err = h.CanWatch(ctx, c)
		}
		return err
	}
	return nil
}

// canWatchMail refuses a job on the mail of an account for which nothing notices new mail.
func canWatchMail(set *settings.Loaded, j *record.Job) error {
	a, ok := set.Mail[j.Mail.Account]
	users := tool.OwnedBy(a.Users, a.Groups)
	switch {
	case !ok || users == nil || !slices.Contains(users.Users, j.User):
		return fault.New(fault.NotFound, "mail_account_unknown", "you have no mailbox %.60q", j.Mail.Account).WithHint("steward accounts list shows them; steward accounts add ADDRESS adds one")
	case a.New == "ignore":
		return fault.New(fault.Invalid, "mail_ignored", "new mail in %s is not noticed, because mail.%s.new is ignore", j.Mail.Account, j.Mail.Account).WithHint("remove that setting")
	}
	return nil
}

// watchedHome returns the home and the state that a job begins on, if its user may use the home.
func (l *Local) watchedHome(ctx context.Context, set *settings.Loaded, j *record.Job) (*home.Home, home.Condition, error) {
	c, err := home.ParseCondition(j.Home)
	if err != nil {
		return nil, c, err
	}
	groups, err := l.groupsOf(ctx, j.User)
	if err != nil {
		return nil, c, err
	}
	if l.home == nil || !tool.OwnedBy(set.Home.Users, set.Home.Groups).Admits(j.User, groups) {
		return nil, c, fault.New(fault.Unsupported, "home_off", "no home is set up").WithHint("run steward home connect URL, with that of your Home Assistant")
	}
	return l.home, c, nil
}

// jobSource yields what happens to the files or in the home that a job begins on.
func (l *Local) jobSource(set *settings.Loaded) func(context.Context, record.Job) iter.Seq2[jobs.Events, error] {
	return func(ctx context.Context, j record.Job) iter.Seq2[jobs.Events, error] {
		if j.File != "" {
			return l.fileEvents(ctx, set, j)
		}
		return l.homeEvents(ctx, set, j)
	}
}

func (l *Local) fileEvents(ctx context.Context, set *settings.Loaded, j record.Job) iter.Seq2[jobs.Events, error] {
	return func(yield func(jobs.Events, error) bool) {
		for c, err := range l.filesOptions(set).Watch(ctx, j.User, j.File, j.Cursor) {
			b := jobs.Events{Cursor: c.Cursor, Keep: true}
			if n := len(c.Files); n > 0 {
				b.List = []jobs.Event{{ID: "file " + time.Now().Format(time.RFC3339Nano), Cause: "a change of the file " + c.Files[0]}}
				if n > 1 {
					b.List[0].Cause = fmt.Sprintf("changes of %d files", n)
					b.List[0].Text = strings.Join(c.Files, "\n")
				}
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

func (l *Local) homeEvents(ctx context.Context, set *settings.Loaded, j record.Job) iter.Seq2[jobs.Events, error] {
	return func(yield func(jobs.Events, error) bool) {
		h, cond, err := l.watchedHome(ctx, set, &j)
		if err != nil {
			yield(jobs.Events{}, err)
			return
		}
		for e, err := range h.Watch(ctx, cond, j.Cursor) {
			b := jobs.Events{Cursor: e.Cursor, Keep: true}
			if e.Entered {
				b.List = []jobs.Event{{ID: "home " + time.Now().Format(time.RFC3339Nano), Cause: "the state " + j.Home + " of the home", Text: e.Name + " is " + e.State}}
			}
			if !yield(b, err) {
				return
			}
		}
	}
}
