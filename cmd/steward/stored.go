package main

import (
	"errors"
	"log/slog"
	"sync"

	"steward/internal/effect"
	"steward/internal/identity"
	"steward/internal/runtime"
	"steward/internal/search/fts"
	"steward/internal/server/api"
	"steward/internal/settings"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
)

// stored answers, of the API, what can be answered from the database alone:
// what is stored is told, and what waits for a person is decided. It looks for
// no models and takes up no work.
type stored struct {
	nodeOnly
	runtime.Records
	store  *sqlite.Store
	people *identity.Registry
	index  *fts.Index
}

// nodeOnly is the rest of the API: what only a node can do is not asked of it.
type nodeOnly struct{ api.Node }

var _ api.Node = (*stored)(nil)

func (a *app) stored(st *sqlite.Store, set *settings.Loaded, log *slog.Logger) (*stored, error) {
	price, err := a.pricing()
	if err != nil {
		return nil, err
	}
	specs := sync.OnceValues(a.specs) // of the tools that Steward brings along
	s := &stored{store: st, people: identity.New(st), index: newIndex(set.Data, st, log)}
	s.Records = runtime.NewRecords(runtime.RecordsOptions{Store: st, Conversations: a.engine(st), Search: s.index, Price: price,
		Effects: effect.New(effect.Options{Store: st, Directory: s.people, Log: log, ApprovalTimeout: set.Timeouts.Approval}),
		Spec: func(name string) (tool.Spec, bool) {
			all, err := specs()
			if err != nil {
				log.Warn("the tools that Steward brings along cannot be told", "error", err)
			}
			spec, ok := all[name]
			return spec, ok
		}})
	return s, nil
}

// storedSession is the API over what is stored.
func (a *app) storedSession(st *sqlite.Store, set *settings.Loaded, log *slog.Logger) (*session, error) {
	s, err := a.stored(st, set, log)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return a.within(api.Options{Node: s, People: s.people}, nil, log,
		func() error { return errors.Join(s.index.Close(), s.store.Close()) }), nil
}
