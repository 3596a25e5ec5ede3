package provider_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// script is a connection on which the other side, once it has been asked,
// says what, in pieces, and then closes, or goes silent if hold is set.
type script struct {
	what  []byte
	piece func() int // how many bytes the next read gets; nil: all
	hold  bool
}

// client returns an HTTP client whose every connection follows the script.
func (s script) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives:  true,
		DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return &conn{script: s, asked: make(chan struct{}), closed: make(chan struct{})}, nil
		},
	}}
}

type conn struct {
	script
	request bytes.Buffer
	asked   chan struct{} // closed once the request's head has come
	closed  chan struct{}
	once    sync.Once
}

func (c *conn) Write(b []byte) (int, error) {
	before := bytes.Contains(c.request.Bytes(), []byte("\r\n\r\n"))
	c.request.Write(b)
	if !before && bytes.Contains(c.request.Bytes(), []byte("\r\n\r\n")) {
		close(c.asked)
	}
	return len(b), nil
}

func (c *conn) Read(b []byte) (int, error) {
	select {
	case <-c.asked:
	case <-c.closed:
		return 0, net.ErrClosed
	}
	if len(c.what) == 0 {
		if c.hold {
			<-c.closed
			return 0, net.ErrClosed
		}
		return 0, io.EOF
	}
	n := min(len(b), len(c.what))
	if c.piece != nil {
		n = max(1, min(n, c.piece()))
	}
	n = copy(b, c.what[:n])
	c.what = c.what[n:]
	return n, nil
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c *conn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *conn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// pieces returns a function for script.piece that draws sizes from a seed.
func pieces(seed uint64) func() int {
	r := rand.New(rand.NewPCG(seed, 0))
	return func() int { return 1 + r.IntN(1+r.IntN(64)) }
}
