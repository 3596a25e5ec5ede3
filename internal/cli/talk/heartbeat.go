package talk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
	"steward/internal/fault"
)

func (a *program) heartbeatCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "heartbeat", Short: "Let Steward tell you by itself what has changed and matters", GroupID: "talk",
		Long: "The heartbeat looks every 15 minutes whether something has changed: events, failed work, messages without an\n" +
			"answer, what is due, and what your agents check. The reviews look once a day, a week and a month. Looking\n" +
			"calls no model. Only if something has changed, a model is asked whether it is worth telling, and you get one\n" +
			"short message with its sources, or none. It may look things up and propose, and changes nothing.\n\n" +
			"It is off until you turn it on, and works only while Steward runs: steward service install keeps it running.",
	}, a.heartbeatOn(), a.heartbeatOff(), a.heartbeatStatus(), a.heartbeatNow())
}

func (a *program) heartbeatOn() *cobra.Command {
	var o client.NewHeartbeat
	var reviews, to string
	var tools []string
	c := &cobra.Command{Use: "on", Short: "Turn the heartbeat and the reviews on, or change how they are",
		Long: "Turn the heartbeat and the reviews on, or change how they are. What you leave out is as the settings say\n" +
			"(heartbeat.every and others). What has changed before is not told.",
		Example: "  steward heartbeat on\n  steward heartbeat on --reviews daily --at 7:30 --quiet-hours 21:00-7:30\n  steward heartbeat on --tool 'reminder.create=ask'"}
	f := c.Flags()
	f.StringVar(&o.Every, "every", "", "the `TIME` between two looks, such as 30m")
	f.StringVar(&o.At, "at", "", "the `TIME` of day of the reviews, such as 8:00")
	f.StringVar(&reviews, "reviews", "", "which reviews: daily, weekly, monthly, separated by commas, or none (`LIST`; default: all)")
	f.StringVar(&o.Quiet, "quiet-hours", "", "the `HOURS` in which it says nothing: 22:00-7:00, or off")
	f.StringVar(&to, "to", "", "bring messages to this `CONVERSATION` too: its id, or last")
	f.StringArrayVar(&tools, "tool", nil, "what it may do with a tool that changes something: 'NAME=ask' or 'NAME=allow', also for patterns such as reminder.* (`RULE`)")
	command.CompleteFlag(c, "reviews", command.Words("daily", "weekly", "monthly", "none"))
	return a.APICommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, _ []string) (err error) {
		o.Model = a.Model
		if reviews != "" {
			o.Reviews = strings.FieldsFunc(reviews, func(r rune) bool { return r == ',' || r == ' ' })
		}
		if o.Tools, err = toolRules(tools); err != nil {
			return err
		}
		if o.Conversation, err = s.ResolveConversation(ctx, to); err != nil {
			return err
		}
		h, err := s.HeartbeatOn(ctx, o)
		if err := command.PrintValue(a.Program, h, err, a.heartbeatText); err != nil {
			return err
		}
		if h.Note != "" && !a.JSON {
			a.Note("%s", h.Note)
		}
		return nil
	})
}

// toolRules reads NAME=allow, NAME=ask and NAME=deny.
func toolRules(list []string) (map[string]string, error) {
	var out map[string]string
	for _, rule := range list {
		name, may, ok := strings.Cut(rule, "=")
		if !ok {
			return nil, command.Usage("--tool takes NAME=allow, NAME=ask or NAME=deny")
		}
		if out == nil {
			out = map[string]string{}
		}
		out[strings.TrimSpace(name)] = strings.TrimSpace(may)
	}
	return out, nil
}

func (a *program) heartbeatOff() *cobra.Command {
	return a.StoredCommand(command.NeedDatabase, &cobra.Command{Use: "off", Short: "Turn the heartbeat and the reviews off", Long: "Turn the heartbeat and the reviews off. What has begun goes on."},
		func(ctx context.Context, s *command.Session, _ []string) error {
			h, err := s.HeartbeatOff(ctx)
			return a.PrintDone(h, err, "the heartbeat and the reviews are off")
		})
}

func (a *program) heartbeatStatus() *cobra.Command {
	c := &cobra.Command{Use: "status", Short: "Show what the heartbeat and the reviews did last, what they cost, and when they look next"}
	c.RunE = func(c *cobra.Command, _ []string) error {
		var h client.Heartbeat
		err := a.With(c.Context(), command.NeedReadOnly, func(s *command.Session) (err error) {
			h, err = s.Heartbeat(c.Context())
			return err
		})
		if errors.Is(err, command.ErrNothingStored) { // it was never turned on
			err = nil
		}
		return command.PrintValue(a.Program, h, err, a.heartbeatText)
	}
	return c
}

// heartbeatText formats how the heartbeat and the reviews are.
func (a *program) heartbeatText(h client.Heartbeat) string {
	const day = "Mon 2 Jan 15:04"
	rows := [][2]string{}
	add := func(name, value string) { rows = append(rows, [2]string{name, value}) }
	if !h.On {
		add("heartbeat", "off: `steward heartbeat on` turns it on")
	}
	var told *client.HeartbeatRun
	for i := range h.Jobs {
		j := &h.Jobs[i]
		if j.Last != nil && j.Last.Said != "" && (told == nil || j.Last.Due.After(told.Due)) {
			told = j.Last
		}
		if j.State != "active" {
			continue
		}
		name, when := j.Kind+" review", "next on "+j.Next.Format(day)
		if j.Kind == "heartbeat" {
			name, when = j.Kind, "every "+shortTime(h.Every)+", next on "+j.Next.Format(day)
		}
		add(name, when)
		add("", lastLook(j, day))
	}
	if h.On {
		add("time zone", h.Zone)
		add("quiet hours", h.Quiet)
		add("may do", heartbeatMay(h.Tools))
		add("messages are in", "steward heartbeat status")
		if h.Notify {
			add("", "a notification")
		}
		if h.Conversation != "" {
			add("", "the conversation "+h.Conversation)
		}
		if !h.Notify && h.Conversation == "" {
			add("", "(a messenger, notify in the settings, or --to, brings them elsewhere)")
		}
	}
	if len(h.Jobs) > 0 {
		calls := fmt.Sprint(h.Calls.Today)
		if h.Calls.Max > 0 {
			calls += fmt.Sprintf(" of %d", h.Calls.Max)
		}
		calls += fmt.Sprintf(" today, $%.4f", h.Calls.Cost)
		if h.Calls.MaxCost > 0 {
			calls += fmt.Sprintf(" of $%.2f", h.Calls.MaxCost)
		}
		add("model calls", calls)
	}
	text := command.Fields(16, rows)
	if told != nil {
		text += "\nLast message, of " + told.Ended.Format(day) + ":\n\n" + command.Indented(wrapped(told.Said, a.Width()-4))
	}
	return text
}

// wrapped breaks the lines of a text between words; a width that is not positive: not at all.
func wrapped(text string, width int) string {
	if width <= 0 {
		return text
	}
	return lipgloss.Wrap(text, width, "")
}

// lastLook says what the heartbeat or a review found last.
func lastLook(j *client.HeartbeatJob, day string) string {
	last := j.Last
	text := ""
	switch {
	case !j.Looked.IsZero() && (last == nil || j.Looked.After(last.Due)):
		text = "last on " + j.Looked.Format(day) + ": " + map[string]string{
			"unchanged": "nothing had changed", "quiet_hours": "quiet hours", "covered": "a longer review took its place", "day_cap": "what it may spend in a day was spent"}[j.Idle]
	case last == nil:
		text = "it has not looked yet"
	default:
		text = "last on " + last.Due.Format(day) + ": " + runText(last)
	}
	if len(j.Failed) > 0 {
		text += "; it could not look at " + strings.Join(j.Failed, ", ")
	}
	return command.PlainLine(text)
}

// runText says what became of a time at which something had changed.
func runText(r *client.HeartbeatRun) string {
	n := len(r.Changes) + r.More
	changes := fmt.Sprintf("%d changes", n)
	if n == 1 {
		changes = "1 change"
	}
	switch {
	case r.State == "done" && r.Said != "":
		return changes + ", told"
	case r.State == "done":
		return changes + ", none of them worth telling"
	case r.State == "failed":
		return changes + ", " + command.WithCode("failed", r.Reason)
	}
	return changes + ", " + r.State
}

func heartbeatMay(tools map[string]string) string {
	text := "look and propose; it changes nothing"
	var list []string
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		if !strings.HasPrefix(name, "@") {
			list = append(list, command.PlainLine(name)+": "+tools[name])
		}
	}
	if len(list) > 0 {
		text += " but for " + strings.Join(list, ", ")
	}
	return text
}

func shortTime(d string) string {
	if t, err := time.ParseDuration(d); err == nil && t%time.Minute == 0 {
		switch {
		case t == time.Minute:
			return "minute"
		case t < time.Hour || t%time.Hour != 0:
			return fmt.Sprintf("%d minutes", t/time.Minute)
		case t == time.Hour:
			return "hour"
		}
		return fmt.Sprintf("%d hours", t/time.Hour)
	}
	return d
}

func (a *program) heartbeatNow() *cobra.Command {
	c := &cobra.Command{Use: "now [heartbeat|daily|weekly|monthly]", Short: "Look now, and wait for the end", Args: cobra.MaximumNArgs(1), ValidArgs: []string{"heartbeat", "daily", "weekly", "monthly"},
		Long: "Look now, as the heartbeat or a review does at its time, and print what it says. If nothing has changed since it\nlast looked, no model is asked."}
	return a.StoredCommand(command.NeedNode, c, func(ctx context.Context, s *command.Session, args []string) error {
		kind := ""
		if len(args) > 0 {
			kind = args[0]
		}
		r, err := s.RunHeartbeat(ctx, kind)
		for open := true; err == nil && open; {
			select {
			case <-time.After(jobPoll):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			var o client.Occurrence
			if o, err = occurrenceOf(ctx, s, r.Job, r.ID); err == nil {
				r.State, r.Reason, open = o.State, o.Reason, o.Open() && o.State != "waiting"
			}
		}
		if err != nil {
			return err
		}
		h, err := s.Heartbeat(ctx)
		if err != nil {
			return err
		}
		for _, j := range h.Jobs {
			if j.Last != nil && j.Last.ID == r.ID {
				r = *j.Last
			}
		}
		if a.JSON {
			return a.PrintJSON(r)
		}
		if r.State == "skipped" {
			a.Note("%s", map[string]string{"unchanged": "nothing has changed since it last looked", "covered": "a longer review is due today", "day_cap": "what it may spend in a day is spent"}[r.Reason])
			return nil
		}
		if r.Said == "" {
			a.Note("%s", runText(&r))
			if r.State == "failed" {
				return command.ExitCode(command.ExitFailed)
			}
			return nil
		}
		return a.Print(wrapped(command.PlainText(r.Said), a.Width()) + "\n")
	})
}

// occurrenceOf returns an occurrence of a job.
func occurrenceOf(ctx context.Context, s *command.Session, job, id string) (client.Occurrence, error) {
	list, err := s.JobHistory(ctx, job, 50)
	for i := range list {
		if list[i].ID == id {
			return list[i], nil
		}
	}
	if err == nil {
		err = fault.New(fault.NotFound, "not_found", "the job %s has no record of this look any more", job)
	}
	return client.Occurrence{}, err
}
