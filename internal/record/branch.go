package record

import (
	"cmp"
	"slices"
	"time"

	"steward/internal/id"
	"steward/internal/message"
)

// MainBranch is the ID of the branch that a conversation begins with.
const MainBranch = "main"

// Branch is one path through a conversation. Messages are never moved or copied. A branch
// is a rope: a sequence of spans of the lists in which messages were written. The last
// span is open, and new messages of the branch are written there. Positions count up
// across all branches of a conversation, so a position identifies one message.
type Branch struct {
	ID      string    `json:"-"`
	Title   string    `json:"title,omitzero"`
	Created time.Time `json:"created,omitzero"`
	Used    time.Time `json:"used,omitzero"`   // when it was last switched to
	Parent  string    `json:"parent,omitzero"` // the branch that it was created from
	At      int64     `json:"at,omitzero"`     // the position after which it leaves its parent; 0: at the beginning
	Rope    []Span    `json:"rope,omitzero"`   // the closed spans; the branch's own open span follows
	Open    int64     `json:"open,omitzero"`   // where its open span starts; earlier own messages are in Rope or off the branch
	View    View      `json:"view,omitzero"`
	Packed  Point     `json:"packed,omitzero"` // messages before this point are stored compactly
	Deleted time.Time `json:"deleted,omitzero"`
}

// Point is a position in a branch's list.
type Point struct {
	Branch string `json:"b"`
	Pos    int64  `json:"p"`
}

// Span is a part of the list of messages written on a branch.
type Span struct {
	Branch string `json:"b"`
	From   int64  `json:"f,omitzero"` // positions >= From
	To     int64  `json:"t,omitzero"` // positions <= To; 0: no upper bound
}

// Holds reports whether the span contains a position of a branch's list.
func (s Span) Holds(branch string, pos int64) bool {
	return s.Branch == branch && pos >= s.From && (s.To == 0 || pos <= s.To)
}

// View defines which part of a branch a model is shown. It changes when it is fitted to a
// window or when a person asks for it, and each change increments Revision. It is the same
// after a restart, so that providers' prompt caches stay valid.
type View struct {
	Revision int     `json:"rev,omitzero"`     // changes of messages count if their revision is not above it
	Start    Point   `json:"start,omitzero"`   // the first message shown, apart from pins; zero: all are shown
	Keep     []Point `json:"keep,omitzero"`    // other messages before Start that a running turn needs
	Summary  string  `json:"summary,omitzero"` // URI text of the message that replaces everything before Start
	Clip     int     `json:"clip,omitzero"`    // longer tool results (bytes) are shown shortened, with a reference; 0: whole
	Room     []Room  `json:"room,omitzero"`    // what was left out to make room, oldest first
}

// Room is a decision to leave out earlier results of all queries except some. It is one
// record, however many results it covers. A pinned result stays, and so does a result that
// a person has made active since.
type Room struct {
	Keep     []string  `json:"keep"` // the tools whose results stay, all actions among them, sorted
	Upto     int64     `json:"p"`    // it covers the results up to this position
	Results  int       `json:"n"`    // how many results were removed from the view
	At       time.Time `json:"at"`
	Actor    string    `json:"actor"`
	Undone   time.Time `json:"undone,omitzero"`
	UndoneBy string    `json:"undone_by,omitzero"`
}

// StrategySequence is the Strategy of changes that make room (see Room).
const StrategySequence = "sequence"

// LeftOut returns the change by which an active message of the branch was left out to make
// room. It returns false if the message was not left out. The mark may be nil.
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
			Reason: "left out to make room"}, true
	}
	return Change{}, false
}

// Spans returns all spans of the branch in order. The last one is its own, open span.
func (b *Branch) Spans() []Span {
	return append(slices.Clone(b.Rope), Span{Branch: b.ID, From: b.Open})
}

// Holds reports whether a position of a branch's list is on this branch.
func (b *Branch) Holds(branch string, pos int64) bool {
	return b.PlaceOf(branch, pos).Span >= 0
}

// Place is where a position is on a branch, in the branch's order.
type Place struct {
	Span int // -1: the position is not on the branch
	Pos  int64
}

// Before reports whether p comes before q. It returns false if either is not on the
// branch.
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

// PlaceOf returns the place of a position of a branch's list on this branch.
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

// Start returns the place where the view begins. Its Span is -1 if everything is shown.
func (b *Branch) Start() Place {
	return b.PlaceOf(b.View.Start.Branch, b.View.Start.Pos)
}

// Cut returns the spans up to a position, with or without the position itself. It returns
// false if the position is not on the branch.
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

// Validity says whether a message is still valid.
type Validity string

// The validities. Stored forms may contain an empty string for Active.
const (
	Active      Validity = "active"
	Invalidated Validity = "invalidated" // a tool says the result is obsolete: one line replaces its content
	Superseded  Validity = "superseded"  // another message replaces it: it is not shown
	Archived    Validity = "archived"    // kept for the record: it is not shown
	Deleted     Validity = "deleted"     // a person deleted it: hidden, and erased after a while
)

// Mark records what happened to a message: the changes of its validity, oldest first. A
// change applies only to branches that contain what caused it.
type Mark struct {
	Message id.ID    `json:"-"`
	Pos     int64    `json:"pos"` // the message's position
	Branch  string   `json:"in"`  // the branch whose list holds it
	Changes []Change `json:"changes"`
}

// Change is one change of a message's validity.
type Change struct {
	State       Validity  `json:"state"` // Active: a person wants it shown despite an earlier Room
	At          time.Time `json:"at"`
	Actor       string    `json:"actor"`                // a user's name, "agent:NAME" or "system"
	Tool        string    `json:"tool,omitzero"`        // the tool that caused it; empty: a person or Steward
	Call        string    `json:"call,omitzero"`        // the call that caused it: "MESSAGE/BLOCK"
	Interaction id.ID     `json:"interaction,omitzero"` // the interaction in which it was caused
	Strategy    string    `json:"strategy,omitzero"`
	Reason      string    `json:"reason,omitzero"`
	By          id.ID     `json:"by,omitzero"`     // Superseded: the message that replaces it
	Branch      string    `json:"on,omitzero"`     // with Pos: the change applies to branches that hold this position
	Pos         int64     `json:"from,omitzero"`   // 0: applies to all branches (a person decided about the message)
	Revision    int       `json:"rev,omitzero"`    // the view revision from which it applies; 0: at once
	Undone      time.Time `json:"undone,omitzero"` // when it was rolled back
	UndoneBy    string    `json:"undone_by,omitzero"`
	Whole       bool      `json:"whole,omitzero"` // undone with everything its interaction caused, whatever the tool
	Kept        bool      `json:"kept,omitzero"`  // undone because a person said that the message is valid: earlier calls no longer count
}

// On returns the change that applies on a branch: the newest one that was not undone and
// whose cause is on the branch. With shown, it considers only changes that have entered
// the branch's view. If there is none, the message is Active.
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

// Trust is a person's decision that some labels of a message no longer count when a model
// is shown it.
type Trust struct {
	Labels []string  `json:"labels"`
	By     string    `json:"by"` // a user's name
	At     time.Time `json:"at"`
}

// Pin keeps a message in view, whatever the window.
type Pin struct {
	Message id.ID     `json:"-"`
	Branch  string    `json:"in"`
	Pos     int64     `json:"pos"`
	By      string    `json:"by"` // a user's name
	At      time.Time `json:"at"`
}
