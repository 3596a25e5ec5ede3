// Package effect is the only way to a tool. It checks a call's arguments, asks policy
// about it, calls the tool, and returns the result that the model reads.
//
// A query changes nothing: it is authorized and called at once. An action changes the
// world, so it goes through an intent (package intent), which is committed before anything
// happens and after each step:
//
//   - The intent is proposed, and then authorized. Policy denies it, allows it, or asks a
//     person (Engine.Questions, Engine.Decide). A grant, which is an approval given in
//     advance, can answer for the person.
//   - A deferred action is queued when it is approved. Engine.Settle performs the queue
//     when the turn has ended, adjacent actions of one tool together.
//   - The commit that makes it executing consumes the approval: the arguments, the tool's
//     version and the grant must still be those that were approved.
//   - The tool gets the intent's idempotency key. The result is committed with the final
//     state: done, failed or unknown.
//
// If the process dies in between, the same call finds its intent and continues. What was
// executing may have happened: the receiver is asked (tool.Settler), the call is repeated
// if the receiver recognizes its key, and otherwise its outcome is unknown, and a person resolves it
// (Engine.Resolve). So nothing happens that neither policy nor a person allowed, and
// nothing happens twice.
//
// A retry or an undo (Engine.Again) is an intent of its own below the settled one, and
// takes the same way.
package effect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/intent"
	"steward/internal/lifetime/telemetry"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// Options configure an Engine. Store and Authorizer are required.
type Options struct {
	Store           store.Store
	Authorizer      policy.Authorizer    // must return in bounded time, and not panic
	ApprovalTimeout time.Duration        // how long a question stays open and an approval is valid; zero: 7 days
	Grace           time.Duration        // time for a tool to return after its context ends; zero: 2 seconds
	Telemetry       *telemetry.Telemetry // counts and traces the calls; may be nil
	Log             *slog.Logger         // nil: slog.Default()

	// Mask hides the secrets in a text: in arguments before they are authorized, and in
	// results and errors before they are recorded or sent. Nil: there are no secrets.
	Mask func(string) string
	// Directory knows the members of the groups that policy sends questions to. Nil: there are
	// no groups, and a call that needs a group's approval is denied.
	Directory policy.Directory
	// Tool finds a tool of an agent, for questions that no run in this process is waiting on.
	// Nil: none is found.
	Tool func(agent, name string) (tool.Tool, bool)
	// Spec describes a tool that Tool does not find, so that a question about it can be put in
	// words. Nil: none is known.
	Spec func(name string) (tool.Spec, bool)
	// Called says in words what an agent is whose path says nothing to people, or "". May be nil.
	Called func(ctx context.Context, agent string) string
	// Zone returns the time zone of a user, in which questions tell times. Nil, or a nil result: unknown.
	Zone func(user string) *time.Location
}

// Engine runs tool calls. It is safe for concurrent use.
type Engine struct {
	opt     Options
	log     *slog.Logger
	leaked  atomic.Int64 // tools that still run although no call waits for them any more
	hung    hungCalls
	hanging sync.Map // the URIs of unsettled intents whose abandoned call may still run

	mu      sync.Mutex
	gates   map[string]*gate         // of intents, which one call enters at a time, and of tools
	waiting map[resource.URI]*waiter // by intent: the run that waits for a person
	changed chan struct{}            // closed when a question is asked or answered
}

// zone returns the time zone of a user; nil: it is unknown.
func (e *Engine) zone(user string) *time.Location {
	if e.opt.Zone == nil {
		return nil
	}
	return e.opt.Zone(user)
}

// New returns an engine.
func New(opt Options) *Engine {
	if opt.ApprovalTimeout == 0 {
		opt.ApprovalTimeout = 7 * 24 * time.Hour
	}
	if opt.Grace == 0 {
		opt.Grace = 2 * time.Second
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	return &Engine{
		opt: opt, log: opt.Log,
		gates:   map[string]*gate{},
		waiting: map[resource.URI]*waiter{},
		changed: make(chan struct{}),
	}
}

// Call is a tool call to run.
type Call struct {
	Name     string      // as the model wrote it
	Tool     tool.Tool   // nil: there is no such tool
	Near     []string    // with a nil Tool: the names that there are
	Waits    string      // with a nil Tool: the agent or source that must be approved first
	Args     []byte      // as the model wrote them
	Ref      message.Ref // the identity of the call
	Message  resource.URI
	Scope    store.Scope
	Request  request.Context
	Agent    string
	Lineage  []string       // the agents on whose behalf Agent acts; see policy.Question
	Labels   message.Labels // of everything the model was shown
	Sources  []string       // whose private data that was; nil: unknown
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
	// Generate is the tool's Invocation.Generate. It may be nil.
	Generate func(context.Context, tool.Prompt) (tool.Answer, error)
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

// running reports that the call runs: with a message that it continues in some way.
func (j *toolCall) running(message string) {
	p := Progress{Status: Running, Tool: j.spec.Name, Args: j.args, Message: message}
	if message != "" {
		p.Fraction = -1
	}
	j.c.notify(p)
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
	c = e.masked(c)
	info := telemetry.ToolInfo{CallID: c.Ref.String(), Request: c.Request.ID, Args: c.Args}
	if c.Tool != nil {
		spec := c.Tool.Spec()
		info.Name, info.Origin, info.Effect = spec.Name, spec.Origin, string(spec.Effect)
	}
	ctx, call := e.opt.Telemetry.ToolCall(ctx, info)
	res, err := e.run(ctx, c)
	res = e.hide(res)
	call.End(res, err)
	return res, err
}

func (e *Engine) run(ctx context.Context, c Call) (*message.ToolResult, error) {
	if c.Tool == nil {
		return e.settleOrphaned(ctx, c, c.unknown(), "its tool no longer exists")
	}
	spec := c.Tool.Spec()
	args, err := e.check(&c)
	if err != nil {
		return e.settleOrphaned(ctx, c, c.failed(err), "its tool no longer accepts its arguments")
	}
	j := &toolCall{e: e, c: c, spec: spec, args: args}
	if spec.Effect == tool.Query {
		return j.query(ctx)
	}
	return j.action(ctx)
}

// SettleOrphaned answers a call that will not be made, with res. If an earlier run had
// recorded its intent, that is settled first and its outcome is the answer, so that an
// action that may have been done is never reported as not done.
func (e *Engine) SettleOrphaned(ctx context.Context, c Call, res *message.ToolResult, why string) (*message.ToolResult, error) {
	res, err := e.settleOrphaned(ctx, e.masked(c), res, why)
	return e.hide(res), err
}

func (e *Engine) settleOrphaned(ctx context.Context, c Call, res *message.ToolResult, why string) (*message.ToolResult, error) {
	if c.Message.Zero() {
		return res, nil
	}
	j := &toolCall{e: e, c: c, dropped: &dropped{why, res}}
	if c.Tool != nil {
		j.spec = c.Tool.Spec()
	}
	return j.action(ctx)
}

// toolCall is the execution of one call.
type toolCall struct {
	e    *Engine
	c    Call
	spec tool.Spec
	args []byte // canonical

	last    bool     // perform a deferred action now instead of queueing it
	hold    bool     // an action stops just before it begins, because it is to begin together with others
	dropped *dropped // the action is not to be performed

	leave       func() // releases the slot that Call.Room gave
	obligations policy.Obligations
}

// dropped says why a recorded action is not performed, and what its caller is told.
type dropped struct {
	why string
	res *message.ToolResult
}

// check makes the arguments canonical, corrects what can only mean one thing (see tool.Correct), and
// validates them. What is authorized, shown, recorded and executed is what it returns.
func (e *Engine) check(c *Call) ([]byte, error) { return tool.Correct(c.Tool, c.Args, e.canonical) }

// query authorizes a query and runs it at once. A query that a person or a grant must
// allow is handled as an action.
func (j *toolCall) query(ctx context.Context) (*message.ToolResult, error) {
	d := j.askPolicy(ctx, policy.PointTool, j.c.Attended)
	switch {
	case ctx.Err() != nil:
		return j.stopped(ctx)
	case d.Verdict == policy.Ask && (j.c.Attended || !j.spec.Asks && j.e.hasGrants(ctx, j.c.Request.User)):
		return j.action(ctx)
	case d.Verdict != policy.Allow:
		return j.c.denied(unattended(d).Reason), nil
	}
	j.addObligations(d.Obligations)
	release, err := j.place(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return j.stopped(ctx)
		}
		return j.c.result(message.Unavailable, err.Error()), nil
	}
	j.running("")
	res, how := j.call(ctx, "", release)
	if how.stopped(ctx) {
		return j.cutShort(ctx, res, how)
	}
	return j.keepRest(ctx, j.outcome(res, how))
}

// stopped returns the result of a call that did not run because ctx ended.
func (j *toolCall) stopped(ctx context.Context) (*message.ToolResult, error) {
	if suspended(ctx) {
		return j.c.interrupted(), request.ErrSuspend
	}
	return j.c.interrupted(), nil
}

// cutShort returns the result of a query that was stopped while it ran. A tool that waits
// for a part of the node may notice that the node is closing a moment before ctx ends.
func (j *toolCall) cutShort(ctx context.Context, res tool.Result, how end) (*message.ToolResult, error) {
	if errors.Is(how.err, request.ErrSuspend) {
		return j.c.interrupted(), request.ErrSuspend
	}
	out, err := j.stopped(ctx)
	labelled(out, j.shown(res, how))
	out.Sources = j.sources(res)
	return out, err
}

// suspended reports whether ctx ended because the node is closing. Everything is then left
// as it is recorded, to be resumed later.
func suspended(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), request.ErrSuspend)
}

// ownAgent is the name of the node's own agent, whose path is empty.
const ownAgent = "assistant"

// invocation returns what is passed to the tool.
func (j *toolCall) invocation(key string) tool.Invocation {
	rc := j.c.Request
	agent := j.c.Agent
	if agent == ownAgent {
		agent = ""
	}
	return tool.Invocation{Args: j.args, Call: j.c.Ref, Message: j.c.Message, Key: key, Conversation: rc.Conversation, User: rc.User,
		Agent: agent, Request: rc.ID, Parent: rc.Parent, Trace: rc.Trace(), Labels: j.c.Labels, Sources: j.c.Sources}.Checked()
}

// intentURI returns the URI of the call's intent.
func (j *toolCall) intentURI() resource.URI {
	if !j.c.at.Zero() {
		return j.c.at
	}
	return IntentURI(j.c.Message, j.c.Ref.Block)
}

// key returns the idempotency key of the effect. A deferred action is identified by its
// interaction instead of its call, so that repeating it in one turn is one effect.
func (j *toolCall) key() string {
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

func (j *toolCall) deferred() bool {
	return j.spec.Effect == tool.Action && j.spec.Delivery == tool.Deferred && !isSuccessor(j.intentURI())
}
