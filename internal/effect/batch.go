package effect

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/store"
	"steward/internal/tool"
)

// errAsks means that an action of a batch waits for a person.
var errAsks = errors.New("a person is asked about it")

// maxBatch is the maximum number of queued actions that a tool gets in one batch.
const maxBatch = 100

// together returns the longest prefix of the queue that can be done as one batch: approved
// actions of one tool that takes batches, with no duplicates.
func (e *Engine) together(s Settlement, queue []intentRecord) []intentRecord {
	first := &queue[0]
	t, ok := s.Tools(first.in.Agent, first.in.Tool)
	if !ok {
		return nil
	}
	if _, ok := tool.BatcherOf(t); !ok {
		return nil
	}
	keys := map[string]bool{}
	for i := range queue {
		in := &queue[i].in
		if i == maxBatch || in.State != intent.Approved || in.Tool != first.in.Tool || in.Agent != first.in.Agent || keys[in.Key] {
			return queue[:i]
		}
		keys[in.Key] = true
	}
	return queue
}

// settleBatch performs several queued actions in one batch, up to the first one that waits
// for a person, so that those before it need not wait. If it returns neither outcomes nor
// an error, the first action must be performed by itself.
func (e *Engine) settleBatch(ctx context.Context, s Settlement, batch []intentRecord) ([]Outcome, error) {
	t, _ := s.Tools(batch[0].in.Agent, batch[0].in.Tool)
	var out []Outcome
	var ready []held
	for i := range batch {
		f, unlock, res, err := e.prepare(ctx, s, t, &batch[i])
		if unlock != nil {
			defer unlock()
		}
		if errors.Is(err, errAsks) {
			break
		}
		if err != nil {
			return out, err
		}
		out = append(out, Outcome{Intent: batch[i].uri, Call: batch[i].in.Call, Result: res})
		if res == nil {
			ready = append(ready, held{execution: f, index: i})
		}
	}
	if len(ready) == 0 {
		return out, nil
	}
	results, err := e.carryOut(ctx, t, ready)
	for k, res := range results {
		out[ready[k].index].Result = res
	}
	return out, err
}

// held is one of several actions that are ready to begin.
type held struct {
	*execution
	index int // in the batch
}

// prepare advances a queued action to the point where it would begin. If it returns a
// result, the action is settled already.
func (e *Engine) prepare(ctx context.Context, s Settlement, t tool.Tool, r *intentRecord) (*execution, func(), *message.ToolResult, error) {
	now, err := e.load(context.WithoutCancel(ctx), s.Scope, r.uri)
	if err != nil {
		return nil, nil, nil, err
	}
	if *r = now; r.in.State == intent.Awaiting {
		return nil, nil, nil, errAsks
	}
	j, err := e.queuedJob(ctx, &s, r, t)
	if err != nil {
		return nil, nil, nil, err
	}
	if res, err := e.dropDuplicate(ctx, j, *r); res != nil || err != nil {
		return nil, nil, res, err
	}
	if err := j.inRun(ctx); err != nil {
		return nil, nil, nil, err
	}
	f, unlock, err := j.openIntent(ctx)
	if err != nil {
		return nil, unlock, nil, err
	}
	f.hold = true
	res, err := f.advance(ctx)
	f.hold, f.ready = false, false
	return f, unlock, res, err
}

// carryOut begins all ready actions in one commit, passes them to the tool together, and
// settles each one by its own outcome.
func (e *Engine) carryOut(ctx context.Context, t tool.Tool, ready []held) ([]*message.ToolResult, error) {
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
	if err := e.beginAll(ctx, ready); err != nil {
		release()
		return results, err
	}
	var broken error
	for k, end := range e.callAll(ctx, t, ready, release) { // settle each, whatever happened to the others
		var err error
		if results[k], err = ready[k].endedTogether(ctx, end); err != nil && broken == nil {
			broken = err
		}
	}
	return results, broken
}

// beginAll records that all of the actions begin, or that none does.
func (e *Engine) beginAll(ctx context.Context, ready []held) error {
	b := store.Batch{Request: ready[0].c.Request.ID}
	var checks []store.Change
	for _, f := range ready {
		if f.lapsed() != "" { // it lapsed while held: the next Settle asks about it
			return contended()
		}
		from := f.in.State
		if err := intent.Advance(from, intent.Executing); err != nil {
			return err
		}
		f.in.State = intent.Executing
		f.in.Attempts++
		put, err := f.put(store.If{Version: f.version, States: []string{from.Mark()}})
		if err != nil {
			return err
		}
		b.Changes, checks = append(b.Changes, put), append(checks, f.checks...)
	}
	b.Changes = append(b.Changes, checks...)
	got, err := e.opt.Store.Commit(context.WithoutCancel(ctx), ready[0].c.Scope, b)
	if fault.HasCode(err, "conflict") { // someone decided otherwise about one: the next Settle does the others
		return contended()
	}
	if err != nil {
		return err
	}
	for k, f := range ready {
		f.version = got.Versions[k]
		f.c.notify(Progress{Status: Running, Tool: f.spec.Name, Args: f.args})
	}
	return nil
}

// togetherEnd is how one of the calls of a batch ended.
type togetherEnd struct {
	res tool.Result
	how end
}

// callAll passes the calls to the tool. It owns the slot.
func (e *Engine) callAll(ctx context.Context, t tool.Tool, ready []held, release func()) []togetherEnd {
	lead := ready[0]
	batcher, _ := tool.BatcherOf(t)
	var ins []tool.Invocation
	for _, f := range ready {
		ins = append(ins, f.invocation(f.in.Key))
	}
	timeout := timeoutOf(lead.spec)
	got, how := protect(withScope(ctx, lead.c.Scope), e, lead.spec.Name, timeout, func(ctx context.Context) ([]tool.Outcome, error) {
		defer release()
		return batcher.CallAll(ctx, ins), nil
	})
	if how.err == nil && len(got) != len(ins) {
		how.err = fault.New(fault.Internal, "tool_outcomes", "%s was given %d calls and told of %d outcomes", lead.spec.Name, len(ins), len(got))
	}
	out := make([]togetherEnd, len(ins))
	for k := range out {
		if out[k].how = how; how.err == nil {
			out[k] = togetherEnd{got[k].Result, end{err: got[k].Err}}
		}
	}
	return out
}

// endedTogether settles one action of a batch. If it certainly was not done and can be
// retried, it is retried by itself.
func (f *execution) endedTogether(ctx context.Context, e togetherEnd) (*message.ToolResult, error) {
	if wait, again := f.retry(e.how, 1); again && f.in.Attempts < maxAttempts && sleep(ctx, wait) {
		f.c.notify(Progress{Status: Running, Tool: f.spec.Name, Args: f.args, Fraction: -1,
			Message: fmt.Sprintf("%s; trying again", fault.Of(e.how.err).Message)})
		return f.again(ctx)
	}
	return f.ended(ctx, e.res, e.how)
}
