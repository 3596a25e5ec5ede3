package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/secret/oauth"
)

const (
	streamFor  = 5 * time.Second // until a server has opened the stream for its own messages
	deleteFor  = 2 * time.Second // until it has confirmed the end of a session
	maxRefusal = 64 << 10        // bytes of an error response
	maxStream  = 64 << 20        // bytes of the stream that answers one call
)

// guard is the HTTP transport to a server. It sends the headers to that server only, bounds the
// responses, records in a call's mark when its request is sent, and ends everything with ctx.
type guard struct {
	ctx      context.Context
	base     *http.Transport
	origin   string
	headers  atomic.Pointer[http.Header] // of the declaration
	reread   func() http.Header          // the headers with the secrets as they are now; nil: one is missing
	keys     *oauth.Resource             // nil: the server gets no token
	received func()
	replies  atomic.Int32 // replies to requests of the server, under way
}

func newHTTP(ctx context.Context, u *url.URL, headers http.Header, reread func() http.Header, keys *oauth.Resource, received func()) (*guard, sdk.Transport) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = 16
	g := &guard{ctx: ctx, base: base, origin: originOf(u), reread: reread, keys: keys, received: received}
	g.headers.Store(&headers)
	return g, &sdk.StreamableClientTransport{
		Endpoint:     u.String(),
		HTTPClient:   &http.Client{Transport: g, CheckRedirect: g.redirect},
		MaxEventSize: maxMessage,
	}
}

// Close closes idle connections; the others end with ctx.
func (g *guard) Close() error {
	g.base.CloseIdleConnections()
	return nil
}

func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + u.Hostname() + ":" + port
}

// redirect allows a server to redirect only within its own origin: the request may be private, and the
// headers are secret.
func (g *guard) redirect(req *http.Request, via []*http.Request) error {
	if to := originOf(req.URL); to != g.origin {
		return fault.New(fault.Denied, "mcp_redirected", "the server redirects to %s, which is not approved", to).
			WithHint("if that is correct, set it as the server's url")
	}
	if len(via) >= 5 {
		return fault.New(fault.Unavailable, "mcp_redirected", "the server redirects too often")
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if originOf(req.URL) != g.origin {
		return nil, g.redirect(req, nil)
	}
	mark := markOf(req.Context())
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(g.ctx, cancel)
	end := func() { stop(); cancel() }
	inTime := func() bool { return true }
	switch req.Method {
	case http.MethodGet:
		inTime = time.AfterFunc(streamFor, cancel).Stop
	case http.MethodDelete:
		inTime = time.AfterFunc(deleteFor, cancel).Stop
	}
	out := req.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { mark.sent.Store(true) }}))
	maps.Copy(out.Header, *g.headers.Load())
	asked := askedBy(req)
	if asked.reply {
		defer g.replies.Add(-1)
		if g.replies.Add(1) > maxPending {
			end()
			return nil, errFlood
		}
	}
	res, err := g.authorized(out)
	late := !inTime()
	if err != nil {
		end()
		if req.Method == http.MethodGet && late && req.Context().Err() == nil && g.ctx.Err() == nil {
			return noStream(req), nil
		}
		return nil, err
	}
	g.received()
	mark.status.Store(int32(res.StatusCode))
	return g.bound(ctx, res, asked, end)
}

// noStream returns the response of a server that has no stream for its own messages. It stands in
// for a server that does not answer the request for this stream in time.
func noStream(req *http.Request) *http.Response {
	return &http.Response{Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req}
}

// sentRequest is the content of a POST: a call and its id, or the reply to a request of the server.
type sentRequest struct {
	id    json.RawMessage
	call  bool
	reply bool
}

func askedBy(req *http.Request) sentRequest {
	if req.Method != http.MethodPost || req.GetBody == nil {
		return sentRequest{}
	}
	body, err := req.GetBody()
	if err != nil {
		return sentRequest{}
	}
	defer body.Close()
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.NewDecoder(body).Decode(&m); err != nil {
		return sentRequest{}
	}
	return sentRequest{id: m.ID, call: len(m.ID) > 0 && m.Method != "", reply: m.Method == ""}
}

// bound limits the size of a response.
func (g *guard) bound(ctx context.Context, res *http.Response, a sentRequest, end func()) (*http.Response, error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case res.StatusCode >= 300 || res.StatusCode < 200:
		res.Body = &body{Reader: io.LimitReader(res.Body, maxRefusal), close: res.Body.Close, end: end}
	case kind == "text/event-stream":
		s := &stream{r: res.Body, stop: ctx.Done(), left: -1}
		if a.call {
			s.left = maxStream
		}
		res.Body = &body{Reader: newEvents(s), close: res.Body.Close, end: end}
	case a.call && kind == "application/json":
		defer end()
		data, err := g.readWhole(res, a)
		if err != nil {
			return nil, err
		}
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	default:
		res.Body = &body{Reader: io.LimitReader(res.Body, maxRefusal), close: res.Body.Close, end: end}
	}
	return res, nil
}

// readWhole reads the response to a call. A response that does not answer the call becomes an error
// of this call, so that the session's other calls continue.
func (g *guard) readWhole(res *http.Response, a sentRequest) ([]byte, error) {
	defer res.Body.Close()
	instead := func(code int, text string) []byte {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, a.id, code, text)
	}
	if res.ContentLength > maxMessage {
		return instead(codeTooLarge, tooLargeText), nil
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxMessage+1))
	switch {
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, err
	case len(data) > maxMessage:
		return instead(codeTooLarge, tooLargeText), nil
	}
	data = valid(data)
	m, err := jsonrpc.DecodeMessage(data)
	if r, ok := m.(*jsonrpc.Response); err != nil || !ok || fmt.Sprint(r.ID.Raw()) != string(a.id) {
		return instead(codeGarbled, "the response is not an answer to the call"), nil
	}
	return lenientBytes(data), nil
}

// body is a response body with a function that is called at its end.
type body struct {
	io.Reader
	close func() error
	end   func()
}

func (b *body) Close() error {
	defer b.end()
	return b.close()
}

// stream is an event stream that cannot arrive faster than it is processed. If it answers a call,
// its length is limited.
type stream struct {
	r    io.Reader
	stop <-chan struct{}
	left int // bytes; negative: unlimited
	pace rateLimiter
}

func (s *stream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if s.left > 0 && len(p) > s.left {
		p = p[:s.left]
	}
	n, err := s.r.Read(p)
	if s.left > 0 {
		s.left -= n
	}
	if !s.pace.wait(bytes.Count(p[:n], []byte("\n")), s.stop) {
		return n, context.Canceled
	}
	return n, err
}
