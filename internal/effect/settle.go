package effect

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"steward/internal/fault"
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

// The reasons for which Steward itself cancels queued actions.
const (
	reasonStopped   = "stopped"
	reasonDuplicate = "the same action was already queued"
	reasonGone      = "the tool no longer exists"
)

// maxBatch is the maximum number of queued actions that a tool gets in one batch.
const maxBatch = 100

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
		n := batchLength(&s, queue)
		done, err := e.settleNext(ctx, &s, queue[:n])
		if len(done) == 0 && err == nil { // the first one waits for a person
			done, err = e.settleNext(ctx, &s, queue[:1])
		}
		out = append(out, done...)
		if err != nil {
			return out, err
		}
		for _, o := range done {
			if s.Settled != nil {
				s.Settled(o)
			}
		}
		queue = queue[len(done):]
	}
	return out, nil
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

// batchLength returns how many actions at the head of the queue can be done as one batch:
// approved actions of one tool that takes batches, with no duplicates; at least one.
func batchLength(s *Settlement, queue []intentRecord) int {
	first := &queue[0].in
	if t, ok := s.Tools(first.Agent, first.Tool); !ok || s.Stopped {
		return 1
	} else if _, ok := tool.BatcherOf(t); !ok {
		return 1
	}
	keys := map[string]bool{}
	for i := range queue {
		in := &queue[i].in
		if i == maxBatch || in.State != intent.Approved || in.Tool != first.Tool || in.Agent != first.Agent || keys[in.Key] {
			return max(i, 1)
		}
		keys[in.Key] = true
	}
	return len(queue)
}

// settleNext performs queued actions: one, or several in one batch. Of several it performs
// those before the first one that waits for a person, so that they need not wait.
func (e *Engine) settleNext(ctx context.Context, s *Settlement, queue []intentRecord) (out []Outcome, failed error) {
	ctx, span := e.opt.Telemetry.Queued(ctx, s.Request, queue[0].in.Tool, string(tool.Action))
	defer func() {
		var results []*message.ToolResult
		for _, o := range out {
			results = append(results, o.Result)
		}
		span.End(results, failed)
	}()
	var ready []*execution
	var at []int // the places of the ready ones in out
	for i := range queue {
		f, unlock, res, err := e.settleQueued(ctx, s, queue[i].uri, len(queue) > 1)
		defer unlock()
		if errors.Is(err, errAwaitingAnswer) {
			break
		}
		if res == nil && err == nil {
			ready, at = append(ready, f), append(at, i)
		}
		out = append(out, Outcome{Intent: queue[i].uri, Call: queue[i].in.Call, Result: res})
		if failed = err; err != nil {
			break
		}
	}
	if len(ready) > 0 && failed == nil {
		var results []*message.ToolResult
		results, failed = e.executeAll(ctx, ready)
		for k, res := range results {
			out[at[k]].Result = res
		}
	}
	out = slices.DeleteFunc(out, func(o Outcome) bool { return o.Result == nil })
	return out, failed
}

// settleQueued performs one queued action; with hold it stops just before the action
// begins. It loads the intent again: while earlier actions were performed, a person may have
// answered, with changed arguments.
func (e *Engine) settleQueued(ctx context.Context, s *Settlement, uri resource.URI, hold bool) (*execution, func(), *message.ToolResult, error) {
	r, err := e.load(context.WithoutCancel(ctx), s.Scope, uri)
	if err != nil {
		return nil, func() {}, nil, err
	}
	t, ok := s.Tools(r.in.Agent, r.in.Tool)
	c, err := e.callOf(ctx, s.Scope, &r, t)
	if err != nil {
		return nil, func() {}, nil, err
	}
	c.Request, c.Attended, c.Notify = s.Request, s.Attended, s.Notify
	j := &toolCall{e: e, c: c, args: c.Args, last: true, hold: hold}
	switch {
	case !ok:
		j.dropped = &dropped{reasonGone, c.result(message.Unavailable, "Not done: the tool "+r.in.Tool+" no longer exists.")}
		return j.carryOut(ctx)
	case s.Stopped && r.in.State != intent.Executing: // what had begun before a crash is resumed
		j.dropped = &dropped{reasonStopped, c.interrupted()}
	}
	j.spec = t.Spec()
	return j.carryOut(ctx)
}

// executeAll starts held actions in one commit, passes them to their tool together, and
// settles each one by its own outcome.
func (e *Engine) executeAll(ctx context.Context, ready []*execution) ([]*message.ToolResult, error) {
	results := make([]*message.ToolResult, len(ready))
	release, err := ready[0].place(ctx)
	if err != nil {
		for k, f := range ready {
			var broken error
			if results[k], broken = f.busy(ctx, err); broken != nil {
				return results, broken
			}
		}
		return results, nil
	}
	var checks []store.Change
	for _, f := range ready {
		if f.lapseReason() != "" { // while it was held: the next Settle asks about it
			err = contended()
		}
		f.in.Attempts++
		checks = append(checks, f.checks...)
	}
	if err == nil {
		err = step(ctx, intent.Executing, checks, ready...)
	}
	if fault.HasCode(err, "conflict") { // someone decided otherwise about one: the next Settle does the others
		err = contended()
	}
	if err != nil {
		release()
		return results, err
	}
	var broken error
	for k, called := range e.callAll(ctx, ready, release) { // settle each, whatever happened to the others
		f := ready[k]
		f.hold, f.ready = false, false
		if wait, again := f.retry(called.how, 1); again && f.in.Attempts < maxAttempts && fault.Pause(ctx, wait) { // by itself
			f.running(fault.Of(called.how.err).Message + "; retrying")
			results[k], err = f.again(ctx)
		} else {
			results[k], err = f.ended(ctx, called.res, called.how)
		}
		broken = cmp.Or(broken, err)
	}
	return results, broken
}

// called is how one of the calls of a batch ended.
type called struct {
	res tool.Result
	how end
}

// callAll passes held actions to their tool. It owns the slot.
func (e *Engine) callAll(ctx context.Context, ready []*execution, release func()) []called {
	lead := ready[0]
	batcher, _ := tool.BatcherOf(lead.c.Tool)
	var ins []tool.Invocation
	for _, f := range ready {
		f.running("")
		ins = append(ins, f.invocation(f.in.Key))
	}
	got, how := protect(ctx, e, lead.spec.Name, timeoutOf(lead.spec), func(ctx context.Context) ([]tool.Outcome, error) {
		defer release()
		return batcher.CallAll(ctx, ins), nil
	})
	if how.err == nil && len(got) != len(ins) {
		how.err = fault.New(fault.Internal, "tool_outcomes", "%s was given %d calls and returned %d outcomes", lead.spec.Name, len(ins), len(got))
	}
	out := make([]called, len(ins))
	for k := range out {
		if out[k].how = how; how.err == nil {
			out[k] = called{got[k].Result, end{err: got[k].Err}}
		}
	}
	return out
}

// dropDuplicate cancels a queued action if another one with the same key was settled
// before. If a person has approved this one, only an effect that may exist counts: the
// person may have changed its arguments to those of an action that was not done.
func (f *execution) dropDuplicate(ctx context.Context) (*message.ToolResult, error) {
	approved := f.in.Approval != nil && f.in.Approval.Grant == ""
	for r, err := range f.e.intents(context.WithoutCancel(ctx), f.c.Scope, store.Query{Term: store.Term{Name: keyTerm, Value: f.in.Key}}) {
		if err != nil {
			return f.refused(err)
		}
		st := r.in.State
		if r.uri != f.uri && (st.Settled() && !approved || st == intent.Executing || st == intent.Done || st == intent.Unknown) {
			return f.settle(ctx, intent.Cancelled, reasonDuplicate,
				f.c.result(message.Interrupted, "Not done again: the same action was requested twice in this turn and is done once."))
		}
	}
	return nil, nil
}
