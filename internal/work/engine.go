package work

import (
	"log/slog"
	"sync"

	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/lifetime"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/turn"
)

// Options are the parts of an Engine, all required.
type Options struct {
	Store         store.Store
	Turns         *turn.Engine
	Kits          *kits.Engine
	Conversations *conversation.Engine
	Effects       *effect.Engine
	Requests      *requests.Engine
	Life          *lifetime.Lifetime
	Log           *slog.Logger
}

// Engine does the work that outlives a turn, or takes place outside of one. Safe for
// concurrent use.
type Engine struct {
	store         store.Store
	turns         *turn.Engine
	kits          *kits.Engine
	conversations *conversation.Engine
	effects       *effect.Engine
	requests      *requests.Engine
	life          *lifetime.Lifetime
	log           *slog.Logger
	leases        leases
	recorded      bool // that the node runs, by Recover

	mu      sync.Mutex
	running map[id.ID]*runningAction // actions called from outside that are in progress
}

// New returns an engine above one of turns.
func New(o Options) *Engine {
	return &Engine{store: o.Store, turns: o.Turns, kits: o.Kits, conversations: o.Conversations, effects: o.Effects, requests: o.Requests,
		life: o.Life, log: o.Log, running: map[id.ID]*runningAction{}}
}
