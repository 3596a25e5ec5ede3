package day

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"

	"google.golang.org/grpc/test/bufconn"
)

// network is a network in memory. Addresses are 127.0.0.1 and a port.
type network struct {
	t         testing.TB
	mu        sync.Mutex
	listeners map[string]*listener
}

type listener struct {
	*bufconn.Listener
	network *network
	at      *net.TCPAddr
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.at }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, net.ErrClosed
	}
	return &conn{Conn: c, local: l.at, remote: &net.TCPAddr{IP: l.at.IP, Port: 50000}}, nil
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	if l.network.listeners[l.at.String()] == l {
		delete(l.network.listeners, l.at.String())
	}
	return l.Listener.Close()
}

// conn has the addresses of TCP.
type conn struct {
	net.Conn
	local, remote net.Addr
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// Listen listens at an address.
func (n *network) Listen(_, address string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[at.String()] != nil {
		return nil, fmt.Errorf("listen %s: the address is in use", address)
	}
	l := &listener{bufconn.Listen(64 << 10), n, at}
	n.listeners[at.String()] = l
	return l, nil
}

// Dial connects to an address.
func (n *network) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: connection refused", address)
	}
	c, err := l.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, local: &net.TCPAddr{IP: l.at.IP, Port: 50000}, remote: l.at}, nil
}

// listen listens at a port for a double.
func (n *network) listen(port int) net.Listener {
	l, err := n.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		n.t.Fatal(err)
	}
	return l
}

// serve serves a double at a port until the test ends, and returns its URL.
func (n *network) serve(port int, h http.Handler) string {
	l := n.listen(port)
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l) //nolint:errcheck // it ends when it is closed
	}()
	n.t.Cleanup(func() { s.Close(); <-done })
	return "http://" + l.Addr().String()
}
