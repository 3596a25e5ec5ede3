// Package forward passes requests on to the node of a cluster that works for their user.
//
// # Where a request is answered
//
// What engines keep in memory about a user is right on one node only: the one that holds the space of the user
// (package cluster). A request may arrive at any node. There a Guard authenticates it, and asks Find. If another
// node holds the space, the whole request goes there over Nodes.Dial, with its body, its upgrade to a WebSocket
// and its trailers, and the answer comes back the same way. So cursors, resets, streams and errors are those of
// one node. The other node serves the same handlers at Nodes.Listen; the caller is in a header that counts only
// there (auth.Trust).
//
// Some requests stay: those without a user, and those about the node itself, such as its settings. Requests of
// admins about another user go to the node of that user.
//
// # When it moves
//
// A request that has not begun elsewhere is tried again until Patience is over: the node may just have died, and
// another one takes over. A node that is asked about a space that it does not hold passes the request on, at most
// auth.MaxHops times. A request whose connection breaks in the middle is not repeated, because it may have had its
// effect: the caller gets node_lost, which says so.
//
// When a node lets go of a space, it ends the requests that it answers for the user (Release), and closes their
// WebSockets; clients connect again, and continue at their cursors elsewhere.
package forward

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/server/auth"
	"steward/internal/store/cluster"
)

// Nodes are the nodes of a cluster; *cluster.Cluster implements it.
type Nodes interface {
	Reach(ctx context.Context, p cluster.Piece) (node string, here bool, err error)
	Dial(ctx context.Context, node string) (net.Conn, error)
}

// Options configure a Forwarder. Nodes is required.
type Options struct {
	Nodes    Nodes
	Patience time.Duration // how long a request that has not begun is tried; zero: 10 s
	Look     time.Duration // how often it is checked that a request is still at the right node; zero: 2 s
	Log      *slog.Logger  // nil: none
}

// Forwarder implements auth.Places. Safe for concurrent use.
type Forwarder struct {
	o     Options
	plain http.RoundTripper // HTTP/1.1, with upgrades
	multi http.RoundTripper // HTTP/2, for gRPC

	mu      sync.Mutex
	serving map[cluster.Piece]*visits
}

// visits are the requests that this node answers about a piece.
type visits struct {
	n    int
	left func()        // closes at.Left, once
	gone chan struct{} // at.Gone
	at   auth.Place
	none chan struct{} // closed when n is zero after left; nil: nobody waits
}

// New returns a Forwarder.
func New(o Options) *Forwarder {
	if o.Patience <= 0 {
		o.Patience = 10 * time.Second
	}
	if o.Look <= 0 {
		o.Look = 2 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &Forwarder{o: o, serving: map[cluster.Piece]*visits{}}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		node, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		c, err := f.o.Nodes.Dial(ctx, node)
		if err != nil {
			return nil, unreached{err}
		}
		return c, nil
	}
	over := func(version func(*http.Protocols)) http.RoundTripper {
		p := new(http.Protocols)
		version(p)
		return &http.Transport{DialContext: dial, Protocols: p, DisableCompression: true, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute,
			ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: 1 << 20, HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second}}
	}
	f.plain = over(func(p *http.Protocols) { p.SetHTTP1(true) })
	f.multi = over(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })
	return f
}

const (
	dialTime = 2 * time.Second
	again    = 200 * time.Millisecond // between two attempts
)

// Of returns the piece of a user's space.
func Of(user string) cluster.Piece { return cluster.Piece{Space: resource.UserSpace(user)} }

// about returns the piece that a request is about. ok is false if this node answers it in any case.
func about(r *http.Request, c auth.Caller) (p cluster.Piece, ok bool) {
	if c.User == "" || ofTheNode(r.URL.Path) {
		return p, false
	}
	if rest, found := strings.CutPrefix(r.URL.Path, "/api/v1/users/"); found && c.Admin && rest != "" && !strings.Contains(rest, "/") {
		return Of(rest), true // what is kept in memory about that user changes with it
	}
	return Of(c.User), true
}

// ofTheNode reports whether a path is about a node itself: its settings, its folders, and what it is doing.
func ofTheNode(path string) bool {
	for _, p := range []string{"/api/v1/settings", "/api/v1/log-level", "/api/v1/backups", "/api/v1/cluster", "/api/v1/providers", "/api/v1/models", "/assets"} {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

// Find implements auth.Places.
func (f *Forwarder) Find(r *http.Request, c auth.Caller) (auth.Place, error) {
	p, ok := about(r, c)
	if !ok {
		return auth.Place{}, nil
	}
	return f.find(r, c, p, "")
}

// At passes requests on to the node that holds a piece, such as a duty, whoever the caller is. There next answers them.
func (f *Forwarder) At(p cluster.Piece, next http.Handler) http.Handler {
	fail := func(w http.ResponseWriter, r *http.Request, err error) { auth.WriteError(w, r, f.o.Log, err) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, err := f.find(r, auth.Caller{}, p, "")
		switch {
		case err != nil:
			fail(w, r, err)
		case at.Elsewhere != nil:
			at.Elsewhere(fail).ServeHTTP(w, r)
		default:
			defer at.Leave()
			next.ServeHTTP(w, r)
		}
	})
}

// find returns the place where a request about a piece is answered, below a path of the other node.
func (f *Forwarder) find(r *http.Request, c auth.Caller, p cluster.Piece, below string) (auth.Place, error) {
	node, here, err := f.o.Nodes.Reach(r.Context(), p)
	if err != nil {
		return auth.Place{}, err
	}
	if here {
		return f.Visit(p), nil
	}
	if auth.Hops(r) >= auth.MaxHops {
		return auth.Place{}, errMoving
	}
	return auth.Place{Elsewhere: func(fail auth.Fail) http.Handler { return f.proxy(node, p, c, below, fail) }}, nil
}

// Below returns the places of requests to a server that only some nodes have at an address of its own. The other
// nodes answer them below a path.
func (f *Forwarder) Below(path string) auth.Places { return below{f, path} }

type below struct {
	*Forwarder
	path string
}

// Find implements auth.Places.
func (b below) Find(r *http.Request, c auth.Caller) (auth.Place, error) {
	return b.find(r, c, Of(c.User), b.path)
}

var errMoving error = fault.New(fault.Unavailable, "space_moving", "the nodes of the cluster are just taking over work from each other").
	WithHint("send the request again in a second").Retrying(fault.RetryAfter, time.Second)

// Visit begins a request about a piece that this node answers. Leave ends it.
func (f *Forwarder) Visit(p cluster.Piece) auth.Place {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.serving[p]
	if v == nil {
		left, gone := make(chan struct{}), make(chan struct{})
		v = &visits{left: sync.OnceFunc(func() { close(left) }), gone: gone, at: auth.Place{Left: left, Gone: gone}}
		f.serving[p] = v
	}
	v.n++
	at := v.at
	at.Leave = sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if v.n--; v.n > 0 {
			return
		}
		if f.serving[p] == v {
			delete(f.serving, p)
		}
		if v.none != nil {
			close(v.none)
		}
	})
	return at
}

// Busy reports whether this node answers requests about a piece.
func (f *Forwarder) Busy(p cluster.Piece) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.serving[p] != nil
}

// Leaving closes the connections about a piece that this node answers: it is about to let go of it.
func (f *Forwarder) Leaving(p cluster.Piece) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := f.serving[p]; v != nil {
		v.left()
	}
}

// Release ends the requests about a piece that this node answers, and waits until they have ended, or ctx.
func (f *Forwarder) Release(ctx context.Context, p cluster.Piece) {
	f.mu.Lock()
	v := f.serving[p]
	if v == nil {
		f.mu.Unlock()
		return
	}
	delete(f.serving, p)
	none := make(chan struct{})
	v.none = none
	v.left()
	close(v.gone)
	f.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
		f.o.Log.Warn("requests about a space did not end in time", "piece", Name(p))
	}
}

// Name names a piece for a person.
func Name(p cluster.Piece) string {
	if p.Duty != "" {
		return p.Duty
	}
	if user, ok := p.Space.User(); ok {
		return "user:" + user
	}
	return "a space"
}

// unreached wraps the error of a connection that was not made: nothing was sent.
type unreached struct{ error }

// Unwrap returns the cause.
func (u unreached) Unwrap() error { return u.error }

// proxy passes requests about a piece on to a node.
func (f *Forwarder) proxy(node string, p cluster.Piece, c auth.Caller, below string, fail auth.Fail) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		t := &attempts{f: f, piece: p, node: node, multi: r.ProtoMajor == 2}
		go f.look(ctx, cancel, t, c)
		(&httputil.ReverseProxy{
			Rewrite: func(x *httputil.ProxyRequest) {
				x.Out.URL.Scheme, x.Out.URL.Host, x.Out.Host = "http", "node", x.In.Host
				if below != "" {
					x.Out.URL.Path, x.Out.URL.RawPath = below+x.In.URL.Path, ""
				}
				for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} { // of a proxy in front of the nodes
					if v, ok := x.In.Header[h]; ok {
						x.Out.Header[h] = v
					}
				}
				auth.Forward(x.Out.Header, x.In, c)
			},
			Transport: t, FlushInterval: -1, ErrorLog: slog.NewLogLogger(f.o.Log.Handler(), slog.LevelDebug),
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { fail(w, r, f.lost(ctx, err)) },
		}).ServeHTTP(w, r.WithContext(ctx))
	})
}

// lost returns the error for a request that another node has not answered.
func (f *Forwarder) lost(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if coded, ok := errors.AsType[*fault.Error](err); ok {
		return coded
	}
	f.o.Log.Info("a request was lost with the node that answered it", "error", err)
	return fault.New(fault.Unavailable, "node_lost", "the node of the cluster that worked on this is gone").
		WithHint("look whether it was done, then send it again if need be").Retrying(fault.RetryBackoff, 0)
}

// look ends a request when its caller has lost access, or when another node works on its piece: a node that is
// stopped, but not gone, would let the caller wait.
func (f *Forwarder) look(ctx context.Context, cancel context.CancelCauseFunc, t *attempts, c auth.Caller) {
	tick := time.NewTicker(f.o.Look)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := c.Recheck(ctx); fault.Is(err, fault.Unauthentic) || fault.Is(err, fault.Denied) {
			cancel(err)
			return
		}
		at := t.at()
		if at == "" {
			continue // it is still being tried
		}
		asking, done := context.WithTimeout(ctx, f.o.Look)
		node, here, err := f.o.Nodes.Reach(asking, t.piece)
		done()
		if err == nil && (here || node != at) {
			cancel(fault.New(fault.Unavailable, "node_lost", "the node of the cluster that worked on this does so no more").
				WithHint("look whether it was done, then send it again if need be").Retrying(fault.RetryBackoff, 0))
			return
		}
	}
}

// attempts sends one request, to the node that holds the piece at the time.
type attempts struct {
	f     *Forwarder
	piece cluster.Piece
	multi bool

	mu   sync.Mutex
	node string
	sent bool // the node may have the request
}

// at returns the node that may have the request; empty: none has it yet.
func (t *attempts) at() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.sent {
		return ""
	}
	return t.node
}

func (t *attempts) set(node string, sent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.node, t.sent = node, sent
}

// RoundTrip implements http.RoundTripper.
func (t *attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	transport := t.f.plain
	if t.multi {
		transport = t.f.multi
	}
	until := time.Now().Add(t.f.o.Patience)
	for node := t.node; ; {
		try := r.Clone(r.Context())
		try.URL.Host = node
		if r.Body != nil {
			try.Body = io.NopCloser(r.Body) // an attempt that did not reach a node would close it
		}
		t.set(node, true)
		answer, err := transport.RoundTrip(try)
		if !errors.As(err, new(unreached)) || time.Now().After(until) {
			if err == nil && answer.StatusCode == http.StatusSwitchingProtocols {
				if c, ok := answer.Body.(io.ReadWriteCloser); ok {
					answer.Body = upgraded{c}
				}
			}
			return answer, err
		}
		t.set(node, false)
		select {
		case <-time.After(again):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		next, here, err := t.f.o.Nodes.Reach(r.Context(), t.piece)
		switch {
		case err != nil:
			return nil, err
		case here: // it is sent again, and stays
			return nil, errMoving
		}
		node = next
	}
}

// upgraded is the connection of a WebSocket to another node. Most of them say nothing for long, and wait with a small
// buffer each instead of io.Copy's two of 32 KB.
type upgraded struct{ io.ReadWriteCloser }

// WriteTo implements io.WriterTo.
func (u upgraded) WriteTo(w io.Writer) (int64, error) { return pass(w, u.ReadWriteCloser) }

// ReadFrom implements io.ReaderFrom.
func (u upgraded) ReadFrom(r io.Reader) (int64, error) { return pass(u.ReadWriteCloser, r) }

// pass copies until the end. Its buffer is large while it is filled.
func pass(to io.Writer, from io.Reader) (total int64, err error) {
	var small [1 << 10]byte
	buf := small[:]
	for {
		n, err := from.Read(buf)
		if n > 0 {
			m, err := to.Write(buf[:n])
			total += int64(m)
			if err != nil {
				return total, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		case n < len(buf):
			buf = small[:]
		case n == len(small):
			buf = make([]byte, 32<<10)
		}
	}
}

// Close closes the connections that are not used.
func (f *Forwarder) Close() {
	for _, t := range []http.RoundTripper{f.plain, f.multi} {
		t.(*http.Transport).CloseIdleConnections()
	}
}
