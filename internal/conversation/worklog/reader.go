package worklog

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/tool"
)

// typeIntent is the type of intents. An intent is stored below the message of its
// call, under the number of the call's block.
const typeIntent = "effect.Intent"

// reader reads one page.
type reader struct {
	*Engine
	ctx     context.Context
	sc      store.Scope
	filter  Filter
	limit   int
	resumed position // where the page continues; zero: it is the first page
	known   map[id.ID]*conversationInfo
	alone   bool // for Show: copies are entries, too
	out     []Entry
}

// conversationInfo is what the reader knows of a conversation.
type conversationInfo struct {
	record.Conversation
	gone   bool
	origin uint64         // messages up to this log position are copies from another conversation
	own    bool           // no messages are copies
	branch *record.Branch // the branch by which states are judged; nil: not read yet
}

// run reads until the page is full, nothing is left, or maxScan messages were read.
func (r *reader) run() (store.Cursor, error) {
	list, err := r.open(r.resumed)
	if err != nil {
		return "", err
	}
	results := map[message.Ref]*found{} // those read so far, which come before their calls
	scanned, below := 0, r.resumed.Block
	for m, err := range list {
		block := 0
		if err == nil && m.Message != nil {
			if res := m.Result(); res != nil {
				results[res.Call] = m
			}
			if m.Role == message.Assistant {
				block, err = r.addCalls(m, below, results)
			}
		}
		if err != nil {
			return "", err
		}
		below = 0
		if scanned++; len(r.out) >= r.limit || scanned == maxScan {
			return r.filter.cursor(m, block)
		}
	}
	return "", nil
}

// addCalls adds the entries of a message's calls before a block (0: of all calls), last
// one first, until the page is full. It returns the block of the last entry, or 0 if
// no calls are left.
func (r *reader) addCalls(m *found, below int, results map[message.Ref]*found) (int, error) {
	looked := r.resumed == position{} // on the first page, results were read before their calls
	for i, c := range slices.Backward(m.Calls()) {
		if below > 0 && c.Block >= below {
			continue
		}
		err := r.asked(c)
		if err != nil {
			return 0, err
		}
		if !r.filter.wants(c.Name, m.time()) {
			continue
		}
		if results[c.Ref] == nil && !looked {
			more, err := r.results(m)
			if err != nil {
				return 0, err
			}
			maps.Copy(results, more)
			looked = true
		}
		res := results[c.Ref]
		delete(results, c.Ref)
		if sure := outcomeOf(res); r.filter.Outcome != "" && sure != "" && sure != r.filter.Outcome {
			continue
		}
		en, ok, err := r.entry(m, c, res)
		if err != nil {
			return 0, err
		}
		if !ok || r.filter.Outcome != "" && en.Outcome != r.filter.Outcome {
			continue
		}
		if r.out = append(r.out, en); len(r.out) >= r.limit && i > 0 {
			return c.Block, nil
		}
	}
	return 0, nil
}

// asked adds, in the log of a conversation, what an agent did that a call asked. The
// agent works in a conversation of its own, whose id derives from the call.
func (r *reader) asked(c message.Call) error {
	if r.filter.Conversation.Zero() || !strings.HasSuffix(tool.FromWire(c.Name), ".ask") {
		return nil
	}
	below := &reader{Engine: r.Engine, ctx: r.ctx, sc: r.sc, filter: r.filter, limit: MaxLimit, known: r.known}
	below.filter.Conversation, below.filter.Interaction = record.AskedConversation(c.Ref), id.ID{}
	_, err := below.run()
	if fault.HasCode(err, "conversation_not_found") {
		return nil // it has not begun, or the tool is not an agent
	}
	r.out = append(r.out, below.out...)
	return err
}

// time returns when a message was written, or when it was stored if it has no time.
func (f *found) time() time.Time {
	if f.At.IsZero() {
		return f.stored
	}
	return f.At
}

// entry returns the entry of a call. It returns false if a person has deleted the
// call, or if the call is a copy of another entry.
func (r *reader) entry(m *found, c message.Call, res *found) (Entry, bool, error) {
	conv := record.IDOf(m.uri, record.TypeConversation)
	k, err := r.conversation(conv)
	if err != nil || k.gone {
		return Entry{}, false, err
	}
	if again, err := r.isCopy(k, m); err != nil || again {
		return Entry{}, false, err
	}
	en := Entry{ID: ref(m.ID, c.Block), At: m.time(), Conversation: conv,
		Interaction: record.IDOf(m.uri, record.TypeInteraction), Call: m.uri, Messages: []id.ID{m.ID}}
	for _, part := range []*found{m, res} {
		if part == nil {
			continue
		}
		switch state, err := r.validity(k, conv, part); {
		case err != nil || state == record.Deleted:
			return Entry{}, false, err
		case state == record.Invalidated && part == res:
			en.Obsolete = true
		}
	}
	w := r.words(c)
	w.describe(&en)
	en.Title = message.OneLine(w.Text(k.Title), maxSummary)
	if res != nil {
		en.Messages = append(en.Messages, res.ID)
		en.Took = max(0, res.time().Sub(en.At))
	}
	if err := r.outcome(&en, w, m, c, res); err != nil {
		return Entry{}, false, err
	}
	if en.Outcome == Pending {
		en.Took = 0
	}
	en.Actor, en.Request, err = r.author(m)
	return en, err == nil, err
}

// copyDelay is how long after it was written a message must be stored to count as copied
// or imported.
const copyDelay = time.Minute

// isCopy reports whether a message is a copy of one in another conversation that still
// exists, so that the log of all conversations has it already. Copies come before
// everything else in a conversation.
func (r *reader) isCopy(k *conversationInfo, m *found) (bool, error) {
	switch {
	case r.alone || !r.filter.Conversation.Zero() || k.own || m.stored.Sub(m.time()) < copyDelay:
		return false, nil
	case m.seq <= k.origin:
		return true, nil
	}
	first, err := r.findNear(m.ID, m.Calls()[0].Block)
	if err != nil {
		return false, err
	}
	if first == nil || first.uri == m.uri {
		k.own = true
		return false, nil
	}
	k.origin = m.seq
	return true, nil
}

// outcomeOf returns the outcome of a call if its result alone decides it, or "".
func outcomeOf(res *found) Outcome {
	if res == nil {
		return ""
	}
	switch res.Result().Status {
	case message.OK:
		return Success
	case message.Queued, message.Accepted, message.UnknownEnd:
		return ""
	}
	return Failure
}

// outcome sets the outcome of a call. The intent decides it for calls that were
// queued, whose end is unknown, or that have no result yet. The request decides it for
// calls that continued in the background.
func (r *reader) outcome(en *Entry, w *words, m *found, c message.Call, res *found) error {
	status := message.Status("")
	if res != nil {
		if status = res.Result().Status; status != message.OK {
			en.Error = w.why(res.Result())
		}
	}
	if en.Outcome = outcomeOf(res); en.Outcome != "" {
		return nil
	}
	if status == message.Accepted {
		return r.background(en, w, m, c)
	}
	stored, err := r.store.Get(r.ctx, r.sc, m.uri.Child(typeIntent, strconv.Itoa(c.Block)))
	if fault.Is(err, fault.NotFound) {
		return r.unrecorded(en, m, status)
	}
	if err != nil {
		return err
	}
	in, err := intent.Decode(stored.Body)
	if err != nil {
		return err
	}
	w.setOutcome(en, &in)
	if en.Outcome != Pending && stored.At.After(en.At) && status != message.UnknownEnd {
		en.Took = stored.At.Sub(en.At)
	}
	return nil
}

// background sets the outcome of a call that continued in the background.
func (r *reader) background(en *Entry, w *words, m *found, c message.Call) error {
	var t record.Request
	_, ok, err := r.load(m.uri.Parent().ChildID(record.TypeRequest, record.TaskID(c.Ref)), &t)
	switch {
	case err != nil:
		return err
	case !ok: // for example in a copy
		en.Outcome, en.Error = Partial, "it continued in the background; its outcome is not recorded here"
		return nil
	case t.Answered.IsZero():
		en.Outcome, en.Error = Pending, "it is running in the background"
		return nil
	}
	en.Took = max(0, t.Answered.Sub(en.At))
	switch message.Status(t.Outcome) {
	case message.OK:
		en.Outcome, en.Error = Success, ""
	case message.UnknownEnd:
		en.Outcome, en.Error = Partial, "outcome unknown"
	default:
		en.Outcome, en.Error = Failure, w.short(t.Message)
	}
	return nil
}

// unrecorded sets the outcome of a call without an intent: it is pending while its
// turn runs.
func (r *reader) unrecorded(en *Entry, m *found, status message.Status) error {
	if status == message.UnknownEnd {
		en.Outcome = Partial
		return nil
	}
	page, err := r.store.Query(r.ctx, r.sc, store.Query{State: record.StateRunning, Type: record.TypeRun, Under: m.uri.Parent(), Limit: 1, NoBody: true})
	if err != nil {
		return err
	}
	switch runs := len(page.Items) > 0; {
	case runs && status == message.Queued:
		en.Outcome, en.Error = Pending, "it will be done when the turn ends"
	case runs:
		en.Outcome, en.Error = Pending, "it is running"
	case status == message.Queued: // for example in a copy
		en.Outcome, en.Error = Partial, "it was queued; its outcome is not recorded here"
	default:
		en.Outcome, en.Error = Failure, "no result was recorded"
	}
	return nil
}

// validity returns the state of a message on its conversation's branch. If the branch
// does not hold the message, the newest change on any branch counts.
func (r *reader) validity(k *conversationInfo, conv id.ID, m *found) (record.Validity, error) {
	var mark record.Mark
	if _, ok, err := r.load(record.MarkURI(conv, m.ID), &mark); !ok {
		return record.Active, err
	}
	if k.branch == nil {
		b, err := r.branch(conv, k.BranchID())
		if err != nil {
			return "", err
		}
		k.branch = &b
	}
	if k.branch.Holds(mark.Branch, mark.Pos) {
		return mark.On(k.branch, false).State, nil
	}
	for _, c := range slices.Backward(mark.Changes) {
		if c.Undone.IsZero() {
			return c.State, nil
		}
	}
	return record.Active, nil
}

// author returns who made a call and for which request. The log records both.
func (r *reader) author(m *found) (actor string, request id.ID, err error) {
	page, err := r.store.Log(r.ctx, r.sc, store.LogQuery{Since: m.seq - 1, Limit: 1})
	if err == nil && len(page.Entries) > 0 && page.Entries[0].Seq == m.seq {
		actor, request = page.Entries[0].Actor, page.Entries[0].Request
	}
	return actor, request, err
}

// conversation reads a conversation, once.
func (r *reader) conversation(conv id.ID) (*conversationInfo, error) {
	if k := r.known[conv]; k != nil {
		return k, nil
	}
	k := &conversationInfo{}
	res, ok, err := r.load(record.ConversationURI(conv), &k.Conversation)
	if err != nil {
		return nil, err
	}
	k.gone = !ok || !k.Deleted.IsZero() || res.State == record.StateDeleted
	r.known[conv] = k
	return k, nil
}
