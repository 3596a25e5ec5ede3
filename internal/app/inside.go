package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"steward/client"
	"steward/internal/server/api"
	"steward/internal/server/auth"
	"steward/internal/server/websocket"
)

// API is the API of the node in this process, or of a part of it.
type API struct {
	*client.Client
	Close func() error
}

// inProcess returns a client of handlers in this process, reached through connections in
// memory. talks serves the chat; nil: there is none.
func (a *App) inProcess(o api.Options, talks http.Handler, log *slog.Logger, close func() error) *API {
	o.Inside, o.Logger = true, log
	mux := http.NewServeMux()
	mux.Handle("/", api.Handler(o))
	if talks != nil {
		mux.Handle(websocket.Path, talks)
	}
	caller := auth.Caller{User: a.User(), Admin: true}
	server := &http.Server{
		Handler:     mux,
		BaseContext: func(net.Listener) context.Context { return auth.With(context.Background(), caller) },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelError),
	}
	ln := &memory{dialled: make(chan net.Conn), closed: make(chan struct{})}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(ln) }) //nolint:errcheck // it ends when it is closed
	end := func() error {
		err := server.Shutdown(context.Background()) // waits for handlers that still run after their answers were read
		serving.Wait()
		return errors.Join(err, close())
	}
	transport := &http.Transport{DialContext: ln.dial, DisableCompression: true}
	return &API{Close: end, Client: client.New(client.Options{URL: "http://steward", HTTP: &http.Client{Transport: transport}, Fault: auth.FaultOf})}
}

// memory is a listener whose connections stay in this process.
type memory struct {
	dialled chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.dialled <- theirs:
		return ours, nil
	case <-m.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.dialled:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// Addr implements net.Listener.
func (m *memory) Addr() net.Addr { return &net.UnixAddr{Net: "memory"} }
