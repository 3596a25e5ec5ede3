package events

import (
	"fmt"
	"path"
	"slices"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
)

// ChangeKind is the kind of a Change.
type ChangeKind string

// The kinds of changes.
const (
	ConversationCreated  ChangeKind = "conversation_created"
	ConversationChanged  ChangeKind = "conversation_changed" // title, agent, model, tools, metadata or window
	ConversationDeleted  ChangeKind = "conversation_deleted" // hidden; erased later
	ConversationRestored ChangeKind = "conversation_restored"

	InteractionOpened  ChangeKind = "interaction_opened"
	InteractionChanged ChangeKind = "interaction_changed" // it was merged, or another into it
	InteractionClosed  ChangeKind = "interaction_closed"  // its run has ended; Outcome says how

	MessageAdded       ChangeKind = "message_added"
	MessageInvalidated ChangeKind = "message_invalidated" // a tool reports that the result is obsolete
	MessageSuperseded  ChangeKind = "message_superseded"  // By replaces it
	MessageArchived    ChangeKind = "message_archived"
	MessageDeleted     ChangeKind = "message_deleted"
	MessageRestored    ChangeKind = "message_restored" // a change of its validity was undone; State says which one
	MessagePinned      ChangeKind = "message_pinned"
	MessageUnpinned    ChangeKind = "message_unpinned"

	BranchCreated  ChangeKind = "branch_created"  // in addition to a conversation's first branch
	BranchSwitched ChangeKind = "branch_switched" // the conversation continues on Branch
	BranchChanged  ChangeKind = "branch_changed"  // another title, or another path
	BranchDeleted  ChangeKind = "branch_deleted"
	BranchRestored ChangeKind = "branch_restored"
	ViewRevised    ChangeKind = "view_revised" // what a model sees of the branch has a new Revision

	Erased ChangeKind = "erased" // the conversation, interaction, branch or message was removed permanently
)

// ChangeKinds returns all kinds.
func ChangeKinds() []ChangeKind {
	return []ChangeKind{
		ConversationCreated, ConversationChanged, ConversationDeleted, ConversationRestored,
		InteractionOpened, InteractionChanged, InteractionClosed,
		MessageAdded, MessageInvalidated, MessageSuperseded, MessageArchived, MessageDeleted, MessageRestored,
		MessagePinned, MessageUnpinned,
		BranchCreated, BranchSwitched, BranchChanged, BranchDeleted, BranchRestored, ViewRevised,
		Erased,
	}
}

// Change is one change of a conversation. It says only that something has changed; the state is in
// the log and the tree. docs/reference/websocket.md describes its JSON. Fields that do not apply to
// a kind are zero. One entry of the log can cause several changes, which share its number.
type Change struct {
	Kind         ChangeKind      `json:"kind"`
	Seq          uint64          `json:"seq"` // of the log entry
	At           time.Time       `json:"at"`
	Actor        string          `json:"actor,omitzero"` // who: a user's name, "agent:NAME" or "system"
	Request      id.ID           `json:"request_id,omitzero"`
	Conversation id.ID           `json:"conversation_id,omitzero"`
	Interaction  id.ID           `json:"interaction_id,omitzero"` // that caused the change
	Message      id.ID           `json:"message_id,omitzero"`     // that was added, or whose validity or pin changed
	Branch       string          `json:"branch,omitzero"`         // the id of the branch
	Role         message.Role    `json:"role,omitzero"`           // MessageAdded
	Tools        []string        `json:"tools,omitempty"`         // that the message calls or answers, or that caused the change. Do not modify
	Outcome      string          `json:"outcome,omitzero"`        // InteractionClosed: "answered", …; MessageAdded: the status of a result
	Error        string          `json:"error,omitzero"`          // InteractionClosed: the code, when it failed
	State        record.Validity `json:"state,omitzero"`          // MessageRestored: what was undone
	Reason       string          `json:"reason,omitzero"`         // of a change of validity: half a sentence
	By           id.ID           `json:"by,omitzero"`             // MessageSuperseded: the message that replaces it
	Revision     int             `json:"revision,omitzero"`       // ViewRevised
	URI          resource.URI    `json:"uri"`                     // the resource of the log entry
}

// ChangeFilter selects changes. A change matches if it matches every list that is not empty, so the
// zero ChangeFilter matches all changes.
type ChangeFilter struct {
	Conversations []id.ID  // a conversation that is missing or belongs to another user has no changes
	Interactions  []id.ID  // that caused the change
	Tools         []string // names and globs such as math.*; a change without a tool does not match
	Kinds         []string // names of kinds and globs such as message_*
}

// check refuses a filter that can never match anything (filter_invalid).
func (f *ChangeFilter) check() error {
	if n := len(f.Conversations) + len(f.Interactions) + len(f.Tools) + len(f.Kinds); n > maxNames {
		return tooManyNames()
	}
	for _, glob := range f.Tools {
		if _, err := path.Match(glob, ""); err != nil || glob == "" {
			return invalid("invalid pattern for tool names %q", glob).WithHint("write a name, or a glob such as math.*")
		}
	}
	for _, glob := range f.Kinds {
		if !slices.ContainsFunc(ChangeKinds(), func(k ChangeKind) bool { return matches(glob, string(k)) }) {
			return invalid("unknown kind of changes %.80q", glob).WithHint("use %s", fmt.Sprint(ChangeKinds()))
		}
	}
	return nil
}

func matches(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

// fits reports whether a change matches the filter. It ignores the conversation.
func (f *ChangeFilter) fits(c *Change) bool {
	return (len(f.Interactions) == 0 || slices.Contains(f.Interactions, c.Interaction)) &&
		anyMatches(f.Kinds, string(c.Kind)) && anyMatches(f.Tools, c.Tools...)
}

// anyMatches reports whether one of the names matches one of the globs, or there are no globs.
func anyMatches(globs []string, names ...string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return matches(glob, name) })
	})
}
