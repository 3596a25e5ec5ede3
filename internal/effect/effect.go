// Package effect runs tool calls: it validates and judges each one, runs
// queries at once, and takes actions through their intent, so that nothing
// happens that policy or a person did not allow, and nothing happens twice.
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

// Options are the parts of an Engine. Store and Judge are needed.
type Options struct {
	Store           store.Store
	Judge           policy.Judge
	ApprovalTimeout time.Duration // how long a question stands, and an approval is good; zero: 10 minutes
	JudgeTimeout    time.Duration // zero: 10 seconds
	Grace           time.Duration // how long a tool may take to return once it is to stop; zero: 2 seconds
	Log             *slog.Logger  // nil: slog.Default()
}

// Engine runs tool calls. Safe for concurrent use.
type Engine struct {
	opt    Options
	log    *slog.Logger
	leaked atomic.Int64

	mu      sync.Mutex
	slots   map[string]chan struct{}   // by tool: a token per running call
	locks   map[resource.URI]*lock     // by intent: one at a time
	waiting map[resource.URI]*question // by intent: who waits for a person
	schemas map[string]*tool.Validator // of tools that come without a check of their own
}

// New returns an engine.
func New(opt Options) *Engine {
	if opt.ApprovalTimeout == 0 {
		opt.ApprovalTimeout = 10 * time.Minute
	}
	if opt.JudgeTimeout == 0 {
		opt.JudgeTimeout = 10 * time.Second
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
		waiting: map[resource.URI]*question{},
		schemas: map[string]*tool.Validator{},
	}
}

// Leaked returns how many tools still run although nobody waits for them any more.
func (e *Engine) Leaked() int64 { return e.leaked.Load() }

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
	Labels   message.Labels // of what the model was shown
	Attended bool           // a person is there who can be asked
	// Notify tells what becomes of the call before it has a result. It is
	// called from one goroutine, and must not block. May be nil.
	Notify func(Progress)
}

// Status is where a call stands before it has a result.
type Status string

// The statuses.
const (
	Running  Status = "running"
	Awaiting Status = "awaiting_approval"
)

// Progress is a step of a call. ID and what follows are set with Awaiting:
// what a person is shown, and what the answer (Decision) has to repeat.
type Progress struct {
	Status   Status
	Call     message.Ref
	Tool     string
	Args     []byte // canonical
	ID       string // of the question: the URI text of the intent
	ArgsHash string
	Reason   string
	Expires  time.Time
}

func (c *Call) notify(p Progress) {
	if c.Notify != nil {
		p.Call = c.Ref
		c.Notify(p)
	}
}

// IntentURI is where the intent of a message's tool call is kept.
func IntentURI(msg resource.URI, block int) resource.URI {
	return msg.Child("effect.Intent", fmt.Sprint(block))
}

// Run runs a call and returns its result, which is never nil: bad arguments,
// an unknown, failing or hanging tool, a denial and a stop are results. An
// error comes beside it when the run cannot go on: the store refuses to
// record, the node is closing (request.ErrSuspend), or another worker is at the
// same call (effect_contended).
//
// Running a call again after a crash goes on from its recorded intent: what
// was settled is not done again.
func (e *Engine) Run(ctx context.Context, c Call) (*message.ToolResult, error) {
	if c.Tool == nil {
		return c.unknown(), nil
	}
	spec := c.Tool.Spec()
	args, err := e.check(&c, spec)
	if err != nil {
		return c.failed(err), nil
	}
	j := &job{e: e, c: c, spec: spec, args: args}
	if spec.Effect == tool.Query {
		return j.query(ctx)
	}
	return j.action(ctx)
}

// job is one call on its way.
type job struct {
	e    *Engine
	c    Call
	spec tool.Spec
	args []byte // canonical
	last bool   // a deferred action is to be done now, not queued
}

// check canonicalises and validates the arguments. Models leave out the
// arguments of a tool that needs none.
func (e *Engine) check(c *Call, spec tool.Spec) ([]byte, error) {
	raw := c.Args
	if strings.TrimSpace(string(raw)) == "" {
		raw = []byte("{}")
	}
	args, err := tool.Canonical(raw)
	if err != nil {
		return nil, err
	}
	if t, ok := c.Tool.(tool.Checker); ok {
		return args, t.Check(args)
	}
	v, err := e.validator(spec.Input)
	if err != nil {
		return nil, err
	}
	return args, v.Validate(args)
}

// maxSchemas bounds the schemas kept for tools that are in no registry.
const maxSchemas = 256

func (e *Engine) validator(schema []byte) (*tool.Validator, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v, ok := e.schemas[string(schema)]; ok {
		return v, nil
	}
	v, err := tool.NewValidator(schema)
	if err != nil {
		return nil, err
	}
	if len(e.schemas) >= maxSchemas {
		clear(e.schemas)
	}
	e.schemas[string(schema)] = v
	return v, nil
}

// judge asks the judge. No answer in time, an error and an unknown verdict all
// mean no.
func (j *job) judge(ctx context.Context, attended bool) policy.Decision {
	q := policy.Question{User: j.c.Request.User, Agent: j.c.Agent, Tool: j.spec, Args: j.args,
		Labels: j.c.Labels, Attended: attended}
	if fixed, ok := j.e.opt.Judge.(policy.Fixed); ok { // it can neither hang nor fail
		d, _ := fixed.Judge(ctx, q)
		return d
	}
	d, end := protect(ctx, j.e, "the judge", j.e.opt.JudgeTimeout, func(ctx context.Context) (policy.Decision, error) {
		return j.e.opt.Judge.Judge(ctx, q)
	})
	switch {
	case end.err != nil:
		j.e.log.WarnContext(ctx, "judging a tool call failed: it is denied", "tool", j.spec.Name, "error", end.err)
		return policy.Decision{Verdict: policy.Deny, Reason: "policy could not be asked: " + end.err.Error()}
	case d.Verdict != policy.Allow && d.Verdict != policy.Ask && d.Verdict != policy.Deny:
		return policy.Decision{Verdict: policy.Deny, Reason: fmt.Sprintf("policy gave no verdict that is known (%q)", d.Verdict), Rule: d.Rule}
	}
	return d
}

// query judges a query and runs it at once. One that a person must be asked
// about goes the way of actions.
func (j *job) query(ctx context.Context) (*message.ToolResult, error) {
	switch d := j.judge(ctx, j.c.Attended); {
	case ctx.Err() != nil:
		return j.stopped(ctx)
	case d.Verdict == policy.Deny:
		return j.c.denied(d.Reason), nil
	case d.Verdict == policy.Ask:
		return j.action(ctx)
	}
	release, err := j.e.slot(ctx, j.spec)
	if err != nil {
		if ctx.Err() != nil {
			return j.stopped(ctx)
		}
		return j.c.told(message.Unavailable, err.Error()), nil
	}
	j.c.notify(Progress{Status: Running, Tool: j.spec.Name, Args: j.args})
	res, end := j.call(ctx, "", release)
	if end.err != nil && ctx.Err() != nil {
		return j.stopped(ctx)
	}
	return j.keepRest(ctx, j.outcome(res, end))
}

// stopped is the answer to a call that the end of ctx kept from running.
func (j *job) stopped(ctx context.Context) (*message.ToolResult, error) {
	res := j.c.told(message.Interrupted, "Stopped before it was done.")
	if suspended(ctx) {
		return res, request.ErrSuspend
	}
	return res, nil
}

// suspended reports whether ctx ended because the node is closing: then
// everything is left as it is recorded, to be gone on with.
func suspended(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), request.ErrSuspend)
}

// invocation is what the tool gets.
func (j *job) invocation(key string) tool.Invocation {
	return tool.Invocation{Args: j.args, Call: j.c.Ref, Key: key, Conversation: j.c.Request.Conversation,
		User: j.c.Request.User, Request: j.c.Request.ID}.Checked()
}

// call calls the tool, protected, and gives the slot back when it has returned.
func (j *job) call(ctx context.Context, key string, release func()) (tool.Result, end) {
	timeout := j.spec.Timeout
	if timeout == 0 {
		timeout = tool.DefaultTimeout
	}
	ctx = withScope(ctx, j.c.Scope)
	return protect(ctx, j.e, j.spec.Name, timeout, func(ctx context.Context) (tool.Result, error) {
		defer release()
		return j.c.Tool.Call(ctx, j.invocation(key))
	})
}

// key is the idempotency key of the effect.
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
	return j.spec.Effect == tool.Action && j.spec.Delivery == tool.Deferred
}
