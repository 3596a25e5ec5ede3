package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"

	"steward/internal/lifetime/telemetry"
	"steward/internal/llm"
	"steward/internal/memory/documents"
	"steward/internal/message"
	"steward/internal/messaging"
	"steward/internal/requests"

	"steward/internal/tools/files"
	domainlocal "steward/internal/tools/local"

	"steward/internal/search/fts"
	"steward/internal/search/vector"
	"steward/internal/store"

	"steward/internal/effect"
	"steward/internal/extract"
	"steward/internal/identity"
	"steward/internal/jobs"
	"steward/internal/runtime"
	"steward/internal/server/api"
	"steward/internal/settings"
	"steward/internal/tool"
)

// Stored returns the API of what needs only the database: records, and decisions
// about what waits for a person. It searches for no models and resumes no work.
func (a *App) Stored(st Store, set *settings.Loaded, log *slog.Logger) (*API, error) {
	price, err := a.Pricing()
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	specs := sync.OnceValue(func() map[string]tool.Spec { return a.knownSpecs(set, log) })
	spec := func(name string) (tool.Spec, bool) {
		s, ok := specs()[name]
		return s, ok
	}
	people, index := identity.New(st), newIndex(set.Data, st, vector.Options{Model: noModels}, nil, log)
	l := &Local{Keys: people, alarms: jobs.New(jobs.Options{Store: st, Log: log}), stays: func(ctx context.Context) bool { return a.stays(ctx, set) }}
	zone := l.zone(set)
	command, err := extract.Command()
	if err != nil {
		return nil, errors.Join(err, index.Close(), st.Close())
	}
	var papers *documents.Engine
	statements := a.newGraph(st, func() mentioned { return mentioned{a.memory(st, set, nil), index, papers} })
	papers = a.documentEngine(st, set, extract.Reader{Command: command}, statements, log)
	node := &runtime.Node{Records: runtime.NewRecords(runtime.RecordsOptions{Store: st, Conversations: a.engine(st), Search: index, Price: price,
		Effects: effect.New(effect.Options{Store: st, Directory: people, Log: log, ApprovalTimeout: set.Timeouts.Approval, Called: requests.Called(st), Spec: spec, Zone: zone}),
		Spec:    spec, Zone: zone})}
	return a.inProcess(api.Options{Node: node, People: people, Own: ownProfile(set), Jobs: l.jobService(set), Channels: messaging.New(messaging.Options{Store: st, People: people, Log: log}), Heartbeat: l.heartbeatService(set), Goals: a.goals(st, zone), Memory: a.memory(st, set, nil), Documents: papers, Graph: statements}, nil, log,
		func() error { return errors.Join(index.Close(), papers.Close(), st.Close()) }), nil
}

// knownSpecs returns the specs of all built-in tools: those that the settings turn on, and those that need
// no settings.
func (a *App) knownSpecs(set *settings.Loaded, log *slog.Logger) map[string]tool.Spec {
	out, err := a.Specs()
	if err != nil {
		log.Warn("the built-in tools cannot be listed", "error", err)
		out = map[string]tool.Spec{}
	}
	for _, g := range (&Local{Log: slog.New(slog.DiscardHandler), Resolver: a.Resolver(set)}).BuiltIns(set) {
		tools, err := g.tools()
		if err != nil {
			log.Debug("some built-in tools cannot be listed", "group", g.Name, "error", err)
		}
		for _, t := range tools {
			out[t.Spec().Name] = t.Spec()
		}
	}
	return out
}

// searchFile returns the path of the search index in a data folder.
func searchFile(data string) string { return filepath.Join(data, "search.db") }

// vectorsFile returns the path of the vector index in a data folder.
func vectorsFile(data string) string { return filepath.Join(data, "vectors.db") }

// index is the search in messages, by words and by vectors.
type index struct {
	*vector.Hybrid
	words *fts.Index
}

// newIndex makes the search over a store. The options say with which model; without them,
// vectors of a model are left as they are.
func newIndex(data string, st store.Store, opt vector.Options, lag *telemetry.Follower, log *slog.Logger) *index {
	opt.Path, opt.Store, opt.Log = vectorsFile(data), st, log
	words := fts.New(fts.Options{Path: searchFile(data), Store: st, Lag: lag, Log: log})
	return &index{&vector.Hybrid{Text: words, Vectors: vector.New(opt), Log: log}, words}
}

// Close closes the files.
func (x *index) Close() error { return errors.Join(x.Vectors.Close(), x.words.Close()) }

// Specs returns the specs of all built-in tools, so that calls of tools that are no longer
// granted are described too.
func (a *App) Specs() (map[string]tool.Spec, error) {
	tools, err := basics(domainlocal.Options{}, files.Options{Folders: []files.Folder{{Name: "folder", Path: ".", Write: true}}, Trash: func(string) string { return "" }, Notes: "folder/Notes"})
	if err != nil {
		return nil, err
	}
	out := map[string]tool.Spec{}
	for _, t := range append(tools, effect.New(effect.Options{}).ReadTool()) {
		out[t.Spec().Name] = t.Spec()
	}
	return out, nil
}

// Pricing returns a function that computes the cost of model calls by the settings, for
// requests that have no total yet.
func (a *App) Pricing() (func(string, message.Usage) float64, error) {
	set, err := a.Settings()
	if err != nil {
		return nil, err
	}
	models, err := llm.New(llm.Config{Prices: prices(set)})
	if err != nil {
		return nil, err
	}
	return func(model string, u message.Usage) float64 {
		p, _ := models.Price(model)
		return p.Cost(u)
	}, nil
}
