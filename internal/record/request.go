package record

import (
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
)

// TypeRequest is the type of a Request's resource.
const TypeRequest = "common.Request"

// TermChildren finds the conversations that agents hold on behalf of another
// one, by its id.
const TermChildren = "children"

// The kinds of requests that are recorded. A turn is a request too: its id is
// its interaction's, and as long as it led to none of these, its run tells all
// that there is to tell.
const (
	RequestAgent = "agent" // a child agent was asked
	RequestTask  = "task"  // a tool works on after its call was answered
	RequestTurn  = "turn"  // a turn that was answered and had others to wait for
	RequestCall  = "call"  // a tool was called from outside, without a conversation
)

// The states of a Request's resource while there is something to wait for;
// empty once it is closed.
const (
	RequestOpen     = "open"     // not answered yet
	RequestAnswered = "answered" // answered; what it led to is not settled yet
)

// The steps of a task, as they are told: the status words of envelopes.
const (
	TaskAcknowledged = "acknowledged"
	TaskRunning      = "running"
	TaskCompleted    = "completed"
	TaskError        = "error"
)

// Why a task is about an action.
const (
	WishQueued  = "queued"  // it was queued in the turn, and is done when that ends
	WishRetry   = "retry"   // a person wants it tried again
	WishUndo    = "undo"    // a person wants it taken back
	WishResolve = "resolve" // a person has said whether it was done
)

// Request is a unit of asked work below a turn. Each change of it is an entry
// of the log. It is kept below the interaction of the turn that led to it.
type Request struct {
	ID       id.ID       `json:"-"`
	Parent   id.ID       `json:"parent,omitzero"`
	Root     id.ID       `json:"root,omitzero"` // the turn from outside that all this is for
	Kind     string      `json:"kind"`
	Agent    string      `json:"agent,omitzero"` // RequestAgent: the path of who was asked; else of who asks
	Tool     string      `json:"tool,omitzero"`
	Call     message.Ref `json:"call,omitzero"` // that asked
	CallID   string      `json:"call_id,omitzero"`
	Args     string      `json:"args,omitzero"` // canonical JSON; RequestTask, RequestCall
	User     string      `json:"user"`
	Attended bool        `json:"attended,omitzero"`
	Labels   uint8       `json:"labels,omitzero"` // of what the asking model had been shown
	// Lineage are the agents on whose behalf Agent acts, the outermost first:
	// RequestAgent, RequestTask.
	Lineage []string `json:"lineage,omitzero"`

	// RequestAgent: the conversation and the interaction in which the child
	// does its work.
	Conversation id.ID `json:"conversation,omitzero"`
	Interaction  id.ID `json:"interaction,omitzero"`

	Status   string        `json:"status,omitzero"` // RequestTask: the last step
	Message  string        `json:"message,omitzero"`
	Progress float64       `json:"progress,omitzero"` // 0 to 1
	Created  time.Time     `json:"created"`
	Answered time.Time     `json:"answered,omitzero"`
	Closed   time.Time     `json:"closed,omitzero"`
	Outcome  string        `json:"outcome,omitzero"` // as in Run, or a message.Status
	Error    string        `json:"error,omitzero"`   // the code, when it failed
	Usage    message.Usage `json:"usage,omitzero"`   // of its own and all below it, once closed
	Cost     float64       `json:"cost,omitzero"`    // US dollars, likewise
	Result   []byte        `json:"result,omitzero"`  // RequestTask: the encoded result, until it has been told
	Told     bool          `json:"told,omitzero"`    // RequestTask: the interaction that tells of the result is durable

	// RequestTask: the URI text of the intent of the action that it is about,
	// and why it is; empty: it is a call that goes on by itself.
	Intent string `json:"intent,omitzero"`
	Wish   string `json:"wish,omitzero"`
}

// RequestURI returns the URI of a request below a turn.
func RequestURI(conv, inter, req id.ID) resource.URI {
	return InteractionURI(conv, inter).ChildID(TypeRequest, req)
}

// AskedConversation returns the id of the conversation in which a child agent
// answers a call: always the same for the same call.
func AskedConversation(call message.Ref) id.ID { return id.Derive("ask", call.String()) }

// TaskID returns the id of the task that a call becomes.
func TaskID(call message.Ref) id.ID { return id.Derive("task", call.String()) }
