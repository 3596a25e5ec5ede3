// Package agent implements the agent loop: ask the model, run the tools that it calls, and
// ask again, until it answers. Each message is durable before it is acted on.
package agent

import (
	"context"
	"time"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
)

// Definition defines an agent: its prompt, its model and tools, and its limits.
type Definition struct {
	Name     string
	Version  string
	Prompt   string
	Model    string // an alias or "provider/model"
	Sampling llm.Sampling
	Tools    []string // names and globs; empty: all tools
	Limits   Limits
}

// Limits bound a run. A zero value means the default, or unbounded if there is no default.
type Limits struct {
	Iterations int           // model calls; DefaultIterations
	Calls      int           // tool calls that are run per reply; DefaultCalls
	Time       time.Duration // spent in the model and in tools, not counting waits for a person; DefaultTime
	Budget     llm.Budget    // tokens and cost of all model calls; zero: as configured for a request
}

// The defaults of Limits.
const (
	DefaultIterations = 20
	DefaultCalls      = 64
	DefaultTime       = 15 * time.Minute
)

// maxTurn bounds the total size of the model's replies and the tool results of one turn,
// in bytes.
const maxTurn = 64 << 20

// Journal stores the loop's messages: the open session of a conversation.
type Journal interface {
	Transcript() *llm.Transcript
	Labels() message.Labels
	// Sources returns whose private data the model is shown; see message.Common.
	Sources() []string
	// Append makes messages durable in order, and returns their log positions.
	Append(ctx context.Context, msgs ...*message.Message) ([]uint64, error)
	// Finish ends the run and stores its last message, if any.
	Finish(ctx context.Context, final *message.Message, outcome, code string) (uint64, error)
}

// Fitter keeps the context of a model within its window.
type Fitter interface {
	// Over reports whether the context is too large. It is cheap.
	Over(ctx context.Context) bool
	// Fit reduces the context, between commits. refused means that the model itself rejected
	// it as too long. Fit reports whether it is smaller now.
	Fit(ctx context.Context, refused bool) (bool, error)
}

// Call is one tool call for Job.Call to run.
type Call struct {
	message.Call
	Labels message.Labels // of everything the model had been shown
	// Progress reports the progress of the call before it has a result.
	Progress func(Progress)
}

// Progress is one step of a call.
type Progress struct {
	Status   string  // "running", "awaiting_approval"
	Args     []byte  // canonical arguments, once known
	Approval any     // what the server needs to ask a person; opaque to this package
	Message  string  // one line about how far it is
	Fraction float64 // likewise, above 0 to 1; 0 or less: unknown
}

// Job is the work of one run.
type Job struct {
	Journal Journal
	Model   llm.Model
	// View returns the transcript as the model is shown it. Nil: as it is.
	View   func(*llm.Transcript) *llm.Transcript
	System string
	Tools  *llm.Toolset
	// Shown returns the tools that the model is shown, once the Fitter was asked. nil: Tools.
	Shown func() *llm.Toolset
	// Plannable are the tools that a plan may use, if the run is to plan. May be nil.
	Plannable *llm.Toolset
	Sampling  llm.Sampling
	Limits    Limits
	User      string
	Agent     string    // its path
	Lineage   []string  // the agents on whose behalf it acts, outermost first
	Approach  string    // how the request was routed; recorded on the final message
	Started   time.Time // start of the turn

	// Call runs a tool call. It always returns a result, unless it returns an error, which
	// means that nothing can be recorded any more.
	Call func(ctx context.Context, c Call) (*message.ToolResult, error)
	// Ready returns once the turn's first message is durable. Until then no event is emitted
	// and no tool runs. Nil: the message is durable already.
	Ready func() error
	// Await is called if no model is available and the turn has begun already. It returns when
	// a model can be asked again. The wait does not count towards Limits.Time. Nil: the turn
	// fails.
	Await func(ctx context.Context, why error) error
	// Begun means that the turn had begun before: it is resumed after a restart, or nobody
	// would send its request again.
	Begun bool
	// Asking is told each request to the model before it is made, and the ID that the answer will have.
	// May be nil.
	Asking func(answer id.ID, r *llm.Request)
	// Steer returns what the user has written since, at each safe point. May be nil.
	Steer func() []*message.Message
	// Emit receives the run's events, in order, from one goroutine at a time.
	Emit func(Event)
	// Meter counts what the request uses and enforces its budget. May be nil.
	Meter *llm.Meter
	// Fitter keeps what the model is shown within its window. May be nil.
	Fitter Fitter
	// Spent prices a model call that was made before a crash. May be nil.
	Spent func(model string, u message.Usage) llm.Spend
	// Below returns the usage of the turn that is in none of its messages, and of the agents
	// that were asked in it. May be nil.
	Below func(context.Context) message.Usage
	// Write is asked before each model call, and with the error of one that has failed. It
	// returns the next message (an answer, or calls) if it knows better than the model;
	// otherwise nil. May be nil.
	Write func(ctx context.Context, failed error) (*message.Message, error)
	// Review looks at an answer before it is given. If it returns a note, the model goes on
	// from there. May be nil.
	Review func(ctx context.Context, answer *message.Message) (note string)
	// Recall returns what is remembered for what a person asked, as a message with the origin
	// record.OriginMemory, before the run's first model call; nil: nothing. May be nil.
	Recall func(ctx context.Context, asked string) *message.Message
	// RecallFrom is the origin of the messages for which something is recalled; empty: record.OriginUser.
	RecallFrom string
	// Hooks are called between the run's steps.
	Hooks Hooks
}

// Request returns all that the next model call sends.
func (j *Job) Request() *llm.Request {
	tools := j.Tools
	if j.Shown != nil {
		tools = j.Shown()
	}
	seen := j.Journal.Transcript()
	if j.View != nil {
		seen = j.View(seen)
	}
	return &llm.Request{System: j.System, Transcript: seen, Tools: tools, Plannable: j.Plannable, Sampling: j.Sampling, User: j.User, Meter: j.Meter,
		Labels: j.Journal.Labels(), Agent: j.Agent, Lineage: j.Lineage}
}

// Hooks are called between the steps of a run; each may be nil. A note is a text for the
// model, which stays in the conversation. An error refuses the step and ends the run, with
// the error's code and text.
type Hooks struct {
	Begin  func(ctx context.Context, asked string) (note string, err error) // before the first model call
	Before func(ctx context.Context) (note string, err error)               // before each model call
	After  func(ctx context.Context, wrote string) error                    // after each model call, before its reply is emitted or stored
}

// OriginHook is the prefix of the origin of a hook's note; the hook's place follows.
const OriginHook = "hook:"

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events.
const (
	Delta    EventKind = iota + 1 // Stream: a piece of the message being written
	Stored                        // Message is durable at Seq
	Calling                       // CallRef, Call, Progress
	Finished                      // the run has ended: Message (may be nil), Seq, Outcome
)

// Event is one event of a run, for those who watch it.
type Event struct {
	Kind     EventKind
	ID       id.ID     // of the message being written
	Stream   llm.Event // Delta
	Message  *message.Message
	Seq      uint64
	Call     message.Call
	Progress Progress
	Outcome  Outcome
	Err      error // with OutcomeFailed
}

// Outcome is how a run ended.
type Outcome string

// The outcomes.
const (
	Answered Outcome = "answered"
	Stopped  Outcome = "stopped" // from outside
	Bounded  Outcome = "bound"   // a limit was reached; the final message says which
	Failure  Outcome = "failed"  // the model call failed
)
