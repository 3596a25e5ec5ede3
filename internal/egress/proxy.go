package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"steward/internal/fault"
)

// Limits of a proxy.
const (
	maxConns   = 64              // of the program, at once; further ones wait
	maxHeaders = 64 << 10        // bytes of a request's headers
	idleFor    = 5 * time.Minute // a connection without traffic is closed
	maxLogged  = 20              // refusals that are logged
)

// Proxy is an HTTP proxy for one program: CONNECT, and plain HTTP. It bounds connections, headers
// and idle time, not bytes. Close ends all traffic through it.
type Proxy struct {
	dialer  Dialer
	setting string
	log     *slog.Logger
	ctx     context.Context
	end     context.CancelFunc
	forward *httputil.ReverseProxy
	server  *http.Server
	work    sync.WaitGroup

	mu     sync.Mutex
	logged []string // addresses whose refusal was logged
}

// NewProxy makes a proxy that connects through d. setting is the key that a refusal names for
// the program's owner to change. Refusals are logged.
func NewProxy(d Dialer, setting string, log *slog.Logger) *Proxy {
	p := &Proxy{dialer: d, setting: setting, log: log}
	p.ctx, p.end = context.WithCancel(context.Background())
	out := d.Transport()
	out.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return idleTimeoutConn{conn}, nil
	}
	out.DisableCompression, out.ForceAttemptHTTP2, out.ResponseHeaderTimeout = true, false, idleFor
	quiet := slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	p.forward = &httputil.ReverseProxy{Transport: out, FlushInterval: -1, ErrorLog: quiet,
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.Host = r.Out.URL.Host },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			status, text := p.refusal(r.URL.Host, err)
			http.Error(w, text, status)
		}}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, IdleTimeout: idleFor, MaxHeaderBytes: maxHeaders, ErrorLog: quiet,
		BaseContext: func(net.Listener) context.Context { return p.ctx }}
	return p
}

// Serve serves a listener until Close, and closes it at the end.
func (p *Proxy) Serve(l net.Listener) error {
	err := p.server.Serve(netutil.LimitListener(l, maxConns))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close ends all connections and waits until they have ended.
func (p *Proxy) Close() {
	p.end()
	_ = p.server.Close() // its listeners may be closed already
	p.work.Wait()
	p.forward.Transport.(*http.Transport).CloseIdleConnections()
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		p.work.Add(1)
		defer p.work.Done()
		p.tunnel(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		p.forward.ServeHTTP(w, r)
	default:
		http.Error(w, "this is an HTTP proxy: send CONNECT, or a request for an http:// URL", http.StatusBadRequest)
	}
}

// refusal is the response that a program gets for a connection that was not made.
func (p *Proxy) refusal(address string, err error) (status int, text string) {
	f := fault.Of(err)
	if f.Kind != fault.Denied {
		return http.StatusBadGateway, f.Message
	}
	p.mu.Lock()
	tell := len(p.logged) < maxLogged && !slices.Contains(p.logged, address)
	if tell {
		p.logged = append(p.logged, address)
	}
	p.mu.Unlock()
	if tell {
		p.log.Warn("a program was denied a connection", "address", address, "reason", f.Message, "setting", p.setting)
	}
	return http.StatusForbidden, fmt.Sprintf("Steward: %s; %s in the program's declaration lists the allowed hosts", f.Message, p.setting)
}

// tunnel answers CONNECT.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	to, err := p.dialer.DialContext(r.Context(), "tcp", r.Host)
	from, buffered, herr := http.NewResponseController(w).Hijack()
	if herr != nil {
		if err == nil {
			to.Close()
		}
		http.Error(w, "CONNECT needs HTTP/1.1", http.StatusHTTPVersionNotSupported)
		return
	}
	defer from.Close()
	defer context.AfterFunc(p.ctx, func() { from.Close() })()
	if err != nil {
		status, text := p.refusal(r.Host, err)
		// Many clients show only the status line of a CONNECT response.
		_ = from.SetDeadline(time.Now().Add(idleFor))
		fmt.Fprintf(from, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			status, reason(text), len(text), text)
		return
	}
	defer to.Close()
	defer context.AfterFunc(p.ctx, func() { to.Close() })()
	if _, err := io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pipe(to, from, buffered.Reader, from, to) })
	pipe(from, to, bufio.NewReader(to), from, to)
	both.Wait()
}

// reason returns a text in a form that fits into a status line.
func reason(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text[:min(len(text), 300)])
}

// pipe copies from r until it ends, and then half-closes the other side. Traffic in one direction
// keeps both connections alive.
func pipe(to, from net.Conn, r *bufio.Reader, both ...net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		until := time.Now().Add(idleFor)
		for _, c := range both {
			_ = c.SetDeadline(until) // if it is closed, the next call reports that
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				from.Close()
				break
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				to.Close()
			}
			break
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed
	}
}

// idleTimeoutConn is a connection that is given up after a time without traffic.
type idleTimeoutConn struct{ net.Conn }

func (c idleTimeoutConn) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(idleFor)) // if it is closed, Read reports that
	return c.Conn.Read(b)
}

func (c idleTimeoutConn) Write(b []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(idleFor))
	return c.Conn.Write(b)
}
