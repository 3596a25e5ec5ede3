// Package wire holds what the provider clients share: JSON requests with streamed answers, the two
// framings that vendors use for streams (server-sent events and newline-delimited JSON), coded
// errors by HTTP status, and a small JSON reader and writer for the hot path. It is independent of
// any vendor.
package wire

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/lifetime/telemetry"
	"steward/internal/llm"
)

// Defaults for the zero values in Options.
const (
	DefaultFirstByte = 120 * time.Second
	DefaultIdle      = 60 * time.Second
	idleConnsPerHost = 256 // with Go's default of 2, parallel conversations would reconnect all the time
)

// Options configure a Client for one vendor's endpoint.
type Options struct {
	Name      string        // the provider's, for error messages
	BaseURL   string        // http or https; paths are appended to it
	Header    http.Header   // sent with every request
	Secrets   []string      // removed from every error, whatever the server writes
	HTTP      *http.Client  // nil: one with a connection pool of its own
	FirstByte time.Duration // from the request to the first byte of the answer's body
	Idle      time.Duration // between bytes of the answer

	// Explain reads the vendor's own error JSON. If it is nil, or returns an empty Refusal, the
	// status decides.
	Explain func(status int, body []byte) Refusal
}

// Client posts JSON to one endpoint. It is safe for concurrent use.
type Client struct {
	opt  Options
	base *url.URL
	bad  *fault.Error // why the base URL is invalid
	get  http.Header  // headers of requests, never written to after New
	post http.Header
	bufs sync.Pool // of *[]byte, for stream readers
}

// New returns a client. If the base URL is invalid, every call returns an error.
func New(opt Options) *Client {
	if opt.FirstByte <= 0 {
		opt.FirstByte = DefaultFirstByte
	}
	if opt.Idle <= 0 {
		opt.Idle = DefaultIdle
	}
	if opt.HTTP == nil {
		opt.HTTP = Pool()
	}
	stays := *opt.HTTP
	stays.CheckRedirect = stay
	opt.HTTP = &stays
	c := &Client{opt: opt, get: http.Header{"User-Agent": {"steward"}}}
	for k, v := range opt.Header {
		c.get[http.CanonicalHeaderKey(k)] = v
	}
	c.post = c.get.Clone()
	c.post.Set("Content-Type", "application/json")
	c.base, c.bad = parseBase(opt)
	return c
}

// stay follows redirects within the same server only, because no other server may receive the key
// or the request. Any other redirect becomes the answer.
func stay(r *http.Request, via []*http.Request) error {
	if first := via[0].URL; len(via) > 3 || r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// Pool returns an HTTP client with a connection pool for streams. It does not use compression,
// which would delay tokens, and it keeps as many idle connections as there may be conversations.
func Pool() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = idleConnsPerHost
	t.DisableCompression = true
	t.WriteBufferSize = 64 << 10 // a request in one write, not in pieces of 4 KB
	return &http.Client{Transport: t}
}

func parseBase(opt Options) (*url.URL, *fault.Error) {
	u, err := url.Parse(strings.TrimRight(opt.BaseURL, "/"))
	switch {
	case err != nil: // its text would repeat the URL, which may contain a password
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
	default:
		return u, nil
	}
	return nil, fault.New(fault.Invalid, "bad_base_url", "the base URL of %s is not an http or https URL", opt.Name).
		WithHint("set it to something like https://host/v1")
}

// BaseURL returns the endpoint without user, password and query, so that it can be shown.
func (c *Client) BaseURL() string {
	if c.base == nil {
		return ""
	}
	return (&url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Path: c.base.Path}).String()
}

// Post sends the parts as one JSON body, one after the other and, if they are large, without copying
// them. It returns
// the answer once its header has arrived with a 2xx status. path is appended to the base URL and
// may contain a query. The caller must close the answer.
func (c *Client) Post(ctx context.Context, path string, parts ...[]byte) (*Answer, error) {
	return c.send(ctx, http.MethodPost, path, parts)
}

// Question is a request whose answer is streamed.
type Question struct {
	Path    string
	Parts   [][]byte // see Post
	Notices []string // what the request could not express; each is yielded once, before the answer
}

// Ask posts a question and calls read to assemble the answer. err is the reason why there is no
// question, if the request could not be built. If the consumer stops at a notice, nothing is sent.
func (c *Client) Ask(ctx context.Context, q Question, err error, yield func(llm.Event, error) bool, read func(*Assembly, *Answer)) {
	asm := Assemble(yield)
	for i, n := range q.Notices {
		if !slices.Contains(q.Notices[:i], n) {
			asm.Notice(n)
		}
	}
	if asm.Gone {
		return
	}
	var answer *Answer
	if err == nil {
		answer, err = c.Post(ctx, q.Path, q.Parts...)
	}
	if err != nil {
		asm.Fail(err)
		return
	}
	defer answer.Close()
	read(asm, answer)
}

// Get requests a path and returns the whole body, of at most 16 MB.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	return whole(c.send(ctx, http.MethodGet, path, nil))
}

// PostAll posts as Post does and returns the whole body of the answer, of at most 16 MB.
func (c *Client) PostAll(ctx context.Context, path string, parts ...[]byte) ([]byte, error) {
	return whole(c.send(ctx, http.MethodPost, path, parts))
}

func whole(a *Answer, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return a.All()
}

func (c *Client) send(ctx context.Context, method, path string, parts [][]byte) (*Answer, error) {
	if c.bad != nil {
		return nil, c.bad
	}
	a := &Answer{client: c}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.timer = time.AfterFunc(c.opt.FirstByte, a.expired)
	resp, err := c.opt.HTTP.Do(c.request(a.ctx, method, path, parts))
	if err != nil {
		err = a.fail(err)
		a.Close()
		return nil, err
	}
	a.body, a.Header, a.Status = resp.Body, resp.Header, resp.StatusCode
	if err := a.refused(); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

func (c *Client) request(ctx context.Context, method, path string, parts [][]byte) *http.Request {
	u := *c.base
	path, query, _ := strings.Cut(path, "?")
	u.Path += path
	if u.RawPath != "" {
		u.RawPath += path
	}
	switch {
	case u.RawQuery == "":
		u.RawQuery = query
	case query != "":
		u.RawQuery += "&" + query
	}
	r := &http.Request{
		Method: method, URL: &u, Host: u.Host, Header: c.get,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if method == http.MethodPost {
		r.ContentLength = int64(Size(parts))
		r.Header = c.post
		r.GetBody = bodyOf(parts)
		r.Body, _ = r.GetBody()
	}
	if telemetry.Traced(ctx) {
		r.Header = r.Header.Clone()
		telemetry.Inject(ctx, r.Header)
	}
	return r.WithContext(ctx)
}

// joined is up to which size a body is joined, in bytes: the transport would copy it anyway.
const joined = 32 << 10

// bodyOf returns a function that returns the parts as a body. The transport sends the header alone
// before any body but a reader of the standard library over memory.
func bodyOf(parts [][]byte) func() (io.ReadCloser, error) {
	if Size(parts) <= joined {
		whole := slices.Concat(parts...)
		return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(whole)), nil }
	}
	return func() (io.ReadCloser, error) {
		body := net.Buffers(slices.Clone(parts)) // reading it changes the list
		return io.NopCloser(&body), nil
	}
}

// Size returns the total size of a body's parts, in bytes.
func Size(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}
