package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"iter"

	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/chain"
)

const proofColumns = `SELECT l.seq, l.at, l.space, l.version, l.state, l.op, l.key, l.body, l.actor, l.request, l.prev, l.type
	FROM log l `

// proof reads the columns of proofColumns. Damage sets p.Flaw and is not an error.
func (r *rows) proof(c *conn, p *chain.Proof) error {
	*p = chain.Proof{Key: bytes.Clone(r.st.view(6))}
	err := r.entry(&p.Entry)
	p.Prev = uint64(r.st.int(10))
	if err == nil {
		p.Flaw, err = r.checkColumns(&p.Entry)
	}
	var sql *sqlError
	switch {
	case errors.As(err, &sql):
		return err
	case err != nil:
		p.Flaw = "cannot read it: " + err.Error()
	}
	if p.Op == resource.OpPut && r.st.null(7) {
		return readScar(c, p)
	}
	sum := store.Hash(sha256.Sum256(p.Body))
	p.BodySum = &sum
	return nil
}

// checkColumns checks the columns that are not part of the entry.
func (r *rows) checkColumns(e *resource.Entry) (string, error) {
	typ, err := r.s.names.text(r.st.c, r.st.int(11))
	switch {
	case err != nil:
		return "", err
	case typ != e.URI.Type():
		return "it is listed under the wrong type " + typ, nil
	case r.st.int(5)&^(opMask|packed|apart) != 0 || e.Op < resource.OpPut || e.Op > resource.OpErase:
		return "unknown operation", nil
	}
	return "", nil
}

// readScar reads the salted hash of an erased body.
func readScar(c *conn, p *chain.Proof) error {
	st := c.prepare("SELECT hash FROM scar WHERE seq = ?").argInt(int64(p.Seq))
	_, err := st.first(func() error {
		copy(p.Mark[:], st.view(0))
		return nil
	})
	return err
}

// ledger reads the log and its seals in parallel, from one snapshot of the
// database.
type ledger struct {
	s     *Store // with its own names, which are read from this snapshot
	c     *conn
	log   *stmt
	seals *stmt
	rows  rows
}

// ledger starts at first, which must be the first entry of a seal.
func (s *Store) ledger(c *conn, first uint64) (*ledger, error) {
	if err := c.prepare("BEGIN").run(); err != nil { // ends when the connection goes back to the pool
		return nil, err
	}
	return s.ledgerIn(c, first), nil
}

// ledgerIn is ledger for a connection on which a transaction is open.
func (s *Store) ledgerIn(c *conn, first uint64) *ledger {
	own := &Store{path: s.path, codec: s.codec, names: newNames()}
	l := &ledger{s: own, c: c}
	l.log = c.prepare(proofColumns + "WHERE l.seq >= ? ORDER BY l.seq").argInt(int64(first))
	l.seals = c.prepare("SELECT first, hash, salt, tags FROM seal WHERE first >= ? ORDER BY first").argInt(int64(first))
	l.rows = rows{s: own, st: l.log}
	return l
}

func (l *ledger) close() {
	l.log.reset()
	l.seals.reset()
}

// Entry implements chain.Ledger.
func (l *ledger) Entry(p *chain.Proof) (bool, error) {
	ok, err := l.log.step()
	if err != nil || !ok {
		return false, err
	}
	return true, l.rows.proof(l.c, p)
}

// Seal implements chain.Ledger.
func (l *ledger) Seal() (s chain.Seal, ok bool, err error) {
	if ok, err = l.seals.step(); err != nil || !ok {
		return s, false, err
	}
	first, hash, row, tags := uint64(l.seals.int(0)), l.seals.bytes(1), l.seals.int(2), l.seals.bytes(3)
	keys, err := saltsAt(l.c, row)
	damaged := errors.Is(err, chain.ErrSalts)
	if damaged {
		err = nil
	}
	return chain.ReadSeal(first, hash, tags, keys, damaged), true, err
}

// Sealed implements store.Sealer.
func (s *Store) Sealed(ctx context.Context, sc store.Scope, since uint64) iter.Seq2[store.Sealed, error] {
	return func(yield func(store.Sealed, error) bool) {
		if err := sc.CanRead(); err != nil {
			yield(store.Sealed{}, err)
			return
		}
		err := s.read(ctx, func(c *conn) error { return s.sealedFrom(c, sc, since, yield) })
		if err != nil {
			yield(store.Sealed{}, err)
		}
	}
}

// sealedFrom verifies the seals from the one that covers since+1, and yields their
// entries after since. It returns nil when yield returns false.
func (s *Store) sealedFrom(c *conn, sc store.Scope, since uint64, yield func(store.Sealed, error) bool) error {
	first, before, err := sealBefore(c, since+1)
	if err != nil {
		return err
	}
	l, err := s.ledger(c, first)
	if err != nil {
		return err
	}
	defer l.close()
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
		switch err := v.Sealed(&seal); {
		case err == chain.ErrEnough:
			return nil
		case err != nil:
			return err
		case v.Flaw != nil:
			return holed(s.path, v.Flaw.Seq)
		}
	}
}

// sealBefore returns the first entry of the seal that covers an entry, and the
// chain's hash before that seal.
func sealBefore(c *conn, seq uint64) (first uint64, hash store.Hash, err error) {
	st := c.prepare("SELECT first, hash FROM seal WHERE first <= ? ORDER BY first DESC LIMIT 2")
	defer st.reset()
	ok, err := st.argInt(int64(min(seq, 1<<62))).step()
	if err != nil || !ok {
		return 1, hash, err
	}
	first = uint64(st.int(0))
	if ok, err = st.step(); ok {
		copy(hash[:], st.view(1))
	}
	return first, hash, err
}
