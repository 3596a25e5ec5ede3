package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"steward/internal/agent"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/taint"
	"steward/internal/tool"
	"steward/internal/turn"
)

// Execution is a tool call from outside any conversation.
type Execution struct {
	Agent    string // path of the agent that has the tool; empty: the node's own
	Tool     string // category.name, or its wire form
	Args     []byte // a JSON object; empty means {}
	ClientID string // the caller's own id of the call, at most 256 bytes; empty: a new one is made
	// Attended says that the caller can ask a person: a question is stored and reported to Notify, and the
	// call waits for its answer.
	Attended bool
	// Notify reports the progress of the call, as effect.Call.Notify does. It must not block. It may be nil.
	Notify func(effect.Progress)
}

// Executed is the outcome of an Execution.
type Executed struct {
	Request  id.ID
	ClientID string // the caller's own id, or the new one
	Tool     string // category.name
	Result   *message.ToolResult
	Cut      bool // the text was cut to MaxExecuted
	Recorded bool // it was executed before, under the same ClientID
}

// Limits of calls from outside.
const (
	MaxExecuted = 1 << 20 // bytes of text in a result
	maxClientID = 256
)

// ExecuteTool calls one tool on behalf of a user, outside any conversation. What
// needs a person waits for the answer if the call is attended; otherwise it is
// denied, and the result says how it can be done. A failing tool, a denial and the like are
// results. An error means that nothing was called, or that the outcome is unknown
// here.
//
// A query ends with ctx and leaves nothing behind. An action is recorded before
// it is executed, and continues when ctx ends (call_goes_on). Calling again with
// the same ClientID returns its outcome, as soon as there is one, and does not
// execute it twice. An action that had not begun when the process ended is
// withdrawn at the next start; its outcome is then "interrupted".
//
// Error codes: tool_unknown, agent_not_found (NotFound), args_invalid and
// other faults of the arguments, call_id_invalid (Invalid), call_id_used
// (Conflict: by another call), call_goes_on (the kind is that of ctx's end),
// closing, and those of the store.
func (e *Engine) ExecuteTool(ctx context.Context, user string, call Execution) (Executed, error) {
	ctx, leave, ok := e.life.Stay(ctx, user)
	if !ok {
		return Executed{}, turn.ErrClosed
	}
	defer leave()
	call.Tool = e.realName(call)
	x, err := parseExecution(user, call)
	if err != nil {
		return Executed{}, err
	}
	if call.ClientID != "" {
		if done, err := e.recordedResult(ctx, x); done != nil || err != nil {
			return x.outcome(done, true), err
		}
	}
	if err := e.findTool(x, call.Tool); err != nil {
		return Executed{}, err
	}
	if x.spec.Effect == tool.Query {
		return e.executeQuery(ctx, x)
	}
	return e.executeAction(ctx, x)
}

// realName returns the name of a call's tool, which may be named by an alias. A tool of the
// agent with that name comes first.
func (e *Engine) realName(call Execution) string {
	real, ok := tool.Alias(call.Tool)
	if !ok || tool.IsGlob(real) {
		return call.Tool
	}
	kit, err := e.kits.Named(cmp.Or(call.Agent, kits.DefaultAgent))
	if err != nil || kit.Has(call.Tool) { // the error is reported when the tool is looked up
		return call.Tool
	}
	return real
}

// ToolList returns the tools that can be called on the level of an agent, sorted
// by name. agentPath is the agent's path (empty: the node's own level). If
// namespace is not empty, only tools whose names begin with its words are
// returned. Error code: agent_not_found.
func (e *Engine) ToolList(_ context.Context, _, agentPath, namespace string) ([]tool.Spec, error) {
	_, specs, err := e.externalTools(agentPath)
	if err != nil {
		return nil, err
	}
	namespace = tool.FromWire(namespace)
	within := func(s tool.Spec) bool {
		return namespace == "" || slices.ContainsFunc(s.Names(), func(name string) bool {
			return name == namespace || strings.HasPrefix(name, namespace+".")
		})
	}
	return slices.DeleteFunc(slices.Clone(specs), func(s tool.Spec) bool { return !within(s) }), nil
}

// externalTools returns an agent and the tools of its level that can be called from
// outside. Tools that ask other agents are left out, since agents are asked in
// conversations only.
func (e *Engine) externalTools(path string) (*kits.Kit, []tool.Spec, error) {
	kit, err := e.kits.Named(cmp.Or(path, kits.DefaultAgent))
	if err != nil {
		return nil, nil, err
	}
	return kit, slices.DeleteFunc(slices.Clone(kit.All.Specs()), func(s tool.Spec) bool {
		return strings.HasPrefix(s.Origin, "agent:") || taint.Plans(s.Name)
	}), nil
}

// externalCall is a call from outside that is in progress.
type externalCall struct {
	Executed
	user, path string // path: of the agent
	args       []byte // canonical
	at         resource.URI
	request    request.Context
	call       agent.Call
	kit        *kits.Kit
	tool       tool.Tool
	spec       tool.Spec
	notify     func(effect.Progress)
}

// parseExecution checks a call from outside, before its tool is looked up.
func parseExecution(user string, e Execution) (*externalCall, error) {
	if len(e.ClientID) > maxClientID {
		return nil, fault.New(fault.Invalid, "call_id_invalid", "the call's id has more than %d bytes", maxClientID).
			WithHint("use a shorter one, for example a UUID")
	}
	raw := e.Args
	if strings.TrimSpace(string(raw)) == "" {
		raw = []byte("{}")
	}
	args, err := tool.Canonical(raw)
	if err != nil {
		return nil, err
	}
	clientID := cmp.Or(e.ClientID, id.New().String())
	x := newExternal(id.Derive("call", user, clientID), user, cmp.Or(e.Agent, kits.DefaultAgent), tool.FromWire(e.Tool), clientID, args)
	x.request.Attended, x.notify = e.Attended, e.Notify
	return x, nil
}

func newExternal(own id.ID, user, path, name, clientID string, args []byte) *externalCall {
	return &externalCall{Executed: Executed{Request: own, ClientID: clientID, Tool: name}, user: user, path: path, args: args,
		at: resource.URI{}.ChildID(record.TypeRequest, own), request: request.Context{ID: own, User: user, Actor: user},
		call: agent.Call{Call: message.Call{Ref: message.Ref{Message: own}, ToolCall: &message.ToolCall{Name: name, Args: args}}}}
}

// findTool finds the tool and checks the arguments.
func (e *Engine) findTool(x *externalCall, name string) error {
	kit, specs, err := e.externalTools(x.path)
	if err != nil {
		return err
	}
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	t, ok := kit.Registry.Get(x.Tool)
	if !ok || !slices.Contains(names, x.Tool) {
		unknown := e.kits.UnknownTool(name)
		if unknown.Remedy != "" {
			return unknown
		}
		unknown = unknown.WithHint("ListTools lists what there is")
		if near := tool.SimilarNames(x.Tool, names, 3); len(near) > 0 {
			unknown = unknown.WithHint("did you mean %s?", strings.Join(near, " or "))
		}
		return unknown
	}
	if _, err := tool.Correct(t, x.args, nil); err != nil {
		return err
	}
	x.spec = t.Spec()
	x.spec.Async, x.spec.AsyncAfter = false, 0 // no conversation could receive a later result
	x.spec.Delivery = ""                       // no turn could execute it at its end
	x.spec.ResultCap = MaxExecuted
	if x.spec.Effect == tool.Query {
		x.spec.ResultCap = math.MaxInt // the rest is not kept: a query can be repeated
	}
	x.kit, x.tool = kit, capped{t, x.spec}
	return nil
}

// capped is a tool with a different limit for its results.
type capped struct {
	tool.Tool
	spec tool.Spec
}

func (c capped) Spec() tool.Spec   { return c.spec }
func (c capped) Unwrap() tool.Tool { return c.Tool }

// Check implements tool.Checker.
func (c capped) Check(args []byte) error {
	if own, ok := c.Tool.(tool.Checker); ok {
		return own.Check(args)
	}
	return nil
}

func (x *externalCall) outcome(res *message.ToolResult, recorded bool) Executed {
	if res == nil {
		return Executed{}
	}
	out := x.Executed
	out.Result, out.Recorded, out.Cut = res, recorded, res.Rest != ""
	return out
}

// runExternal runs the call between the hooks of its agent.
func (e *Engine) runExternal(ctx context.Context, x *externalCall) (*message.ToolResult, error) {
	ctx = request.With(ctx, x.request)
	call := func(ctx context.Context, c agent.Call) (*message.ToolResult, error) {
		return e.effects.Run(ctx, effect.Call{Name: x.Tool, Tool: x.tool, Args: c.Args, Ref: c.Ref, Message: x.at,
			Scope: store.ForUser(x.user), Request: x.request, Agent: x.path,
			Attended: x.request.Attended, Notify: x.notify})
	}
	if h := e.turns.Hooks(x.kit, x.request, x.user); h != nil {
		return h.Call(ctx, x.at, x.call, call)
	}
	return call(ctx, x.call)
}

// withNodeLife returns a context that ends with ctx and when the node closes or lets the user go. Neither is done
// before the returned function is called.
func (e *Engine) withNodeLife(ctx context.Context, user string) (context.Context, func(), error) {
	life := e.life.Of(user)
	release, ok := life.Hold()
	if !ok {
		return nil, nil, turn.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func() { stop(); cancel(nil); release() }, nil
}

// executeQuery runs a query for as long as the caller waits.
func (e *Engine) executeQuery(ctx context.Context, x *externalCall) (Executed, error) {
	running, leave, err := e.withNodeLife(ctx, x.user)
	if err != nil {
		return Executed{}, err
	}
	defer leave()
	res, err := e.runExternal(running, x)
	switch {
	case ctx.Err() != nil:
		return Executed{}, fault.Of(ctx.Err())
	case errors.Is(err, request.ErrSuspend):
		return Executed{}, turn.ErrClosed
	case err != nil:
		return Executed{}, err
	}
	out := x.outcome(res, false)
	out.Cut = cutText(res, MaxExecuted)
	return out, nil
}

// cutText truncates the text of a result and appends a note that says so.
func cutText(res *message.ToolResult, most int) bool {
	whole := len(res.Text())
	if whole <= most {
		return false
	}
	left := most
	for _, b := range res.Content {
		t, ok := b.(*message.Text)
		if !ok {
			continue
		}
		if len(t.Text) > left {
			t.Text = strings.ToValidUTF8(t.Text[:left], "")
		}
		left -= len(t.Text)
	}
	note := fmt.Sprintf("\n[Cut after %d of %d bytes: ask for less.]", most-left, whole)
	res.Content = append(res.Content, &message.Text{Common: message.Common{Origin: "system"}, Text: note})
	return true
}

// executeAction records an action and executes it, even if the caller stops waiting.
func (e *Engine) executeAction(ctx context.Context, x *externalCall) (Executed, error) {
	r := record.Request{Kind: record.RequestCall, Agent: x.path, Tool: x.Tool, Call: x.call.Ref,
		CallID: x.ClientID, Args: string(x.args), User: x.user, Created: time.Now().UTC().Truncate(time.Microsecond)}
	_, err := e.store.Commit(ctx, store.ForUser(x.user), store.Batch{Request: x.Request,
		Changes: []store.Change{requests.Put(x.at, &r, record.RequestOpen, store.If{Absent: true})}})
	repeated := fault.HasCode(err, "conflict")
	if repeated { // another call with the same id is in progress, or has just ended
		var done *message.ToolResult
		if done, err = e.recordedResult(ctx, x); done != nil {
			return x.outcome(done, true), nil
		}
	}
	if err != nil {
		return Executed{}, err
	}
	p, err := e.startOrJoin(ctx, x)
	if err != nil {
		return Executed{}, err
	}
	select {
	case <-p.done:
		return x.outcome(p.res, repeated), p.err
	case <-ctx.Done():
		return Executed{}, fault.New(fault.Of(ctx.Err()).Kind, "call_goes_on", "%s continues", x.Tool).
			WithHint("call it again with the id %s to get its outcome", x.ClientID).
			Detail("id", x.ClientID).Retrying(fault.RetryBackoff, 0)
	}
}

// runningAction is an action called from outside that is in progress.
type runningAction struct {
	done chan struct{} // closed at its end
	res  *message.ToolResult
	err  error // valid once done is closed, like res
}

// startOrJoin executes a recorded action, or joins its execution if it is in
// progress: repeated requests for the outcome add no work.
func (e *Engine) startOrJoin(ctx context.Context, x *externalCall) (*runningAction, error) {
	running, leave, err := e.withNodeLife(context.WithoutCancel(ctx), x.user)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	p := e.running[x.Request]
	if p != nil {
		e.mu.Unlock()
		leave()
		return p, nil
	}
	p = &runningAction{done: make(chan struct{})}
	e.running[x.Request] = p
	e.mu.Unlock()
	go func() {
		defer leave()
		p.res, p.err = e.runAction(running, x)
		e.mu.Lock()
		delete(e.running, x.Request)
		e.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

// runAction executes an action through its intent and closes its request.
func (e *Engine) runAction(ctx context.Context, x *externalCall) (*message.ToolResult, error) {
	res, err := e.runExternal(ctx, x)
	switch { // without an outcome the request stays open: the same id, or the next start, continues it
	case errors.Is(err, request.ErrSuspend):
		return nil, turn.ErrClosed
	case err != nil:
		return nil, err
	}
	return res, e.closeCall(context.WithoutCancel(ctx), x, res.Status)
}

// closeCall records how a call ended, unless its end is recorded already.
func (e *Engine) closeCall(ctx context.Context, x *externalCall, how message.Status) error {
	_, err := e.requests.Change(ctx, store.ForUser(x.user), x.at, func(r *requests.Stored) error {
		r.Answered = time.Now().UTC().Truncate(time.Microsecond)
		r.State, r.Closed, r.Outcome = "", r.Answered, string(how)
		return nil
	})
	return err
}

// recordedResult returns the outcome of an action that was called before with the same
// id, or nil if there is none yet.
func (e *Engine) recordedResult(ctx context.Context, x *externalCall) (*message.ToolResult, error) {
	r, err := requests.Load(ctx, e.store, store.ForUser(x.user), x.at)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case r.Tool != x.Tool || r.Agent != x.path || r.Args != string(x.args):
		return nil, fault.New(fault.Conflict, "call_id_used", "the id %s belongs to another call, of %s", x.ClientID, r.Tool).
			WithHint("use a fresh id for each call")
	case r.Closed.IsZero():
		return nil, nil
	}
	kit, err := e.kits.Of(x.path)
	if err != nil {
		return nil, err
	}
	res, err := e.settledResult(ctx, x, message.Status(r.Outcome))
	if h := e.turns.Hooks(kit, x.request, x.user); err == nil && h != nil && h.Has(tool.AfterTool) {
		res = h.After(ctx, x.call, res) // what the hooks withhold is not revealed later either
	}
	return res, err
}

// settledResult returns the recorded result of an action whose outcome is how.
func (e *Engine) settledResult(ctx context.Context, x *externalCall, how message.Status) (*message.ToolResult, error) {
	in, err := e.intentOf(ctx, x)
	if err == nil {
		return effect.ResultOf(&in)
	}
	if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	text := "Stopped before it was done."
	if how == message.DeniedCall {
		text = "Denied, nothing was done."
	}
	return turn.SystemResult(x.call.Ref, x.Tool, how, text), nil
}

func (e *Engine) intentOf(ctx context.Context, x *externalCall) (intent.Intent, error) {
	return e.effects.Intent(ctx, store.ForUser(x.user), effect.IntentURI(x.at, 0))
}

// settleCall settles an action called from outside that was in progress when the
// process ended. If it may have been executed, the receiver is asked, or the
// action is repeated if the receiver deduplicates. If it had not begun, it is
// withdrawn, because its caller is gone.
func (e *Engine) settleCall(ctx context.Context, r record.Request) {
	x := newExternal(r.ID, r.User, r.Agent, r.Tool, r.CallID, []byte(r.Args))
	err := e.findTool(x, r.Tool)
	in, broken := e.intentOf(ctx, x)
	switch {
	case fault.Is(broken, fault.NotFound):
		err = e.closeCall(ctx, x, message.Interrupted)
	case broken != nil:
		err = broken
	case err != nil: // the tool may be back at the next start
	case in.State.InFlight() && in.State != intent.Executing:
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		_, err = e.runAction(cancelled, x)
	default:
		_, err = e.runAction(ctx, x)
	}
	if err != nil && ctx.Err() == nil && !fault.HasCode(err, "effect_contended") { // contended: its caller has called again, and executes it
		e.log.Warn("cannot settle an interrupted call from outside yet", "tool", r.Tool, "request", r.ID.String(), "error", err)
	}
}
