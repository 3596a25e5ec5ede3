package postgres

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/chain"
)

// How often a node seals what was committed since, and how many entries in one
// transaction.
const (
	sealEvery = 5 * time.Second
	sealSlice = 8 * store.SealSize
)

// keepSealed seals the log now and then. With several nodes, the others find
// nothing left, or the lock taken.
func (s *Store) keepSealed(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for sealed := uint64(0); ; {
		if s.news.current() > sealed {
			head, err := s.sealTo(s.ctx, s.news.current(), "SKIP LOCKED")
			if err != nil && s.ctx.Err() == nil && !s.isClosed() {
				s.log.Warn("cannot seal the log; trying again", "error", err)
			}
			sealed = head.Seq
		}
		select {
		case <-tick.C:
		case <-s.news.done:
			return
		}
	}
}

// sealRest seals what the last commits of this node have left.
func (s *Store) sealRest() {
	ctx, cancel := context.WithTimeout(s.ctx, closingPatience)
	defer cancel()
	if _, err := s.sealTo(ctx, s.news.current(), "SKIP LOCKED"); err != nil {
		s.log.Debug("the end of the log is not sealed yet", "error", err)
	}
}

// Seal implements store.Sealer.
func (s *Store) Seal(ctx context.Context) (store.Head, error) {
	if s.writer == nil {
		return s.sealHead(ctx)
	}
	target, err := s.head(ctx)
	if err != nil {
		return store.Head{}, err
	}
	head, err := s.sealTo(ctx, target, "")
	if err != nil && ctx.Err() != nil {
		return head, ctx.Err()
	}
	return head, coded(err)
}

// sealHead returns the head of the newest seal.
func (s *Store) sealHead(ctx context.Context) (h store.Head, err error) {
	err = s.read(ctx, everything, func(q *request) error {
		_, err := q.first(lastSeal, nil, func(r pgx.Rows) error {
			var first uint64
			var hash, salts, tags []byte
			err := r.Scan(&first, &hash, &salts, &tags)
			h.Seq = first + uint64(len(tags)/chain.TagSize) - 1
			copy(h.Hash[:], hash)
			return err
		})
		return err
	})
	return h, err
}

// sealTo seals the log at least up to an entry and returns its head. With SKIP
// LOCKED as its lock, it does nothing while somebody else seals.
func (s *Store) sealTo(ctx context.Context, target uint64, lock string) (store.Head, error) {
	for {
		var l sealer
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return l.extend(ctx, tx, lock) })
		if err != nil || l.locked || l.head.Seq >= target || l.added == 0 {
			return l.head, err
		}
	}
}

// sealer extends the chain in one transaction: the last seal, if it is not full,
// and new ones.
type sealer struct {
	head   store.Head // the newest seal's
	first  uint64     // of the open seal
	next   uint64     // the entry to add
	tags   []byte
	salts  chain.Salts
	leaves *[store.SealSize]*store.Salt
	added  int
	locked bool // somebody else seals
}

const (
	lastSeal = "SELECT first, hash, salts, tags FROM seal ORDER BY first DESC LIMIT 1"
	toSeal   = `SELECT l.seq, l.at, l.space, l.version, l.state, l.op, l.key, NULL::bytea, l.actor, l.request, l.prev,
		CASE WHEN l.op = 1 AND l.body IS NULL THEN NULL ELSE sha256(COALESCE(l.body, '')) END
		FROM log l WHERE l.seq > $1 ORDER BY l.seq LIMIT $2`
	writeSeal = `INSERT INTO seal (first, hash, salts, tags) VALUES ($1, $2, $3, $4)
		ON CONFLICT (first) DO UPDATE SET hash = excluded.hash, tags = excluded.tags`
)

// lockSeals locks the seals against other sealers and erasures, and returns the
// newest sealed entry.
func lockSeals(ctx context.Context, q querier, lock string) (sealed uint64, err error) {
	err = q.QueryRow(ctx, "SELECT seq FROM sealed FOR UPDATE "+lock).Scan(&sealed)
	return sealed, err
}

func (l *sealer) extend(ctx context.Context, tx pgx.Tx, lock string) error {
	if _, err := tx.Exec(ctx, setScope, scopeArgs(everything)...); err != nil {
		return err
	}
	_, err := lockSeals(ctx, tx, lock)
	if l.locked = errors.Is(err, pgx.ErrNoRows); l.locked {
		return nil
	}
	if err == nil {
		err = l.load(ctx, tx)
	}
	if err != nil {
		return err
	}
	var b pgx.Batch
	rows, err := tx.Query(ctx, toSeal, int64(l.next-1), sealSlice)
	if err == nil {
		err = eachRow(rows, func(r pgx.Rows) error { return l.add(r, &b) })
	}
	if err != nil || l.added == 0 {
		return err
	}
	if len(l.tags) > 0 {
		l.write(&b)
	}
	b.Queue("UPDATE sealed SET seq = $1", int64(l.head.Seq))
	return tx.SendBatch(ctx, &b).Close()
}

// load continues after the last seal. If its salts are damaged, it begins a new
// one; Verify reports the damage.
func (l *sealer) load(ctx context.Context, tx pgx.Tx) error {
	var hash, salts []byte
	err := tx.QueryRow(ctx, lastSeal).Scan(&l.first, &hash, &salts, &l.tags)
	if errors.Is(err, pgx.ErrNoRows) {
		l.open(1)
		return nil
	}
	if err != nil {
		return err
	}
	copy(l.head.Hash[:], hash)
	n := uint64(len(l.tags) / chain.TagSize)
	l.head.Seq, l.next = l.first+n-1, l.first+n
	if l.salts, err = chain.DecodeSalts(salts); err != nil || salts == nil || n >= store.SealSize {
		l.open(l.next)
		return nil
	}
	l.leaves = l.salts.Leaves()
	return nil
}

// open begins a new seal.
func (l *sealer) open(first uint64) {
	l.first, l.next, l.tags, l.salts = first, first, nil, chain.NewSalts()
	l.leaves = l.salts.Leaves()
}

// add adds the next entry to the chain.
func (l *sealer) add(r pgx.Rows, b *pgx.Batch) error {
	var e store.Sealed
	var sum []byte
	if err := scanProof(r, &e, &sum); err != nil {
		return err
	}
	if e.Seq != l.next {
		return holed(l.next)
	}
	salt := l.leaves[l.next-l.first]
	if salt == nil {
		return holed(l.next)
	}
	if len(sum) == len(store.Hash{}) {
		e.Mark = store.MarkBody(salt, store.Hash(sum))
	} else {
		e.Mark = store.MarkGone(salt)
	}
	h := e.Sum()
	l.head = store.Head{Seq: e.Seq, Hash: l.head.Hash.Link(h)}
	l.tags = append(l.tags, h[:chain.TagSize]...)
	l.next++
	l.added++
	if len(l.tags) == chain.TagSize*store.SealSize {
		l.write(b)
		l.open(l.next)
	}
	return nil
}

func (l *sealer) write(b *pgx.Batch) {
	hash := l.head.Hash
	b.Queue(writeSeal, int64(l.first), hash[:], l.salts.Encode(), l.tags)
}

// scanProof reads an entry, the entry before it, and the hash of its body.
func scanProof(r pgx.Rows, e *store.Sealed, more ...any) error {
	var at, op int64
	var state *string
	var key, request []byte
	to := append([]any{&e.Seq, &at, (*string)(&e.Space), &e.Version, &state, &op, &key, &e.Body, &e.Actor, &request, &e.Prev}, more...)
	if err := r.Scan(to...); err != nil {
		return err
	}
	return fill(&e.Entry, at, op, state, key, request)
}

func holed(seq uint64) error {
	return fault.New(fault.Internal, "log_tampered", "the log is damaged at entry %d, and cannot be sealed from there on", seq).
		Detail("seq", seq).WithHint("run `steward audit verify`; restore the database from a backup if it was changed")
}

const (
	// The versions of a resource from one entry back, up to an erasure: the
	// versions before an erasure were emptied by it.
	bodiesOf = `WITH RECURSIVE v(seq, op, prev) AS (
		SELECT seq, op, prev FROM log WHERE seq = $1
		UNION ALL SELECT l.seq, l.op, l.prev FROM v JOIN log l ON l.seq = v.prev WHERE v.op <> 3)
		SELECT l.seq, sha256(l.body) FROM v JOIN log l ON l.seq = v.seq WHERE l.body IS NOT NULL`
	emptyBodies = "UPDATE log SET body = NULL WHERE seq = ANY ($1)"
	sealOf      = "SELECT first, salts, tags FROM seal WHERE first <= $1 ORDER BY first DESC LIMIT 1"
	insertScar  = "INSERT INTO scar (seq, hash) VALUES ($1, $2) ON CONFLICT DO NOTHING"
	changeSalts = "UPDATE seal SET salts = $2 WHERE first = $1"
)

// erase empties the bodies that the group erases. It writes what is queued, as the
// bodies may be among that. Of a sealed body the salted hash stays, and its salt is
// destroyed.
func (w *writer) erase(ctx context.Context, p *planner, queued *pgx.Batch) error {
	if !slices.ContainsFunc(p.entries, func(e entry) bool { return e.op == resource.OpErase }) {
		return nil
	}
	if err := w.conn.SendBatch(ctx, queued).Close(); err != nil {
		return err
	}
	*queued = pgx.Batch{}
	sealed, err := lockSeals(ctx, w.conn, "")
	if err != nil {
		return err
	}
	changed := make(map[uint64]*openSeal)
	for _, e := range p.entries {
		if e.op != resource.OpErase {
			continue
		}
		sums := make(map[uint64]store.Hash)
		var seqs []int64
		rows, err := w.conn.Query(ctx, bodiesOf, int64(e.prev))
		if err == nil {
			err = eachRow(rows, func(r pgx.Rows) error {
				var seq uint64
				var sum []byte
				err := r.Scan(&seq, &sum)
				sums[seq] = store.Hash(sum)
				seqs = append(seqs, int64(seq))
				return err
			})
		}
		if err != nil {
			return err
		}
		for seq, sum := range sums {
			if seq > sealed {
				continue // it will be sealed without its body
			}
			if err := w.scar(ctx, queued, changed, seq, sum); err != nil {
				return err
			}
		}
		// At once, so that the next erasure of the group finds nothing of it.
		if _, err := w.conn.Exec(ctx, emptyBodies, seqs); err != nil {
			return err
		}
	}
	for first, o := range changed {
		queued.Queue(changeSalts, int64(first), o.salts.Without(o.gone).Encode())
	}
	return nil
}

// openSeal is a seal of whose salts some are to be destroyed.
type openSeal struct {
	salts  chain.Salts
	leaves *[store.SealSize]*store.Salt
	gone   []int
}

// scar keeps the salted hash of a body that is erased.
func (w *writer) scar(ctx context.Context, queued *pgx.Batch, changed map[uint64]*openSeal, seq uint64, sum store.Hash) error {
	var first uint64
	var salts, tags []byte
	err := w.conn.QueryRow(ctx, sealOf, int64(seq)).Scan(&first, &salts, &tags)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && seq >= first+uint64(len(tags)/chain.TagSize) {
		return nil // the seals are damaged; Verify reports it
	}
	if err != nil {
		return err
	}
	o := changed[first]
	if o == nil {
		keys, err := chain.DecodeSalts(salts)
		if err != nil || salts == nil {
			return nil
		}
		o = &openSeal{salts: keys, leaves: keys.Leaves()}
		changed[first] = o
	}
	if salt := o.leaves[seq-first]; salt != nil {
		mark := store.MarkBody(salt, sum)
		queued.Queue(insertScar, int64(seq), mark[:])
		o.gone = append(o.gone, int(seq-first))
	}
	return nil
}

// Sealed implements store.Sealer.
func (s *Store) Sealed(ctx context.Context, sc store.Scope, since uint64) iter.Seq2[store.Sealed, error] {
	return func(yield func(store.Sealed, error) bool) {
		if err := sc.CanRead(); err != nil {
			yield(store.Sealed{}, err)
			return
		}
		err := s.snapshot(ctx, func(l *ledger) error { return l.sealedFrom(sc, since, yield) })
		if err != nil && !errors.Is(err, chain.ErrEnough) {
			yield(store.Sealed{}, err)
		}
	}
}
