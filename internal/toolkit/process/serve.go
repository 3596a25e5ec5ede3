package process

import (
	"context"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/tool"
)

// How a program that serves is started again: the first time at once, then
// after longer and longer pauses, until it has lived for a while.
const (
	firstPause = 500 * time.Millisecond
	longestFor = time.Minute
	healthy    = 30 * time.Second
	silentFor  = 2 * time.Second // after a call was given up
)

// server keeps one program for all calls.
type server struct {
	src *source

	mu       sync.Mutex
	cur      *session
	using    int
	idle     *time.Timer
	failures int
	next     time.Time // not to be started before
}

// call makes a call of the program, which is started if it does not run.
func (s *server) call(ctx context.Context, spec tool.Spec, in tool.Invocation) (tool.Result, error) {
	x, err := s.take(ctx)
	if err != nil {
		return tool.Result{}, tool.NotDone(err)
	}
	defer s.give()
	return x.ask(ctx, spec, in)
}

// take returns the running program.
func (s *server) take(ctx context.Context) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur != nil {
		s.cur.replace()
	}
	if s.cur == nil || s.cur.ending() {
		if wait := time.Until(s.next); wait > 0 {
			return nil, fault.New(fault.Unavailable, "process_restarting", "the program keeps ending; it is started again in %s", wait.Round(time.Millisecond)).
				Retrying(fault.RetryAfter, wait)
		}
		x, err := s.src.start(context.Background(), s.gone) // for all, not for who calls first
		if err != nil {
			return nil, err
		}
		s.cur = x
	}
	s.using++
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
	return s.cur, nil
}

// give ends the use of the program for a call.
func (s *server) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.using--; s.using > 0 || s.cur == nil {
		return
	}
	wait := s.src.decl.Idle
	if wait == 0 {
		wait = DefaultIdle
	}
	x := s.cur
	s.idle = time.AfterFunc(wait, func() {
		s.mu.Lock()
		rests := s.cur == x && s.using == 0
		if rests {
			s.cur = nil // the next call starts another one
		}
		s.mu.Unlock()
		if rests {
			x.end(fault.New(fault.Unavailable, "process_idle", "the program was not used and was ended"))
		}
	})
}

// gone notes that a program has ended.
func (s *server) gone(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur != x {
		return
	}
	s.cur = nil
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
	if time.Since(x.began) >= healthy || x.answers > 0 {
		s.failures = 0
		return
	}
	if s.failures++; s.failures > 1 {
		s.next = time.Now().Add(min(firstPause<<min(s.failures-2, 10), longestFor))
	}
}

// ending reports whether no more calls can be made.
func (x *session) ending() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closing
}

// suspect is called when a call was given up: a program that says nothing for
// a while, and has no other call, hangs, and is ended with all that it has
// started. So is a call stopped that a person does not want any more.
func (x *session) suspect() {
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
		x.end(fault.New(fault.Unavailable, "process_hangs", "the program did not answer any more and was ended"))
	}
}
