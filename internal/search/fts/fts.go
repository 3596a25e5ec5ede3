// Package fts searches text with SQLite's FTS5, in a database file of its own
// beside the store's. The file is a projection of the log: it holds the words
// of the messages and where they stand, not their texts, which stay in the
// store. It may be deleted at any time and is made anew.
package fts

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/fault"
	"steward/internal/search"
	"steward/internal/store"
)

var _ search.Index = (*Index)(nil)

// Options of New. Path and Store are needed.
type Options struct {
	Path  string // of the index's own file; it is made if missing
	Store store.Store
	// Quiet is how long the log must have rested before Follow reads on;
	// zero: five seconds.
	Quiet time.Duration
	// Backlog is how many entries the index may be behind before Follow reads
	// on even though the log does not rest; zero: 50,000.
	Backlog uint64
	Log     *slog.Logger // nil: nothing is logged
}

// Index is a search.Index. Its file is opened with the first use.
type Index struct {
	opt  Options
	log  *slog.Logger
	turn chan struct{} // holds a token while somebody writes

	followed atomic.Bool   // Follow runs
	hurry    chan struct{} // tells it that a search found much to be indexed

	mu     sync.RWMutex // held for reading while db is in use
	db     *database
	idle   *time.Timer // closes db, and with it its caches, when it was not used for a while
	closed bool
}

// idleFor is how long the file stays open without use.
const idleFor = time.Minute

// New returns the index. Close it when it is used no more.
func New(opt Options) *Index {
	if opt.Quiet <= 0 {
		opt.Quiet = 5 * time.Second
	}
	if opt.Backlog == 0 {
		opt.Backlog = 50_000
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Index{opt: opt, log: opt.Log, turn: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
}

// Close closes the file. What comes later is refused with search_closed.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.db == nil {
		return nil
	}
	x.idle.Stop()
	err := x.db.close()
	x.db = nil
	return err
}

// rest closes the file until it is used again. Who uses it now sets the time
// anew when that is done.
func (x *Index) rest() {
	if !x.mu.TryLock() {
		return
	}
	defer x.mu.Unlock()
	if x.closed || x.db == nil {
		return
	}
	if err := x.db.close(); err != nil {
		x.log.Warn("the search index did not close well", "error", err)
	}
	x.db = nil
}

var errClosed = fault.New(fault.Unavailable, "search_closed", "the search is closing")

// with runs do over the open file, opening it first where that is needed. A
// file that is damaged is made anew, and do runs once more.
func (x *Index) with(ctx context.Context, do func(*database) error) error {
	used, err := x.once(ctx, do)
	if damaged(err) {
		if err = x.remake(ctx, used, err); err == nil {
			_, err = x.once(ctx, do)
		}
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return coded(x.opt.Path, err)
}

func (x *Index) once(ctx context.Context, do func(*database) error) (used *database, err error) {
	for {
		if err := x.open(ctx); err != nil {
			return nil, err
		}
		x.mu.RLock()
		if x.db != nil {
			break
		}
		x.mu.RUnlock() // it was closed since: open tells why, or opens it again
	}
	defer x.mu.RUnlock()
	defer x.idle.Reset(idleFor)
	if err := x.db.lost(); err != nil {
		return x.db, err
	}
	return x.db, do(x.db)
}

// open opens the file; one that is of another version, or of another log, is
// damaged.
func (x *Index) open(ctx context.Context) error {
	x.mu.RLock()
	there := x.db != nil
	x.mu.RUnlock()
	if there {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return errClosed
	case x.db != nil:
		return nil
	}
	db, err := openDatabase(ctx, x.opt.Path)
	if err == nil {
		if err = db.belongs(ctx, x.opt.Store); err != nil {
			err = errors.Join(err, db.close())
		}
	}
	if err == nil {
		x.db, x.idle = db, time.AfterFunc(idleFor, x.rest)
	}
	return err
}

// remake removes the file, and begins an empty one; unless that has been done
// since it was found damaged.
func (x *Index) remake(ctx context.Context, found *database, why error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return errClosed
	case x.db != nil && x.db != found:
		return nil
	}
	x.log.Warn("the search index is made anew", "path", x.opt.Path, "reason", why)
	if x.db != nil {
		if err := x.db.close(); err != nil {
			x.log.Warn("the damaged search index did not close well", "error", err)
		}
		x.idle.Stop()
		x.db = nil
	}
	if err := removeDatabase(x.opt.Path); err != nil {
		return err
	}
	db, err := openDatabase(ctx, x.opt.Path)
	if err == nil {
		x.db, x.idle = db, time.AfterFunc(idleFor, x.rest)
	}
	return err
}
