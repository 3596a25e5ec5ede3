package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/fault"
	"steward/internal/store"
)

// Bounds of a group. Jobs beyond them wait for the next one.
const (
	groupBatches = 512
	groupBytes   = 16 << 20
)

// writer is the single goroutine that writes, and its queue.
type writer struct {
	s *Store
	c *conn
	p *planner

	mu      sync.Mutex
	queue   []*pendingCommit
	closing bool
	wake    chan struct{} // holds a token if there may be work
	gone    chan struct{} // closed when the goroutine has ended

	held []*pendingCommit // committed erasures that are not acknowledged yet because of a reader
}

// pendingCommit is a queued batch. state decides the race between the writer that takes it
// and the caller that gives up.
type pendingCommit struct {
	scope   store.Scope
	batch   store.Batch
	bytes   int
	seal    bool      // no batch: seal everything
	until   time.Time // of a held erasure: it is answered by then in any case
	queued  time.Time
	state   atomic.Int32
	done    chan struct{}
	receipt store.Receipt
	err     error
}

const (
	waiting int32 = iota
	taken
	withdrawn
)

func newWriter(s *Store, c *conn) (*writer, error) {
	w := &writer{s: s, c: c, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	w.p = newPlanner(c, s)
	if err := w.p.reload(); err != nil {
		return nil, err
	}
	s.news.publish(w.p.committed)
	return w, nil
}

func (w *writer) start() {
	w.nudge() // the end of the log may not be sealed yet
	go w.loop()
}

// stop drains the queue and ends the goroutine. It must be called only once.
func (w *writer) stop() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.nudge()
	<-w.gone
}

func (w *writer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Commit implements store.Store. Once the writer has taken the batch, Commit
// waits for its outcome even if ctx ends. So an error for a cancelled context
// means that nothing was written.
func (s *Store) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	j := &pendingCommit{scope: sc, batch: b, done: make(chan struct{})}
	if err := s.enqueue(ctx, j); err != nil {
		return store.Receipt{}, err
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		if j.state.CompareAndSwap(waiting, withdrawn) {
			return store.Receipt{}, ctx.Err()
		}
		<-j.done
	}
	return j.receipt, j.err
}

// enqueue checks what can be checked without the database, and queues the commit.
func (s *Store) enqueue(ctx context.Context, j *pendingCommit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := j.scope.CanWrite(); err != nil {
		return err
	}
	if err := j.batch.Check(); err != nil {
		return err
	}
	if s.writer == nil {
		return fault.New(fault.Unavailable, "store_read_only", "%s is open read-only", s.path).
			WithHint("write through the Steward that serves this data")
	}
	if s.mask != nil {
		s.hide(&j.batch)
	}
	for i := range j.batch.Changes {
		c := &j.batch.Changes[i]
		if len(c.Body) > maxBlob {
			return fault.New(fault.TooLarge, "body_too_large",
				"the body of %s exceeds the limit of the store (%d MB)", c.URI, maxBlob>>20)
		}
		j.bytes += len(c.Body)
	}
	return s.writer.add(j)
}

// hide masks the secrets in a batch without modifying the caller's changes.
func (s *Store) hide(b *store.Batch) {
	own := false
	for i, c := range b.Changes {
		masked := s.mask(c.Body)
		if bytes.Equal(masked, c.Body) {
			continue
		}
		if !own {
			b.Changes, own = slices.Clone(b.Changes), true
		}
		b.Changes[i].Body = masked
		s.log.Warn("masked a secret before recording it", "uri", c.URI.String())
	}
}

func (w *writer) add(j *pendingCommit) error {
	w.mu.Lock()
	if w.closing {
		w.mu.Unlock()
		return closed()
	}
	j.queued = time.Now()
	w.queue = append(w.queue, j)
	first := len(w.queue) == 1
	w.mu.Unlock()
	if first {
		w.nudge()
	}
	return nil
}

func (w *writer) loop() {
	defer close(w.gone)
	var group []*pendingCommit
	for {
		w.wait()
		for {
			var closing bool
			group, closing = w.take(group[:0])
			if len(group) > 0 {
				w.commit(group)
				clear(group)
				continue
			}
			if !closing && w.p.seal.behind(w.p.committed) && w.sealSome() {
				continue
			}
			if closing {
				w.sealSome()
				w.scrub()
				w.acknowledge(time.Now().Add(eraseWait)) // Close empties the write-ahead log at the latest
				return
			}
			break
		}
	}
}

// The delay before the next attempt when a reader blocks an erasure, and the
// longest wait for the acknowledgement of an erasure.
const (
	scrubAgain = 20 * time.Millisecond
	eraseWait  = 30 * time.Second
)

// wait returns when there may be work. Until then it does background work such as
// sealing.
func (w *writer) wait() {
	for w.p.erased || w.p.seal.pending() {
		rest := sealEvery
		if w.p.erased {
			rest = scrubAgain
		}
		select {
		case <-w.wake:
			return
		case <-time.After(rest):
			w.scrub()
			if !w.p.seal.due() {
				continue
			}
			if !w.sealSome() {
				<-w.wake
				return
			}
		}
	}
	<-w.wake
}

// sealSome seals the entries of the last commits and some older ones. It reports
// whether it succeeded.
func (w *writer) sealSome() bool {
	j := &pendingCommit{seal: true}
	if !w.p.seal.pending() && !w.p.seal.behind(w.p.committed) {
		return true
	}
	err := w.try([]*pendingCommit{j})
	if err != nil {
		w.s.log.Warn("cannot seal the log; retrying with the next change", "error", err)
	}
	return err == nil && j.err == nil
}

// scrub checkpoints an erasure into the database file, truncates the write-ahead
// log, and then acknowledges the waiting erasures. It cannot while a reader uses
// an earlier snapshot; then it is retried soon, and Close does it at the latest.
func (w *writer) scrub() {
	if !w.p.erased {
		w.acknowledge(time.Now())
		return
	}
	busy, err := w.checkpoint()
	if err != nil {
		w.s.log.Warn("erased data may remain in the write-ahead log for a while", "error", err)
	}
	if err == nil && !busy {
		err = w.emptied()
	}
	w.p.erased = busy || err != nil
	w.acknowledge(time.Now())
}

// emptied checks that the write-ahead log's file is empty.
func (w *writer) emptied() error {
	st, err := os.Stat(w.s.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && st.Size() > 0 {
		err = fmt.Errorf("the write-ahead log still holds %d bytes", st.Size())
	}
	return err
}

// acknowledge answers the erasures that have reached the database file, and those
// that have waited too long.
func (w *writer) acknowledge(now time.Time) {
	w.held = slices.DeleteFunc(w.held, func(j *pendingCommit) bool {
		if w.p.erased && now.Before(j.until) {
			return false
		}
		if w.p.erased {
			j.err = fault.New(fault.Unavailable, "erasure_unfinished",
				"it is deleted, but another program is reading %s, so its text may remain in the write-ahead log", w.s.path).
				WithHint("stop the program that reads the database, such as a backup; Steward then completes the erasure")
		}
		close(j.done)
		return true
	})
}

func (w *writer) checkpoint() (busy bool, err error) {
	w.c.db.SetBusyTimeout(0)
	defer w.c.db.SetBusyTimeout(busyTimeout)
	n, err := w.c.number("PRAGMA wal_checkpoint(TRUNCATE)")
	return n != 0, err
}

// take moves queued jobs into the group, up to its bounds.
func (w *writer) take(group []*pendingCommit) ([]*pendingCommit, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, bytes := 0, 0
	for _, j := range w.queue {
		if len(group) > 0 && (len(group) == groupBatches || bytes+j.bytes > groupBytes) {
			break
		}
		n++
		if j.state.CompareAndSwap(waiting, taken) {
			group = append(group, j)
			bytes += j.bytes
		}
	}
	rest := copy(w.queue, w.queue[n:])
	clear(w.queue[rest:])
	w.queue = w.queue[:rest]
	return group, w.closing
}

// commit executes a group in one transaction. If SQLite fails, each batch is
// retried alone, so that none fails because of another.
func (w *writer) commit(group []*pendingCommit) {
	err := w.try(group)
	if err != nil && len(group) > 1 {
		w.s.log.Warn("group commit failed; committing its batches one by one", "batches", len(group), "error", err)
		for i, j := range group {
			if err = w.try(group[i : i+1]); err != nil {
				j.receipt, j.err = store.Receipt{}, coded(w.s.path, err)
			}
		}
	} else if err != nil {
		group[0].receipt, group[0].err = store.Receipt{}, coded(w.s.path, err)
	}
	w.s.full.Store(fault.HasCode(coded(w.s.path, err), "disk_full"))
	w.s.news.publish(w.p.committed)
	w.s.counts.Group(len(group))
	for _, j := range group {
		w.s.counts.Commit(time.Since(j.queued), j.err != nil && fault.Of(j.err).Kind == fault.Conflict, j.err)
		if j.err == nil && w.s.wrote != nil {
			w.s.wrote(j.scope, len(j.batch.Changes), int64(j.bytes))
		}
		if j.err == nil && slices.ContainsFunc(j.batch.Changes, func(c store.Change) bool { return c.Op == store.Erase }) {
			j.until = time.Now().Add(eraseWait)
			w.held = append(w.held, j)
			continue
		}
		close(j.done)
	}
	w.scrub()
}

// try runs one transaction. If it fails, it leaves nothing behind in the database
// or in memory.
func (w *writer) try(group []*pendingCommit) error {
	if w.p.stale {
		if err := w.p.reload(); err != nil {
			return err
		}
	}
	err := w.transact(group)
	if err == nil {
		return nil
	}
	if w.c.inTransaction() {
		err = errors.Join(err, w.c.exec("ROLLBACK"))
	}
	w.p.drop()
	return err
}

func (w *writer) transact(group []*pendingCommit) error {
	if err := w.c.prepare("BEGIN IMMEDIATE").run(); err != nil {
		return err
	}
	w.p.begin(time.Now())
	if err := w.p.beginSeal(slices.ContainsFunc(group, func(j *pendingCommit) bool { return j.seal })); err != nil {
		return err
	}
	for _, j := range group {
		if j.seal {
			j.err = w.p.seal.fault()
			continue
		}
		var err error
		if j.receipt, err = w.p.apply(j.scope, &j.batch); err != nil {
			if refused(err) {
				j.err = err
				continue
			}
			return err
		}
		j.err = nil
	}
	if err := w.p.flush(); err != nil {
		return err
	}
	if err := w.c.prepare("COMMIT").run(); err != nil {
		return err
	}
	w.p.keep()
	return nil
}

// refused reports whether err is the answer to one batch rather than a failure of
// the store.
func refused(err error) bool {
	var f *fault.Error
	return errors.As(err, &f)
}
