package effect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// Settlement describes a run that has ended and whose queued actions are to be done.
type Settlement struct {
	Under    resource.URI // the interaction, or another resource above the run's messages
	Scope    store.Scope
	Request  request.Context
	Attended bool
	Stopped  bool // a person has stopped the run: actions that have not begun are cancelled
	Tools    func(agent, name string) (tool.Tool, bool)
	Notify   func(Progress) // as in Call; may be nil
	Settled  func(Outcome)  // called with each outcome as soon as it is recorded; may be nil
}

// Outcome is the result of one queued action.
type Outcome struct {
	Intent resource.URI
	Call   message.Ref
	Result *message.ToolResult
}

// Settle performs the queued actions of a run in the order in which they were requested.
// The same effect requested twice is done once. Adjacent actions of a tool that takes
// batches are passed to it together. Settle waits for questions that are still open. It
// can be called again after a crash. An error (those of Run) ends it; the outcomes so far
// are returned with it.
func (e *Engine) Settle(ctx context.Context, s Settlement) ([]Outcome, error) {
	queue, err := e.queue(context.WithoutCancel(ctx), s)
	if err != nil {
		return nil, err
	}
	var out []Outcome
	for len(queue) > 0 {
		if suspended(ctx) {
			return out, request.ErrSuspend
		}
		done, n, err := e.settleNext(ctx, s, queue)
		for _, o := range done {
			out = append(out, o)
			if s.Settled != nil && err == nil {
				s.Settled(o)
			}
		}
		if err != nil {
			return out, err
		}
		queue = queue[n:]
	}
	return out, nil
}

// settleNext settles the first queued action, or the first few together. It returns how
// many it settled.
func (e *Engine) settleNext(ctx context.Context, s Settlement, queue []intentRecord) ([]Outcome, int, error) {
	if !s.Stopped {
		if batch := e.together(s, queue); len(batch) > 1 {
			done, err := e.settleBatch(ctx, s, batch)
			if done != nil || err != nil {
				return done, len(done), err
			}
		}
	}
	res, err := e.settleOne(ctx, s, queue[0])
	if res == nil {
		return nil, 1, err
	}
	return []Outcome{{Intent: queue[0].uri, Call: queue[0].in.Call, Result: res}}, 1, err
}

// queue finds the deferred intents that are in flight, in the order in which they were
// requested. IDs give no order: messages are sorted by the creation of their first intent,
// and calls by their position in the message.
func (e *Engine) queue(ctx context.Context, s Settlement) ([]intentRecord, error) {
	var found []intentRecord
	for _, st := range intent.States() {
		if !st.InFlight() {
			continue
		}
		for r, err := range e.intents(ctx, s.Scope, store.Query{Under: s.Under, State: string(st)}) {
			if err != nil {
				return nil, err
			}
			if r.in.Deferred {
				found = append(found, *r)
			}
		}
	}
	first := map[id.ID]time.Time{}
	for _, r := range found {
		if t, ok := first[r.in.Call.Message]; !ok || r.in.Created.Before(t) {
			first[r.in.Call.Message] = r.in.Created
		}
	}
	slices.SortFunc(found, func(a, b intentRecord) int {
		return cmp.Or(first[a.in.Call.Message].Compare(first[b.in.Call.Message]),
			cmp.Compare(a.in.Call.Message.String(), b.in.Call.Message.String()),
			cmp.Compare(a.in.Call.Block, b.in.Call.Block))
	})
	return found, nil
}

// queuedJob rebuilds the job of a queued action from its record.
func (e *Engine) queuedJob(ctx context.Context, s *Settlement, r *intentRecord, t tool.Tool) (*job, error) {
	c, err := e.callOf(ctx, s.Scope, r, t)
	if err != nil {
		return nil, err
	}
	c.Request, c.Attended, c.Notify = s.Request, s.Attended, s.Notify
	j := &job{e: e, c: c, args: c.Args, last: true}
	if t != nil {
		j.spec = t.Spec()
	}
	return j, nil
}

// settleOne performs one queued action. It reloads the intent first: while earlier actions
// were performed, a person may have answered, with changed arguments.
func (e *Engine) settleOne(ctx context.Context, s Settlement, r intentRecord) (*message.ToolResult, error) {
	r, err := e.load(context.WithoutCancel(ctx), s.Scope, r.uri)
	if err != nil {
		return nil, err
	}
	t, ok := s.Tools(r.in.Agent, r.in.Tool)
	j, err := e.queuedJob(ctx, &s, &r, t)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		res := j.c.told(message.Unavailable, "Not done: the tool "+r.in.Tool+" is not there any more.")
		return e.drop(ctx, j, r, reasonGone, res)
	case s.Stopped && r.in.State != intent.Executing:
		return e.drop(ctx, j, r, reasonStopped, j.c.interrupted())
	case r.in.State == intent.Executing: // it had begun before a crash, so it is resumed even if it is a duplicate
		return j.action(ctx)
	}
	if res, err := e.dropDuplicate(ctx, j, r); res != nil || err != nil {
		return res, err
	}
	return j.action(ctx)
}

// dropDuplicate cancels a queued action if the same action has been settled before.
func (e *Engine) dropDuplicate(ctx context.Context, j *job, r intentRecord) (*message.ToolResult, error) {
	same, err := e.hasDuplicate(context.WithoutCancel(ctx), j.c.Scope, r, intent.State.Settled)
	if err != nil || !same {
		return nil, err
	}
	return e.drop(ctx, j, r, reasonDuplicate, j.c.notAgain())
}

// The reasons for which Steward itself cancels queued actions.
const (
	reasonStopped   = "stopped"
	reasonDuplicate = "the same action was queued before it"
	reasonGone      = "the tool is not there any more"
)

// hasDuplicate reports whether the same effect was queued by another intent whose state
// satisfies far.
func (e *Engine) hasDuplicate(ctx context.Context, sc store.Scope, r intentRecord, far func(intent.State) bool) (bool, error) {
	for it, err := range e.intents(ctx, sc, store.Query{Term: store.Term{Name: keyTerm, Value: r.in.Key}}) {
		if err != nil {
			return false, err
		}
		if it.uri != r.uri && far(it.in.State) {
			return true, nil
		}
	}
	return false, nil
}

// mayBeDone reports whether a duplicate in this state prevents an action that a person has
// allowed.
func mayBeDone(s intent.State) bool {
	return s == intent.Executing || s == intent.Done || s == intent.Unknown
}

// dropEditedDuplicate cancels a queued action if a person has changed its arguments to
// those of an action that was or may have been done: both then have the same key, and the
// effect exists already.
func (f *execution) dropEditedDuplicate(ctx context.Context) (*message.ToolResult, error) {
	if a := f.in.Approval; a == nil || a.Edited == "" || !f.deferred() {
		return nil, nil
	}
	same, err := f.e.hasDuplicate(context.WithoutCancel(ctx), f.c.Scope, f.intentRecord, mayBeDone)
	if err != nil {
		return f.refused(err)
	}
	if !same {
		return nil, nil
	}
	return f.settle(ctx, intent.Cancelled, reasonDuplicate, f.c.notAgain())
}

func (c *Call) notAgain() *message.ToolResult {
	return c.told(message.Interrupted, "Not done again: the same was asked for twice in this turn, and is done once.")
}
