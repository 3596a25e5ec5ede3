package record

import (
	"cmp"
	"slices"
	"time"

	"steward/internal/id"
	"steward/internal/message"
)

// MainBranch is the id of the branch that a conversation begins with.
const MainBranch = "main"

// Branch is one path through a conversation. Messages are never moved or
// copied: a branch is a rope of spans of the lists in which messages were
// written, the last one open: what is written on the branch goes there.
// Positions count up over all branches of a conversation, so that a position
// names one message.
type Branch struct {
	ID      string    `json:"-"`
	Title   string    `json:"title,omitzero"`
	Created time.Time `json:"created,omitzero"`
	Used    time.Time `json:"used,omitzero"`   // when it was last switched to
	Parent  string    `json:"parent,omitzero"` // the branch that it was made from
	At      int64     `json:"at,omitzero"`     // the position after which it departs from its parent; 0: at the beginning
	Rope    []Span    `json:"rope,omitzero"`   // the closed spans; its own open one follows
	Open    int64     `json:"open,omitzero"`   // the position from which its own open span counts: what was written before stands in the rope, or is not on the branch any more
	View    View      `json:"view,omitzero"`
	Packed  Point     `json:"packed,omitzero"` // what stands before it is kept compactly
	Deleted time.Time `json:"deleted,omitzero"`
}

// Point is a position of a branch's list.
type Point struct {
	Branch string `json:"b"`
	Pos    int64  `json:"p"`
}

// Span is a part of the list of messages that were written on a branch.
type Span struct {
	Branch string `json:"b"`
	From   int64  `json:"f,omitzero"` // positions >= From
	To     int64  `json:"t,omitzero"` // positions <= To; 0: to the end
}

// Holds reports whether the span holds a position of a branch's list.
func (s Span) Holds(branch string, pos int64) bool {
	return s.Branch == branch && pos >= s.From && (s.To == 0 || pos <= s.To)
}

// View is how much of a branch a model is shown: set when the view is fitted
// to a window or a person asks for it, counted by Revision, and the same
// after a restart, so that providers' prompt caches keep hitting.
type View struct {
	Revision int     `json:"rev,omitzero"`     // changes of messages count if theirs is not above it
	Start    Point   `json:"start,omitzero"`   // the first message shown; zero: all are. Pinned ones before it are shown too
	Keep     []Point `json:"keep,omitzero"`    // messages before Start that are shown too: what a turn that ran needs
	Summary  string  `json:"summary,omitzero"` // URI text of the message that stands for what lies before Start
	Clip     int     `json:"clip,omitzero"`    // tool results of more bytes are shown by their beginning and a reference; 0: whole
	Room     []Room  `json:"room,omitzero"`    // what was left out to make room, the oldest first
}

// Room is a decision to leave out earlier results of all tools but some. It
// is one record, however many results it covers. A pinned result stays, and so
// does one that a person has made active since.
type Room struct {
	Keep     []string  `json:"keep"` // the tools whose results stay, sorted
	Upto     int64     `json:"p"`    // it covers the results up to this position
	Results  int       `json:"n"`    // how many results left the view
	At       time.Time `json:"at"`
	Actor    string    `json:"actor"`
	Undone   time.Time `json:"undone,omitzero"`
	UndoneBy string    `json:"undone_by,omitzero"`
}

// StrategySequence is the strategy of changes that make room (Room).
const StrategySequence = "sequence"

// LeftOut returns how an active message of the branch was left out to make
// room; false where it was not. The mark may be nil.
func (b *Branch) LeftOut(m *message.Message, pos int64, k *Mark) (Change, bool) {
	if len(b.View.Room) == 0 {
		return Change{}, false
	}
	r := m.Result()
	if r == nil || r.Status != message.OK {
		return Change{}, false
	}
	for _, room := range slices.Backward(b.View.Room) {
		if !room.Undone.IsZero() || pos > room.Upto || slices.Contains(room.Keep, r.Name) {
			continue
		}
		since := func(c Change) bool { return c.State == Active && c.Undone.IsZero() && !c.At.Before(room.At) }
		if k != nil && slices.ContainsFunc(k.Changes, since) {
			return Change{}, false
		}
		return Change{State: Invalidated, At: room.At, Actor: room.Actor, Strategy: StrategySequence,
			Reason: "left out to make room: call " + r.Name + " again if it is needed"}, true
	}
	return Change{}, false
}

// Spans returns all spans of the branch in order; the last one is its own, open.
func (b *Branch) Spans() []Span {
	return append(slices.Clone(b.Rope), Span{Branch: b.ID, From: b.Open})
}

// Holds reports whether a position of a branch's list is on this branch.
func (b *Branch) Holds(branch string, pos int64) bool {
	return b.PlaceOf(branch, pos).Span >= 0
}

// Place is where a position stands on a branch, in its order.
type Place struct {
	Span int // -1: the branch does not hold it
	Pos  int64
}

// Before reports whether p stands before q; what is not on the branch stands
// before nothing, and all before it.
func (p Place) Before(q Place) bool {
	if p.Span < 0 || q.Span < 0 {
		return false
	}
	return p.Span < q.Span || p.Span == q.Span && p.Pos < q.Pos
}

// Compare orders places on a branch.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Span, q.Span), cmp.Compare(p.Pos, q.Pos))
}

// PlaceOf returns where a position of a branch's list stands on this branch.
func (b *Branch) PlaceOf(branch string, pos int64) Place {
	for i, s := range b.Rope {
		if s.Holds(branch, pos) {
			return Place{i, pos}
		}
	}
	if branch == b.ID && pos >= b.Open {
		return Place{len(b.Rope), pos}
	}
	return Place{-1, pos}
}

// Start returns where the view begins; its Span is -1 where all is shown.
func (b *Branch) Start() Place {
	return b.PlaceOf(b.View.Start.Branch, b.View.Start.Pos)
}

// Cut returns the spans up to and including a position (or only what stands
// before it); false where the branch does not hold it.
func (b *Branch) Cut(branch string, pos int64, including bool) ([]Span, bool) {
	spans := b.Spans()
	for i, s := range spans {
		if !s.Holds(branch, pos) {
			continue
		}
		s.To = pos
		if !including {
			s.To = pos - 1
		}
		out := slices.Clone(spans[:i])
		if s.To >= s.From && s.To > 0 {
			out = append(out, s)
		}
		return out, true
	}
	return nil, false
}

// Validity says whether a message still holds.
type Validity string

// The validities. The active one is the empty word in stored forms.
const (
	Active      Validity = "active"
	Invalidated Validity = "invalidated" // a tool says that the result is obsolete: its content is replaced by one line
	Superseded  Validity = "superseded"  // another message stands for it: it is not shown
	Archived    Validity = "archived"    // kept for the record: it is not shown
	Deleted     Validity = "deleted"     // a person deleted it: hidden, and erased after a while
)

// Mark is what became of a message: the changes of its validity, oldest
// first. Each holds on the histories that contain what caused it.
type Mark struct {
	Message id.ID    `json:"-"`
	Pos     int64    `json:"pos"` // the message's position
	Branch  string   `json:"in"`  // the branch in whose list it stands
	Changes []Change `json:"changes"`
}

// Change is one change of a message's validity.
type Change struct {
	State       Validity  `json:"state"` // Active: a person wants it shown in spite of an earlier Room
	At          time.Time `json:"at"`
	Actor       string    `json:"actor"`                // who: a user's name, "agent:NAME", "system"
	Tool        string    `json:"tool,omitzero"`        // the tool that caused it; empty: a person or Steward did
	Call        string    `json:"call,omitzero"`        // the call that caused it: "MESSAGE/BLOCK"
	Interaction id.ID     `json:"interaction,omitzero"` // in which it was caused
	Strategy    string    `json:"strategy,omitzero"`
	Reason      string    `json:"reason,omitzero"`
	By          id.ID     `json:"by,omitzero"`     // Superseded: the message that stands for it
	Branch      string    `json:"on,omitzero"`     // with Pos: it holds on branches that have this position
	Pos         int64     `json:"from,omitzero"`   // 0: on all (a person's decision about the message)
	Revision    int       `json:"rev,omitzero"`    // the view's revision with which it is shown; 0: at once
	Undone      time.Time `json:"undone,omitzero"` // it was rolled back
	UndoneBy    string    `json:"undone_by,omitzero"`
	Whole       bool      `json:"whole,omitzero"` // undone with all that its interaction caused, whatever the tool
	Kept        bool      `json:"kept,omitzero"`  // undone by a person's word that the message holds: what calls before that say does not count
}

// On returns the change that counts on a branch: the newest that was not
// undone and whose cause the branch holds. With shown, only changes count
// that have entered the branch's view. Without one, the message is active.
func (m *Mark) On(b *Branch, shown bool) Change {
	for _, c := range slices.Backward(m.Changes) {
		switch {
		case !c.Undone.IsZero(), c.State == Active:
		case shown && c.Revision > b.View.Revision:
		case c.Pos == 0 || b.Holds(c.Branch, c.Pos):
			return c
		}
	}
	return Change{State: Active}
}

// Trust is a person's decision that labels of a message do not count any more
// for what a model is shown of it.
type Trust struct {
	Labels []string  `json:"labels"`
	By     string    `json:"by"` // a user's name
	At     time.Time `json:"at"`
}

// Pin keeps a message in view whatever the window.
type Pin struct {
	Message id.ID     `json:"-"`
	Branch  string    `json:"in"`
	Pos     int64     `json:"pos"`
	By      string    `json:"by"` // a user's name
	At      time.Time `json:"at"`
}
