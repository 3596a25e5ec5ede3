package process

import (
	"errors"
	"time"

	"steward/internal/fault"
)

// Restarts of a serving program: at once the first time, then after growing pauses, until the
// program has run for a while.
const (
	firstPause  = 500 * time.Millisecond
	stableAfter = 30 * time.Second
	silentFor   = 2 * time.Second // silence after a call was given up
)

// Done implements sandbox.Kept.
func (x *session) Done() <-chan struct{} { return x.done }

// Ended implements sandbox.Kept.
func (x *session) Ended() (why error, well bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, why = range []error{x.err, x.why, errors.New("the program ends")} {
		if why != nil {
			break
		}
	}
	return why, x.answers > 0 || time.Since(x.began) >= stableAfter
}

// Stop implements sandbox.Kept.
func (x *session) Stop() {
	select {
	case <-x.done: // the reason of its end is known
	default:
		x.end(errClosed())
		<-x.done
	}
}

// exhausted reports whether a program that was called before accepts no more calls.
func (x *session) exhausted() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closing && x.used
}

// checkHanging is called when a call was given up. If the program then writes nothing for a while and
// has no other call, it counts as hanging and is ended with all its children. Calls that a person
// cancels are stopped in the same way.
func (x *session) checkHanging() {
	x.mu.Lock()
	x.suspected = true
	x.mu.Unlock()
	time.AfterFunc(silentFor, x.replace)
}

// replace ends a program that hangs.
func (x *session) replace() {
	x.mu.Lock()
	hangs := x.suspected && len(x.calls) == 0 && !x.closing
	x.mu.Unlock()
	if hangs {
		x.end(fault.New(fault.Unavailable, "process_hangs", "the program stopped answering and was killed"))
	}
}
