package runtime

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
)

// planOptions are the parts of a planEngine. All are required but Catalog and Limits.
type planOptions struct {
	Store    store.Store
	Turns    *turnEngine
	Work     *workEngine
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

// planEngine carries out plans. Safe for concurrent use.
type planEngine struct {
	opt      planOptions
	store    store.Store
	turns    *turnEngine
	work     *workEngine
	kits     *kits.Engine
	routing  *routing.Engine
	effects  *effect.Engine
	requests *requests.Engine
	life     *lifetime.Lifetime
	log      *slog.Logger
	examples examples
	queue    *lease.Queue // of trees

	mu    sync.Mutex
	trees map[*liveTree]struct{}
}

// newPlans returns an engine above those of turns and work.
func newPlans(o planOptions) *planEngine {
	return &planEngine{opt: o, store: o.Store, turns: o.Turns, work: o.Work, kits: o.Kits, routing: o.Routing, effects: o.Effects, requests: o.Requests,
		life: o.Life, log: o.Log, queue: queueOf(o.Store), trees: map[*liveTree]struct{}{}}
}
