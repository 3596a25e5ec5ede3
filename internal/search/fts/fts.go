// Package fts implements search.Index with SQLite's FTS5, in a database file of its own
// beside the store's. The file is a projection of the log. It holds the words of the
// messages and their positions, but not the texts, which stay in the store. It may be
// deleted at any time and is then rebuilt.
//
// The log is read in batches. Each batch is written in one transaction together with the
// position in the log, so a crash repeats or skips nothing. A search first reads what
// the log has beyond that position, then finds the documents, and finally reads their
// texts from the store in the scope of the caller, which checks access again.
package fts

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/fault"
	"steward/internal/lifetime/telemetry"
	"steward/internal/search"
	"steward/internal/store"
)

var _ search.Words = (*Index)(nil)

// Options of New. Path and Store are required.
type Options struct {
	Path  string // of the index's own file, which is created if missing
	Store store.Store
	// Quiet is how long the log must have been quiet before Follow reads it; zero: five
	// seconds.
	Quiet time.Duration
	// Backlog is how many entries the index may be behind before Follow reads the log
	// even though it is not quiet; zero: 50,000.
	Backlog uint64
	Log     *slog.Logger        // nil: nothing is logged
	Lag     *telemetry.Follower // is told how far the index has come; may be nil
	Ranking *Ranking            // of the order search.Best; nil: DefaultRanking
	// Watch is called with each new connection to the file. Tests see with it what is read.
	Watch func(*sqlite.Conn) error
}

// Index is a search.Index. Its file is opened on first use.
type Index struct {
	opt     Options
	log     *slog.Logger
	ranking Ranking
	old     atomic.Bool   // the file of the version before this one is still needed
	turn    chan struct{} // holds a token while the file is being written

	followed atomic.Bool   // Follow runs
	hurry    chan struct{} // wakes Follow when a search finds a backlog

	mu     sync.RWMutex // held for reading while db is in use
	db     *database
	idle   *time.Timer // closes db, which frees its caches, after idleFor without use
	closed bool
}

// idleFor is how long the file stays open without use.
const idleFor = time.Minute

// New returns the index. Close must be called after the last use.
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
	ranking := DefaultRanking
	if opt.Ranking != nil {
		ranking = *opt.Ranking
	}
	return &Index{opt: opt, ranking: ranking, log: opt.Log, turn: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
}

// Close closes the file. Later calls return search_closed.
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

// rest closes the file until it is used again. If it is in use now, the timer is reset
// afterwards.
func (x *Index) rest() {
	if !x.mu.TryLock() {
		return
	}
	defer x.mu.Unlock()
	if x.closed || x.db == nil {
		return
	}
	if err := x.db.close(); err != nil {
		x.log.Warn("closing the search index failed", "error", err)
	}
	x.db = nil
}

var errClosed = fault.New(fault.Unavailable, "search_closed", "the search is closing")

// with opens the file if necessary and runs do. If the file is damaged, with rebuilds it
// and runs do once more.
func (x *Index) with(ctx context.Context, do func(*database) error) error {
	used, err := x.withDatabase(ctx, do)
	if damaged(err) {
		if err = x.recreate(ctx, used, err); err == nil {
			_, err = x.withDatabase(ctx, do)
		}
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return coded(x.opt.Path, err)
}

func (x *Index) withDatabase(ctx context.Context, do func(*database) error) (used *database, err error) {
	for {
		if err := x.open(ctx); err != nil {
			return nil, err
		}
		x.mu.RLock()
		if x.db != nil {
			break
		}
		x.mu.RUnlock() // it was closed meanwhile: open returns the reason, or opens it again
	}
	defer x.mu.RUnlock()
	defer x.idle.Reset(idleFor)
	if err := x.db.checkReplaced(); err != nil {
		return x.db, err
	}
	return x.db, do(x.db)
}

// open opens the file. A file of another version or another log counts as damaged.
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
	db, err := openDatabase(ctx, x.opt.Path, x.opt.Watch)
	if errors.Is(err, errOld) {
		if err = x.setAside(); err == nil {
			db, err = openDatabase(ctx, x.opt.Path, x.opt.Watch)
		}
	}
	if err == nil {
		x.old.Store(exists(x.oldPath()))
		if err = db.checkOrigin(ctx, x.opt.Store); err != nil {
			err = errors.Join(err, db.close())
		}
	}
	if err == nil {
		x.db, x.idle = db, time.AfterFunc(idleFor, x.rest)
	}
	return err
}

// recreate replaces the file by an empty one, unless that has been done since the damage
// was found.
func (x *Index) recreate(ctx context.Context, found *database, why error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return errClosed
	case x.db != nil && x.db != found:
		return nil
	}
	x.log.Warn("the search index is rebuilt", "path", x.opt.Path, "reason", why)
	if x.db != nil {
		if err := x.db.close(); err != nil {
			x.log.Warn("closing the damaged search index failed", "error", err)
		}
		x.idle.Stop()
		x.db = nil
	}
	if err := removeDatabase(x.opt.Path); err != nil {
		return err
	}
	db, err := openDatabase(ctx, x.opt.Path, x.opt.Watch)
	if err == nil {
		x.db, x.idle = db, time.AfterFunc(idleFor, x.rest)
	}
	return err
}
