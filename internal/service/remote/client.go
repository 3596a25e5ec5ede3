// Package remote is the client for services at a URL: those of another Steward,
// and a log endpoint that accepts OpenTelemetry's protocol (OTLP).
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/service"
)

// AgentHeader is the HTTP header that names the agent whose services are used.
const AgentHeader = "Steward-Agent"

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 8 << 20

// Client calls the services of another Steward (docs/guides/services.md) with a key of a user there. It is
// safe for concurrent use. Errors are those of the other Steward, or service_unreachable (Unavailable),
// service_refused and service_answer_broken.
type Client struct {
	base string
	http *http.Client
}

var _ service.RemoteBackend = (*Client)(nil)

// Dial returns a client; it connects at the first call.
func Dial(base string, key service.Key) *Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 8
	return &Client{base: strings.TrimSuffix(base, "/"), http: &http.Client{
		Transport: egress.Bearer(t, key), Timeout: time.Minute,
		// The key must not be sent to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Get implements service.KV.
func (c *Client) Get(ctx context.Context, who service.Caller, key string) (json.RawMessage, error) {
	var v json.RawMessage
	return v, c.do(ctx, who, http.MethodGet, "/state/"+url.PathEscape(key), nil, &v)
}

// Put implements service.KV.
func (c *Client) Put(ctx context.Context, who service.Caller, key string, value json.RawMessage) error {
	return c.do(ctx, who, http.MethodPut, "/state/"+url.PathEscape(key), value, nil)
}

// Delete implements service.KV.
func (c *Client) Delete(ctx context.Context, who service.Caller, key string) error {
	return c.do(ctx, who, http.MethodDelete, "/state/"+url.PathEscape(key), nil, nil)
}

// List implements service.KV.
func (c *Client) List(ctx context.Context, who service.Caller, prefix, after string, limit int) ([]string, error) {
	q := url.Values{"prefix": {prefix}, "after": {after}, "limit": {strconv.Itoa(limit)}}
	var v struct{ Keys []string }
	return v.Keys, c.do(ctx, who, http.MethodGet, "/state?"+q.Encode(), nil, &v)
}

// Query implements service.Database.
func (c *Client) Query(ctx context.Context, who service.Caller, statement string, args ...any) (service.Rows, error) {
	var v service.Rows
	return v, c.do(ctx, who, http.MethodPost, "/db/query", service.Statement{SQL: statement, Args: args}, &v)
}

// Exec implements service.Database.
func (c *Client) Exec(ctx context.Context, who service.Caller, statements ...service.Statement) (int64, error) {
	var v struct{ Changed int64 }
	err := c.do(ctx, who, http.MethodPost, "/db/exec", map[string]any{"statements": statements}, &v)
	return v.Changed, err
}

// Profile implements service.RemoteBackend.
func (c *Client) Profile(ctx context.Context, who service.Caller) (json.RawMessage, error) {
	var v json.RawMessage
	return v, c.do(ctx, who, http.MethodGet, "/user", nil, &v)
}

// do sends one request; a body that is not raw JSON is encoded.
func (c *Client) do(ctx context.Context, who service.Caller, method, path string, body, into any) (err error) {
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return fault.New(fault.Invalid, "value_invalid", "the request is not valid JSON: %w", err)
		}
		payload = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return fault.New(fault.Invalid, "service_invalid", "%s is not the address of a service: %w", c.base, err)
	}
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set(AgentHeader, who.Agent)
	res, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return fault.Of(ctx.Err())
		}
		if f := (*fault.Error)(nil); errors.As(err, &f) { // of the key
			return f
		}
		return c.unreachable(err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.unreachable(err)
	case len(answer) > maxAnswer:
		return fault.New(fault.TooLarge, "answer_too_large", "the answer of the service at %s has more than %d bytes", c.base, maxAnswer)
	case res.StatusCode >= 300:
		return c.refusal(res, answer)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fault.New(fault.Internal, "service_answer_broken", "the answer of the service at %s is not JSON: %w", c.base, err).
			WithHint("check that %s is the services address of a Steward (…/services/v1)", c.base)
	}
	return nil
}

func (c *Client) unreachable(err error) error {
	return fault.New(fault.Unavailable, "service_unreachable", "the service at %s cannot be reached: %w", c.base, err).
		WithHint("check that it is running and that the url is correct").Retrying(fault.RetryBackoff, 0)
}

// refusal decodes the error that the other Steward returned.
func (c *Client) refusal(res *http.Response, answer []byte) error {
	var refusal struct {
		Error struct {
			Kind                  fault.Kind
			Code, Message, Remedy string
		}
	}
	if err := json.Unmarshal(answer, &refusal); err != nil || refusal.Error.Code == "" || refusal.Error.Kind == "" {
		kind := fault.Invalid
		if res.StatusCode >= 500 { // a proxy's, in front of a Steward that is down
			kind = fault.Unavailable
		}
		return fault.New(kind, "service_refused", "the service at %s answered %s", c.base, res.Status).
			WithHint("check that this is the services address of a Steward (…/services/v1) and that the key is valid")
	}
	return fault.New(refusal.Error.Kind, refusal.Error.Code, "%s", refusal.Error.Message).WithHint("%s", refusal.Error.Remedy).
		Detail("service", c.base).Detail("status", fmt.Sprint(res.StatusCode))
}
