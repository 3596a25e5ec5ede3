package provider_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/test/apis"
)

// TestFailures: a vendor's refusal is the error that its status and words mean.
func TestFailures(t *testing.T) {
	codes := map[string]struct {
		code  string
		retry fault.Retry
	}{
		"err_auth":       {"auth_failed", fault.RetryNone},
		"err_model":      {"model_not_found", fault.RetryNone},
		"err_rate":       {"rate_limited", fault.RetryAfter},
		"err_server":     {"provider_error", fault.RetryBackoff},
		"err_overloaded": {"overloaded", fault.RetryBackoff},
		"err_context":    {"context_too_long", fault.RetryNone},
		"err_refused":    {"request_refused", fault.RetryNone},
		"err_midstream":  {"", fault.RetryBackoff},
	}
	each(t, providers(), func(t *testing.T, v vendor) {
		for scenario, want := range codes {
			got := v.fails(t, serve(t, v.script(t, scenario)))
			if got.Code != want.code && want.code != "" {
				t.Errorf("%s: code %q, want %q: %v", scenario, got.Code, want.code, got)
			}
			if got.Recoverable() != (want.retry != fault.RetryNone) {
				t.Errorf("%s: retry %q, want %q", scenario, got.Retry, want.retry)
			}
			if scenario == "err_rate" && (got.Retry != fault.RetryAfter || got.After != 7*time.Second) {
				t.Errorf("retry %q after %s, want after 7s", got.Retry, got.After)
			}
			if scenario == "err_midstream" && got.Kind != fault.Unavailable {
				t.Errorf("kind %q: %v", got.Kind, got)
			}
		}
		v.pages(t)
		v.nobody(t)
	})
}

// serve answers everything with the exchange, over real HTTP.
func serve(t testing.TB, e *apis.Exchange) *httptest.Server {
	shown := *e
	shown.Body = bytes.ReplaceAll(e.Body, []byte("{{KEY}}"), []byte(testKey))
	s := httptest.NewServer(&shown)
	t.Cleanup(s.Close)
	return s
}

func (v vendor) fails(t *testing.T, s *httptest.Server) *fault.Error {
	t.Helper()
	p := play(context.Background(), t, v.provider(t, options{http: s.Client(), base: s.URL}).Model(v.model), requestOf("text"))
	if p.err == nil {
		t.Fatalf("no error, but %s", dump(p))
	}
	return fault.Of(p.err)
}

// pages: what stands between Steward and the vendor answers in HTML.
func (v vendor) pages(t *testing.T) {
	page := "<!DOCTYPE html><html><head><title>502 Bad Gateway</title><style>b{}</style></head><body><h1>Bad Gateway</h1>" +
		testKey + strings.Repeat("<p>filler</p>", 5000) + "</body></html>"
	for status, code := range map[int]string{502: "provider_error", 200: "provider_error", 403: "auth_failed", 503: "overloaded"} {
		got := v.fails(t, serve(t, &apis.Exchange{
			Status: status, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Body: []byte(page),
		}))
		if got.Code != code {
			t.Errorf("status %d: code %q, want %q", status, got.Code, code)
		}
		if s := got.Error(); !strings.Contains(s, "Bad Gateway") || len(s) > 1000 || strings.Contains(s, "<p>") {
			t.Errorf("status %d: not a readable short message: %s", status, s)
		}
	}
}

func (v vendor) nobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	m := v.provider(t, options{http: &http.Client{Transport: &http.Transport{}}, base: "http://" + addr}).Model(v.model)
	p := play(context.Background(), t, m, requestOf("text"))
	if f := fault.Of(p.err); p.err == nil || f.Code != "unreachable" || f.Remedy == "" || !strings.Contains(f.Error(), addr) {
		t.Errorf("the error is %v", p.err)
	}
}

// TestTime: who leaves is let go, and who is silent is left.
func TestTime(t *testing.T) { each(t, providers(), timing) }

func timing(t *testing.T, v vendor) {
	e := v.script(t, "text")
	t.Run("cancelling reaches the server", func(t *testing.T) {
		v.leaves(t, e, func(m llm.Model) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var last error
			for _, err := range m.Stream(ctx, requestOf("text")) {
				cancel()
				last = err
			}
			if f := fault.Of(last); last == nil || f.Code != "cancelled" || !errors.Is(last, context.Canceled) {
				t.Errorf("the last error is %v", last)
			}
		})
	})
	t.Run("breaking the loop reaches the server", func(t *testing.T) {
		v.leaves(t, e, func(m llm.Model) {
			for _, err := range m.Stream(context.Background(), requestOf("text")) {
				if err != nil {
					t.Error(err)
				}
				break
			}
		})
	})
	t.Run("a cancelled context asks nobody", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if p := play(ctx, t, v.provider(t, options{http: script{}.client()}).Model(v.model), requestOf("text")); fault.Of(p.err).Code != "cancelled" {
			t.Errorf("the error is %v", p.err)
		}
	})
	begun := *e
	begun.Body = e.Body[:bytes.LastIndexByte(e.Body[:len(e.Body)*2/3], '\n')+1]
	some := bytes.TrimSuffix(begun.Raw(true), []byte("0\r\n\r\n")) // cut between two chunks
	head := some[:bytes.Index(some, []byte("\r\n\r\n"))+4]
	for _, c := range []struct {
		name string
		said []byte // before the other side goes silent
		opt  options
		code string
		took time.Duration
	}{
		{"nothing comes", nil, options{firstByte: 3 * time.Second, idle: time.Second}, "first_byte_timeout", 3 * time.Second},
		{"only a head comes", head, options{firstByte: 3 * time.Second, idle: time.Second}, "first_byte_timeout", 3 * time.Second},
		{"nothing comes, by default", nil, options{}, "first_byte_timeout", 120 * time.Second},
		{"it stops coming", some, options{firstByte: 3 * time.Second, idle: time.Second}, "idle_timeout", time.Second},
		{"it stops coming, by default", some, options{}, "idle_timeout", 60 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) { v.silent(t, script{what: c.said, hold: true}, c.opt, c.code, c.took) })
	}
	t.Run("a slow reader is no silence", func(t *testing.T) { v.slowReader(t, e) })
}

// leaves: the server says half of its answer and then waits for its client to go.
func (v vendor) leaves(t *testing.T, e *apis.Exchange, client func(llm.Model)) {
	t.Helper()
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		maps.Copy(w.Header(), e.Header)
		w.Write(e.Body[:len(e.Body)/2])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	client(v.provider(t, options{http: s.Client(), base: s.URL}).Model(v.model))
	<-gone
}

func (v vendor) silent(t *testing.T, sc script, opt options, code string, took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		opt.http = sc.client()
		p := play(t.Context(), t, v.provider(t, opt).Model(v.model), requestOf("text"))
		if p.err == nil || fault.Of(p.err).Code != code || !fault.Of(p.err).Recoverable() {
			t.Errorf("the error is %v, want %s", p.err, code)
		}
		if d := time.Since(start); d != took {
			t.Errorf("it took %s, want %s", d, took)
		}
	})
}

// slowReader: the time limits are on the provider, not on who reads.
func (v vendor) slowReader(t *testing.T, e *apis.Exchange) {
	synctest.Test(t, func(t *testing.T) {
		m := v.provider(t, options{http: script{what: e.Raw(false), piece: func() int { return 200 }}.client(), idle: time.Second}).Model(v.model)
		for _, err := range m.Stream(t.Context(), requestOf("text")) {
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute) // of the bubble's clock
		}
	})
}
