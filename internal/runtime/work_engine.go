package runtime

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
)

// workOptions are the parts of a workEngine, all required.
type workOptions struct {
	Store         store.Store
	Turns         *turnEngine
	Kits          *kits.Engine
	Conversations *conversation.Engine
	Effects       *effect.Engine
	Requests      *requests.Engine
	Life          *lifetime.Lifetime
	Log           *slog.Logger
}

// workEngine does the work that outlives a turn, or takes place outside of one. Safe for
// concurrent use.
type workEngine struct {
	store         store.Store
	turns         *turnEngine
	kits          *kits.Engine
	conversations *conversation.Engine
	effects       *effect.Engine
	requests      *requests.Engine
	life          *lifetime.Lifetime
	log           *slog.Logger
	leases        leases

	mu    sync.Mutex
	outer map[id.ID]*performing // actions called from outside that are in progress
}

// newWork returns an engine above one of turns.
func newWork(o workOptions) *workEngine {
	return &workEngine{store: o.Store, turns: o.Turns, kits: o.Kits, conversations: o.Conversations, effects: o.Effects, requests: o.Requests,
		life: o.Life, log: o.Log, outer: map[id.ID]*performing{}}
}
