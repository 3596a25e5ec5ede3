package work

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"steward/internal/agent"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/turn"
)

// recoverQueues settles what runs that had ended had queued. Runs that were
// resumed settle their queue when they end.
func (e *Engine) recoverQueues(ctx context.Context, queues map[resource.URI]string) error {
	for inter, user := range queues {
		run, found, err := requests.LastRun(ctx, e.store, store.ForUser(user), inter)
		if err != nil {
			return err
		}
		if found && !run.Ended.IsZero() {
			e.Settle(user, inter, run.Outcome == string(agent.Stopped))
		}
	}
	return nil
}

// Settle implements turn.Work: it executes what was queued in a turn, and retries until it is
// settled or the node closes; the next start finds what is left.
func (e *Engine) Settle(user string, inter resource.URI, stopped bool) {
	own, conv := record.IDOf(inter, record.TypeInteraction), record.IDOf(inter, record.TypeConversation)
	ctx, cancel := context.WithCancelCause(e.life)
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
	went := e.life.Go(func() {
		defer leave()
		e.turns.Retry("cannot settle the queued actions of a turn yet", func() error { return e.settleQueue(ctx, c, inter, stopped) },
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
	_, err = e.conversations.Get(e.life, store.ForUser(user), conv)
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

// intentAt reads an intent by its URI text.
func (e *Engine) intentAt(ctx context.Context, sc store.Scope, text string) (intent.Intent, error) {
	uri, err := resource.Parse(text)
	if err != nil {
		return intent.Intent{}, err
	}
	return e.effects.Intent(ctx, sc, uri)
}

// needsDelivery reports whether the outcome of a task is delivered to its conversation. The
// outcome of an action is not if the action went as requested, if the same turn had requested
// it twice, or if its user has stopped it.
func (e *Engine) needsDelivery(t *backgroundCall) (bool, error) {
	if t.intent == "" {
		return true, nil
	}
	in, err := e.intentAt(context.WithoutCancel(e.life), t.call.Scope, t.intent)
	if fault.Is(err, fault.NotFound) { // no intent came of the request
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch t.wish {
	case record.WishQueued:
		if in.State != intent.Cancelled || in.Reason == reasonCancelled {
			return in.State != intent.Done, nil
		}
		res, err := effect.ResultOf(&in)
		return err != nil || res.Status != message.Interrupted, err // stopped, rewound, or asked for twice
	case record.WishResolve:
		return true, nil
	}
	return in.State == intent.Done || in.State == intent.Unknown, nil // otherwise nothing has changed for the model
}

// intentText describes the outcome of an action for its conversation. It returns
// "" for a task that is not about an action.
func intentText(r *requests.Stored, how message.Status) string {
	what := r.Tool
	if r.Args != "" && r.Args != "{}" {
		what += " with " + llm.Line(r.Args)
	}
	at := r.Created.UTC().Format("2006-01-02 15:04:05 MST")
	switch r.Wish {
	case record.WishQueued:
		return fmt.Sprintf("%s, which you had queued at %s, did not go as it should: %s. Tell the user, and what can be done.", what, at, statusText(how))
	case record.WishRetry:
		return fmt.Sprintf("At %s the user had %s tried again, which had not been done before: %s.", at, what, statusText(how))
	case record.WishUndo:
		if how == message.OK {
			return fmt.Sprintf("At %s the user has taken back what %s had done. It is as it was before; do not do it again unless the user asks for it.", at, what)
		}
		return fmt.Sprintf("At %s the user wanted to take back what %s had done: %s.", at, what, statusText(how))
	case record.WishResolve:
		return fmt.Sprintf("It was not known what had become of %s. The user has looked since: %s.", what, statusText(how))
	}
	return ""
}

// reasonCancelled is the reason recorded for an action that a person cancelled.
const reasonCancelled = "cancelled by the user"

// cancelIntent cancels an action that has not begun, by its intent's URI text.
func (e *Engine) cancelIntent(ctx context.Context, sc store.Scope, text string) (bool, error) {
	uri, err := resource.Parse(text)
	if err != nil {
		return false, err
	}
	return e.effects.Cancel(ctx, sc, uri, reasonCancelled)
}
