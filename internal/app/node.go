package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"steward/internal/agent"
	"steward/internal/catalog"
	"steward/internal/conversation"
	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/goals"
	"steward/internal/identity"
	"steward/internal/jobs"
	"steward/internal/kits"
	"steward/internal/lifetime/telemetry"
	"steward/internal/llm"
	factmem "steward/internal/memory"
	"steward/internal/memory/documents"
	"steward/internal/memory/graph"
	"steward/internal/message"
	"steward/internal/messaging"
	"steward/internal/policy/rego"
	"steward/internal/routing"
	"steward/internal/runtime"
	"steward/internal/search"
	"steward/internal/secret"
	"steward/internal/server/api"
	"steward/internal/server/auth"
	"steward/internal/server/openai"
	"steward/internal/server/websocket"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/store/audit"
	"steward/internal/tools/browser"
	"steward/internal/tools/home"
	domainlocal "steward/internal/tools/local"
)

// engine returns an engine that reads and writes the conversations of a store. It calls no
// model.
func (a *App) engine(st store.Store) *conversation.Engine {
	return conversation.New(st, conversation.Options{Key: a.exportKey, Codecs: Vendors().Codecs()})
}

// exportKey returns the key that signs exports. It is a secret in a file of the data
// folder, created when it is first needed.
func (a *App) exportKey() ([]byte, error) {
	set, err := a.Settings()
	if err != nil {
		return nil, err
	}
	key, err := auth.MakeSecret(set.Data, "export.key")
	return []byte(key), err
}

// Local is a node in this process.
type Local struct {
	User   string
	engine *conversation.Engine
	Store  Store
	index  *index
	Keys   *identity.Registry
	Judge  *rego.Authorizer
	Found  *Supply
	node   *runtime.Node
	Log    *slog.Logger
	chat   *websocket.Server
	intake *auth.Intake
	Own    *API // the API of the node

	browsers *browser.Browsers // nil: none is installed
	home     *home.Home        // nil: none is set up
	reader   extract.Reader    // of documents, for all tools
	granted  granted           // folders, since the start
	private  []string          // places of Steward's own, which no tool and no program sees
	Off      []string          // groups of built-in tools that are not set up

	resolve  func(model string) (llm.Resolved, error)
	Resolver *secret.Resolver // of the secrets in the settings
	Messages *messaging.Engine
	alarms   *jobs.Scheduler
	goals    *goals.Engine
	memory   *factmem.Engine
	papers   *documents.Engine // that people have added
	graph    *graph.Engine

	grace   time.Duration
	outside Outside

	beyond   time.Duration // how long closing may take beyond the grace; zero: 30 s
	audit    *audit.Log
	Catalog  *catalog.Catalog
	services *agentServices
	secrets  *secret.Follower
	stopJobs func() // stops keeping the jobs of agents; nil: nothing does

	stopDocuments func() // stops watching folders of documents; nil: nothing does

	peers peers // of a cluster; nil: the node is alone

	setup   api.Setup // nil: settings are not served
	backups Backups

	stays func(context.Context) bool // whether a Steward will be running later

	levels     api.LogLevels        // nil: the log has none
	telemetry  *telemetry.Telemetry // nil: nothing is counted
	stopTraces func(context.Context) error
	data       string
	stuckAfter time.Duration // see settings.Metrics

	cluster *joined // nil: this node works alone

	closing   atomic.Bool
	readiness sync.Mutex
	readyAt   time.Time // when it last was
}

// readAtOnce is how many documents are read at a time.
const readAtOnce = 3

// OpenLocal opens the data folder for this process and wires a node over it.
func (a *App) OpenLocal(ctx context.Context, set *settings.Loaded, log *slog.Logger) (*Local, error) {
	stopTraces, err := a.openTelemetry(set, log)
	if err != nil {
		return nil, err
	}
	l, err := a.openLocal(ctx, set, log)
	if err != nil {
		return nil, errors.Join(err, endTraces(stopTraces, log))
	}
	l.stopTraces = stopTraces
	return l, nil
}

// openLocal is OpenLocal once it is counted what the node does.
func (a *App) openLocal(ctx context.Context, set *settings.Loaded, log *slog.Logger) (*Local, error) {
	var st Store
	intake := auth.NewIntake(auth.IntakeOptions{GuestDay: set.Limits.GuestStorage, OtherDay: set.Limits.DayStorage,
		Stored: func(ctx context.Context, user string, since time.Time) (int64, error) {
			return auth.StoredSince(ctx, st, user, since)
		}})
	if err := a.CheckCluster(set); err != nil {
		return nil, err
	}
	st, err := a.OpenStore(ctx, set, log, func(sc store.Scope, changes int, bytes int64) { intake.CountStored(sc.Write, sc.Actor, changes, bytes) })
	if err != nil {
		return nil, err
	}
	var part *joined
	if set.Cluster.On() {
		if part, err = a.join(ctx, set, st, log); err != nil {
			return nil, errors.Join(err, st.Close())
		}
		st = part.Store()
	}
	trail, err := audit.New(st, audit.Options{Mask: a.Hidden().Mask})
	if err != nil {
		return nil, errors.Join(err, part.close(), st.Close(), a.undoUpgrade(st, set, log))
	}
	command, err := extract.Command()
	if err != nil {
		return nil, errors.Join(err, part.close(), st.Close(), a.undoUpgrade(st, set, log))
	}
	l := &Local{cluster: part, telemetry: a.telemetry, data: set.Data, stuckAfter: set.Metrics.Stuck, outside: a.Outside, reader: extract.Reader{Command: command, Slots: make(chan struct{}, readAtOnce)}, audit: trail, intake: intake, Store: st, Keys: people(st, part != nil), Log: log, grace: set.Timeouts.Shutdown,
		User: a.User(), engine: a.engine(st), alarms: jobs.New(jobs.Options{Store: st, Telemetry: a.telemetry, Log: log}), Resolver: a.Resolver(set), private: a.private(set),
		stays: func(ctx context.Context) bool { return a.stays(ctx, set) }}
	if part != nil {
		l.peers = others{part}
	}
	l.backups = a.Backups(set, log)
	l.goals, l.graph = a.goals(st, l.zone(set)), a.newGraph(st, func() mentioned { return mentioned{l.memory, l.index, l.papers} })
	l.memory = a.memory(st, set, func() search.Index { return l.index })
	l.papers = a.documentEngine(st, set, l.reader, l.graph, log)
	if err := l.wire(ctx, a, set, log); err != nil {
		return nil, errors.Join(err, l.ClosePolicies(), l.papers.Close(), part.close(), st.Close(), a.undoUpgrade(st, set, log))
	}
	a.afterUpgrade(st, set, log)
	l.secrets = secret.NewStore(secret.Folder(set.Data)).Follow(a.Hidden(), a.Outside.Poll, log)
	l.chat = websocket.Handler(websocket.Options{Mask: a.Hidden().MaskBytes, Node: l.node, Approvals: l.node.Effects, Agents: l.Catalog, Authorizer: l.Judge, Events: l.node, Logger: log})
	if part != nil {
		part.duties = l.openDuties(set)
	}
	l.setup = newSetup(a, set, l)
	if a.levels != nil {
		l.levels = a.levels
	}
	l.gauges()
	l.Own = a.inProcess(l.apiOptions(set), l.chat, log, func() error { return nil })
	return l, nil
}

// people returns the registry of people and keys. With shared, other nodes write to the store, too.
func people(st store.Store, shared bool) *identity.Registry {
	if shared {
		return identity.NewShared(st)
	}
	return identity.New(st)
}

// MakeData makes the data folder. One that the user has named may be mistyped: it is made only in a
// folder that exists, and a note says so.
func (a *App) MakeData(set *settings.Loaded) error {
	if from := set.SourceOf("data"); from.Kind != settings.FromDefault {
		if _, err := os.Stat(set.Data); errors.Is(err, fs.ErrNotExist) {
			parent := filepath.Dir(set.Data)
			if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) {
				return fault.New(fault.Invalid, "data_missing", "%s names the data folder %s, but there is no folder %s", from.Where, set.Data, parent).
					WithHint("check the path, or make the folder with mkdir -p %s", parent)
			}
			a.Note("steward: created a new data folder at %s", set.Data)
		}
	}
	if err := os.MkdirAll(set.Data, 0o700); err != nil {
		return fault.New(fault.Invalid, "data_unwritable", "the data folder cannot be created: %w", err).WithHint("name another with --data")
	}
	return nil
}

// wire creates the node and its parts.
func (l *Local) wire(ctx context.Context, a *App, set *settings.Loaded, log *slog.Logger) error {
	var err error
	if err := checkPersonas(set); err != nil {
		return err
	}
	if err := l.OpenPolicies(set, log); err != nil {
		return err
	}
	if l.Found, err = a.Supply(ctx, set, l.Judge, log); err != nil {
		return err
	}
	if limitsDays(set) {
		if err := l.Found.recall(ctx, l.engine, time.Now()); err != nil {
			return err
		}
	}
	tools, err := l.tools(set)
	if err != nil {
		return err
	}
	l.resolve = func(name string) (llm.Resolved, error) { return l.node.Resolve(name) }
	if err := l.openAgents(ctx, a, set, tools, log); err != nil {
		return err
	}
	alert, err := l.alert(set)
	if err != nil {
		return errors.Join(err, l.closeAgents())
	}
	docs := a.attached(l, set)
	l.openMessaging(ctx, a, set, docs)
	embedding := l.embedding(set)
	if l.cluster != nil {
		embedding.Holds = l.cluster.holds
	}
	embedding.Lag = l.telemetry.Follow("vectors", l.Store.Head)
	l.index = newIndex(set.Data, l.Store, embedding, l.telemetry.Follow("search", l.Store.Head), log)
	l.node, err = runtime.Open(ctx, runtime.Options{
		Vendors:   Vendors(),
		ExportKey: a.exportKey, Forget: func(user string) error {
			return errors.Join(l.services.db.Erase(user), domainlocal.Forget(filepath.Join(set.Data, "private"), user))
		},
		Secrets: a.Hidden(), Anchor: l.anchor(set), AnchorEvery: set.Audit.AnchorEvery,
		Search: l.index, Erased: l.erased(HistoryFile(set)),
		Idle:            a.Idle,
		ApprovalTimeout: set.Timeouts.Approval,
		KeepDeleted:     max(set.Keep.Deleted, 1), PackAfter: set.Keep.Unused,
		Catalog: l.Catalog,
		Today: func(ctx context.Context, user string) error {
			if !limitsDays(set) {
				return nil
			}
			return l.Found.recallUser(ctx, l.engine, user)
		},
		Store: l.Store, Models: l.Found.Models, Tools: tools, Authorizer: l.Judge, People: l.Keys, AuditReads: set.Audit.Reads, Log: log,
		Profile: func(ctx context.Context, user, speaks string) (string, error) {
			p, err := l.profile(ctx, set, user)
			return strings.TrimSpace(about(p) + "\n\n" + p.PersonaLines(speaks)), err
		},
		Zone:      l.zone(set),
		Memory:    l.memory,
		ReadAfter: readAfter(set), ReadPerDay: set.Memory.PerDay,
		Skills:       skillsOf(set),
		Documents:    docs.read,
		Limits:       agent.Limits{Iterations: set.Limits.Iterations, Time: set.Limits.Time, Calls: set.Limits.Calls},
		Parallel:     set.Limits.Parallel,
		Routing:      map[string]string{"auto": routing.Auto, "always": routing.Always}[set.Routing],
		ExpireAtOnce: set.Tools.Expired == "at_once",
		ToolBudget:   kits.ToolBudget{Tools: set.Tools.Shown, Tokens: set.Tools.ShownTokens},
		Similar:      similarity(embedding), TaskThreshold: set.Plans.AgentThreshold,
		RemoteModels: l.services.remoteModels,
		Alarms:       l.alarms, JobSource: l.jobSource(set), Notify: alert, Deliver: l.deliver, Telemetry: l.telemetry, EventsLag: l.telemetry.Follow("events", l.Store.Head), Heartbeat: l.heartbeatOptions(set),
		Backup: l.backups.scheduled, Spaces: l.spaces(),
	})
	if err != nil {
		return errors.Join(err, l.closeAgents())
	}
	if !a.Idle && l.cluster == nil {
		l.keepOwnJobs(ctx, set)
		l.stopDocuments = inBackground(l.papers.Watch)
	}
	// A program's request may contain anything that it was given or has read.
	l.services.answer(openai.Handler(openai.Options{Node: programsNode{l.node, l.services}, Labels: message.Private | message.Untrusted, Logger: log}))
	return nil
}

// keepAgentJobs begins to keep the jobs of agents.
func (l *Local) keepAgentJobs(k agentJobs) { l.stopJobs = inBackground(k.run) }

// inBackground runs do until the function that it returns is called, which waits for its end.
func inBackground(do func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(ctx)
	}()
	return func() { cancel(); <-done }
}

// erased returns a function that removes erased data from the search index, and clears the
// chat's input history on this machine.
func (l *Local) erased(history string) func(context.Context, string) error {
	return func(ctx context.Context, user string) error {
		err := errors.Join(l.index.CatchUp(ctx), l.papers.Forgotten(ctx))
		if user == "" || user == identity.Local {
			if e := os.Truncate(history, 0); !errors.Is(e, os.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
		return err
	}
}

// profile returns a user's profile. For the local user, the settings fill in what it lacks.
func (l *Local) profile(ctx context.Context, set *settings.Loaded, user string) (identity.Profile, error) {
	return l.Keys.About(ctx, user, ownProfile(set))
}

// ownProfile is what the settings say about the machine's own user.
func ownProfile(set *settings.Loaded) identity.Profile {
	s := set.Profile
	p := identity.Profile{TimeZone: s.TimeZone, Location: s.Location, Locale: s.Locale, Units: identity.Units(s.Units), Personas: map[string]identity.Persona{}}
	for name, x := range s.Personas {
		p.Personas[name] = identity.Persona(x)
	}
	if s.Persona != "" {
		p.Persona = map[string]string{identity.AnyAgent: s.Persona}
	}
	return p
}

// checkPersonas reports faults in the personas of the settings.
func checkPersonas(set *settings.Loaded) error {
	p, err := ownProfile(set).Check()
	if err == nil && set.Profile.Persona != "" {
		err = p.CheckPersona(set.Profile.Persona)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("profile in the settings: %w", err)
}

// zone returns a function that returns the time zone of a user or, if it is unknown, that of
// this machine.
func (l *Local) zone(set *settings.Loaded) func(user string) *time.Location {
	return func(user string) *time.Location {
		p, err := l.briefProfile(set, user)
		if err != nil {
			return time.Local
		}
		return zoneOf(p.TimeZone)
	}
}

// about describes a user to a model. The description must not change from turn to turn: it
// begins every prompt, and providers cache common prefixes.
func about(p identity.Profile) string {
	var parts []string
	for _, f := range []struct{ name, value string }{
		{"Time zone", p.TimeZone}, {"Location", p.Location}, {"Locale", p.Locale}, {"Units", string(p.Units)},
	} {
		if f.value != "" {
			parts = append(parts, f.name+": "+f.value)
		}
	}
	if parts == nil {
		return ""
	}
	return "About the user:\n" + strings.Join(parts, "\n")
}

// Close suspends running turns and closes the data folder.
func (l *Local) Close() error {
	grace := max(l.grace, time.Second)
	talks := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		l.chat.Shutdown(ctx) //nolint:errcheck // says that it has cut some off
		return nil
	}
	suspend := func() error {
		l.dropOwnJobs()
		if l.stopDocuments != nil {
			l.stopDocuments()
		}
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if err := l.node.Close(ctx); err != nil {
			return fmt.Errorf("suspending running turns: %w", err)
		}
		return nil
	}
	return closeWithin(grace+cmp.Or(l.beyond, 30*time.Second), l.Log, part{"the cluster", l.leaveCluster}, part{"the chat", talks}, part{"the node", suspend}, part{"the API", l.Own.Close}, part{"the sign-ins", l.closeSetup},
		part{"the browsers", l.closeBrowsers}, part{"the home", l.closeHome},
		part{"the agents", l.Catalog.Close}, part{"the services of agents", l.services.Close}, part{"the policies", l.ClosePolicies},
		part{"the secrets", l.secrets.Close}, part{"the index of the search", l.index.Close}, part{"the index of the documents", l.papers.Close}, part{"the data folder", l.Store.Close}, part{"the traces", func() error { return endTraces(l.stopTraces, l.Log) }})
}

// endTraces sends the spans that are left.
func endTraces(stop func(context.Context) error, log *slog.Logger) error {
	if stop == nil {
		return nil
	}
	if err := stop(context.Background()); err != nil {
		log.Warn("the last spans could not be sent", "error", err)
	}
	return nil
}

// Path makes a path from the command line absolute, relative to the app's folder.
func (a *App) Path(p string) string {
	if !filepath.IsAbs(p) {
		p = filepath.Join(a.Dir, p)
	}
	if whole, err := filepath.Abs(p); err == nil { // it fails if the current folder was deleted
		p = whole
	}
	return p
}

// Database is the database file of a data folder.
func Database(data string) string { return filepath.Join(data, "steward.db") }

func terminalFile(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// part is an open resource with the function that closes it.
type part struct {
	name  string
	close func() error
}

// closeWithin closes parts one after the other. After the time limit it still tries the
// rest, with a tenth of the limit for each: a part that hangs must not keep the process,
// and with it the data folder, forever.
func closeWithin(limit time.Duration, log *slog.Logger, parts ...part) error {
	var all error
	until := time.Now().Add(limit)
	for _, p := range parts {
		done := make(chan error, 1)
		go func() { done <- p.close() }()
		select {
		case err := <-done:
			all = errors.Join(all, err)
		case <-time.After(max(time.Until(until), limit/10)):
			log.Error("a part of Steward did not close in time", "part", p.name)
			all = errors.Join(all, fault.New(fault.Timeout, "closing_hangs", "%s could not be closed in time", p.name).
				WithHint("nothing that was acknowledged is lost; if it happens again, report what the log says"))
		}
	}
	return all
}

// anchor returns a function that appends the head of the log to the file of the setting
// audit.anchor_file; nil if it is not set.
func (l *Local) anchor(set *settings.Loaded) func(context.Context) error {
	file := set.Audit.AnchorFile
	if file == "" {
		return nil
	}
	return func(ctx context.Context) error { return l.audit.Anchor(ctx, file) }
}

// HistoryFile is the file with what was typed into the chat.
func HistoryFile(set *settings.Loaded) string { return filepath.Join(set.Data, "history") }

// ToolLines lists the tools of the assistant, one on a line.
func (l *Local) ToolLines() string {
	var b strings.Builder
	for _, t := range l.node.Tools("") {
		first, _, _ := strings.Cut(t.Description, "\n")
		fmt.Fprintf(&b, "%-18s [%s] %s\n", t.Name, t.Effect, first)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
