package conversation

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

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

// near is how many messages from another time are examined before the search is
// extended to all messages. Those of the same millisecond do not count: an import
// makes thousands of them.
const near = 1000

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
	q := store.Query{List: record.BranchURI(conv, branch), NoBody: true, Limit: near}
	left := math.MaxInt
	if place != nil {
		var err error
		if q.From, err = e.firstPos(ctx, sc, q.List, place); err != nil {
			return Entry{}, err
		}
		q.Limit, left = 50, near
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
