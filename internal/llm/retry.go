package llm

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"steward/internal/fault"
)

// RetryPolicy says how often a failed call is retried, and after what delays. Temporary failures
// are retried: rate limits, overload, server errors, failed connections, broken streams, timeouts.
// Zero fields mean the defaults.
type RetryPolicy struct {
	Attempts int            // calls in total; default 4; 1 means no retry
	Base     time.Duration  // upper bound of the first wait, which doubles with each further one; default 500 ms
	Max      time.Duration  // upper bound of a single such wait; default 15 s
	MaxAfter time.Duration  // no retry if a provider asks for a longer wait; default 60 s
	Total    time.Duration  // from the first failure to the start of the last call; default 2 min
	Rand     func() float64 // in [0, 1); nil: math/rand
}

// longAfter is the default of MaxAfter. A call does not wait if a provider asks for a longer pause.
const longAfter = time.Minute

func (p RetryPolicy) withDefaults() RetryPolicy {
	p.Attempts = cmp.Or(max(p.Attempts, 0), 4)
	p.Base = cmp.Or(max(p.Base, 0), 500*time.Millisecond)
	p.Max = cmp.Or(max(p.Max, 0), 15*time.Second)
	p.MaxAfter = cmp.Or(max(p.MaxAfter, 0), longAfter)
	p.Total = cmp.Or(max(p.Total, 0), 2*time.Minute)
	if p.Rand == nil {
		p.Rand = rand.Float64
	}
	return p
}

// wait returns the delay after the given number of failed calls: an exponential backoff with full
// jitter (AWS Architecture Blog, "Exponential Backoff And Jitter"), or what the provider asked for
// plus a random extra, so that clients do not all return at once.
func (p RetryPolicy) wait(failures int, err *fault.Error) time.Duration {
	if err.After > 0 {
		return err.After + time.Duration(p.Rand()*float64(p.Base))
	}
	bound := p.Base
	for i := 1; i < failures && bound < p.Max; i++ {
		bound *= 2
	}
	return time.Duration(p.Rand() * float64(min(bound, p.Max)))
}

// isTransient reports whether the failure is temporary, so that the same call may succeed later.
func isTransient(err *fault.Error) bool {
	if err.Retry == fault.RetryNone { // the error says so explicitly
		return false
	}
	return err.Kind == fault.RateLimited || err.Kind == fault.Unavailable || err.Kind == fault.Timeout
}

// retrying calls a model if that is allowed, and retries temporary failures.
type retrying struct {
	name   string
	next   Model
	allow  func(ctx context.Context, model string, r *Request) error // nil: always allowed
	policy RetryPolicy
	pauses *pauses
	log    *slog.Logger
}

// pauses records until when models must not be called, as their providers asked.
type pauses struct {
	mu    sync.Mutex
	until map[string]time.Time                    // by "provider/model"; bounded
	tell  func(model string, after time.Duration) // see Models.OnPause; may be nil
}

// OnPause has do called whenever a provider asks this process not to call a model for a while.
func (m *Models) OnPause(do func(model string, after time.Duration)) {
	p := &m.now().pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell = do
}

// Pause has a "provider/model" not called for a while, at most for an hour, because its provider has asked another
// process for that.
func (m *Models) Pause(model string, after time.Duration) { m.now().pauses.set(model, after) }

// maxPause is how long a model is not called at most, because a provider that names a day may be wrong.
const maxPause = time.Hour

func (p *pauses) set(full string, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil || len(p.until) >= maxDirect {
		p.until = map[string]time.Time{}
	}
	p.until[full] = time.Now().Add(min(after, maxPause))
}

// asked takes note of what a provider asks for.
func (p *pauses) asked(full string, after time.Duration) {
	p.set(full, after)
	p.mu.Lock()
	tell := p.tell
	p.mu.Unlock()
	if tell != nil {
		tell(full, after)
	}
}

// handOn has other know what p knows.
func (p *pauses) handOn(other *pauses) {
	p.mu.Lock()
	defer p.mu.Unlock()
	other.mu.Lock()
	defer other.mu.Unlock()
	other.until, other.tell = maps.Clone(p.until), p.tell
}

// left returns how much of a model's pause is left.
func (p *pauses) left(full string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, time.Until(p.until[full]))
}

// limited reports whether a provider has said when its model may be called again.
func limited(f *fault.Error) bool {
	return f.Kind == fault.RateLimited && f.Retry == fault.RetryAfter && f.After > 0
}

// paused waits for the end of a model's pause. It returns an error instead of waiting if the pause
// is long, or another model can be tried.
func (m *retrying) paused(ctx context.Context, r *Request, yield func(Event, error) bool) (o outcome) {
	left := m.pauses.left(m.name)
	if left == 0 {
		return o
	}
	f := fault.New(fault.RateLimited, "rate_limited", "%s asked not to be used for another %s", m.name, max(left, time.Second).Round(time.Second)).
		Retrying(fault.RetryAfter, left)
	wait := m.policy.wait(1, f)
	switch {
	case r.passing || left > m.policy.MaxAfter:
		o.err = f
	case wait >= noticeWait && !yield(Event{Kind: Notice, Text: waitNotice(m.name, f, wait)}, nil):
		o.gone = true
	case !fault.Pause(ctx, wait):
		o.err = stopped(ctx, nil)
	}
	return o
}

// noticeWait is the shortest wait that the user is notified of.
const noticeWait = 3 * time.Second

// Stream implements Model.
func (m *retrying) Stream(ctx context.Context, r *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if m.allow != nil {
			if err := m.allow(ctx, m.name, r); err != nil {
				yield(Event{}, err)
				return
			}
		}
		if o := m.paused(ctx, r, yield); o.gone || o.err != nil {
			if !o.gone {
				yield(Event{}, o.err)
			}
			return
		}
		var failing time.Time
		empty := 0 // answers
		for failures := 1; ; failures++ {
			var nothing *Reply
			o := forward(ctx, m.next, r, func(ev Event, err error) bool {
				if ev.Kind == Done && unanswered(ev.Reply) {
					nothing = ev.Reply
					return false
				}
				return yield(ev, err)
			})
			if nothing != nil {
				empty++
				if _, err := r.Meter.Record(m.name, nothing.Usage); err != nil {
					m.log.WarnContext(ctx, "the usage of an empty answer was not recorded", "model", m.name, "error", err)
				}
				o.gone, o.err = false, emptyAnswer(m.name, nothing)
			}
			if o.gone {
				return
			}
			if ctx.Err() != nil {
				yield(Event{}, stopped(ctx, o.err))
				return
			}
			if failing.IsZero() {
				failing = time.Now()
			}
			f := fault.Of(o.err)
			wait := m.policy.wait(failures, f)
			again := isTransient(f)
			if empty == 1 && nothing != nil { // some models answer the second time
				wait, again = 0, true
			}
			if limited(f) {
				m.pauses.asked(m.name, f.After)
			}
			if !again || r.passing && limited(f) || failures >= m.policy.Attempts || f.After > m.policy.MaxAfter || time.Since(failing)+wait > m.policy.Total {
				yield(Event{}, attempted(o.err, failures))
				return
			}
			m.log.InfoContext(ctx, "a model is asked again", "model", m.name, "failures", failures, "wait", wait, "err", o.err)
			if o.shown && !yield(Event{Kind: Reset}, nil) {
				return
			}
			if wait >= noticeWait && !yield(Event{Kind: Notice, Text: waitNotice(m.name, f, wait)}, nil) {
				return
			}
			if !fault.Pause(ctx, wait) {
				yield(Event{}, stopped(ctx, nil))
				return
			}
		}
	}
}

func waitNotice(name string, f *fault.Error, wait time.Duration) string {
	return fmt.Sprintf("%s: %s; it is asked again in %s.", name, f.Message, wait.Round(time.Second))
}

// stopped returns the error of a call whose context is done.
func stopped(ctx context.Context, err error) error {
	if err != nil && (fault.Is(err, fault.Cancelled) || fault.Is(err, fault.Timeout)) {
		return err
	}
	return fault.Of(ctx.Err())
}

// attempted adds the number of calls made to the error.
func attempted(err error, n int) error {
	if n == 1 {
		return err
	}
	return fault.Of(err).Detail("attempts", n)
}
