package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/kits"
	"steward/internal/secret"

	"steward/internal/jobs"
	"steward/internal/llm"
	"steward/internal/server/api"

	"steward/internal/catalog"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/sandbox"
	"steward/internal/search"
	"steward/internal/service"
	"steward/internal/settings"
	"steward/internal/source/grpc"
	"steward/internal/source/mcp"
	"steward/internal/source/process"
	"steward/internal/tool"
)

// AgentsFolder is the folder of agents in a data folder.
func AgentsFolder(data string) string { return filepath.Join(data, "agents") }

// openAgents opens the catalog of agents and their services. It starts nothing and connects
// to nothing.
func (l *Local) openAgents(ctx context.Context, a *App, set *settings.Loaded, tools *tool.Registry, log *slog.Logger) error {
	l.services = newAgentServices(set, l.Store, log, a.Declared(set, log), l.bindings, func(ctx context.Context, user string) (json.RawMessage, error) {
		p, err := l.profile(ctx, set, user)
		if err != nil {
			return nil, err
		}
		p.Personas, p.Persona = nil, nil // they are for agents that talk with the user
		return json.Marshal(p)
	})
	opt := catalog.Options{
		Store: l.Store, Data: filepath.Join(set.Data, "private"), Log: log, Watch: true, Poll: l.outside.Poll,
		Folders:    append([]string{AgentsFolder(set.Data)}, set.Agents...),
		Servers:    append([]string{filepath.Join(set.Data, "mcp.json")}, set.MCP...),
		Openers:    l.openers(set),
		HookOpener: process.OpenHook,
		Names: func() []string {
			return append(slices.Clone(tools.Names()), effect.ReadToolName, search.ToolName, search.SimilarToolName)
		},
		Jobs:      l.readJob(set),
		Secrets:   a.Declared(set, log),
		Services:  l.services.environ,
		Snapshots: filepath.Join(set.Data, "snapshots"),
		Hide:      l.private,
		Review:    kits.ReviewTools(l.resolve),
		Confined:  sandbox.Available,
	}
	if err := sandbox.RemoveLeftovers(); err != nil {
		log.Warn("temporary folders of programs that were killed could not be removed", "error", err)
	}
	for _, dir := range a.AgentFolders {
		opt.Folders = append(opt.Folders, a.Path(dir))
	}
	for _, file := range a.MCPFiles {
		opt.Servers = append(opt.Servers, a.Path(file))
	}
	var err error
	if opt.Root, err = endpoints(set, tools.Names(), log); err != nil {
		return errors.Join(err, l.services.Close())
	}
	l.Catalog, err = catalog.Open(ctx, opt)
	if err != nil {
		return errors.Join(err, l.services.Close())
	}
	l.services.declared = l.Catalog.Bindings
	return nil
}

// WaitingAgents says how many agents and sources wait for a decision.
func (l *Local) WaitingAgents() string {
	n := Waiting(l.Catalog.Listings())
	if n == 0 {
		return ""
	}
	return Counted(n, "agent waits", "agents wait") + " for your approval: steward agents list"
}

// closeAgents closes the catalog and the services of agents.
func (l *Local) closeAgents() error {
	return errors.Join(l.Catalog.Close(), l.services.Close())
}

// bindings returns the services of an agent that may be used.
func (l *Local) bindings(agent string) (service.Bindings, error) {
	if agent == "" {
		return service.Root(), nil
	}
	if l.Catalog != nil {
		if x := l.Catalog.Tree().ByPath[agent]; x != nil {
			return x.Bindings, nil
		}
	}
	return nil, fault.New(fault.NotFound, "agent_not_found", "unknown or unapproved agent %s", agent)
}

// openers returns the kinds of sources that agents may have.
func (l *Local) openers(set *settings.Loaded) map[string]tool.Opener {
	all := map[string]tool.Opener{"mcp": mcp.Opener(TokensOf(set, l.Resolver.Masker)), "grpc": (&grpc.Kit{}).Open, "process": process.Open}
	maps.Copy(all, service.Openers(l.services, l.services))
	return all
}

// briefProfile returns a user's profile for callers without a context. It waits at most a second.
func (l *Local) briefProfile(set *settings.Loaded, user string) (identity.Profile, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return l.profile(ctx, set, user)
}

// endpoints returns the gRPC methods of the settings as sources. own are Steward's own tools. A tool has the
// name that the settings give it, unless that could be mistaken for another.
func endpoints(set *settings.Loaded, own []string, log *slog.Logger) ([]catalog.RootSource, error) {
	var out []catalog.RootSource
	taken := map[string]int{}
	for _, name := range own {
		category, _, _ := strings.Cut(name, ".")
		taken[category] = 2
	}
	called := func(e settings.Endpoint) string {
		word, err := tool.Word(e.Name)
		if err != nil || strings.Contains(e.Name, ".") {
			return "" // the source says what is wrong with it
		}
		return word
	}
	for name, e := range set.Service.Tool.Endpoints {
		if called(e) != name {
			taken[name]++
		}
		taken[called(e)]++
	}
	for _, name := range slices.Sorted(maps.Keys(set.Service.Tool.Endpoints)) {
		e := set.Service.Tool.Endpoints[name]
		decl := map[string]any{"host": e.Host}
		for key, value := range map[string]string{"call": e.Call, "name": e.Name, "description": e.Description} {
			if value != "" {
				decl[key] = value
			}
		}
		switch word := called(e); {
		case word == "":
		case taken[word] == 1:
			decl["bare"] = true
		default:
			log.Warn("the name of a tool is taken; it is prefixed with the name of its endpoint", "tool", name+"."+word)
		}
		for key, names := range map[string][]string{"users": e.Users, "groups": e.Groups} {
			if len(names) > 0 {
				decl[key] = names
			}
		}
		if e.TLS {
			decl["tls"] = true
		}
		if e.Timeout > 0 {
			decl["timeout"] = e.Timeout.String()
		}
		if e.Effect != "" {
			decl["effects"] = map[string]string{e.Call: e.Effect}
		}
		if len(e.Metadata) > 0 {
			decl["metadata"] = e.Metadata
		}
		b, err := json.Marshal(decl)
		if err != nil {
			return nil, err
		}
		where := set.SourceOf("service.tool.endpoints." + name + ".host").Where
		out = append(out, catalog.RootSource{Kind: "grpc", Name: name, File: where, Definition: b})
	}
	return out, nil
}

// OpenCatalog returns the API of the agents of a data folder that no other process uses.
func (a *App) OpenCatalog(ctx context.Context, set *settings.Loaded, st Store) (*API, error) {
	log := slog.New(slog.DiscardHandler) // the list reports problems
	l := &Local{Store: st, Keys: identity.New(st), Log: log, Resolver: a.Resolver(set), alarms: jobs.New(jobs.Options{Store: st}), private: a.private(set)}
	l.goals, l.graph = a.goals(st, l.zone(set)), a.newGraph(st, func() mentioned { return mentioned{memory: l.memory} })
	l.memory = a.memory(st, set, nil)
	tools, err := l.tools(set)
	if err == nil {
		err = l.OpenPolicies(set, log)
	}
	if err == nil {
		find := sync.OnceValues(func() (*Supply, error) { return a.Supply(ctx, set, l.Judge, log) })
		l.resolve = func(name string) (llm.Resolved, error) {
			found, err := find()
			if err != nil {
				return llm.Resolved{}, err
			}
			return found.Resolve(name)
		}
		err = l.openAgents(ctx, a, set, tools, log)
	}
	if err != nil {
		return nil, errors.Join(err, l.ClosePolicies(), st.Close())
	}
	return a.inProcess(api.Options{People: l.Keys, Agents: l.Catalog, Authorizer: l.Judge}, nil, log,
		func() error { return errors.Join(l.closeAgents(), l.ClosePolicies(), st.Close()) }), nil
}

// Waiting counts the entries that wait for a decision of the user.
func Waiting(list []catalog.Listing) int {
	return len(catalog.Waiting(list))
}

// TokensOf returns where the tokens of MCP servers are kept.
func TokensOf(set *settings.Loaded, masker *secret.Masker) mcp.Options {
	return mcp.Options{Tokens: secret.NewStore(secret.Folder(set.Data)), Learn: masker.Add}
}
