package fault_test

import (
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	_ "steward/test/seed"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"abc", "abc", 0}, {"", "abc", 3}, {"abc", "", 3},
		{"kitten", "sitting", 3}, {"lisetn", "listen", 1}, {"ab", "ba", 1}, {"abc", "xyz", 3},
	} {
		if got := fault.Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestDistanceIsSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.StringN(0, 200, -1).Draw(t, "a"), rapid.StringN(0, 200, -1).Draw(t, "b")
		if x, y := fault.Distance(a, b), fault.Distance(b, a); x != y {
			t.Fatalf("%d and %d", x, y)
		}
	})
}
