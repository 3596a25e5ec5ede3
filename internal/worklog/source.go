package worklog

import (
	"bytes"
	"context"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// found is a message with its place. One that has to do with no tool is not
// looked into: its Message is nil.
type found struct {
	*message.Message
	uri    resource.URI
	seq    uint64
	stored time.Time
	pos    int64 // in a rope
	span   int   // of a rope
	marked bool  // mark is what became of it
	mark   *record.Mark

	actor   string // known where it came from the log
	request id.ID
}

// toolBlock is in the stored form of every message with a call or a result:
// message.Append writes it so, and quotes differently whatever is text.
var toolBlock = []byte(`{"type":"tool_`)

// decode reads a message if it has to do with a tool, or in any case.
func (f *found) decode(body []byte, whole bool) (err error) {
	if whole || bytes.Contains(body, toolBlock) {
		f.Message, err = record.DecodeMessage(f.uri, body)
	}
	return err
}

// source yields messages, the newest first.
type source interface {
	// read returns the next messages; none: there are no more.
	read(ctx context.Context) ([]found, error)
	// results looks for what answers the calls of a message.
	results(ctx context.Context, m *found) (map[message.Ref]*found, error)
	// place is where to go on when the calls of a message are told down to
	// this block; 0: all are.
	place(m *found, block int) place
}

// rope reads the messages of a branch along its spans.
type rope struct {
	store  store.Store
	sc     store.Scope
	conv   id.ID
	branch record.Branch
	spans  []record.Span
	at     int   // the span that is being read, counting down
	below  int64 // read positions up to this one; 0: all of the span
	after  store.Cursor
	since  time.Time
	size   int // of a page
}

// resume goes to a place in the rope. A place that is not on the branch any
// more is no place to go on from.
func (r *rope) resume(p place) error {
	for i, s := range r.spans {
		if !s.Holds(s.Branch, p.Pos) || s.Branch != p.In {
			continue
		}
		r.at, r.below = i, p.Pos
		if p.Block == 0 {
			r.below--
		}
		if r.below < max(s.From, 1) {
			r.at, r.below = i-1, 0
		}
		return nil
	}
	return badCursor("what it stands at is not on the branch any more")
}

func (r *rope) read(ctx context.Context) ([]found, error) {
	for r.at >= 0 {
		s := r.spans[r.at]
		q := store.Query{List: record.BranchURI(r.conv, s.Branch), Type: record.TypeMessage, From: s.To, Reverse: true, After: r.after, Limit: r.size}
		if r.below != 0 {
			q.From = r.below
		}
		page, err := r.store.Query(ctx, r.sc, q)
		if err != nil {
			return nil, err
		}
		out := make([]found, 0, len(page.Items))
		r.after = page.Next
		for i := range page.Items {
			it := &page.Items[i]
			if it.Pos < s.From || it.At.Before(r.since) { // along one list, times go up with the positions
				r.after = ""
				break
			}
			m, err := r.found(it, r.at, false)
			if err != nil {
				return nil, err
			}
			out = append(out, m)
		}
		if r.after == "" {
			r.at, r.below = r.at-1, 0
		}
		if len(out) > 0 {
			return out, r.marks(ctx, out)
		}
	}
	return nil, nil
}

func (r *rope) found(it *store.Item, span int, whole bool) (found, error) {
	f := found{uri: it.URI, seq: it.Seq, stored: it.At, pos: it.Pos, span: span}
	return f, f.decode(it.Body, whole)
}

// marks reads what became of messages that stand side by side, the newest first.
func (r *rope) marks(ctx context.Context, list []found) error {
	at := map[int64]*found{}
	for i := range list {
		list[i].marked = true
		at[list[i].pos] = &list[i]
	}
	q := store.Query{List: record.MarksURI(r.conv), From: list[len(list)-1].pos, Limit: r.size}
	for it, err := range store.Items(ctx, r.store, r.sc, q) {
		switch {
		case err != nil:
			return err
		case it.Pos > list[0].pos:
			return nil
		case at[it.Pos] == nil:
			continue
		}
		m := &record.Mark{}
		if err := record.Decode(it.URI, it.Body, m); err != nil {
			return err
		}
		at[it.Pos].mark = m
	}
	return nil
}

// results reads on along the rope: a call is answered before anybody else speaks.
func (r *rope) results(ctx context.Context, m *found) (map[message.Ref]*found, error) {
	out := map[message.Ref]*found{}
	for span := m.span; span < len(r.spans); span++ {
		s := r.spans[span]
		q := store.Query{List: record.BranchURI(r.conv, s.Branch), Type: record.TypeMessage, From: s.From, Limit: 16}
		if span == m.span {
			q.From = m.pos + 1
		}
		for it, err := range store.Items(ctx, r.store, r.sc, q) {
			if err != nil {
				return nil, err
			}
			if !s.Holds(s.Branch, it.Pos) {
				break
			}
			next, err := r.found(&it, span, true)
			if err != nil {
				return nil, err
			}
			if next.Role == message.User || next.Role == message.Assistant {
				return out, nil
			}
			if res := next.Result(); res != nil {
				out[res.Call] = &next
			}
		}
	}
	return out, nil
}

func (r *rope) place(m *found, block int) place {
	return place{Branch: r.branch.ID, In: r.spans[m.span].Branch, Pos: m.pos, Block: block}
}

// tape reads messages from the log: those of all conversations, or what lies
// below one place, whatever the branch.
type tape struct {
	store  store.Store
	sc     store.Scope
	query  store.LogQuery
	within map[id.ID]bool // the interactions that are wanted; nil: all
	since  time.Time
	done   bool
}

func (t *tape) resume(p place) {
	seq := p.Seq
	if p.Block != 0 {
		seq++
	}
	t.query.After = t.query.Cursor(seq)
}

func (t *tape) read(ctx context.Context) ([]found, error) {
	for !t.done {
		page, err := t.store.Log(ctx, t.sc, t.query)
		if err != nil {
			return nil, err
		}
		t.query.After, t.done = page.Next, !page.More
		out := make([]found, 0, len(page.Entries))
		for i := range page.Entries {
			en := &page.Entries[i]
			if en.At.Before(t.since) {
				t.done = true
				break
			}
			if !t.wants(en) {
				continue
			}
			m, err := t.found(en, false)
			if err != nil {
				return nil, err
			}
			out = append(out, m)
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	return nil, nil
}

// wants leaves out what is no message, what was erased, and other interactions.
func (t *tape) wants(en *resource.Entry) bool {
	return isMessage(en) && (t.within == nil || t.within[record.IDOf(en.URI, record.TypeInteraction)])
}

func isMessage(en *resource.Entry) bool {
	return en.Op == resource.OpPut && en.Body != nil && en.URI.Type() == record.TypeMessage
}

func (t *tape) found(en *resource.Entry, whole bool) (found, error) {
	f := found{uri: en.URI, seq: en.Seq, stored: en.At, actor: en.Actor, request: en.Request}
	return f, f.decode(en.Body, whole)
}

// results reads on in the log, in the message's interaction.
func (t *tape) results(ctx context.Context, m *found) (map[message.Ref]*found, error) {
	out := map[message.Ref]*found{}
	open := len(m.Calls())
	q := store.LogQuery{Since: m.seq, Under: m.uri.Parent(), Type: record.TypeMessage, Limit: 16}
	for en, err := range store.Entries(ctx, t.store, t.sc, q) {
		if err != nil {
			return nil, err
		}
		if !isMessage(&en) {
			continue
		}
		next, err := t.found(&en, true)
		if err != nil {
			return nil, err
		}
		if res := next.Result(); res != nil && res.Call.Message == m.ID && out[res.Call] == nil {
			out[res.Call] = &next
			if open--; open == 0 {
				break
			}
		}
	}
	return out, nil
}

func (t *tape) place(m *found, block int) place { return place{Seq: m.seq, Block: block} }

// open chooses the source that a filter asks for.
func (r *reader) open(at place) (source, error) {
	f := &r.filter
	size := min(max(2*r.limit, 32), 256)
	t := &tape{store: r.store, sc: r.sc, since: f.Since, query: store.LogQuery{Type: record.TypeMessage, Reverse: true, Limit: size}}
	if f.Conversation.Zero() {
		if !f.Interaction.Zero() {
			t.within = map[id.ID]bool{f.Interaction: true}
		}
		return t, t.start(at)
	}
	k, err := r.talk(f.Conversation)
	if err != nil {
		return nil, err
	}
	if k.gone {
		return nil, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %s", f.Conversation).
			With("steward conversations list shows those that there are")
	}
	t.query.Under = record.ConversationURI(f.Conversation)
	switch {
	case !f.Interaction.Zero():
		if err := r.narrow(t); err != nil {
			return nil, err
		}
		return t, t.start(at)
	case f.AllBranches:
		return t, t.start(at)
	}
	name := k.BranchID()
	if at.Branch != "" {
		name = at.Branch
	}
	b, err := r.branch(f.Conversation, name)
	if err != nil {
		return nil, err
	}
	k.branch = &b
	p := &rope{store: r.store, sc: r.sc, conv: f.Conversation, branch: b, spans: b.Spans(), since: f.Since, size: size}
	p.at = len(p.spans) - 1
	if at.Branch != "" {
		err = p.resume(at)
	}
	return p, err
}

func (t *tape) start(at place) error {
	if at.Seq != 0 {
		t.resume(at)
	}
	return nil
}

// narrow restricts a conversation's tape to an interaction and those that were
// merged into it.
func (r *reader) narrow(t *tape) error {
	within := map[id.ID]bool{}
	for todo := []id.ID{r.filter.Interaction}; len(todo) > 0; todo = todo[1:] {
		if within[todo[0]] {
			continue
		}
		u := record.InteractionURI(r.filter.Conversation, todo[0])
		res, err := r.store.Get(r.ctx, r.sc, u)
		switch {
		case fault.Is(err, fault.NotFound) && len(within) == 0:
			return fault.New(fault.NotFound, "interaction_not_found", "this conversation has no interaction %s", todo[0])
		case fault.Is(err, fault.NotFound):
			continue
		case err != nil:
			return err
		}
		var in record.Interaction
		if err := record.Decode(u, res.Body, &in); err != nil {
			return err
		}
		within[todo[0]] = true
		todo = append(todo, in.Holds...)
	}
	if len(within) > 1 {
		t.within = within
	} else {
		t.query.Under = record.InteractionURI(r.filter.Conversation, r.filter.Interaction)
	}
	return nil
}

// branch reads a branch.
func (r *reader) branch(conv id.ID, name string) (record.Branch, error) {
	b := record.Branch{}
	u := record.BranchURI(conv, name)
	res, err := r.store.Get(r.ctx, r.sc, u)
	switch {
	case err == nil:
		err = record.Decode(u, res.Body, &b)
	case fault.Is(err, fault.NotFound): // a conversation whose branch was erased has nothing to tell
		err = nil
	}
	b.ID = name
	return b, err
}
