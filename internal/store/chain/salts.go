package chain

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"steward/internal/store"
)

// Salts are the source of the salts of a seal's entries. As long as nothing under
// the seal was erased, that is one random key, from which all salts are derived:
// it is the root of a binary tree whose leaves are the salts, and each node's
// children are derived from it by a hash. The first erasure destroys the key, and
// the remaining salts are stored one by one. (Older versions stored instead the
// nodes beside the paths to the erased leaves; these can still be read.)
//
// Hashing the key with the number of the entry would do today. The tree stays,
// because each seal of each log is read through it: another derivation would be
// a second stored form, with a migration, and would remove nothing.
type Salts []node

// node is a node by its number in heap order: the root is 1, the children of
// n are 2n and 2n+1, and the leaves start at SealSize.
type node struct {
	at  uint16
	key store.Salt
}

// tagSalt starts the text from which children are hashed.
const tagSalt byte = 0x10

// NewSalts returns the salts of a new seal.
func NewSalts() Salts {
	root := node{at: 1}
	rand.Read(root.key[:]) // never fails
	return Salts{root}
}

func (n node) child(side uint16) node {
	var b [2 + len(n.key)]byte
	b[0], b[1] = tagSalt, byte(side)
	copy(b[2:], n.key[:])
	sum := sha256.Sum256(b[:])
	return node{at: 2*n.at + side, key: store.Salt(sum[:len(n.key)])}
}

// Leaves derives the salts; those that were destroyed are nil.
func (s Salts) Leaves() *[store.SealSize]*store.Salt {
	out, room := new([store.SealSize]*store.Salt), make([]store.Salt, store.SealSize)
	var walk func(node)
	walk = func(n node) {
		if n.at >= store.SealSize {
			i := n.at - store.SealSize
			room[i] = n.key
			out[i] = &room[i]
			return
		}
		walk(n.child(0))
		walk(n.child(1))
	}
	for _, n := range s {
		walk(n)
	}
	return out
}

// Without returns the salts except some that are to be destroyed; s itself is not
// changed.
func (s Salts) Without(gone []int) Salts {
	leaves := s.Leaves()
	for _, i := range gone {
		leaves[i] = nil
	}
	var out Salts
	for i, l := range leaves {
		if l != nil {
			out = append(out, node{at: uint16(store.SealSize + i), key: *l})
		}
	}
	return out
}

// Encode writes two bytes and the key of each node. If all salts were destroyed,
// it returns an empty blob, which differs from NULL (none recorded).
func (s Salts) Encode() []byte {
	b := make([]byte, 0, len(s)*(2+len(store.Salt{})))
	for _, n := range s {
		b = binary.BigEndian.AppendUint16(b, n.at)
		b = append(b, n.key[:]...)
	}
	return b
}

// ErrSalts means that the salts of a seal cannot be read.
var ErrSalts = errors.New("the salts of a seal are damaged")

// DecodeSalts reads what Encode has written.
func DecodeSalts(b []byte) (Salts, error) {
	const size = 2 + len(store.Salt{})
	if len(b)%size != 0 || len(b)/size > store.SealSize {
		return nil, ErrSalts
	}
	var out Salts
	for ; len(b) > 0; b = b[size:] {
		n := node{at: binary.BigEndian.Uint16(b), key: store.Salt(b[2:size])}
		if n.at == 0 || n.at >= 2*store.SealSize {
			return nil, ErrSalts
		}
		out = append(out, n)
	}
	return out, nil
}
