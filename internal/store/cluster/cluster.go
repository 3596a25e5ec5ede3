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
// published again, and a pointer to what does not wait any more is dropped. A worker pulls a pointer,
// takes the piece, and says every third of Silence that it is alive, for as long as it holds the
// piece. When that stays out, JetStream gives the pointer to another worker, which replaces the
// record and with it the fencing number. No clock is compared with another one: a worker that could not
// be heard for most of Silence lets go by itself.
package cluster

import (
	"context"
	"log/slog"
	"net"
	"time"

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

// Options configure a Cluster. Store, Name and either Servers or Embed are required.
type Options struct {
	Store   store.Store
	Name    string   // of this process; no other one ever had it
	Labels  []string // what this machine has, such as "gpu" or "home-network"
	Works   bool     // takes pieces
	Most    int      // takes so many at most; zero: 1000
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
	Dir    string   // of its files
	Listen string   // host:port for other servers of the cluster
	Peers  []string // host:port of the others' Listen; none: it stands alone
}

// Cluster is one node's part of a cluster. Safe for concurrent use.
type Cluster struct{}

// Node is a node that is alive.
type Node struct {
	Name   string    `json:"name"`
	Labels []string  `json:"labels,omitempty"`
	Works  bool      `json:"works"`
	Pieces int       `json:"pieces"`
	Since  time.Time `json:"since"`
}

// Open connects to the servers, which it starts if they are to be embedded, and makes the stream if there is
// none. Errors: cluster_unreachable, cluster_refused.
func Open(ctx context.Context, o Options) (*Cluster, error)

// Store returns the store that engines use. What is committed to a space that this node holds is committed under
// its fencing number. What is committed to a space that it has lost, and has not left yet, is refused with
// lease.ErrLost. Commits to other spaces pass.
func (c *Cluster) Store() store.Store

// Start begins to hand out and to take pieces.
func (c *Cluster) Start(w Worker)

// Reach returns the node that holds a piece, and whether it is this one. If nobody does, it makes the piece wait
// for a worker, and waits for one. Errors: no_worker (Unavailable), when none took it in time, with the
// labels that one would need.
func (c *Cluster) Reach(ctx context.Context, p Piece) (node string, here bool, err error)

// Holds reports whether this node holds a piece.
func (c *Cluster) Holds(p Piece) bool

// Want makes a piece wait for a worker if nobody holds it. It does not wait itself.
func (c *Cluster) Want(ctx context.Context, p Piece) error

// Dial connects to a node through the NATS servers. The connection breaks when the servers lose a part
// of it; nothing is ever missing in the middle.
func (c *Cluster) Dial(ctx context.Context, node string) (net.Conn, error)

// Listen returns the listener of the connections that other nodes dial. It closes with the Cluster.
func (c *Cluster) Listen() net.Listener

// Nodes returns the nodes that answer within a second, and this one.
func (c *Cluster) Nodes(ctx context.Context) ([]Node, error)

// Close leaves all pieces, which wait for other workers then, and disconnects.
func (c *Cluster) Close(ctx context.Context) error
