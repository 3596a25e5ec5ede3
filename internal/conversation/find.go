package conversation

import (
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

// Find returns a message of a conversation, with its place, on whichever
// branch it was written. Lists are in the order of time, and a UUIDv7 tells
// when it was made: so a list is searched by halves for that time, and read
// from there on (a message that had to wait for its turn stands later).
// Error code: message_not_found.
func (e *Engine) Find(ctx context.Context, sc store.Scope, conv, msg id.ID) (Entry, error) {
	made := timeOf(msg)
	if msg.Derived() {
		m, err := e.FindMessage(ctx, sc, conv, msg)
		if err != nil {
			return Entry{}, err
		}
		made = m.At
	}
	lists := listsOf(e.preferred(ctx, sc, conv))
	m, err := e.scanAll(ctx, sc, conv, lists, msg, made, near)
	if !fault.Is(err, fault.NotFound) {
		return m, err
	}
	branches, err := e.Branches(ctx, sc, conv)
	if err != nil {
		return Entry{}, err
	}
	all := listsOf(branches...)
	m, err = e.scanAll(ctx, sc, conv, slices.DeleteFunc(slices.Clone(all), func(l string) bool { return slices.Contains(lists, l) }), msg, made, near)
	if fault.Is(err, fault.NotFound) { // the clock went back, or another machine made the id
		m, err = e.scanAll(ctx, sc, conv, all, msg, time.Time{}, math.MaxInt)
	}
	return m, err
}

// near is how many messages are looked at before all are.
const near = 1000

// listsOf returns the lists that branches are made of, of deleted branches too.
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

// preferred returns the branch on which a message is looked for first; of a
// conversation that is hidden, the one that it began with.
func (e *Engine) preferred(ctx context.Context, sc store.Scope, conv id.ID) record.Branch {
	if _, b, err := e.current(ctx, sc, conv); err == nil {
		return b
	}
	return record.Branch{ID: record.MainBranch}
}

// timeOf returns when a UUIDv7 was made (RFC 9562, 5.7: milliseconds in the
// first 48 bits).
func timeOf(x id.ID) time.Time {
	var b [8]byte
	copy(b[2:], x[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:])))
}

// scanAll looks for a message in lists, one after the other.
func (e *Engine) scanAll(ctx context.Context, sc store.Scope, conv id.ID, lists []string, msg id.ID, made time.Time, most int) (Entry, error) {
	for _, l := range lists {
		m, err := e.scan(ctx, sc, conv, l, msg, made, most)
		if !fault.Is(err, fault.NotFound) {
			return m, err
		}
	}
	return Entry{}, fault.New(fault.NotFound, "message_not_found", "this conversation has no message %s", msg).
		With("steward messages list shows those that it has, with their ids")
}

// scan looks for a message among so many that were stored at a time or later.
func (e *Engine) scan(ctx context.Context, sc store.Scope, conv id.ID, branch string, msg id.ID, made time.Time, most int) (Entry, error) {
	list := record.BranchURI(conv, branch)
	from, err := e.firstSince(ctx, sc, list, made)
	if err != nil {
		return Entry{}, err
	}
	for it, err := range store.Items(ctx, e.store, sc, store.Query{List: list, From: from, NoBody: true, Limit: 50}) {
		if err != nil {
			return Entry{}, err
		}
		if record.IDOf(it.URI, record.TypeMessage) == msg {
			return e.at(ctx, sc, conv, branch, it.Pos)
		}
		if most--; most == 0 {
			break
		}
	}
	return Entry{}, fault.New(fault.NotFound, "message_not_found", "this branch has no message %s", msg)
}

// firstSince returns the position in a list from which on its members were
// stored at a time or later.
func (e *Engine) firstSince(ctx context.Context, sc store.Scope, list resource.URI, t time.Time) (int64, error) {
	last, err := e.store.Query(ctx, sc, store.Query{List: list, NoBody: true, Reverse: true, Limit: 1})
	if err != nil || len(last.Items) == 0 {
		return 0, err
	}
	lo, hi := int64(0), last.Items[0].Pos
	for lo < hi {
		mid := lo + (hi-lo)/2
		page, err := e.store.Query(ctx, sc, store.Query{List: list, NoBody: true, From: mid, Limit: 1})
		if err != nil {
			return 0, err
		}
		if len(page.Items) == 0 || !page.Items[0].At.Before(t) {
			hi = mid
		} else {
			lo = page.Items[0].Pos + 1
		}
	}
	return lo, nil
}
