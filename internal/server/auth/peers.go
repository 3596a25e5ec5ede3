package auth

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"steward/internal/fault"
)

// Peers are the addresses that may use a protocol without a credential. They stand in for one: all that comes
// from them is said by one user (Guard.WrapUser, Guard.EnterAs). A connection from another address is closed
// before a byte of it is read, and so is one too many.
type Peers struct {
	Allowed []netip.Prefix
	Most    int // connections at the same time; 0: 64
	Log     *slog.Logger
}

// ParsePeers parses a list of addresses and networks, such as 192.168.1.20 and 192.168.1.0/24.
func ParsePeers(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if !strings.Contains(text, "/") {
			var a netip.Addr
			if a, err = netip.ParseAddr(text); err == nil && a.Zone() == "" {
				p = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())
			}
		}
		if err != nil || !p.IsValid() {
			return nil, fault.New(fault.Invalid, "peer_invalid", "%.80q is not an address or a network", text).
				WithHint("write one such as 192.168.1.20 or 192.168.1.0/24")
		}
		out = append(out, p)
	}
	return out, nil
}

// Listen returns a listener that accepts connections of the peers alone.
func (p Peers) Listen(ln net.Listener) net.Listener {
	if p.Most <= 0 {
		p.Most = 64
	}
	return &peerListener{Listener: ln, peers: p, open: make(chan struct{}, p.Most)}
}

type peerListener struct {
	net.Listener
	peers Peers
	open  chan struct{} // one for each open connection
}

// Accept implements net.Listener.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !l.peers.allows(c.RemoteAddr()) {
			l.peers.Log.Info("connection refused: not an allowed peer", "from", c.RemoteAddr().String(), "to", l.Addr().String())
			c.Close() //nolint:errcheck // nothing was said
			continue
		}
		select {
		case l.open <- struct{}{}:
			return &peerConn{Conn: c, leave: sync.OnceFunc(func() { <-l.open })}, nil
		default:
			l.peers.Log.Warn("connection refused: too many are open", "from", c.RemoteAddr().String(), "limit", l.peers.Most)
			c.Close() //nolint:errcheck // nothing was said
		}
	}
}

func (p Peers) allows(from net.Addr) bool {
	at, err := netip.ParseAddrPort(from.String())
	if err != nil {
		return false
	}
	a := at.Addr().Unmap().WithZone("")
	for _, net := range p.Allowed {
		if net.Contains(a) {
			return true
		}
	}
	return false
}

type peerConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *peerConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// CloseWrite tells the peer that nothing follows; it can still be read. Where that is not possible, it closes all.
func (c *peerConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// EnterAs lets a peer in as a user, who must exist and not be disabled. The returned function must be called at the
// end of the request. Such a caller is no person: nothing is approved or decided on its behalf.
func (g *Guard) EnterAs(ctx context.Context, user string) (Caller, func(), error) {
	c, err := g.person(ctx, user, func(context.Context) error { return nil })
	if err != nil {
		return Caller{}, nil, err
	}
	c.Admin = false
	leave, err := g.o.Intake.enter(&c)
	return c, leave, err
}

// WrapUser passes requests on as those of one user. It is Wrap for a server that only Peers reach, and that
// asks for no credential. Pages of foreign origins are refused as by Wrap.
func (g *Guard) WrapUser(user string, next http.Handler, fail Fail) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Trusted(r) {
			g.Wrap(next, fail).ServeHTTP(w, r)
			return
		}
		done, err := g.place(w, r)
		if err == nil && done {
			return
		}
		var c Caller
		leave := func() {}
		if err == nil {
			c, leave, err = g.EnterAs(r.Context(), user)
		}
		if err != nil {
			g.o.Logger.InfoContext(r.Context(), "request refused", "code", fault.Of(err).Code, "path", r.URL.Path, "from", r.RemoteAddr)
			fail(w, r, err)
			return
		}
		defer leave()
		g.answer(w, r, c, next, fail)
	})
}
