package vector

import "sync"

// due are the spaces that may have something to embed, or that this process does not hold. Without it, each message of one person would cost a look at the
// spaces of all. It is kept in memory only: after the file was opened, all spaces are due. Safe for concurrent use.
type due struct {
	mu     sync.Mutex
	spaces spaces
	model  string // that was wanted last
}

// spaces are some spaces by their numbers, or all.
type spaces struct {
	all bool
	ids map[int64]bool
}

func (s *spaces) add(ids ...int64) {
	if s.ids == nil {
		s.ids = map[int64]bool{}
	}
	for _, id := range ids {
		s.ids[id] = true
	}
}

// everything makes all spaces due.
func (d *due) everything() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spaces = spaces{all: true}
}

// add makes spaces due: the log had something about them.
func (d *due) add(ids []int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spaces.add(ids...)
}

// take returns the spaces that are due, and none is any more. All are if another model is wanted than before, or if
// what was held back is to be tried again.
func (d *due) take(model string, again bool) spaces {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.spaces
	if again || model != d.model {
		taken = spaces{all: true}
	}
	d.spaces, d.model = spaces{}, model
	return taken
}

// putBack makes spaces due again that could not be finished.
func (d *due) putBack(s spaces) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spaces.all = d.spaces.all || s.all
	for id := range s.ids {
		d.spaces.add(id)
	}
}
