package main

import (
	"errors"
	"log/slog"
	"sync"

	"steward/internal/effect"
	"steward/internal/identity"
	"steward/internal/runtime"
	"steward/internal/server/api"
	"steward/internal/settings"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
)

// storedSession returns a session for what needs only the database: records, and decisions
// about what waits for a person. It searches for no models and resumes no work.
func (a *app) storedSession(st *sqlite.Store, set *settings.Loaded, log *slog.Logger) (*session, error) {
	price, err := a.pricing()
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	specs := sync.OnceValue(func() map[string]tool.Spec { return a.knownSpecs(set, log) })
	spec := func(name string) (tool.Spec, bool) {
		s, ok := specs()[name]
		return s, ok
	}
	people, index := identity.New(st), newIndex(set.Data, st, log)
	zone := (&local{keys: people}).zone(set)
	node := &runtime.Node{Records: runtime.NewRecords(runtime.RecordsOptions{Store: st, Conversations: a.engine(st), Search: index, Price: price,
		Effects: effect.New(effect.Options{Store: st, Directory: people, Log: log, ApprovalTimeout: set.Timeouts.Approval, Called: runtime.Called(st), Spec: spec, Zone: zone}),
		Spec:    spec, Zone: zone})}
	return a.within(api.Options{Node: node, People: people, Own: ownProfile(set)}, nil, log,
		func() error { return errors.Join(index.Close(), st.Close()) }), nil
}

// knownSpecs returns the specs of all built-in tools: those that the settings turn on, and those that need
// no settings.
func (a *app) knownSpecs(set *settings.Loaded, log *slog.Logger) map[string]tool.Spec {
	out, err := a.specs()
	if err != nil {
		log.Warn("the built-in tools cannot be listed", "error", err)
		out = map[string]tool.Spec{}
	}
	for _, g := range (&local{log: slog.New(slog.DiscardHandler), resolver: a.resolver(set)}).builtIns(set) {
		tools, err := g.tools()
		if err != nil {
			log.Debug("some built-in tools cannot be listed", "group", g.name, "error", err)
		}
		for _, t := range tools {
			out[t.Spec().Name] = t.Spec()
		}
	}
	return out
}
