package sandbox

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"steward/internal/fault"
)

// gauge measures the size of a program's own folder while the program runs.
type gauge struct {
	dir  string
	most int64
	next time.Time // when to measure again: measuring itself takes time
}

// minEntry is the least size that a file or folder counts, because it takes up that much on
// disk.
const minEntry = 4 << 10

// newGauge measures a folder once: a program whose folder is full does not start.
func newGauge(dir string, limit int64) (*gauge, error) {
	if dir == "" {
		return nil, nil
	}
	g := &gauge{dir: dir, most: limit}
	if g.full() {
		return nil, g.err()
	}
	return g, nil
}

// size returns the total size of the folder.
func (g *gauge) size() int64 {
	var sum int64
	_ = filepath.WalkDir(g.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed during the walk
		}
		if info, err := d.Info(); err == nil {
			sum += max(minEntry, info.Sys().(*syscall.Stat_t).Blocks*512)
		}
		return nil
	})
	return sum
}

// full reports whether the folder exceeds its limit. Measuring takes at most a tenth of the time.
func (g *gauge) full() bool {
	began := time.Now()
	if g == nil || began.Before(g.next) {
		return false
	}
	over := g.size() > g.most
	now := time.Now()
	g.next = now.Add(9 * now.Sub(began))
	return over
}

func (g *gauge) err() error {
	return fault.New(fault.Exhausted, "data_exceeded", "the program has more than %d MiB in its own folder", g.most>>20).
		WithHint("delete unneeded files from %s, or raise the limit data in its sandbox", g.dir)
}
