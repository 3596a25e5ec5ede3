package work

import (
	"context"
	"sync"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
)

// Recover resumes all runs that had not ended.
func (e *Engine) Recover(ctx context.Context) error {
	crashed, err := e.recordStart(ctx)
	if err != nil {
		return err
	}
	return e.recoverRuns(ctx, store.ForNode(resource.System), crashed)
}

// RecoverUser resumes the runs of a user that had not ended. crashed says that the node which worked on them
// before was not heard of any more.
func (e *Engine) RecoverUser(ctx context.Context, user string, crashed bool) error {
	return e.recoverRuns(ctx, store.ForUser(user), crashed)
}

func (e *Engine) recoverRuns(ctx context.Context, sc store.Scope, crashed bool) error {
	runs, err := e.conversations.OpenRuns(ctx, sc, resource.URI{})
	if err != nil {
		return err
	}
	parallel(len(runs), func(i int) {
		r := runs[i]
		if err := e.recoverRun(ctx, r, crashed); err != nil && ctx.Err() == nil && !fault.HasCode(err, codeParked) {
			e.log.Error("cannot resume an interrupted run", "run", r.URI.String(), "error", err)
		}
	})
	return ctx.Err()
}

// maxParallel bounds how much is recovered at the same time. What is committed
// at the same time shares one sync of the disk.
const maxParallel = 32

// parallel calls do for each number below n, several at a time.
func parallel(n int, do func(i int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, maxParallel)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	all.Wait()
}

// recoverRun resumes a run. The run of an agent that a turn asked is not resumed
// here: the asking turn resumes it when it makes the call again, so that both are
// parked and resumed together.
func (e *Engine) recoverRun(ctx context.Context, r conversation.OpenRun, crashed bool) error {
	c := e.turns.Enter(requests.UserOf(r.Space), r.Conversation)
	defer e.turns.Exit(c)
	switch asking, err := e.asking(ctx, c, r); {
	case err != nil:
		return err
	case asking.found && !asking.ended:
		return nil
	case !asking.found:
		if err := e.countCrash(ctx, c, r, crashed); err != nil {
			return err
		}
	}
	_, err := e.resumeRun(ctx, c, r.Interaction, false)
	return err
}
