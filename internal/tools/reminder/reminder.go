// Package reminder lets an agent set reminders and timers. They are alarms of package jobs: they
// survive restarts, go off without a model, and reach the user in the conversation in which they
// were set, and through a notification if one is set up.
package reminder

import (
	"context"
	"fmt"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Alarms keeps alarms; package jobs does.
type Alarms interface {
	Set(ctx context.Context, a record.Alarm) (record.Alarm, error)
	List(ctx context.Context, user string) ([]record.Alarm, error)
	Get(ctx context.Context, user string, alarm id.ID) (record.Alarm, error)
	Cancel(ctx context.Context, user string, alarm, by id.ID) (record.Alarm, error)
	CancelledBy(ctx context.Context, user string, by id.ID) (record.Alarm, error)
}

// Options configure the tools. Alarms is required.
type Options struct {
	local.Options
	Alarms Alarms
	// Note returns a sentence for whoever has set an alarm, about whether anything will run at its time;
	// empty, or a nil function: there is nothing to say.
	Note func(ctx context.Context) string
}

// The kinds of alarms.
const (
	Reminder = "reminder"
	Timer    = "timer"
)

// ownLabels are the labels of the texts: they belong to the user, and may come from what others wrote.
const ownLabels = message.Private | message.Untrusted

type setArgs struct {
	Text   string `json:"text" jsonschema:"What to remind the user of, in the user's words" minlen:"1" maxlen:"1000"`
	At     string `json:"at,omitzero" jsonschema:"When, in the user's time zone: 2026-11-30T09:00, or 09:00 for the next time it is nine" maxlen:"40"`
	In     int    `json:"in_minutes,omitzero" jsonschema:"In how many minutes, in place of at" min:"1" max:"2628000"`
	Repeat string `json:"repeat,omitzero" jsonschema:"How it repeats: hourly, daily, weekdays, weekly, monthly, yearly, or an RRULE such as FREQ=WEEKLY;BYDAY=MO,TH" maxlen:"300"`
}

type timerArgs struct {
	Seconds int    `json:"seconds" jsonschema:"How long the timer runs, in seconds" min:"1" max:"2678400"`
	Name    string `json:"name,omitzero" jsonschema:"What the timer is called or is for, such as tea" maxlen:"100"`
}

type cancelArgs struct {
	Which string `json:"which,omitzero" jsonschema:"Its id or words of its text; the only one unless given" maxlen:"200"`
}

// AddReminders adds set, list and cancel to a kit named "reminder".
func AddReminders(k *local.Kit, opt Options) {
	s := service{opt, Reminder, k.Name("list")}
	add(k, s, "Sets a reminder: tells the user something at a time, once or repeatedly, also when no chat is open. Say the time in the answer.",
		tool.LogSpec{Summary: "Remind you[ at {at:time}][ in {in_minutes} min][, repeated {repeat}]: {text}", Does: "sets a reminder"},
		tool.Width{Name: "set any reminder", Any: []string{"text", "at", "in_minutes", "repeat"}}, sentences{setReminder, listReminders, cancelReminder}, s.remind)
}

// AddTimers adds set, list and cancel to a kit named "timer".
func AddTimers(k *local.Kit, opt Options) {
	s := service{opt, Timer, k.Name("list")}
	add(k, s, "Sets a timer: starts a countdown and tells the user when it is over.", tool.LogSpec{Summary: "Set a timer for {seconds:duration}: {name|unnamed}", Does: "sets a timer"},
		tool.Width{Name: "set any timer", Any: []string{"seconds", "name"}}, sentences{setTimer, listTimers, cancelTimer}, s.count)
}

// sentences are those of the three tools.
type sentences struct{ set, list, cancel []string }

func add[In any](k *local.Kit, s service, describe string, log tool.LogSpec, width tool.Width, say sentences, set func(context.Context, tool.Invocation, In) (string, error)) {
	stale := []tool.Strategy{{Kind: tool.ByTool, Tools: []string{s.list}}}
	local.Change(k, tool.Spec{Name: "set", Tidy: stale, Description: describe, Sentences: say.set, Log: log, Widths: []tool.Width{width}},
		func(_ context.Context, user string) (setting, error) { return setting{s, user}, nil },
		func(ctx context.Context, in tool.Invocation, a In, _ setting) (string, error) { return set(ctx, in, a) }, tool.Text)
	local.Query(k, tool.Spec{Name: "list", Yields: ownLabels, Tidy: []tool.Strategy{{Kind: tool.ByAge, MaxAge: time.Minute}, stale[0]},
		Sentences:   say.list,
		Description: "Lists the " + s.kind + "s that are set, with their ids and times.",
		Log:         tool.LogSpec{Summary: "List the " + s.kind + "s"}}, s.show)
	local.Action(k, tool.Spec{Name: "cancel", Dedupes: true, Yields: ownLabels, Tidy: stale, Sentences: say.cancel, Description: "Cancels a " + s.kind + ".",
		Log:    tool.LogSpec{Summary: "Cancel the " + s.kind + " {which|that is set}", Does: "cancels a " + s.kind},
		Widths: []tool.Width{{Name: "cancel any " + s.kind, Any: []string{"which"}}}}, s.cancel, s.settleCancel)
}

// service holds the tools of one kind.
type service struct {
	Options
	kind string
	list string // the full name of the tool that lists
}

// alarmOf returns the id of the alarm that a call with a key sets. A repeated call sets the same one.
func alarmOf(user, key string) id.ID { return id.Derive("alarm", user, key) }

func (s service) set(ctx context.Context, in tool.Invocation, a record.Alarm) (string, error) {
	a.ID, a.User, a.Kind, a.Labels, a.Zone = alarmOf(in.User, local.Key(in)), in.User, s.kind, ownLabels, s.Location(in.User).String()
	if a.Zone == "Local" {
		a.Zone = "UTC"
	}
	if !in.Conversation.Zero() {
		a.Conversation = record.IDOf(in.Conversation, record.TypeConversation)
	}
	a, err := s.Alarms.Set(ctx, a)
	if err != nil {
		return "", err
	}
	return s.setReply(ctx, a), nil
}

func (s service) setReply(ctx context.Context, a record.Alarm) string {
	text := fmt.Sprintf("The %s is set for %s%s.", s.kind, s.clock(a.User, a.Start), repeated(a))
	if s.Note != nil {
		text = strings.TrimSpace(text + " " + s.Note(ctx))
	}
	return text
}

func repeated(a record.Alarm) string {
	if a.Rule == "" {
		return ""
	}
	return ", and repeats (" + a.Rule + ")"
}

// clock writes a time in the user's zone.
func (s service) clock(user string, t time.Time) string {
	return t.In(s.Location(user)).Format("Mon 2 Jan 2006 15:04:05 MST")
}

// remind is reminder.set.
func (s service) remind(ctx context.Context, in tool.Invocation, a setArgs) (string, error) {
	now := s.Time().In(s.Location(in.User))
	when := now.Add(time.Duration(a.In) * time.Minute)
	var err error
	switch {
	case (a.At == "") == (a.In == 0):
		err = fault.New(fault.Invalid, "time_missing", "a reminder needs a time").WithHint("say at what time, or in how many minutes")
	case a.At != "":
		when, err = moment(a.At, now)
	}
	if err != nil {
		return "", err
	}
	return s.set(ctx, in, record.Alarm{Text: strings.TrimSpace(a.Text), Start: when.Truncate(time.Second), Rule: local.Rule(a.Repeat)})
}

// count is timer.set.
func (s service) count(ctx context.Context, in tool.Invocation, a timerArgs) (string, error) {
	name := strings.Join(strings.Fields(a.Name), " ")
	return s.set(ctx, in, record.Alarm{Text: name, Start: s.Time().Add(time.Duration(a.Seconds) * time.Second)})
}

// moment reads a time. A time of day is the next one that the clock shows.
func moment(text string, now time.Time) (time.Time, error) {
	c, err := local.ReadClock(text, now)
	if !c.Fixed && !c.Dated && !c.In(now.Location()).After(now) {
		c.Time = c.AddDate(0, 0, 1)
	}
	return c.In(now.Location()), err
}

// setting is what a user has set. It implements local.Changes.
type setting struct {
	service
	user string
}

// Applied implements local.Changes.
func (s setting) Applied(ctx context.Context, key string) (string, bool, error) {
	a, err := s.Alarms.Get(ctx, s.user, alarmOf(s.user, key))
	if fault.Is(err, fault.NotFound) {
		return "", false, nil
	}
	return s.setReply(ctx, a), err == nil, err
}

// Revert implements local.Changes.
func (s setting) Revert(ctx context.Context, key string) (string, error) {
	a, err := s.Alarms.Cancel(ctx, s.user, alarmOf(s.user, key), id.Derive("cancel", "undo "+key))
	if err != nil {
		return "", err
	}
	return s.cancelReply(a), nil
}

func (s service) cancelReply(a record.Alarm) string {
	return fmt.Sprintf("The %s %swas cancelled.", s.kind, named(a))
}

func named(a record.Alarm) string {
	if a.Text == "" {
		return ""
	}
	return fmt.Sprintf("%q ", a.Text)
}

// mineOf returns the user's alarms of this kind.
func (s service) mineOf(ctx context.Context, user string) (out []record.Alarm, err error) {
	all, err := s.Alarms.List(ctx, user)
	for _, a := range all {
		if a.Kind == s.kind {
			out = append(out, a)
		}
	}
	return out, err
}

func (s service) show(ctx context.Context, in tool.Invocation, _ struct{}) (string, error) {
	list, err := s.mineOf(ctx, in.User)
	if err != nil || len(list) == 0 {
		return "No " + s.kind + " is set.", err
	}
	return local.List(list, len(list), s.shown) + "\n", nil
}

func (s service) shown(a record.Alarm) string {
	return fmt.Sprintf("- %s %s(id %s)%s", s.clock(a.User, a.Next), named(a), a.ID, repeated(a))
}

func (s service) cancel(ctx context.Context, in tool.Invocation, a cancelArgs) (string, error) {
	by := id.Derive("cancel", local.Key(in))
	one, err := s.Alarms.CancelledBy(ctx, in.User, by)
	if fault.Is(err, fault.NotFound) {
		one, err = s.one(ctx, in.User, strings.TrimSpace(a.Which))
	}
	if err != nil {
		return "", tool.NotDone(err)
	}
	if one, err = s.Alarms.Cancel(ctx, in.User, one.ID, by); err != nil {
		return "", err
	}
	return s.cancelReply(one), nil
}

// one finds the alarm that is meant.
func (s service) one(ctx context.Context, user, which string) (record.Alarm, error) {
	list, err := s.mineOf(ctx, user)
	if err != nil {
		return record.Alarm{}, err
	}
	var found []record.Alarm
	for _, a := range list {
		if which == "" || which == a.ID.String() || strings.EqualFold(a.Text, which) || local.HasWords(a.Text, which) {
			found = append(found, a)
		}
	}
	return local.ExactlyOne(s.kind, which, found, s.shown)
}

// settleCancel reports whether a call has cancelled an alarm.
func (s service) settleCancel(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
	a, err := s.Alarms.CancelledBy(ctx, in.User, id.Derive("cancel", local.Key(in)))
	if fault.Is(err, fault.NotFound) {
		return false, tool.Result{}, nil
	}
	return err == nil, tool.Text(s.cancelReply(a)), err
}
