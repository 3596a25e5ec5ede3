package terminal

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"steward/client"
	"steward/internal/message"
	"steward/internal/record"
)

// A reminder that goes off is told over a connection of its own, so that it is seen at once: also
// while a question is open, while an answer is being written, and in any conversation. Its own turn
// comes later, when its conversation is at rest. That turn's message has the id that was told, and
// its answer repeats the message; neither is shown again.

// alarms remembers the reminders that were shown.
type alarms struct {
	shown map[string]bool // by message
	turn  string          // the interaction that a reminder has opened
}

// alarm handles a frame of a turn that a reminder has opened, and reports whether it is one.
func (t *turn) alarm(f *client.Frame) bool {
	if f.Type == client.FrameOpened && strings.HasPrefix(f.Origin, record.OriginAlarm) {
		t.alarms.turn = f.Interaction
		t.remind(client.Reminder{Message: f.MessageID, Text: f.Content.Text(), At: f.At})
		return true
	}
	return f.Interaction != "" && f.Interaction == t.alarms.turn && f.Type != client.FrameError
}

// remind shows a reminder, unless it was shown before.
func (t *turn) remind(r client.Reminder) {
	if t.alarms.shown[r.Message] {
		return
	}
	if t.alarms.shown == nil {
		t.alarms.shown = map[string]bool{}
	}
	t.alarms.shown[r.Message] = true
	t.reminder(r.Text, r.At)
}

// reminder prints a reminder with the time at which it went off.
func (t *turn) reminder(text string, at time.Time) {
	head := t.warn.Render("⏰ "+UntilWhen(at, t.now())) + "  "
	text = safe(strings.TrimPrefix(text, "Reminder: "))
	t.print(kindAlarm, hangingIndent(t.strong, head, strings.Repeat(" ", lipgloss.Width(head)), text, t.paint.width))
}

// isAlarm reports whether a message was written by a reminder that went off.
func isAlarm(m *message.Message) bool {
	return m.Role == message.User && len(m.Blocks) > 0 && strings.HasPrefix(m.Blocks[0].Base().Origin, record.OriginAlarm)
}

// openedBy says what has opened a turn. The rest of the text is for the model.
func openedBy(f *client.Frame) string {
	text := firstOf(f.Content.Text())
	if said, _, ok := strings.Cut(text, ". It is task "); ok && strings.HasPrefix(f.Origin, "tool:") {
		return said
	}
	return text
}

// remindedMsg is a reminder, or the error that ended listening for them.
type remindedMsg struct {
	client.Reminder
	err error
}

// followReminders starts to listen for reminders.
func (m *liveScreen) followReminders() tea.Cmd {
	m.reminders = listen(m, m.opt.Client.Reminders(m.ctx), func(r client.Reminder, err error) remindedMsg { return remindedMsg{r, err} })
	return heard(m.reminders)
}

// reminded shows a reminder that was heard.
func (m *liveScreen) reminded(r remindedMsg) tea.Cmd {
	if r.err != nil {
		m.fail(r.err)
		return nil
	}
	m.turn.remind(r.Reminder)
	return heard(m.reminders)
}
