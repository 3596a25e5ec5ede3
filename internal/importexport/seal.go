package importexport

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// Seal begins the MAC under which an export is signed: over every member's
// name and value, and every message, in their order. nil: nothing is signed,
// and nothing verifies.
type Seal func() hash.Hash

// NewSeal returns the seal of a key for one space: what was exported from
// another does not verify.
func NewSeal(key []byte, space string) Seal {
	return func() hash.Hash {
		h := hmac.New(sha256.New, key)
		fmt.Fprintf(h, "steward export %d\x00%s\x00", Version, space) //nolint:errcheck // a hash takes everything
		return h
	}
}

func (s Seal) begin() hash.Hash {
	if s == nil {
		return nil
	}
	return s()
}

// signature is the value of the member that signs what was summed up so far.
func signature(sum hash.Hash) string { return `"` + hex.EncodeToString(sum.Sum(nil)) + `"` }

// fits reports whether a value is that signature.
func fits(v []byte, sum hash.Hash) bool { return sum != nil && hmac.Equal(v, []byte(signature(sum))) }
