// Package transfer copies everything that one store holds into another one: the
// log with its numbers, times and erasures, the tree with its terms and places, and
// the seals with their salts. Afterwards the new store is the old one: cursors stay
// valid, versions go on counting, and heads of the chain still fit.
//
// The source is only read, and nobody may write to it meanwhile. The target is new,
// and refuses to be opened until the copy is complete and verified. A copy that was
// interrupted continues where the target ends: entries, resources and seals are
// written in their order, each page with one commit.
//
// The copy is verified by counts and hashes: both sides are read once more, and
// must agree in every entry, resource and seal. Then the target checks its chain
// against the head of the source.
package transfer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"iter"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// Entry is an entry of the log as it is stored.
type Entry struct {
	resource.Entry
	Prev   uint64     // the entry that made the version before; 0: none
	Erased bool       // a put whose body was erased
	Scar   store.Hash // the salted hash of an erased body, if it was sealed
}

// Node is a resource as the tree has it, or had it before it was deleted.
type Node struct {
	URI          resource.URI
	Seq, Version uint64
	Space        resource.Space
	State        string
	Gone         bool
	Terms        []store.Term
	Places       []store.Place
}

// Sort puts the terms and places into the order in which the sides are compared.
func (n *Node) Sort() {
	slices.SortFunc(n.Terms, func(a, b store.Term) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	slices.SortFunc(n.Places, func(a, b store.Place) int { return bytes.Compare(a.List.Key(), b.List.Key()) })
}

// Seal is a seal with its salts, encoded as in package chain.
type Seal struct {
	First uint64
	Hash  store.Hash
	Salts []byte
	Tags  []byte
}

// Reader reads a store for a copy, each part in its order and after a place:
// entries by number, resources by key, seals by their first entry.
type Reader interface {
	Entries(ctx context.Context, after uint64) iter.Seq2[Entry, error]
	Nodes(ctx context.Context, after []byte) iter.Seq2[Node, error]
	Seals(ctx context.Context, after uint64) iter.Seq2[Seal, error]
}

// Target is a new store that is being written.
type Target interface {
	Reader

	// Begin says what is to be copied, and returns how far an earlier copy of the
	// same source has come. Of another source, or of a store that is complete, it
	// wants nothing (transfer_refused).
	Begin(ctx context.Context, source string) (Progress, error)

	PutEntries(ctx context.Context, page []Entry) error
	PutNodes(ctx context.Context, page []Node) error
	PutSeals(ctx context.Context, page []Seal) error

	// Finish makes the target a store. It is the last step.
	Finish(ctx context.Context) error
}

// Progress is how far a target is filled.
type Progress struct {
	Entry uint64 // the last entry
	Node  []byte // the key of the last resource
	Seal  uint64 // the first entry of the last seal
}

// Sum is what a part of a store comes to: how many there are, and their hash.
type Sum struct {
	Count int64
	Hash  store.Hash
}

// Result is what was copied, and how the two sides agree.
type Result struct {
	Entries, Nodes, Seals Sum
	Bytes                 int64 // of bodies
	Resumed               bool
}

// Bounds of a page.
const (
	pageItems = 1000
	pageBytes = 8 << 20
)

// Copy copies everything from one store into another and verifies it. Told is
// called now and then with the number of entries copied; it may be nil.
func Copy(ctx context.Context, from Reader, source string, to Target, told func(entries uint64)) (r Result, err error) {
	at, err := to.Begin(ctx, source)
	if err != nil {
		return r, err
	}
	r.Resumed = at.Entry > 0
	err = inPages(from.Entries(ctx, at.Entry), func(e *Entry) int { return len(e.Body) }, func(page []Entry) error {
		err := to.PutEntries(ctx, page)
		if err == nil && told != nil {
			told(page[len(page)-1].Seq)
		}
		return err
	})
	if err == nil {
		err = inPages(from.Nodes(ctx, at.Node), nil, func(page []Node) error { return to.PutNodes(ctx, page) })
	}
	if err == nil {
		err = inPages(from.Seals(ctx, at.Seal), nil, func(page []Seal) error { return to.PutSeals(ctx, page) })
	}
	if err != nil {
		return r, err
	}
	if err := r.compare(ctx, from, to); err != nil {
		return r, err
	}
	return r, to.Finish(ctx)
}

// inPages collects what a sequence yields into pages.
func inPages[T any](all iter.Seq2[T, error], size func(*T) int, put func([]T) error) error {
	var page []T
	total := 0
	for one, err := range all {
		if err != nil && len(page) > 0 {
			return errors.Join(err, put(page)) // the next copy continues after it
		}
		if err != nil {
			return err
		}
		page = append(page, one)
		if size != nil {
			total += size(&one)
		}
		if len(page) == pageItems || total >= pageBytes {
			if err := put(page); err != nil {
				return err
			}
			page, total = page[:0], 0
		}
	}
	if len(page) == 0 {
		return nil
	}
	return put(page)
}

// compare reads both sides and wants the same.
func (r *Result) compare(ctx context.Context, from, to Reader) error {
	var sums [2]Result
	for i, side := range []Reader{from, to} {
		s := &sums[i]
		for _, part := range []func() error{
			func() error { return s.Entries.add(entries(side.Entries(ctx, 0), &s.Bytes)) },
			func() error { return s.Nodes.add(nodes(side.Nodes(ctx, nil))) },
			func() error { return s.Seals.add(seals(side.Seals(ctx, 0))) },
		} {
			if err := part(); err != nil {
				return err
			}
		}
	}
	resumed := r.Resumed
	*r = sums[0]
	r.Resumed = resumed
	for _, part := range []struct {
		name string
		a, b Sum
	}{{"entries", sums[0].Entries, sums[1].Entries}, {"resources", sums[0].Nodes, sums[1].Nodes}, {"seals", sums[0].Seals, sums[1].Seals}} {
		if part.a != part.b {
			return fault.New(fault.Internal, "transfer_differs", "the copy differs: %d %s here (%.8s), %d there (%.8s)",
				part.a.Count, part.name, part.a.Hash, part.b.Count, part.b.Hash).
				WithHint("nothing was changed; see whether another Steward writes to the source, remove the copy, and begin again")
		}
	}
	return nil
}

// add sums the texts of a sequence.
func (s *Sum) add(all iter.Seq2[[]byte, error]) error {
	h := sha256.New()
	for text, err := range all {
		if err != nil {
			return err
		}
		s.Count++
		text = append(binary.AppendUvarint(nil, uint64(len(text))), text...)
		h.Write(text)
	}
	s.Hash = sumOf(h)
	return nil
}

func sumOf(h hash.Hash) store.Hash { return store.Hash(h.Sum(nil)) }

func entries(all iter.Seq2[Entry, error], bytes *int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for e, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			*bytes += int64(len(e.Body))
			sealed := store.Sealed{Entry: e.Entry, Prev: e.Prev, Mark: sha256.Sum256(e.Body)}
			sum := sealed.Sum()
			text := append(sum[:], e.Scar[:]...)
			if e.Erased {
				text = append(text, 1)
			}
			if !yield(text, nil) {
				return
			}
		}
	}
}

func nodes(all iter.Seq2[Node, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for n, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			b := binary.AppendUvarint(binary.AppendUvarint(nil, n.Seq), n.Version)
			b = text(text(text(b, string(n.URI.Key())), string(n.Space)), n.State)
			if n.Gone {
				b = append(b, 1)
			}
			for _, t := range n.Terms {
				b = text(text(append(b, 't'), t.Name), t.Value)
			}
			for _, p := range n.Places {
				b = binary.AppendVarint(text(append(b, 'p'), string(p.List.Key())), p.Pos)
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

func seals(all iter.Seq2[Seal, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for s, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			b := append(binary.AppendUvarint(nil, s.First), s.Hash[:]...)
			if !yield(text(text(b, string(s.Salts)), string(s.Tags)), nil) {
				return
			}
		}
	}
}

func text(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Name returns a name for a source that another store does not have: it is made of
// the salts of its first seal, which are random.
func Name(ctx context.Context, from Reader) (string, error) {
	h := sha256.New()
	for s, err := range from.Seals(ctx, 0) {
		if err != nil {
			return "", err
		}
		h.Write(s.Salts)
		break
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
