package turn

import (
	"slices"
	"strings"
	"time"

	"steward/internal/agent"
	"steward/internal/llm"
	"steward/internal/message"
)

// Each message is sent to a model with a note of when it was written. The note is part of the request to the
// model only: it is neither stored nor shown. It is derived from the message's own time, so that a message is
// sent with the same bytes as long as the conversation lasts, and providers' caches hold. The stable part of
// the prompt has the place of the user.

// timeNoteTokens is how many tokens a note takes at most.
const timeNoteTokens = 48

// timeNotes returns a function that adds the notes to a transcript, in the time zone of a user, or nil if
// there are no zones.
func (e *Engine) timeNotes(user string) func(*llm.Transcript) *llm.Transcript {
	if e.opt.Zone == nil {
		return nil
	}
	zone := e.opt.Zone(user)
	if zone == nil {
		zone = time.UTC
	}
	addTime := func(m *message.Message) *message.Message { return withTime(m, zone) }
	return func(t *llm.Transcript) *llm.Transcript { return t.As("sent "+zone.String(), addTime) }
}

// withTime returns a message with a note of when it was sent, unless Steward wrote it for the model.
func withTime(m *message.Message, zone *time.Location) *message.Message {
	if m.Role != message.User || m.At.IsZero() || len(m.Blocks) == 0 {
		return m
	}
	if from := m.Blocks[0].Base().Origin; from == "system" || strings.HasPrefix(from, agent.OriginHook) {
		return m
	}
	at := m.At.In(zone)
	note := "(Sent on " + at.Format("Monday, 2006-01-02, 15:04")
	if name := zone.String(); name != "Local" && name != "UTC" {
		note += ", " + name
	}
	out := *m
	out.Blocks = append(slices.Clip(m.Blocks), &message.Text{Common: message.Common{Origin: "system"}, Text: note + at.Format(", UTC-07:00") + ".)"})
	return &out
}
