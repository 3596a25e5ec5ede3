package rest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"steward/internal/channel"
	"steward/internal/channel/channeltest"
	"steward/internal/channel/rest"
	"steward/internal/fault"
)

func request(t *testing.T, ctx context.Context, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDo(t *testing.T) {
	s := channeltest.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			io.WriteString(w, strings.Repeat("x", 100))
		case "/cut":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "x")
			panic(http.ErrAbortHandler)
		case "/gone":
			panic(http.ErrAbortHandler)
		}
	}))
	do := func(ctx context.Context, path string, limit int64) (rest.Answer, error) {
		return rest.Do(s.Client(), "The service", request(t, ctx, s.URL+path+"?token=secret"), limit)
	}
	if a, err := do(t.Context(), "/long", 100); err != nil || a.Cut || len(a.Body) != 100 {
		t.Errorf("%d bytes, cut %v, %v", len(a.Body), a.Cut, err)
	}
	if a, err := do(t.Context(), "/long", 99); err != nil || !a.Cut || len(a.Body) != 99 {
		t.Errorf("%d bytes, cut %v, %v", len(a.Body), a.Cut, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx     context.Context
		path    string
		offline bool
		code    string
	}{{t.Context(), "/cut", false, "channel_uncertain"}, {t.Context(), "/gone", false, "channel_uncertain"}, {t.Context(), "/", true, "channel_unreachable"}, {ended, "/", false, "channel_unreachable"}} {
		s.Offline(c.offline)
		_, err := do(c.ctx, c.path, 100)
		if !fault.HasCode(err, c.code) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", c.path, err, c.code)
		}
	}
}

func TestPauses(t *testing.T) {
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, " 7 ": 7 * time.Second, "0": time.Second, "-3": time.Second, "9223372036854775807": 24 * time.Hour,
		"": time.Minute, "soon": time.Minute, "Wed, 21 Oct 2026 07:28:00 GMT": time.Minute} {
		if got := rest.RetryAfter(http.Header{"Retry-After": {text}}, time.Minute); got != want {
			t.Errorf("Retry-After %q is %s, want %s", text, got, want)
		}
	}
}

func TestBase(t *testing.T) {
	for address, want := range map[string]string{"": "https://public.example", "https://a.example/": "https://a.example", "http://127.0.0.1:8081/x": "http://127.0.0.1:8081/x"} {
		if got, err := rest.Base(channel.Options{BaseURL: address}, "https://public.example"); err != nil || got != want {
			t.Errorf("%q is %q (%v), want %q", address, got, err, want)
		}
	}
	for _, address := range []string{"a.example", "ftp://a.example", "https://", "https://a.example?x=y", "https://a.example#x", "://"} {
		if _, err := rest.Base(channel.Options{BaseURL: address}, "https://public.example"); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
}

func TestOpenIsBounded(t *testing.T) {
	s := channeltest.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/none" {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, strings.Repeat("x", 100))
	}))
	for limit, good := range map[int64]bool{100: true, 99: false} {
		body, err := rest.Open(s.Client(), "The service", request(t, t.Context(), s.URL), limit)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(body)
		body.Close()
		if (err == nil) != good || good && len(data) != 100 || !good && !fault.Is(err, fault.TooLarge) {
			t.Errorf("with a limit of %d: %d bytes, %v", limit, len(data), err)
		}
	}
	if _, err := rest.Open(s.Client(), "The service", request(t, t.Context(), s.URL+"/none"), 1); !fault.Is(err, fault.NotFound) || errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// The connection of an earlier request was closed meanwhile, and no other one can be made: nothing was sent.
func TestAnotherConnectionCannotBeMade(t *testing.T) {
	stale := transport(func(r *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(r.Context())
		trace.GetConn("a:443")
		trace.GotConn(httptrace.GotConnInfo{Reused: true})
		trace.GetConn("a:443")
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("network is unreachable")}
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://a/", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rest.Do(&http.Client{Transport: stale}, "a", r, 10); !fault.HasCode(err, "channel_unreachable") {
		t.Error(err)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
