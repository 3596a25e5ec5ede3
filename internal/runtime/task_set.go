package runtime

import (
	"sync"

	"steward/internal/id"
)

// tasks are the calls that go on after their turn was told "accepted", and
// what is known in memory of the requests that are open.
type tasks struct {
	mu   sync.Mutex
	live map[id.ID]*task    // by the task's id
	rows map[id.ID]struct{} // interactions below which requests are recorded

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
