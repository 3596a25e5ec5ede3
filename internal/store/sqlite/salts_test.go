package sqlite

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"steward/internal/store"
)

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
