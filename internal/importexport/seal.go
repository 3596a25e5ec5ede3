package importexport

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// Seal starts the MAC that signs an export. The MAC covers the name and value of every member and
// every message, in order. With a nil Seal, nothing is signed and nothing is verified.
type Seal func() hash.Hash

// NewSeal returns the seal of a key for one space. An export from another space is not verified by
// it.
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

// signature returns the value of the member that signs everything up to now.
func signature(sum hash.Hash) string { return `"` + hex.EncodeToString(sum.Sum(nil)) + `"` }

// fits reports whether a value is that signature.
func fits(v []byte, sum hash.Hash) bool { return sum != nil && hmac.Equal(v, []byte(signature(sum))) }
