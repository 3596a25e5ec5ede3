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

// Sealer is an optional ability of a store: it protects its log with a chain of
// hashes that reveals changed, deleted, inserted or moved entries. It is safe for
// concurrent use.
//
// Each entry has a hash (Sealed.Sum) over all its fields and a salted hash of its
// body as it was written, however the body is stored now. The chain combines them
// in log order (Hash.Link). The log is sealed in runs of up to SealSize entries.
// A seal keeps the chain's hash after its last entry, and enough of each entry's
// hash to name the first wrong one. An erased entry keeps its salted hash, but
// its salt is destroyed: the chain still verifies, and nobody can guess the body
// by trial.
//
// An attacker who can write the whole database can build a new chain. So keep
// copies of heads where he cannot write.
type Sealer interface {
	// Seal seals everything committed so far and returns the head. A read-only
	// store returns the existing head.
	Seal(ctx context.Context) (Head, error)

	// Sealed yields the sealed entries after since, in order, with their proofs.
	// For entries outside the scope it returns only Seq, Hash and Chain. It stops
	// after the first error; an entry that differs from what was written is an
	// error (log_tampered).
	Sealed(ctx context.Context, sc Scope, since uint64) iter.Seq2[Sealed, error]

	// Verify checks the whole log, in all spaces, and reports the first deviation
	// from what was written or from an anchor (an earlier head). It returns an
	// error only if the log could not be checked.
	Verify(ctx context.Context, anchors ...Head) (Verdict, error)
}

// SealSize is the maximum number of entries under one seal.
const SealSize = 256

// Hash is a SHA-256 hash. The chain starts with the zero Hash.
type Hash [sha256.Size]byte

// Salt is hashed in front of a body.
type Salt [16]byte

// Head is the chain's hash after an entry. It authenticates the log up to that
// entry.
type Head struct {
	Seq  uint64 `json:"seq"`
	Hash Hash   `json:"hash"`
}

// Sealed is an entry with its proof.
type Sealed struct {
	resource.Entry
	Prev   uint64 // sequence number of the resource's previous version; 0: none
	Salt   *Salt  // nil: destroyed with the body
	Mark   Hash   // the salted hash of the body
	Hash   Hash   // of the entry
	Chain  Hash   // the chain's hash after the entry
	Hidden bool   // it is outside the scope: only Seq, Hash and Chain are set
	Ends   bool   // it is the last entry of a seal
}

// Verdict is the result of Verify.
type Verdict struct {
	Head   Head   `json:"head"`            // the newest sealed entry
	Last   uint64 `json:"last"`            // the newest entry
	Open   uint64 `json:"open,omitzero"`   // entries that are not sealed yet
	Erased uint64 `json:"erased,omitzero"` // entries whose bodies were erased according to a recorded erasure
	Flaw   *Flaw  `json:"flaw,omitzero"`   // nil: everything is as it was written
}

// Flaw is the first deviation found.
type Flaw struct {
	Seq     uint64       `json:"seq"`              // the entry
	Through uint64       `json:"through,omitzero"` // if not zero, it is one of the entries from Seq to this one
	URI     resource.URI `json:"uri,omitzero"`     // the resource that the entry changes, if it can be read
	What    string       `json:"what"`             // a description for a person
}

// Every hashed text starts with a tag byte that identifies its kind.
const (
	tagBody  byte = 1 + iota // salt, SHA-256 of the body
	tagGone                  // salt: the body was erased before it was sealed
	tagEntry                 // see Sum
	tagLink                  // the previous hash, the entry's hash
)

// MarkBody returns the salted hash of a body, given the body's SHA-256 hash.
func MarkBody(s *Salt, body Hash) Hash {
	var b [1 + len(s) + len(body)]byte
	b[0] = tagBody
	copy(b[1:], s[:])
	copy(b[1+len(s):], body[:])
	return sha256.Sum256(b[:])
}

// MarkGone returns the mark of a body that was erased before its entry was
// sealed.
func MarkGone(s *Salt) Hash {
	var b [1 + len(s)]byte
	b[0] = tagGone
	copy(b[1:], s[:])
	return sha256.Sum256(b[:])
}

// Link returns the chain's hash after an entry, given the chain's hash before it.
func (h Hash) Link(entry Hash) Hash {
	var b [1 + 2*len(h)]byte
	b[0] = tagLink
	copy(b[1:], h[:])
	copy(b[1+len(h):], entry[:])
	return sha256.Sum256(b[:])
}

// Sum returns the hash of an entry, over all its fields and the salted hash of
// its body.
func (s *Sealed) Sum() Hash {
	var room [512]byte
	return sha256.Sum256(s.append(room[:0]))
}

// append appends the hashed text: numbers as varints, strings with their lengths.
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

// UnmarshalText implements encoding.TextUnmarshaler. Its error code is
// hash_invalid.
func (h *Hash) UnmarshalText(b []byte) error {
	var got Hash
	ok := len(b) == 2*len(h)
	if ok {
		_, err := hex.Decode(got[:], b)
		ok = err == nil
	}
	if !ok {
		return fault.New(fault.Invalid, "hash_invalid", "invalid hash of the log %.80q", b).
			WithHint("give the 64 hexadecimal digits that `steward audit head` prints")
	}
	*h = got
	return nil
}
