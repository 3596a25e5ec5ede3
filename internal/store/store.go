// Package store is the contract of Steward's memory: one tree of resources
// and one log of their changes. Package storetest holds the suite that every
// implementation passes.
package store

import (
	"context"
	"time"

	"steward/internal/id"
	"steward/internal/resource"
)

// Store keeps the tree and the log. Safe for concurrent use. Every call takes
// a Scope; what lies outside of it is, for that call, not there.
//
// Error codes: not_found, conflict (kind Conflict; a precondition did not
// hold; Details["uri"]), scope_missing, cursor_invalid, store_closed,
// disk_full, store_read_only, store_broken.
type Store interface {
	// Commit applies all changes of the batch, or none. When it returns
	// without an error the batch is durable: committed and synced. Concurrent
	// batches are committed as a group; a refused one fails alone.
	Commit(ctx context.Context, sc Scope, b Batch) (Receipt, error)

	// Get returns the newest version of a resource.
	Get(ctx context.Context, sc Scope, uri resource.URI) (resource.Resource, error)

	// Query returns one page of resources.
	Query(ctx context.Context, sc Scope, q Query) (Page, error)

	// Log returns one page of the log.
	Log(ctx context.Context, sc Scope, q LogQuery) (LogPage, error)

	// Wait returns the log's newest sequence number as soon as it is above
	// after. It only says that there is more; the truth is in Log.
	Wait(ctx context.Context, after uint64) (uint64, error)
}

// Scope says for whom a call is made: which spaces it sees and which it
// writes. The zero Scope is refused with scope_missing.
type Scope struct {
	Actor string // who; stamped on log entries
	Read  []resource.Space
	Write resource.Space
	all   bool
}

// ForUser is the scope of a user's own space.
func ForUser(user string) Scope {
	s := resource.UserSpace(user)
	return Scope{Actor: user, Read: []resource.Space{s}, Write: s}
}

// ForGroup is the scope of a user who writes the space of a group that he is
// in. That he is, the caller has made sure of.
func ForGroup(user, group string) Scope {
	s := resource.GroupSpace(group)
	return Scope{Actor: user, Read: []resource.Space{s}, Write: s}
}

// ForNode is the scope of the node's own business at start and in recovery:
// it reads all spaces and writes the one given. Nothing that serves a user's
// call may use it.
func ForNode(write resource.Space) Scope {
	return Scope{Actor: "system", Write: write, all: true}
}

// All reports whether the scope reads every space.
func (s Scope) All() bool { return s.all }

// Sees reports whether the scope reads the space.
func (s Scope) Sees(sp resource.Space) bool {
	if s.all {
		return true
	}
	for _, r := range s.Read {
		if r == sp {
			return true
		}
	}
	return false
}

// Batch is a set of changes that happen together, in order.
type Batch struct {
	Request id.ID // stamped on the entries
	Changes []Change
}

// Change puts or deletes one resource, or only checks one. A resource stays
// in the space in which it was made; one of another space can be neither put
// nor deleted nor checked (not_found; a put that would create it: conflict).
type Change struct {
	Op    Op
	URI   resource.URI
	If    If
	Body  []byte
	State string // non-empty: found by Query.State, until a put clears it
	Terms []Term // secondary look-ups; a put replaces those of earlier versions
	Place *Place // puts only: also (re)place it in an ordered list; nil leaves its places alone
}

// Op is what a change does.
type Op uint8

// The operations.
const (
	Put    Op = iota
	Delete    // the tree forgets it and its places; the log remembers
	Check     // only If is looked at; nothing is written
	Unlist    // takes URI out of Place.List (Place.Pos is ignored); writes no log entry
	Erase     // Delete, and the bodies of all versions are gone for good, from the log's older entries too; also of what is deleted already (If sees that as not there)
	Pack      // keeps the bodies of all versions in a compact form from now on; reading is as before; writes no log entry
)

// If is a precondition. The zero value asks for nothing.
type If struct {
	Absent  bool     // it must not exist
	Version uint64   // non-zero: exactly this version (a lease's version is its fencing number)
	States  []string // non-empty: exists and is in one of these states ("" is the settled one)
}

// Term is a secondary look-up: resources carrying it are found by name and
// value within their space, in the order of their newest log entry.
type Term struct {
	Name, Value string
}

// Place is a position in an ordered list, which belongs to a resource (a
// branch and its messages). Two members cannot share a position (conflict).
type Place struct {
	List resource.URI
	Pos  int64
}

// Receipt tells what a committed batch became.
type Receipt struct {
	Seq      uint64    // of its last entry; its entries are consecutive
	At       time.Time // stamped on its entries
	Versions []uint64  // per change: the new version; 0 for all but Put
}

// Cursor is a place in a result, opaque to callers. It stays good when things
// are added, and never passes an entry that may still commit. Empty: the beginning.
type Cursor string

// Query selects resources. Exactly one of List, Term, State and (when none of
// them is set) Under decides the order: position in the list; newest log entry
// (Term); tree order (State, Under). Under and Type restrict all of them.
type Query struct {
	Under   resource.URI // at or below this place; zero: everywhere
	Type    string       // only resources of this type
	List    resource.URI
	Term    Term
	State   string
	From    int64 // List only: positions >= From (Reverse: <= From, when not zero)
	Reverse bool
	After   Cursor
	Limit   int // at most MaxLimit; zero means DefaultLimit
	NoBody  bool
	Count   *Count // List only: the answer has no items, but Page.Count
}

// Count asks how many members of a list stand at positions From to To.
type Count struct{ From, To int64 }

// Limits of a page.
const (
	DefaultLimit = 100
	MaxLimit     = 10000
)

// Page is an answer to a Query.
type Page struct {
	Items []Item
	Next  Cursor // empty when there is no more
	Count int    // the answer to Query.Count
}

// Item is a resource in a page.
type Item struct {
	resource.Resource
	Pos int64 // its position, in answers to Query.List
}

// LogQuery selects log entries, oldest first unless Reverse.
type LogQuery struct {
	After   Cursor
	Since   uint64       // only entries with a greater sequence number
	Under   resource.URI // only changes at or below this place
	Type    string       // only changes of resources of this type
	Of      resource.URI // non-zero: the versions of exactly this resource
	Reverse bool
	Limit   int
}

// LogPage is an answer to a LogQuery. When little is found in a long stretch
// of the log, a page ends before it is full, even empty, and there is More.
type LogPage struct {
	Entries []resource.Entry
	Next    Cursor // where to go on, also when nothing more is there now
	More    bool   // there may be more
}
