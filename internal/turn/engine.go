package turn

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/lifetime"
	"steward/internal/lifetime/telemetry"
	"steward/internal/llm"
	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/routing"
	"steward/internal/store"
	"steward/internal/tool"
)

// Options are the parts of an Engine. All engines, Store, Models, Life and Log are
// required.
type Options struct {
	Store         store.Store
	Models        *llm.Models
	Kits          *kits.Engine
	Routing       *routing.Engine
	Conversations *conversation.Engine
	Effects       *effect.Engine
	Requests      *requests.Engine
	Life          *lifetime.Lifetime
	// Parallel is how many tool calls of one turn run concurrently.
	// All turns together run at most eight times as many.
	Parallel int
	// ExpireAtOnce has results that are older than their tools allow leave what the model is shown
	// at the next request, and not only when room is needed.
	ExpireAtOnce bool
	// ToolBudget bounds which of an agent's tools a model is shown.
	ToolBudget kits.ToolBudget
	// Profile describes a user to the model (time zone, units,
	// …), as text for the system prompt. speaks is the path of the agent if it talks
	// with the user; empty: another agent asks it. May be nil.
	Profile func(ctx context.Context, user, speaks string) (string, error)
	// Zone returns a user's time zone, in which models are shown when messages were sent. If it is nil,
	// they are not shown it. It may return nil for UTC.
	Zone func(user string) *time.Location
	// Memory has the facts that a turn begins with. May be nil.
	Memory *memory.Engine
	// Rested is told when a turn has ended in a conversation that a person talks in. May be nil.
	Rested func(user string, conv id.ID)
	// Skills lists the skills that a user has when a turn begins, for an agent with the tool
	// skills.read. May be nil.
	Skills func(user string) (string, error)
	// Documents turns a file that models cannot read into text, before the message
	// that has it attached is recorded. model is the one that the message asks for,
	// empty: none. It returns other files as they are. May be nil.
	Documents func(ctx context.Context, user, model string, f *message.File) (*message.File, error)
	// Secrets masks secrets in everything that is recorded, shown or sent;
	// secret.Masker implements it. May be nil.
	Secrets Secrets
	// IdleFor is how long a conversation stays in memory after its last turn.
	IdleFor time.Duration
	// IdleBytes bounds the memory of idle conversations.
	IdleBytes int
	// IdleChats bounds how many idle conversations stay in memory.
	IdleChats int
	Telemetry *telemetry.Telemetry // counts and traces the turns; may be nil
	Log       *slog.Logger
}

// Engine runs turns. Safe for concurrent use.
type Engine struct {
	opt           Options
	kits          *kits.Engine
	routing       *routing.Engine
	conversations *conversation.Engine
	effects       *effect.Engine
	requests      *requests.Engine
	work          Work
	plans         Plans
	life          *lifetime.Lifetime
	log           *slog.Logger

	mu      sync.Mutex
	cached  map[Key]*Conversation
	idle    *time.Timer      // for the next idle conversation to evict; nil: there is none
	toPack  map[Key]struct{} // conversations with messages that have left the context window
	slots   slots            // for the tool calls of all turns
	workers chan func()      // hands work to an idle worker

	calibrating sync.Mutex
	calibration []byte // the stored calibration of the models' token counts
}

// New returns an engine. Connect must be called before its first turn.
func New(o Options) *Engine {
	return &Engine{opt: o, kits: o.Kits, routing: o.Routing, conversations: o.Conversations, effects: o.Effects, requests: o.Requests,
		life: o.Life, log: o.Log, cached: map[Key]*Conversation{}, toPack: map[Key]struct{}{}, slots: make(slots, 8*o.Parallel), workers: make(chan func())}
}

// Load returns how many tool calls hold a slot, and how many conversations are in memory.
func (e *Engine) Load() (calls, conversations int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.slots), len(e.cached)
}

// Connect names the engines above this one.
func (e *Engine) Connect(w Work, p Plans) { e.work, e.plans = w, p }

// Work is what a turn needs of the engine of work that outlives it.
type Work interface {
	// CallTool has a tool call executed. It returns its result, or that of a call
	// that continues in the background or waits for the end of the turn.
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
