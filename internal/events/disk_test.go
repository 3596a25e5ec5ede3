package events

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/store/sqlite"
)

// The same over the real store.
func TestToldIsTheLogOnDisk(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		if n > 10 { // a database each time
			return
		}
		st, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(dir, strconv.Itoa(n))})
		if err != nil {
			rt.Fatal(err)
		}
		defer st.Close()
		toldIsTheLog(t, rt, st)
	})
}
