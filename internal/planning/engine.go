package planning

import (
	"log/slog"
	"sync"

	"steward/internal/agent"
	"steward/internal/effect"
	"steward/internal/kits"
	"steward/internal/lifetime"
	"steward/internal/requests"
	"steward/internal/routing"
	"steward/internal/store"
	"steward/internal/store/lease"
	"steward/internal/tool"
	"steward/internal/turn"
	"steward/internal/work"
)

// Options are the parts of an Engine. All are required but Catalog and Limits.
type Options struct {
	Store    store.Store
	Turns    *turn.Engine
	Work     *work.Engine
	Kits     *kits.Engine
	Routing  *routing.Engine
	Effects  *effect.Engine
	Requests *requests.Engine
	Life     *lifetime.Lifetime
	Tools    *tool.Registry // of the node
	Catalog  kits.Catalog   // nil: there are no agents but the fixed ones
	Limits   agent.Limits   // of the assistant
	Log      *slog.Logger
}

// Engine carries out plans. Safe for concurrent use.
type Engine struct {
	opt      Options
	store    store.Store
	turns    *turn.Engine
	work     *work.Engine
	kits     *kits.Engine
	routing  *routing.Engine
	effects  *effect.Engine
	requests *requests.Engine
	life     *lifetime.Lifetime
	log      *slog.Logger
	Examples examples
	queue    *lease.Queue // of trees

	mu    sync.Mutex
	trees map[*liveTree]struct{}
}

// Drop forgets what is kept in memory of a user, on whom another node works.
func (e *Engine) Drop(user string) { e.Examples.Forget(user) }

// New returns an engine above those of turns and work.
func New(o Options) *Engine {
	return &Engine{opt: o, store: o.Store, turns: o.Turns, work: o.Work, kits: o.Kits, routing: o.Routing, effects: o.Effects, requests: o.Requests,
		life: o.Life, log: o.Log, queue: newQueue(o.Store), trees: map[*liveTree]struct{}{}}
}
