// Package client calls Steward's HTTP API, which docs/reference/api.md describes: each
// method is one route. Programs need a key (steward keys create), or on the
// machine that Steward runs on its token (steward token).
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Prefix is where the API lies below a server's URL.
const Prefix = "/api/v1"

// Options say where Steward is and who calls. URL is needed.
type Options struct {
	URL   string                 // such as "http://127.0.0.1:7420"
	Token func() (string, error) // the credential, read before each request, as it may be replaced; nil: none is sent
	HTTP  *http.Client           // nil: http.DefaultClient
	Fault func(*Error) error     // what is returned for an error; nil: the error itself
}

// Client calls one Steward. Safe for concurrent use.
type Client struct{ o Options }

// New returns a client.
func New(o Options) *Client {
	if o.HTTP == nil {
		o.HTTP = http.DefaultClient
	}
	if o.Fault == nil {
		o.Fault = func(e *Error) error { return e }
	}
	o.URL = strings.TrimSuffix(o.URL, "/")
	return &Client{o}
}

// Error is what Steward answers instead of what was asked for, or says that it
// does not answer (server_unreachable). docs/reference/api.md lists the codes.
type Error struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Kind    string         `json:"kind"`
	Remedy  string         `json:"remedy"`
	Retry   string         `json:"retry"`
	AfterMS int64          `json:"retry_after_ms"`
	Details map[string]any `json:"details"`
	Cause   error          `json:"-"` // why Steward could not be reached
}

// Error returns the message, its cause and the remedy in one line.
func (e *Error) Error() string {
	s := e.Message
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// After is how long to wait before another attempt.
func (e *Error) After() time.Duration { return time.Duration(e.AfterMS) * time.Millisecond }

// URL is where the client's Steward is.
func (c *Client) URL() string { return c.o.URL }

// HTTP makes the client's requests.
func (c *Client) HTTP() *http.Client { return c.o.HTTP }

// Params are the values of a route by name: those that stand in braces in the
// route go into the path, the others into the query. Empty ones are left out.
type Params map[string]string

// Call makes a request to a route, written as docs/reference/api.md does, such as
// "GET /conversations/{id}". What in is not nil is sent as JSON, or as it is
// if it is an io.Reader. The answer is decoded into out, or written to it if it
// is an io.Writer; nil: it is of no interest.
func (c *Client) Call(ctx context.Context, route string, p Params, in, out any) error {
	res, err := c.send(ctx, route, p, in)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch out := out.(type) {
	case nil:
	case io.Writer:
		if _, err := io.Copy(out, res.Body); err != nil {
			return c.unreachable(err)
		}
	default:
		if err := json.NewDecoder(res.Body).Decode(out); err != nil {
			return c.unreachable(err)
		}
	}
	return nil
}

func (c *Client) send(ctx context.Context, route string, p Params, in any) (*http.Response, error) {
	method, path, _ := strings.Cut(route, " ")
	body, kind, err := encode(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.o.URL+Prefix+fill(path, p), body)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if err := c.Authorize(req.Header); err != nil {
		return nil, err
	}
	res, err := c.o.HTTP.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		defer res.Body.Close()
		return nil, c.refused(res)
	}
	return res, nil
}

// encode returns a body and its type.
func encode(in any) (io.Reader, string, error) {
	switch in := in.(type) {
	case nil:
		return nil, "", nil
	case io.Reader:
		return io.NopCloser(in), "application/octet-stream", nil // whose it is closes it
	}
	b, err := json.Marshal(in)
	return bytes.NewReader(b), "application/json", err
}

// fill puts parameters into a path and behind it.
func fill(path string, p Params) string {
	q := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if at := "{" + name + "}"; strings.Contains(path, at) {
			path = strings.ReplaceAll(path, at, url.PathEscape(p[name]))
		} else if p[name] != "" {
			q.Set(name, p[name])
		}
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return path
}

// Authorize adds the credential to the headers of a request.
func (c *Client) Authorize(h http.Header) error {
	if c.o.Token == nil {
		return nil
	}
	token, err := c.o.Token()
	if err == nil {
		h.Set("Authorization", "Bearer "+token)
	}
	return err
}

// refused reads the error that an answer carries.
func (c *Client) refused(res *http.Response) error {
	var body struct{ Error Error }
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && json.Unmarshal(b, &body) == nil && body.Error.Code != "" {
		return c.o.Fault(&body.Error)
	}
	return c.o.Fault(&Error{Kind: "unavailable", Code: "server_refused", Message: "the running Steward answered " + res.Status,
		Remedy: "it may be of another version: start it again"})
}

// BrokenError says that there is no connection to Steward, or none any more:
// another attempt may help.
type BrokenError struct{ error }

// Unwrap returns the error itself.
func (e BrokenError) Unwrap() error { return e.error }

// unreachable is the error for a Steward that does not answer, or garbles its answer.
func (c *Client) unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return BrokenError{c.o.Fault(&Error{Kind: "unavailable", Code: "server_unreachable", Message: "the Steward at " + c.o.URL + " does not answer",
		Remedy: "see whether it still runs; steward doctor tells more", Retry: "backoff", Cause: err})}
}

// Close ends connections that are kept for the next request.
func (c *Client) Close() { c.o.HTTP.CloseIdleConnections() }

// ask makes a request and returns its answer.
func ask[T any](ctx context.Context, c *Client, route string, p Params, in any) (out T, err error) {
	err = c.Call(ctx, route, p, in, &out)
	return out, err
}

// yes is how a query says that something holds; nothing says that it does not.
func yes(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// stamp is a time in a query; empty for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}
