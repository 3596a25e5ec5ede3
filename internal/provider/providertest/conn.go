package providertest

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"steward/internal/llm"
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

const testKey = "key-5e1f-that-nobody-may-see"

// model returns the vendor's model at a client, its requests checked.
func (v Vendor) model(t testing.TB, client *http.Client, opt Options) llm.Model {
	return v.provider(t, client, opt).Model(v.Model)
}

func (v Vendor) provider(t testing.TB, client *http.Client, opt Options) llm.Provider {
	if opt.BaseURL == "" {
		opt.BaseURL = "http://vendor.test"
	}
	opt.Key = testKey
	opt.HTTP = &http.Client{Transport: &checking{t, v, client.Transport, nil}}
	return v.New(opt)
}

// checking passes requests on and holds their bodies against the rules.
type checking struct {
	t    testing.TB
	v    Vendor
	next http.RoundTripper
	seen func(body []byte)
}

func (c *checking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(body)
		switch {
		case err != nil:
			c.t.Errorf("the request's body cannot be read: %v", err)
		case r.ContentLength != int64(len(b)):
			c.t.Errorf("the request says %d bytes and has %d", r.ContentLength, len(b))
		default:
			if err := c.v.Check(b); err != nil {
				c.t.Errorf("%s's rules: %v\n%s", c.v.Name, err, b)
			}
		}
		if c.seen != nil {
			c.seen(b)
		}
	}
	return c.next.RoundTrip(r)
}

// recording is a client that answers with the exchange and keeps the bodies it was sent.
func recording(t testing.TB, v Vendor, e *Exchange, bodies *[][]byte) *http.Client {
	next := script{what: e.raw(true)}.client().Transport
	return &http.Client{Transport: &checking{t, v, next, func(b []byte) { *bodies = append(*bodies, b) }}}
}
