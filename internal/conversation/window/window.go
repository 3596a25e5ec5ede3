// Package window computes the model's context window: what a model is shown of a
// branch's messages. Render turns them into a history that every provider
// accepts, whatever their states. Fit makes that history fit into a number of
// tokens. Tracker finds the earlier results that a tool call makes obsolete. The
// package has no side effects: it changes no message and records nothing.
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
	State   record.Change // the change in effect; the zero value: the message is active
	Pinned  bool          // it stays in view however small the window is, and is never clipped
	URI     string        // of a tool message: where the rest of its result can be read
}

// Options say how a branch is shown. The zero value shows all of it.
type Options struct {
	// Clip is the maximum size of a result's text in bytes. A longer one is shown
	// as its beginning, a line that says how to read on, and a bit of its end. 0:
	// no limit. Values below MinClip count as MinClip.
	Clip int

	// Summary replaces the messages before the items; nil: there is none.
	Summary *message.Message

	// Cut says that there are messages before the items, which are not shown.
	Cut bool
}

// MinClip is the minimum of Options.Clip, in bytes.
const MinClip = 512

// Render returns what a model is shown of a branch, oldest first. The result
// always obeys message.CheckView, and begins with a user message (after system
// messages, where the branch begins with them), whatever the states are:
//
//   - An invalidated result keeps its place, its status, ids, name and labels;
//     a line that says why replaces its content.
//   - Messages that are superseded, archived or deleted are not shown, nor are
//     other messages that are invalidated. An assistant message with calls and
//     all their results are one group: hiding one of them hides all.
//   - Results stand right after their calls. A result without its call is not
//     shown. A call without a result gets one that says so, unless it is of
//     the last message: such a call is open, and its result is still to come.
//   - The summary comes first. Without one, where something before the first
//     message is not shown, a user message of origin "system" says so.
//
// Messages that the rules do not touch are returned as the same pointers; the
// others are copies with the same ids. Rendering is deterministic, and what a
// message is shown as does not depend on those that come later, but for its
// call's results.
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

// notice returns the message to put in front, or nil if none is needed.
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
	case first == nil && !cut:
		return nil
	case first == nil:
		first = &message.Message{}
	case first.Role == message.User && !cut:
		return nil
	case !cut && !a.hidden:
		text = "[The conversation begins with a message of the assistant.]"
	}
	return &message.Message{
		ID: id.Derive("view", "notice", first.ID.String()), Role: message.User, At: first.At,
		Blocks: []message.Block{&message.Text{Common: message.Common{Origin: originSystem}, Text: text}},
	}
}
