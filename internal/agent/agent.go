// Package agent is the loop: ask the model, run the tools that it calls, ask
// again, until it answers. Each message is durable before it is acted on.
package agent

import (
	"context"
	"time"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
)

// Definition is an agent: what it is told, which model and tools it has, and
// its limits.
type Definition struct {
	Name     string
	Version  string
	Prompt   string
	Model    string // an alias or "provider/model"
	Sampling llm.Sampling
	Tools    []string // names and globs; empty: all
	Limits   Limits
}

// Limits bound a run. Zero values mean the defaults; those without a default
// are then unbounded.
type Limits struct {
	Iterations int           // model calls; DefaultIterations
	Calls      int           // tool calls of one reply that are run; DefaultCalls
	Time       time.Duration // in the model and in tools, waiting for a person not counted; DefaultTime
	Budget     llm.Budget    // tokens and cost of all its model calls; zero: as configured for a request
}

// The defaults of Limits.
const (
	DefaultIterations = 20
	DefaultCalls      = 64
	DefaultTime       = 15 * time.Minute
)

// maxTurn bounds the bytes that the model's replies and the results of one turn
// have together.
const maxTurn = 64 << 20

// Journal is where the loop's messages go: a conversation's open session.
type Journal interface {
	Transcript() *llm.Transcript
	Labels() message.Labels
	// Sources returns whose private data the model is shown; see message.Common.
	Sources() []string
	// Append makes messages durable in order; their log positions.
	Append(ctx context.Context, msgs ...*message.Message) ([]uint64, error)
	// Finish ends the run with its last message, if any.
	Finish(ctx context.Context, final *message.Message, outcome, code string) (uint64, error)
}

// Fitter keeps what a model is shown within its window.
type Fitter interface {
	// Over reports, cheaply, whether it does not fit.
	Over(ctx context.Context) bool
	// Fit fits it, between commits. With refused the model has said itself
	// that it was too long. It reports whether it is less now.
	Fit(ctx context.Context, refused bool) (bool, error)
}

// Call is one tool call for Job.Call to run.
type Call struct {
	message.Call
	Labels message.Labels // of what the model had been shown
	// Progress tells what becomes of the call before it has a result.
	Progress func(Progress)
}

// Progress is a step of a call.
type Progress struct {
	Status   string  // "running", "awaiting_approval"
	Args     []byte  // canonical arguments, once known
	Approval any     // what the server needs to ask a person; opaque here
	Message  string  // how far it is, on one line
	Fraction float64 // likewise, above 0 to 1; 0 or less: not known
}

// Job is one run's work.
type Job struct {
	Journal  Journal
	Model    llm.Model
	System   string
	Tools    *llm.Toolset
	Sampling llm.Sampling
	Limits   Limits
	User     string
	Agent    string    // its path
	Lineage  []string  // the agents on whose behalf it acts, the outermost first
	Approach string    // how the request was routed, stamped on the final message
	Started  time.Time // of the turn

	// Call runs a tool call. It always gives a result, but for an error that
	// means that nothing can be recorded any more.
	Call func(ctx context.Context, c Call) (*message.ToolResult, error)
	// Ready returns once the turn's first message is durable. Until then
	// nothing is emitted and no tool runs. Nil: it is.
	Ready func() error
	// Await is called where no model can be asked for now and the turn has
	// begun already, and returns when one may be asked again. Its time does not
	// count. Nil: the turn fails.
	Await func(ctx context.Context, why error) error
	// Begun says that the turn had begun before: it is taken up after a restart,
	// or nobody would send what it answers again.
	Begun bool
	// Steer returns what the user said meanwhile, at each safe point. May be nil.
	Steer func() []*message.Message
	// Emit tells what happens, in order, from one goroutine at a time.
	Emit func(Event)
	// Meter counts what the request uses and enforces its budget. May be nil.
	Meter *llm.Meter
	// Fitter keeps what the model is shown within its window. May be nil.
	Fitter Fitter
	// Spent prices a model call that was made before a crash. May be nil.
	Spent func(model string, u message.Usage) llm.Spend
	// Below returns what agents have used that were asked in the turn. May be nil.
	Below func(context.Context) message.Usage
	// Hooks are called between the run's steps.
	Hooks Hooks
}

// Hooks are what is called between the steps of a run; each may be nil. A note
// is a word for the model, which stays in the conversation. An error refuses
// the step, and thereby ends the run, with its code and words.
type Hooks struct {
	Begin  func(ctx context.Context, asked string) (note string, err error) // before the first model call
	Before func(ctx context.Context) (note string, err error)               // before each
	After  func(ctx context.Context, wrote string) error                    // after each: nothing of it is told or kept before
}

// OriginHook begins the origin of a hook's note; the place follows.
const OriginHook = "hook:"

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events.
const (
	Delta    EventKind = iota + 1 // Stream: a piece of the message being written
	Stored                        // Message is durable at Seq
	Calling                       // CallRef, Call, Progress
	Finished                      // the run is over: Message (may be nil), Seq, Outcome
)

// Event is what an onlooker of a run is told.
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
	Bounded  Outcome = "bound"   // a limit was hit; the final message says which
	Failure  Outcome = "failed"  // the model could not be had
)
