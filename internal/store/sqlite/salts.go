package sqlite

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"steward/internal/store"
)

// salts are what the salts of a seal's entries are made of. As long as nothing
// of the seal was erased that is one random key, from which they are derived:
// the root of a binary tree whose leaves are the salts, each node giving its two
// children by a hash. With the first erasure the key goes, and the salts that
// are left stand for themselves. (An older Steward kept, instead of them, the
// nodes beside the paths to those that went; these are read as well.)
type salts []saltNode

// saltNode is a node by its number in a heap: the root is 1, the children of n
// are 2n and 2n+1, the leaves are SealSize and what follows.
type saltNode struct {
	at  uint16
	key store.Salt
}

// tagSalt begins what children are hashed from.
const tagSalt byte = 0x10

func newSalts() salts {
	root := saltNode{at: 1}
	rand.Read(root.key[:]) // never fails
	return salts{root}
}

func (n saltNode) child(side uint16) saltNode {
	var b [2 + len(n.key)]byte
	b[0], b[1] = tagSalt, byte(side)
	copy(b[2:], n.key[:])
	sum := sha256.Sum256(b[:])
	return saltNode{at: 2*n.at + side, key: store.Salt(sum[:len(n.key)])}
}

// leaves derives the salts; nil are those that were forgotten.
func (s salts) leaves() *[store.SealSize]*store.Salt {
	out, room := new([store.SealSize]*store.Salt), make([]store.Salt, store.SealSize)
	var walk func(saltNode)
	walk = func(n saltNode) {
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

// without returns the salts with some forgotten; s itself is not changed.
func (s salts) without(gone []int) salts {
	leaves := s.leaves()
	for _, i := range gone {
		leaves[i] = nil
	}
	var out salts
	for i, l := range leaves {
		if l != nil {
			out = append(out, saltNode{at: uint16(store.SealSize + i), key: *l})
		}
	}
	return out
}

// encode gives two bytes and the key of each node. All forgotten is not none
// recorded: it is an empty blob, and not NULL.
func (s salts) encode() []byte {
	b := make([]byte, 0, len(s)*(2+len(store.Salt{})))
	for _, n := range s {
		b = binary.BigEndian.AppendUint16(b, n.at)
		b = append(b, n.key[:]...)
	}
	return b
}

var errSalts = errors.New("the salts of a seal are damaged")

func decodeSalts(b []byte) (salts, error) {
	const size = 2 + len(store.Salt{})
	if len(b)%size != 0 || len(b)/size > store.SealSize {
		return nil, errSalts
	}
	var out salts
	for ; len(b) > 0; b = b[size:] {
		n := saltNode{at: binary.BigEndian.Uint16(b), key: store.Salt(b[2:size])}
		if n.at == 0 || n.at >= 2*store.SealSize {
			return nil, errSalts
		}
		out = append(out, n)
	}
	return out, nil
}
