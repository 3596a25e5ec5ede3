package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"steward/internal/resource"
	"steward/internal/store"
)

// Verify implements store.Sealer. Besides the chain it checks that the tree shows
// each resource's newest entry, and that missing bodies were erased by a recorded
// erasure. It costs about as much as reading the whole log.
func (s *Store) Verify(ctx context.Context, anchors ...store.Head) (store.Verdict, error) {
	var v *verifier
	err := s.read(ctx, func(c *conn) error {
		l, err := s.ledger(c, 0)
		if err != nil {
			return err
		}
		defer l.close()
		v = newVerifier(l, 1)
		v.anchors = slices.Clone(anchors)
		slices.SortFunc(v.anchors, func(a, b store.Head) int { return cmp.Compare(a.Seq, b.Seq) })
		if err := v.run(); err != nil || v.Flaw == nil || !v.Flaw.URI.Zero() {
			return err
		}
		return v.name()
	})
	if err != nil {
		return store.Verdict{}, err
	}
	return v.Verdict, nil
}

// Damage runs SQLite's own integrity check over the whole file, including
// indexes, and returns at most 20 lines of findings. No lines means that the file
// is intact. Reading a damaged page may fail with store_broken.
func (s *Store) Damage(ctx context.Context) (found []string, err error) {
	err = s.read(ctx, func(c *conn) error {
		found, err = damage(c)
		return err
	})
	return found, err
}

// name sets the URI of the flaw, if it can be read.
func (v *verifier) name() error {
	st := v.l.c.prepare("SELECT key FROM log WHERE seq = ?").argInt(int64(v.Flaw.Seq))
	_, err := st.first(func() error {
		if uri, err := resource.FromKey(st.view(0)); err == nil {
			v.Flaw.URI = uri
		}
		return nil
	})
	return err
}

type verifier struct {
	store.Verdict
	l          *ledger
	next       uint64 // the sequence number of the expected entry
	chain      store.Hash
	at         proof                  // the entry that was read last
	ahead      bool                   // at was read, but its turn has not come yet
	end        bool                   // there are no more entries
	old        []uint64               // a bit for each entry that has a successor
	erased     map[string]*store.Flaw // by key: bodies that are missing, until their erasure is found
	anchors    []store.Head           // anchors after the current position
	lastAnchor uint64                 // the last anchor that was passed

	// each receives each verified entry. If it returns false, the verification
	// ends with errEnough.
	each func(p *proof, ends bool) bool
}

var errEnough = errors.New("stopped by the reader")

// newVerifier returns a verifier that starts with the seal whose first entry is
// next.
func newVerifier(l *ledger, next uint64) *verifier {
	return &verifier{l: l, next: next, erased: make(map[string]*store.Flaw)}
}

func (v *verifier) run() error {
	for v.Flaw == nil {
		seal, ok, err := v.l.seal()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := v.sealed(&seal); err != nil {
			return err
		}
	}
	if err := v.rest(); err != nil {
		return err
	}
	if v.Flaw != nil {
		return nil
	}
	for _, f := range v.erased {
		v.blame(f)
	}
	if v.Flaw == nil && len(v.anchors) > 0 {
		a := v.anchors[0]
		v.blame(v.flaw(v.Head.Seq+1, a.Seq, "the log was sealed up to entry %d when that head was taken, but ends at %d now: the end is missing", a.Seq, v.Head.Seq))
	}
	if v.Flaw != nil {
		return nil
	}
	return v.tree()
}

// blame keeps the first flaw.
func (v *verifier) blame(f *store.Flaw) {
	if f != nil && (v.Flaw == nil || f.Seq < v.Flaw.Seq) {
		v.Flaw = f
	}
}

func (v *verifier) flaw(seq, through uint64, format string, args ...any) *store.Flaw {
	f := &store.Flaw{Seq: seq, What: fmt.Sprintf(format, args...)}
	if through > seq {
		f.Through = through
	}
	if v.at.Seq == seq {
		f.URI = v.at.URI
	}
	return f
}

// read reads the entry v.next into v.at. If the log continues with another entry,
// that is a flaw.
func (v *verifier) read() (*store.Flaw, error) {
	if !v.ahead {
		ok, err := v.l.entry(&v.at)
		if err != nil {
			return nil, err
		}
		if v.end = !ok; v.end {
			return nil, nil
		}
		v.ahead = true
	}
	switch got := v.at.Seq; {
	case got > v.next:
		return v.flaw(v.next, got-1, "missing: the log continues with entry %d", got), nil
	case got < v.next:
		return v.flaw(got, 0, "the log has no entry with this number"), nil
	}
	v.ahead = false
	v.Last = v.next
	v.follow()
	return nil, nil
}

// follow records what the entry says about other entries.
func (v *verifier) follow() {
	p := &v.at
	for uint64(len(v.old)) <= p.Seq/64 {
		v.old = append(v.old, 0)
	}
	if p.Prev > 0 && p.Prev < p.Seq {
		v.old[p.Prev/64] |= 1 << (p.Prev % 64)
	}
	switch {
	case p.Op == resource.OpErase:
		delete(v.erased, string(p.key))
	case p.Op == resource.OpPut && p.body == nil:
		v.Erased++
		if v.erased[string(p.key)] == nil {
			v.erased[string(p.key)] = v.flaw(p.Seq, 0, "its body is missing, but the log does not record an erasure")
		}
	}
}

// sealed verifies the entries of a seal.
func (v *verifier) sealed(s *sealRow) error {
	switch {
	case s.first > v.next:
		v.blame(v.flaw(v.next, s.first-1, "the seal over these entries is missing"))
		return nil
	case s.first < v.next:
		v.blame(v.flaw(v.next, 0, "the seals are not consecutive here"))
		return nil
	}
	var odd, loose *store.Flaw // the first wrong entry; the first wrong anchor
	wrong, last := uint64(0), s.first+s.size()-1
	for i := range s.size() {
		f, err := v.read()
		if err != nil {
			return err
		}
		if v.end {
			f = v.flaw(v.next, last, "missing: the log ends before this sealed entry")
		}
		if f != nil {
			if odd == nil {
				odd = f
			}
			v.blame(odd)
			return nil
		}
		v.at.prove(s.leaves[i])
		v.chain = v.chain.Link(v.at.Hash)
		if v.at.flaw != "" || !bytes.Equal(v.at.Hash[:tagSize], s.tags[i*tagSize:(i+1)*tagSize]) {
			wrong++
			if odd == nil {
				odd = v.flaw(v.next, 0, "the entry was changed: its hash differs%s", because(v.at.flaw))
			}
		}
		if f := v.anchored(); loose == nil {
			loose = f
		}
		v.next++
		ends := v.next > last
		if proves := odd == nil && s.flaw == "" && (!ends || v.chain == s.hash); v.each != nil && proves && !v.each(&v.at, ends) {
			return errEnough
		}
	}
	v.blame(v.checkSeal(s, odd, wrong, last))
	v.blame(loose)
	v.Head = store.Head{Seq: last, Hash: v.chain}
	return nil
}

func because(flaw string) string {
	if flaw == "" {
		return ""
	}
	return " (" + flaw + ")"
}

// checkSeal returns the flaw of a seal or its entries, or nil.
func (v *verifier) checkSeal(s *sealRow, odd *store.Flaw, wrong, last uint64) *store.Flaw {
	switch {
	case s.flaw != "":
		return v.flaw(s.first, last, "%s", s.flaw)
	case s.hash == v.chain && odd == nil:
		return nil
	case s.hash == v.chain:
		return v.flaw(s.first, last, "the entries are unchanged, but their seal was changed")
	case odd == nil:
		return v.flaw(s.first, last, "one of these was changed, or their seal was changed")
	case wrong == s.size() && wrong > 1:
		return v.flaw(s.first, last, "all of these were changed, or the salts of their seal were changed")
	}
	return odd
}

// anchored compares the chain with the anchors up to this position.
func (v *verifier) anchored() *store.Flaw {
	for len(v.anchors) > 0 && v.anchors[0].Seq <= v.next {
		a := v.anchors[0]
		v.anchors = v.anchors[1:]
		if a.Seq == v.next && a.Hash != v.chain {
			return v.flaw(v.lastAnchor+1, a.Seq, "the log up to entry %d has changed since that head was taken", a.Seq)
		}
		v.lastAnchor = a.Seq
	}
	return nil
}

// rest checks the entries that are not sealed yet.
func (v *verifier) rest() error {
	for !v.end && v.Flaw == nil {
		f, err := v.read()
		if err != nil {
			return err
		}
		if f == nil && !v.end {
			v.Open++
			if v.at.flaw != "" {
				f = v.flaw(v.next, 0, "%s", v.at.flaw)
			}
			v.next++
		}
		v.blame(f)
	}
	if v.Flaw == nil && v.Open >= store.SealSize {
		v.blame(v.flaw(v.Head.Seq+1, v.Last, "the seals over these entries are missing (a log that an older Steward wrote is sealed within moments of the first start)"))
	}
	return nil
}

// tree checks that the tree shows each resource as its newest entry does.
func (v *verifier) tree() error {
	st := v.l.c.prepare(`SELECT t.seq, t.key, l.seq IS NOT NULL AND t.key = l.key AND t.version = l.version AND t.space = l.space
			AND t.type = l.type AND t.gone = (l.op & 15 <> 1) AND (t.gone OR t.state IS l.state)
		FROM tree t LEFT JOIN log l ON l.seq = t.seq`)
	shown := make([]uint64, len(v.old))
	var stale *store.Flaw // the first row of the tree that shows what is not the newest
	err := st.each(func() error {
		seq := uint64(st.int(0))
		fits := seq > 0 && seq <= v.Last && st.int(2) == 1
		if fits && v.old[seq/64]>>(seq%64)&1 == 0 {
			shown[seq/64] |= 1 << (seq % 64)
			return nil
		}
		if stale == nil || seq < stale.Seq {
			stale = v.flaw(seq, 0, "the tree shows this as the newest entry of a resource, but it is not")
			var err error
			if stale.URI, err = resource.FromKey(st.view(1)); err != nil {
				stale.What += "; its key is damaged"
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := uint64(1); i <= v.Last; i++ {
		if bit := uint64(1) << (i % 64); (v.old[i/64]|shown[i/64])&bit == 0 {
			v.blame(v.flaw(i, 0, "the tree does not show this entry, although it is the newest of its resource"))
			return nil
		}
	}
	v.blame(stale)
	return v.orphans()
}

// orphans finds salts whose seal is missing.
func (v *verifier) orphans() error {
	n, err := v.l.c.number("SELECT count(*) FROM salt WHERE key NOT NULL AND id NOT IN (SELECT salt FROM seal)")
	if err == nil && n > 0 {
		v.blame(v.flaw(v.Head.Seq+1, v.Last, "the seals over these entries are missing"))
	}
	return err
}
