package record

import (
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
)

// TypeRequest is the type of a Request's resource.
const TypeRequest = "common.Request"

// TermChildren finds the conversations that agents hold on behalf of another conversation,
// by that conversation's ID.
const TermChildren = "children"

// The kinds of recorded requests. A turn is a request too, and its ID is that of its
// interaction. It is recorded as a request only if it led to one of the others; until then
// its run holds everything.
const (
	RequestAgent = "agent" // a child agent was asked
	RequestTask  = "task"  // a tool keeps working after its call was answered
	RequestTurn  = "turn"  // a turn that was answered but has others to wait for
	RequestCall  = "call"  // a tool was called from outside, without a conversation
)

// The states of a Request's resource while something is outstanding. The state is empty
// once the request is closed.
const (
	RequestOpen     = "open"     // not answered yet
	RequestAnswered = "answered" // answered, but what it led to is not settled yet
)

// The steps of a task as they are reported: the status values of envelopes.
const (
	TaskAcknowledged = "acknowledged"
	TaskRunning      = "running"
	TaskCompleted    = "completed"
	TaskError        = "error"
)

// The reasons for which a task concerns an action.
const (
	WishQueued  = "queued"  // it was queued in the turn, and is performed when the turn ends
	WishRetry   = "retry"   // a person wants it retried
	WishUndo    = "undo"    // a person wants it undone
	WishResolve = "resolve" // a person has said whether it was done
)

// Request is a unit of work below a turn. Each change to it is an entry in the log. It is
// stored below the interaction of the turn that led to it.
type Request struct {
	ID       id.ID       `json:"-"`
	Parent   id.ID       `json:"parent,omitzero"`
	Root     id.ID       `json:"root,omitzero"` // the outside turn that this request serves
	Kind     string      `json:"kind"`
	Agent    string      `json:"agent,omitzero"` // path of the agent that was asked (RequestAgent), or else that asks
	Tool     string      `json:"tool,omitzero"`
	Call     message.Ref `json:"call,omitzero"` // the call that made the request
	CallID   string      `json:"call_id,omitzero"`
	Args     string      `json:"args,omitzero"` // canonical JSON; RequestTask, RequestCall
	User     string      `json:"user"`
	Attended bool        `json:"attended,omitzero"`
	Labels   uint8       `json:"labels,omitzero"` // of everything the asking model had been shown
	// Lineage lists the agents on whose behalf Agent acts, outermost first. Set for
	// RequestAgent and RequestTask.
	Lineage []string `json:"lineage,omitzero"`

	// RequestAgent: the conversation and the interaction in which the child agent works.
	Conversation id.ID `json:"conversation,omitzero"`
	Interaction  id.ID `json:"interaction,omitzero"`

	Status   string        `json:"status,omitzero"` // RequestTask: the last step
	Message  string        `json:"message,omitzero"`
	Progress float64       `json:"progress,omitzero"` // 0 to 1
	Created  time.Time     `json:"created"`
	Answered time.Time     `json:"answered,omitzero"`
	Closed   time.Time     `json:"closed,omitzero"`
	Outcome  string        `json:"outcome,omitzero"` // as in Run, or a message.Status
	Error    string        `json:"error,omitzero"`   // the error code, if it failed
	Usage    message.Usage `json:"usage,omitzero"`   // of the request and everything below it, once closed
	Cost     float64       `json:"cost,omitzero"`    // US dollars, likewise
	Result   []byte        `json:"result,omitzero"`  // RequestTask: the encoded result, until it has been reported
	Told     bool          `json:"told,omitzero"`    // RequestTask: the interaction that reports the result is durable

	// RequestTask: the URI text of the intent that the task concerns, and the reason (Wish).
	// Empty: the task is a call that continues by itself.
	Intent string `json:"intent,omitzero"`
	Wish   string `json:"wish,omitzero"`
}

// RequestURI returns the URI of a request below a turn.
func RequestURI(conv, inter, req id.ID) resource.URI {
	return InteractionURI(conv, inter).ChildID(TypeRequest, req)
}

// AskedConversation returns the ID of the conversation in which a child agent answers a
// call. It is always the same for the same call.
func AskedConversation(call message.Ref) id.ID { return id.Derive("ask", call.String()) }

// TaskID returns the ID of the task that a call turns into.
func TaskID(call message.Ref) id.ID { return id.Derive("task", call.String()) }
