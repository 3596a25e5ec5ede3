package routing

import (
	"context"
	"log/slog"
	"sync"

	"steward/internal/conversation"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/search/similar"
	"steward/internal/store"
)

// Engine finds the agents of messages that name none. Safe for concurrent use.
//
// A message that names no agent is routed before its turn begins, unless a person has given
// its conversation to an agent. If the words of the message are clear, they decide (Router).
// Otherwise the fast model chooses among the likeliest agents. If it is not certain either,
// the agent that routing chose before continues, or else the assistant answers. The assistant
// also answers whenever something fails.
//
// The decision is part of the run's record, so nothing is decided again after a crash. The
// turn then runs as if the person had named the agent. A message gains no rights by being
// routed: all that it can influence is the choice of a name.
type Engine struct {
	opt Options

	mu      sync.Mutex
	routers map[routerKey]*Router
	version uint64 // of the catalog's tree that they were made for
}

// routerKey says whose router it is, "" for those who have taught nothing, and whether it knows nested agents.
type routerKey struct {
	user   string
	nested bool
}

// Options are the parts of an Engine; all but Catalog are required.
type Options struct {
	Mode          string // Off, Auto or Always
	Store         store.Store
	Conversations *conversation.Engine
	Models        *llm.Models
	Kits          *kits.Engine
	Catalog       kits.Catalog
	// TaskThreshold is how sure it must be that an agent is for a task: see AgentFor. Zero: DefaultTaskThreshold.
	TaskThreshold float64
	// Similar compares tasks with agents by an embedding model. nil: their words decide.
	Similar *similar.Finder
	// Ask asks a model outside any conversation, and returns the text of its answer.
	Ask func(ctx context.Context, m llm.Resolved, req *llm.Request, text string) (string, error)
	// Life ends when the node closes, and Go runs a function that closing waits for.
	Life context.Context
	Go   func(func()) bool
	Log  *slog.Logger
}

// Mode returns Off, Auto or Always.
func (e *Engine) Mode() string { return e.opt.Mode }

// NewEngine returns an engine over the given parts.
func NewEngine(o Options) *Engine { return &Engine{opt: o} }

// The values of Options.Mode.
const (
	Off    = ""       // the assistant answers
	Auto   = "auto"   // messages are routed; without agents in the catalog by their words alone
	Always = "always" // the fast model is asked also if there are only agents that are built in
)
