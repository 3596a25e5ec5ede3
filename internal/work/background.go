package work

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
)

// codeCancelled is the code of what a person cancelled.
const codeCancelled = "cancelled"

// Causes that end a background call.
var (
	errCancelled error = fault.New(fault.Cancelled, codeCancelled, "cancelled by the user")
	errDeleted   error = fault.New(fault.Cancelled, "conversation_deleted", "the conversation was deleted")
)

// backgroundCall is a tool call that continues beyond its turn, or may come to.
type backgroundCall struct {
	id           id.ID
	at           resource.URI
	conversation *turn.Conversation
	call         effect.Call
	spec         tool.Spec

	intent, wish string // as in its record

	ctx             context.Context // the context of the call
	cancel          context.CancelCauseFunc
	result          chan callEnd  // receives the call's end
	changed         chan struct{} // holds a token when a field below has changed
	recorded        chan struct{} // closed once the result is recorded, or once this process gives the call up
	personAsked     chan struct{} // closed once a person was asked
	personAskedOnce sync.Once

	mu           sync.Mutex
	turnNotify   func(effect.Progress) // receives the progress before the call is in the background; nil: it is in the background
	runningSince time.Time             // when it last began to run; zero: it waits for a person, or has not begun
	ran          time.Duration         // how long it had run before that
	args         []byte                // canonical, once they are known
	progress     effect.Progress
}

type callEnd struct {
	res *message.ToolResult
	err error
}

// CallTool implements turn.Work: it runs a tool call of a turn. Most calls run to their end. A deferred
// call is queued for the end of the turn. A background call returns at once or
// after a while, and its result opens an interaction of its own.
func (e *Engine) CallTool(ctx context.Context, c *turn.Conversation, rc request.Context, ec effect.Call) (*message.ToolResult, error) {
	run := func() (*message.ToolResult, error) { return e.effects.Run(request.With(ctx, rc), ec) }
	if ec.Tool == nil {
		return run()
	}
	spec := ec.Tool.Spec()
	deferred := spec.Effect == tool.Action && spec.Delivery == tool.Deferred
	if !deferred && !spec.Async && spec.AsyncAfter <= 0 {
		return run()
	}
	t := newBackgroundCall(c, ec, spec)
	if !deferred {
		_, err := e.store.Get(ctx, ec.Scope, t.at)
		if err == nil { // it became a background call before a crash
			return t.acceptedResult(), nil
		}
		if !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	switch tooLong, err := e.chainTooLong(ctx, ec.Scope, c.ID, rc.ID); {
	case err != nil:
		return nil, err
	case tooLong && (deferred || spec.Async):
		return t.refusedResult(), nil
	case tooLong:
		return run()
	case deferred:
		return e.enqueue(ctx, rc, ec, t)
	}
	return e.runDetachable(ctx, rc, t)
}

// runDetachable runs a call that may continue as a task. A call that does gets the
// result "accepted".
func (e *Engine) runDetachable(ctx context.Context, rc request.Context, t *backgroundCall) (*message.ToolResult, error) {
	t.ctx, t.cancel = context.WithCancelCause(request.With(context.WithoutCancel(ctx), rc))
	stop := context.AfterFunc(ctx, func() { t.cancel(context.Cause(ctx)) })
	go func() {
		res, err := e.effects.Run(t.ctx, t.call)
		t.result <- callEnd{res, err}
	}()
	if end, ended := t.awaitEnd(); ended {
		stop()
		t.cancel(nil)
		return end.res, end.err
	}
	if !stop() { // the turn was stopped first
		end := <-t.result
		return end.res, end.err
	}
	if err := e.requests.Open(context.WithoutCancel(ctx), t.conversation.User, t.at, t.record(rc)); err != nil {
		t.cancel(request.ErrSuspend)
		<-t.result
		return nil, err
	}
	t.detach()
	if !e.start(t) {
		<-t.result
		return nil, request.ErrSuspend
	}
	return t.acceptedResult(), nil
}

// maxChain bounds how many background calls in a row may be begun because of the
// result of the one before, without anybody having asked for more.
const maxChain = 32

// chainTooLong reports whether a turn follows from maxChain background calls in a row.
func (e *Engine) chainTooLong(ctx context.Context, sc store.Scope, conv, inter id.ID) (bool, error) {
	for tasks := 0; tasks < maxChain; {
		c, found, err := requests.Conversation(ctx, e.store, sc, conv)
		if err != nil || !found { // it is about to be created
			return false, err
		}
		_, above, err := requests.Lineage(ctx, e.store, sc, c, inter)
		if err != nil || above.Kind == "" {
			return false, err
		}
		if above.Kind == record.RequestTask {
			tasks++
		}
		conv, inter = record.IDOf(above.At, record.TypeConversation), record.IDOf(above.At, record.TypeInteraction)
	}
	return true, nil
}

// refusedResult returns the result of a call that would make the chain of tasks too
// long.
func (t *backgroundCall) refusedResult() *message.ToolResult {
	return turn.SystemResult(t.call.Ref, t.call.Name, message.Failed, fmt.Sprintf("Not begun: this is the %dth task in a row that was begun because of another one's result, "+
		"and nobody has said anything in between. Tell the user how far you are and ask whether to go on.\n[error_code: task_chain_too_long; recoverable: false; retry_strategy: none]", maxChain+1))
}

// newBackgroundCall prepares a call. Until detach, its progress goes to
// ec.Notify.
func newBackgroundCall(c *turn.Conversation, ec effect.Call, spec tool.Spec) *backgroundCall {
	t := &backgroundCall{id: record.TaskID(ec.Ref), conversation: c, spec: spec, turnNotify: ec.Notify, args: ec.Args,
		result: make(chan callEnd, 1), changed: make(chan struct{}, 1), recorded: make(chan struct{}), personAsked: make(chan struct{})}
	t.at = ec.Message.Parent().ChildID(record.TypeRequest, t.id)
	ec.Notify = t.notify
	t.call = ec
	return t
}

// notify receives a step of the call.
func (t *backgroundCall) notify(p effect.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch now := time.Now(); {
	case p.Status == effect.Running && t.runningSince.IsZero():
		t.runningSince = now
	case p.Status == effect.Awaiting && !t.runningSince.IsZero():
		t.ran, t.runningSince = t.ran+now.Sub(t.runningSince), time.Time{}
	}
	if p.Status == effect.Awaiting {
		t.personAskedOnce.Do(func() { close(t.personAsked) })
	}
	if len(p.Args) > 0 {
		t.args = p.Args
	}
	t.progress = p
	if t.turnNotify != nil {
		t.turnNotify(p)
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// detach ends the reports to the turn: from here on it is a background call.
func (t *backgroundCall) detach() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnNotify = nil
	if t.progress.Status != "" { // so far only the turn has got it: now the watchers of the task do
		select {
		case t.changed <- struct{}{}:
		default:
		}
	}
}

// awaitEnd waits until the call has ended, or has run so long that it is to
// continue as a task.
func (t *backgroundCall) awaitEnd() (end callEnd, ended bool) {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		select {
		case end = <-t.result:
			if _, began := t.timeLeft(); began && t.spec.Async && end.err == nil { // however quick it was
				t.result <- end
				return callEnd{}, false
			}
			return end, true
		case <-timer.C:
			return callEnd{}, false
		case <-t.changed:
		}
		timer.Stop()
		if left, runs := t.timeLeft(); runs && left <= 0 {
			return callEnd{}, false
		} else if runs {
			timer.Reset(left)
		}
	}
}

// timeLeft returns how long the call may still run before it becomes a background
// call. It returns false while the call is not running.
func (t *backgroundCall) timeLeft() (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runningSince.IsZero() {
		return 0, false
	}
	if t.spec.Async {
		return 0, true
	}
	return t.spec.AsyncAfter - t.ran - time.Since(t.runningSince), true
}

// record returns the record of the task.
func (t *backgroundCall) record(rc request.Context) record.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	root := rc.Root
	if root.Zero() {
		root = rc.ID
	}
	return record.Request{Parent: rc.ID, Root: root, Kind: record.RequestTask, Agent: t.call.Agent, Tool: t.spec.Name,
		Call: t.call.Ref, Args: string(t.args), Attended: t.call.Attended, Labels: uint8(t.call.Labels), Lineage: t.call.Lineage, Status: record.TaskAcknowledged}
}

// acceptedResult returns the result that the model gets at once.
func (t *backgroundCall) acceptedResult() *message.ToolResult {
	return turn.SystemResult(t.call.Ref, t.call.Name, message.Accepted, fmt.Sprintf("Acknowledged: %s goes on in the background as task %s. "+
		"Its result comes by itself, as a message of its own; it is not known yet. Do not call it again for this, and do not wait: "+
		"go on with what does not depend on it, or tell the user that it is under way.", t.spec.Name, t.id))
}

// start makes the node follow a background call to its end. It returns false if
// the node is closing; then the call is cancelled, and the next start takes it
// up.
func (e *Engine) start(t *backgroundCall) bool {
	held := &heldRequest{request: t.id, user: t.conversation.User, conv: t.conversation.ID, cancel: t.cancel, task: t}
	life := e.life.Of(t.conversation.User)
	release, ok := life.Hold()
	if ok && !e.leases.tryLock(held) { // its owner follows the call: see carryOut
		release()
		ok = false
	}
	if !ok {
		t.cancel(request.ErrSuspend)
		return false
	}
	e.turns.Hold(t.conversation)
	closing := context.AfterFunc(life, func() { t.cancel(context.Cause(life)) })
	go func() {
		defer release()
		defer e.turns.Exit(t.conversation)
		defer t.cancel(nil)
		defer closing()
		defer e.leases.unlock(held)
		e.follow(t, sync.OnceFunc(func() { close(t.recorded) }))
	}()
	return true
}
