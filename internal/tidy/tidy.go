// Package tidy finds out which earlier results in a conversation a tool call
// makes obsolete, by the strategies in the specs of the tools (tool.Strategy).
// It is pure: it records nothing and changes no message.
package tidy

import (
	"container/list"
	"context"
	"maps"
	"slices"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
)

// Tracker follows the messages of a branch in order. It remembers the results
// that may become obsolete, so that a message costs the same however long the
// conversation is. Not safe for concurrent use.
//
// A result is earlier than another if its message was observed before: of two
// parallel calls, the one whose result is recorded later stands. A tool's
// strategies are those of its spec when the tracker first met it.
type Tracker struct {
	// OnRefused, if set, is told what was not applied: an optimizer that named
	// results which it was not shown, failed, panicked or took too long. The
	// errors have the codes tidy_refused and tidy_failed.
	OnRefused func(error)

	lookup  func(name string) (tool.Tool, bool)
	rules   map[string]*rules // the tools met so far, by name
	known   map[string]*known // what is to be remembered of the results of a tool
	pending map[message.Ref]*entry
	live    map[message.Ref]*entry
	index   map[indexKey]*list.List // live entries, oldest first
	shown   map[string]*list.List   // of a tool, those that optimizers are shown
	gone    *kept                   // obsolete ones, which may come back
	spare   *kept                   // those that nothing is known to be about so far
	seq     uint64
	expiry  time.Time                // when the next result may be too old; zero: never
	hanging map[string]chan struct{} // optimizers that have not returned yet
}

// Obsolete is a result that does not hold any more.
type Obsolete struct {
	Message  id.ID       // the tool message that holds the result
	Pos      int64       // its position
	Ref      message.Ref // the call that it answers
	Tool     string      // the tool whose result it is
	By       string      // the tool whose rule made it obsolete
	Call     message.Ref // the call that caused it; zero where age did
	Strategy string      // the tool.StrategyKind
	Reason   string      // half a sentence, for the model and a person
}

// entry is a call that is remembered.
type entry struct {
	ref     message.Ref
	tool    string
	args    []byte // as the model wrote them; nil where nobody needs them
	secret  bool   // they are labelled so
	values  values
	message id.ID
	pos     int64
	at      time.Time
	seq     uint64
	result  *message.ToolResult // nil where no optimizer is shown it
	subject string              // what the call was about, for a reason; may be empty
	ageless bool                // a person kept it: age alone does not make it obsolete
	places  []place
}

// New returns a tracker of an empty branch. lookup finds a tool by its name.
// A tool is met when it is first called, those of names at once. The results of
// a tool are remembered if its own strategies, or those of a tool that was met,
// are about them; of the others the newest 256 are, in case that such a tool is
// met later.
func New(lookup func(name string) (tool.Tool, bool), names ...string) *Tracker {
	t := &Tracker{
		lookup: lookup, rules: map[string]*rules{}, known: map[string]*known{},
		pending: map[message.Ref]*entry{}, live: map[message.Ref]*entry{}, gone: newKept(), spare: newKept(),
		index: map[indexKey]*list.List{}, shown: map[string]*list.List{}, hanging: map[string]chan struct{}{},
	}
	for _, n := range names {
		t.meet(n)
	}
	return t
}

// Observe takes the next message of the branch, with its position, and returns
// the results that became obsolete by it, oldest first.
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
	t.add(e)
	return inOrder(out)
}

// calls remembers the calls of an assistant message until their results come.
// Calls of an earlier one that were not answered will not be.
func (t *Tracker) calls(m *message.Message) {
	calls := m.Calls()
	if len(calls) > 0 {
		clear(t.pending)
	}
	for _, c := range calls {
		t.meet(c.Name)
	}
	for _, c := range calls {
		e := &entry{ref: c.Ref, tool: c.Name, args: c.Args, secret: c.Labels.Has(message.Secret)}
		t.read(e)
		t.pending[c.Ref] = e
	}
}

// read reads from the arguments of a call what is compared and told of them,
// if its tool matters.
func (t *Tracker) read(e *entry) {
	r, k := t.rules[e.tool], t.known[e.tool]
	if k == nil && (r == nil || len(r.strategies) == 0) {
		return
	}
	if r == nil {
		r = &rules{}
	}
	m := membersOf(e.args)
	e.values = m.values(r.params, k)
	if !e.secret {
		e.subject = r.subject(m, k)
	}
}

// Forget says that a result became obsolete otherwise: a person said so, or
// its message is not part of the branch any more.
func (t *Tracker) Forget(ref message.Ref) {
	delete(t.pending, ref)
	if e := t.live[ref]; e != nil {
		t.drop(e)
	} else if e := t.spare.take(ref); e != nil {
		t.gone.put(e)
	}
}

// Keep says that a person rolled back what made a result obsolete: the result
// holds again until a later call makes it obsolete. It is known again unless
// more than 256 others became obsolete since.
func (t *Tracker) Keep(ref message.Ref) {
	if e := t.live[ref]; e != nil {
		e.ageless = true
	} else if e := t.gone.take(ref); e != nil {
		e.ageless = true
		if e.values == nil && e.args != nil { // it went before anything was known to be about it
			t.read(e)
		}
		t.add(e)
	}
}

// Len returns how many calls are remembered.
func (t *Tracker) Len() int {
	return len(t.pending) + len(t.live) + len(t.gone.entries) + len(t.spare.entries)
}

// Aged returns the results that are older than their tools say, oldest first.
func (t *Tracker) Aged(now time.Time) []Obsolete {
	if t.expiry.IsZero() || !now.After(t.expiry) {
		return nil
	}
	t.expiry = time.Time{}
	var out []verdict
	for _, name := range slices.Sorted(maps.Keys(t.rules)) {
		for i := range t.rules[name].strategies {
			if s := &t.rules[name].strategies[i]; s.Kind == tool.ByAge {
				out = append(out, t.aged(name, s, now)...)
			}
		}
	}
	return inOrder(out)
}

func (t *Tracker) aged(name string, s *tool.Strategy, now time.Time) []verdict {
	var old []*entry
	for e := range entries(t.index[indexKey{tool: name}]) {
		switch due := e.at.Add(s.MaxAge); {
		case e.ageless:
		case now.After(due):
			old = append(old, e)
		default:
			t.expires(due)
		}
	}
	if len(old) == 0 {
		return nil
	}
	return t.fall(cause{by: name, strategy: s, before: old[len(old)-1].seq}, old)
}

// expires notes that a result may be too old after a time.
func (t *Tracker) expires(at time.Time) {
	if t.expiry.IsZero() || at.Before(t.expiry) {
		t.expiry = at
	}
}
