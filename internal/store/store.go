// Package store defines the contract of Steward's storage: one tree of resources
// and one log of their changes. Package test/storetest/contract holds the test suite that every
// implementation passes.
package store

import (
	"context"
	"time"

	"steward/internal/id"
	"steward/internal/resource"
)

// Store keeps the tree and the log. It is safe for concurrent use. Every call
// takes a Scope; to that call, anything outside the scope does not exist.
//
// Error codes: not_found, conflict (kind Conflict; a precondition did not hold;
// Details["uri"]), scope_missing, cursor_invalid, store_closed, disk_full,
// store_read_only, store_broken.
type Store interface {
	// Commit applies all changes of the batch, or none. If it returns no error,
	// the batch is durable: committed and synced. Concurrent batches are
	// committed as a group, but if one is refused, the others are not affected.
	Commit(ctx context.Context, sc Scope, b Batch) (Receipt, error)

	// Get returns the newest version of a resource.
	Get(ctx context.Context, sc Scope, uri resource.URI) (resource.Resource, error)

	// Query returns one page of resources.
	Query(ctx context.Context, sc Scope, q Query) (Page, error)

	// Log returns one page of the log.
	Log(ctx context.Context, sc Scope, q LogQuery) (LogPage, error)

	// Wait returns the log's newest sequence number as soon as it is greater than
	// after. It only signals that there are new entries; read them with Log.
	Wait(ctx context.Context, after uint64) (uint64, error)
}

// Scope says for whom a call is made: which spaces it may read and which one it
// may write. The zero Scope is refused with scope_missing.
type Scope struct {
	Actor string // the user or system on whose behalf the call is made; stamped on log entries
	Read  []resource.Space
	Write resource.Space
	all   bool
}

// ForUser returns the scope of a user's own space.
func ForUser(user string) Scope {
	s := resource.UserSpace(user)
	return Scope{Actor: user, Read: []resource.Space{s}, Write: s}
}

// ForGroup returns the scope of a user who reads and writes the space of one of
// his groups. The caller must have checked that the user is a member.
func ForGroup(user, group string) Scope {
	s := resource.GroupSpace(group)
	return Scope{Actor: user, Read: []resource.Space{s}, Write: s}
}

// ForNode returns the scope of the node's internal work at start and during
// recovery: it reads all spaces and writes the given one. Code that serves a
// user's call must not use it.
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

// Batch is a set of changes that are applied atomically, in order.
type Batch struct {
	Request id.ID // stamped on the entries
	Changes []Change
}

// Change puts, deletes or otherwise modifies one resource, or only checks a
// precondition. A resource stays in the space in which it was created. A resource
// of another space cannot be put, deleted or checked (not_found; if a put would
// create it: conflict).
type Change struct {
	Op    Op
	URI   resource.URI
	If    If
	Body  []byte
	State string // if not empty, Query.State finds the resource by it until a put clears it
	Terms []Term // secondary index terms; a put replaces those of earlier versions
	Place *Place // puts only: also inserts or moves the resource in an ordered list; nil leaves its positions unchanged
}

// Op is what a change does.
type Op uint8

// The operations.
const (
	Put    Op = iota
	Delete    // removes the resource and its positions from the tree; the log keeps its history
	Check     // only checks If; writes nothing
	Unlist    // removes URI from Place.List (Place.Pos is ignored); writes no log entry
	Erase     // like Delete, and also permanently removes the bodies of all versions, including those in older log entries; works on deleted resources too (to If they do not exist)
	Pack      // stores the bodies of all versions compactly from now on; reads are unaffected; writes no log entry
)

// If is a precondition. The zero value requires nothing.
type If struct {
	Absent  bool     // the resource must not exist
	Version uint64   // if not zero, the resource must have exactly this version (a lease's version is its fencing token)
	States  []string // if not empty, the resource must exist in one of these states ("" is the settled one)
}

// Term is a secondary index entry: the resources that carry it are found by name
// and value within their space, ordered by their newest log entry.
type Term struct {
	Name, Value string
}

// Place is a position in an ordered list. The list belongs to a resource: a
// branch has a list of its messages, for example. Two members cannot share a
// position (conflict).
type Place struct {
	List resource.URI
	Pos  int64
}

// Receipt describes a committed batch.
type Receipt struct {
	Seq      uint64    // sequence number of the batch's last entry; its entries are consecutive
	At       time.Time // stamped on its entries
	Versions []uint64  // per change: the new version; 0 for all but Put
}

// Cursor is an opaque position in a result. It stays valid when items are added,
// and never skips an entry that may still commit. The empty cursor is the
// beginning.
type Cursor string

// Query selects resources. At most one of List, Term and State is set; it decides
// the order: by position (List), by newest log entry (Term) or in tree order
// (State). If none is set, the order is tree order too. Under and Type restrict
// every query.
type Query struct {
	Under   resource.URI // at or below this URI; zero: everywhere
	Type    string       // only resources of this type
	List    resource.URI
	Term    Term
	State   string
	From    int64 // List only: positions >= From (Reverse: <= From, when not zero)
	Reverse bool
	After   Cursor
	Limit   int // at most MaxLimit; zero means DefaultLimit
	NoBody  bool
	Count   *Count // List only: the answer has no items, only Page.Count
}

// Count asks for the number of members of a list at positions From to To,
// inclusive.
type Count struct{ From, To int64 }

// Limits of a page.
const (
	DefaultLimit = 100
	MaxLimit     = 10000
)

// Page is an answer to a Query.
type Page struct {
	Items []Item
	Next  Cursor // empty if this is the last page
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
	Under   resource.URI // only changes at or below this URI
	Type    string       // only changes of resources of this type
	Of      resource.URI // if not zero, only the versions of exactly this resource
	Reverse bool
	Limit   int
}

// LogPage is an answer to a LogQuery. If few entries of a long stretch of the log
// match, a page can be short or even empty although More is set.
type LogPage struct {
	Entries []resource.Entry
	Next    Cursor // where to continue; set even if there is nothing more yet
	More    bool   // there may be more entries now
}
