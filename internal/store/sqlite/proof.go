package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"iter"

	"steward/internal/resource"
	"steward/internal/store"
)

const proofColumns = `SELECT l.seq, l.at, l.space, l.version, l.state, l.op, l.key, l.body, l.actor, l.request, l.prev, l.type
	FROM log l `

// proof is a row of the log as it is in the database now, which may differ from
// what was written.
type proof struct {
	store.Sealed
	body *store.Hash // SHA-256 of the body; nil: it was erased
	key  []byte
	flaw string // why it is not a valid entry; empty: it is
}

// proof reads the columns of proofColumns. Damage sets p.flaw and is not an error.
func (r *rows) proof(c *conn, p *proof) error {
	*p = proof{key: bytes.Clone(r.st.view(6))}
	err := r.entry(&p.Entry)
	p.Prev = uint64(r.st.int(10))
	if err == nil {
		p.flaw, err = r.checkColumns(&p.Entry)
	}
	var sql *sqlError
	switch {
	case errors.As(err, &sql):
		return err
	case err != nil:
		p.flaw = "cannot read it: " + err.Error()
	}
	if p.Op == resource.OpPut && r.st.null(7) {
		return p.readScar(c)
	}
	sum := store.Hash(sha256.Sum256(p.Body))
	p.body = &sum
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
func (p *proof) readScar(c *conn) error {
	st := c.prepare("SELECT hash FROM scar WHERE seq = ?").argInt(int64(p.Seq))
	_, err := st.first(func() error {
		copy(p.Mark[:], st.view(0))
		return nil
	})
	return err
}

// prove computes the salted hash of the body, and the entry's hash.
func (p *proof) prove(salt *store.Salt) {
	p.Salt = salt
	switch {
	case p.Mark != (store.Hash{}): // from readScar
		p.Salt = nil
	case salt == nil: // nothing can be proved
	case p.body == nil:
		p.Mark = store.MarkGone(salt)
	default:
		p.Mark = store.MarkBody(salt, *p.body)
	}
	p.Hash = p.Sum()
}

// sealRow is a seal as it is in the database now.
type sealRow struct {
	first  uint64
	hash   store.Hash
	tags   []byte
	leaves *[store.SealSize]*store.Salt
	flaw   string
}

func (s *sealRow) size() uint64 { return uint64(len(s.tags) / tagSize) }

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

// entry reads the next entry; false at the end.
func (l *ledger) entry(p *proof) (bool, error) {
	ok, err := l.log.step()
	if err != nil || !ok {
		return false, err
	}
	return true, l.rows.proof(l.c, p)
}

// seal reads the next seal; false at the end.
func (l *ledger) seal() (s sealRow, ok bool, err error) {
	if ok, err = l.seals.step(); err != nil || !ok {
		return s, false, err
	}
	s.first = uint64(l.seals.int(0))
	copy(s.hash[:], l.seals.view(1))
	s.tags = bytes.Clone(l.seals.view(3))
	if len(s.tags) == 0 || len(s.tags)%tagSize != 0 || s.size() > store.SealSize || len(l.seals.view(1)) != len(s.hash) {
		s.flaw = "the seal is damaged"
		s.tags = s.tags[:min(len(s.tags)/tagSize, store.SealSize)*tagSize]
	}
	keys, err := saltsAt(l.c, l.seals.int(2))
	if errors.Is(err, errSalts) {
		s.flaw, err = "the seal's salts are missing or damaged", nil
	}
	s.leaves = keys.leaves()
	return s, true, err
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
	first, chain, err := sealBefore(c, since+1)
	if err != nil {
		return err
	}
	l, err := s.ledger(c, first)
	if err != nil {
		return err
	}
	defer l.close()
	v := newVerifier(l, first)
	v.chain = chain
	v.each = func(p *proof, ends bool) bool {
		out := p.Sealed
		out.Chain, out.Ends = v.chain, ends
		if !sc.Sees(p.Space) {
			out = store.Sealed{Entry: resource.Entry{Seq: p.Seq}, Hash: p.Hash, Chain: v.chain, Hidden: true, Ends: ends}
		}
		return p.Seq <= since || yield(out, nil)
	}
	for {
		seal, ok, err := l.seal()
		if err != nil || !ok {
			return err
		}
		switch err := v.sealed(&seal); {
		case err == errEnough:
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
func sealBefore(c *conn, seq uint64) (first uint64, chain store.Hash, err error) {
	st := c.prepare("SELECT first, hash FROM seal WHERE first <= ? ORDER BY first DESC LIMIT 2")
	defer st.reset()
	ok, err := st.argInt(int64(min(seq, 1<<62))).step()
	if err != nil || !ok {
		return 1, chain, err
	}
	first = uint64(st.int(0))
	if ok, err = st.step(); ok {
		copy(chain[:], st.view(1))
	}
	return first, chain, err
}
