package runtime

import (
	"context"
	"fmt"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/turn"
	"steward/internal/work"
)

// runScheduler lets alarms go off and jobs begin until the node closes.
func (n *Node) runScheduler() {
	if n.opt.Alarms == nil {
		return
	}
	tell := func(ctx context.Context, a record.Alarm, o jobs.Occurrence) (final bool, err error) {
		text := alarmText(a, o, time.Now())
		if _, again := n.notified.LoadOrStore(o.ID, a.User); !again && n.opt.Notify != nil {
			n.life.Of(a.User).Go(func() { n.notify(a, text) })
		}
		if n.opt.Deliver != nil {
			if _, err := n.opt.Deliver(ctx, a.User, text, a.Labels, "alarm "+o.ID.String()); err != nil {
				return false, err
			}
		}
		final, err = n.deliverAlarm(ctx, a, o, text)
		if final || err == nil {
			n.notified.Delete(o.ID)
		}
		return final, err
	}
	n.life.Go(func() {
		if err := n.opt.Alarms.Run(n.life, jobs.Handlers{Alarm: tell, Job: n.performJob, Check: n.checkJob, Look: n.look, Events: n.jobEvents, Report: n.reportJob, Spaces: n.scheduled()}); err != nil && n.life.Err() == nil {
			n.log.Error("no alarm goes off and no job begins any more", "error", err)
		}
	})
}

// notify notifies the user of an alarm. After a crash it may do so again.
func (n *Node) notify(a record.Alarm, text string) {
	if err := n.opt.Notify(n.life.Of(a.User), a.User, strings.ToUpper(a.Kind[:1])+a.Kind[1:], text); err != nil {
		n.log.Warn("an alarm notified nobody", "alarm", a.ID.String(), "error", err)
	}
}

// deliverAlarm opens an interaction in the conversation in which the alarm was set, or in a new one
// if that was deleted. An agent that another one asked sets alarms for the user's conversation, because
// nobody can speak in its own. While a turn runs there, perhaps waiting for a person, the interaction
// waits for its end; FollowReminders yields the reminder at once. Telling an occurrence again changes
// nothing.
func (n *Node) deliverAlarm(ctx context.Context, a record.Alarm, o jobs.Occurrence, text string) (final bool, err error) {
	conv := a.Conversation
	for !conv.Zero() {
		c, found, err := requests.Conversation(ctx, n.opt.Store, store.ForUser(a.User), conv)
		if err != nil {
			return false, err
		}
		if found && c.Asked.Zero() {
			break
		}
		conv = id.ID{}
		if found {
			conv = record.IDOf(c.Asked, record.TypeConversation)
		}
	}
	t := turn.Input{Conversation: conv, ClientID: "alarm " + o.ID.String(), Content: []message.Block{&message.Text{Text: text}},
		Model: record.RepeatModel, Origin: record.OriginAlarm + a.ID.String(), Labels: a.Labels}
	n.Turns.HideSecrets(&t)
	m, err := turn.UserMessage(a.User, &t)
	if err != nil {
		return work.IsFinal(err), err
	}
	if _, err := n.Conversations.FindMessage(ctx, store.ForUser(a.User), t.Conversation, m.ID); fault.Is(err, fault.NotFound) {
		t.At = n.reminders.add(a.User, Reminder{Conversation: t.Conversation, Message: m.ID, Text: m.Text(), At: time.Now().UTC().Truncate(time.Millisecond)}).At
	} else if err != nil {
		return false, err
	}
	send := func() error {
		_, err := n.Turns.Send(n.life.Of(a.User), a.User, t)
		return err
	}
	if n.Turns.Running(a.User, t.Conversation) {
		err = o.Await(send)
	} else {
		err = send()
	}
	if final = err != nil && work.IsFinal(err); final || err == nil {
		n.reminders.drop(m.ID)
	}
	return final, err
}

// alarmText returns what the user is told of an alarm.
func alarmText(a record.Alarm, o jobs.Occurrence, now time.Time) string {
	zone, err := time.LoadLocation(a.Zone)
	if err != nil {
		zone = time.UTC
	}
	var b strings.Builder
	switch {
	case a.Kind != "timer":
		b.WriteString("Reminder: " + a.Text)
	case a.Text == "":
		b.WriteString("The timer is over.")
	default:
		fmt.Fprintf(&b, "The timer %q is over.", a.Text)
	}
	if now.Sub(o.Due) > time.Minute {
		fmt.Fprintf(&b, " It was due on %s; Steward was not running then.", o.Due.In(zone).Format("Mon 2 Jan at 15:04"))
	}
	if o.Missed > 0 {
		fmt.Fprintf(&b, " %d earlier ones were missed.", o.Missed)
	}
	return b.String()
}
