package providertest

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
)

func failures(t *testing.T, v Vendor) {
	for _, f := range []struct {
		scenario Scenario
		code     string
		retry    fault.Retry
	}{
		{Unauthorized, "auth_failed", fault.RetryNone},
		{NoModel, "model_not_found", fault.RetryNone},
		{RateLimit, "rate_limited", fault.RetryAfter},
		{ServerError, "provider_error", fault.RetryBackoff},
		{Overloaded, "overloaded", fault.RetryBackoff},
		{TooLong, "context_too_long", fault.RetryNone},
		{BadRequest, "request_refused", fault.RetryNone},
	} {
		t.Run(string(f.scenario), func(t *testing.T) {
			e := v.script(t, f.scenario)
			if e == nil {
				return // Suite tells why
			}
			got := v.fails(t, serve(t, e), Plain)
			if got.Code != f.code {
				t.Errorf("code %q, want %q: %v", got.Code, f.code, got)
			}
			if (got.Retry == fault.RetryNone || got.Retry == "") != (f.retry == fault.RetryNone) {
				t.Errorf("retry %q, want %q", got.Retry, f.retry)
			}
			if f.scenario == RateLimit && (got.Retry != fault.RetryAfter || got.After != 7*time.Second) {
				t.Errorf("retry %q after %s, want after 7s", got.Retry, got.After)
			}
		})
	}
	t.Run(string(MidStream), func(t *testing.T) { v.midStream(t) })
	t.Run("pages of proxies", func(t *testing.T) { v.pages(t) })
	t.Run("nobody there", func(t *testing.T) { v.nobody(t) })
}

// serve answers everything with the exchange, over real HTTP.
func serve(t testing.TB, e *Exchange) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for k, vs := range e.Header {
			w.Header()[k] = vs
		}
		w.WriteHeader(e.Status)
		w.Write(bytes.ReplaceAll(e.Body, []byte("{{KEY}}"), []byte(testKey)))
	}))
	t.Cleanup(s.Close)
	return s
}

func (v Vendor) fails(t *testing.T, s *httptest.Server, as Scenario) *fault.Error {
	t.Helper()
	p := play(context.Background(), t, v.model(t, s.Client(), Options{BaseURL: s.URL}), requestOf(as))
	if p.err == nil {
		t.Fatalf("no error, but %s", dump(p))
	}
	return fault.Of(p.err)
}

func (v Vendor) midStream(t *testing.T) {
	e := v.script(t, MidStream)
	if e == nil {
		return
	}
	got := v.fails(t, serve(t, e), Plain)
	if got.Kind != fault.Unavailable || !got.Recoverable() {
		t.Errorf("kind %q, retry %q: %v", got.Kind, got.Retry, got)
	}
}

// pages: what stands between Steward and the vendor answers in HTML.
func (v Vendor) pages(t *testing.T) {
	page := "<!DOCTYPE html><html><head><title>502 Bad Gateway</title><style>b{}</style></head><body><h1>Bad Gateway</h1>" +
		testKey + strings.Repeat("<p>filler</p>", 5000) + "</body></html>"
	for status, code := range map[int]string{502: "provider_error", 200: "provider_error", 403: "auth_failed", 503: "overloaded"} {
		got := v.fails(t, serve(t, &Exchange{
			Status: status, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Body: []byte(page),
		}), Plain)
		if got.Code != code {
			t.Errorf("status %d: code %q, want %q", status, got.Code, code)
		}
		if s := got.Error(); !strings.Contains(s, "Bad Gateway") || len(s) > 1000 || strings.Contains(s, "<p>") {
			t.Errorf("status %d: not a readable short message: %s", status, s)
		}
	}
}

func (v Vendor) nobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	m := v.model(t, &http.Client{Transport: &http.Transport{}}, Options{BaseURL: "http://" + addr})
	p := play(context.Background(), t, m, requestOf(Plain))
	if f := fault.Of(p.err); p.err == nil || f.Code != "unreachable" || f.Remedy == "" || !strings.Contains(f.Error(), addr) {
		t.Errorf("the error is %v", p.err)
	}
}
