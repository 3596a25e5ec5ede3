// Package client calls Steward's HTTP API, which docs/reference/api.md describes: each method calls
// one route. Programs authenticate with a key (steward keys create) or, on the machine that Steward
// runs on, with its token (steward token).
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

// Prefix is the path of the API below the server's URL.
const Prefix = "/api/v1"

// Options configure a Client. URL is required.
type Options struct {
	URL   string                 // such as "http://127.0.0.1:7420"
	Token func() (string, error) // the credential, read before each request because it may be replaced; nil: none is sent
	HTTP  *http.Client           // nil: http.DefaultClient
	Fault func(*Error) error     // maps the errors that are returned; nil: they are returned unchanged
}

// Client calls one Steward server. It is safe for concurrent use.
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

// Error is an error that Steward returned, or reports that Steward could not be reached
// (server_unreachable). docs/reference/api.md lists the codes.
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

// Error returns the message, its cause and the remedy on one line.
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

// After returns how long to wait before another attempt.
func (e *Error) After() time.Duration { return time.Duration(e.AfterMS) * time.Millisecond }

// URL returns the URL of the server.
func (c *Client) URL() string { return c.o.URL }

// HTTP returns the HTTP client that makes the requests.
func (c *Client) HTTP() *http.Client { return c.o.HTTP }

// Params are the parameters of a route by name. Those named in braces in the route go into the
// path, the others into the query. Empty values are left out.
type Params map[string]string

// Call makes a request to a route, which is written as in docs/reference/api.md, such as "GET
// /conversations/{id}". If in is not nil it is sent as JSON, or unchanged if it is an io.Reader.
// The answer is decoded into out, or copied to it if it is an io.Writer. If out is nil the answer
// is discarded.
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

// encode returns a request body and its content type.
func encode(in any) (io.Reader, string, error) {
	switch in := in.(type) {
	case nil:
		return nil, "", nil
	case io.Reader:
		return io.NopCloser(in), "application/octet-stream", nil // the caller closes it
	}
	b, err := json.Marshal(in)
	return bytes.NewReader(b), "application/json", err
}

// fill puts the parameters into the path and the query.
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

// refused reads the error from an answer.
func (c *Client) refused(res *http.Response) error {
	var body struct{ Error Error }
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && json.Unmarshal(b, &body) == nil && body.Error.Code != "" {
		return c.o.Fault(&body.Error)
	}
	return c.o.Fault(&Error{Kind: "unavailable", Code: "server_refused", Message: "the running Steward returned " + res.Status,
		Remedy: "it may have another version: restart it"})
}

// BrokenError reports that the connection to Steward failed or was lost. Another attempt may
// succeed.
type BrokenError struct{ error }

// Unwrap returns the underlying error.
func (e BrokenError) Unwrap() error { return e.error }

// unreachable returns the error for a server that does not answer, or answers with garbage.
func (c *Client) unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return BrokenError{c.o.Fault(&Error{Kind: "unavailable", Code: "server_unreachable", Message: "the Steward at " + c.o.URL + " does not answer",
		Remedy: "check whether it is running; steward doctor shows more", Retry: "backoff", Cause: err})}
}

// Close closes idle connections.
func (c *Client) Close() { c.o.HTTP.CloseIdleConnections() }

// ask makes a request and returns its decoded answer.
func ask[T any](ctx context.Context, c *Client, route string, p Params, in any) (out T, err error) {
	err = c.Call(ctx, route, p, in, &out)
	return out, err
}

// yes encodes a boolean for a query; false is left out.
func yes(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// stamp encodes a time for a query. The zero time becomes "".
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}
