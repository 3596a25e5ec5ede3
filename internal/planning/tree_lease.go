package planning

import (
	"context"
	"errors"

	"steward/internal/id"
	"steward/internal/plan"
	"steward/internal/request"
	"steward/internal/store"
	"steward/internal/store/lease"
)

// newQueue returns a queue of the trees of tasks. A data folder is locked by the
// one process that writes to it, so any other holder of a lease has ended. Where several
// nodes share a store, only one of them works on a user: any holder from before has ended
// or can write nothing any more, even if it was this process.
func newQueue(st store.Store) *lease.Queue {
	self := id.New().String()
	return lease.New(lease.Options{Store: st, Holder: self, Dead: func(holder string) bool { return holder != self }})
}

// holdLease works on the tree until it has ended, under a lease of it: everything that
// its agents commit is committed under the lease too. newTasks are those of a plan that
// has not begun; they are saved when the first of them begin. Otherwise the tasks are read
// from the store. If the lease is lost (the process was suspended for too long, or could not
// write), holdLease takes it again and continues from what is stored.
func (w *treeWorker) holdLease(ctx context.Context, newTasks []*plan.Task) error {
	queue := w.engine.queue
	if w.engine.life.Divided() {
		queue = newQueue(w.engine.store)
	}
	for {
		l, err := queue.Begin(ctx, store.ForUser(w.Conversation.User), lease.At(w.at))
		if err != nil {
			return err
		}
		err = l.Hold(ctx, func(ctx context.Context) error {
			if len(newTasks) > 0 && l.Number() == 0 { // nothing of it was saved yet
				return w.workThrough(ctx, newTasks, true)
			}
			tasks, err := w.loadTasks(ctx)
			if err != nil {
				return err
			}
			return w.workThrough(ctx, tasks, false)
		})
		if !errors.Is(err, lease.ErrLost) || ctx.Err() != nil {
			return err
		}
		w.engine.log.Warn("the lease of a plan was lost: it is taken again", "tree", w.at.String())
	}
}

// suspended returns the error of a step in the work on a tree. If the node is closing, the
// context ends too, perhaps a moment later. suspended waits for that, because until then the
// error would look like a failure of the task.
func suspended(ctx context.Context, err error) error {
	if errors.Is(err, request.ErrSuspend) && ctx.Done() != nil {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
