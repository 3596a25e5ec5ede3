// Package postgres keeps the tree and the log in a PostgreSQL database, for one
// Steward or for many that share it. It is the store of package sqlite over
// another engine, with the same contract and the same suite of tests.
//
// # One order
//
// The order of the log is the order of its commits, for every reader on every
// node. A sequence of PostgreSQL cannot give that: it hands out numbers before the
// commit, and commits happen in any order. So a writer first takes the lock of the
// log, and keeps it until it has committed. Its group gets the numbers after the
// newest entry. Whoever sees an entry sees all before it, and
// there are no gaps. Under the lock the writer also reads what the preconditions of
// its batches ask for, so that they hold when it commits: a fencing number that
// another node has outdated is refused here.
//
// The lock lets one group through at a time, over all nodes. That is what the disk
// would do too: a commit is synced before it is acknowledged. So each node commits
// all batches that wait as one group (as in SQLite), in two round trips: lock and
// read; write and commit. docs/decisions/0014-postgres.md has the alternatives and
// what they cost.
//
// # One outcome
//
// If the connection breaks, the writer connects again and repeats the group. A
// group that may have been committed is asked about first: the last entry of a group
// has a mark of its own, written with the group. Under the lock the old transaction
// is over, so that the answer is final.
//
// # One Steward, or a cluster
//
// A Steward without a cluster has the database for itself, as with a file: what it
// keeps in memory (locks of turns, what was spent today) counts only then. The session
// that commits has a lock of the store, which ends with the session. Another Steward
// is refused at its start (store_in_use). One that has lost its session takes the
// lock again before it commits; if another one was quicker, that one wins. The nodes
// of a cluster (Shared) have the lock together, and keep out others.
//
// # One fence
//
// Each transaction says which spaces it reads and writes, and policies on every
// table (row level security) show it nothing else. The queries filter as well; a
// filter that somebody forgets returns nothing instead of everything. The role of
// the node owns no table and cannot change the log, except to empty a body. Prepare
// makes the tables, as their owner.
//
// The log is sealed afterwards, by one node at a time, from what is committed.
// An erasure empties bodies at once; PostgreSQL overwrites the old rows when it
// vacuums, and keeps them in its write-ahead log and its backups for as long as
// these are kept.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"steward/internal/fault"
	"steward/internal/lifetime/telemetry"
	"steward/internal/store"
)

var (
	_ store.Store  = (*Store)(nil)
	_ store.Sealer = (*Store)(nil)
)

// Options configure Open. Only URL is required.
type Options struct {
	URL   string       // the address of the database, for a role that owns nothing; see pgx for its form
	Owner string       // the address for the owner: the tables are made or brought up to date first; empty: they are only checked
	Log   *slog.Logger // nil: nothing is logged

	ReadOnly bool // refuses to write
	Shared   bool // others that are Shared write too; otherwise this store is the only one that writes

	Connections int           // at most so many connections read at a time; zero: 8. One more writes
	Patience    time.Duration // how long a call waits for a server that is away; zero: 15 s

	// Mask removes secrets from a body before it is written, as in package sqlite.
	Mask func([]byte) []byte

	// Wrote is called with every batch that was committed, with the bytes of its
	// bodies. It must not block. nil: it is not called.
	Wrote func(sc store.Scope, changes int, bytes int64)

	Telemetry *telemetry.Telemetry // counts commits; may be nil

	sealEvery  time.Duration // zero: see the constants; tests set both
	claimCheck time.Duration
}

// Limits of a connection, in milliseconds where PostgreSQL counts them. A session
// that holds the lock of the log and does nothing is ended, so that a node that
// hangs stops the others for no longer than that.
const (
	maxBody         = 256 << 20 // bytes of one body
	statementLimit  = "60000"
	lockLimit       = "10000"
	idleInTxLimit   = "5000"
	defaultReaders  = 8
	defaultPatience = 15 * time.Second
	connectLimit    = 5 * time.Second
)

// session is what every connection sets. Every query of the store is a walk along
// an index, so the planner is kept from anything else, whatever it knows or
// guesses of the data.
var session = map[string]string{
	"search_path":                         schemaName,
	"synchronous_commit":                  "on",
	"statement_timeout":                   statementLimit,
	"lock_timeout":                        lockLimit,
	"idle_in_transaction_session_timeout": idleInTxLimit,
	"jit":                                 "off",
	"plan_cache_mode":                     "force_generic_plan",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"enable_seqscan":                      "off",
	"enable_bitmapscan":                   "off",
	"standard_conforming_strings":         "on",
	"client_min_messages":                 "error",
	"tcp_keepalives_idle":                 "10", // a machine that is gone loses its sessions after 25 s
	"tcp_keepalives_interval":             "5",
	"tcp_keepalives_count":                "3",
}

// Store is a store.Store over one database. Safe for concurrent use.
type Store struct {
	log      *slog.Logger
	mask     func([]byte) []byte
	wrote    func(sc store.Scope, changes int, bytes int64)
	counts   *telemetry.Telemetry
	config   *pgxpool.Config
	name     string    // of its sessions
	shared   bool      // others write too
	claimed  *pgx.Conn // keeps others from writing; nil: the writer does that, or nobody
	pool     *pgxpool.Pool
	patience time.Duration
	window   uint64
	writer   *writer // nil: only reads
	news     news

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup
	closing sync.Once

	hold func() // for tests: called between the last write and the commit
}

// parse reads an address. The error names nothing of a password.
func parse(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fault.New(fault.Invalid, "store_invalid", "the address of the store cannot be read: %w", err).
			WithHint("write postgres://ROLE:PASSWORD@HOST/DATABASE")
	}
	for k, v := range session {
		config.ConnConfig.RuntimeParams[k] = v
	}
	config.ConnConfig.ConnectTimeout = connectLimit
	config.ConnConfig.DialFunc = dialer().DialContext
	config.ConnConfig.StatementCacheCapacity = 256
	return config, nil
}

// Open connects to the database. Errors: store_invalid, store_unreachable,
// store_refused, store_in_use, store_not_prepared, store_role_too_strong,
// database_too_new, store_broken.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all, err := steps()
	if err != nil {
		return nil, err
	}
	s, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	w := newWriter(s)
	if !o.ReadOnly {
		err = w.begin(ctx)
	}
	// Only who may write changes the tables.
	if err == nil && o.Owner != "" {
		err = Prepare(ctx, o.Owner, s.config.ConnConfig.User)
	}
	var head uint64
	if err == nil {
		head, err = s.start(ctx, len(all))
	}
	if err != nil {
		w.disconnect()
		s.cancel()
		s.pool.Close()
		return nil, coded(err)
	}
	s.news.publish(head)
	s.running.Go(s.watch)
	if o.ReadOnly {
		return s, nil
	}
	s.writer = w
	s.running.Go(func() { w.loop(cmp.Or(o.claimCheck, claimCheck)) })
	s.running.Go(func() { s.keepSealed(cmp.Or(o.sealEvery, sealEvery)) })
	return s, nil
}

// connect makes a store and opens its pool.
func connect(ctx context.Context, o Options) (s *Store, err error) {
	s = &Store{name: sessionName(), shared: o.Shared, log: o.Log, mask: o.Mask, wrote: o.Wrote, counts: o.Telemetry, patience: o.Patience, window: scanWindow}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.news.init()
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.patience == 0 {
		s.patience = defaultPatience
	}
	if s.config, err = parse(o.URL); err != nil {
		return nil, err
	}
	s.config.ConnConfig.RuntimeParams["application_name"] = s.name
	s.config.MaxConns = defaultReaders
	if o.Connections > 0 {
		s.config.MaxConns = int32(o.Connections)
	}
	s.config.MaxConnIdleTime = 5 * time.Minute
	if s.pool, err = pgxpool.NewWithConfig(ctx, s.config); err != nil {
		return nil, coded(err)
	}
	return s, nil
}

// start checks the database and returns the end of the log.
func (s *Store) start(ctx context.Context, newest int) (head uint64, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	err = checkRole(ctx, conn, newest)
	conn.Release() // there may be no other
	if err != nil {
		return 0, err
	}
	err = s.read(ctx, everything, func(q *request) (err error) {
		var partly bool
		if head, _, err = readEnd(q.row(endOfLog)); err == nil {
			err = q.row("SELECT EXISTS (SELECT FROM transfer)").Scan(&partly)
		}
		if err == nil && partly {
			return fault.New(fault.Conflict, "store_incomplete", "the database is a copy that is not complete").
				WithHint("run steward migrate again, which continues it")
		}
		return err
	})
	return head, err
}

// Ready reports whether the database can be read, and whether this store may still
// write to it (store_in_use).
func (s *Store) Ready(ctx context.Context) error {
	if err := s.mayWrite(); err != nil {
		return err
	}
	asked, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	var standby bool
	var newest *int64
	err := s.readOnce(asked, everything, func(q *request) error {
		return q.row("SELECT pg_is_in_recovery(), (SELECT seq FROM log ORDER BY seq DESC LIMIT 1)").Scan(&standby, &newest)
	})
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return unreachable(err)
	case err != nil:
		return coded(err)
	case standby:
		return onlyReads(errors.New("it is a standby"))
	}
	return nil
}

// mayWrite returns store_in_use if another Steward has the database.
func (s *Store) mayWrite() error {
	if s.writer == nil {
		return nil
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return s.writer.refused
}

// Head returns the sequence number of the newest entry of the log that this process knows.
func (s *Store) Head() uint64 { return s.news.current() }

// Size returns how many bytes the database has.
func (s *Store) Size(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&n)
	return n, coded(err)
}

// Queued returns how many batches wait to be committed.
func (s *Store) Queued() int {
	if s.writer == nil {
		return 0
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return len(s.writer.queue)
}

// Close commits waiting batches, refuses later ones (store_closed), and closes
// the connections. Further calls do nothing.
func (s *Store) Close() error {
	s.closing.Do(func() {
		if s.writer != nil {
			s.writer.stop()
			s.sealRest()
		}
		s.news.close()
		s.cancel()
		s.running.Wait()
		s.pool.Close()
		if s.claimed != nil {
			disconnect(s.claimed)
		}
	})
	return nil
}
