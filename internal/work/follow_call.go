package work

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"steward/internal/agent"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
)

// resumeCall continues a background call that an earlier process left behind. It
// returns false if the node is closing.
func (e *Engine) resumeCall(user string, r *requests.Stored) bool {
	c := e.turns.Enter(user, record.IDOf(r.At, record.TypeConversation))
	defer e.turns.Exit(c)
	t := e.restoreCall(c, r)
	if !e.start(t) {
		return false
	}
	switch {
	case r.State == record.RequestAnswered: // its result is only to be delivered
		t.result <- callEnd{}
	default:
		if r.Error == codeCancelled {
			t.cancel(errCancelled)
		}
		go func() {
			res, err := e.rerun(t)
			t.result <- callEnd{res, err}
		}()
	}
	return true
}

// restoreCall restores a background call from its record.
func (e *Engine) restoreCall(c *turn.Conversation, r *requests.Stored) *backgroundCall {
	user, conv := c.User, c.ID
	sc := store.ForUser(user)
	if sc.Actor = actorOf(r.Agent); r.Intent != "" && r.Wish != record.WishQueued {
		sc.Actor = user
	}
	ec := effect.Call{Name: r.Tool, Args: []byte(r.Args), Ref: r.Call, Scope: sc, Agent: r.Agent,
		Lineage: r.Lineage, Labels: message.Labels(r.Labels), Attended: r.Attended,
		Request: request.Context{ID: r.Parent, Lineage: r.Lineage, Root: r.Root, User: user, Actor: sc.Actor, Conversation: record.ConversationURI(conv), Attended: r.Attended}}
	if !r.Call.Message.Zero() {
		ec.Message = r.At.Parent().ChildID(record.TypeMessage, r.Call.Message)
	}
	var spec tool.Spec
	if found, ok := e.kits.Callee(r.Agent, r.Tool); ok {
		ec.Tool, spec = found, found.Spec()
	}
	spec.Name = r.Tool
	t := newBackgroundCall(c, ec, spec)
	t.turnNotify, t.at, t.id = nil, r.At, r.ID
	t.intent, t.wish = r.Intent, r.Wish
	t.ctx, t.cancel = context.WithCancelCause(request.With(context.WithoutCancel(e.life), ec.Request))
	return t
}

// actorOf returns the name of the actor on whose behalf an agent's tools are
// called.
func actorOf(path string) string { return "agent:" + path }

// rerun runs a background call's tool call again, or continues the intent that it
// is about. The tool may no longer exist.
func (e *Engine) rerun(t *backgroundCall) (*message.ToolResult, error) {
	if t.intent == "" && t.call.Tool == nil {
		return turn.SystemResult(t.call.Ref, t.call.Name, message.Unavailable,
			"The tool "+t.call.Name+" no longer exists. If it had begun to change something, the change may have happened or not."), nil
	}
	if t.intent == "" {
		return e.effects.Run(t.ctx, t.call)
	}
	at, err := resource.Parse(t.intent)
	if err != nil {
		return nil, err
	}
	call, err := e.effects.CallOf(t.ctx, t.call.Scope, at, t.call.Tool)
	switch {
	case fault.Is(err, fault.NotFound): // an older Steward recorded the request first, and got no further
		return turn.SystemResult(t.call.Ref, t.call.Name, message.Interrupted, "Stopped before it was begun."), nil
	case fault.HasCode(err, "intent_not_undoable"):
		call.Tool = nil
	case err != nil:
		return nil, err
	}
	call.Request, call.Notify = t.call.Request, t.notify
	return e.effects.Run(t.ctx, call)
}

// follow reports the progress of a background call until its end, records its
// result, and delivers it. It calls recorded once the result is recorded, or
// when it gives up.
func (e *Engine) follow(t *backgroundCall, recorded func()) {
	defer recorded()
	ctx := context.WithoutCancel(e.life)
	r, err := requests.Load(ctx, e.store, t.call.Scope, t.at)
	if err != nil || r.State == "" {
		e.abandon(t, err)
		return
	}
	if r.State == record.RequestOpen {
		if r, err = e.awaitResult(t); err != nil {
			e.abandon(t, err)
			return
		}
		e.showEnd(t, &r)
	}
	recorded()
	err = e.turns.Retry(t.conversation.User, "cannot deliver the result of a task yet", func() error {
		r, err := requests.Load(ctx, e.store, t.call.Scope, t.at)
		if err != nil {
			return err
		}
		return e.deliver(t, r)
	}, func(err error) bool { return fault.Is(err, fault.NotFound) || fault.HasCode(err, "store_broken") },
		"task", t.id.String(), "tool", t.spec.Name)
	if err != nil {
		e.abandon(t, err)
	}
}

// abandon gives up a background call until the next start takes it up.
func (e *Engine) abandon(t *backgroundCall, err error) {
	if err != nil && e.life.Of(t.conversation.User).Err() == nil && !fault.Is(err, fault.NotFound) {
		e.log.Error("a task cannot continue before the next start", "task", t.id.String(), "tool", t.spec.Name, "error", err)
	}
	t.conversation.Feed.EndTask(t.id, nil)
}

// How often a background call's progress is recorded at most, and how often if it
// has hardly changed.
const (
	recordEvery = time.Second
	recordStill = 10 * time.Second
	recordStep  = 0.1
)

// awaitResult records the progress of a background call until it has its result, and
// then the result.
func (e *Engine) awaitResult(t *backgroundCall) (requests.Stored, error) {
	e.showTask(t, record.TaskAcknowledged)
	var recorded effect.Progress
	at := time.Time{}
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	for {
		select {
		case end := <-t.result:
			return e.finish(t, end)
		case <-t.changed:
			e.showTask(t, record.TaskRunning)
		case <-tick.C:
		}
		t.mu.Lock()
		p := t.progress
		t.mu.Unlock()
		moved := p.Message != recorded.Message || p.Fraction != recorded.Fraction
		since := time.Since(at)
		if !at.IsZero() && (!moved || since < recordEvery || since < recordStill && math.Abs(p.Fraction-recorded.Fraction) < recordStep) {
			continue
		}
		_, err := e.requests.Change(context.WithoutCancel(e.life), t.call.Scope, t.at, func(r *requests.Stored) error {
			r.Status, r.Message, r.Progress = record.TaskRunning, p.Message, max(p.Fraction, 0)
			return nil
		})
		if err != nil {
			e.log.Warn("cannot record the progress of a task", "task", t.id.String(), "error", err)
		}
		recorded, at = p, time.Now()
	}
}

// finish records the result of a task. If the call ended in an error, it is run
// again: it continues from its intent.
func (e *Engine) finish(t *backgroundCall, end callEnd) (requests.Stored, error) {
	var r requests.Stored
	hooksApplied, failed := false, false
	err := e.turns.Retry(t.conversation.User, "cannot record the result of a task yet", func() (err error) {
		if failed {
			end.res, end.err = e.rerun(t)
		}
		if failed = end.err != nil; failed {
			return end.err
		}
		if !hooksApplied {
			end.res, hooksApplied = e.applyHooks(t, end.res), true
		}
		r, err = e.recordResult(t, end.res)
		return err
	}, func(err error) bool { return errors.Is(err, request.ErrSuspend) || fault.Is(err, fault.NotFound) },
		"task", t.id.String(), "tool", t.spec.Name)
	return r, err
}

// applyHooks passes the result to the hooks of the asking agent, which see the
// results of other calls in the same way.
func (e *Engine) applyHooks(t *backgroundCall, res *message.ToolResult) *message.ToolResult {
	life := e.life.Of(t.conversation.User)
	kit, err := e.kits.Of(cmp.Or(t.call.Agent, kits.DefaultAgent))
	if err != nil || life.Err() != nil {
		return res
	}
	h := e.turns.Hooks(kit, t.call.Request, t.conversation.User)
	if h == nil || !h.Has(tool.AfterTool) || turn.NeverRan(res) {
		return res
	}
	return h.After(life, agent.Call{Call: message.Call{Ref: t.call.Ref, ToolCall: &message.ToolCall{Name: t.call.Name, Args: t.call.Args}}, Labels: t.call.Labels}, res)
}

// recordResult stores the result until it has been delivered.
func (e *Engine) recordResult(t *backgroundCall, res *message.ToolResult) (requests.Stored, error) {
	needed, err := e.needsDelivery(t)
	if err != nil {
		return requests.Stored{}, err
	}
	return e.requests.Change(context.WithoutCancel(e.life), t.call.Scope, t.at, func(r *requests.Stored) error {
		if r.State != record.RequestOpen {
			return requests.ErrUnchanged
		}
		r.State, r.Status, r.Outcome = record.RequestAnswered, record.TaskCompleted, string(res.Status)
		if res.Status != message.OK {
			r.Status = record.TaskError
		} else {
			r.Error = "" // it was done before it could be cancelled
		}
		r.Answered, r.Progress = time.Now().UTC().Truncate(time.Millisecond), 1
		if r.Message = ""; !message.LabelsOf([]message.Block{res}).Has(message.Secret) {
			r.Message = llm.Line(res.Text())
		}
		if needed {
			r.Result = message.AppendBlocks(nil, []message.Block{res})
		}
		return nil
	})
}
