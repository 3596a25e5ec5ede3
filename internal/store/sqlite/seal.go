package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/chain"
)

// Limits of sealing. A seal is written with the commit that fills it, with the
// first commit that comes sealEvery after the last seal, or by itself if there is
// no commit for that long.
const (
	sealEvery = 5 * time.Second
	sealSlice = 2048 // older entries that are sealed in one transaction
)

const (
	insertSeal = `INSERT INTO seal (first, hash, salt, tags) VALUES (?, ?, ?, ?)
		ON CONFLICT (first) DO UPDATE SET hash = excluded.hash, salt = excluded.salt, tags = excluded.tags`
	lastSeal   = "SELECT first, hash, salt, tags FROM seal ORDER BY first DESC LIMIT 1"
	sealOf     = "SELECT first, salt, length(tags) FROM seal WHERE first <= ? ORDER BY first DESC LIMIT 1"
	insertSalt = "INSERT INTO salt (key) VALUES (?) RETURNING id"
	insertScar = "INSERT OR IGNORE INTO scar (seq, hash) VALUES (?, ?)"
)

// sealer extends the chain in the writer. It adds each entry as it is written, and
// reads entries that the database already has: the log of an older Steward, or
// what was not sealed before a crash.
//
// It is part of the current transaction, and is reloaded after a failed one.
type sealer struct {
	s            *Store
	c            *conn
	next         uint64              // the entry to add next
	sealed       uint64              // the newest sealed entry
	first        uint64              // the first entry of the open seal
	chain        store.Hash          // the chain's hash before next
	tags         []byte              // of the open seal
	own          *saltSet            // of the open seal
	at           time.Time           // when the last seal was written
	urgent       bool                // the current group must end with a seal
	hole         bool                // entry next is missing or damaged: nothing more can be sealed
	changedSalts map[uint64]*saltSet // by the first entry of their seal: salts of which the group destroys some
}

// saltSet is the salts of a seal.
type saltSet struct {
	salts  chain.Salts
	leaves *[store.SealSize]*store.Salt // derived from salts; nil: not yet
	row    int64                        // in the database; 0: not written yet
	gone   []int                        // entries whose salts are to be destroyed
}

func (o *saltSet) salt(i uint64) *store.Salt {
	if o.leaves == nil {
		o.leaves = o.salts.Leaves()
	}
	return o.leaves[i]
}

// reload continues after the last seal in the database. If that seal is damaged,
// it begins a new one; Verify reports the damage.
func (s *sealer) reload() error {
	*s = sealer{s: s.s, c: s.c, at: s.at, hole: s.hole}
	if s.hole {
		return nil
	}
	st := s.c.prepare(lastSeal)
	defer st.reset()
	ok, err := st.step()
	if err != nil || !ok {
		s.open(1)
		return err
	}
	first, row := uint64(st.int(0)), st.int(2)
	copy(s.chain[:], st.view(1))
	s.tags = st.bytes(3)
	n := len(s.tags) / chain.TagSize
	s.sealed = first + uint64(n) - 1
	keys, err := saltsAt(s.c, row)
	if err != nil && !errors.Is(err, chain.ErrSalts) {
		return err
	}
	if err != nil || n >= store.SealSize {
		s.open(s.sealed + 1)
		return nil
	}
	s.first, s.next, s.own = first, s.sealed+1, &saltSet{salts: keys, row: row}
	return nil
}

// open begins a new seal.
func (s *sealer) open(first uint64) {
	s.first, s.next, s.tags = first, first, s.tags[:0]
	s.own = &saltSet{salts: chain.NewSalts()}
}

// saltsAt reads the salts in a row.
func saltsAt(c *conn, row int64) (chain.Salts, error) {
	st := c.prepare("SELECT key FROM salt WHERE id = ?")
	defer st.reset()
	ok, err := st.argInt(row).step()
	switch {
	case err != nil:
		return nil, err
	case !ok || st.null(0):
		return nil, chain.ErrSalts
	}
	return chain.DecodeSalts(st.view(0))
}

// behind reports whether the database has entries that were not added yet.
func (s *sealer) behind(committed uint64) bool { return s.next <= committed && !s.hole }

// pending reports whether entries were added that are not sealed yet.
func (s *sealer) pending() bool { return s.sealed+1 < s.next }

func (s *sealer) due() bool { return s.pending() && time.Since(s.at) >= sealEvery }

// add adds the next entry to the chain. If it has no mark, its mark is computed
// from body.
func (s *sealer) add(e *store.Sealed, body *store.Hash) error {
	if e.Mark == (store.Hash{}) {
		salt := s.own.salt(s.next - s.first)
		if salt == nil {
			return chain.ErrSalts
		}
		if body != nil {
			e.Mark = store.MarkBody(salt, *body)
		} else {
			e.Mark = store.MarkGone(salt)
		}
	}
	h := e.Sum()
	s.chain = s.chain.Link(h)
	s.tags = append(s.tags, h[:chain.TagSize]...)
	s.next++
	if len(s.tags) < chain.TagSize*store.SealSize {
		return nil
	}
	if err := s.write(); err != nil {
		return err
	}
	s.open(s.next)
	return nil
}

// write writes the open seal with the entries that it has so far.
func (s *sealer) write() error {
	if !s.pending() {
		return nil
	}
	if s.own.row == 0 {
		if err := s.insert(s.own); err != nil {
			return err
		}
	}
	err := s.c.prepare(insertSeal).argInt(int64(s.first)).argBlob(s.chain[:]).argInt(s.own.row).argBlob(s.tags).run()
	if err != nil {
		return err
	}
	s.sealed, s.at = s.next-1, time.Now()
	return nil
}

// insert writes salts into a new row.
func (s *sealer) insert(o *saltSet) error {
	var err error
	o.row, err = s.c.prepare(insertSalt).argBlob(o.salts.Encode()).number()
	return err
}

// catchUp adds up to n entries that the database already has.
func (s *sealer) catchUp(committed uint64, n int) error {
	if !s.behind(committed) {
		return nil
	}
	st := s.c.prepare(proofColumns+"WHERE l.seq >= ? AND l.seq <= ? ORDER BY l.seq LIMIT ?").
		argInt(int64(s.next), int64(committed), int64(n))
	r := rows{s: s.s, st: st}
	err := st.each(func() error {
		var p chain.Proof
		if err := r.proof(s.c, &p); err != nil {
			return err
		}
		if p.Seq != s.next || p.Flaw != "" {
			s.hole = true
			s.s.log.Error("the log is damaged and is no longer sealed: run `steward audit verify`", "entry", s.next, "what", p.Flaw)
			return chain.ErrEnough
		}
		return s.add(&p.Sealed, p.BodySum)
	})
	if err == chain.ErrEnough {
		return nil
	}
	return err
}

// beginSeal adds some of the entries that the database already has. If all are to
// be sealed, it adds more, and the group ends with a seal.
func (p *planner) beginSeal(all bool) error {
	n := store.SealSize
	if all {
		n = sealSlice
	}
	p.seal.urgent = all
	return p.seal.catchUp(p.committed, n)
}

// sealUp completes the chain after the group's entries were added.
func (p *planner) sealUp() error {
	if err := p.seal.forget(); err != nil {
		return err
	}
	if p.seal.urgent || p.seal.due() {
		return p.seal.write()
	}
	return nil
}

// fault returns the reason why nothing more can be sealed, or nil.
func (s *sealer) fault() error {
	if !s.hole {
		return nil
	}
	return holed(s.s.path, s.next)
}

// addToChain adds an entry that the planner writes to the chain.
func (p *planner) addToChain(e *entry) error {
	s := &p.seal
	if s.hole || s.next != e.seq {
		return nil // earlier entries must be added first
	}
	var err error
	out := store.Sealed{Prev: e.prev, Entry: resource.Entry{
		Seq: e.seq, At: time.UnixMicro(p.at), Op: e.op, URI: e.change.URI, Version: e.version,
	}}
	var space string
	if space, err = p.word(e.space); err != nil {
		return err
	}
	out.Space = resource.Space(space)
	if out.Actor, err = p.word(e.actor); err != nil {
		return err
	}
	if out.State, err = p.word(e.state); err != nil {
		return err
	}
	if e.request != nil {
		out.Request = id.ID(e.request)
	}
	sum := store.Hash(sha256.Sum256(e.body()))
	return s.add(&out, &sum)
}

// word returns the word with a number, which may be new in this group.
func (p *planner) word(n int64) (string, error) {
	for k, id := range p.newNames {
		if id == n {
			return k.text, nil
		}
	}
	return p.s.names.text(p.c, n)
}

// body returns the body that the entry contains.
func (e *entry) body() []byte {
	if e.op == resource.OpPut {
		return e.change.Body
	}
	return nil
}

// scar stores the salted hash of a body that is about to be erased, and marks its
// salt to be destroyed at the end of the group.
func (s *sealer) scar(seq uint64, body store.Hash) error {
	if seq >= s.next {
		return nil // it will be sealed without its body
	}
	first, o, err := s.saltsOf(seq)
	if err != nil || o == nil {
		return err
	}
	salt := o.salt(seq - first)
	if salt == nil {
		return nil
	}
	mark := store.MarkBody(salt, body)
	if err := s.c.prepare(insertScar).argInt(int64(seq)).argBlob(mark[:]).run(); err != nil {
		return err
	}
	if s.changedSalts == nil {
		s.changedSalts = make(map[uint64]*saltSet)
	}
	o.gone = append(o.gone, int(seq-first))
	s.changedSalts[first] = o
	return nil
}

// saltsOf returns the salts of the seal that covers an entry, and the seal's first
// entry. It returns nil if the seals are damaged.
func (s *sealer) saltsOf(seq uint64) (first uint64, o *saltSet, err error) {
	if seq >= s.first {
		return s.first, s.own, nil
	}
	st := s.c.prepare(sealOf).argInt(int64(seq))
	defer st.reset()
	ok, err := st.step()
	if err != nil || !ok {
		return 0, nil, err
	}
	first = uint64(st.int(0))
	if seq >= first+uint64(st.int(2)/chain.TagSize) {
		return 0, nil, nil
	}
	if o := s.changedSalts[first]; o != nil {
		return first, o, nil
	}
	o = &saltSet{row: st.int(1)}
	if o.salts, err = saltsAt(s.c, o.row); errors.Is(err, chain.ErrSalts) {
		return 0, nil, nil
	}
	return first, o, err
}

// forget destroys the salts of the entries that the group has erased. It writes
// the remaining salts of each seal into a new row and empties the old row, so
// that SQLite overwrites it in place (see erase).
func (s *sealer) forget() error {
	for first, o := range s.changedSalts {
		o.salts = o.salts.Without(o.gone)
		o.leaves, o.gone = nil, nil
		was := o.row
		if was == 0 {
			continue // the old salts were never written
		}
		if err := s.insert(o); err != nil {
			return err
		}
		if err := s.c.prepare("UPDATE salt SET key = NULL WHERE id = ?").argInt(was).run(); err != nil {
			return err
		}
		if err := s.c.prepare("UPDATE seal SET salt = ? WHERE first = ?").argInt(o.row, int64(first)).run(); err != nil {
			return err
		}
	}
	s.changedSalts = nil
	return nil
}

// Seal implements store.Sealer.
func (s *Store) Seal(ctx context.Context) (store.Head, error) {
	if s.writer == nil {
		return s.sealHead(ctx)
	}
	for target := s.news.current(); ; {
		j := &pendingCommit{seal: true, done: make(chan struct{})}
		if err := s.writer.add(j); err != nil {
			return store.Head{}, err
		}
		select {
		case <-j.done:
		case <-ctx.Done():
			return store.Head{}, ctx.Err()
		}
		if j.err != nil {
			return store.Head{}, j.err
		}
		if h, err := s.sealHead(ctx); err != nil || h.Seq >= target {
			return h, err
		}
	}
}

func holed(path string, seq uint64) error {
	return fault.New(fault.Internal, "log_tampered", "the log of %s is damaged at entry %d, and cannot be sealed from there on", path, seq).
		Detail("seq", seq).WithHint("run `steward audit verify`; restore the database from a backup if it was changed")
}

// sealHead returns the head of the newest seal.
func (s *Store) sealHead(ctx context.Context) (h store.Head, err error) {
	err = s.withConn(ctx, s.readers, func(c *conn) error {
		st := c.prepare(lastSeal)
		_, err := st.first(func() error {
			h.Seq = uint64(st.int(0)) + uint64(len(st.view(3))/chain.TagSize) - 1
			copy(h.Hash[:], st.view(1))
			return nil
		})
		return err
	})
	return h, err
}
