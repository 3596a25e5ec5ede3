//go:build long

package year

import (
	"os"
	"strconv"
	"testing"
)

// TestAYear lives a whole year. YEAR_SEED makes up another life, YEAR_TALKS makes it shorter.
func TestAYear(t *testing.T) {
	seed, talks := number("YEAR_SEED", 1), number("YEAR_TALKS", 2000)
	t.Run("model", func(t *testing.T) { year(t, uint64(seed), talks, 50, true).atLeast(t, 90) })
	t.Run("none", func(t *testing.T) { year(t, uint64(seed), talks, 50, false).atLeast(t, 65) })
	t.Run("import", func(t *testing.T) { imported(t, uint64(seed), talks, 50).atLeast(t, 90) })
}

func number(name string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return usual
}

// atLeast checks how many of 100 questions rest on what is true, and that few rest on anything else.
func (r result) atLeast(t *testing.T, want int) {
	t.Helper()
	if r[right]+r[dated] < want || r[outdated] > 2 || r[poisoned]+r[forgotten] > 0 {
		t.Errorf("%s; want at least %d right", r, want)
	}
}
