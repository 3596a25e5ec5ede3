package sandbox

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Server is a running server: a program, or a connection to one.
type Server interface {
	comparable
	// Done is closed when the server has ended, for whatever reason.
	Done() <-chan struct{}
	// Ended says, after Done, why the server has ended, and whether it ran well before.
	Ended() (why error, well bool)
	// Stop ends the server and returns when nothing of it is left.
	Stop()
}

// Keeper keeps one server for all its users. It starts the server when it is first needed,
// restarts it when it has ended, with growing pauses if it keeps failing, and stops it when
// it has been idle for a while.
type Keeper[S Server] struct {
	Start func(ctx context.Context) (S, error) // ctx ends with the keeper
	Idle  time.Duration                        // how long it may run unused
	Pause time.Duration                        // after the first failure; doubled after each further one
	Spare int                                  // failures that are followed by no pause

	mu       sync.Mutex
	closed   bool
	cur      *life[S] // nil: not running
	failures int
	last     Failed
	next     time.Time       // the earliest time for the next start
	ctx      context.Context // ends with the keeper; nil: nothing was started
	end      context.CancelFunc
	tasks    sync.WaitGroup
}

// maxPause bounds the pause between two starts.
const maxPause = time.Minute

// life is one run of the server, from start to end.
type life[S Server] struct {
	begun  chan struct{} // closed when the server runs or has failed to start
	runs   bool
	server S
	failed *Failed
	users  int
	idle   *time.Timer // stops the server when it has no users
}

// ErrClosed says that a keeper was closed.
var ErrClosed = errors.New("it is closed")

// Failed says that a server is not running, and will not be started for a while.
type Failed struct {
	Why  error
	Ran  bool // it had started before it ended
	Wait time.Duration
}

func (f *Failed) Error() string { return f.Why.Error() }

// Acquire returns the running server, held for the caller until release. It starts the server if
// necessary; a caller may give up waiting for that through ctx. Errors: ErrClosed, *Failed, and
// that of ctx.
func (k *Keeper[S]) Acquire(ctx context.Context) (server S, release func(), err error) {
	l, err := k.hold()
	if err != nil {
		return server, nil, err
	}
	release = func() { k.release(l) }
	select {
	case <-l.begun:
	case <-ctx.Done():
		release()
		return server, nil, ctx.Err()
	}
	if l.failed != nil {
		return server, nil, l.failed
	}
	return l.server, release, nil
}

func (k *Keeper[S]) hold() (*life[S], error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wait := time.Until(k.next)
	switch {
	case k.closed:
		return nil, ErrClosed
	case k.cur == nil && wait > 0:
		return nil, &Failed{Why: k.last.Why, Ran: k.last.Ran, Wait: wait}
	case k.cur == nil:
		k.begin()
	}
	k.cur.users++
	if k.cur.idle != nil {
		k.cur.idle.Stop()
	}
	return k.cur, nil
}

func (k *Keeper[S]) release(l *life[S]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.users--
	k.scheduleStop(l)
}

// scheduleStop schedules the stop of an idle server. k.mu is held.
func (k *Keeper[S]) scheduleStop(l *life[S]) {
	if l.users > 0 || !l.runs || k.cur != l {
		return
	}
	l.idle = time.AfterFunc(k.Idle, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users == 0 && k.cur == l {
			k.cur, k.failures = nil, 0
			k.tasks.Go(l.server.Stop)
		}
	})
}

// begin starts the server. k.mu is held.
func (k *Keeper[S]) begin() {
	if k.ctx == nil {
		k.ctx, k.end = context.WithCancel(context.Background())
	}
	l := &life[S]{begun: make(chan struct{})}
	k.cur = l
	k.tasks.Go(func() {
		server, err := k.Start(k.ctx)
		k.mu.Lock()
		if err != nil {
			k.cur, l.failed = nil, k.fail(Failed{Why: err})
		}
		l.server, l.runs = server, err == nil
		k.scheduleStop(l)
		k.mu.Unlock()
		close(l.begun)
		if err != nil {
			return
		}
		select {
		case <-server.Done():
		case <-k.ctx.Done():
		}
		k.RecordEnd(server)
		server.Stop()
	})
}

// fail records a failure. k.mu is held.
func (k *Keeper[S]) fail(f Failed) *Failed {
	k.failures++
	if n := k.failures - k.Spare; n > 0 {
		f.Wait = min(k.Pause<<min(n-1, 16), maxPause)
	}
	k.last, k.next = f, time.Now().Add(f.Wait)
	return &f
}

// RecordEnd records that a server has ended, unless it was stopped on purpose. Callers that know of
// the end before Done is closed may call it, too.
func (k *Keeper[S]) RecordEnd(server S) {
	why, well := server.Ended()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !k.serves(server):
		return
	case well:
		k.failures = 0
	default:
		k.fail(Failed{Why: why, Ran: true})
	}
	k.cur = nil
}

// Drop gives up a server that cannot be used any more, so that the next Take starts another one at
// once.
func (k *Keeper[S]) Drop(server S) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.serves(server) {
		k.cur = nil
		k.tasks.Go(server.Stop)
	}
}

// IsCurrent reports whether Take returns this server.
func (k *Keeper[S]) IsCurrent(server S) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.serves(server)
}

func (k *Keeper[S]) serves(server S) bool {
	return k.cur != nil && k.cur.runs && k.cur.server == server
}

// Close stops the server and waits for everything that was begun.
func (k *Keeper[S]) Close() {
	k.mu.Lock()
	k.closed = true
	l, end := k.cur, k.end
	k.cur = nil
	stop := l != nil && l.runs
	k.mu.Unlock()
	if stop {
		l.server.Stop()
	}
	if end != nil {
		end() // also ends a start under way
	}
	k.tasks.Wait()
}
