package conversation

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Entry is a message with its place and state.
type Entry struct {
	*message.Message
	Interaction id.ID
	Branch      string // the branch whose list holds it
	Seq         uint64 // its log position
	Pos         int64  // its position in the list
	Change      record.Change
	Pinned      bool
	Shown       bool // it is in the model's view of the branch
}

// URI returns the message's URI.
func (e *Entry) URI(conv id.ID) resource.URI {
	return record.InteractionURI(conv, e.Interaction).ChildID(record.TypeMessage, e.ID)
}

func entry(branch string, it store.Item) (Entry, error) {
	m, err := record.DecodeMessage(it.URI, it.Body)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Message: m, Interaction: record.IDOf(it.URI, record.TypeInteraction), Branch: branch,
		Seq: it.Seq, Pos: it.Pos, Change: record.Change{State: record.Active}}, nil
}

// entries decodes messages on all processors, since that dominates the time to
// open a long conversation.
func entries(branch string, items []store.Item) ([]Entry, error) {
	const least = 64 // per worker
	out := make([]Entry, len(items))
	workers := min(runtime.GOMAXPROCS(0), len(items)/least+1)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		work := func() {
			for i := w * len(items) / workers; i < (w+1)*len(items)/workers && errs[w] == nil; i++ {
				out[i], errs[w] = entry(branch, items[i])
			}
		}
		if w == workers-1 {
			work()
		} else {
			wg.Go(work)
		}
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// branch reads a branch of a conversation.
func (e *Engine) branch(ctx context.Context, sc store.Scope, conv id.ID, name string) (record.Branch, uint64, error) {
	b := record.Branch{}
	r, err := e.store.Get(ctx, sc, record.BranchURI(conv, name))
	if err == nil {
		err = record.Decode(r.URI, r.Body, &b)
	}
	if fault.Is(err, fault.NotFound) || err == nil && !b.Deleted.IsZero() {
		err = noBranch(name)
	}
	b.ID = name
	return b, r.Version, err
}

func noBranch(name string) error {
	return fault.New(fault.NotFound, "branch_not_found", "this conversation has no branch %q", name).
		WithHint("steward branch list shows its branches")
}

// current reads a conversation's preferred branch.
func (e *Engine) current(ctx context.Context, sc store.Scope, conv id.ID) (record.Conversation, record.Branch, error) {
	c, _, err := e.get(ctx, sc, conv)
	if err != nil {
		return c, record.Branch{}, err
	}
	b, _, err := e.branch(ctx, sc, conv, c.BranchID())
	return c, b, err
}

// Messages returns a page of the messages on a conversation's preferred branch in
// their exact order, or newest first with reverse. Deleted messages are left out,
// so a page may be shorter than the limit. A page is a consistent snapshot: if
// the conversation changes while it is read (its preferred branch or the state of
// messages), it is read again.
func (e *Engine) Messages(ctx context.Context, sc store.Scope, conv id.ID, after store.Cursor, limit int, reverse bool) ([]Entry, store.Cursor, error) {
	for try := 1; ; try++ {
		c, r, err := e.get(ctx, sc, conv)
		if err != nil {
			return nil, "", err
		}
		b, version, err := e.branch(ctx, sc, conv, c.BranchID())
		if err != nil {
			return nil, "", err
		}
		page, next, err := e.MessagesOf(ctx, sc, conv, &b, after, limit, reverse)
		if err != nil || try == maxTries {
			return page, next, err
		}
		if same, err := e.unchanged(ctx, sc, r, record.BranchURI(conv, b.ID), version); same || err != nil {
			return page, next, err
		}
	}
}

// unchanged reports whether a conversation and a branch still have the versions
// that were read.
func (e *Engine) unchanged(ctx context.Context, sc store.Scope, conv resource.Resource, branch resource.URI, version uint64) (bool, error) {
	c, err := e.store.Get(ctx, sc, conv.URI)
	if err != nil || c.Version != conv.Version {
		return false, err
	}
	b, err := e.store.Get(ctx, sc, branch)
	return err == nil && b.Version == version, err
}

// MessagesOf is Messages for any branch.
func (e *Engine) MessagesOf(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, after store.Cursor, limit int, reverse bool) ([]Entry, store.Cursor, error) {
	page, next, err := e.page(ctx, sc, conv, b, after, limit, reverse)
	if err != nil {
		return nil, "", err
	}
	page, err = e.withoutDeleted(ctx, sc, conv, b, page)
	return page, next, err
}

// withoutDeleted sets the states of a page of messages, and leaves out those that are deleted.
func (e *Engine) withoutDeleted(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, page []Entry) ([]Entry, error) {
	if err := e.markStates(ctx, sc, conv, b, page); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(page, func(m Entry) bool { return m.Change.State == record.Deleted }), nil
}

// page reads messages along a branch's spans. A cursor consists of the number of
// the span and the store's cursor in its list.
func (e *Engine) page(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, after store.Cursor, limit int, reverse bool) ([]Entry, store.Cursor, error) {
	spans := b.Spans()
	at, in, err := spanCursor(after, len(spans), reverse)
	if err != nil {
		return nil, "", err
	}
	return e.pageFrom(ctx, sc, conv, spans, at, 0, in, limit, reverse)
}

// pageFrom reads from a span on, after a cursor in its list or from a position (0: its beginning or its end).
func (e *Engine) pageFrom(ctx context.Context, sc store.Scope, conv id.ID, spans []record.Span, at int, start int64, in store.Cursor, limit int, reverse bool) ([]Entry, store.Cursor, error) {
	limit = store.PageSize(limit)
	var out []Entry
	for ; at >= 0 && at < len(spans) && len(out) < limit; at += step(reverse) {
		s := spans[at]
		q := store.Query{List: record.BranchURI(conv, s.Branch), From: s.From, Reverse: reverse, After: in, Limit: limit - len(out)}
		if reverse {
			q.From = s.To
		}
		if start != 0 {
			q.From, start = start, 0
		}
		page, err := e.store.Query(ctx, sc, q)
		if err != nil {
			return nil, "", err
		}
		for _, it := range page.Items {
			if !s.Holds(s.Branch, it.Pos) {
				page.Next = ""
				break
			}
			m, err := entry(s.Branch, it)
			if err != nil {
				return nil, "", err
			}
			out = append(out, m)
		}
		if in = page.Next; in != "" {
			return out, store.Cursor(strconv.Itoa(at)) + "." + in, nil
		}
	}
	if at < 0 || at >= len(spans) {
		return out, "", nil
	}
	return out, store.Cursor(strconv.Itoa(at)) + ".", nil
}

// Walk yields the messages of a branch in their order, or newest first with
// reverse, with their states and without deleted ones.
func (e *Engine) Walk(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, reverse bool) iter.Seq2[Entry, error] {
	return pages(func(after store.Cursor) ([]Entry, store.Cursor, error) {
		return e.MessagesOf(ctx, sc, conv, b, after, 0, reverse)
	})
}

// walk is Walk for all messages and without their states. It reads limit messages
// at a time.
func (e *Engine) walk(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, limit int, reverse bool) iter.Seq2[Entry, error] {
	return pages(func(after store.Cursor) ([]Entry, store.Cursor, error) {
		return e.page(ctx, sc, conv, b, after, limit, reverse)
	})
}

// pages yields the entries of all pages.
func pages(read func(after store.Cursor) ([]Entry, store.Cursor, error)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for after := store.Cursor(""); ; {
			page, next, err := read(after)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, m := range page {
				if !yield(m, nil) {
					return
				}
			}
			if after = next; after == "" {
				return
			}
		}
	}
}

// first returns the first entry of a sequence, or nil if there is none.
func first(seq iter.Seq2[Entry, error]) (*Entry, error) {
	for m, err := range seq {
		return &m, err
	}
	return nil, nil
}

func step(reverse bool) int {
	if reverse {
		return -1
	}
	return 1
}

func spanCursor(c store.Cursor, spans int, reverse bool) (int, store.Cursor, error) {
	if c == "" {
		if reverse {
			return spans - 1, "", nil
		}
		return 0, "", nil
	}
	n, rest, ok := strings.Cut(string(c), ".")
	at, err := strconv.Atoi(n)
	if !ok || err != nil || at < 0 || at >= spans {
		return 0, "", fault.New(fault.Invalid, "cursor_invalid", "invalid cursor: it belongs to another query").
			WithHint("start again without a cursor")
	}
	return at, store.Cursor(rest), nil
}

// markStates sets the state on a branch of the messages of a page.
func (e *Engine) markStates(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, page []Entry) error {
	if len(page) == 0 {
		return nil
	}
	lo, hi := page[0].Pos, page[0].Pos
	for _, m := range page {
		lo, hi = min(lo, m.Pos), max(hi, m.Pos)
	}
	marks, err := e.marks(ctx, sc, conv, lo, hi)
	if err != nil {
		return err
	}
	pins, err := e.pins(ctx, sc, conv, lo, hi)
	if err != nil {
		return err
	}
	start := b.Start()
	for i := range page {
		m := &page[i]
		_, m.Pinned = pins[m.Pos]
		m.Change = marks[m.Pos].on(b, m, false)
		m.Shown = !b.PlaceOf(m.Branch, m.Pos).Before(start) || m.Pinned || slices.Contains(b.View.Keep, record.Point{Branch: m.Branch, Pos: m.Pos})
		if !m.Shown && b.View.Summary != "" && m.Change.State == record.Active {
			m.Change = record.Change{State: record.Superseded, By: summaryID(b), Reason: "a summary replaces it"}
		}
	}
	return nil
}

func summaryID(b *record.Branch) id.ID {
	u, err := resource.Parse(b.View.Summary)
	if err != nil {
		return id.ID{}
	}
	return record.IDOf(u, record.TypeMessage)
}

// marks reads the marks of the messages at positions from lo to hi (0: to the
// end), by position.
func (e *Engine) marks(ctx context.Context, sc store.Scope, conv id.ID, lo, hi int64) (map[int64]*marked, error) {
	var out map[int64]*marked
	for it, err := range records[record.Mark](ctx, e, sc, store.Query{List: record.MarksURI(conv), From: lo, Limit: 1000}) {
		if err != nil {
			return nil, err
		}
		if hi > 0 && it.Pos > hi {
			break
		}
		if out == nil {
			out = map[int64]*marked{}
		}
		out[it.Pos] = markOf(it)
	}
	return out, nil
}

// marked is a mark with the version in which it was read.
type marked struct {
	record.Mark
	version uint64
}

func markOf(f found[record.Mark]) *marked {
	f.Record.Message, _ = id.Parse(f.URI.ID())
	return &marked{f.Record, f.Version}
}

// pins reads the pins of the messages at positions from lo to hi (0: to the
// end), by position.
func (e *Engine) pins(ctx context.Context, sc store.Scope, conv id.ID, lo, hi int64) (map[int64]record.Pin, error) {
	var out map[int64]record.Pin
	for it, err := range records[record.Pin](ctx, e, sc, store.Query{List: record.PinsURI(conv), From: lo}) {
		if err != nil {
			return nil, err
		}
		if hi > 0 && it.Pos > hi {
			break
		}
		if out == nil {
			out = map[int64]record.Pin{}
		}
		it.Record.Message, _ = id.Parse(it.URI.ID())
		out[it.Pos] = it.Record
	}
	return out, nil
}

// shown reads the model's view of a branch, in order: everything from the view's
// start on, and pinned messages before it. It also returns the marks.
func (e *Engine) shown(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch) ([]Entry, map[int64]*marked, error) {
	out, spans, lowest, err := e.reach(ctx, sc, conv, b)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range spans {
		read, err := e.span(ctx, sc, conv, s)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, read...)
	}
	marks, err := e.marks(ctx, sc, conv, lowest, 0)
	if err != nil {
		return nil, nil, err
	}
	pins, err := e.pins(ctx, sc, conv, lowest, 0)
	if err != nil {
		return nil, nil, err
	}
	for i := range out {
		out[i].Shown = true
		_, out[i].Pinned = pins[out[i].Pos]
		out[i].Change = marks[out[i].Pos].on(b, &out[i], false)
	}
	return out, marks, nil
}

// reach returns what a view consists of: the messages before its start that are
// still shown, the spans from the start on, and the lowest position of all.
func (e *Engine) reach(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch) ([]Entry, []record.Span, int64, error) {
	out, lowest, err := e.pinned(ctx, sc, conv, b)
	spans := b.Spans()
	if p := b.Start(); p.Span >= 0 {
		spans = spans[p.Span:]
		spans[0].From = b.View.Start.Pos
	}
	for _, s := range spans {
		lowest = min(lowest, s.From)
	}
	return out, spans, lowest, err
}

// span reads all messages of a span.
func (e *Engine) span(ctx context.Context, sc store.Scope, conv id.ID, s record.Span) ([]Entry, error) {
	q := store.Query{List: record.BranchURI(conv, s.Branch), From: s.From, Limit: store.MaxLimit}
	if s.To > 0 {
		q.Limit = int(min(s.To-s.From+1, store.MaxLimit))
	}
	var items []store.Item
	for it, err := range store.Items(ctx, e.store, sc, q) {
		if err != nil {
			return nil, err
		}
		if !s.Holds(s.Branch, it.Pos) {
			break
		}
		items = append(items, it)
	}
	return entries(s.Branch, items)
}

// pinned reads the messages before the view's start that are still shown, and
// returns the lowest of their positions.
func (e *Engine) pinned(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch) ([]Entry, int64, error) {
	lowest := int64(math.MaxInt64)
	start := b.Start()
	if start.Span < 0 {
		return nil, lowest, nil
	}
	pins, err := e.pins(ctx, sc, conv, 0, 0)
	if err != nil {
		return nil, 0, err
	}
	points := slices.Clone(b.View.Keep)
	for _, p := range pins {
		points = append(points, record.Point{Branch: p.Branch, Pos: p.Pos})
	}
	points = slices.DeleteFunc(points, func(p record.Point) bool { return !b.PlaceOf(p.Branch, p.Pos).Before(start) })
	slices.SortFunc(points, func(p, q record.Point) int {
		return b.PlaceOf(p.Branch, p.Pos).Compare(b.PlaceOf(q.Branch, q.Pos))
	})
	var out []Entry
	for _, p := range slices.Compact(points) {
		m, err := e.at(ctx, sc, conv, p.Branch, p.Pos)
		if fault.Is(err, fault.NotFound) {
			continue // erased
		}
		if err != nil {
			return nil, 0, err
		}
		out = append(out, m)
		lowest = min(lowest, m.Pos)
	}
	return out, lowest, nil
}

// at reads the message at a position of a branch's list.
func (e *Engine) at(ctx context.Context, sc store.Scope, conv id.ID, branch string, pos int64) (Entry, error) {
	page, err := e.store.Query(ctx, sc, store.Query{List: record.BranchURI(conv, branch), From: pos, Limit: 1})
	if err != nil {
		return Entry{}, err
	}
	if len(page.Items) == 0 || page.Items[0].Pos != pos {
		return Entry{}, fault.New(fault.NotFound, "message_not_found", "there is no longer a message at this position")
	}
	return entry(branch, page.Items[0])
}

// InView returns the number of messages in the preferred branch's view, including
// those that the view still shows although they are obsolete.
func (e *Engine) InView(ctx context.Context, sc store.Scope, conv id.ID) (int, error) {
	_, b, err := e.current(ctx, sc, conv)
	if err != nil {
		return 0, err
	}
	first, spans, _, err := e.reach(ctx, sc, conv, &b)
	n := len(first)
	for _, s := range spans {
		if err == nil {
			var more int
			more, err = e.countSpan(ctx, sc, conv, s)
			n += more
		}
	}
	return n, err
}

// Counts returns the number of messages on each branch, and how many of them
// were written on it. What branches share is counted once.
func (e *Engine) Counts(ctx context.Context, sc store.Scope, conv id.ID, branches []*record.Branch) (all, own []int, err error) {
	ends := map[string][]int64{} // by list: positions up to which messages are counted
	for _, b := range branches {
		for _, s := range b.Spans() {
			ends[s.Branch] = append(ends[s.Branch], s.From-1, last(s))
		}
	}
	upTo := map[string]map[int64]int{} // by list and position
	for list, at := range ends {
		slices.Sort(at)
		upTo[list] = map[int64]int{}
		n, from := 0, int64(0)
		for _, to := range slices.Compact(at) {
			if to >= from {
				more, err := e.countSpan(ctx, sc, conv, record.Span{Branch: list, From: from, To: to})
				if err != nil {
					return nil, nil, err
				}
				n, from = n+more, to+1
			}
			upTo[list][to] = n
		}
	}
	all, own = make([]int, len(branches)), make([]int, len(branches))
	for i, b := range branches {
		for _, s := range b.Spans() {
			n := upTo[s.Branch][last(s)] - upTo[s.Branch][s.From-1]
			if all[i] += n; s.Branch == b.ID {
				own[i] += n
			}
		}
	}
	return all, own, nil
}

// last returns the last position that a span can hold.
func last(s record.Span) int64 {
	if s.To == 0 {
		return math.MaxInt64
	}
	return s.To
}

// countSpan returns the number of messages in a span.
func (e *Engine) countSpan(ctx context.Context, sc store.Scope, conv id.ID, s record.Span) (int, error) {
	page, err := e.store.Query(ctx, sc, store.Query{List: record.BranchURI(conv, s.Branch), Count: &store.Count{From: s.From, To: last(s)}})
	return page.Count, err
}

// Find returns a message of a conversation, with its place, on whichever branch it
// was written. It reads a few dozen records, however long the conversation is. A
// branch's list is in the order in which its messages were written. Find searches
// it by bisection for the time in the message's UUIDv7 and reads on from there,
// since a message that waited for its turn comes later. A derived id contains no
// time: the store finds such a message by a term, and its log position takes the
// place of the time. Error code: message_not_found.
func (e *Engine) Find(ctx context.Context, sc store.Scope, conv, msg id.ID) (Entry, error) {
	place := func(it *store.Item) (order int, known bool) {
		x := record.IDOf(it.URI, record.TypeMessage)
		return timeOf(x).Compare(timeOf(msg)), !x.Derived()
	}
	if msg.Derived() {
		m, err := e.FindMessage(ctx, sc, conv, msg)
		if err != nil {
			return Entry{}, err
		}
		place = func(it *store.Item) (order int, known bool) { return cmp.Compare(it.Seq, m.Seq), true }
	}
	lists := listsOf(e.preferred(ctx, sc, conv))
	m, err := e.scanAll(ctx, sc, conv, lists, msg, place)
	if !fault.Is(err, fault.NotFound) {
		return m, err
	}
	branches, err := e.Branches(ctx, sc, conv)
	if err != nil {
		return Entry{}, err
	}
	all := listsOf(branches...)
	m, err = e.scanAll(ctx, sc, conv, slices.DeleteFunc(slices.Clone(all), func(l string) bool { return slices.Contains(lists, l) }), msg, place)
	if fault.Is(err, fault.NotFound) { // the clock was set back, or another machine made the id
		m, err = e.scanAll(ctx, sc, conv, all, msg, nil)
	}
	return m, err
}

// nearbyMessages is how many messages from another time are examined before the search is
// extended to all messages. Those of the same millisecond do not count: an import
// makes thousands of them.
const nearbyMessages = 1000

// placer compares the time of a message with the time of the one that is searched
// for. known is false if the message's id contains no time.
type placer func(*store.Item) (order int, known bool)

// listsOf returns the branches whose lists the given branches consist of. They may
// include deleted branches.
func listsOf(branches ...record.Branch) []string {
	var out []string
	for _, b := range branches {
		for _, s := range b.Spans() {
			if !slices.Contains(out, s.Branch) {
				out = append(out, s.Branch)
			}
		}
	}
	return out
}

// preferred returns the branch on which a message is searched for first: the
// conversation's preferred branch, or the main branch if the conversation is hidden.
func (e *Engine) preferred(ctx context.Context, sc store.Scope, conv id.ID) record.Branch {
	if _, b, err := e.current(ctx, sc, conv); err == nil {
		return b
	}
	return record.Branch{ID: record.MainBranch}
}

// timeOf returns the time in a UUIDv7: milliseconds in the first 48 bits (RFC 9562,
// 5.7).
func timeOf(x id.ID) time.Time {
	var b [8]byte
	copy(b[2:], x[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:])))
}

// scanAll searches for a message in lists, one after the other.
func (e *Engine) scanAll(ctx context.Context, sc store.Scope, conv id.ID, lists []string, msg id.ID, place placer) (Entry, error) {
	for _, l := range lists {
		m, err := e.scan(ctx, sc, conv, l, msg, place)
		if !fault.Is(err, fault.NotFound) {
			return m, err
		}
	}
	return Entry{}, fault.New(fault.NotFound, "message_not_found", "this conversation has no message %s", msg).
		WithHint("steward messages list shows its messages with their ids")
}

// scan searches for a message near its place in a list, or without a placer in the
// whole list.
func (e *Engine) scan(ctx context.Context, sc store.Scope, conv id.ID, branch string, msg id.ID, place placer) (Entry, error) {
	q := store.Query{List: record.BranchURI(conv, branch), NoBody: true, Limit: nearbyMessages}
	left := math.MaxInt
	if place != nil {
		var err error
		if q.From, err = e.firstPos(ctx, sc, q.List, place); err != nil {
			return Entry{}, err
		}
		q.Limit, left = 50, nearbyMessages
	}
	for it, err := range store.Items(ctx, e.store, sc, q) {
		if err != nil {
			return Entry{}, err
		}
		if record.IDOf(it.URI, record.TypeMessage) == msg {
			return e.at(ctx, sc, conv, branch, it.Pos)
		}
		if place != nil {
			if order, known := place(&it); order == 0 && known {
				continue
			}
		}
		if left--; left == 0 {
			break
		}
	}
	return Entry{}, fault.New(fault.NotFound, "message_not_found", "this branch has no message %s", msg)
}

// firstPos returns the first position in a list that is not known to come before the
// message that is searched for.
func (e *Engine) firstPos(ctx context.Context, sc store.Scope, list resource.URI, place placer) (int64, error) {
	last, err := e.store.Query(ctx, sc, store.Query{List: list, NoBody: true, Reverse: true, Limit: 1})
	if err != nil || len(last.Items) == 0 {
		return 0, err
	}
	lo, hi := int64(0), last.Items[0].Pos+1
	for lo < hi {
		mid := lo + (hi-lo)/2
		page, err := e.store.Query(ctx, sc, store.Query{List: list, NoBody: true, From: mid, Limit: 4})
		if err != nil {
			return 0, err
		}
		below := int64(0) // the last position that is known to come before it
		for i := range page.Items {
			if order, known := place(&page.Items[i]); known {
				if order < 0 {
					below = page.Items[i].Pos
				}
				break
			}
		}
		if below == 0 {
			hi = mid
		} else {
			lo = below + 1
		}
	}
	return lo, nil
}
