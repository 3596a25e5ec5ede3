// Package vector finds messages by the vectors of their texts, and by texts and vectors
// together. It is a projection of the log, in a database file of its own beside the
// store's. The file holds no text: it may be deleted at any time, and its vectors are then
// computed again.
//
// A message's text (search.Read, which leaves out what is secret) is cut into pieces. An
// embedder turns each piece into a vector. The vector is turned and rounded: to one bit for
// each dimension (the code), and to eight bits. A search compares the codes of all pieces,
// takes the 400 nearest ones, and compares those exactly by their eight bits. Among few
// pieces it compares all of them exactly.
//
// # Partitions
//
// The vectors of one owner and one model are a part, with tables of its own; so are an
// owner's messages. A search opens the tables of its own spaces and no others, so the bytes
// of other owners are not read at all. Vectors of different models never meet. Equal pieces
// of one owner are embedded once (by the hash of their text); nothing is shared between
// owners.
//
// # Life
//
// Follow runs two loops. The first reads the log in batches: it notes new messages, hides
// deleted ones and removes erased ones with their vectors, all in one transaction with the
// position in the log. The second embeds what is noted, oldest first, and commits each
// batch of vectors together with the number of the last message that it covers. A crash
// therefore neither repeats nor skips anything, except that the last batch may be embedded
// twice. Verify compares the index with the store, and Census with another index of the same
// log.
//
// Follow embeds no faster than Options.PerMinute, and stops for the day when it has spent
// Options.DayCost. Options.Allow decides for each message whether its labels may go to the
// model; what may not is held back, and tried again at the next start.
//
// When the model changes, a second part is filled while searches use the first one, which
// goes on to receive new messages if its model can still be asked. The new part takes its
// place, and the old one is erased, once the new one is complete.
//
// An owner's vectors of a model stay when the model cannot be found any more, since they
// were paid for: Lexical takes its place only where it is configured.
//
// Without a model, a message's vector is made of its stems and of the built-in word vectors
// (Lexical). Answers say so: Answer.Semantic is false.
package vector

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/fault"
	"steward/internal/lifetime/telemetry"
	"steward/internal/llm"
	"steward/internal/resource"
	"steward/internal/store"
)

// Model is an embedding model.
type Model struct {
	Name     string // "provider/model"
	Embedder llm.Embedder
	Price    float64 // US dollars per million tokens
	Lexical  bool    // it knows words only
}

// Options of New. Path and Store are required.
type Options struct {
	Path  string // of the index's own file, which is created if missing
	Store store.Store

	// Model returns a model by its "provider/model", or the configured one for the empty
	// name. nil: Lexical. After an error for the empty name, owners whose messages have
	// vectors of a model keep them, and those of others are made by Lexical.
	Model func(name string) (Model, error)

	// Allow returns an error if content with the request's labels may not go to a model. nil:
	// everything may.
	Allow func(ctx context.Context, model string, r *llm.Request) error

	// Holds reports whether this process embeds what is said in a space. Others share the store, and embed what they
	// hold; so each vector is computed once. It may begin to hold a space at any time, and then calls Wake. nil: it
	// holds all.
	Holds func(resource.Space) bool

	PerMinute int     // pieces that Follow embeds in a minute at most; zero: no limit
	DayCost   float64 // US dollars that Follow spends in a day at most; zero: no limit
	Memory    int     // bytes of codes to keep in memory; zero: 256 MB

	// Quiet and Backlog are those of follow.Projection; zero: five seconds and 50,000.
	Quiet   time.Duration
	Backlog uint64
	Lag     *telemetry.Follower // is told how far the index has come; may be nil
	Log     *slog.Logger        // nil: nothing is logged

	// Watch is called with each new connection to the file. Tests see with it what is read.
	Watch func(*sqlite.Conn) error
}

// Index finds messages by their vectors. Its file is opened on first use. It is safe for
// concurrent use.
type Index struct {
	opt Options
	log *slog.Logger

	reading   chan struct{} // holds a token while the log is being read
	embedding chan struct{} // holds a token while vectors are being added
	woken     chan struct{} // wakes the embedding loop
	due       due
	followed  atomic.Bool

	mu     sync.RWMutex // held for reading while db is in use
	db     *database
	closed bool

	cache cache
}

const (
	defaultQuiet   = 5 * time.Second
	defaultBacklog = 50_000
	defaultMemory  = 256 << 20
)

// New returns the index. Close must be called after the last use.
func New(opt Options) *Index {
	opt.Quiet = max(cmp.Or(opt.Quiet, defaultQuiet), 0)
	opt.Backlog = cmp.Or(opt.Backlog, defaultBacklog)
	opt.Memory = cmp.Or(opt.Memory, defaultMemory)
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Index{opt: opt, log: opt.Log, reading: make(chan struct{}, 1), embedding: make(chan struct{}, 1), woken: make(chan struct{}, 1),
		cache: cache{limit: opt.Memory, parts: map[int64]*kept{}}}
}

// Close closes the file. Later calls return search_closed.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.db == nil {
		return nil
	}
	err := x.db.conns.Close()
	x.db = nil
	return err
}

var errClosed = fault.New(fault.Unavailable, "search_closed", "the search is closing")

// nodeScope reads the whole log. Each search checks access.
func nodeScope() store.Scope { return store.ForNode(resource.System) }

// with opens the file if necessary and runs do. If the file is damaged, with replaces it by
// an empty one and runs do once more.
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

func (x *Index) withDatabase(ctx context.Context, do func(*database) error) (*database, error) {
	x.mu.RLock()
	if x.db == nil {
		x.mu.RUnlock()
		if err := x.open(ctx); err != nil {
			return nil, err
		}
		x.mu.RLock()
	}
	defer x.mu.RUnlock()
	if x.db == nil {
		return nil, errClosed
	}
	return x.db, do(x.db)
}

func (x *Index) open(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return errClosed
	case x.db != nil:
		return nil
	}
	db, err := openDatabase(ctx, x.opt.Path, x.opt.Watch)
	if err != nil {
		return err
	}
	if err := db.checkOrigin(ctx, x.opt.Store); err != nil {
		return errors.Join(err, db.conns.Close())
	}
	x.db = db
	x.due.everything()
	return nil
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
	x.log.Warn("the vector index is rebuilt", "path", x.opt.Path, "reason", why)
	if x.db != nil {
		if err := x.db.conns.Close(); err != nil {
			x.log.Warn("closing the damaged vector index failed", "error", err)
		}
		x.db = nil
	}
	x.cache.clear()
	if err := removeAll(x.opt.Path, x.opt.Path+"-wal", x.opt.Path+"-shm"); err != nil {
		return err
	}
	db, err := openDatabase(ctx, x.opt.Path, x.opt.Watch)
	if err == nil {
		x.db = db
		x.due.everything()
	}
	return err
}
