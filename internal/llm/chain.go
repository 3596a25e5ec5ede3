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

// chain asks its models in turn until one answers.
type chain struct {
	links    []link
	sampling Sampling
	plain    bool // sampling sets nothing
	log      *slog.Logger
}

// newChain returns the chain of the links, which are not none.
func newChain(links []link, s Sampling, log *slog.Logger) Model {
	plain := s.Zero()
	if plain && len(links) == 1 {
		return links[0].model
	}
	return &chain{links, s, plain, log}
}

// Stream implements Model.
func (c *chain) Stream(ctx context.Context, r *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if !c.plain {
			merged := *r
			merged.Sampling = r.Sampling.Over(c.sampling)
			r = &merged
		}
		var failed []error
		for i, l := range c.links {
			o := forward(ctx, l.model, r, yield)
			if o.gone || o.err == nil {
				return
			}
			failed = append(failed, o.err)
			if i == len(c.links)-1 || ctx.Err() != nil || !nextHelps(o.err) {
				yield(Event{}, c.verdict(failed))
				return
			}
			next := c.links[i+1].name
			c.log.WarnContext(ctx, "the next model of the chain is asked", "model", l.name, "next", next, "err", o.err)
			if o.shown && !yield(Event{Kind: Reset}, nil) {
				return
			}
			if !yield(Event{Kind: Notice, Text: l.name + " cannot answer (" + fault.Of(o.err).Message + "); " + next + " is asked instead."}, nil) {
				return
			}
		}
	}
}

// nextHelps reports whether another model may do what this one could not.
func nextHelps(err error) bool {
	f := fault.Of(err)
	switch f.Kind {
	case fault.Unauthentic, fault.NotFound, fault.Unavailable, fault.RateLimited, fault.Timeout:
		return true
	case fault.Denied:
		return f.Code == notAllowed
	case fault.Unsupported:
		return f.Code == "tools_unsupported" || f.Code == "images_unsupported" || f.Code == "schema_unsupported"
	}
	return false
}

// Absent reports whether an error says that a model is not there for now: its
// provider has no key or is not running, or it asks for a long pause.
func Absent(err error) bool {
	switch f := fault.Of(err); f.Code {
	case "model_not_found", "unreachable", "auth_failed":
		return true
	case "rate_limited":
		return f.Retry == fault.RetryAfter && f.After > longAfter
	}
	return false
}

// verdict is the error of a chain in which nobody answered: of the kind and
// code of the first model's error, or of the one that ended the search.
func (c *chain) verdict(failed []error) error {
	last := failed[len(failed)-1]
	if len(failed) == 1 || !nextHelps(last) {
		return last
	}
	f := fault.Of(failed[0])
	var b strings.Builder
	for i, err := range failed {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(c.links[i].name + ": " + fault.Of(err).Message)
	}
	out := fault.New(f.Kind, f.Code, "no model of the chain could answer: %s", b.String()).Retrying(f.Retry, f.After)
	out.Remedy, out.Details, out.Cause = f.Remedy, f.Details, quiet{errors.Join(failed...)}
	return out
}

// quiet is a cause whose text has been told already.
type quiet struct{ error }

func (quiet) Error() string   { return "" }
func (q quiet) Unwrap() error { return q.error }

// outcome is how a forwarded stream ended.
type outcome struct {
	err   error // nil after Done
	gone  bool  // the consumer has had enough, or Done was its last event
	shown bool  // something was yielded that a Reset must take back
}

// forward yields a model's stream except for its error, which is returned. A
// stream that ends without Done and without an error is broken too.
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

// failing is a model that cannot be asked.
type failing struct{ err error }

// Stream implements Model.
func (f failing) Stream(context.Context, *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { yield(Event{}, f.err) }
}
