// Package observe tells observers what changes in conversations: who was
// added to, whose result became obsolete, which branch is the preferred one.
// What it tells is derived from the log and says no more than that something
// has changed; the truth is in the log and the tree.
package observe

import (
	"log/slog"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Kind says what has changed.
type Kind string

// The kinds of changes.
const (
	ConversationCreated  Kind = "conversation_created"
	ConversationChanged  Kind = "conversation_changed" // title, agent, model, tools, metadata or window
	ConversationDeleted  Kind = "conversation_deleted" // hidden; erased after a while
	ConversationRestored Kind = "conversation_restored"

	InteractionOpened  Kind = "interaction_opened"
	InteractionChanged Kind = "interaction_changed" // it was merged, or another into it
	InteractionClosed  Kind = "interaction_closed"  // its run has ended; Outcome says how

	MessageAdded       Kind = "message_added"
	MessageInvalidated Kind = "message_invalidated" // a tool says that the result is obsolete
	MessageSuperseded  Kind = "message_superseded"  // By stands for it
	MessageArchived    Kind = "message_archived"
	MessageDeleted     Kind = "message_deleted"
	MessageRestored    Kind = "message_restored" // a change of its validity was undone; State says which
	MessagePinned      Kind = "message_pinned"
	MessageUnpinned    Kind = "message_unpinned"

	BranchCreated  Kind = "branch_created"  // beside the one with which a conversation begins
	BranchSwitched Kind = "branch_switched" // the conversation goes on with Branch
	BranchChanged  Kind = "branch_changed"  // another title, or another path
	BranchDeleted  Kind = "branch_deleted"
	BranchRestored Kind = "branch_restored"
	ViewRevised    Kind = "view_revised" // what a model is shown of the branch has another Revision

	Erased Kind = "erased" // the conversation, interaction, branch or message is gone for good
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{
		ConversationCreated, ConversationChanged, ConversationDeleted, ConversationRestored,
		InteractionOpened, InteractionChanged, InteractionClosed,
		MessageAdded, MessageInvalidated, MessageSuperseded, MessageArchived, MessageDeleted, MessageRestored,
		MessagePinned, MessageUnpinned,
		BranchCreated, BranchSwitched, BranchChanged, BranchDeleted, BranchRestored, ViewRevised,
		Erased,
	}
}

// Change is one change. Fields that a kind has no use for are zero. Several
// changes can come of one entry of the log; they have its number.
type Change struct {
	Seq          uint64 // of the log entry
	At           time.Time
	Kind         Kind
	Actor        string // who: a user's name, "agent:NAME" or "system"
	Request      id.ID
	URI          resource.URI // the resource whose entry it is
	Conversation id.ID
	Interaction  id.ID           // in which it was caused
	Message      id.ID           // that was added, or whose validity or pin it is
	Branch       string          // branches: its id
	Role         message.Role    // MessageAdded
	Tools        []string        // that the message calls or answers, or that caused the change. Do not modify
	Outcome      string          // InteractionClosed: "answered", …; MessageAdded: the status of a result
	Error        string          // InteractionClosed: the code, when it failed
	State        record.Validity // MessageRestored: what was undone
	Reason       string          // of a change of validity: half a sentence
	By           id.ID           // MessageSuperseded: the message that stands for it
	Revision     int             // ViewRevised
}

// Cursor is a place between changes: opaque text that stays good over
// restarts. Empty: before the first.
type Cursor string

// Now is the cursor of the moment at which it is used: what is new is told.
const Now Cursor = "now"

// Batch is what came together: changes in the order of the log, and the
// cursor behind them.
type Batch struct {
	Changes []Change
	Cursor  Cursor
}

// Options are a hub's parts and bounds. Store is needed.
type Options struct {
	Store store.Store
	Queue int           // changes that may wait for an observer; 0: 1,000
	Size  int           // changes of a batch; an entry's own are never parted; 0: 100
	Wait  time.Duration // for more changes to come, before a batch is told; 0: 50 ms
	Log   *slog.Logger  // nil: slog.Default()
}

func (o Options) settled() Options {
	if o.Queue <= 0 {
		o.Queue = 1000
	}
	if o.Size <= 0 {
		o.Size = 100
	}
	if o.Wait <= 0 {
		o.Wait = 50 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// pageSize is how many entries are read from the log at once: their bodies
// are in memory together.
func (o Options) pageSize() int { return min(o.Queue, 100) }

func cursorOf(seq uint64) Cursor { return Cursor((&store.LogQuery{}).Cursor(seq)) }

// position opens a cursor (cursor_invalid).
func (c Cursor) position() (uint64, error) {
	seq, _, err := (&store.LogQuery{After: store.Cursor(c)}).Position()
	return seq, err
}

func closing() *fault.Error {
	return fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0)
}

func slow(queue int) *fault.Error {
	return fault.New(fault.Exhausted, "observer_slow", "more than %d changes were waiting for this observer", queue).
		With("observe again from the cursor in the details: nothing is lost").Retrying(fault.RetryImmediate, 0)
}
