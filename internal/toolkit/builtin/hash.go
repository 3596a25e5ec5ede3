package builtin

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/hex"
	"hash"

	"steward/internal/fault"
	"steward/internal/tool"
)

type hashArgs struct {
	Text      string `json:"text" jsonschema:"the text to hash, taken as UTF-8, exactly as given"`
	Algorithm string `json:"algorithm,omitzero" jsonschema:"the hash function; sha256 unless given" enum:"sha256,sha512,sha1,md5,sha224,sha384,sha3-256,sha3-512" default:"sha256"`
}

func (k *kit) hash() {
	query(k, "text.hash",
		"Computes the hash (checksum, digest, fingerprint) of a text as hexadecimal digits: SHA-256 (sha256), SHA-512, SHA-1, MD5, SHA-3 and others.",
		tool.LogSpec{Summary: "Compute the {algorithm|sha256} hash of a text", Parameters: []string{"algorithm"}},
		func(a hashArgs) (string, error) {
			h, err := newHash(a.Algorithm)
			if err != nil {
				return "", err
			}
			h.Write([]byte(a.Text))
			return hex.EncodeToString(h.Sum(nil)), nil
		})
}

func newHash(name string) (hash.Hash, error) {
	switch name {
	case "", "sha256":
		return sha256.New(), nil
	case "sha512":
		return sha512.New(), nil
	case "sha1":
		return sha1.New(), nil
	case "md5":
		return md5.New(), nil
	case "sha224":
		return sha256.New224(), nil
	case "sha384":
		return sha512.New384(), nil
	case "sha3-256":
		return sha3.New256(), nil
	case "sha3-512":
		return sha3.New512(), nil
	}
	return nil, fault.New(fault.Unsupported, "algorithm_unknown", "there is no hash function %q here", name).
		WithHint("use sha256")
}
