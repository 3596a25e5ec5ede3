// Package chain is the chain of hashes that protects the log, as far as it does
// not depend on the database: where the salts of a seal come from, and the check
// of a log against its seals. Package store says what the chain promises. Each
// store keeps its entries and seals in tables of its own, and reads them here
// through a Ledger.
package chain

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"steward/internal/resource"
	"steward/internal/store"
)

// Proof is a row of the log as it is in the database now, which may differ from
// what was written.
type Proof struct {
	store.Sealed
	BodySum *store.Hash // SHA-256 of the body; nil: it was erased
	Key     []byte
	Flaw    string // why it is not a valid entry; empty: it is
}

// Prove computes the salted hash of the body, and the entry's hash. An erased
// body has its mark already.
func (p *Proof) Prove(salt *store.Salt) {
	p.Salt = salt
	switch {
	case p.Mark != (store.Hash{}): // of an erased body
		p.Salt = nil
	case salt == nil: // nothing can be proved
	case p.BodySum == nil:
		p.Mark = store.MarkGone(salt)
	default:
		p.Mark = store.MarkBody(salt, *p.BodySum)
	}
	p.Hash = p.Sum()
}

// TagSize is the bytes of each entry's hash that its seal contains.
const TagSize = 2

// Seal is a seal as it is in the database now.
type Seal struct {
	First  uint64
	Hash   store.Hash
	Tags   []byte
	Leaves *[store.SealSize]*store.Salt
	Flaw   string
}

// Size returns the number of entries under the seal.
func (s *Seal) Size() uint64 { return uint64(len(s.Tags) / TagSize) }

// ReadSeal makes a seal of its columns. salts is nil if the seal's salts are
// missing or damaged.
func ReadSeal(first uint64, hash, tags []byte, salts Salts, damaged bool) Seal {
	s := Seal{First: first, Tags: bytes.Clone(tags)}
	copy(s.Hash[:], hash)
	if len(s.Tags) == 0 || len(s.Tags)%TagSize != 0 || s.Size() > store.SealSize || len(hash) != len(s.Hash) {
		s.Flaw = "the seal is damaged"
		s.Tags = s.Tags[:min(len(s.Tags)/TagSize, store.SealSize)*TagSize]
	}
	if damaged {
		s.Flaw = "the seal's salts are missing or damaged"
	}
	s.Leaves = salts.Leaves()
	return s
}

// Ledger reads the log and its seals in parallel, from one snapshot of a database.
type Ledger interface {
	Entry(*Proof) (bool, error) // the next entry; false at the end
	Seal() (Seal, bool, error)  // the next seal; false at the end
}

// Verifier recomputes the chain over a ledger and keeps the first deviation from
// what was written. Verify checks the whole log; Sealed checks one seal after the
// other, for a reader of the proofs.
type Verifier struct {
	store.Verdict
	Chain store.Hash // after the last entry that was verified

	// Each receives each verified entry. If it returns false, the verification
	// ends with ErrEnough.
	Each func(p *Proof, ends bool) bool

	// Unsealed is how many entries at the end may be without a seal; zero: fewer
	// than a seal has.
	Unsealed uint64

	l          Ledger
	next       uint64                 // the sequence number of the expected entry
	at         Proof                  // the entry that was read last
	ahead      bool                   // at was read, but its turn has not come yet
	end        bool                   // there are no more entries
	old        []uint64               // a bit for each entry that has a successor
	erased     map[string]*store.Flaw // by key: bodies that are missing, until their erasure is found
	anchors    []store.Head           // anchors after the current position
	lastAnchor uint64                 // the last anchor that was passed
}

// ErrEnough ends a verification.
var ErrEnough = errors.New("stopped by the reader")

// NewVerifier returns a verifier that starts with the seal whose first entry is
// next.
func NewVerifier(l Ledger, next uint64) *Verifier {
	return &Verifier{l: l, next: next, erased: make(map[string]*store.Flaw)}
}

// Verify checks the log with its seals and the anchors, and then the tree: rows
// calls its argument for each of its rows, with the number of the entry that it
// shows, its key, and whether its columns are those of the entry.
func (v *Verifier) Verify(anchors []store.Head, rows func(each func(seq uint64, key []byte, fits bool) error) error) error {
	v.anchors = slices.Clone(anchors)
	slices.SortFunc(v.anchors, func(a, b store.Head) int { return cmp.Compare(a.Seq, b.Seq) })
	for v.Flaw == nil {
		seal, ok, err := v.l.Seal()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := v.Sealed(&seal); err != nil {
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
		v.Blame(f)
	}
	if v.Flaw == nil && len(v.anchors) > 0 {
		a := v.anchors[0]
		v.Blame(v.flaw(v.Head.Seq+1, a.Seq, "the log was sealed up to entry %d when that head was taken, but ends at %d now: the end is missing", a.Seq, v.Head.Seq))
	}
	if v.Flaw != nil {
		return nil
	}
	return v.tree(rows)
}

// Blame keeps the first flaw.
func (v *Verifier) Blame(f *store.Flaw) {
	if f != nil && (v.Flaw == nil || f.Seq < v.Flaw.Seq) {
		v.Flaw = f
	}
}

func (v *Verifier) flaw(seq, through uint64, format string, args ...any) *store.Flaw {
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
func (v *Verifier) read() (*store.Flaw, error) {
	if !v.ahead {
		ok, err := v.l.Entry(&v.at)
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
func (v *Verifier) follow() {
	p := &v.at
	for uint64(len(v.old)) <= p.Seq/64 {
		v.old = append(v.old, 0)
	}
	if p.Prev > 0 && p.Prev < p.Seq {
		v.old[p.Prev/64] |= 1 << (p.Prev % 64)
	}
	switch {
	case p.Op == resource.OpErase:
		delete(v.erased, string(p.Key))
	case p.Op == resource.OpPut && p.BodySum == nil:
		v.Erased++
		if v.erased[string(p.Key)] == nil {
			v.erased[string(p.Key)] = v.flaw(p.Seq, 0, "its body is missing, but the log does not record an erasure")
		}
	}
}

// Sealed verifies the entries of a seal.
func (v *Verifier) Sealed(s *Seal) error {
	switch {
	case s.First > v.next:
		v.Blame(v.flaw(v.next, s.First-1, "the seal over these entries is missing"))
		return nil
	case s.First < v.next:
		v.Blame(v.flaw(v.next, 0, "the seals are not consecutive here"))
		return nil
	}
	var odd, loose *store.Flaw // the first wrong entry; the first wrong anchor
	wrong, last := uint64(0), s.First+s.Size()-1
	for i := range s.Size() {
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
			v.Blame(odd)
			return nil
		}
		v.at.Prove(s.Leaves[i])
		v.Chain = v.Chain.Link(v.at.Hash)
		if v.at.Flaw != "" || !bytes.Equal(v.at.Hash[:TagSize], s.Tags[i*TagSize:(i+1)*TagSize]) {
			wrong++
			if odd == nil {
				odd = v.flaw(v.next, 0, "the entry was changed: its hash differs%s", because(v.at.Flaw))
			}
		}
		if f := v.anchored(); loose == nil {
			loose = f
		}
		v.next++
		ends := v.next > last
		if proves := odd == nil && s.Flaw == "" && (!ends || v.Chain == s.Hash); v.Each != nil && proves && !v.Each(&v.at, ends) {
			return ErrEnough
		}
	}
	v.Blame(v.checkSeal(s, odd, wrong, last))
	v.Blame(loose)
	v.Head = store.Head{Seq: last, Hash: v.Chain}
	return nil
}

func because(flaw string) string {
	if flaw == "" {
		return ""
	}
	return " (" + flaw + ")"
}

// checkSeal returns the flaw of a seal or its entries, or nil.
func (v *Verifier) checkSeal(s *Seal, odd *store.Flaw, wrong, last uint64) *store.Flaw {
	switch {
	case s.Flaw != "":
		return v.flaw(s.First, last, "%s", s.Flaw)
	case s.Hash == v.Chain && odd == nil:
		return nil
	case s.Hash == v.Chain:
		return v.flaw(s.First, last, "the entries are unchanged, but their seal was changed")
	case odd == nil:
		return v.flaw(s.First, last, "one of these was changed, or their seal was changed")
	case wrong == s.Size() && wrong > 1:
		return v.flaw(s.First, last, "all of these were changed, or the salts of their seal were changed")
	}
	return odd
}

// anchored compares the chain with the anchors up to this position.
func (v *Verifier) anchored() *store.Flaw {
	for len(v.anchors) > 0 && v.anchors[0].Seq <= v.next {
		a := v.anchors[0]
		v.anchors = v.anchors[1:]
		if a.Seq == v.next && a.Hash != v.Chain {
			return v.flaw(v.lastAnchor+1, a.Seq, "the log up to entry %d has changed since that head was taken", a.Seq)
		}
		v.lastAnchor = a.Seq
	}
	return nil
}

// rest checks the entries that are not sealed yet.
func (v *Verifier) rest() error {
	for !v.end && v.Flaw == nil {
		f, err := v.read()
		if err != nil {
			return err
		}
		if f == nil && !v.end {
			v.Open++
			if v.at.Flaw != "" {
				f = v.flaw(v.next, 0, "%s", v.at.Flaw)
			}
			v.next++
		}
		v.Blame(f)
	}
	if v.Flaw == nil && v.Open >= max(v.Unsealed, store.SealSize) {
		v.Blame(v.flaw(v.Head.Seq+1, v.Last, "the seals over these entries are missing (a log that an older Steward wrote is sealed within moments of the first start)"))
	}
	return nil
}

// tree checks that the tree shows each resource as its newest entry does.
func (v *Verifier) tree(rows func(each func(seq uint64, key []byte, fits bool) error) error) error {
	shown := make([]uint64, len(v.old))
	var stale *store.Flaw // the first row of the tree that shows what is not the newest
	err := rows(func(seq uint64, key []byte, fits bool) error {
		if fits && seq > 0 && seq <= v.Last && v.old[seq/64]>>(seq%64)&1 == 0 {
			shown[seq/64] |= 1 << (seq % 64)
			return nil
		}
		if stale == nil || seq < stale.Seq {
			stale = v.flaw(seq, 0, "the tree shows this as the newest entry of a resource, but it is not")
			var err error
			if stale.URI, err = resource.FromKey(key); err != nil {
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
			v.Blame(v.flaw(i, 0, "the tree does not show this entry, although it is the newest of its resource"))
			return nil
		}
	}
	v.Blame(stale)
	return nil
}
