package runtime

import (
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/resource"
)

// Turn is what a person sends.
type Turn struct {
	Conversation id.ID  // zero: a new conversation
	ClientID     string // the client's own id of the message: sending it again does nothing twice
	Content      []message.Block
	Agent        string // the path of an agent, from now on the conversation's; empty: the conversation's, else "assistant"
	Model        string // "provider/model" or an alias; empty: the conversation's, the agent's
	Sampling     llm.Sampling
	Tools        []string          // of a new conversation: names and globs that narrow its agent's tools
	Metadata     map[string]string // of a new conversation
	Attended     bool              // a person is there who can be asked for approvals
	Steer        bool              // if a run is on: reach it at its next safe point instead of waiting

	// Replace is a user message that this turn's message is written in place
	// of, on a branch of its own; the old one is kept.
	Replace id.ID
	// Regenerate is an answer that is to be given anew, on a branch of its
	// own; the old one is kept. Then there is no Content.
	Regenerate id.ID

	fresh   bool // the conversation's id was made for this turn
	derived bool // it was derived from something known: the conversation may exist

	// Of turns that are not from outside:
	origin  string          // who opens it: "tool:NAME", "agent:PATH"; empty: the user
	labels  message.Labels  // of what it tells
	sources []string        // whose private data that is
	opens   id.ID           // the interaction that it opens; zero: a new one
	asked   request.Context // its lineage; zero: it is nobody's child
	above   resource.URI    // the request that the conversation, where it is made, answers
	under   *llm.Meter      // of the turn that asks; nil: none does
}

// Accepted says that a turn's user message is durable.
type Accepted struct {
	Conversation id.ID
	Interaction  id.ID
	Message      id.ID    // zero where an answer is regenerated
	Branch       string   // on which it stands
	Seq          uint64   // of its log entry
	Duplicate    bool     // this client id had been accepted before
	Hidden       []string // names of secrets that stood in the message, and do not any more
}

// Cursor is how far a watcher has come: everything up to the log position,
// and of the message in flight so many bytes of a block.
type Cursor struct {
	Seq     uint64
	Message id.ID // zero: none in flight was seen
	Block   int
	Offset  int
}

// FrameKind is the kind of a Frame.
type FrameKind string

// The kinds of frames, in the order in which a turn shows them.
const (
	FrameUser      FrameKind = "user"        // a user message is durable: Message, Stored
	FrameToken     FrameKind = "token"       // Text of a text block
	FrameReasoning FrameKind = "reasoning"   // Text of a reasoning block
	FrameCall      FrameKind = "tool_call"   // Call; sent again when its status changes
	FrameResult    FrameKind = "tool_result" // Call with its Result
	FrameComplete  FrameKind = "complete"    // the turn is answered: Message, Stored
	FrameError     FrameKind = "error"       // the turn failed: Err
	FrameReset     FrameKind = "reset"       // what was shown of Message is void; it begins anew or never comes
	FrameNotice    FrameKind = "notice"      // Text for the person
	FrameTask      FrameKind = "task"        // Task: how far a call is that goes on in the background
	FrameOpened    FrameKind = "opened"      // a turn was begun by a tool or an agent: Message, Stored
)

// Frame is one thing that a watcher of a conversation sees.
type Frame struct {
	Kind         FrameKind
	Cursor       Cursor // resume from here and nothing is missed or told twice
	Conversation id.ID
	Interaction  id.ID
	Message      id.ID
	Block        int
	Text         string
	Call         *CallView
	Task         *TaskView
	Stored       *message.Message // the durable message, where the frame tells of one
	ClientID     string           // FrameUser
	Err          *fault.Error
	Waiting      bool // FrameNotice: the turn waits for its model
}

// The statuses of a call before it has a result; afterwards it is the result's.
const (
	callWriting  = "writing" // the model is still writing its arguments
	callRunning  = "running"
	callAwaiting = "awaiting_approval"
)

// CallView is a tool call as a person is shown it.
type CallView struct {
	ID       string // "MESSAGE/BLOCK": its identity
	Name     string
	Args     string  // as the model wrote them, or canonical where Approval is set
	Status   string  // one of the above, or the message.Status of the result
	Message  string  // how far it is, on one line; of a call that runs
	Fraction float64 // likewise, above 0 to 1; 0 or less: not known
	Approval *ApprovalView
	Result   *message.ToolResult
}
