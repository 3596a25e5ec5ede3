package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// consume begins to take pieces that need these labels, if this node has them. c.mu is locked.
func (c *Cluster) consume(labels []string) {
	s := set(labels)
	if !c.started || c.closed || c.consuming[s] || slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(c.labels, l) }) {
		return
	}
	c.consuming[s] = true
	c.running.Go(func() { c.pull(s) })
}

// pull takes the pieces that need a set of labels.
func (c *Cluster) pull(set string) {
	for failures := 0; c.taking.Err() == nil; {
		var err error
		// While the servers choose a leader, they make no consumer, although the present one will answer soon. So this is
		// not repeated each time.
		if failures%makeAgain == 0 {
			err = c.makeConsumer(set)
		}
		if err == nil {
			err = c.pullSome(set, &failures)
		}
		if err != nil && c.taking.Err() == nil {
			failures++
			c.log.Debug("no work can be pulled now", "labels", set, "error", err)
			fault.Pause(c.taking, 200*time.Millisecond)
		}
	}
}

const makeAgain = 8

// makeConsumer makes the consumer of a set of labels if there is none.
func (c *Cluster) makeConsumer(set string) error {
	ctx, cancel := context.WithTimeout(c.taking, ackWait)
	defer cancel()
	_, err := c.js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: set, FilterSubject: subjects + set, AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.opt.Silence, MaxDeliver: -1, MaxAckPending: -1, MaxWaiting: 4096,
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = errors.Join(err, c.ensureStream(ctx))
	}
	return err
}

// pullSome pulls pointers until that fails or the node closes. Each pointer that arrives is worked on or given back, also
// those that arrive late: one that nobody minds would come to another worker only after Silence.
func (c *Cluster) pullSome(set string, failures *int) error {
	inbox, events := c.nc.NewInbox(), make(chan string, 4*maxFetch)
	sub, err := c.nc.Subscribe(inbox, func(m *nats.Msg) {
		status := m.Header.Get("Status")
		if status == "" || len(m.Data) > 0 {
			status = arrived
			c.hold(m)
		}
		select {
		case events <- status:
		default: // then the next request is sent late
		}
	})
	if err != nil {
		return err
	}
	defer c.drain(sub)
	for c.room() {
		if err := c.request(set, inbox, events); err != nil {
			return err
		}
		*failures = 0
	}
	return nil
}

// drain ends a subscription once everything was handled that the servers have sent.
func (c *Cluster) drain(sub *nats.Subscription) {
	done := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(done) })
	if err := sub.Drain(); err != nil {
		return // there is no connection
	}
	select {
	case <-done:
	case <-time.After(ackWait):
	}
}

// room waits until the node can hold one more piece. It returns false when the node closes.
func (c *Cluster) room() bool {
	select {
	case c.slots <- struct{}{}:
		<-c.slots
		return true
	case <-c.taking.Done():
		return false
	}
}

// maxFetch is how many pointers are pulled at once.
const maxFetch = 16

// What arrives after a request: a pointer, or one of these.
const (
	arrived   = ""
	heartbeat = "100" // the request still waits
	noneYet   = "404"
	timedOut  = "408"
)

// pulls returns how long a request waits, and how often the servers tell that it does. It waits for less than Silence:
// the servers may still answer the request of a node that is cut off or suspended, and a pointer that went there is
// delivered again only after another Silence.
func (c *Cluster) pulls() (wait, pulse time.Duration) {
	wait = c.opt.Silence / 2
	return wait, min(wait/3, time.Second)
}

// request asks for pointers, and returns when they have arrived, or none have for a while.
func (c *Cluster) request(set, inbox string, events <-chan string) error {
	n := max(1, min(maxFetch, cap(c.slots)-len(c.slots)))
	wait, pulse := c.pulls()
	body := fmt.Appendf(nil, `{"batch": %d, "expires": %d, "idle_heartbeat": %d}`, n, wait, pulse)
	if err := c.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+set, inbox, body); err != nil {
		return err
	}
	silence := time.NewTimer(max(3*pulse, time.Second))
	defer silence.Stop()
	for n > 0 {
		select {
		case status := <-events:
			switch status {
			case arrived:
				n--
			case heartbeat:
			case noneYet, timedOut:
				return nil
			default:
				return fmt.Errorf("the servers answer with the status %s", status)
			}
			silence.Reset(max(3*pulse, time.Second))
		case <-silence.C:
			return errors.New("the servers do not answer")
		case <-c.taking.Done():
			return nil
		}
	}
	return nil
}

// hold begins to work on what a pointer points to. If there is no room, it gives the pointer back.
func (c *Cluster) hold(m *nats.Msg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		c.later(ticket{subject: m.Reply}, 0)
		return
	}
	select {
	case c.slots <- struct{}{}:
		c.holders.Go(func() {
			defer func() { <-c.slots }()
			c.deliver(m)
		})
	default:
		c.later(ticket{subject: m.Reply}, 100*time.Millisecond) // another node may have room
	}
}

// ticket is a delivered pointer, by which its holder tells that it is alive.
type ticket struct {
	subject string
	message uint64 // its number in the stream
}

// ackWait bounds what is told to JetStream.
const ackWait = 2 * time.Second

// say tells JetStream something about a pointer, and waits for the answer.
func (c *Cluster) say(ctx context.Context, t ticket, text string) error {
	_, err := c.nc.RequestWithContext(ctx, t.subject, []byte(text))
	return err
}

// drop tells JetStream that a pointer is not needed any more. If that is not heard, it comes again and is dropped then.
func (c *Cluster) drop(t ticket) {
	ctx, cancel := context.WithTimeout(c.ctx, ackWait)
	defer cancel()
	if err := c.say(ctx, t, "+ACK"); err != nil {
		c.log.Debug("a pointer could not be dropped", "error", err)
	}
}

// later has a pointer delivered again, to this or another node.
func (c *Cluster) later(t ticket, after time.Duration) {
	if after <= 0 {
		_ = c.nc.Publish(t.subject, []byte("-NAK"))
		return
	}
	_ = c.nc.Publish(t.subject, fmt.Appendf(nil, `-NAK {"delay": %d}`, after.Nanoseconds()))
}

// deliver works on the piece to which a pointer points, if it can be taken.
func (c *Cluster) deliver(m *nats.Msg) {
	if c.muted.Load() {
		return
	}
	t := ticket{subject: m.Reply}
	again := time.Duration(0)
	if meta, err := m.Metadata(); err == nil {
		t.message = meta.Sequence.Stream
		again = min(100*time.Millisecond<<min(meta.NumDelivered, 8), c.opt.Silence)
	}
	var h hint
	if err := json.Unmarshal(m.Data, &h); err != nil {
		c.log.Error("a pointer in the stream is damaged", "error", err)
		c.drop(t)
		return
	}
	p, ok := pieceOf(h.At)
	if !ok {
		c.drop(t)
		return
	}
	for range 3 { // more than once only if the record changes meanwhile
		e, err := c.read(c.taking, p)
		if fault.Is(err, fault.NotFound) {
			c.drop(t)
			return
		}
		if err != nil {
			c.later(t, again)
			return
		}
		if e.State == "" || e.pointer() != h.Seq {
			c.drop(t)
			return
		}
		if c.try(e, t, again) {
			return
		}
	}
	c.later(t, again)
}

// try takes a piece, works on it and leaves it. It returns false if the record has changed meanwhile.
func (c *Cluster) try(e entry, t ticket, again time.Duration) bool {
	h := &holding{c: c, p: e.Piece, at: e.At, pointer: e.pointer(), ready: make(chan struct{}), gone: make(chan struct{})}
	h.ticket.Store(&t)
	h.valid, h.end = context.WithCancel(c.ctx)
	defer h.end()
	begin, halt := context.WithCancel(h.valid)
	defer context.AfterFunc(c.taking, halt)()
	h.begin = begin
	c.mu.Lock()
	if old := c.held[e.Piece]; old != nil {
		c.mu.Unlock()
		if !old.adopt(e.pointer(), t) { // it is being left
			c.later(t, again)
		}
		return true
	}
	c.held[e.Piece] = h
	c.mu.Unlock()
	defer h.forget()
	h.start = time.Now()
	if !h.beat() {
		return true // the servers give it to another node soon
	}
	crashed := false
	if e.State == Held && e.Holder != c.opt.Name {
		yes, silent := c.keeps(h.valid, e, t)
		if yes {
			return true
		}
		crashed = silent
	}
	taken, err := c.write(h.valid, e.Piece, Held, record{Labels: e.Labels, Holder: c.opt.Name, Pointer: e.pointer()}, store.If{Version: e.Version})
	if about(err, e.At) {
		return false
	}
	if err != nil {
		c.log.Warn("a piece of work could not be taken", "piece", e.Piece.String(), "error", err)
		c.later(*h.ticket.Load(), again)
		return true
	}
	if e.State == Held && e.Holder != c.opt.Name {
		c.log.Info("took over what another node worked on", "piece", e.Piece.String(), "node", e.Holder, "silent", crashed)
	}
	h.seq.Store(taken.Seq)
	h.number.Store(taken.Version)
	c.table.nudge(e.Piece)
	h.work(crashed, again)
	return true
}

// holding is a piece that this node takes, holds or leaves.
type holding struct {
	c       *Cluster
	p       Piece
	at      resource.URI
	pointer uint64
	start   time.Time // before it was taken

	number  atomic.Uint64 // the fencing number; zero until it is taken
	seq     atomic.Uint64 // of the entry by which it was taken
	ticket  atomic.Pointer[ticket]
	leaving atomic.Bool
	lost    atomic.Bool
	fenced  atomic.Bool  // the store says that it is lost
	used    atomic.Int64 // when it was used last, after start

	valid context.Context // ends when it is lost, and when it is left
	begin context.Context // ends when the node closes, too
	end   context.CancelFunc
	ready chan struct{} // closed when requests about it can be answered
	gone  chan struct{} // closed when it is left
}

func (c *Cluster) holding(p Piece) *holding {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.held[p]
}

// forget ends the holding.
func (h *holding) forget() {
	h.c.mu.Lock()
	delete(h.c.held, h.p)
	h.c.mu.Unlock()
	close(h.gone)
	h.c.table.nudge(h.p)
}

// revoke takes note that the piece is lost.
func (h *holding) revoke() {
	h.lost.Store(true)
	h.end()
}

// adopt takes over another pointer to the piece, or the same one delivered again. It returns false if this
// node does not hold the piece any more.
func (h *holding) adopt(pointer uint64, t ticket) bool {
	if h.pointer != pointer || h.lost.Load() || h.leaving.Load() {
		return false
	}
	if old := h.ticket.Swap(&t); old.message != t.message {
		h.c.spawn(func() { h.c.drop(*old) })
	}
	_ = h.c.nc.Publish(t.subject, []byte("+WPI"))
	return true
}

// beat says that the piece is still worked on. It reports whether this node is certainly not cut off.
func (h *holding) beat() bool {
	if h.c.muted.Load() {
		return false
	}
	ctx, cancel := context.WithTimeout(h.valid, h.c.opt.Silence/6)
	defer cancel()
	return h.c.say(ctx, *h.ticket.Load(), "+WPI") == nil || h.valid.Err() == nil && h.c.hearsOthers()
}

// heartbeat says that the piece is worked on until ctx ends. When the node could not be heard for most of Silence, it
// gives the piece up.
func (h *holding) heartbeat(ctx context.Context) {
	silence := h.c.opt.Silence
	left := func(since time.Time) time.Duration { return time.Until(since.Add(silence - silence/5)) }
	dog := time.AfterFunc(left(h.start), func() {
		if !h.c.muted.Load() {
			h.c.log.Info("let go of what this node works on: it reaches neither JetStream nor another node", "piece", h.p.String())
			h.revoke()
		}
	})
	defer dog.Stop()
	for next := h.start.Add(silence / 3); fault.Pause(ctx, max(time.Until(next), time.Millisecond)); {
		sent := time.Now()
		next = sent.Add(silence / 3)
		if h.beat() && dog.Stop() {
			dog.Reset(left(sent))
		}
	}
}

// work has the piece worked on until it is let go.
func (h *holding) work(crashed bool, again time.Duration) {
	ctx, cancel := context.WithCancel(h.c.ctx)
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		h.heartbeat(ctx)
	}()
	defer func() { cancel(); <-beating }()
	err := h.c.worker.Take(h.begin, h.p, crashed)
	if err == nil {
		h.used.Store(int64(time.Since(h.start)))
		close(h.ready)
		h.c.table.nudge(h.p)
		h.wait()
	} else if !h.lost.Load() {
		h.c.log.Warn("a piece of work could not be begun", "piece", h.p.String(), "error", err)
	}
	h.leaving.Store(true)
	open := err != nil || h.p.Duty != "" || !h.c.worker.Idle(h.p)
	h.c.worker.Leave(h.p)
	h.release(open, err != nil || h.lost.Load(), again)
}

// wait waits until the piece is to be left.
func (h *holding) wait() {
	look := time.NewTicker(max(h.c.opt.IdleFor/4, time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-h.valid.Done():
			return
		case <-h.c.taking.Done():
			return
		case <-look.C:
		}
		if h.p.Duty != "" || !h.c.worker.Idle(h.p) {
			h.use()
		} else if time.Since(h.start)-time.Duration(h.used.Load()) >= h.c.opt.IdleFor {
			return
		}
	}
}

// use takes note that the piece is used now.
func (h *holding) use() { h.used.Store(int64(time.Since(h.start))) }

// release records that this node does not hold the piece any more. same: the pointer stays as it is, and comes to a worker
// after a while.
func (h *holding) release(open, same bool, again time.Duration) {
	if h.fenced.Load() {
		return
	}
	r, state := record{}, ""
	if open {
		state, r.Labels = Waiting, h.c.needs(h.p)
	}
	if open && same {
		r.Pointer = h.pointer
		if e, ok := h.c.table.get(h.p); ok {
			r.Labels = e.Labels // the pointer is under these
		}
	}
	var err error
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(h.c.ctx, ackWait)
		_, err = h.c.write(ctx, h.p, state, r, store.If{Version: h.number.Load()})
		cancel()
		if err == nil || about(err, h.at) || h.lost.Load() || fault.HasCode(err, "store_closed") || try > 100 || !fault.Pause(h.c.ctx, 100*time.Millisecond) {
			break
		}
	}
	if about(err, h.at) {
		return
	}
	if err != nil {
		h.c.log.Warn("a piece of work could not be handed back; another node takes it over", "piece", h.p.String(), "error", err)
		return
	}
	if r.Pointer != 0 {
		h.c.later(*h.ticket.Load(), again)
		return
	}
	if !open || h.c.handOn(h.p) {
		h.c.drop(*h.ticket.Load()) // otherwise it comes again, and is dropped then
	}
}

// handOn publishes the pointer to what was just handed back, since this node may end before its publisher does.
func (c *Cluster) handOn(p Piece) bool {
	if e, ok := c.table.get(p); ok && e.State == Waiting {
		ctx, cancel := context.WithTimeout(c.ctx, ackWait)
		defer cancel()
		if err := c.publishOne(ctx, e); err != nil {
			c.log.Debug("a pointer cannot be published now", "seq", strconv.FormatUint(e.Seq, 10), "error", err)
			return false
		}
	}
	return true
}

// needs returns the labels that the worker of a piece must have.
func (c *Cluster) needs(p Piece) []string {
	if c.opt.Needs == nil {
		return nil
	}
	return sorted(c.opt.Needs(p))
}
