// Package observe tells observers what changes in conversations: who was
// added to, whose result became obsolete, which branch is the preferred one.
// What it tells is derived from the log and says no more than that something
// has changed; the truth is in the log and the tree.
package observe

import (
	"log/slog"
	"time"

	"steward/internal/follow"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
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

// Change is one change; its JSON is that of docs/websocket.md. Fields that a
// kind has no use for are zero. Several changes can come of one entry of the
// log; they have its number.
type Change struct {
	Kind         Kind            `json:"kind"`
	Seq          uint64          `json:"seq"` // of the log entry
	At           time.Time       `json:"at"`
	Actor        string          `json:"actor,omitzero"` // who: a user's name, "agent:NAME" or "system"
	Request      id.ID           `json:"request_id,omitzero"`
	Conversation id.ID           `json:"conversation_id,omitzero"`
	Interaction  id.ID           `json:"interaction_id,omitzero"` // in which it was caused
	Message      id.ID           `json:"message_id,omitzero"`     // that was added, or whose validity or pin it is
	Branch       string          `json:"branch,omitzero"`         // branches: its id
	Role         message.Role    `json:"role,omitzero"`           // MessageAdded
	Tools        []string        `json:"tools,omitempty"`         // that the message calls or answers, or that caused the change. Do not modify
	Outcome      string          `json:"outcome,omitzero"`        // InteractionClosed: "answered", …; MessageAdded: the status of a result
	Error        string          `json:"error,omitzero"`          // InteractionClosed: the code, when it failed
	State        record.Validity `json:"state,omitzero"`          // MessageRestored: what was undone
	Reason       string          `json:"reason,omitzero"`         // of a change of validity: half a sentence
	By           id.ID           `json:"by,omitzero"`             // MessageSuperseded: the message that stands for it
	Revision     int             `json:"revision,omitzero"`       // ViewRevised
	URI          resource.URI    `json:"uri"`                     // the resource whose entry it is
}

// Cursor is a position between changes; an empty one is before the first.
type Cursor = follow.Cursor

// Now is the cursor of the moment at which it is used: what is new is told.
const Now = follow.Now

// Batch is what came together: changes in the order of the log, those of one
// entry never parted, and the cursor behind them.
type Batch struct {
	Changes []Change
	Cursor  Cursor
}

// Hub tells a node's changes to its observers. Safe for concurrent use.
type Hub struct {
	follow *follow.Log
	log    *slog.Logger
}

// New returns a hub. It costs nothing until somebody observes.
func New(f *follow.Log, log *slog.Logger) *Hub { return &Hub{f, log} }
