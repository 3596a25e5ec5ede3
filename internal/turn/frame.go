package turn

import (
	"time"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/tool"
)

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
	FrameReset     FrameKind = "reset"       // what was shown of Message is void; it starts again or never comes
	FrameNotice    FrameKind = "notice"      // Text for the person
	FrameTask      FrameKind = "task"        // Task: the progress of a background call
	FramePlanned   FrameKind = "plan_task"   // Planned: the state of a task of a plan
	FrameOpened    FrameKind = "opened"      // a tool, an agent or an alarm began a turn: Message, Stored
	FrameMemory    FrameKind = "memory"      // Memory: what was recalled, saved, undone or forgotten; Text says it in a line
)

// Frame is one thing that a watcher of a conversation sees.
type Frame struct {
	Kind         FrameKind
	Cursor       Cursor // a Watch from here neither misses nor repeats anything
	Conversation id.ID
	Interaction  id.ID
	Message      id.ID
	Block        int
	Text         string
	Call         *CallView
	Task         *TaskView
	Planned      *PlannedView
	Memory       *MemoryView
	Stored       *message.Message // the durable message, if the frame reports one
	ClientID     string           // FrameUser
	Err          *fault.Error
	Waiting      bool // FrameNotice: the turn is waiting for its model
}

// The statuses of a call that has no result yet. With a result, it has the status of the
// result.
const (
	callWriting  = "writing" // the model is still writing its arguments
	CallRunning  = "running"
	CallAwaiting = "awaiting_approval"
)

// CallView is a tool call as it is shown to a person.
type CallView struct {
	ID       string // "MESSAGE/BLOCK": its identity
	Name     string
	Args     string  // as the model wrote them, or canonical where Approval is set
	Summary  string  // what the call does, as the work log says it; "": it has a result, or Args are no object (yet)
	Status   string  // one of the above, or the message.Status of the result
	Message  string  // progress of a running call, on one line
	Fraction float64 // progress of a running call, above 0 to 1; 0 or less: unknown
	Approval *ApprovalView
	Result   *message.ToolResult

	labels message.Labels // of the call, which decide what its Summary shows
}

// TaskView is a background call as it is shown to a person.
type TaskView struct {
	ID       id.ID
	Call     string // "MESSAGE/BLOCK": the call that began it
	Tool     string
	Status   string  // record.TaskAcknowledged, … or CallAwaiting
	Message  string  // in the tool's own words
	Fraction float64 // above 0 to 1; 0: unknown
	Approval *ApprovalView
}

// PlannedView is the state of a task of a plan while the plan is carried out.
type PlannedView struct {
	Call     string `json:"call_id"`              // that carries out the plan: "MESSAGE/BLOCK"
	Order    int    `json:"order"`                // of its making; a task comes before its subtasks
	Approval string `json:"approval_id,omitzero"` // the question that it waits for; its status is CallAwaiting

	At resource.URI `json:"-"` // the task

	// Task has, beside what every view of a request has, the agent "designed" for one that was
	// made for the task. Its tokens and cost are those of its own attempts that have ended.
	Task client.Request `json:"task"`
}

// MemoryView tells a person about facts that were recalled, saved, undone or forgotten.
type MemoryView struct {
	Did   string            `json:"did"` // client.MemoryRecalled, …
	Facts []client.FactNews `json:"facts"`
	// Passages are what the person said in earlier conversations; only with client.MemoryRecalled.
	Passages []client.SourceText `json:"passages,omitempty"`
}

// ApprovalView is a question to a person, as a conversation's frames carry it.
type ApprovalView struct {
	ID        string          `json:"id"`   // an answer names it
	Hash      string          `json:"hash"` // over everything that is shown; an answer repeats it
	Reason    string          `json:"reason,omitzero"`
	Expires   time.Time       `json:"expires,omitzero"`
	Rule      string          `json:"rule,omitzero"`      // of the policy
	Labels    []string        `json:"labels,omitempty"`   // labels of what the model was shown
	Read      []string        `json:"read,omitempty"`     // untrusted sources that the model had read in this turn
	Approvers string          `json:"approvers,omitzero"` // the group that answers; empty: the user
	Foreign   bool            `json:"foreign,omitzero"`   // the user cannot answer, only a group that the user is not in
	Preview   string          `json:"preview,omitzero"`   // what would change
	Pattern   intent.Pattern  `json:"pattern,omitzero"`   // what a standing approval would cover
	NoGrant   string          `json:"no_grant,omitzero"`  // why none can be given
	Arguments []tool.Argument `json:"arguments,omitempty"`

	Summary string         `json:"summary,omitzero"` // what the call does, in a sentence
	Why     string         `json:"why,omitzero"`     // why it is asked about
	Values  []effect.Value `json:"values,omitempty"` // arguments that neither Summary nor Preview shows
	More    int            `json:"more,omitzero"`    // how many others there are
	Widths  []effect.Width `json:"widths,omitempty"` // what a standing approval is offered for

	// Set if the call to be allowed is not this one, but one made by an agent
	// that this call asked, perhaps through others:
	Agent string `json:"agent,omitzero"` // path of that agent
	Tool  string `json:"tool,omitzero"`
	Args  string `json:"-"` // canonical
}

// ViewApproval converts a question for a frame. It returns nil for nil.
func ViewApproval(q *effect.Question) *ApprovalView {
	if q == nil {
		return nil
	}
	return &ApprovalView{ID: q.ID, Hash: q.Hash, Reason: q.Reason, Expires: q.Expires, Rule: q.Rule, Labels: q.Labels,
		Read: q.Read, Approvers: q.Approvers, Foreign: !q.Yours, Preview: q.Preview, Pattern: q.Pattern, NoGrant: q.NoGrant, Arguments: q.Arguments,
		Summary: q.Summary, Why: q.Why, Values: q.Values, More: q.More, Widths: q.Widths}
}

func callView(c message.Call, status string) CallView {
	return CallView{ID: requests.CallID(c.Ref), Name: c.Name, Args: string(c.Args), Status: status, labels: c.Labels}
}

func resultView(r *message.ToolResult, args string) CallView {
	return CallView{ID: requests.CallID(r.Call), Name: r.Name, Args: args, Status: string(r.Status), Result: r}
}

// textFrame returns the frame of a piece of text that ends at a cursor.
func textFrame(at Cursor, kind llm.Kind, text string) Frame {
	fr := Frame{Kind: FrameToken, Message: at.Message, Block: at.Block, Text: text, Cursor: at}
	if kind == llm.ReasoningDelta {
		fr.Kind = FrameReasoning
	}
	return fr
}
