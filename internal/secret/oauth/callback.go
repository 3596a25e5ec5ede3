package oauth

import (
	"cmp"
	"context"
	"crypto/subtle"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"steward/internal/fault"
)

// Callback listens on this machine for the browser that an authorization server sends back.
type Callback struct {
	URL string // the redirect URI: http://127.0.0.1:PORT

	server *http.Server
	got    chan url.Values
}

// Listen starts a Callback on a free port. Close it. Error code: oauth_listen_failed.
func Listen() (*Callback, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.New(fault.Unavailable, "oauth_listen_failed", "cannot listen for the browser's answer: %w", err)
	}
	c := &Callback{URL: "http://" + l.Addr().String(), got: make(chan url.Values)}
	c.server = &http.Server{Handler: http.HandlerFunc(c.serve), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go c.server.Serve(l) //nolint:errcheck // it ends with Close
	return c, nil
}

// Close stops listening, once the browser has got its page.
func (c *Callback) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c.server.Shutdown(ctx) == nil {
		return nil
	}
	return c.server.Close()
}

func (c *Callback) serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.Method != http.MethodGet || r.URL.Path != "/" || q.Get("state") == "" {
		http.NotFound(w, r)
		return
	}
	select {
	case c.got <- q:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, "Steward has the answer. You can close this page.\n") //nolint:errcheck // the answer counts, not the page
	case <-r.Context().Done():
	case <-time.After(5 * time.Second):
		http.Error(w, "No sign-in is in progress.", http.StatusGone)
	}
}

// Wait returns the parameters of the redirect that has the state, or of one that comes by another way; more may
// be nil. Others are ignored: any program on this machine can send one. Error code: oauth_refused.
func (c *Callback) Wait(ctx context.Context, state string, more <-chan url.Values) (url.Values, error) {
	for {
		var q url.Values
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case q = <-c.got:
		case q = <-more:
		}
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			continue
		}
		if q.Get("code") == "" {
			return nil, refused("the service", cmp.Or(q.Get("error"), "no code"))
		}
		return q, nil
	}
}
