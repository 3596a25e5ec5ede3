package sandbox

import "time"

// How often a program's usage is checked: often while it grows, seldom while it is steady.
const (
	watchLeast = 20 * time.Millisecond
	watchMost  = 500 * time.Millisecond
)

// watch compares the usage of a program and all its children with its limits, which the kernel
// enforces only for single processes.
type watch struct {
	root   int
	around bool // the root is Steward's own executable, and does not count
	limits Limits
	data   *gauge
	end    func(error)
	quit   chan struct{}
	done   chan struct{}
}

// newWatch returns a watch that is not running yet.
func newWatch(root int, around bool, l Limits, data *gauge, end func(error)) *watch {
	return &watch{root: root, around: around, limits: l, data: data, end: end,
		quit: make(chan struct{}), done: make(chan struct{})}
}

// stop ends the watching.
func (w *watch) stop() {
	close(w.quit)
	<-w.done
}

func (w *watch) run() {
	defer close(w.done)
	pause := watchLeast
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var before usage
	for {
		select {
		case <-w.quit:
			return
		case <-timer.C:
		}
		now := w.measure()
		if err := w.judge(now); err != nil {
			go w.end(err) // in the background, because end waits for this watch
			return
		}
		if pause = min(2*pause, watchMost); now.grew(before) {
			pause = watchLeast
		}
		before = now
		timer.Reset(pause)
	}
}

// usage is the usage of a program and its children.
type usage struct {
	memory  int64 // bytes, as each process counts for itself
	cpu     time.Duration
	threads int
	pids    []int
}

func (u usage) grew(before usage) bool {
	return u.threads > before.threads || u.memory > before.memory+1<<20 || u.cpu > before.cpu+20*time.Millisecond
}

func (w *watch) measure() usage {
	var u usage
	for _, p := range tree(w.root) {
		if w.around && p.pid == w.root {
			continue
		}
		u.pids = append(u.pids, p.pid)
		u.cpu += p.cpu
		u.threads += p.threads
		u.memory += memoryOf(p.pid)
	}
	return u
}

// judge returns the error of the limit that was exceeded.
func (w *watch) judge(u usage) error {
	switch {
	case u.threads > w.limits.Processes+1:
		return exceeded("processes", "%d processes and threads", w.limits.Processes)
	case w.limits.CPU > 0 && u.cpu > w.limits.CPU:
		return exceeded("cpu", "%v of CPU time", w.limits.CPU)
	case u.memory > w.limits.Memory && shared(u) > w.limits.Memory:
		return exceeded("memory", "%d MiB of memory", w.limits.Memory>>20)
	case w.data.full():
		return w.data.err()
	}
	return nil
}

// shared returns the memory use with shared memory counted once. It is slow, so it is called only
// if the plain sum is over the limit.
func shared(u usage) int64 {
	var sum int64
	for _, pid := range u.pids {
		if part, ok := proportional(pid); ok {
			sum += part
		} else {
			sum += memoryOf(pid)
		}
	}
	return sum
}
