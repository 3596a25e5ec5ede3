package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// Bounds of a group. Jobs beyond them wait for the next one.
const (
	groupBatches = 512
	groupBytes   = 16 << 20
)

// closingPatience is how long Close waits for a server that is away.
const closingPatience = 2 * time.Second

// writer is the single goroutine of this node that writes, its queue and its
// connection.
type writer struct {
	s      *Store
	conn   *pgx.Conn       // nil: to be opened
	spaces map[string]bool // spaces that are in the table

	mu      sync.Mutex
	queue   []*pendingCommit
	closing bool
	refused error         // store_in_use: another Steward has the store; only the goroutine changes it
	since   time.Time     // when closing began
	wake    chan struct{} // holds a token if there may be work
	gone    chan struct{} // closed when the goroutine has ended
}

// pendingCommit is a queued batch. state decides the race between the writer that
// takes it and the caller that gives up.
type pendingCommit struct {
	scope   store.Scope
	batch   store.Batch
	bytes   int
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

func newWriter(s *Store) *writer {
	return &writer{s: s, spaces: make(map[string]bool), wake: make(chan struct{}, 1), gone: make(chan struct{})}
}

// stop drains the queue and ends the goroutine. It must be called only once.
func (w *writer) stop() {
	w.mu.Lock()
	w.closing, w.since = true, time.Now()
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
		return fault.New(fault.Unavailable, "store_read_only", "the database is open read-only").
			WithHint("write through the Steward that serves this data")
	}
	if s.mask != nil {
		s.hide(&j.batch)
	}
	if !isText(string(j.scope.Write)) || !isText(j.scope.Actor) {
		return unfit(resource.URI{}, "the name of its space or actor")
	}
	for i := range j.batch.Changes {
		c := &j.batch.Changes[i]
		if why := unfitting(c); why != "" {
			return unfit(c.URI, why)
		}
		if len(c.Body) > maxBody {
			return fault.New(fault.TooLarge, "body_too_large",
				"the body of %s exceeds the limit of the store (%d MB)", c.URI, maxBody>>20)
		}
		j.bytes += len(c.Body)
	}
	return s.writer.add(j)
}

// unfitting says what of a change PostgreSQL cannot store.
func unfitting(c *store.Change) string {
	switch {
	case len(c.URI.Key()) > maxKey || c.Place != nil && len(c.Place.List.Key()) > maxKey:
		return "a URI"
	case !isText(c.State):
		return "a state"
	case slices.ContainsFunc(c.Terms, func(t store.Term) bool { return !isText(t.Name) }):
		return "the name of a term"
	}
	return ""
}

func unfit(u resource.URI, what string) error {
	return fault.New(fault.Invalid, "batch_invalid", "PostgreSQL cannot store %s: %s is too long or no text", u, what).
		WithHint("use a shorter one, without zero bytes")
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

func (w *writer) loop(check time.Duration) {
	defer close(w.gone)
	defer w.disconnect()
	tick := time.NewTicker(check)
	defer tick.Stop()
	var group []*pendingCommit
	for {
		var over bool
		group, over = w.take(group[:0])
		if len(group) > 0 {
			w.commit(group)
			clear(group)
			continue
		}
		if over {
			return
		}
		select {
		case <-w.wake:
		case <-tick.C:
			w.check()
		}
	}
}

// check finds out whether the session is still there, and takes the lock of the
// store again if it is not.
func (w *writer) check() {
	ctx, cancel := context.WithTimeout(w.s.ctx, connectLimit)
	defer cancel()
	if w.conn != nil && w.conn.Ping(ctx) != nil {
		w.disconnect()
	}
	before := w.refused
	if err := w.connect(ctx, 0); err != nil && before == nil && w.s.ctx.Err() == nil {
		w.s.log.Warn("the session that commits has ended; trying again", "error", err)
	}
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

// commit executes a group in one transaction. If PostgreSQL refuses it, each batch
// is tried alone, so that none fails because of another.
func (w *writer) commit(group []*pendingCommit) {
	err := w.persist(group)
	alone := slices.ContainsFunc([]string{"store_unreachable", "store_in_use", "commit_unknown"}, func(code string) bool { return fault.HasCode(err, code) })
	if err != nil && len(group) > 1 && !alone {
		w.s.log.Warn("group commit failed; committing its batches one by one", "batches", len(group), "error", err)
		for i, j := range group {
			if err := w.persist(group[i : i+1]); err != nil {
				j.receipt, j.err = store.Receipt{}, err
			}
		}
	} else if err != nil {
		for _, j := range group {
			j.receipt, j.err = store.Receipt{}, err
		}
	}
	w.s.counts.Group(len(group))
	for _, j := range group {
		w.s.counts.Commit(time.Since(j.queued), j.err != nil && fault.Of(j.err).Kind == fault.Conflict, j.err)
		if j.err == nil && w.s.wrote != nil {
			w.s.wrote(j.scope, len(j.batch.Changes), int64(j.bytes))
		}
		close(j.done)
	}
}

// persist commits a group, however often it takes: if the server is away, it tries
// again until patience is at its end. A transaction that may have been committed is
// looked up before it is repeated. For that, patience starts over, once: a network
// that swallows an answer is noticed only after patience has ended.
func (w *writer) persist(group []*pendingCommit) error {
	begun, sent := time.Now(), &sending{mark: id.New()}
	missed := false // an answer to a commit
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		err := w.try(group, sent)
		if err == nil {
			return nil
		}
		again := away(err) || isCode(err, "55P03") // another node holds the lock of the log
		if again || !w.rollBack() {
			w.disconnect()
		}
		if !again && !sent.may {
			return coded(err)
		}
		if sent.may && !missed {
			begun, missed = time.Now(), true
		}
		if w.outOfPatience(begun) {
			if sent.may {
				return unknown(err)
			}
			return coded(err)
		}
		w.s.log.Warn("cannot commit; trying again", "batches", len(group), "error", err)
		time.Sleep(delay)
	}
}

// rollBack reports whether the connection is fit for another transaction.
func (w *writer) rollBack() bool {
	if w.conn == nil || w.conn.IsClosed() {
		return false
	}
	ctx, cancel := context.WithTimeout(w.s.ctx, connectLimit)
	defer cancel()
	_, err := w.conn.Exec(ctx, "ROLLBACK")
	return err == nil
}

func (w *writer) outOfPatience(begun time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(begun) > w.s.patience || w.closing && time.Since(w.since) > closingPatience
}

// sending is what is known of the transactions that were to commit a group.
type sending struct {
	mark id.ID  // of the group
	may  bool   // one may have been committed
	last uint64 // its last entry
}

// begin opens the connection at the start.
func (w *writer) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit+claimPatience)
	defer cancel()
	return w.connect(ctx, w.s.claimWait())
}

// connect opens the connection if there is none, and takes the lock of the store,
// for which it waits a while. If another Steward has the lock (store_in_use), the
// connection stays open.
func (w *writer) connect(ctx context.Context, wait time.Duration) error {
	if w.conn == nil || w.conn.IsClosed() {
		conn, err := pgx.ConnectConfig(ctx, w.s.config.ConnConfig.Copy())
		if err != nil {
			return err
		}
		w.conn = conn
	} else if w.refused == nil {
		return nil
	}
	err := w.s.claim(ctx, w.conn, wait)
	w.mu.Lock()
	w.refused = nil
	if fault.HasCode(err, "store_in_use") {
		w.refused = err
	} else if err != nil {
		defer w.disconnect()
	}
	w.mu.Unlock()
	return err
}

func (w *writer) disconnect() {
	if w.conn != nil {
		disconnect(w.conn)
		w.conn = nil
	}
}

// disconnect ends a session, whatever its state.
func disconnect(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}

// transactionLimit bounds one transaction, with the wait for the lock.
const transactionLimit = 2 * time.Minute

// try runs one transaction. It sets sent.may before the transaction can be
// committed. If that is set when it begins, it first asks whether the earlier one
// has been committed; then the receipts of that one stand.
func (w *writer) try(group []*pendingCommit, sent *sending) error {
	ctx, cancel := context.WithTimeout(w.s.ctx, transactionLimit)
	defer cancel()
	if err := w.connect(ctx, 0); err != nil && (w.refused == nil || !sent.may) {
		return err
	}
	p, err := w.lock(ctx, group)
	if err != nil {
		return err
	}
	head := p.seq
	if sent.may {
		done := false
		if err := w.conn.QueryRow(ctx, wasCommitted, int64(sent.last), sent.mark[:]).Scan(&done); err != nil {
			return err
		}
		if done {
			_, err := w.conn.Exec(ctx, "ROLLBACK")
			w.s.news.publish(head)
			return err
		}
	}
	if sent.may = false; w.refused != nil {
		return w.refused
	}
	for _, j := range group {
		if j.receipt, j.err = p.apply(j.scope, &j.batch); j.err != nil && !refused(j.err) {
			return j.err
		}
	}
	if len(p.order) == 0 {
		_, err := w.conn.Exec(ctx, "ROLLBACK")
		return err
	}
	var b pgx.Batch
	p.flush(&b, sent.mark)
	fresh := w.newSpaces(p)
	if len(fresh) > 0 {
		b.Queue(insertSpaces, fresh)
	}
	if err := w.erase(ctx, p, &b); err != nil {
		return err
	}
	if p.seq == head {
		b.Queue(forgetSilent)
		b.Queue(insertSilent, sent.mark[:])
	}
	if w.s.hold != nil {
		if err := w.conn.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		w.s.hold()
		b = pgx.Batch{}
	}
	b.Queue("COMMIT")
	sent.may, sent.last = true, p.seq
	if err := w.conn.SendBatch(ctx, &b).Close(); err != nil {
		// A server that is still there has said no.
		sent.may = w.conn.IsClosed() || away(err)
		return err
	}
	for _, space := range fresh {
		w.spaces[space] = true
	}
	w.s.news.publish(p.seq)
	return nil
}

const (
	begin        = "BEGIN"
	wasCommitted = "SELECT EXISTS (SELECT FROM log WHERE seq = $1 AND mark = $2) OR EXISTS (SELECT FROM silent WHERE mark = $2)"
	setWrites    = "SELECT set_config('steward.writes', $1::text[]::text, true)"
	readNodes    = "SELECT key, seq, version, gone, space, type, state, refs FROM tree WHERE key = ANY ($1)"
	readPlaces   = `SELECT p.list, p.pos, p.space FROM unnest($1::bytea[], $2::bigint[], $3::text[]) AS r(list, pos, space)
		JOIN place p ON p.list = r.list AND p.pos = r.pos AND p.space = r.space`
)

// lock begins a transaction, takes the lock of the log, and reads what the group
// depends on. PostgreSQL takes a new snapshot for each statement (read committed),
// so what is read after the lock includes everything that was committed before.
func (w *writer) lock(ctx context.Context, group []*pendingCommit) (p *planner, err error) {
	keys, places, writes := w.asks(group)
	var b pgx.Batch
	b.Queue(begin)
	b.Queue(setScope, scopeArgs(everything)...)
	b.Queue(setWrites, writes)
	b.Queue(takeLock, int64(logLock))
	b.Queue(endOfLog)
	b.Queue(readNodes, keys)
	if len(places.pos) > 0 {
		b.Queue(readPlaces, places.list, places.pos, places.space)
	}
	res := w.conn.SendBatch(ctx, &b)
	defer func() { err = errors.Join(err, res.Close()) }()
	for range 4 {
		if _, err := res.Exec(); err != nil {
			return nil, err
		}
	}
	head, at, err := readEnd(res.QueryRow())
	if err != nil {
		return nil, err
	}
	p = newPlanner(head, at, time.Now())
	rows, err := res.Query()
	if err != nil {
		return nil, err
	}
	err = eachRow(rows, func(r pgx.Rows) error {
		_, err := p.readNode(r)
		return err
	})
	if err != nil || len(places.pos) == 0 {
		return p, err
	}
	if rows, err = res.Query(); err != nil {
		return nil, err
	}
	return p, eachRow(rows, p.readPlace)
}

func (p *planner) readNode(r pgx.Rows) (resource.URI, error) {
	var n node
	var key, encoded []byte
	var state *string
	if err := r.Scan(&key, &n.seq, &n.version, &n.gone, &n.space, &n.typ, &state, &encoded); err != nil {
		return resource.URI{}, err
	}
	if state != nil {
		n.state = *state
	}
	u, err := resource.FromKey(key)
	if err == nil {
		n.refs, err = decodeRefs(encoded)
	}
	p.nodes[u] = &n
	return u, err
}

func (p *planner) readPlace(r pgx.Rows) error {
	var at seat
	var list []byte
	if err := r.Scan(&list, &at.pos, &at.space); err != nil {
		return err
	}
	at.list = string(list)
	p.taken[at] = true
	return nil
}

// newSpaces returns the spaces of the group's entries that may not be in their
// table yet.
func (w *writer) newSpaces(p *planner) (out []string) {
	for i := range p.entries {
		if space := p.entries[i].space; !w.spaces[space] && !slices.Contains(out, space) {
			out = append(out, space)
		}
	}
	return out
}
