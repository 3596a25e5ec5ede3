// Package served serves a node to one person, as the terminal chat is
// served.
package served

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"

	"steward/client"
	"steward/internal/runtime"
	"steward/internal/server/api"
	"steward/internal/server/auth"
	"steward/internal/server/websocket"
)

// To serves a node to a user over HTTP until the test ends, as Handler does. agents
// decides about agents and sources; nil: there are none.
func To(t *testing.T, n *runtime.Node, user string, agents websocket.Agents) *client.Client {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	talks := websocket.Handler(websocket.Options{Node: n, Approvals: n.Effects, Agents: agents, Logger: log})
	mux := http.NewServeMux()
	mux.Handle(websocket.Path, talks)
	mux.Handle("/", api.Handler(api.Options{Node: n, Agents: agents, Logger: log}))
	c := Handler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Caller{User: user, Admin: true})))
	}))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		talks.Shutdown(ctx) //nolint:errcheck // says that it has cut some off
	})
	return client.New(client.Options{URL: URL, HTTP: c, Fault: auth.FaultOf})
}

// URL is where a client that Handler returns finds the server.
const URL = "http://steward"

// Handler serves until the test ends, and returns the only client that reaches the
// server. The connections are in memory, because a synctest bubble cannot wait for
// the network.
func Handler(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: h}
	over := make(chan error, 1)
	go func() { over <- server.Serve(p) }()
	transport := &http.Transport{DialContext: p.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-over
	})
	return &http.Client{Transport: transport}
}

// pipes is a listener for connections in memory.
type pipes struct {
	conns   chan net.Conn
	closed  chan struct{}
	closing sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.closing.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (*pipes) Addr() net.Addr { return &net.UnixAddr{} }
