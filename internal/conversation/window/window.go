// Package window computes the model's context window: the part of a branch's
// messages that a model sees, and in which form. Render turns the messages,
// whatever their states, into a history that every provider accepts. Fit makes
// that history fit a number of tokens. Tracker finds the earlier results that a
// tool call makes obsolete. The package has no side effects: it changes no message
// and records nothing.
package window

import (
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
)

// Item is a message of a branch, with its state.
type Item struct {
	Message *message.Message
	Pos     int64
	State   record.Change // the change in effect; zero value: the message is active
	Pinned  bool          // it always stays in view and is never clipped
	URI     string        // for a tool message: where the rest of its result can be read
}

// Options say how a branch is shown. The zero value shows all of it.
type Options struct {
	// Clip is the maximum size of a result's text in bytes. Of a longer text, the
	// model sees the beginning, a line that says how to read on, and a short piece
	// of the end. 0: no limit. Values below MinClip count as MinClip.
	Clip int

	// Summary replaces the messages before the items; nil: there is none.
	Summary *message.Message

	// Cut says that messages exist before the items. They are not shown.
	Cut bool
}

// MinClip is the minimum of Options.Clip, in bytes.
const MinClip = 512

// Render returns the messages that a model sees of a branch, oldest first. Whatever
// the states of the items, the result satisfies message.CheckView and its first
// message that is not a system message is a user message. The rules are:
//
//   - An invalidated result keeps its place, status, ids, name and labels; a line
//     with the reason replaces its content.
//   - Superseded, archived and deleted messages are hidden, and so are invalidated
//     messages other than results. An assistant message with calls and all their
//     results form a group: hiding one of them hides all.
//   - Results follow their calls directly. A result without its call is hidden. A
//     call without a result gets a result that says so, unless no user or assistant
//     message follows: then the call is open, and its result may still come.
//   - The summary comes first. Without a summary, a notice (a user message of origin
//     "system") comes first if Cut is set or the view would not begin with a user.
//
// Render returns unchanged messages as the same pointers, and changed ones as
// copies with the same ids. It is deterministic. The form of a message depends on
// earlier messages only, except for the results of its calls.
func Render(items []Item, o Options) []*message.Message {
	a := arrange(items, o.Summary)
	out := make([]*message.Message, 0, len(a.slots)+1)
	if o.Summary != nil {
		out = append(out, asUser(o.Summary))
	} else if n := a.notice(items, o.Cut); n != nil {
		out = append(out, n)
	}
	for _, s := range a.slots {
		if s.item < 0 {
			out = append(out, s.answer)
		} else {
			out = append(out, show(&items[s.item], o.Clip))
		}
	}
	return out
}

// asUser returns the summary as a user message.
func asUser(m *message.Message) *message.Message {
	if m.Role == message.User {
		return m
	}
	out := &message.Message{ID: m.ID, Role: message.User, At: m.At, Prev: m.Prev}
	text := &message.Text{Common: message.Common{Origin: originSystem, Labels: message.LabelsOf(m.Blocks)}, Text: m.Text()}
	out.Blocks = []message.Block{text}
	return out
}

const originSystem = "system"

// notice returns a user message to put in front that says that earlier messages
// are hidden, or that the conversation begins with the assistant. It returns nil
// if none is needed.
func (a *arrangement) notice(items []Item, cut bool) *message.Message {
	var first *message.Message
	for _, s := range a.slots {
		if s.item >= 0 && items[s.item].Message.Role != message.System {
			first = items[s.item].Message
			break
		}
	}
	text := "[Earlier messages of this conversation are not shown.]"
	switch {
	case cut:
		first = &message.Message{} // the notice stays the same when messages follow
	case first == nil || first.Role == message.User:
		return nil
	case !a.hidden:
		text = "[The conversation begins with a message of the assistant.]"
	}
	return &message.Message{
		ID: id.Derive("view", "notice", first.ID.String()), Role: message.User, At: first.At,
		Blocks: []message.Block{&message.Text{Common: message.Common{Origin: originSystem}, Text: text}},
	}
}
