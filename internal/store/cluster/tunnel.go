package cluster

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"steward/internal/fault"
	"steward/internal/id"
)

// A tunnel is a connection between two nodes made of messages of core NATS, which the servers may lose. So each frame of
// data has a number, and a connection that misses one breaks. A side sends at most a window more than the other one has
// read. Frames are
//
//	kind, one byte | number, eight bytes | the data, or two numbers
//
// with the kinds below. Numbers are big-endian.
const (
	frameData   byte = 'd' // number: counts frames of data and ends from 1
	frameEnd    byte = 'e' // the same; no more data follows (half close)
	frameClose  byte = 'x' // the same; what comes from the other side is not read any more either
	frameCredit byte = 'c' // number: bytes that were read so far
	frameProbe  byte = 'p' // number: of the last frame of data that was sent; then bytes that were read so far. Sent now and then, so that a gap at the end is noticed
	frameReset  byte = 'r' // the connection is over
)

const headSize = 9

// Bounds of the tunnels.
const (
	maxConns  = 16_384    // of a node, in both directions
	maxUnread = 256 << 20 // bytes that wait to be read, in all connections of a node
	window    = 256 << 10 // bytes that were sent and not read yet, of a connection in one direction
	chunk     = 32 << 10  // bytes in a frame
	backlog   = 1024      // connections that wait to be accepted
)

const (
	probeSoon   = time.Second      // after this long without a frame, the last one is confirmed
	probeEvery  = 15 * time.Second // an idle connection is confirmed so often
	deadAfter   = 3 * probeEvery   // nothing was heard of the other side for so long
	lookAtPeers = 2 * time.Second  // the nodes at the other ends are asked so often whether they live
	dialFor     = 5 * time.Second  // bounds Dial
)

// tunnels are the connections of a node.
type tunnels struct {
	mu       sync.Mutex
	conns    map[string]*conn // by the id on this side
	listener *listener        // nil: not listening
	closed   bool
	unread   int
	frames   sync.Pool // of *[]byte
}

// dial is the request for a connection, and the answer to it.
type dial struct {
	Node string `json:"node,omitzero"` // who dials
	ID   string `json:"id,omitzero"`   // of the connection at the sender of this
	Err  string `json:"error,omitzero"`
}

// Dial connects to a node through the NATS servers. The connection breaks when the servers lose a part
// of it; nothing is ever missing in the middle. It supports deadlines and CloseWrite. Error: node_unreachable; then
// call Reach again, which waits for the node that takes over.
func (c *Cluster) Dial(ctx context.Context, node string) (net.Conn, error) {
	fail := func(format string, args ...any) (net.Conn, error) {
		return nil, fault.New(fault.Unavailable, "node_unreachable", format, args...).
			WithHint("it may have ended; another node takes over its work within seconds").Retrying(fault.RetryBackoff, 0)
	}
	t, err := c.tunnels.add(c, node, false)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialFor)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, c.subject(node, verbDial), encode(dial{Node: c.opt.Name, ID: t.id}))
	if err != nil {
		t.end(errLost, false)
		c.lives.silent(node)
		return fail("the node %s does not answer: %w", node, err)
	}
	var d dial
	if err := json.Unmarshal(m.Data, &d); err != nil || d.ID == "" || d.Err != "" {
		t.end(errLost, false)
		return fail("the node %s refuses the connection: %s", node, d.Err)
	}
	t.open(c.subject(node, verbTunnel) + d.ID)
	return t, nil
}

// Listen returns the listener of the connections that other nodes dial. It closes with the Cluster. Until it is
// called, nobody can connect.
func (c *Cluster) Listen() net.Listener {
	s := &c.tunnels
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &listener{c: c, accept: make(chan *conn, backlog), done: make(chan struct{})}
	if s.closed {
		close(l.done)
	} else {
		s.listener = l
	}
	return l
}

type listener struct {
	c      *Cluster
	accept chan *conn
	once   sync.Once
	done   chan struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case t := <-l.accept:
		return t, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return addr(l.c.opt.Name) }

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		s := &l.c.tunnels
		s.mu.Lock()
		if s.listener == l {
			s.listener = nil
		}
		s.mu.Unlock()
		close(l.done)
	})
	for {
		select {
		case t := <-l.accept:
			_ = t.Close()
		default:
			return nil
		}
	}
}

// addr is a node as an address.
type addr string

// Network implements net.Addr.
func (addr) Network() string { return "steward" }

// String implements net.Addr.
func (a addr) String() string { return string(a) }

// add makes a connection to a node.
func (s *tunnels) add(c *Cluster, node string, accepted bool) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0)
	}
	if len(s.conns) >= maxConns || s.unread >= maxUnread {
		return nil, fault.New(fault.Exhausted, "too_many_connections", "this node has too many connections to other nodes").
			WithHint("try again later, or connect to another node").Retrying(fault.RetryBackoff, 0)
	}
	t := newConn(c, id.New().String(), node, accepted)
	if s.conns == nil {
		s.conns = map[string]*conn{}
	}
	s.conns[t.id] = t
	return t, nil
}

func (s *tunnels) remove(t *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, t.id)
}

// keep counts bytes that wait to be read. It returns false if there are too many.
func (s *tunnels) keep(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && s.unread+n > maxUnread {
		return false
	}
	s.unread += n
	return true
}

func (s *tunnels) get(id string) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[id]
}

func (s *tunnels) list() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*conn, 0, len(s.conns))
	for _, t := range s.conns {
		out = append(out, t)
	}
	return out
}

// close breaks all connections.
func (s *tunnels) close() {
	s.mu.Lock()
	s.closed = true
	l := s.listener
	s.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	for _, t := range s.list() {
		t.end(net.ErrClosed, true)
	}
}

// onDial answers a node that dials.
func (s *tunnels) onDial(c *Cluster, m *nats.Msg) {
	var d dial
	if json.Unmarshal(m.Data, &d) != nil || d.Node == "" || d.ID == "" || strings.ContainsAny(d.ID, " .*>\t\r\n") {
		return
	}
	s.mu.Lock()
	l := s.listener
	s.mu.Unlock()
	if l == nil {
		_ = m.Respond(encode(dial{Err: "it does not accept connections"}))
		return
	}
	t, err := s.add(c, d.Node, true)
	if err != nil {
		_ = m.Respond(encode(dial{Err: err.Error()}))
		return
	}
	t.open(c.subject(d.Node, verbTunnel) + d.ID)
	select {
	case l.accept <- t:
		_ = m.Respond(encode(dial{ID: t.id}))
	default:
		t.end(net.ErrClosed, false)
		_ = m.Respond(encode(dial{Err: "too many connections wait there"}))
	}
	select {
	case <-l.done: // it may have been closed before the connection was in the queue
		_ = l.Close()
	default:
	}
}

// onFrame hands a frame to its connection. It never waits.
func (s *tunnels) onFrame(c *Cluster, m *nats.Msg) {
	t := s.get(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
	switch {
	case t == nil:
		if m.Reply != "" && len(m.Data) > 0 && m.Data[0] == frameProbe {
			_ = c.nc.Publish(m.Reply, head(frameReset, 0))
		}
	case len(m.Data) == 0 && m.Header.Get("Status") == "503":
		t.end(errLost, false)
	case len(m.Data) >= headSize:
		t.receive(m.Data[0], binary.BigEndian.Uint64(m.Data[1:]), m.Data[headSize:])
	}
}

func head(kind byte, n uint64) []byte {
	b := make([]byte, headSize, headSize+8)
	b[0] = kind
	binary.BigEndian.PutUint64(b[1:], n)
	return b
}

// watchTunnels looks after the connections of the node, and the nodes at their other ends.
func (c *Cluster) watchTunnels() {
	looked := time.Now()
	for fault.Pause(c.ctx, probeSoon/2) {
		if c.muted.Load() {
			continue
		}
		now := time.Now()
		list := c.tunnels.list()
		for _, t := range list {
			t.look(now)
		}
		if now.Sub(looked) >= lookAtPeers {
			looked = now
			c.lookAtPeers(list)
		}
	}
}

// lookAtPeers breaks the connections to nodes that have ended. Those that only do not answer may be slow: their connections
// break when nothing is heard of them for long.
func (c *Cluster) lookAtPeers(list []*conn) {
	ended := map[string]bool{}
	for _, t := range list {
		if _, ok := ended[t.node]; !ok {
			ctx, cancel := context.WithTimeout(c.ctx, c.patience())
			_, err := c.nc.RequestWithContext(ctx, c.subject(t.node, verbPing), nil)
			cancel()
			ended[t.node] = errors.Is(err, nats.ErrNoResponders)
		}
		if ended[t.node] {
			t.end(errLost, false)
		}
	}
}
