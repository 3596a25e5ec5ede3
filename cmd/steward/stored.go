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
	specs := sync.OnceValues(a.specs) // of the built-in tools
	people, index := identity.New(st), newIndex(set.Data, st, log)
	node := &runtime.Node{Records: runtime.NewRecords(runtime.RecordsOptions{Store: st, Conversations: a.engine(st), Search: index, Price: price,
		Effects: effect.New(effect.Options{Store: st, Directory: people, Log: log, ApprovalTimeout: set.Timeouts.Approval, Called: runtime.Called(st)}),
		Spec: func(name string) (tool.Spec, bool) {
			all, err := specs()
			if err != nil {
				log.Warn("the built-in tools cannot be listed", "error", err)
			}
			spec, ok := all[name]
			return spec, ok
		}})}
	return a.within(api.Options{Node: node, People: people, Own: ownProfile(set)}, nil, log,
		func() error { return errors.Join(index.Close(), st.Close()) }), nil
}
