package llm

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"

	"steward/internal/fault"
)

// link is one model of a chain.
type link struct {
	name  string
	model Model
}

// chain tries its models in order until one answers.
type chain struct {
	models   *Models
	links    []link
	sampling Sampling
	plain    bool // sampling sets nothing
	log      *slog.Logger
}

// newChain returns a chain of the links, of which there is at least one.
func (m *Models) newChain(links []link, s Sampling) Model {
	plain := s.Zero()
	if plain && len(links) == 1 {
		return links[0].model
	}
	return &chain{m, links, s, plain, m.cfg.Log}
}

// Stream implements Model.
func (c *chain) Stream(ctx context.Context, r *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		asked := *r
		if !c.plain {
			asked.Sampling = r.Sampling.Over(c.sampling)
		}
		asked.passing = r.passing || len(c.links) > 1
		var failed []failure
		var again []int // skipped models that could answer after all
		for at := 0; ; {
			o := forward(ctx, c.links[at].model, &asked, yield)
			if o.gone || o.err == nil {
				return
			}
			failed = append(failed, failure{c.links[at].name, o.err})
			next := -1
			if asked.passing {
				if wasSkipped(o.err) {
					again = append(again, at)
				}
				next = c.after(at, o.err)
			}
			if next < 0 && len(again) > 0 && !r.passing && !tooLong(o.err) {
				next, again, asked.passing = again[0], again[1:], false
			}
			if next < 0 || ctx.Err() != nil {
				yield(Event{}, verdict(failed))
				return
			}
			if !c.pass(ctx, yield, at, next, o) {
				return
			}
			at = next
		}
	}
}

// after returns the index of the model to try after one that failed, or -1.
func (c *chain) after(at int, err error) int {
	for next := at + 1; next < len(c.links); next++ {
		if nextHelps(err) || tooLong(err) && c.models.larger(c.links[next].name, c.links[at].name) {
			return next
		}
	}
	return -1
}

// pass notifies the user that another model is tried. It returns false if the consumer has stopped.
func (c *chain) pass(ctx context.Context, yield func(Event, error) bool, at, next int, o outcome) bool {
	from, to := c.links[at].name, c.links[next].name
	c.log.WarnContext(ctx, "the next model of the chain is asked", "model", from, "next", to, "err", o.err)
	if o.shown && !yield(Event{Kind: Reset}, nil) {
		return false
	}
	return at == next || yield(Event{Kind: Notice, Text: from + " cannot answer (" + fault.Of(o.err).Message + "); " + to + " is asked instead."}, nil)
}

// wasSkipped reports whether a model was skipped that could answer if it were the only one: without
// tools, or after a pause.
func wasSkipped(err error) bool {
	f := fault.Of(err)
	return adaptableCode(f.Code) || f.Code == "rate_limited" && f.Retry == fault.RetryAfter && f.After <= longAfter
}

// nextHelps reports whether another model may succeed where this one failed.
func nextHelps(err error) bool {
	f := fault.Of(err)
	switch f.Kind {
	case fault.Unauthentic, fault.NotFound, fault.Unavailable, fault.RateLimited, fault.Timeout:
		return true
	case fault.Denied:
		return f.Code == notAllowed
	case fault.Unsupported:
		return adaptableCode(f.Code) || f.Code == "effort_unsupported"
	}
	return false
}

// IsUnavailable reports whether an error says that a model is unavailable for now: its provider has no key
// or is not running, or it asks for a long pause.
func IsUnavailable(err error) bool {
	switch f := fault.Of(err); f.Code {
	case "model_not_found", "unreachable", "auth_failed":
		return true
	case "rate_limited":
		return f.Retry == fault.RetryAfter && f.After > longAfter
	}
	return false
}

// failure records why a model of the chain did not answer.
type failure struct {
	name string
	err  error
}

// verdict returns the error of a chain in which no model answered. It has the kind and code of the
// first model's error, or of the error that ended the search.
func verdict(failed []failure) error {
	last := failed[len(failed)-1].err
	if len(failed) == 1 || !nextHelps(last) {
		return last
	}
	f := fault.Of(failed[0].err)
	var b strings.Builder
	causes := make([]error, len(failed))
	for i, x := range failed {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(x.name + ": " + fault.Of(x.err).Message)
		causes[i] = x.err
	}
	out := fault.New(f.Kind, f.Code, "no model of the chain could answer: %s", b.String()).Retrying(f.Retry, f.After)
	out.Remedy, out.Details, out.Cause = f.Remedy, f.Details, quiet{errors.Join(causes...)}
	return out
}

// quiet is a cause whose text is already part of the message.
type quiet struct{ error }

func (quiet) Error() string   { return "" }
func (q quiet) Unwrap() error { return q.error }

// outcome says how a forwarded stream ended.
type outcome struct {
	err   error // nil after Done
	gone  bool  // the consumer has stopped, or Done was the last event
	shown bool  // something was yielded that a Reset must discard
}

// forward yields a model's stream except for its error, which it returns in the outcome. A stream
// that ends without Done and without an error counts as broken.
func forward(ctx context.Context, m Model, r *Request, yield func(Event, error) bool) (o outcome) {
	for ev, err := range m.Stream(ctx, r) {
		if err != nil {
			o.err = err
			return o
		}
		switch ev.Kind {
		case TextDelta, ReasoningDelta, CallStart, CallArgs:
			o.shown = true
		case Reset:
			o.shown = false
		}
		if !yield(ev, nil) || ev.Kind == Done {
			o.gone = true
			return o
		}
	}
	o.err = fault.New(fault.Unavailable, "stream_broken", "the stream ended without its end mark")
	return o
}

// failing is a model that always fails.
type failing struct{ err error }

// Stream implements Model.
func (f failing) Stream(context.Context, *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { yield(Event{}, f.err) }
}

// notAllowed is the error code for a model that is not allowed.
const notAllowed = "model_not_allowed"

// NotAllowed returns the error for a model that is not allowed. why is the reason.
func NotAllowed(model, why string) *fault.Error {
	return fault.New(fault.Denied, notAllowed, "%s may not be asked: %s", model, why)
}
