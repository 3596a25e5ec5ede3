package turn

import (
	"context"

	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/tool"
)

// Work is what a turn needs of the engine of work that outlives it.
type Work interface {
	// CallTool has a tool call executed. It returns its result, or that of a call
	// that goes on in the background or waits for the end of the turn.
	CallTool(ctx context.Context, c *Conversation, rc request.Context, ec effect.Call) (*message.ToolResult, error)
	// ResumeUnfinished resumes a run of the conversation that was interrupted, and then
	// returns ErrResumed. Otherwise it returns s.
	ResumeUnfinished(ctx context.Context, c *Conversation, s *conversation.Session) (_ *conversation.Session, launched bool, err error)
	// RunEnded records the consequences of a run's end. It reports whether the run led
	// to requests that are not closed; then the turn calls Settle once it has
	// released its lock.
	RunEnded(c *Conversation, s *conversation.Session, live *Run) bool
	// Settle executes the actions that were queued until the turn's end, or
	// cancels them if the turn was stopped.
	Settle(user string, inter resource.URI, stopped bool)
}

// Plans is what a turn needs of the engine that carries out plans.
type Plans interface {
	// PlannableTools returns the tools and agents that the planner may plan with, and lists
	// them for its prompt.
	PlannableTools() (list string, tools *llm.Toolset)
	// HistoryPrompt returns for the planner's prompt what may be an example for a request,
	// and what was done for the user last.
	HistoryPrompt(ctx context.Context, user, text string) (string, error)
	// StartTool returns the tool plan.start for a call that a person may have to approve.
	StartTool(ctx context.Context, t *InnerCall) tool.Tool
	// AfterPlan writes the planner's next message where no model has to; nil: a model does.
	AfterPlan(ctx context.Context, x *Calls, failed error) (*message.Message, error)
	// Review judges an answer by its agent's own measure. It returns a note for the
	// agent if the answer falls short.
	Review(ctx context.Context, x *Calls, answer *message.Message) (note string)
}
