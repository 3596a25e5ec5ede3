// Package effect runs tool calls. It validates and authorizes each call. Queries run at
// once; actions go through a durable intent, so that nothing happens that neither policy
// nor a person allowed, and nothing happens twice.
package effect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// Options configure an Engine. Store and Authorizer are required.
type Options struct {
	Store            store.Store
	Authorizer       policy.Authorizer
	ApprovalTimeout  time.Duration // how long a question stays open and an approval is valid; zero: 7 days
	AuthorizeTimeout time.Duration // zero: 10 seconds
	Grace            time.Duration // time for a tool to return after its context ends; zero: 2 seconds
	Log              *slog.Logger  // nil: slog.Default()

	// Mask hides the secrets in a text: in arguments before they are authorized, and in
	// results and errors before they are recorded or sent. Nil: there are no secrets.
	Mask func(string) string
	// Directory knows the members of the groups that policy sends questions to. Nil: there are
	// no groups, and a call that needs a group's approval is denied.
	Directory policy.Directory
	// Tool finds a tool of an agent, for questions that no run in this process is waiting on.
	// Nil: none is found.
	Tool func(agent, name string) (tool.Tool, bool)
}

// Engine runs tool calls. It is safe for concurrent use.
type Engine struct {
	opt    Options
	log    *slog.Logger
	leaked atomic.Int64 // tools that still run although no call waits for them any more

	mu      sync.Mutex
	slots   map[string]chan struct{}  // by tool: a token per running call
	locks   map[resource.URI]*lock    // by intent: a mutex
	waiting map[resource.URI]*waiter  // by intent: the run that waits for a person
	changed chan struct{}             // closed when a question is asked or answered
	hanging map[resource.URI]struct{} // unsettled intents whose abandoned call may still run
}

// New returns an engine.
func New(opt Options) *Engine {
	if opt.ApprovalTimeout == 0 {
		opt.ApprovalTimeout = 7 * 24 * time.Hour
	}
	if opt.AuthorizeTimeout == 0 {
		opt.AuthorizeTimeout = 10 * time.Second
	}
	if opt.Grace == 0 {
		opt.Grace = 2 * time.Second
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	return &Engine{
		opt: opt, log: opt.Log,
		slots:   map[string]chan struct{}{},
		locks:   map[resource.URI]*lock{},
		waiting: map[resource.URI]*waiter{},
		changed: make(chan struct{}),
		hanging: map[resource.URI]struct{}{},
	}
}

// Call is a tool call to run.
type Call struct {
	Name     string      // as the model wrote it
	Tool     tool.Tool   // nil: there is no such tool
	Near     []string    // with a nil Tool: the names that there are
	Args     []byte      // as the model wrote them
	Ref      message.Ref // the identity of the call
	Message  resource.URI
	Scope    store.Scope
	Request  request.Context
	Agent    string
	Lineage  []string       // the agents on whose behalf Agent acts; see policy.Question
	Labels   message.Labels // of everything the model was shown
	Flow     policy.Flow    // where the call comes from
	Left     policy.Left    // what the request may still spend
	Attended bool           // a person is connected and can be asked
	Action   string         // ActionUndo: the call undoes an earlier effect
	At       time.Time      // the time as of which policy decides; zero: now
	at       resource.URI   // where its intent is kept, if the call was made from that intent; see CallOf
	// Room waits until the call may run. It is called each time before the tool is called.
	// leave is called when the tool has returned or was abandoned, and may be called more than
	// once. Nil: the call may run at once.
	Room func(ctx context.Context) (leave func(), err error)
	// Notify reports the progress of the call before it has a result. It is called by one
	// goroutine at a time, and must not block. It may be nil.
	Notify func(Progress)
}

// ActionUndo is the Action of a call that undoes an earlier effect.
const ActionUndo = "undo"

// Status is the state of a call that has no result yet.
type Status string

// The statuses.
const (
	Running  Status = "running"
	Awaiting Status = "awaiting_approval"
)

// Progress is one step of a call.
type Progress struct {
	Status   Status
	Call     message.Ref
	Tool     string
	Args     []byte    // canonical
	Message  string    // with Running: the tool's own progress message; empty when it begins
	Fraction float64   // with a Message: 0 to 1; negative: unknown
	Question *Question // with Awaiting: what the person is asked
}

func (c *Call) notify(p Progress) {
	if c.Notify != nil {
		p.Call = c.Ref
		c.Notify(p)
	}
}

// IntentURI returns the URI of the intent of a message's tool call.
func IntentURI(msg resource.URI, block int) resource.URI {
	return msg.Child("effect.Intent", fmt.Sprint(block))
}

// Run runs a call and returns its result, which is never nil. Invalid arguments, an
// unknown, failing or hanging tool, a denial and a stop are all results. It also returns
// an error if the run cannot continue: the store refuses to record, the node is closing
// (request.ErrSuspend), or another worker is running the same call (effect_contended).
//
// Running a call again after a crash resumes from its recorded intent: a settled action is
// not done again.
func (e *Engine) Run(ctx context.Context, c Call) (*message.ToolResult, error) {
	res, err := e.run(ctx, e.masked(c))
	return e.hide(res), err
}

func (e *Engine) run(ctx context.Context, c Call) (*message.ToolResult, error) {
	if c.Tool == nil {
		return e.settleOrphaned(ctx, c, c.unknown(), "its tool is not there any more")
	}
	spec := c.Tool.Spec()
	args, err := e.check(&c, spec)
	if err != nil {
		return e.settleOrphaned(ctx, c, c.failed(err), "its tool does not take its arguments any more")
	}
	j := &job{e: e, c: c, spec: spec, args: args}
	if spec.Effect == tool.Query {
		return j.query(ctx)
	}
	return j.action(ctx)
}

// job is the execution of one call.
type job struct {
	e    *Engine
	c    Call
	spec tool.Spec
	args []byte // canonical
	last bool   // perform a deferred action now instead of queueing it

	leave       func()           // releases the slot that Call.Room gave
	unasked     *policy.Decision // the decision to ask, if nobody was there to be asked
	obligations policy.Obligations
}

// check canonicalises and validates the arguments. Empty arguments are taken as {},
// because models leave them out for tools that need none.
func (e *Engine) check(c *Call, spec tool.Spec) ([]byte, error) {
	raw := c.Args
	if strings.TrimSpace(string(raw)) == "" {
		raw = []byte("{}")
	}
	args, err := tool.Canonical(raw)
	if err != nil {
		return nil, err
	}
	if args, err = e.maskJSON(args); err != nil {
		return nil, err
	}
	if t, ok := c.Tool.(tool.Checker); ok {
		return args, t.Check(args)
	}
	v, err := tool.NewValidator(spec.Input) // tools of a registry are Checkers, and have returned above
	if err != nil {
		return nil, err
	}
	return args, v.Validate(args)
}

// rule asks the authorizer. The call is protected unless the authorizer can neither hang
// nor panic.
func (j *job) rule(ctx context.Context, q policy.Question) (policy.Decision, error) {
	judge := j.e.opt.Authorizer
	if _, fixed := judge.(policy.Fixed); fixed {
		return judge.Authorize(ctx, q)
	}
	if b, ok := judge.(interface{ Bounded() bool }); ok && b.Bounded() {
		return judge.Authorize(ctx, q)
	}
	d, end := protect(ctx, j.e, "the authorizer", j.e.opt.AuthorizeTimeout, func(ctx context.Context) (policy.Decision, error) {
		return judge.Authorize(ctx, q)
	})
	return d, end.err
}

// query authorizes a query and runs it at once. A query that a person must be asked about
// is handled as an action.
func (j *job) query(ctx context.Context) (*message.ToolResult, error) {
	d := j.askPolicy(ctx, policy.PointTool, j.c.Attended)
	switch {
	case ctx.Err() != nil:
		return j.stopped(ctx)
	case d.Verdict == policy.Ask, d.Verdict == policy.Deny && j.unasked != nil && j.e.hasGrants(ctx, j.c.Request.User):
		return j.action(ctx)
	case d.Verdict == policy.Deny:
		return j.c.denied(d.Reason), nil
	}
	j.addObligations(d.Obligations)
	release, err := j.place(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return j.stopped(ctx)
		}
		return j.c.told(message.Unavailable, err.Error()), nil
	}
	j.c.notify(Progress{Status: Running, Tool: j.spec.Name, Args: j.args})
	res, end := j.call(ctx, "", release)
	switch {
	case errors.Is(end.err, request.ErrSuspend):
		return j.aside()
	case end.err != nil && ctx.Err() != nil:
		stopped, err := j.stopped(ctx)
		labelled(stopped, j.shown(res, end))
		stopped.Sources = j.sources(res)
		return stopped, err
	}
	return j.keepRest(ctx, j.outcome(res, end))
}

// stopped returns the result of a call that did not run because ctx ended.
func (j *job) stopped(ctx context.Context) (*message.ToolResult, error) {
	if suspended(ctx) {
		return j.aside()
	}
	return j.c.interrupted(), nil
}

// aside leaves the call as it is recorded, to be resumed later, because the node is
// closing. A tool that waits for a part of the node may notice this a moment before ctx
// ends.
func (j *job) aside() (*message.ToolResult, error) {
	return j.c.interrupted(), request.ErrSuspend
}

// suspended reports whether ctx ended because the node is closing. Everything is then left
// as it is recorded, to be resumed later.
func suspended(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), request.ErrSuspend)
}

// ownAgent is the name of the node's own agent, whose path is empty.
const ownAgent = "assistant"

// invocation returns what is passed to the tool.
func (j *job) invocation(key string) tool.Invocation {
	rc := j.c.Request
	agent := j.c.Agent
	if agent == ownAgent {
		agent = ""
	}
	return tool.Invocation{Args: j.args, Call: j.c.Ref, Key: key, Conversation: rc.Conversation, User: rc.User,
		Agent: agent, Request: rc.ID, Parent: rc.Parent, Trace: rc.Trace()}.Checked()
}

// intentURI returns the URI of the call's intent.
func (j *job) intentURI() resource.URI {
	if !j.c.at.Zero() {
		return j.c.at
	}
	return IntentURI(j.c.Message, j.c.Ref.Block)
}

// key returns the idempotency key of the effect. A deferred action is identified by its
// interaction instead of its call, so that repeating it in one turn is one effect.
func (j *job) key() string {
	identity := intent.CallIdentity(j.c.Ref)
	if j.deferred() {
		place, ok := j.c.Message.Find("common.Interaction")
		if !ok {
			place = j.c.Message.Parent()
		}
		identity = place.String()
	}
	return intent.Key(j.spec.Name, j.args, identity)
}

func (j *job) deferred() bool {
	return j.spec.Effect == tool.Action && j.spec.Delivery == tool.Deferred && !isSuccessor(j.intentURI())
}
