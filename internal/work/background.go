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
	id   id.ID
	at   resource.URI
	chat *turn.Conversation
	call effect.Call
	spec tool.Spec

	intent, wish string // as in its record

	work   context.Context // the context of the call
	cancel context.CancelCauseFunc
	result chan ended    // receives the call's end
	moved  chan struct{} // holds a token when a field below has changed
	known  chan struct{} // closed once the result is recorded, or once this process gives the call up
	asks   chan struct{} // closed once a person was asked
	asked  sync.Once

	mu       sync.Mutex
	first    func(effect.Progress) // receives the progress before the call is in the background; nil: it is in the background
	running  time.Time             // when it last began to run; zero: it waits for a person, or has not begun
	ran      time.Duration         // how long it had run before that
	args     []byte                // canonical, once they are known
	progress effect.Progress
}

type ended struct {
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
			return t.accepted(), nil
		}
		if !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	switch far, err := e.tooFar(ctx, ec.Scope, c.ID, rc.ID); {
	case err != nil:
		return nil, err
	case far && (deferred || spec.Async):
		return t.refused(), nil
	case far:
		return run()
	case deferred:
		return e.enqueue(ctx, rc, ec, t)
	}
	return e.runAside(ctx, rc, t)
}

// enqueue runs a call that is queued until its turn ends. The request to settle
// it is recorded before the model is told that it is queued.
func (e *Engine) enqueue(ctx context.Context, rc request.Context, ec effect.Call, t *backgroundCall) (*message.ToolResult, error) {
	res, err := e.effects.Run(request.With(ctx, rc), ec)
	if err != nil || res.Status != message.Queued {
		return res, err
	}
	row := t.row(rc)
	row.Intent, row.Wish = effect.IntentURI(ec.Message, ec.Ref.Block).String(), record.WishQueued
	if err := e.requests.Open(context.WithoutCancel(ctx), t.chat.User, t.at, row); err != nil {
		return nil, err
	}
	return res, nil
}

// runAside runs a call that may continue as a task. A call that does gets the
// result "accepted".
func (e *Engine) runAside(ctx context.Context, rc request.Context, t *backgroundCall) (*message.ToolResult, error) {
	t.work, t.cancel = context.WithCancelCause(request.With(context.WithoutCancel(ctx), rc))
	stop := context.AfterFunc(ctx, func() { t.cancel(context.Cause(ctx)) })
	go func() {
		res, err := e.effects.Run(t.work, t.call)
		t.result <- ended{res, err}
	}()
	if end, over := t.wait(); over {
		stop()
		t.cancel(nil)
		return end.res, end.err
	}
	if !stop() { // the turn was stopped first
		end := <-t.result
		return end.res, end.err
	}
	if err := e.requests.Open(context.WithoutCancel(ctx), t.chat.User, t.at, t.row(rc)); err != nil {
		t.cancel(request.ErrSuspend)
		<-t.result
		return nil, err
	}
	t.detach()
	if !e.start(t) {
		<-t.result
		return nil, request.ErrSuspend
	}
	return t.accepted(), nil
}

// maxChain bounds how many background calls in a row may be begun because of the
// result of the one before, without anybody having asked for more.
const maxChain = 32

// tooFar reports whether a turn follows from maxChain background calls in a row.
func (e *Engine) tooFar(ctx context.Context, sc store.Scope, conv, inter id.ID) (bool, error) {
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

// refused returns the result of a call that would make the chain of tasks too
// long.
func (t *backgroundCall) refused() *message.ToolResult {
	return turn.SystemResult(t.call.Ref, t.call.Name, message.Failed, fmt.Sprintf("Not begun: this is the %dth task in a row that was begun because of another one's result, "+
		"and nobody has said anything in between. Tell the user how far you are and ask whether to go on.\n[error_code: task_chain_too_long; recoverable: false; retry_strategy: none]", maxChain+1))
}

// newBackgroundCall prepares a call. Until detach, its progress goes to
// ec.Notify.
func newBackgroundCall(c *turn.Conversation, ec effect.Call, spec tool.Spec) *backgroundCall {
	t := &backgroundCall{id: record.TaskID(ec.Ref), chat: c, spec: spec, first: ec.Notify, args: ec.Args,
		result: make(chan ended, 1), moved: make(chan struct{}, 1), known: make(chan struct{}), asks: make(chan struct{})}
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
	case p.Status == effect.Running && t.running.IsZero():
		t.running = now
	case p.Status == effect.Awaiting && !t.running.IsZero():
		t.ran, t.running = t.ran+now.Sub(t.running), time.Time{}
	}
	if p.Status == effect.Awaiting {
		t.asked.Do(func() { close(t.asks) })
	}
	if len(p.Args) > 0 {
		t.args = p.Args
	}
	t.progress = p
	if t.first != nil {
		t.first(p)
	}
	select {
	case t.moved <- struct{}{}:
	default:
	}
}

// detach ends the reports to the turn: from here on it is a background call.
func (t *backgroundCall) detach() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.first = nil
	if t.progress.Status != "" { // only the turn has seen it: now the watchers of the task get it
		select {
		case t.moved <- struct{}{}:
		default:
		}
	}
}

// wait waits until the call has ended (over), or has run so long that it is to
// continue as a task.
func (t *backgroundCall) wait() (end ended, over bool) {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		select {
		case end = <-t.result:
			if _, began := t.left(); began && t.spec.Async && end.err == nil { // however quick it was
				t.result <- end
				return ended{}, false
			}
			return end, true
		case <-timer.C:
			return ended{}, false
		case <-t.moved:
		}
		timer.Stop()
		if left, runs := t.left(); runs && left <= 0 {
			return ended{}, false
		} else if runs {
			timer.Reset(left)
		}
	}
}

// left returns how long the call may still run before it becomes a background
// call. It returns false while the call is not running.
func (t *backgroundCall) left() (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running.IsZero() {
		return 0, false
	}
	if t.spec.Async {
		return 0, true
	}
	return t.spec.AsyncAfter - t.ran - time.Since(t.running), true
}

// row returns the record of the task.
func (t *backgroundCall) row(rc request.Context) record.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	root := rc.Root
	if root.Zero() {
		root = rc.ID
	}
	return record.Request{Parent: rc.ID, Root: root, Kind: record.RequestTask, Agent: t.call.Agent, Tool: t.spec.Name,
		Call: t.call.Ref, Args: string(t.args), Attended: t.call.Attended, Labels: uint8(t.call.Labels), Lineage: t.call.Lineage, Status: record.TaskAcknowledged}
}

// accepted returns the result that the model gets at once.
func (t *backgroundCall) accepted() *message.ToolResult {
	return turn.SystemResult(t.call.Ref, t.call.Name, message.Accepted, fmt.Sprintf("Acknowledged: %s goes on in the background as task %s. "+
		"Its result comes by itself, as a message of its own; it is not known yet. Do not call it again for this, and do not wait: "+
		"go on with what does not depend on it, or tell the user that it is under way.", t.spec.Name, t.id))
}

// start makes the node follow a background call to its end. It returns false if
// the node is closing; then the call is cancelled, and the next start takes it
// up.
func (e *Engine) start(t *backgroundCall) bool {
	held := &ownWork{request: t.id, user: t.chat.User, conv: t.chat.ID, cancel: t.cancel, task: t}
	release, ok := e.life.Hold()
	if ok && !e.leases.tryLock(held) { // whoever works on it follows the call: see carry
		release()
		ok = false
	}
	if !ok {
		t.cancel(request.ErrSuspend)
		return false
	}
	e.turns.Hold(t.chat)
	closing := context.AfterFunc(e.life, func() { t.cancel(context.Cause(e.life)) })
	go func() {
		defer release()
		defer e.turns.Exit(t.chat)
		defer t.cancel(nil)
		defer closing()
		defer e.leases.unlock(held)
		e.follow(t, sync.OnceFunc(func() { close(t.known) }))
	}()
	return true
}
