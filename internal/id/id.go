// Package id makes and reads identifiers: UUIDs of version 7 for what is new,
// and of version 8 for what is derived from something that exists. Ids
// identify; they never order.
package id

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// ID is a UUID (RFC 9562). The zero value means "none".
type ID [16]byte

// New returns a fresh UUID of version 7. Safe for concurrent use.
func New() ID {
	var u ID
	rand.Read(u[6:]) // never fails (crypto/rand)
	ms := uint64(time.Now().UnixMilli())
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	return u.mark(7)
}

// Derive returns the UUID of version 8 that belongs to these parts: the same
// parts give the same id, always and on every machine.
func Derive(parts ...string) ID {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		for i := range n {
			n[i] = byte(uint64(len(p)) >> (56 - 8*i))
		}
		h.Write(n[:])
		h.Write([]byte(p))
	}
	var u ID
	copy(u[:], h.Sum(nil))
	return u.mark(8)
}

func (u ID) mark(version byte) ID {
	u[6] = u[6]&0x0f | version<<4
	u[8] = u[8]&0x3f | 0x80
	return u
}

// Derived reports whether u was made by Derive.
func (u ID) Derived() bool { return u[6]>>4 == 8 }

// Zero reports whether u is the zero id.
func (u ID) Zero() bool { return u == ID{} }

// String returns the canonical lower-case form, or "" for the zero id.
func (u ID) String() string {
	if u.Zero() {
		return ""
	}
	var t [36]byte
	return string(u.AppendText(t[:0]))
}

// AppendText appends the canonical form to b.
func (u ID) AppendText(b []byte) []byte {
	var t [36]byte
	hex.Encode(t[:8], u[0:4])
	t[8], t[13], t[18], t[23] = '-', '-', '-', '-'
	hex.Encode(t[9:13], u[4:6])
	hex.Encode(t[14:18], u[6:8])
	hex.Encode(t[19:23], u[8:10])
	hex.Encode(t[24:], u[10:16])
	return append(b, t[:]...)
}

// MarshalText implements encoding.TextMarshaler, with String's form.
func (u ID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (u *ID) UnmarshalText(b []byte) error {
	v, ok := Parse(string(b))
	if !ok && len(b) > 0 {
		return errors.New("an id is a UUID in lower case")
	}
	*u = v
	return nil
}

// Parse reads the canonical lower-case form. It reports false for everything
// else, upper-case digits too, so that an id has one spelling only.
func Parse(s string) (ID, bool) {
	var u ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, false
	}
	n := 0
	for i := 0; i < 36; {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			i++
			continue
		}
		hi, lo := digit(s[i]), digit(s[i+1])
		if hi > 15 || lo > 15 {
			return ID{}, false
		}
		u[n] = hi<<4 | lo
		n++
		i += 2
	}
	return u, true
}

func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}
