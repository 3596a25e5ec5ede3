package math

import (
	"cmp"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/hex"
	"hash"

	"steward/internal/tool"
	"steward/internal/tools/local"
)

type hashArgs struct {
	Text      string `json:"text" jsonschema:"the text to hash, taken as UTF-8, exactly as given"`
	Algorithm string `json:"algorithm,omitzero" jsonschema:"the hash function; sha256 unless given" enum:"sha256,sha512,sha1,md5,sha224,sha384,sha3-256,sha3-512" default:"sha256"`
}

func addHash(to *local.Kit) {
	query(to, "hash",
		"Computes the hash (checksum, digest, fingerprint) of a text as hexadecimal digits: SHA-256 (sha256), SHA-512, SHA-1, MD5, SHA-3 and others.",
		tool.LogSpec{Summary: "Compute the {algorithm|sha256} hash of a text", Parameters: []string{"algorithm"}},
		func(a hashArgs) (string, error) {
			h := hashes[cmp.Or(a.Algorithm, "sha256")]() // the schema admits no others
			h.Write([]byte(a.Text))
			return hex.EncodeToString(h.Sum(nil)), nil
		})
}

var hashes = map[string]func() hash.Hash{
	"sha256": sha256.New, "sha512": sha512.New, "sha1": sha1.New, "md5": md5.New, "sha224": sha256.New224, "sha384": sha512.New384,
	"sha3-256": func() hash.Hash { return sha3.New256() }, "sha3-512": func() hash.Hash { return sha3.New512() },
}
