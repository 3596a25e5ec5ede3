// Package network is a network in memory, for tests on a virtual clock (testing/synctest): such a clock stands
// still while a goroutine waits for a real socket.
package network

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// Network is a network in memory. Addresses are 127.0.0.1 and a port.
type Network struct {
	t         testing.TB
	mu        sync.Mutex
	listeners map[string]*listener
}

// New returns a network in which nobody listens yet.
func New(t testing.TB) *Network { return &Network{t: t, listeners: map[string]*listener{}} }

type listener struct {
	network *Network
	at      *net.TCPAddr
	dialled chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.at }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialled:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		delete(l.network.listeners, l.at.String())
		close(l.closed)
	})
	return nil
}

// conn is one end of a connection. It has the addresses of TCP.
type conn struct {
	in, out       *stream
	local, remote net.Addr
}

// stream is one direction of a connection. What is written waits in memory until it is read.
type stream struct {
	mu       sync.Mutex
	data     []byte
	end      error         // of the reader, once data is empty
	deadline time.Time     // of the reader
	changed  chan struct{} // closed when something of the above changes
}

func newStream() *stream { return &stream{changed: make(chan struct{})} }

func (s *stream) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	s := c.in
	for {
		s.mu.Lock()
		if !s.deadline.IsZero() && !time.Now().Before(s.deadline) {
			s.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		}
		if len(s.data) > 0 || s.end != nil || len(b) == 0 {
			n := copy(b, s.data)
			s.data = s.data[n:]
			err := s.end
			s.mu.Unlock()
			if n > 0 || len(b) == 0 {
				err = nil
			}
			return n, err
		}
		changed, left := s.changed, time.Until(s.deadline)
		if s.deadline.IsZero() {
			left = 1 << 62
		}
		s.mu.Unlock()
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (n int, err error) {
	c.out.change(func() {
		if err = c.out.end; err != nil {
			err = net.ErrClosed
			return
		}
		c.out.data = append(c.out.data, b...)
		n = len(b)
	})
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.out.change(func() {
		if c.out.end == nil {
			c.out.end = io.EOF
		}
	})
	c.in.change(func() { c.in.end, c.in.data = net.ErrClosed, nil })
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.change(func() { c.in.deadline = t })
	return nil
}

// SetWriteDeadline implements net.Conn: nothing waits to be written.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// Listen listens at an address.
func (n *Network) Listen(_, address string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[at.String()] != nil {
		return nil, fmt.Errorf("listen %s: the address is in use", address)
	}
	l := &listener{network: n, at: at, dialled: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[at.String()] = l
	return l, nil
}

// Dial connects to an address.
func (n *Network) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: connection refused", address)
	}
	there, back, client := newStream(), newStream(), &net.TCPAddr{IP: l.at.IP, Port: 50000}
	select {
	case l.dialled <- &conn{in: there, out: back, local: l.at, remote: client}:
		return &conn{in: back, out: there, local: client, remote: l.at}, nil
	case <-l.closed:
		return nil, fmt.Errorf("dial %s: connection refused", address)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ListenAt listens at a port for a double.
func (n *Network) ListenAt(port int) net.Listener {
	l, err := n.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		n.t.Fatal(err)
	}
	return l
}

// Serve serves a double at a port until the test ends, and returns its URL.
func (n *Network) Serve(port int, h http.Handler) string {
	l := n.ListenAt(port)
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l) //nolint:errcheck // it ends when it is closed
	}()
	n.t.Cleanup(func() { s.Close(); <-done })
	return "http://" + l.Addr().String()
}
