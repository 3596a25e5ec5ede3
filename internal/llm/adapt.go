package llm

import (
	"cmp"
	"context"
	"iter"
	"sync/atomic"

	"steward/internal/fault"
	"steward/internal/message"
)

// adapted is a model that adapts to what its provider's answers reveal. A model that does not
// support tools is called without them, and the user is notified, unless another model can be
// tried. The context window that a refusal names is remembered. adapted also makes sure that a
// reply names the model that answered.
type adapted struct {
	name    string
	next    Model
	noTools atomic.Bool
	models  *Models
}

// Stream implements Model.
func (m *adapted) Stream(ctx context.Context, r *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		asked := r
		named := func(ev Event, err error) bool {
			if ev.Kind == Done && ev.Reply != nil {
				reply := *ev.Reply // the provider may keep its own copy
				reply.Usage = plausible(reply.Usage)
				reply.Model = cmp.Or(reply.Model, m.name)
				ev.Reply = &reply
				m.models.learning.see(m.name, asked, reply.Usage)
			}
			return yield(ev, err)
		}
		// A caller that requires a tool is not helped by an answer without one.
		optional := len(r.Tools.Specs()) > 0 && (r.ToolChoice == "" || r.ToolChoice == "auto" || r.ToolChoice == "none")
		if optional && r.passing && m.noTools.Load() {
			yield(Event{}, fault.New(fault.Unsupported, "tools_unsupported", "%s cannot use tools", m.name))
			return
		}
		if !optional || !m.noTools.Load() {
			o := m.forward(ctx, r, named)
			if o.gone {
				return
			}
			lacks := optional && fault.HasCode(o.err, "tools_unsupported")
			if lacks {
				m.noTools.Store(true)
			}
			if !lacks || r.passing {
				yield(Event{}, o.err)
				return
			}
			if o.shown && !yield(Event{Kind: Reset}, nil) {
				return
			}
		}
		bare := *r
		bare.Tools, bare.ToolChoice = nil, ""
		asked = &bare
		if !yield(Event{Kind: Notice, Text: m.name + " cannot use tools; it answers without them."}, nil) {
			return
		}
		if o := m.forward(ctx, &bare, named); !o.gone {
			yield(Event{}, o.err)
		}
	}
}

// plausible caps implausibly large token counts reported by a provider.
func plausible(u message.Usage) message.Usage {
	const most = 1e9 // tokens; no window is larger
	for _, n := range []*int64{&u.Input, &u.Output, &u.Reasoning, &u.CacheRead, &u.CacheWrite} {
		*n = max(0, min(*n, most))
	}
	return u
}

// forward forwards the model's stream, and learns from a refusal.
func (m *adapted) forward(ctx context.Context, r *Request, yield func(Event, error) bool) outcome {
	o := forward(ctx, m.next, r, yield)
	if tooLong(o.err) {
		m.models.tooLong(m.name, r, o.err)
	}
	return o
}

// tooLong reports whether a model refused a request because it is too long.
func tooLong(err error) bool { return err != nil && fault.HasCode(err, "context_too_long") }
