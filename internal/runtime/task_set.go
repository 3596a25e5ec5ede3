package runtime

import (
	"sync"

	"steward/internal/id"
)

// tasks are the calls that go on after their turn was told "accepted", and
// what is known in memory of the requests that are open.
type tasks struct {
	mu   sync.Mutex
	live map[id.ID]*task                      // by the task's id
	rows map[id.ID]struct{}                   // interactions below which requests are recorded
	ends map[id.ID]map[chan struct{}]struct{} // by interaction: who waits for its run to end

	settling map[id.ID]*settling // by interaction: whose queued actions are being done

	wishing sync.Mutex // one wish at a time is taken up
}

// note says that requests are recorded below an interaction.
func (t *tasks) note(inter id.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows == nil {
		t.rows = map[id.ID]struct{}{}
	}
	t.rows[inter] = struct{}{}
}

func (t *tasks) noted(inter id.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.rows[inter]
	return ok
}

func (t *tasks) forget(inter id.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, inter)
}

// await returns a channel that is closed when the run of an interaction has
// ended, and what lets go of it.
func (t *tasks) await(inter id.ID) (<-chan struct{}, func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ends == nil {
		t.ends = map[id.ID]map[chan struct{}]struct{}{}
	}
	if t.ends[inter] == nil {
		t.ends[inter] = map[chan struct{}]struct{}{}
	}
	ch := make(chan struct{})
	t.ends[inter][ch] = struct{}{}
	return ch, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if delete(t.ends[inter], ch); len(t.ends[inter]) == 0 {
			delete(t.ends, inter)
		}
	}
}

func (t *tasks) ended(inter id.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ch := range t.ends[inter] {
		close(ch)
	}
	delete(t.ends, inter)
}

func (t *tasks) add(x *task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live == nil {
		t.live = map[id.ID]*task{}
	}
	t.live[x.id] = x
}

func (t *tasks) remove(x *task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.live, x.id)
}

func (t *tasks) get(own id.ID) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live[own]
}

func (t *tasks) all() []*task {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*task, 0, len(t.live))
	for _, x := range t.live {
		out = append(out, x)
	}
	return out
}
