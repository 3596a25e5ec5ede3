package channeltest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Server is an HTTP server on loopback whose connections can be cut, for doubles of services.
type Server struct {
	URL string
	// Done is closed when the test ends, so that handlers which wait for something return.
	Done chan struct{}

	http   *httptest.Server
	client *http.Client

	mu      sync.Mutex
	offline bool
	conns   map[net.Conn]bool // of the client
}

// NewServer starts a server that ends with the test.
func NewServer(t *testing.T, handler http.Handler) *Server {
	s := &Server{Done: make(chan struct{}), conns: map[net.Conn]bool{}}
	s.http = httptest.NewServer(handler)
	s.URL = s.http.URL
	transport := &http.Transport{DialContext: s.dial}
	s.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		close(s.Done)
		s.Drop()
		transport.CloseIdleConnections()
		s.http.Close()
	})
	return s
}

// Client returns the client with which adapters reach the server. It has no other way to anywhere.
func (s *Server) Client() *http.Client { return s.client }

// Drop cuts all connections.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
	clear(s.conns)
}

// Offline makes it impossible to connect, until it is called with false.
func (s *Server) Offline(is bool) {
	s.mu.Lock()
	s.offline = is
	s.mu.Unlock()
	if is {
		s.Drop()
	}
}

func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	offline := s.offline
	s.mu.Unlock()
	if offline {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("network is unreachable")}
	}
	if address != s.http.Listener.Addr().String() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("the test has no such server: " + address)}
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = true
	return c, nil
}

// Faults are the failures of posting that a double has been asked for. Its methods may be called
// concurrently.
type Faults struct {
	mu                               sync.Mutex
	limited, swallowed, bad, stalled int
	pause                            int // in seconds
}

// These say how many of the next requests fail so.

func (f *Faults) Limit(n, seconds int) { f.mu.Lock(); f.limited, f.pause = n, seconds; f.mu.Unlock() }
func (f *Faults) Swallow(n int)        { f.mu.Lock(); f.swallowed = n; f.mu.Unlock() }
func (f *Faults) Refuse(n int)         { f.mu.Lock(); f.bad = n; f.mu.Unlock() }
func (f *Faults) Stall(n int)          { f.mu.Lock(); f.stalled = n; f.mu.Unlock() }

// Stalled reports whether a request is to be carried out and never answered.
func (f *Faults) Stalled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stalled--
	return f.stalled >= 0
}

// Next says what is to happen to a request to post something. At most one of the results is set.
func (f *Faults) Next() (pause int, refuse, swallow bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.limited > 0:
		f.limited--
		return f.pause, false, false
	case f.bad > 0:
		f.bad--
		return 0, true, false
	case f.swallowed > 0:
		f.swallowed--
		return 0, false, true
	}
	return 0, false, false
}
