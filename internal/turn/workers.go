package turn

import (
	"time"
)

// spawn runs f in an idle worker if there is one. A worker's stack has already
// grown to the size that a turn needs. Growing a new one costs 3 % of a turn.
func (e *Engine) spawn(f func()) {
	select {
	case e.workers <- f:
	default:
		go e.runWorker(f)
	}
}

// runWorker runs f and further work, until it has been idle for Options.IdleFor.
func (e *Engine) runWorker(f func()) {
	idle := time.NewTimer(e.opt.IdleFor)
	defer idle.Stop()
	for {
		f()
		idle.Reset(e.opt.IdleFor)
		select {
		case f = <-e.workers:
		case <-idle.C:
			return
		case <-e.life.Done():
			return
		}
	}
}
