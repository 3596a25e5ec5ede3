package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"

	"steward/internal/settings"
)

// extra adds what the settings say to each request to a provider.
type extra struct {
	http.RoundTripper
	headers map[string]string
	body    map[string]json.RawMessage
}

// adding returns a client that adds a provider's headers and body members to each request.
func adding(client *http.Client, p settings.Provider) *http.Client {
	x := extra{client.Transport, p.Headers, nil}
	if p.Body != "" && json.Unmarshal([]byte(p.Body), &x.body) != nil {
		x.body = nil // the settings have checked it
	}
	if len(x.headers)+len(x.body) == 0 {
		return client
	}
	with := *client
	with.Transport = x
	return &with
}

// RoundTrip implements http.RoundTripper.
func (x extra) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range x.headers {
		r.Header.Set(name, value)
	}
	if x.body == nil || r.Body == nil {
		return x.RoundTripper.RoundTrip(r)
	}
	sent, err := io.ReadAll(r.Body)
	r.Body.Close() //nolint:errcheck // it was read
	if err != nil {
		return nil, err
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(sent, &members); err != nil {
		return nil, fmt.Errorf("adding to a request: %w", err)
	}
	maps.Copy(members, x.body)
	whole, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	r.ContentLength, r.Body = int64(len(whole)), io.NopCloser(bytes.NewReader(whole))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(whole)), nil }
	return x.RoundTripper.RoundTrip(r)
}
