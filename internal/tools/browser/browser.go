// Package browser lets an agent use pages that need a real browser: those made by scripts, and
// forms. It runs Chromium in the sandbox, one for each conversation, with a profile that ends with
// it.
//
// A page is untrusted, and so is everything that its scripts do. Chromium therefore has no network
// but Steward's proxy, sees no file of the user's, and can save nothing. A model reads a page as
// the outline of its accessibility tree, in which the elements have ids. Opening and reading pages
// are queries; the address of a page leaves this node, so policy judges it. Clicking and filling
// in are actions, because their effect depends on the page's script: a person is shown
// the site and the name of the element, and both are compared with the page again before anything
// happens.
package browser

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/tool"
)

// maxBrowsers is how many conversations have a browser at once.
const maxBrowsers = 4

// idleTime is how long a browser is kept without a call.
const idleTime = 5 * time.Minute

// Options configure the browsers. Path is required; see Find.
type Options struct {
	Path    string
	Network egress.Rule   // which hosts pages may be loaded from
	Log     *slog.Logger  // nil: what pages were kept from is not logged
	Idle    time.Duration // zero: five minutes
}

// Browsers are the browsers of all conversations. Safe for concurrent use.
type Browsers struct {
	opt  Options
	life context.Context
	end  context.CancelFunc

	turn chan struct{}        // a semaphore with one slot, which guards open
	open map[string]*chromium // by user and conversation
	work sync.WaitGroup
}

// New returns browsers. A browser is started when it is first needed.
func New(opt Options) *Browsers {
	if opt.Idle == 0 {
		opt.Idle = idleTime
	}
	s := &Browsers{opt: opt, turn: make(chan struct{}, 1), open: map[string]*chromium{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Close ends all browsers. When it returns, nothing of them is left.
func (s *Browsers) Close() error {
	s.end() // kills them
	s.turn <- struct{}{}
	for key := range s.open {
		s.drop(key)
	}
	<-s.turn
	s.work.Wait()
	return nil
}

// lock takes a semaphore, unless the context ends.
func lock(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func key(in tool.Invocation) string { return in.User + "\x00" + in.Conversation.String() }

// acquire returns the browser of a conversation, held for the caller until release. It starts one
// if make is set and there is none.
func (s *Browsers) acquire(ctx context.Context, in tool.Invocation, make bool) (b *chromium, release func(), err error) {
	if err := lock(ctx, s.turn); err != nil {
		return nil, nil, err
	}
	b, err = s.find(ctx, key(in), make)
	<-s.turn
	if err != nil {
		return nil, nil, err
	}
	if err := lock(ctx, b.turn); err != nil {
		return nil, nil, err
	}
	b.idle.Stop()
	return b, func() {
		b.idle.Reset(s.opt.Idle)
		<-b.turn
	}, nil
}

func (s *Browsers) find(ctx context.Context, key string, make bool) (*chromium, error) {
	for k, b := range s.open {
		if b.ended() {
			s.drop(k)
			if k == key && !make {
				return nil, fault.New(fault.Conflict, "browser_ended", "the browser has ended: %w", b.why).WithHint("open the page again")
			}
		}
	}
	b := s.open[key]
	switch {
	case s.life.Err() != nil:
		return nil, fault.New(fault.Unavailable, "browser_closed", "Steward is ending")
	case b != nil:
		return b, nil
	case !make:
		return nil, fault.New(fault.Conflict, "browser_closed", "no page is open").WithHint("open one first")
	case len(s.open) == maxBrowsers:
		return nil, fault.New(fault.Exhausted, "browser_limit", "%d conversations use a browser already", maxBrowsers).
			WithHint("close one of them, or wait until one has been idle for %s", s.opt.Idle)
	}
	b, err := start(ctx, s.life, s.opt)
	if err != nil {
		return nil, err
	}
	b.idle = time.AfterFunc(s.opt.Idle, b.proc.Kill)
	s.open[key] = b
	return b, nil
}

// drop ends a browser. The caller holds s.turn.
func (s *Browsers) drop(key string) {
	b := s.open[key]
	delete(s.open, key)
	b.idle.Stop()
	s.work.Go(b.close)
}

// shut ends the browser of a conversation, if there is one.
func (s *Browsers) shut(ctx context.Context, in tool.Invocation) error {
	if err := lock(ctx, s.turn); err != nil {
		return err
	}
	if s.open[key(in)] != nil {
		s.drop(key(in))
	}
	<-s.turn
	return nil
}

// endCause replaces the error of a browser that has ended by what ended it.
func (b *chromium) endCause(err error) error {
	if errors.Is(err, errGone) && b.ended() {
		return fault.New(fault.Unavailable, "browser_ended", "the browser has ended: %w", b.why).WithHint("open the page again")
	}
	return err
}
