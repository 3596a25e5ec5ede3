//go:build linux

package cluster

import (
	"context"
	"net"
	"sync"
	"time"
)

// proxy passes connections on to a server. While it is cut, it passes nothing on and closes nothing, as a network
// does whose cable is pulled: what was sent meanwhile arrives when it is whole again.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	running  sync.WaitGroup

	mu    sync.Mutex
	whole chan struct{} // closed while it is not cut
	conns map[net.Conn]bool
	shut  bool
}

// newProxy listens on a host for a server.
func newProxy(host string, dial func() (net.Conn, error)) (*proxy, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, dial: dial, whole: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(p.whole)
	p.running.Go(p.serve)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whole = make(chan struct{})
}

func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.whole)
}

// wait returns when the proxy is not cut.
func (p *proxy) wait() {
	p.mu.Lock()
	whole := p.whole
	p.mu.Unlock()
	<-whole
}

func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.keep(c) {
			continue
		}
		p.running.Go(func() { p.pass(c) })
	}
}

// keep notes a connection, or closes it if the proxy is closed.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

func (p *proxy) pass(client net.Conn) {
	p.wait()
	server, err := p.dial()
	if err != nil || !p.keep(server) {
		p.drop(client)
		return
	}
	copied := make(chan struct{}, 2)
	one := func(to, from net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			p.wait()
			if n > 0 {
				if _, err := to.Write(buf[:n]); err != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		copied <- struct{}{}
	}
	go one(server, client)
	go one(client, server)
	<-copied
	p.drop(client, server)
	<-copied
}

// close ends all connections. A cut proxy is healed first.
func (p *proxy) close() {
	p.mu.Lock()
	p.shut = true
	select {
	case <-p.whole:
	default:
		close(p.whole)
	}
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.listener.Close()
	p.running.Wait()
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
