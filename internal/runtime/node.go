// Package runtime assembles one node from engines and adapters, opens it, maintains it and
// closes it.
//
// Open connects the engines: kits (agents with their tools), routing, conversation, effect,
// requests, turn, work and planning. Each of the last three tells at its head how it works. Open
// then has interrupted runs and open requests resumed, and starts what runs all the time: the
// notices of the log's entries, the anchor of its head, and reminders.
//
// While the node is open, it erases what was deleted long ago and packs what is not used any
// more (keep.go). It answers what concerns several engines at once: branches, deletion of
// conversations and users, approvals, resources.
//
// Close suspends all runs and waits until no goroutine of the node is left. All of them belong
// to one lifetime.Lifetime. The next Open continues where this one has ended.
//
// Several nodes can share a store, if each works on users of its own (Spaces). Then Open resumes
// nothing: TakeUser does, for one user, and LeaveUser is what Close is for one user.
package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"steward/internal/agent"
	"steward/internal/catalog"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/events"
	"steward/internal/explain"
	"steward/internal/jobs"
	"steward/internal/kits"
	"steward/internal/lifetime"
	"steward/internal/lifetime/telemetry"
	"steward/internal/llm"
	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/planning"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/routing"
	"steward/internal/search"
	"steward/internal/search/similar"
	"steward/internal/service"
	"steward/internal/store"
	"steward/internal/store/follow"
	"steward/internal/store/lease"
	"steward/internal/taint"
	"steward/internal/tool"
	"steward/internal/tree"
	"steward/internal/turn"
	"steward/internal/work"
)

// Options are the parts of a node. Store, Models, Tools and Authorizer are
// required.
type Options struct {
	Store      store.Store
	Models     *llm.Models
	Tools      *tool.Registry
	Authorizer policy.Authorizer
	// Vendors have the formats of messages that conversations are exported and converted to.
	Vendors llm.Vendors
	// People is the directory of users. If nil, everybody is a member, and in no
	// group.
	People policy.Directory
	// AuditReads lists the types and places whose reads are recorded; see
	// events.Options.
	AuditReads []string
	// Agents are the fixed agents. "assistant" is always added.
	Agents []agent.Definition
	// Catalog provides the agents that are defined in folders. May be nil.
	Catalog kits.Catalog
	// Limits are those of the assistant. Zero values mean the defaults.
	Limits agent.Limits
	// Parallel is how many tool calls of one turn run concurrently; zero means 8.
	// All turns together run at most eight times as many.
	Parallel int
	// Routing says which messages that name no agent are routed to one: RoutingOff,
	// RoutingAuto or RoutingAlways. Otherwise the assistant answers them.
	Routing string
	// ExpireAtOnce has results that are older than their tools allow leave what the model is shown
	// at the next request, and not only when room is needed.
	ExpireAtOnce bool
	// ToolBudget bounds which of an agent's tools a model is shown.
	ToolBudget kits.ToolBudget
	// Idle leaves interrupted work alone: no run, request or call is resumed. It
	// is for commands that only read.
	Idle bool
	// Similar says by which embedding model agents are found for tasks, and tools for requests; the node
	// fills in Life, Go and Log. Without a Model they are found by their words.
	Similar similar.Options
	// TaskThreshold is how sure it must be that an agent is for a task of a plan: see routing.Engine.AgentFor.
	TaskThreshold float64
	// RemoteModels returns the model server that an agent's llm service names.
	// May be nil.
	RemoteModels func(b service.Binding) (llm.Provider, error)
	// Profile returns what the model is told about a user (time zone, units,
	// …), as text for the system prompt. speaks is the path of the agent if it talks
	// with the user; empty: another agent asks it. May be nil.
	Profile func(ctx context.Context, user, speaks string) (string, error)
	// Zone returns a user's time zone, in which models are told when messages were sent. If it is nil,
	// they are not told. It may return nil for UTC.
	Zone func(user string) *time.Location
	// Memory has the facts that turns begin with. May be nil.
	Memory *memory.Engine
	// ReadAfter is how long a conversation rests before it is read for facts; zero: none is read.
	// ReadPerDay is how many of a user's conversations are read in a day.
	ReadAfter  time.Duration
	ReadPerDay int
	// Skills returns what an agent with the tool skills.read is told about the
	// skills that a user has when a turn begins. May be nil.
	Skills func(user string) (string, error)
	// Documents turns a file that models cannot read into text, before the message
	// that has it attached is recorded. model is the one that the message asks for,
	// empty: none. It returns other files as they are. May be nil.
	Documents func(ctx context.Context, user, model string, f *message.File) (*message.File, error)
	// Spaces are the users, where several nodes share the store. Then the node works on those that it is told to
	// (TakeUser, LeaveUser). Nil: it works on all.
	Spaces Spaces
	// Today reads again what a user has spent today, before the node works on the user. May be nil.
	Today func(ctx context.Context, user string) error
	// Alarms lets reminders go off and jobs begin; nil: there are none.
	Alarms *jobs.Scheduler
	// JobSource yields what happens to the files or in the home that a job begins on; nil: no such job begins.
	JobSource func(ctx context.Context, j record.Job) iter.Seq2[jobs.Events, error]
	// Heartbeat is what the heartbeat and the reviews may spend, and where they look beside the node itself.
	Heartbeat HeartbeatOptions
	// Notify reaches a user outside of a conversation. May be nil.
	Notify func(ctx context.Context, user, title, text string) error
	// Deliver puts the text of an alarm or a job into the outbox of the user's messengers, once for each key,
	// and reports whether the user has one. An alarm has not gone off before it returns nil. May be nil.
	Deliver func(ctx context.Context, user, text string, labels message.Labels, key string) (reached bool, err error)
	// Search finds messages, for people and for the tool conversation.search. Its
	// owner closes it after the node. If nil, there is no search.
	Search search.Index
	// ApprovalTimeout is how long a question to a person stays open and an
	// approval stays valid; zero means 7 days.
	ApprovalTimeout time.Duration
	// IdleFor is how long a conversation stays in memory after its last turn;
	// zero means ten minutes.
	IdleFor time.Duration
	// IdleBytes bounds the memory of idle conversations; zero means 32 MiB.
	IdleBytes int
	// IdleChats bounds how many idle conversations stay in memory; zero means 32.
	IdleChats int
	// KeepDeleted is how long deleted resources can be restored before they are
	// erased for good; zero means 30 days, negative means for ever.
	KeepDeleted time.Duration
	// PackAfter is how long an unused conversation keeps the form in which it was
	// written before it is packed; zero means 30 days.
	PackAfter time.Duration
	// Erased is called when data of a user (of any user, if user is "") was
	// erased for good. It returns when everything derived from that data is gone
	// too. May be nil.
	Erased func(ctx context.Context, user string) error
	// Backup makes the backup of the job of the kind record.KindBackup, and says what it has made. nil: such a job
	// fails.
	Backup func(context.Context) (said string, err error)

	// Forget erases what is kept about a user outside the store. May be nil.
	Forget func(user string) error
	// ExportKey returns the key that signs exports and verifies their signatures.
	// If nil, exports are not signed.
	ExportKey func() ([]byte, error)
	// Secrets masks secrets in everything that is recorded, shown or sent;
	// secret.Masker implements it. May be nil.
	Secrets turn.Secrets
	// Anchor keeps the head of the log in a place where somebody who can change
	// the log cannot change it. It is called every AnchorEvery (zero means one
	// hour) and once at the end. May be nil.
	Anchor      func(context.Context) error
	AnchorEvery time.Duration
	Telemetry   *telemetry.Telemetry // counts and traces what the node does; may be nil
	EventsLag   *telemetry.Follower  // is told how far the log was read for those who follow it; may be nil
	Log         *slog.Logger         // nil: slog.Default()
}

// The engines of a node, by the names that they have in it.
type (
	Turns    = turn.Engine
	Work     = work.Engine
	Planning = planning.Engine
)

// Node is one running Steward: its engines, and what keeps them going. Safe for
// concurrent use.
type Node struct {
	Records
	*Turns
	*Work
	*Planning
	Kits    *kits.Engine
	Routing *routing.Engine
	Policy  *explain.Engine
	// Vendors have the formats of messages that conversations are exported and converted to.
	Vendors llm.Vendors

	opt       Options
	entries   *follow.Log
	events    *events.Engine
	resources *tree.Service
	reminders reminders
	reader    *memory.Reader // of conversations that rest; nil: none is read
	jobTools  jobTools
	beats     sync.Map // *beats, by user
	notified  sync.Map // users, by the occurrences of alarms for which a notification was sent
	kept      keeping  // of users, where several nodes share the store
	life      *lifetime.Lifetime
	log       *slog.Logger

	packing     sync.Mutex
	packedUntil time.Time // conversations that were last used before are packed; see packUnused
}

// Open assembles a node and resumes the runs that a crash or a close interrupted.
func Open(ctx context.Context, opt Options) (*Node, error) {
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	opt.IdleFor = cmp.Or(opt.IdleFor, 10*time.Minute)
	opt.Parallel = cmp.Or(opt.Parallel, 8)
	opt.IdleBytes = cmp.Or(opt.IdleBytes, 32<<20)
	opt.IdleChats = cmp.Or(opt.IdleChats, 32)
	opt.Store = lease.Store(opt.Store)
	n := &Node{Vendors: opt.Vendors, opt: opt, log: opt.Log, life: lifetime.New(ctx)}
	if opt.Spaces != nil {
		n.life.Divide(request.ErrSuspend)
	}
	n.connect()
	if err := n.start(ctx); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endFailed)
		defer cancel()
		_, failed := n.suspend(ctx)
		return nil, errors.Join(err, failed)
	}
	return n, nil
}

// endFailed is how long Open waits for the end of what it has started, if it fails.
const endFailed = 30 * time.Second

// start adds the node's own tools and agents, starts what the node does by itself, and resumes runs.
func (n *Node) start(ctx context.Context) error {
	tools := append(taint.Tools(), n.Effects.ReadTool())
	for _, t := range tools {
		if err := n.opt.Tools.Add(t); err != nil {
			return err
		}
	}
	for _, add := range []func() error{n.addSearch, n.addResources} {
		if err := add(); err != nil {
			return err
		}
	}
	std := kits.Assistant
	std.Limits = n.opt.Limits
	if err := n.Kits.Build(append([]agent.Definition{std}, n.opt.Agents...)...); err != nil {
		return err
	}
	if err := n.Planning.AddPlanner(); err != nil {
		return err
	}
	if err := n.Turns.LoadCalibration(ctx); err != nil {
		return err
	}
	if n.opt.Spaces != nil {
		return n.openShared(ctx)
	}
	n.life.Go(n.maintain)
	if n.opt.Idle {
		return nil
	}
	if err := n.restoreJobTools(ctx, store.ForNode("")); err != nil {
		return fmt.Errorf("reading what jobs may do: %w", err)
	}
	if err := n.Work.Recover(ctx); err != nil {
		return fmt.Errorf("resuming interrupted runs: %w", err)
	}
	if err := n.Work.RecoverRequests(ctx); err != nil {
		return fmt.Errorf("resuming open requests: %w", err)
	}
	n.followLog()
	n.anchorLog()
	n.runScheduler()
	n.life.Go(func() { n.reader.Backlog(n.life) })
	return nil
}

// connect makes the engines of the node, each of those that it stands on. The kits
// are made before the engines whose tools they hold, and routing asks models as
// turns do, so these calls go up.
func (n *Node) connect() {
	opt := &n.opt
	var near *similar.Finder
	if o := opt.Similar; o.Model != nil {
		o.Life, o.Go, o.Log = n.life, n.life.Go, opt.Log
		near = similar.New(o)
	}
	n.Kits = kits.New(kits.Options{Similar: near, Tools: opt.Tools, Models: opt.Models, Catalog: opt.Catalog, Limits: opt.Limits, Small: opt.Routing != routing.Off,
		RemoteModels: opt.RemoteModels, Log: opt.Log,
		Ask:    func(a *catalog.Agent) tool.Tool { return n.Work.AskTool(a) },
		Design: func(path string) (*kits.Kit, error) { return n.Planning.Redesign(path) }})
	n.entries = follow.New(follow.Options{Store: opt.Store, About: events.About, Lag: opt.EventsLag})
	var mask func(string) string
	if opt.Secrets != nil {
		mask = opt.Secrets.Mask
	}
	effects := effect.New(effect.Options{Store: opt.Store, Authorizer: n.jobTools.over(kits.Delegating(opt.Authorizer)), ApprovalTimeout: opt.ApprovalTimeout,
		Directory: opt.People, Tool: n.Kits.Callee, Called: requests.Called(opt.Store), Mask: mask, Zone: opt.Zone, Telemetry: opt.Telemetry, Log: opt.Log})
	conversations := conversation.New(opt.Store, conversation.Options{Tools: n.Kits.ToolOf, Names: n.Kits.NamesOf, Key: opt.ExportKey, Codecs: opt.Vendors.Codecs(), Log: opt.Log})
	n.Records = NewRecords(RecordsOptions{Store: opt.Store, Conversations: conversations, Effects: effects, Search: opt.Search,
		Price: func(model string, u message.Usage) float64 { return opt.Models.Spent(model, u).Cost }, Spec: n.Kits.SpecOf, Zone: opt.Zone, Log: opt.Log})
	n.Policy = explain.New(explain.Options{Authorizer: opt.Authorizer, Effects: effects, Kits: n.Kits, Requests: n.Records.Engine})
	n.Routing = routing.NewEngine(routing.Options{Mode: opt.Routing, Store: opt.Store, Conversations: conversations, Models: opt.Models, Kits: n.Kits, Catalog: opt.Catalog,
		TaskThreshold: opt.TaskThreshold, Similar: near,
		Ask: func(ctx context.Context, m llm.Resolved, r *llm.Request, text string) (string, error) {
			return n.Turns.AskOnce(ctx, m, r, text)
		}, Life: n.life, Go: n.life.Go, Log: opt.Log})
	n.Turns = turn.New(turn.Options{Store: opt.Store, Models: opt.Models, Kits: n.Kits, Routing: n.Routing, Conversations: conversations, Effects: effects,
		Requests: n.Records.Engine, Life: n.life, Parallel: opt.Parallel, ExpireAtOnce: opt.ExpireAtOnce, ToolBudget: opt.ToolBudget, Profile: opt.Profile,
		Zone: opt.Zone, Memory: opt.Memory, Rested: n.rested, Skills: opt.Skills, Documents: opt.Documents, Secrets: opt.Secrets, IdleFor: opt.IdleFor, IdleBytes: opt.IdleBytes, IdleChats: opt.IdleChats, Telemetry: opt.Telemetry, Log: opt.Log})
	n.Work = work.New(work.Options{Store: opt.Store, Turns: n.Turns, Kits: n.Kits, Conversations: conversations, Effects: effects, Requests: n.Records.Engine,
		Life: n.life, Log: opt.Log})
	n.Planning = planning.New(planning.Options{Store: opt.Store, Turns: n.Turns, Work: n.Work, Kits: n.Kits, Routing: n.Routing, Effects: effects, Requests: n.Records.Engine,
		Life: n.life, Tools: opt.Tools, Catalog: opt.Catalog, Limits: opt.Limits, Log: opt.Log})
	n.Turns.Connect(n.Work, n.Planning)
	n.reader = n.newReader(conversations)
	if opt.Memory != nil {
		opt.Memory.Tell(n.Turns.TellMemory)
	}
}

// Close suspends all runs, to be resumed at the next start. It returns when
// nothing of the node runs any more, or with ctx's error.
func (n *Node) Close(ctx context.Context) error {
	first, err := n.suspend(ctx)
	if err != nil || !first || n.opt.Idle {
		return err
	}
	return n.Turns.SaveCalibration(ctx)
}

// suspend ends what runs, and records that this was no crash. It returns false if the node had ended before.
func (n *Node) suspend(ctx context.Context) (first bool, err error) {
	first = n.life.End(request.ErrSuspend)
	n.Turns.StopEviction()
	n.reader.Close()
	done := make(chan struct{})
	go func() {
		n.entries.Close()
		n.life.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return first, ctx.Err()
	}
	if first {
		n.Work.RecordEnd(ctx)
	}
	return first, nil
}
