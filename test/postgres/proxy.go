//go:build linux

package postgres

import (
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Proxy stands between a client and the cluster and breaks connections on request.
type Proxy struct {
	dir     string
	cluster *Cluster
	l       net.Listener
	running sync.WaitGroup

	mu    sync.Mutex
	cut   Cut
	shut  bool
	conns map[net.Conn]bool
}

// Cut says when a connection breaks.
type Cut int

// The ways in which a connection breaks at the next words of a client.
const (
	Never       Cut = iota
	BeforeWords     // they do not reach the server
	AfterWords      // they do, but the answer does not come back
	Orphan          // they do not, and the server does not learn that the client is gone
)

// NewProxy starts a proxy that ends with the test.
func NewProxy(t testing.TB, c *Cluster) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgproxy")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{dir: dir, cluster: c, l: l, conns: make(map[net.Conn]bool)}
	p.running.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.Break()
		p.running.Wait()
		os.RemoveAll(dir)
	})
	return p
}

// URL returns the address of a database behind the proxy.
func (p *Proxy) URL(role, database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + database, RawQuery: "host=" + url.QueryEscape(p.dir)}).String()
}

// Next breaks the connection on which a client speaks next.
func (p *Proxy) Next(c Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = c
}

// Refuse closes every later connection at once, until it is told otherwise.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = refuse
}

func (p *Proxy) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shut
}

// Break closes all connections.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) serve() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", filepath.Join(p.cluster.dir, ".s.PGSQL.5432"))
		if err != nil || p.refuses() {
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		answered := make(chan struct{}) // closed when nothing more is passed back
		p.running.Go(func() { p.requests(client, server, answered) })
		p.running.Go(func() {
			defer close(answered)
			defer p.drop(client)
			io.Copy(client, server)
		})
	}
}

func (p *Proxy) take() Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.cut
	p.cut = Never
	return c
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

// requests passes on what the client says, until the connection is to break. When
// the words are to reach the server, it waits for the answer, which then finds no
// client any more.
func (p *Proxy) requests(client, server net.Conn, answered <-chan struct{}) {
	defer p.drop(client, server)
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		cut := p.take()
		if cut == BeforeWords {
			return
		}
		if cut == AfterWords || cut == Orphan {
			client.Close()
		}
		if cut == Orphan {
			<-answered // the server ends the session
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
		if cut == AfterWords {
			<-answered
			return
		}
	}
}
