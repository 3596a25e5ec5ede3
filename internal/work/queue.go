package work

import (
	"cmp"
	"context"
	"slices"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/turn"
)

// Settle implements turn.Work: it executes what was queued in a turn, and retries until it is
// settled or the node closes; the next start finds what is left.
func (e *Engine) Settle(user string, inter resource.URI, stopped bool) {
	own, conv := record.IDOf(inter, record.TypeInteraction), record.IDOf(inter, record.TypeConversation)
	life := e.life.Of(user)
	ctx, cancel := context.WithCancelCause(life)
	held := &heldRequest{request: own, user: user, conv: conv, cancel: cancel}
	if !e.leases.tryLock(held) {
		cancel(nil)
		return
	}
	c := e.turns.Enter(user, conv)
	leave := func() {
		e.leases.unlock(held)
		cancel(nil)
		e.turns.Exit(c)
	}
	went := life.Go(func() {
		defer leave()
		e.turns.Retry(user, "cannot settle the queued actions of a turn yet", func() error { return e.settleQueue(ctx, c, inter, stopped) },
			func(err error) bool { return e.conversationGone(user, conv, err) }, "interaction", inter.String())
	})
	if !went {
		leave()
	}
}

// conversationGone reports whether an error means that a conversation no longer exists.
func (e *Engine) conversationGone(user string, conv id.ID, err error) bool {
	if !fault.Is(err, fault.NotFound) {
		return false
	}
	_, err = e.conversations.Get(e.life.Of(user), store.ForUser(user), conv)
	return fault.Is(err, fault.NotFound)
}

// settleQueue executes what is queued below an interaction, and reports the
// outcomes that the conversation has to learn.
func (e *Engine) settleQueue(ctx context.Context, c *turn.Conversation, inter resource.URI, stopped bool) error {
	sc := store.ForUser(c.User)
	rows, err := e.queuedRows(sc, inter)
	if err != nil {
		return err
	}
	rc := request.Context{ID: record.IDOf(inter, record.TypeInteraction), User: c.User, Conversation: record.ConversationURI(c.ID)}
	s := effect.Settlement{Under: inter, Stopped: stopped, Tools: e.kits.Callee,
		Notify:  func(p effect.Progress) { e.showQueued(c, inter, p) },
		Settled: func(o effect.Outcome) { e.queuedEnded(c, inter, o.Call) }}
	for _, r := range rows {
		rc.Root, rc.Actor, rc.Attended = r.Root, actorOf(r.Agent), r.Attended
	}
	s.Scope, s.Attended = sc, rc.Attended
	s.Scope.Actor = cmp.Or(rc.Actor, c.User)
	s.Request = rc
	_, err = e.effects.Settle(request.With(ctx, rc), s)
	if err != nil {
		return err
	}
	if rows, err = e.queuedRows(sc, inter); err != nil { // includes those of a crash after an action was settled
		return err
	}
	for i := range rows {
		if err := e.deliverQueued(c, &rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// queuedRows returns the records of the actions queued below an interaction.
func (e *Engine) queuedRows(sc store.Scope, inter resource.URI) ([]requests.Stored, error) {
	rows, err := requests.Find(context.WithoutCancel(e.life), e.store, sc, store.Query{Under: inter, State: record.RequestOpen})
	return slices.DeleteFunc(rows, func(r requests.Stored) bool { return r.Wish != record.WishQueued }), err
}

// showQueued shows watchers a step of a queued action.
func (e *Engine) showQueued(c *turn.Conversation, inter resource.URI, p effect.Progress) {
	v := taskView(record.TaskID(p.Call), p)
	v.Status = cmp.Or(v.Status, record.TaskRunning)
	c.Feed.ShowTask(v, record.IDOf(inter, record.TypeInteraction))
}

// queuedEnded handles the end of a queued action. If that fails, the end of
// settleQueue handles it.
func (e *Engine) queuedEnded(c *turn.Conversation, inter resource.URI, call message.Ref) {
	at := inter.ChildID(record.TypeRequest, record.TaskID(call))
	r, err := requests.Load(context.WithoutCancel(e.life), e.store, store.ForUser(c.User), at)
	if err == nil && r.State == record.RequestOpen {
		err = e.deliverQueued(c, &r)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		e.log.Warn("cannot deliver the outcome of a queued action yet", "request", at.String(), "error", err)
	}
}

// deliverQueued records the outcome of a queued action, and has it delivered if
// necessary.
func (e *Engine) deliverQueued(c *turn.Conversation, r *requests.Stored) error {
	if e.leases.task(r.ID) != nil {
		return nil // it is being delivered already
	}
	in, err := e.intentAt(context.WithoutCancel(e.life), store.ForUser(c.User), r.Intent)
	if err != nil {
		return err
	}
	if !in.State.Settled() {
		return fault.New(fault.Internal, "intent_unsettled", "the queued action %s is still %s", r.Intent, in.State)
	}
	res, err := effect.ResultOf(&in)
	if err != nil {
		return err
	}
	t := e.restoreCall(c, r)
	t.result <- callEnd{res: res}
	if !e.start(t) {
		return turn.ErrClosed
	}
	return nil
}

// enqueue runs a call that is queued until its turn ends. The request to settle
// it is recorded before the model learns that it is queued.
func (e *Engine) enqueue(ctx context.Context, rc request.Context, ec effect.Call, t *backgroundCall) (*message.ToolResult, error) {
	res, err := e.effects.Run(request.With(ctx, rc), ec)
	if err != nil || res.Status != message.Queued {
		return res, err
	}
	row := t.record(rc)
	row.Intent, row.Wish = effect.IntentURI(ec.Message, ec.Ref.Block).String(), record.WishQueued
	if err := e.requests.Open(context.WithoutCancel(ctx), t.conversation.User, t.at, row); err != nil {
		return nil, err
	}
	return res, nil
}
