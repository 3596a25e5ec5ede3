package egress

import (
	"io"
	"net/http"
)

// Renewing sends requests whose headers hold a secret that may be replaced while Steward runs. If the
// receiver refuses a request (401, 403), the secret is read again; if it has changed, the request is
// sent once more.
type Renewing struct {
	Base http.RoundTripper
	// Set writes the secret into the headers of a request. sent are the headers that the receiver has
	// refused, or nil; then Set reports whether it wrote something else.
	Set func(r *http.Request, sent http.Header) (changed bool, err error)
}

// maxRefusal bounds how much is read of a refused response, in bytes.
const maxRefusal = 64 << 10

// RoundTrip implements http.RoundTripper.
func (t Renewing) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	if _, err := t.Set(out, nil); err != nil {
		closeBody(r)
		return nil, err
	}
	res, err := t.Base.RoundTrip(out)
	if err != nil || res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden || r.Body != nil && r.GetBody == nil {
		return res, err
	}
	again := r.Clone(r.Context())
	if changed, err := t.Set(again, out.Header); err != nil || !changed {
		return res, nil // the refusal says more than the error
	}
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return res, nil
		}
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxRefusal) // so that its connection can be used again
	_ = res.Body.Close()
	return t.Base.RoundTrip(again)
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // http.RoundTripper requires it, also of a request that was not sent
	}
}

// CloseIdleConnections implements what http.Client looks for.
func (t Renewing) CloseIdleConnections() {
	if c, ok := t.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Bearer returns a Renewing that sends a key as a bearer token. key reads it; it is read at the first
// request, and again when it is refused. An empty key is not sent.
func Bearer(base http.RoundTripper, key func() (string, error)) Renewing {
	held := make(chan *string, 1) // the key that was read last
	held <- nil
	return Renewing{Base: base, Set: func(r *http.Request, sent http.Header) (bool, error) {
		now := <-held
		defer func() { held <- now }()
		if now == nil || sent != nil && sent.Get("Authorization") == bearer(*now) {
			k, err := key()
			if err != nil {
				return false, err
			}
			now = &k
		}
		if *now != "" {
			r.Header.Set("Authorization", bearer(*now))
		}
		return sent != nil && sent.Get("Authorization") != bearer(*now), nil
	}}
}

func bearer(key string) string {
	if key == "" {
		return ""
	}
	return "Bearer " + key
}
