package cluster

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"steward/internal/fault"
	"steward/internal/resource"
)

// The stream, and the subjects of what it holds: see set for the last token.
const (
	stream   = "WORK"
	subjects = "steward.work."
)

// hint is what the stream holds: which record to look at.
type hint struct {
	At  resource.URI `json:"at"`
	Seq uint64       `json:"seq"`
}

// maxPointers bounds the stream. A pointer is some hundred bytes.
const maxPointers = 1 << 20

// makeStream makes the stream, or finds that it is there. It waits for the servers to agree.
func (c *Cluster) makeStream(ctx context.Context) error {
	for told := false; ; told = true {
		once, cancel := context.WithTimeout(ctx, 2*time.Second) // a request that no leader heard is not answered
		err := c.ensureStream(once)
		cancel()
		if err == nil {
			return nil
		}
		if !told {
			c.log.Info("waiting until most of the NATS servers of the cluster run", "for", openFor)
		}
		var refused *jetstream.APIError
		if errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabled {
			return fault.New(fault.Unsupported, "cluster_refused", "the NATS servers do not hand out work: %w", err).
				WithHint("enable JetStream in the settings of the NATS servers")
		}
		if !fault.Pause(ctx, 200*time.Millisecond) {
			return unreachable("most of the NATS servers of the cluster do not run: %w", err).
				WithHint("start the nodes that cluster.peers names; of three servers, two must run within %s of each other", openFor)
		}
	}
}

// ensureStream makes the stream if there is none.
func (c *Cluster) ensureStream(ctx context.Context) error {
	s, err := c.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = c.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: stream, Description: "Steward: pointers to what waits for a worker",
			Subjects: []string{subjects + "*"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
			MaxMsgs: maxPointers, Discard: jetstream.DiscardNew, Duplicates: 2 * time.Minute, Replicas: c.replicas(),
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node was faster
			s, err = c.js.Stream(ctx, stream)
		}
	}
	if err != nil {
		return err
	}
	if err := led(s.CachedInfo()); err != nil {
		return err
	}
	c.handed.Store(int64(time.Since(c.since)))
	c.publisher.saw(s.CachedInfo(), &c.table)
	return nil
}

// led returns an error if the servers have no leader for the stream. Then they know of it, but take and hand out nothing.
func led(info *jetstream.StreamInfo) error {
	if info.Cluster != nil && info.Cluster.Name != "" && info.Cluster.Leader == "" {
		return errors.New("the servers have no leader for the stream of the work")
	}
	return nil
}

// replicas is on how many servers the stream is kept.
func (c *Cluster) replicas() int {
	if c.opt.Embed != nil {
		return min(3, 1+len(c.opt.Embed.Peers))
	}
	if c.nc.ConnectedClusterName() == "" {
		return 1
	}
	return min(3, max(1, len(c.nc.DiscoveredServers())))
}

// inspect looks after the stream: it makes a lost one again, and has everything published again to one that lacks
// pointers.
func (c *Cluster) inspect() {
	for failed := false; fault.Pause(c.ctx, inspectEvery); {
		ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
		err := c.ensureStream(ctx)
		cancel()
		switch {
		case err != nil && !failed && c.ctx.Err() == nil:
			c.log.Warn("the NATS servers hand out no work", "error", err)
		case err == nil && failed:
			c.log.Info("the NATS servers hand out work again")
		}
		failed = err != nil
	}
}

const inspectEvery = 5 * time.Second

// publisher publishes pointers.
type publisher struct {
	wake chan struct{} // holds one token if there is something to do

	mu    sync.Mutex
	due   map[Piece]entry
	redo  bool // connected again: look at the stream
	born  time.Time
	lacks int // how often in a row the stream had fewer pointers than there are pieces
}

func (p *publisher) init() {
	p.wake, p.due = make(chan struct{}, 1), map[Piece]entry{}
}

func (p *publisher) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// add has a pointer published.
func (p *publisher) add(e entry) {
	p.mu.Lock()
	p.due[e.Piece] = e
	p.mu.Unlock()
	p.signal()
}

// all has the pointers of everything published that waits or is held.
func (p *publisher) all(t *table) {
	t.each(p.add)
}

// again is called when the node is connected again.
func (p *publisher) again() {
	p.mu.Lock()
	p.redo = true
	p.mu.Unlock()
	p.signal()
}

// saw takes note of the stream. If it is another one than before, or lacks pointers, all are published.
func (p *publisher) saw(info *jetstream.StreamInfo, t *table) {
	open := len(t.list())
	p.mu.Lock()
	other := !p.born.Equal(info.Created)
	p.born = info.Created
	if p.lacks++; int(info.State.Msgs) >= open {
		p.lacks = 0
	}
	all := other || p.lacks > 1
	if all {
		p.lacks = 0
	}
	p.mu.Unlock()
	if all {
		p.all(t)
	}
}

// publish publishes what is due. Each node does so; the servers keep one of the pointers with the same id.
func (c *Cluster) publish() {
	p := &c.publisher
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	for {
		select {
		case <-p.wake:
		case <-retry.C:
		case <-c.ctx.Done():
			return
		}
		if err := c.publishDue(); err != nil && c.ctx.Err() == nil {
			c.log.Debug("pointers cannot be published now", "error", err)
			retry.Reset(200 * time.Millisecond)
		}
	}
}

func (c *Cluster) publishDue() error {
	p := &c.publisher
	p.mu.Lock()
	redo := p.redo
	p.redo = false
	list := make([]entry, 0, len(p.due))
	for _, e := range p.due {
		list = append(list, e)
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
	defer cancel()
	if redo {
		if err := c.ensureStream(ctx); err != nil {
			p.again()
			return err
		}
		c.table.each(func(e entry) {
			if e.State == Waiting {
				p.add(e)
			}
		})
		return nil // what is due has changed: a token waits
	}
	var first error
	const window = 64
	for len(list) > 0 {
		n := min(window, len(list))
		if err := c.publishSome(ctx, list[:n]); err != nil && first == nil {
			first = err
		}
		list = list[n:]
	}
	return first
}

// publishSome publishes several pointers at once.
func (c *Cluster) publishSome(ctx context.Context, list []entry) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, e := range list {
		all.Go(func() { errs[i] = c.publishOne(ctx, e) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) publishOne(ctx context.Context, e entry) error {
	now, ok := c.table.get(e.Piece)
	if ok && now.pointer() == e.pointer() {
		body := encode(hint{At: e.At, Seq: e.pointer()})
		_, err := c.js.Publish(ctx, subjects+set(e.Labels), body, jetstream.WithMsgID(strconv.FormatUint(e.pointer(), 10)))
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			err = errors.Join(err, c.ensureStream(ctx))
		}
		if err != nil {
			return err
		}
	}
	c.publisher.mu.Lock()
	defer c.publisher.mu.Unlock()
	if d, ok := c.publisher.due[e.Piece]; ok && d.Seq == e.Seq {
		delete(c.publisher.due, e.Piece)
	}
	return nil
}
