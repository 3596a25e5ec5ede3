package app

import (
	"time"

	factmem "steward/internal/memory"
	"steward/internal/search"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/tools/fact"
	domainlocal "steward/internal/tools/local"
)

// memory returns the engine that keeps facts in a store. find returns the index by which turns recall passages of
// messages; it may be nil.
func (a *App) memory(st store.Store, set *settings.Loaded, find func() search.Index) *factmem.Engine {
	return factmem.New(factmem.Options{Store: st, Off: set.Memory.Off, Mask: a.Hidden().Mask, Search: find})
}

// readAfter is how long a conversation rests before it is read for facts; zero: none is read.
func readAfter(set *settings.Loaded) time.Duration {
	if !set.Memory.Read {
		return 0
	}
	return set.Memory.Rest
}

// memoryTools are the tools for facts. They change nothing but what is remembered of the user.
func (l *Local) memoryTools(set *settings.Loaded) BuiltIn {
	return BuiltIn{Name: fact.Name, tools: func() ([]tool.Tool, error) {
		if set.Memory.Off {
			return nil, nil
		}
		k := domainlocal.NewKit(builtInEnv(set, fact.Name), tool.OriginOwn)
		fact.Add(k, fact.Options{Options: domainlocal.Options{Zone: l.zone(set)}, Memory: l.memory})
		return k.Tools()
	}}
}
