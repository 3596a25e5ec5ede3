package postgres

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/jackc/pgx/v5"

	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/chain"
)

// ledger reads the log and its seals in parallel, page by page, from one snapshot
// of the database. It sees all spaces.
type ledger struct {
	ctx    context.Context
	tx     pgx.Tx
	after  uint64 // the last entry read
	proofs []chain.Proof
	sealed uint64 // the first entry of the last seal read, plus 1
	seals  []chain.Seal
	last   bool // there are no more seals
	end    bool // there are no more entries
}

// Entries and seals in a page of a ledger.
const (
	ledgerPage = 512
	sealPage   = 64
)

// snapshot calls do with a ledger from the start of the log. The limits of a
// session do not apply, since the caller decides how long it takes.
func (s *Store) snapshot(ctx context.Context, do func(*ledger) error) error {
	if s.isClosed() {
		return closed()
	}
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return ended(ctx, err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	var b pgx.Batch
	b.Queue(setScope, scopeArgs(everything)...)
	b.Queue("SET LOCAL statement_timeout = 0")
	b.Queue("SET LOCAL idle_in_transaction_session_timeout = 0")
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return ended(ctx, err)
	}
	return ended(ctx, do(&ledger{ctx: ctx, tx: tx}))
}

// ended returns the error of ctx if it has ended.
func ended(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, chain.ErrEnough) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return coded(err)
}

// Entry implements chain.Ledger.
func (l *ledger) Entry(p *chain.Proof) (bool, error) {
	if len(l.proofs) == 0 && !l.end {
		if err := l.readProofs(); err != nil {
			return false, err
		}
	}
	if len(l.proofs) == 0 {
		return false, nil
	}
	*p = l.proofs[0]
	l.proofs = l.proofs[1:]
	return true, nil
}

const proofPage = `SELECT l.seq, l.at, l.space, l.version, l.state, l.op, l.key, l.body, l.actor, l.request, l.prev, l.type, s.hash
	FROM (SELECT w.*, sum(w.size) OVER (ORDER BY w.seq) - w.size AS before
		FROM (SELECT l.*, COALESCE(octet_length(l.body), 0) AS size FROM log l WHERE l.seq > $1 ORDER BY l.seq LIMIT $2) w) l
	LEFT JOIN scar s ON s.seq = l.seq
	WHERE l.before < $3 ORDER BY l.seq`

func (l *ledger) readProofs() error {
	rows, err := l.tx.Query(l.ctx, proofPage, int64(l.after), ledgerPage, pageBytes)
	if err != nil {
		return err
	}
	l.proofs = l.proofs[:0]
	err = eachRow(rows, func(r pgx.Rows) error {
		var p chain.Proof
		if err := readProof(r, &p); err != nil {
			return err
		}
		l.proofs, l.after = append(l.proofs, p), p.Seq
		return nil
	})
	l.end = len(l.proofs) == 0
	return err
}

// readProof reads a row of proofPage. Damage sets p.Flaw and is not an error.
func readProof(r pgx.Rows, p *chain.Proof) error {
	var at, op int64
	var state *string
	var request, scar []byte
	var typ string
	e := &p.Entry
	err := r.Scan(&e.Seq, &at, (*string)(&e.Space), &e.Version, &state, &op, &p.Key, &e.Body, &e.Actor, &request, &p.Prev, &typ, &scar)
	if err != nil {
		return err
	}
	erased := e.Body == nil
	err = fill(e, at, op, state, p.Key, request)
	switch {
	case err != nil:
		p.Flaw = "cannot read it: " + err.Error()
	case typ != e.URI.Type():
		p.Flaw = "it is listed under the wrong type " + typ
	case e.Op < resource.OpPut || e.Op > resource.OpErase:
		p.Flaw = "unknown operation"
	}
	if e.Op == resource.OpPut && erased {
		copy(p.Mark[:], scar)
		return nil
	}
	sum := store.Hash(sha256.Sum256(e.Body))
	p.BodySum = &sum
	return nil
}

// Seal implements chain.Ledger.
func (l *ledger) Seal() (chain.Seal, bool, error) {
	if len(l.seals) == 0 && !l.last {
		rows, err := l.tx.Query(l.ctx, "SELECT first, hash, salts, tags FROM seal WHERE first >= $1 ORDER BY first LIMIT $2", int64(l.sealed), sealPage)
		if err == nil {
			err = eachRow(rows, l.readSeal)
		}
		if err != nil {
			return chain.Seal{}, false, err
		}
		l.last = len(l.seals) == 0
	}
	if len(l.seals) == 0 {
		return chain.Seal{}, false, nil
	}
	s := l.seals[0]
	l.seals = l.seals[1:]
	return s, true, nil
}

func (l *ledger) readSeal(r pgx.Rows) error {
	var first int64
	var hash, salts, tags []byte
	if err := r.Scan(&first, &hash, &salts, &tags); err != nil {
		return err
	}
	keys, err := chain.DecodeSalts(salts)
	l.seals = append(l.seals, chain.ReadSeal(uint64(first), hash, tags, keys, err != nil || salts == nil))
	l.sealed = uint64(first + 1)
	return nil
}

// sealedFrom verifies the seals from the one that covers since+1, and yields their
// entries after since.
func (l *ledger) sealedFrom(sc store.Scope, since uint64, yield func(store.Sealed, error) bool) error {
	first, before, err := l.sealBefore(since + 1)
	if err != nil {
		return err
	}
	l.after, l.sealed = first-1, first
	v := chain.NewVerifier(l, first)
	v.Chain = before
	v.Each = func(p *chain.Proof, ends bool) bool {
		out := p.Sealed
		out.Chain, out.Ends = v.Chain, ends
		if !sc.Sees(p.Space) {
			out = store.Sealed{Entry: resource.Entry{Seq: p.Seq}, Hash: p.Hash, Chain: v.Chain, Hidden: true, Ends: ends}
		}
		return p.Seq <= since || yield(out, nil)
	}
	for {
		seal, ok, err := l.Seal()
		if err != nil || !ok {
			return err
		}
		if err := v.Sealed(&seal); err != nil {
			return err
		}
		if v.Flaw != nil {
			return holed(v.Flaw.Seq)
		}
	}
}

// sealBefore returns the first entry of the seal that covers an entry, and the
// chain's hash before that seal.
func (l *ledger) sealBefore(seq uint64) (first uint64, hash store.Hash, err error) {
	rows, err := l.tx.Query(l.ctx, "SELECT first, hash FROM seal WHERE first <= $1 ORDER BY first DESC LIMIT 2", int64(min(seq, 1<<62)))
	if err != nil {
		return 0, hash, err
	}
	first = 1
	n := 0
	err = eachRow(rows, func(r pgx.Rows) error {
		var at uint64
		var h []byte
		err := r.Scan(&at, &h)
		if n++; n == 1 {
			first = at
		} else {
			copy(hash[:], h)
		}
		return err
	})
	return first, hash, err
}

// Verify implements store.Sealer. Besides the chain it checks that the tree shows
// each resource's newest entry, and that missing bodies were erased by a recorded
// erasure. It costs about as much as reading the whole log.
func (s *Store) Verify(ctx context.Context, anchors ...store.Head) (store.Verdict, error) {
	var v *chain.Verifier
	err := s.snapshot(ctx, func(l *ledger) error {
		v = chain.NewVerifier(l, 1)
		v.Unsealed = 1 << 62 // the log is sealed after its commits
		if err := v.Verify(anchors, l.tree); err != nil {
			return err
		}
		return l.missing(v)
	})
	if err != nil {
		return store.Verdict{}, err
	}
	return v.Verdict, nil
}

// tree reads the rows of the tree for the verifier.
func (l *ledger) tree(each func(seq uint64, key []byte, fits bool) error) error {
	rows, err := l.tx.Query(l.ctx, `SELECT t.seq, t.key, COALESCE(t.key = l.key AND t.version = l.version AND t.space = l.space
			AND t.type = l.type AND t.gone = (l.op <> 1) AND (t.gone OR t.state IS NOT DISTINCT FROM l.state), false)
		FROM tree t LEFT JOIN log l ON l.seq = t.seq`)
	if err != nil {
		return err
	}
	return eachRow(rows, func(r pgx.Rows) error {
		var seq uint64
		var key []byte
		var fits bool
		if err := r.Scan(&seq, &key, &fits); err != nil {
			return err
		}
		return each(seq, key, fits)
	})
}

// missing finds that seals or entries at the end are missing, and names what a
// flaw is about.
func (l *ledger) missing(v *chain.Verifier) error {
	var sealed uint64
	if err := l.tx.QueryRow(l.ctx, "SELECT seq FROM sealed").Scan(&sealed); err != nil {
		return err
	}
	if v.Flaw == nil && v.Head.Seq < sealed {
		v.Blame(&store.Flaw{Seq: v.Head.Seq + 1, Through: sealed, What: "the seals over these entries are missing"})
	}
	if v.Flaw == nil || !v.Flaw.URI.Zero() {
		return nil
	}
	var key []byte
	err := l.tx.QueryRow(l.ctx, "SELECT key FROM log WHERE seq = $1", int64(v.Flaw.Seq)).Scan(&key)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if uri, bad := resource.FromKey(key); err == nil && bad == nil {
		v.Flaw.URI = uri
	}
	return err
}
