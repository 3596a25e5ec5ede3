package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"

	"steward/internal/fault"
	"steward/internal/resource"
)

// Sealer is what a store may do besides: keep its log under a chain of hashes,
// by which a changed, deleted, inserted or moved entry is found. Safe for
// concurrent use.
//
// Each entry has a hash (Sealed.Sum) over all that it tells, and over a salted
// hash of its body as it was written, however that is kept by now. The chain
// takes them up in the order of the log (Hash.Link). The log is sealed in
// stretches of up to SealSize entries; a seal keeps the chain's hash behind its
// last entry, and of each entry as much as names the first wrong one. What is
// erased keeps its salted hash, and its salt goes for good: the chain verifies,
// and nobody can try out what the body may have been.
//
// Who can write all of the database can make a chain of his own; so heads are
// worth keeping where he cannot write.
type Sealer interface {
	// Seal seals all that is committed by now, and returns the head. A store
	// that only reads returns the head that is there.
	Seal(ctx context.Context) (Head, error)

	// Sealed yields the sealed entries after since, in order, with what proves
	// them. Of what lies outside of the scope it tells the number and hash
	// only. It stops after the first error; what cannot be read as it was
	// written is one (log_tampered).
	Sealed(ctx context.Context, sc Scope, since uint64) iter.Seq2[Sealed, error]

	// Verify looks through the whole log, all spaces, and reports the first
	// thing that is not as it was written, or not as an anchor (a head from
	// before) has it. An error says that it could not be looked through.
	Verify(ctx context.Context, anchors ...Head) (Verdict, error)
}

// SealSize is how many entries a seal is over, at most.
const SealSize = 256

// Hash is a SHA-256 hash. The chain begins with the zero Hash.
type Hash [sha256.Size]byte

// Salt is what is hashed before a body.
type Salt [16]byte

// Head is the chain's hash behind an entry: it stands for all of the log up to it.
type Head struct {
	Seq  uint64 `json:"seq"`
	Hash Hash   `json:"hash"`
}

// Sealed is an entry with what proves it.
type Sealed struct {
	resource.Entry
	Prev   uint64 // the entry of the version before; 0: there was none
	Salt   *Salt  // nil: gone with the body
	Mark   Hash   // the salted hash of the body
	Hash   Hash   // of the entry
	Chain  Hash   // the chain's behind it
	Hidden bool   // it lies outside of the scope: only Seq, Hash and Chain are told
	Ends   bool   // it is the last one of a seal
}

// Verdict is what Verify found.
type Verdict struct {
	Head   Head   `json:"head"`            // what is sealed
	Last   uint64 `json:"last"`            // the newest entry
	Open   uint64 `json:"open,omitzero"`   // entries that are not sealed yet
	Erased uint64 `json:"erased,omitzero"` // entries whose body is gone for good, as an erasure says
	Flaw   *Flaw  `json:"flaw,omitzero"`   // nil: everything is as it was written
}

// Flaw is the first thing that is wrong.
type Flaw struct {
	Seq     uint64       `json:"seq"`              // the entry
	Through uint64       `json:"through,omitzero"` // not zero: it is one of those from Seq to this one
	URI     resource.URI `json:"uri,omitzero"`     // what the entry is about, as far as that can be read
	What    string       `json:"what"`             // in a person's words
}

// What is hashed begins with a byte that says what it is.
const (
	tagBody  byte = 1 + iota // salt, SHA-256 of the body
	tagGone                  // salt: the body was erased before it was sealed
	tagEntry                 // see Sum
	tagLink                  // the hash before, the entry's hash
)

// MarkBody is the salted hash of a body, whose SHA-256 is given.
func MarkBody(s *Salt, body Hash) Hash {
	var b [1 + len(s) + len(body)]byte
	b[0] = tagBody
	copy(b[1:], s[:])
	copy(b[1+len(s):], body[:])
	return sha256.Sum256(b[:])
}

// MarkGone stands for a body that was erased before its entry was sealed.
func MarkGone(s *Salt) Hash {
	var b [1 + len(s)]byte
	b[0] = tagGone
	copy(b[1:], s[:])
	return sha256.Sum256(b[:])
}

// Link is the chain's hash behind an entry.
func (h Hash) Link(entry Hash) Hash {
	var b [1 + 2*len(h)]byte
	b[0] = tagLink
	copy(b[1:], h[:])
	copy(b[1+len(h):], entry[:])
	return sha256.Sum256(b[:])
}

// Sum is the hash of an entry, over all that it tells and the salted hash of
// its body.
func (s *Sealed) Sum() Hash {
	var room [512]byte
	return sha256.Sum256(s.append(room[:0]))
}

// append writes what is hashed: numbers as varints, texts with their lengths.
func (s *Sealed) append(b []byte) []byte {
	b = append(b, tagEntry)
	b = binary.AppendUvarint(b, s.Seq)
	b = binary.AppendVarint(b, s.At.UnixMicro())
	b = append(b, byte(s.Op))
	b = binary.AppendUvarint(b, s.Version)
	b = binary.AppendUvarint(b, s.Prev)
	b = appendText(b, string(s.Space))
	b = appendText(b, s.Actor)
	b = appendText(b, s.State)
	b = append(b, s.Request[:]...)
	var room [192]byte
	uri, _ := s.URI.AppendText(room[:0]) // never fails
	b = append(binary.AppendUvarint(b, uint64(len(uri))), uri...)
	return append(b, s.Mark[:]...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// String returns the hash in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler (hash_invalid).
func (h *Hash) UnmarshalText(b []byte) error {
	var got Hash
	ok := len(b) == 2*len(h)
	if ok {
		_, err := hex.Decode(got[:], b)
		ok = err == nil
	}
	if !ok {
		return fault.New(fault.Invalid, "hash_invalid", "%.80q is no hash of the log", b).
			WithHint("give the 64 hexadecimal digits that `steward audit head` prints")
	}
	*h = got
	return nil
}
