package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// server answers with f, and is closed with its clients at the end.
func server(t *testing.T, opt Options, f http.HandlerFunc) *Client {
	s := httptest.NewServer(f)
	opt.Name, opt.BaseURL = "test", s.URL+"/base"
	opt.HTTP = Pool()
	t.Cleanup(func() {
		opt.HTTP.CloseIdleConnections()
		s.Close()
	})
	return New(opt)
}

func TestPost(t *testing.T) {
	var got []string
	c := server(t, Options{Header: http.Header{"x-api-key": {"k"}}}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.ContentLength, " ", r.Header.Get("Content-Type"), " ",
			r.Header.Get("X-Api-Key"), " ", r.Header.Get("Accept-Encoding"), " ", string(b)))
		io.WriteString(w, `{"ok":true}`)
	})
	parts := [][]byte{[]byte(`{"a":`), nil, []byte(`1`), []byte(`}`)}
	for range 2 {
		if b, err := c.PostAll(t.Context(), "/chat?x=y", parts...); err != nil || string(b) != `{"ok":true}` {
			t.Fatalf("%s, %v", b, err)
		}
	}
	if b, err := c.Get(t.Context(), "/models"); err != nil || string(b) != `{"ok":true}` {
		t.Fatalf("%s, %v", b, err)
	}
	want := []string{
		`POST /base/chat?x=y 7 application/json k  {"a":1}`,
		`POST /base/chat?x=y 7 application/json k  {"a":1}`,
		`GET /base/models 0  k  `,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// counted is a connection whose writes are counted.
type counted struct {
	net.Conn
	writes *atomic.Int32
}

func (c counted) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// The header and the body of a request of usual size are one packet, not two.
func TestARequestIsOneWrite(t *testing.T) {
	c := server(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	var writes atomic.Int32
	transport := c.opt.HTTP.Transport.(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return counted{conn, &writes}, err
	}
	part := []byte(strings.Repeat("x", 10<<10))
	a, err := c.Post(t.Context(), "/x", part, part, part)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if n := writes.Load(); n != 1 {
		t.Errorf("%d writes", n)
	}
}

func TestBaseURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://h/v1/?key=secret": "http://h/v1/", "https://user:pw@h:8/x": "https://h:8/x",
		"": "", "h": "", "ftp://h": "", "http://": "", "http://h\x7f": "",
	} {
		c := New(Options{Name: "test", BaseURL: in})
		if got := c.BaseURL(); got != want {
			t.Errorf("%q: %q", in, got)
		}
		if want == "" {
			if _, err := c.Get(t.Context(), "/"); fault.Of(err).Code != "bad_base_url" || fault.Of(err).Remedy == "" {
				t.Errorf("%q: %v", in, err)
			}
		}
	}
	// A query in the base URL is kept, an escaped path too.
	c := New(Options{BaseURL: "http://h/a%2Fb?api-version=1"})
	if u := c.request(t.Context(), "GET", "/x?y=z", nil).URL.String(); u != "http://h/a%2Fb/x?api-version=1&y=z" {
		t.Error(u)
	}
	if u := c.request(t.Context(), "GET", "/x", nil).URL.String(); u != "http://h/a%2Fb/x?api-version=1" {
		t.Error(u)
	}
}

// TestReuse: a stream that was read to its own end mark leaves its connection
// for the next one, even if the server's last bytes come late.
func TestReuse(t *testing.T) {
	var conns atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "data: [DONE]\n\n")
		w.(http.Flusher).Flush()
	}))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := New(Options{Name: "test", BaseURL: s.URL})
	defer c.opt.HTTP.CloseIdleConnections()
	for range 20 {
		a, err := c.Post(t.Context(), "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		for ev := range a.Events() {
			if string(ev.Data) == "[DONE]" {
				break
			}
		}
		a.Finish()
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections for 20 requests", n)
	}
}

// TestFinishIsShort: a server that keeps the line open after the end mark
// does not hold anybody up.
func TestFinishIsShort(t *testing.T) {
	c := server(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: [DONE]\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	a, err := c.Post(t.Context(), "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range a.Events() {
		break
	}
	a.Finish()
	a.Close() // again, without harm
}

func TestRefused(t *testing.T) {
	explain := func(status int, body []byte) Refusal {
		switch string(body) {
		case "final":
			return Refusal{Code: CodeRate, Final: true, Remedy: "pay", Message: "no money"}
		case "later":
			return Refusal{After: 9 * time.Second}
		}
		return Refusal{}
	}
	for _, c := range []struct {
		status int
		header string
		body   string
		code   string
		after  time.Duration
		shows  string
	}{
		{401, "", "bad key SECRET", CodeAuth, 0, "bad key [secret]"},
		{403, "", "", CodeAuth, 0, "HTTP 403 Forbidden"},
		{404, "", "no such\n\tthing", CodeNoModel, 0, "no such thing"},
		{413, "", "big", CodeContext, 0, "big"},
		{429, "", "slow down", CodeRate, time.Second, "slow down"},
		{429, "Retry-After: 20", "", CodeRate, 20 * time.Second, ""},
		{429, "Retry-After: 1.5", "", CodeRate, 1500 * time.Millisecond, ""},
		{429, "Retry-After: 86400", "", CodeRate, 24 * time.Hour, ""},
		{429, "Retry-After: -4", "", CodeRate, time.Second, ""},
		{429, "Retry-After: soon", "", CodeRate, time.Second, ""},
		{429, "Retry-After: NaN", "", CodeRate, time.Second, ""},
		{429, "Retry-After-Ms: 250", "", CodeRate, 250 * time.Millisecond, ""},
		{429, "Retry-After-Ms: 1e300", "", CodeRate, 24 * time.Hour, "wait for a day or longer"},
		{429, "Retry-After: 99999999999999999999", "", CodeRate, 24 * time.Hour, "wait for a day or longer"},
		{429, "Retry-After: 5400", "", CodeRate, 90 * time.Minute, "wait for 1h30m"},
		{429, "", "later", CodeRate, 9 * time.Second, "later"},
		{429, "", "final", CodeRate, 0, "no money"},
		{529, "Retry-After: 3", "", CodeOverloaded, 3 * time.Second, ""},
		{503, "", "", CodeOverloaded, 0, ""},
		{500, "", "oops", CodeProvider, 0, "oops"},
		{502, "", "<html><style>a{}</style><script>var x='<b>'</script><title>Bad&nbsp;Gateway</title><br", CodeProvider, 0, "Bad Gateway"},
		{408, "", "", CodeProvider, 0, ""},
		{400, "", strings.Repeat("ü", 5000), CodeRefused, 0, "ü…"},
		{301, "", "", CodeRefused, 0, ""},
	} {
		t.Run(fmt.Sprint(c.status, c.header, c.body[:min(5, len(c.body))]), func(t *testing.T) {
			cl := server(t, Options{Secrets: []string{"SECRET", ""}, Explain: explain}, func(w http.ResponseWriter, _ *http.Request) {
				if k, v, ok := strings.Cut(c.header, ": "); ok {
					w.Header().Set(k, v)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			_, err := cl.Get(t.Context(), "/")
			f := fault.Of(err)
			if f.Code != c.code || f.After != c.after || !strings.Contains(f.Error(), c.shows) || len(f.Error()) > 1000 {
				t.Errorf("%q after %s: %v", f.Code, f.After, f)
			}
			if f.Details["status"] != c.status {
				t.Errorf("details %v", f.Details)
			}
			retry := fault.RetryNone
			switch {
			case c.body == "final":
			case c.after > 0:
				retry = fault.RetryAfter
			case c.code == CodeProvider || c.code == CodeOverloaded:
				retry = fault.RetryBackoff
			}
			if f.Retry != retry && !(f.Retry == "" && retry == fault.RetryNone) {
				t.Errorf("retry %q, want %q", f.Retry, retry)
			}
		})
	}
}

func TestRetryAfterDate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		now.Add(time.Hour).Format(http.TimeFormat):        time.Hour,
		now.Add(-time.Hour).Format(http.TimeFormat):       0,
		"Fri, 02 Jan":                   0,
		"90":                            90 * time.Second,
		"1.5":                           1500 * time.Millisecond,
		"-1":                            0,
		"NaN":                           0,
		"86401":                         maxRetryAfter,
		"99999999999":                   maxRetryAfter,
		"1e400":                         maxRetryAfter,
		"Inf":                           maxRetryAfter,
		"Fri, 31 Dec 9999 23:59:59 GMT": maxRetryAfter,
	} {
		if got := retryAfter(http.Header{"Retry-After": {in}}, now); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	hangup := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }))
	defer hangup.Close()
	for url, remedy := range map[string]string{
		"http://127.0.0.1:1/?key=SECRET": "server runs",
		"http://nowhere.invalid/SECRET":  "host name",
		s.URL:                            "certificate",
		"https" + strings.TrimPrefix(plain.URL, "http"): "plain HTTP",
		hangup.URL: "server runs",
	} {
		pool := Pool()
		_, err := New(Options{Name: "test", BaseURL: url, Secrets: []string{"SECRET"}, HTTP: pool}).Post(t.Context(), "/?key=SECRET", []byte("{}"))
		pool.CloseIdleConnections()
		f := fault.Of(err)
		if f.Code != CodeUnreachable || f.Kind != fault.Unavailable || !f.Recoverable() || !strings.Contains(f.Remedy, remedy) {
			t.Errorf("%s: %v", url, err)
		}
		if url != "http://nowhere.invalid/SECRET" && strings.Contains(fmt.Sprintf("%v %+v", err, errors.Unwrap(err)), "SECRET") {
			t.Errorf("%s: the error shows the secret: %v", url, err)
		}
	}
}

func TestCancelCauses(t *testing.T) {
	hold := func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	c := server(t, Options{}, hold)
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(fault.New(fault.Exhausted, "budget_exhausted", "spent")) })
	if _, err := c.Post(ctx, "/", []byte("{}")); fault.Of(err).Code != "budget_exhausted" {
		t.Errorf("%v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if _, err := c.Post(ctx, "/", []byte("{}")); fault.Of(err).Kind != fault.Timeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestWholeAnswers(t *testing.T) {
	answers := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/base/huge":
			io.Copy(w, io.LimitReader(endless{[]byte(" ")}, maxWhole+10))
		case "/base/page":
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<h1>Log in</h1>")
		case "/base/cut":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "{")
		case "/base/slow":
			w.WriteHeader(500)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}
	patient, c := server(t, Options{}, answers), server(t, Options{FirstByte: 50 * time.Millisecond}, answers)
	for path, want := range map[string]string{
		"/huge": "more than 16 MiB", "/page": "web page: Log in", "/cut": "broke off", "/slow": "sent nothing for 50ms",
	} {
		c := c
		if path != "/slow" {
			c = patient
		}
		if _, err := c.Get(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestAfterClose: what is read after Close is a clear error.
func TestAfterClose(t *testing.T) {
	c := server(t, Options{}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "data: a\n\n") })
	a, err := c.Post(t.Context(), "/", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if _, err := a.All(); fault.Of(err).Code != CodeCancelled {
		t.Errorf("%v", err)
	}
}

func TestFaults(t *testing.T) {
	c := New(Options{Name: "test", BaseURL: "http://h", Secrets: []string{"SECRET"}})
	for code, kind := range map[string]fault.Kind{
		CodeAuth: fault.Unauthentic, CodeRate: fault.RateLimited, CodeOverloaded: fault.Unavailable, CodeProvider: fault.Unavailable,
		CodeRefused: fault.Invalid, CodeContext: fault.TooLarge, CodeNoModel: fault.NotFound, CodeNoTools: fault.Unsupported,
		CodeNoImages: fault.Unsupported, CodeNoSchema: fault.Unsupported, CodeBroken: fault.Unavailable,
	} {
		if f := c.Fault(code, "x", time.Hour); f.Kind != kind || f.Code != code || f.After > 24*time.Hour {
			t.Errorf("%s: %+v", code, f)
		}
	}
	if f := c.RefusalError(Refusal{}); f.Code != CodeProvider {
		t.Errorf("%v", f)
	}
	if f := c.RefusedAs(429, Refusal{Message: "m"}); f.Code != CodeRate || f.Details["status"] != 429 {
		t.Errorf("%v", f)
	}
	if f := c.Malformed(errors.New("has SECRET inside")); strings.Contains(f.Error(), "SECRET") || f.Code != CodeBroken {
		t.Errorf("%v", f)
	}
}

// A key goes to the server that it is for, wherever that one points.
func TestARedirectToAnotherServerIsNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other server was sent the key %q", r.Header.Get("X-Api-Key"))
	}))
	t.Cleanup(other.Close)
	c := server(t, Options{Header: http.Header{"x-api-key": {"k"}}}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/base/away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/base/round":
			http.Redirect(w, r, "/base/round", http.StatusPermanentRedirect)
		case "/base/here":
			http.Redirect(w, r, "/base/there", http.StatusTemporaryRedirect)
		default:
			io.WriteString(w, r.Method)
		}
	})
	for _, path := range []string{"/away", "/round"} {
		if _, err := c.PostAll(t.Context(), path, []byte("{}")); !fault.HasCode(err, CodeRefused) || !strings.Contains(err.Error(), "set the base URL") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if b, err := c.PostAll(t.Context(), "/here", []byte("{}")); err != nil || string(b) != "POST" {
		t.Errorf("%s, %v", b, err)
	}
}
