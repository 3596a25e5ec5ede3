package llm

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync/atomic"

	"steward/internal/fault"
	"steward/internal/message"
)

// adapted is a model that adapts requests to what the model cannot do, as far as that is known: from
// a test, by its name, or from its refusals. Images are named in words, tools and the form of the
// answer are described in words. The context window that a refusal names is remembered. adapted also
// makes sure that a reply names the model that answered.
type adapted struct {
	name   string
	next   Model
	models *Models
	lacks  [len(adaptable)]atomic.Bool // learned from refusals
	out    leftOut                     // likewise
	told   atomic.Bool                 // that the model wrote a call as text
}

// adaptable are the abilities that requests can do without, and the codes of refusals for their lack.
var adaptable = [...]struct {
	ability Ability
	code    string
	notice  string
}{
	{CanTools, "tools_unsupported", " takes no tools; they are described to it in words."},
	{CanImages, "images_unsupported", " sees no images; it is told only that there are some."},
	{CanSchema, "schema_unsupported", " cannot be held to a form; it is asked for it in words."},
}

func adaptableCode(code string) bool {
	for _, a := range adaptable {
		if a.code == code {
			return true
		}
	}
	return false
}

// Stream implements Model.
func (m *adapted) Stream(ctx context.Context, r *Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for range len(adaptable) + 1 + maxLeftOut {
			w, lacking := m.adapt(r)
			if lacking >= 0 && r.passing {
				yield(Event{}, fault.New(fault.Unsupported, adaptable[lacking].code, "%s%s", m.name, adaptable[lacking].notice))
				return
			}
			for _, n := range w.notices {
				if !yield(Event{Kind: Notice, Text: n}, nil) {
					return
				}
			}
			o := m.forward(ctx, w, yield)
			if o.gone {
				return
			}
			if refused, ok := m.refusedTool(ctx, w.Request, o.err); ok {
				m.out.add(refused)
				if !yield(Event{Kind: Notice, Text: m.name + " does not accept the tool " + refused.Name + ", which is left out: " + fault.Of(o.err).Message}, nil) {
					return
				}
			} else if !m.learn(r, o.err) || r.passing {
				yield(Event{}, o.err)
				return
			}
			if o.shown && !yield(Event{Kind: Reset}, nil) {
				return
			}
		}
	}
}

// adapt returns the request in the form that the model takes. lacking is the index of an ability that
// is missing, or -1.
func (m *adapted) adapt(r *Request) (w *worded, lacking int) {
	asked := *r
	w, lacking = &worded{Request: &asked}, -1
	asked.Tools = m.out.reduce(r.Tools)
	for i := range adaptable {
		if !m.lacking(i) {
			continue
		}
		if adaptable[i].ability == CanImages { // also those of messages that were released
			asked.Transcript = asked.Transcript.As("blind", blind)
		}
		if !m.needs(r, i) {
			continue
		}
		lacking = i
		if newest := r.Transcript.Messages(); len(newest) > 0 && newest[len(newest)-1].Role != message.Tool {
			w.notices = append(w.notices, m.name+adaptable[i].notice)
		}
		switch adaptable[i].ability {
		case CanTools:
			w.useTools()
		case CanSchema:
			asked.System, asked.Schema, w.fenced = InWords(&asked), nil, true
		}
	}
	if w.tools == nil && r.ToolChoice != "none" && len(asked.Tools.Specs()) > 0 && !unbounded(m.name) {
		w.tools = asked.Tools
	}
	if !m.told.Load() {
		w.stray = m.strayCall
	}
	return w, lacking
}

// strayCall returns what the user is told, once, of a call that the model wrote as text.
func (m *adapted) strayCall() string {
	m.told.Store(true)
	return m.name + " wrote a call of a tool as text, and it was not made. `steward models test " + m.name + "` tells whether the model can call tools."
}

// needs reports whether a request uses an ability. A caller that requires a tool is not helped by
// words.
func (m *adapted) needs(r *Request, i int) bool {
	switch adaptable[i].ability {
	case CanTools:
		return len(r.Tools.Specs()) > 0 && (r.ToolChoice == "" || r.ToolChoice == "auto" || r.ToolChoice == "none")
	case CanSchema:
		return r.Schema != nil && !unbounded(m.name) // the offline model refuses what it is not certain of
	}
	return pictured(r.Transcript)
}

// lacking reports whether the model is known to lack an ability.
func (m *adapted) lacking(i int) bool {
	if m.lacks[i].Load() {
		return true
	}
	can, known := m.models.Able(m.name, adaptable[i].ability)
	return known && !can
}

// Able reports whether a model has an ability, and whether that is known. If that is up to its server,
// it is not known: the server refuses what the model lacks.
func (m *Models) Able(full string, a Ability) (can, known bool) {
	if can, known = m.cfg.Tested[full].Can[a]; known || m.upToServer(full) {
		return can, known
	}
	f := m.cfg.Known.family(full)
	return slices.Contains(f.Can, a), f.Can != nil
}

// learn remembers the ability for whose lack a request was refused. It returns false if there is none
// that the request can do without.
func (m *adapted) learn(r *Request, err error) bool {
	for i, a := range adaptable {
		uses := a.ability == CanImages || m.needs(r, i) // the images may be in messages that were released
		if fault.HasCode(err, a.code) && uses && !m.lacks[i].Load() {
			m.lacks[i].Store(true)
			return true
		}
	}
	return false
}

// forward forwards the model's stream, and learns from the reply or the refusal.
func (m *adapted) forward(ctx context.Context, w *worded, yield func(Event, error) bool) outcome {
	named := func(ev Event, err error) bool {
		if ev.Kind == Done && ev.Reply != nil {
			reply := *ev.Reply // the provider may keep its own copy
			reply.Usage = plausible(reply.Usage)
			reply.Model = cmp.Or(reply.Model, m.name)
			ev.Reply = &reply
			m.models.learning.see(m.name, w.Request, reply.Usage)
			m.models.accepted(m.name, w.Request)
			if reply.Stop == message.StopRefused && blank(&reply) && !yield(Event{Kind: Notice, Text: m.name + " refused to answer."}, nil) {
				return false
			}
		}
		return yield(ev, err)
	}
	o := forward(ctx, m.next, w.Request, w.reading(named))
	if tooLong(o.err) {
		m.models.tooLong(m.name, w.Request, o.err)
	} else if m.models.maybeTooLong(m.name, w.Request, o.err) {
		o.err = fault.Of(o.err).Detail(maybeLong, true)
	}
	return o
}

// plausible caps implausibly large token counts reported by a provider.
func plausible(u message.Usage) message.Usage {
	const most = 1e9 // tokens; no window is larger
	for _, n := range []*int64{&u.Input, &u.Output, &u.Reasoning, &u.CacheRead, &u.CacheWrite, &u.Searches} {
		*n = max(0, min(*n, most))
	}
	return u
}

// tooLong reports whether a model refused a request because it is too long.
func tooLong(err error) bool { return err != nil && fault.HasCode(err, "context_too_long") }

// maybeLong is a detail of the refusal of a request that is longer than the last one that the model accepted, and
// that names no other reason.
const maybeLong = "may_be_too_long"

// TooLong reports whether a model refused a request because it is too long, or perhaps because of that.
func TooLong(err error) (certain, perhaps bool) {
	if err == nil {
		return false, false
	}
	perhaps, _ = fault.Of(err).Details[maybeLong].(bool)
	return tooLong(err), perhaps
}
