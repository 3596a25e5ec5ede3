package sqlite

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/store"
)

// punctured forgets one salt as an older Steward did.
func punctured(s salts, i int) (out salts) {
	leaf := uint16(store.SealSize + i)
	for _, n := range s {
		depth := bits.Len16(leaf) - bits.Len16(n.at)
		if depth < 0 || leaf>>depth != n.at {
			out = append(out, n)
			continue
		}
		for depth > 0 {
			depth--
			side := leaf >> depth & 1
			out = append(out, n.child(1-side))
			n = n.child(side)
		}
	}
	return out
}

// What is left when some were forgotten is what was there before, whoever
// forgot them; and its stored form is the same.
func TestSalts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSalts()
		want := *s.leaves()
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, store.SealSize-1), 0, 40).Draw(t, "forgotten") {
			if rapid.Bool().Draw(t, "by an older Steward") {
				s = punctured(s, i)
			} else {
				s = s.without([]int{i})
			}
			want[i] = nil
		}
		again := must(decodeSalts(s.encode()))
		got := again.leaves()
		for i, w := range want {
			if (got[i] == nil) != (w == nil) || w != nil && *got[i] != *w {
				t.Fatalf("salt %d is %v, was %v", i, got[i], w)
			}
		}
	})
}

func FuzzSalts(f *testing.F) {
	f.Add([]byte{})
	f.Add(newSalts().encode())
	f.Add(newSalts().without([]int{7}).encode())
	f.Add(punctured(newSalts(), 7).encode())
	f.Add(make([]byte, 18))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSalts(b)
		if err != nil {
			return
		}
		s.leaves()
		if again := s.encode(); !bytes.Equal(again, b) {
			t.Errorf("%x becomes %x", b, again)
		}
	})
}

// The salts of what is erased are nowhere in the files any more, and those of
// the others can be derived.
func TestErasedSaltsAreGone(t *testing.T) {
	t.Parallel()
	s := open1(t, dbPath(t))
	for i := range 600 {
		commit(t, s, put(conv(fmt.Sprint(i)), "x"))
	}
	if _, err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	proofs := func() (out []store.Sealed) {
		for p, err := range s.Sealed(t.Context(), ada, 0) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, p)
		}
		return out
	}
	before := proofs()
	keys := func() (out [][]byte) {
		c := must(s.openReader())
		defer c.close()
		st := c.prepare("SELECT key FROM salt WHERE key NOT NULL ORDER BY id")
		defer st.reset()
		for {
			ok := must(st.step())
			if !ok {
				return out
			}
			out = append(out, bytes.Clone(st.view(0)))
		}
	}
	was := keys()
	if len(was) != 3 {
		t.Fatalf("%d seals", len(was))
	}
	for round, i := range []int{3, 4, 300, 3 + 256, 599, 0} {
		commit(t, s, store.Change{Op: store.Erase, URI: conv(fmt.Sprint(i))})
		all := files(t, s)
		root := was[i/256]
		if bytes.Contains(all, root[2:]) {
			t.Fatalf("round %d: what the salt was derived from is there still", round)
		}
		p := proofs()
		if p[i].Salt != nil || p[i].Mark != before[i].Mark || p[i].Body != nil {
			t.Errorf("entry %d: %+v", i, p[i])
		}
		if p[(i+1)%600].Salt == nil && !slices.Contains([]int{3, 4, 300, 259, 599, 0}, (i+1)%600) {
			t.Errorf("entry %d has lost its salt", i+1)
		}
	}
	if v, err := s.Verify(t.Context()); err != nil || v.Flaw != nil || v.Erased != 6 {
		t.Errorf("%+v %+v, %v", v, v.Flaw, err)
	}
}
