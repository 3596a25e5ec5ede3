package window

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
)

// Tracker finds the earlier results that a tool call makes obsolete, by the
// strategies in the tools' specs (tool.Strategy). It follows the messages of a
// branch in order. It indexes the results that may become obsolete, so that the
// cost of a message does not depend on the length of the conversation. It changes
// no message and records nothing. It is not safe for concurrent use.
//
// Results are ordered by when they were observed, not by when their calls were
// made: of two parallel calls, the one whose result is recorded later remains
// valid. The tracker reads a tool's strategies when it first meets the tool, and
// applies them to later messages only.
type Tracker struct {
	// OnRefused, if set, receives an error when an optimizer names results that it
	// was not shown (code tidy_refused), or fails, panics or takes too long
	// (tidy_failed). Such verdicts are not applied.
	OnRefused func(error)

	lookup            func(name string) (tool.Tool, bool)
	rules             map[string]*rules // the tools met so far, by name
	known             map[string]*known // how the results of tools are indexed, by tool name
	aging             []string          // the tools whose results become obsolete by age
	pending           map[message.Ref]*entry
	entries           map[message.Ref]*entry
	index             map[indexKey][]*entry // valid entries, oldest first
	gone              []*entry              // the newest obsolete entries, which may become valid again
	seq               uint64
	runningOptimizers map[string]chan struct{} // optimizers that have not returned yet
}

// maxObsolete is the number of obsolete results that are remembered.
const maxObsolete = 256

// Obsolete is a result that is no longer valid.
type Obsolete struct {
	Message  id.ID       // the tool message that holds the result
	Pos      int64       // its position
	Ref      message.Ref // the call that it answers
	Tool     string      // the tool whose result it is
	By       string      // the tool whose rule made it obsolete
	Call     message.Ref // the call that caused it; zero if the cause is age
	Strategy string      // the tool.StrategyKind
	Reason   string      // a short phrase for the model and the user
}

// entry is a remembered call.
type entry struct {
	ref     message.Ref
	tool    string
	args    []byte // as the model wrote them; nil if no optimizer receives them
	secret  bool   // the arguments are labelled secret
	values  values
	message id.ID
	pos     int64
	at      time.Time
	seq     uint64
	result  *message.ToolResult // nil if no optimizer receives it
	subject string              // what the call was about, for Obsolete.Reason; may be empty
	ageless bool                // Keep was called: age does not make it obsolete
	keys    []indexKey          // the lists that contain it; nil: it is obsolete
}

// indexKey identifies a list of entries: all entries of a tool, or those with the
// same values of some parameters.
type indexKey struct {
	tool   string
	params string // see joined; empty: all entries of the tool
	values string
}

// NewTracker returns a tracker for an empty branch. lookup finds a tool by its
// name. The tracker loads the rules of the tools in names immediately, and those
// of others when they are first called; see Meet.
func NewTracker(lookup func(name string) (tool.Tool, bool), names ...string) *Tracker {
	t := &Tracker{
		lookup: lookup, rules: map[string]*rules{}, known: map[string]*known{}, pending: map[message.Ref]*entry{},
		entries: map[message.Ref]*entry{}, index: map[indexKey][]*entry{}, runningOptimizers: map[string]chan struct{}{},
	}
	t.LoadRules(names...)
	return t
}

// Observe processes the next message of the branch, at position pos. It returns
// the results that the message made obsolete, oldest first.
func (t *Tracker) Observe(ctx context.Context, m *message.Message, pos int64) []Obsolete {
	if m.Role == message.Assistant {
		t.calls(m)
		return nil
	}
	r := m.Result()
	if r == nil {
		return nil
	}
	e := t.pending[r.Call]
	delete(t.pending, r.Call)
	if e == nil || r.Status != message.OK || r.Name != e.tool {
		return nil
	}
	e.message, e.pos, e.at, e.result = m.ID, pos, m.At, r
	t.seq++
	e.seq = t.seq
	out := t.trigger(ctx, e)
	if t.known[e.tool] != nil {
		t.entries[e.ref] = e
		t.add(e)
	}
	return inOrder(out)
}

// calls stores the calls of an assistant message until their results arrive. It
// drops unanswered calls of earlier messages, which can no longer be answered.
func (t *Tracker) calls(m *message.Message) {
	calls := m.Calls()
	if len(calls) > 0 {
		clear(t.pending)
	}
	for _, c := range calls {
		t.LoadRules(c.Name)
	}
	for _, c := range calls {
		e := &entry{ref: c.Ref, tool: c.Name, args: c.Args, secret: c.Labels.Has(message.Secret)}
		if r, k := t.rules[c.Name], t.known[c.Name]; k != nil || r != nil && len(r.strategies) > 0 {
			t.read(e, r, k)
		}
		t.pending[c.Ref] = e
	}
}

// read extracts from a call's arguments what is compared and shown.
func (t *Tracker) read(e *entry, r *rules, k *known) {
	if r == nil {
		r = &rules{}
	}
	params := r.params
	if k != nil {
		for _, list := range k.params {
			params = union(slices.Clip(params), list)
		}
	}
	m := membersOf(e.args)
	e.values = m.values(params)
	if !e.secret {
		e.subject = m.subject(union(slices.Clip(r.about), params), r.secret)
	}
}

// add inserts an entry into the lists in which it is looked up.
func (t *Tracker) add(e *entry) {
	k := t.known[e.tool]
	all := indexKey{tool: e.tool}
	t.insert(e, all)
	for _, params := range k.params {
		if v, ok := e.values.key(params); ok {
			t.insert(e, indexKey{e.tool, joined(params), v})
		}
	}
	if !k.shown {
		e.args, e.result = nil, nil
	} else if n := len(t.index[all]) - 1 - tool.MaxShown; n >= 0 {
		t.index[all][n].args, t.index[all][n].result = nil, nil
	}
}

// insert inserts an entry into a list, which is sorted by seq. So an entry that
// becomes valid again returns to its old place.
func (t *Tracker) insert(e *entry, k indexKey) {
	i, _ := slices.BinarySearchFunc(t.index[k], e.seq, bySeq)
	t.index[k] = slices.Insert(t.index[k], i, e)
	e.keys = append(e.keys, k)
}

// drop removes an entry from its lists; it may become valid again.
func (t *Tracker) drop(e *entry) {
	for _, k := range e.keys {
		if i, ok := slices.BinarySearchFunc(t.index[k], e.seq, bySeq); ok {
			t.index[k] = slices.Delete(t.index[k], i, i+1)
		}
		if len(t.index[k]) == 0 {
			delete(t.index, k)
		}
	}
	e.keys = nil
	if t.gone = append(t.gone, e); len(t.gone) > maxObsolete {
		delete(t.entries, t.gone[0].ref)
		t.gone = slices.Delete(t.gone, 0, 1)
	}
}

func bySeq(e *entry, seq uint64) int { return cmp.Compare(e.seq, seq) }

// joined combines a list of parameters into one string.
func joined(params []string) string { return strings.Join(params, "\x00") }

// Forget records that a result became obsolete for another reason: a person
// invalidated it, or its message left the branch.
func (t *Tracker) Forget(ref message.Ref) {
	delete(t.pending, ref)
	if e := t.entries[ref]; e != nil && e.keys != nil {
		t.drop(e)
	}
}

// Keep records that a person reverted an invalidation: the result is valid again
// until a later call makes it obsolete. Keep has no effect if at least 256 other
// results have become obsolete since.
func (t *Tracker) Keep(ref message.Ref) {
	e := t.entries[ref]
	if e == nil {
		return
	}
	e.ageless = true
	if e.keys == nil {
		t.gone = slices.DeleteFunc(t.gone, func(g *entry) bool { return g == e })
		t.add(e)
	}
}

// Len returns the number of remembered calls.
func (t *Tracker) Len() int { return len(t.pending) + len(t.entries) }

// Aged returns the results that are older than their tools allow, oldest first.
func (t *Tracker) Aged(now time.Time) []Obsolete {
	var out []verdict
	t.old(now, func(name string, s *tool.Strategy, old []*entry) {
		out = append(out, t.dropObsolete(cause{by: name, strategy: s, before: old[len(old)-1].seq}, old)...)
	})
	return inOrder(out)
}

// Old returns what Aged would return of the tools' own results, and changes nothing.
func (t *Tracker) Old(now time.Time) []Obsolete {
	var out []Obsolete
	t.old(now, func(name string, s *tool.Strategy, old []*entry) {
		for _, e := range old {
			out = append(out, Obsolete{Message: e.message, Pos: e.pos, Ref: e.ref, Tool: e.tool, By: name, Strategy: string(s.Kind)})
		}
	})
	return out
}

// old calls each with the results that are older than a strategy allows.
func (t *Tracker) old(now time.Time, each func(name string, s *tool.Strategy, old []*entry)) {
	for _, name := range t.aging {
		for i := range t.rules[name].strategies {
			s := &t.rules[name].strategies[i]
			if s.Kind != tool.ByAge {
				continue
			}
			var old []*entry
			for _, e := range t.index[indexKey{tool: name}] {
				if !e.ageless && now.After(e.at.Add(s.MaxAge)) {
					old = append(old, e)
				}
			}
			if len(old) > 0 {
				each(name, s, old)
			}
		}
	}
}
