package chain

import (
	"bytes"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/store"
	_ "steward/test/seed"
)

// punctured forgets one salt as an older Steward did.
func punctured(s Salts, i int) (out Salts) {
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
		s := NewSalts()
		want := *s.Leaves()
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, store.SealSize-1), 0, 40).Draw(t, "forgotten") {
			if rapid.Bool().Draw(t, "by an older Steward") {
				s = punctured(s, i)
			} else {
				s = s.Without([]int{i})
			}
			want[i] = nil
		}
		again, err := DecodeSalts(s.Encode())
		if err != nil {
			t.Fatal(err)
		}
		got := again.Leaves()
		for i, w := range want {
			if (got[i] == nil) != (w == nil) || w != nil && *got[i] != *w {
				t.Fatalf("salt %d is %v, was %v", i, got[i], w)
			}
		}
	})
}

func FuzzSalts(f *testing.F) {
	f.Add([]byte{})
	f.Add(NewSalts().Encode())
	f.Add(NewSalts().Without([]int{7}).Encode())
	f.Add(punctured(NewSalts(), 7).Encode())
	f.Add(make([]byte, 18))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSalts(b)
		if err != nil {
			return
		}
		s.Leaves()
		if again := s.Encode(); !bytes.Equal(again, b) {
			t.Errorf("%x becomes %x", b, again)
		}
	})
}
