package worklog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// position is the content of a cursor: the last message that was read, either on a
// branch (Branch, In and Pos) or in the log (Seq).
type position struct {
	Branch string `json:"b,omitzero"` // the branch that is read
	In     string `json:"i,omitzero"` // the branch whose list holds the message
	Pos    int64  `json:"p,omitzero"`
	Seq    uint64 `json:"s,omitzero"`
	Block  int    `json:"n,omitzero"` // its calls from this block on have been returned; 0: all
}

// mark distinguishes a filter's cursors from those of others. Times do not count,
// since "the last 24 hours" moves from page to page.
func (f *Filter) mark() store.Mark {
	return store.NewMark('w', f.Conversation.String(), strconv.FormatBool(f.AllBranches), f.Interaction.String(), f.Tool, string(f.Outcome))
}

// cursor returns the cursor after a message whose calls from a block on have been
// returned (0: all).
func (f *Filter) cursor(m *found, block int) (store.Cursor, error) {
	at := m.at
	at.Block = block
	b, err := json.Marshal(at)
	return f.mark().Seal(store.Position{Key: b}), err
}

func openCursor(f *Filter, c store.Cursor) (at position, err error) {
	p, ok, err := f.mark().Open(c)
	if !ok || err != nil {
		return at, err
	}
	err = json.Unmarshal(p.Key, &at)
	onBranch := at.Branch != "" && at.In != "" && at.Pos > 0 && at.Seq == 0
	if err != nil || at.Block < 0 || !onBranch && (at.Seq == 0 || at.Branch != "") {
		return at, store.BadCursor("it is damaged")
	}
	return at, nil
}

// found is a message with its position. Message is nil if it has neither calls nor a
// result.
type found struct {
	*message.Message
	uri    resource.URI
	seq    uint64
	stored time.Time
	at     position
}

// toolBlock is part of the stored form of each message with a call or a result, as
// message.Append writes it. In text the quotes would be escaped.
var toolBlock = []byte(`{"type":"tool_`)

// decode decodes a message if it has a call or a result.
func (f *found) decode(body []byte) (err error) {
	if bytes.Contains(body, toolBlock) {
		f.Message, err = record.DecodeMessage(f.uri, body)
	}
	return err
}

// inLog returns the message that a log entry stores, or nil if it stores none.
func inLog(en *resource.Entry) (*found, error) {
	if en.Op != resource.OpPut || en.Body == nil || en.URI.Type() != record.TypeMessage {
		return nil, nil
	}
	f := &found{uri: en.URI, seq: en.Seq, stored: en.At, at: position{Seq: en.Seq}}
	return f, f.decode(en.Body)
}

// messages are the messages of a page, newest first.
type messages = iter.Seq2[*found, error]

// pageSize returns how many messages to read at a time.
func (r *reader) pageSize() int { return min(max(2*r.limit, 32), 256) }

// open returns the messages that a filter selects, from a position on.
func (r *reader) open(at position) (messages, error) {
	f := &r.filter
	q := store.LogQuery{Type: record.TypeMessage, Reverse: true, Limit: r.pageSize()}
	if at.Seq != 0 {
		q.After = q.Cursor(at.Seq)
	}
	if at.Block != 0 { // some of its calls are left
		q.After = q.Cursor(at.Seq + 1)
	}
	if f.Conversation.Zero() {
		var within []id.ID
		if !f.Interaction.Zero() {
			within = []id.ID{f.Interaction}
		}
		return r.fromLog(q, within), nil
	}
	k, err := r.conversation(f.Conversation)
	if err != nil {
		return nil, err
	}
	if k.gone {
		return nil, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %s", f.Conversation).
			WithHint("steward conversations list shows your conversations")
	}
	q.Under = record.ConversationURI(f.Conversation)
	switch {
	case !f.Interaction.Zero():
		within, err := r.merged()
		if len(within) == 1 {
			q.Under = record.InteractionURI(f.Conversation, f.Interaction)
		}
		return r.fromLog(q, within), err
	case f.AllBranches:
		return r.fromLog(q, nil), nil
	}
	b, err := r.branch(f.Conversation, cmp.Or(at.Branch, k.BranchID()))
	if err != nil {
		return nil, err
	}
	k.branch = &b
	return r.fromBranch(&b, at)
}

// fromLog yields messages from the log, optionally only those of some interactions.
func (r *reader) fromLog(q store.LogQuery, within []id.ID) messages {
	return func(yield func(*found, error) bool) {
		for en, err := range store.Entries(r.ctx, r.store, r.sc, q) {
			if err == nil && en.At.Before(r.filter.Since) {
				return
			}
			if err == nil && within != nil && !slices.Contains(within, record.IDOf(en.URI, record.TypeInteraction)) {
				continue
			}
			var m *found
			if err == nil {
				m, err = inLog(&en)
			}
			if (m != nil || err != nil) && (!yield(m, err) || err != nil) {
				return
			}
		}
	}
}

// merged returns the filter's interaction and those that were merged into it.
func (r *reader) merged() (all []id.ID, err error) {
	seen := map[id.ID]bool{}
	for todo := []id.ID{r.filter.Interaction}; len(todo) > 0; todo = todo[1:] {
		if seen[todo[0]] {
			continue
		}
		var in record.Interaction
		_, ok, err := r.load(record.InteractionURI(r.filter.Conversation, todo[0]), &in)
		switch {
		case err != nil:
			return nil, err
		case !ok && len(seen) == 0:
			return nil, fault.New(fault.NotFound, "interaction_not_found", "this conversation has no interaction %s", todo[0])
		}
		seen[todo[0]], all = true, append(all, todo[0])
		todo = append(todo, in.Holds...)
	}
	return all, nil
}

// fromBranch yields the messages of a branch in its order, span by span. If the
// position is not on the branch any more, the cursor is invalid.
func (r *reader) fromBranch(b *record.Branch, at position) (messages, error) {
	spans := b.Spans()
	if at.Pos != 0 {
		to := b.PlaceOf(at.In, at.Pos).Span
		if to < 0 {
			return nil, store.BadCursor("its message is no longer on the branch")
		}
		if at.Block == 0 {
			at.Pos--
		}
		spans = spans[:to+1]
		spans[to].To = at.Pos
		if at.Pos < max(spans[to].From, 1) {
			spans = spans[:to]
		}
	}
	return func(yield func(*found, error) bool) {
		for i := len(spans) - 1; i >= 0; i-- {
			if !r.span(b.ID, spans[i], yield) {
				return
			}
		}
	}, nil
}

// span yields the messages of one span. It returns false when the sequence has ended.
func (r *reader) span(branch string, s record.Span, yield func(*found, error) bool) bool {
	q := store.Query{List: record.BranchURI(r.filter.Conversation, s.Branch), Type: record.TypeMessage, From: s.To, Reverse: true, Limit: r.pageSize()}
	for it, err := range store.Items(r.ctx, r.store, r.sc, q) {
		if err != nil {
			yield(nil, err)
			return false
		}
		if it.Pos < s.From || it.At.Before(r.filter.Since) { // in one list, times increase with positions
			return true
		}
		m := &found{uri: it.URI, seq: it.Seq, stored: it.At, at: position{Branch: branch, In: s.Branch, Pos: it.Pos}}
		if err := m.decode(it.Body); !yield(m, err) || err != nil {
			return false
		}
	}
	return true
}

// results reads the messages that answer the calls of a message.
func (r *reader) results(m *found) (map[message.Ref]*found, error) {
	out := map[message.Ref]*found{}
	q := store.LogQuery{Since: m.seq, Under: m.uri.Parent(), Type: record.TypeMessage, Limit: 16}
	for en, err := range store.Entries(r.ctx, r.store, r.sc, q) {
		var next *found
		if err == nil {
			next, err = inLog(&en)
		}
		if err != nil {
			return nil, err
		}
		if next == nil || next.Message == nil {
			continue
		}
		if res := next.Result(); res != nil && res.Call.Message == m.ID && out[res.Call] == nil {
			if out[res.Call] = next; len(out) == len(m.Calls()) {
				break
			}
		}
	}
	return out, nil
}

// branch reads a branch. An erased branch is empty.
func (r *reader) branch(conv id.ID, name string) (record.Branch, error) {
	b := record.Branch{}
	_, _, err := r.load(record.BranchURI(conv, name), &b)
	b.ID = name
	return b, err
}

// load reads a record. It returns false if there is none.
func (r *reader) load(u resource.URI, into any) (at resource.Resource, ok bool, err error) {
	at, err = r.store.Get(r.ctx, r.sc, u)
	if fault.Is(err, fault.NotFound) {
		return at, false, nil
	}
	if err == nil {
		err = record.Decode(u, at.Body, into)
	}
	return at, err == nil, err
}
