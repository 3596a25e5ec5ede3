// Package cluster lets several nodes work on one store, each on what it holds.
//
// # What is held
//
// A Piece is what one node at a time works on: the space of a user, with all that goes on in it
// (turns, plans, background calls, queued actions, jobs, the heartbeat), or a duty that the cluster
// has once (the messengers, the home). Everything that a node keeps in memory about a user, such as
// turn locks, sessions, drafts and what was spent today, is right because no other node works on the
// same space. A request that arrives at another node is passed on to the one that holds the space
// (Dial).
//
// # Who holds it
//
// The truth is a record in the store, a lease (see package store/lease) in the space itself. It waits, is
// held, or is over. Holding means to have replaced the record: its version is the fencing number.
// Store refuses what is committed to a space under a number that is not the newest, in the same
// transaction, however late the write arrives. So a worker that was suspended or cut off changes
// nothing any more, although it may not know yet.
//
// # How it is handed out
//
// JetStream hands it out, and holds only pointers: the sequence number of the entry by which a record
// began to wait, as message id, under the labels that its worker must have. Publishers follow the log,
// so a crash between the commit and the publication loses nothing: at each connection, what waits is
// published again, and a pointer to what does not wait any more is dropped. A stream that was lost, or has fewer
// pointers than there are pieces, gets all of them again.
//
// A worker pulls a pointer, takes the piece (Worker.Take), and says every third of Silence that it is alive, for as long
// as it holds the piece. When that stays out, JetStream gives the pointer to another worker. That one asks the holder by
// name. A holder that answers takes over the pointer and goes on; so a change of leader among the servers moves nothing.
// One that does not is replaced, and with its record the fencing number: the piece is taken with crashed. No clock is
// compared with another one: a worker that for most of Silence could reach neither JetStream nor any other node lets
// go by itself.
//
// A piece is let go when nothing goes on about it for IdleFor, and at Close. Its record is over then, or waits for another
// worker if something is open. Duties are never over.
//
// # How nodes talk
//
// What changes hands is told to all at once, and the log tells it again to those that missed it. Dial makes a connection
// to a node out of messages of core NATS. These may be lost; then the connection breaks, and nothing is ever missing in
// the middle. Everything is bounded: connections, bytes that wait to be read, pointers, pieces that a node holds.
package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// Piece is what one node at a time works on. Either Space or Duty is set.
type Piece struct {
	Space resource.Space // of a user
	Duty  string         // Channels or Home
}

// The duties.
const (
	Channels = "channels"
	Home     = "home"
)

// Worker works on pieces. A Cluster calls its methods from several goroutines, but for one piece never
// two at a time.
type Worker interface {
	// Take begins to work on a piece that this node holds from now on. It returns once requests about
	// the piece can be answered. crashed: the worker before was not heard of any more while it held the
	// piece. What goes on ends with Leave, not with ctx.
	Take(ctx context.Context, p Piece, crashed bool) error
	// Leave suspends all that goes on about a piece, and returns when nothing does. The piece may be
	// lost already; then nothing can be committed about it.
	Leave(p Piece)
	// Idle reports whether nothing goes on about a piece, so that it can be let go.
	Idle(p Piece) bool
}

// Store is a store that nodes can share, with all that a node asks of its store.
type Store interface {
	store.Store
	store.Sealer
	Ready(ctx context.Context) error
	Size(ctx context.Context) (int64, error)
	Head() uint64
	Queued() int
	Close() error
}

// Options configure a Cluster. Store, Name and either Servers or Embed are required. Silence must be the
// same on all nodes.
type Options struct {
	Store   Store
	Name    string        // of this process; no other one ever had it
	Version string        // of the program, for people who look at the nodes
	Labels  []string      // what this machine has, such as "gpu" or "home-network"
	Works   bool          // takes pieces
	Most    int           // takes so many at most; zero: 1000
	Silence time.Duration // after so long without a sign of life the work of a worker is given to another; zero: 5 s
	IdleFor time.Duration // how long a piece is kept on which nothing goes on; zero: 10 minutes

	// Needs returns the labels that the worker of a piece must have. May be nil.
	Needs func(Piece) []string

	Servers string // addresses of NATS servers, separated by commas
	Secret  string // that the nodes and the servers share; empty: none, or it is in the addresses
	Embed   *Embed // a server in this process; nil: none

	Log *slog.Logger
}

// Embed configures a NATS server in the process.
type Embed struct {
	Dir     string   // of its files
	Listen  string   // host:port for other servers of the cluster
	Peers   []string // host:port of the others' Listen; none: it stands alone
	Clients string   // host:port for nodes without a server of their own; empty: none can connect
}

// Cluster is one node's part of a cluster. Safe for concurrent use.
type Cluster struct {
	opt    Options
	log    *slog.Logger
	since  time.Time
	labels []string // of this node, sorted

	server  *server.Server // nil: outside
	serving sync.WaitGroup
	nc      *nats.Conn
	js      jetstream.JetStream

	ctx     context.Context // ends at the end of Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	table     table
	publisher publisher
	handed    atomic.Int64 // when the servers could hand out work last, after since
	tunnels   tunnels
	lives     lives

	worker  Worker
	taking  context.Context // ends at the beginning of Close
	halt    context.CancelFunc
	slots   chan struct{} // one for each piece that this node may hold
	holders sync.WaitGroup

	mu        sync.RWMutex
	held      map[Piece]*holding
	consuming map[string]bool // sets of labels, as in subjects
	started   bool
	closed    bool // takes nothing any more
	ended     bool // begins no goroutine any more

	muted atomic.Bool // in tests: the node does nothing and answers nothing, as if it were suspended
}

// Node is a node that is alive.
type Node struct {
	Name    string    `json:"name"`
	Version string    `json:"version,omitempty"` // of the program
	Labels  []string  `json:"labels,omitempty"`
	Works   bool      `json:"works"`
	Pieces  int       `json:"pieces"`
	Since   time.Time `json:"since"`
}

// Open connects to the servers, which it starts if they are to be embedded, and makes the stream if there is
// none. A cluster of embedded servers answers when most of them run; Open waits for that until ctx ends, at most
// openFor. Errors: cluster_unreachable, cluster_refused.
func Open(ctx context.Context, o Options) (*Cluster, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Most <= 0 {
		o.Most = 1000
	}
	if o.Silence <= 0 {
		o.Silence = 5 * time.Second
	}
	if o.IdleFor <= 0 {
		o.IdleFor = 10 * time.Minute
	}
	c := &Cluster{opt: o, log: o.Log, since: time.Now(), labels: sorted(o.Labels), slots: make(chan struct{}, o.Most),
		held: map[Piece]*holding{}, consuming: map[string]bool{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.taking, c.halt = context.WithCancel(c.ctx)
	c.table.init()
	c.publisher.init()
	c.lives.init()
	ctx, cancel := context.WithTimeout(ctx, openFor)
	defer cancel()
	if err := c.open(ctx); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return nil, errors.Join(err, c.disconnect(ctx))
	}
	return c, nil
}

// openFor bounds Open.
const openFor = 2 * time.Minute

func (c *Cluster) open(ctx context.Context) error {
	if err := c.connect(ctx); err != nil {
		return err
	}
	if err := c.makeStream(ctx); err != nil {
		return err
	}
	at, err := c.load(ctx)
	if err != nil {
		return err
	}
	c.publisher.all(&c.table)
	if err := c.answer(); err != nil {
		return err
	}
	c.running.Go(func() { c.follow(at) })
	c.running.Go(c.publish)
	c.running.Go(c.inspect)
	c.running.Go(c.watchTunnels)
	return nil
}

// Start begins to hand out and to take pieces. w may be nil if the node does not work.
func (c *Cluster) Start(w Worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.closed || !c.opt.Works || w == nil {
		return
	}
	c.worker, c.started = w, true
	c.table.each(func(e entry) { c.consume(e.Labels) })
}

// Close leaves all pieces, which wait for other workers then, and disconnects.
func (c *Cluster) Close(ctx context.Context) error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return nil
	}
	c.halt()
	left := make(chan struct{})
	go func() {
		defer close(left)
		c.holders.Wait()
	}()
	var err error
	select {
	case <-left:
	case <-ctx.Done():
		err = fault.New(fault.Timeout, "cluster_close_timeout", "not all that this node works on could be left in time: %w", context.Cause(ctx))
	}
	return errors.Join(err, c.disconnect(ctx))
}

// disconnect ends everything but the holders of pieces.
func (c *Cluster) disconnect(ctx context.Context) error {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.tunnels.close()
	c.cancel()
	c.running.Wait()
	if c.nc != nil {
		c.nc.Close()
	}
	return c.stopServer(ctx)
}

// spawn starts a goroutine, unless the Cluster has ended.
func (c *Cluster) spawn(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.running.Go(do)
	}
}

func unreachable(format string, args ...any) *fault.Error {
	return fault.New(fault.Unavailable, "cluster_unreachable", format, args...).
		WithHint("check that the NATS servers run, and that cluster.servers, cluster.peers and the network between them are right").
		Retrying(fault.RetryBackoff, 0)
}
