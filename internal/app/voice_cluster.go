package app

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/server/auth"
	"steward/internal/server/forward"
	"steward/internal/server/ollama"
	"steward/internal/server/wyoming"
	"steward/internal/settings"
)

// The paths at which nodes of a cluster answer what arrived at a voice server of another node.
const (
	ollamaInside  = insidePrefix + "chat"
	wyomingInside = insidePrefix + "wyoming"
)

// remoteHeader has the address of the device of a connection that is passed on.
const remoteHeader = "Steward-Remote"

// ollamaInside answers requests to the Ollama servers of other nodes.
func (l *Local) ollamaInside(guard *auth.Guard, log *slog.Logger) http.Handler {
	return guard.Wrap(http.StripPrefix(ollamaInside, ollama.Handler(ollama.Options{Node: l.node, Logger: log})), ollama.WriteError)
}

// voice is a Wyoming server for one user.
type voice struct {
	conns *memory
	stop  context.CancelFunc
	ended chan struct{}
}

// of returns the server of a user.
func (v *voices) of(user string, open func() *wyoming.Server) (*voice, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0)
	}
	if known := v.byUser[user]; known != nil {
		return known, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	one := &voice{conns: &memory{dialled: make(chan net.Conn), closed: make(chan struct{})}, stop: cancel, ended: make(chan struct{})}
	server := open()
	go func() {
		defer close(one.ended)
		server.Serve(ctx, one.conns) //nolint:errcheck // it ends when it is stopped
	}()
	if v.byUser == nil {
		v.byUser = map[string]*voice{}
	}
	v.byUser[user] = one
	return one, nil
}

// close ends all servers.
func (v *voices) close() {
	v.mu.Lock()
	v.closed = true
	all := v.byUser
	v.byUser = nil
	v.mu.Unlock()
	for _, one := range all {
		one.stop()
		<-one.ended
	}
}

// wyomingInside answers connections that other nodes pass on: the request is upgraded to the protocol.
func (l *Local) wyomingInside(a *App, set *settings.Loaded, guard *auth.Guard, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := auth.From(r.Context())
		if err == nil && r.Header.Get("Upgrade") != "wyoming" {
			err = fault.New(fault.Invalid, "upgrade_missing", "this path is for connections of the Wyoming protocol")
		}
		var v *voice
		if err == nil {
			v, err = l.cluster.voices.of(c.User, func() *wyoming.Server { return l.wyoming(a, set, guard, c.User, log) })
		}
		if err != nil {
			auth.WriteError(w, r, log, err)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			auth.WriteError(w, r, log, err)
			return
		}
		conn.SetDeadline(time.Time{}) //nolint:errcheck // the server has its own
		passed := &passedConn{Conn: conn, from: rw.Reader, remote: r.Header.Get(remoteHeader), closed: make(chan struct{})}
		defer passed.Close()
		if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: wyoming\r\n\r\n"); err != nil {
			return
		}
		select {
		case v.conns.dialled <- passed:
		case <-v.ended:
			return
		}
		select { // the guard's place lasts as long as the connection
		case <-passed.closed:
		case <-c.Left():
		}
	})
}

// passedConn is a connection that another node passes on.
type passedConn struct {
	net.Conn
	from   io.Reader // with what was read ahead
	remote string
	once   sync.Once
	closed chan struct{}
}

// Read implements net.Conn.
func (c *passedConn) Read(p []byte) (int, error) { return c.from.Read(p) }

// RemoteAddr implements net.Conn: the device is known by its address.
func (c *passedConn) RemoteAddr() net.Addr { return remoteAddr(c.remote) }

// Close implements net.Conn.
func (c *passedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

type remoteAddr string

// Network implements net.Addr.
func (remoteAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a remoteAddr) String() string { return string(a) }

// where returns a listener of those connections that this node answers. The others it connects to the node that works
// for the user, as whom all of them speak.
func (j *joined) where(ln net.Listener, user string, log *slog.Logger) net.Listener {
	s := &splicing{Listener: ln, joined: j, user: user, log: log, here: make(chan net.Conn), ended: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.run()
	return s
}

type splicing struct {
	net.Listener
	joined *joined
	user   string
	log    *slog.Logger
	here   chan net.Conn
	ended  chan struct{}
	err    error // why; set before ended is closed
	ctx    context.Context
	cancel context.CancelFunc
}

// run places each connection, until the listener closes.
func (s *splicing) run() {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			s.err = err
			close(s.ended)
			return
		}
		go s.place(c)
	}
}

// Accept implements net.Listener.
func (s *splicing) Accept() (net.Conn, error) {
	select {
	case c := <-s.here:
		return c, nil
	case <-s.ended:
		return nil, s.err
	}
}

// Close implements net.Listener.
func (s *splicing) Close() error {
	s.cancel()
	return s.Listener.Close()
}

func (s *splicing) place(c net.Conn) {
	piece := forward.Of(s.user)
	node, here, err := s.joined.Reach(s.ctx, piece)
	if err != nil {
		s.log.Warn("a connection of the Wyoming protocol is refused", "error", err)
		c.Close() //nolint:errcheck // nothing was said
		return
	}
	if !here {
		if err := s.splice(c, node); err != nil && s.ctx.Err() == nil {
			s.log.Info("a connection of the Wyoming protocol to another node broke", "node", node, "error", err)
		}
		return
	}
	at := s.joined.requests.Visit(piece)
	over := make(chan struct{})
	held := &visitConn{Conn: c, leave: sync.OnceFunc(func() { at.Leave(); close(over) })}
	go func() { // devices connect again
		select {
		case <-at.Left:
		case <-s.ctx.Done():
		case <-over:
		}
		held.Close() //nolint:errcheck // it is over
	}()
	select {
	case s.here <- held:
	case <-s.ctx.Done():
		held.Close() //nolint:errcheck // it is over
	}
}

// visitConn ends a visit with the connection.
type visitConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *visitConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// splice connects a device to a node until either ends.
func (s *splicing) splice(c net.Conn, node string) error {
	defer c.Close() //nolint:errcheck // it is over
	to, err := s.joined.Dial(s.ctx, node)
	if err != nil {
		return err
	}
	defer to.Close() //nolint:errcheck // it is over
	defer context.AfterFunc(s.ctx, func() { c.Close(); to.Close() })()
	r, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "http://steward"+wyomingInside, nil)
	if err != nil {
		return err
	}
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"wyoming"}, remoteHeader: {c.RemoteAddr().String()}}
	auth.Forward(r.Header, r, auth.Caller{User: s.user})
	if err := r.Write(to); err != nil {
		return err
	}
	from := bufio.NewReader(to)
	answer, err := http.ReadResponse(from, r)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return errors.New("the node answers " + answer.Status)
	}
	done := make(chan error, 2)
	go func() {
		_, err := io.Copy(to, c)
		done <- err
	}()
	go func() {
		_, err := io.Copy(c, from)
		done <- err
	}()
	return <-done
}
