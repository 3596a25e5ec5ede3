package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"

	"steward/internal/fault"
)

// Prefix begins every secret that Steward issues, so that people and secret
// scanners recognise it.
const Prefix = "sk-steward-"

// secretBytes are the random bytes of a secret; 36 bytes with the checksum
// make 48 characters of base64url, without padding.
const secretBytes = 32

var secretText = base64.RawURLEncoding.Strict()

// NewSecret returns a new secret: Prefix, and 256 random bits with a checksum over
// both. The checksum detects a mistyped or cut secret without a look-up.
func NewSecret() string {
	b := make([]byte, secretBytes, secretBytes+4)
	rand.Read(b) // never fails (crypto/rand)
	return Prefix + secretText.EncodeToString(binary.BigEndian.AppendUint32(b, checksum(b)))
}

func checksum(random []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(Prefix)), crc32.IEEETable, random)
}

// WellFormed reports whether a text has the form of a secret.
func WellFormed(secret string) bool {
	text, ok := strings.CutPrefix(secret, Prefix)
	if !ok || len(text) != secretText.EncodedLen(secretBytes+4) {
		return false
	}
	b, err := secretText.DecodeString(text)
	return err == nil && binary.BigEndian.Uint32(b[secretBytes:]) == checksum(b[:secretBytes])
}

// digest is the stored hash of a secret. A plain SHA-256 is enough: slow, salted
// hashes protect secrets that can be guessed, and 256 random bits cannot.
type digest [sha256.Size]byte

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }

// CheckUser checks the name of a user: 1 to 64 lower-case letters, digits and
// ". _ - @", beginning with a letter or digit (user_invalid).
func CheckUser(name string) error {
	ok := name != "" && len(name) <= 64
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		letter := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		ok = letter || i > 0 && strings.IndexByte("._-@", c) >= 0
	}
	if !ok {
		return fault.New(fault.Invalid, "user_invalid", "invalid user name %.80q", name).
			WithHint("use 1 to 64 lower-case letters, digits and . _ - @, beginning with a letter or digit")
	}
	return nil
}

// reserved are names that nobody can have: a record or a message would look as if it came from Steward,
// from a model or from everybody.
var reserved = []string{"all", "anonymous", "anyone", "assistant", "developer", "everybody", "everyone", "me", "model", "owner", "root",
	"steward", "system", "tool", "user"}

func isReserved(name string) bool {
	plain := strings.Trim(name, "._-@")
	return slices.Contains(reserved, plain) || slices.Contains(Roles(), plain) || plain == Local && name != Local
}

// checkNamed checks the name of a user who gets an account, a key or a group: CheckUser, and that the
// name is not reserved (user_reserved). A user who has such a name from before keeps it.
func (r *Registry) checkNamed(ctx context.Context, name string) error {
	if err := CheckUser(name); err != nil || !isReserved(name) {
		return err
	}
	_, version, err := r.account(ctx, name)
	if err != nil || version > 0 {
		return err
	}
	return fault.New(fault.Invalid, "user_reserved", "the user name %q is reserved", name).
		WithHint("choose another name, such as the first name of the person")
}
