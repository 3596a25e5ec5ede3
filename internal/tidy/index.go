package tidy

import (
	"container/list"
	"iter"
	"slices"

	"steward/internal/message"
	"steward/internal/tool"
)

// place is where an entry stands in a list.
type place struct {
	in  *list.List
	at  *list.Element
	key indexKey // of the list in the index; zero for a list of those shown
}

// indexKey names a list of entries: all of a tool, or those with the same
// values in some parameters.
type indexKey struct {
	tool   string
	params string // joined; empty: all of the tool
	values string
}

// add makes an entry live: the rules are about it from now on.
func (t *Tracker) add(e *entry) {
	k := t.known[e.tool]
	if k == nil {
		e.result = nil
		e.args = spareArgs(e.args)
		t.spare.put(e)
		return
	}
	t.live[e.ref] = e
	t.enter(e, indexKey{tool: e.tool})
	for _, params := range k.params {
		if v, ok := e.values.key(params); ok {
			t.enter(e, indexKey{e.tool, joined(params), v})
		}
	}
	if k.shown && e.result != nil {
		t.show(e)
	} else {
		e.args, e.result = nil, nil
	}
	if k.maxAge > 0 && !e.ageless {
		t.expires(e.at.Add(k.maxAge))
	}
}

// enter puts an entry into a list of the index.
func (t *Tracker) enter(e *entry, k indexKey) {
	l := t.index[k]
	if l == nil {
		l = list.New()
		t.index[k] = l
	}
	e.places = append(e.places, place{l, insert(l, e), k})
}

// insert keeps the order: an entry that comes back stands where it stood.
func insert(l *list.List, e *entry) *list.Element {
	at := l.Back()
	for at != nil && at.Value.(*entry).seq > e.seq {
		at = at.Prev()
	}
	if at == nil {
		return l.PushFront(e)
	}
	return l.InsertAfter(e, at)
}

// show keeps an entry's arguments and result for optimizers, and lets those of
// the oldest go.
func (t *Tracker) show(e *entry) {
	l := t.shown[e.tool]
	if l == nil {
		l = list.New()
		t.shown[e.tool] = l
	}
	e.places = append(e.places, place{in: l, at: insert(l, e)})
	if l.Len() > tool.MaxShown {
		oldest := l.Remove(l.Front()).(*entry)
		oldest.args, oldest.result = nil, nil
		oldest.places = slices.DeleteFunc(oldest.places, func(p place) bool { return p.in == l })
	}
}

// drop takes an entry out of what is live; it may come back.
func (t *Tracker) drop(e *entry) {
	delete(t.live, e.ref)
	for _, p := range e.places {
		p.in.Remove(p.at)
		if p.in.Len() == 0 && p.key.tool != "" {
			delete(t.index, p.key)
		}
	}
	e.places = nil
	t.gone.put(e)
}

// spareArgs copies arguments, so that they do not hold the whole message in
// memory. Of long ones only remains that they are not known.
func spareArgs(args []byte) []byte {
	if len(args) > 1024 {
		return []byte("…") // malformed: it matches nothing
	}
	return append([]byte{}, args...)
}

// adopt makes live what is in store for tools that matter now, and puts what
// is live into the lists that are new.
func (t *Tracker) adopt() {
	for _, e := range slices.Collect(entries(t.spare.order)) {
		if t.known[e.tool] != nil {
			t.spare.take(e.ref)
			t.read(e)
			t.add(e)
		}
	}
	for name, k := range t.known {
		for _, params := range k.params[k.indexed:] {
			for e := range entries(t.index[indexKey{tool: name}]) {
				t.reindex(e, params)
			}
		}
		k.indexed = len(k.params)
	}
}

// reindex puts a live entry into a list that is new, if it is known enough of it.
func (t *Tracker) reindex(e *entry, params []string) {
	v, ok := e.values.key(params)
	if !ok {
		return
	}
	key := indexKey{e.tool, joined(params), v}
	if !slices.ContainsFunc(e.places, func(p place) bool { return p.key == key }) {
		t.enter(e, key)
	}
}

// kept are entries that are not live, the newest maxKept of them.
type kept struct {
	entries map[message.Ref]*list.Element
	order   *list.List
}

const maxKept = 256

func newKept() *kept { return &kept{map[message.Ref]*list.Element{}, list.New()} }

func (k *kept) put(e *entry) {
	k.take(e.ref)
	k.entries[e.ref] = k.order.PushBack(e)
	if k.order.Len() > maxKept {
		k.take(k.order.Front().Value.(*entry).ref)
	}
}

// take removes an entry and returns it; nil where it is not there.
func (k *kept) take(ref message.Ref) *entry {
	at := k.entries[ref]
	if at == nil {
		return nil
	}
	delete(k.entries, ref)
	return k.order.Remove(at).(*entry)
}

// entries are those of a list, oldest first; l may be nil. Do not drop one
// while going through them.
func entries(l *list.List) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		if l == nil {
			return
		}
		for at := l.Front(); at != nil; at = at.Next() {
			if !yield(at.Value.(*entry)) {
				return
			}
		}
	}
}
