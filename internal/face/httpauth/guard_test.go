package httpauth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/face/httpauth"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// keys is a set of secrets that one may take from.
type keys map[string]string

func (k keys) Authenticate(_ context.Context, secret string) (string, error) {
	if user, ok := k[secret]; ok {
		return user, nil
	}
	return "", fault.New(fault.Unauthentic, "key_unknown", "nobody has this key")
}

// serve runs a guarded handler that answers with the caller's name.
func serve(t *testing.T, o httpauth.Options) (*httptest.Server, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	h := httpauth.New(o).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := httpauth.From(r.Context())
		if err != nil {
			t.Error(err)
		}
		body, _ := json.Marshal(map[string]any{"user": c.User, "admin": c.Admin})
		httpauth.Reply(w, 200, body)
	}), nil)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, &log
}

// ask sends a request with a Host and headers ("Name: value") and returns
// status and code, or the caller.
func ask(t *testing.T, s *httptest.Server, method, host string, headers ...string) (status int, answer string, h http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, s.URL+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got struct {
		User  string
		Admin bool
		Error struct{ Code, Message, Kind string }
	}
	if res.StatusCode != 204 {
		if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case got.Error.Code != "":
		return res.StatusCode, got.Error.Code, res.Header
	case got.Admin:
		return res.StatusCode, got.User + " admin", res.Header
	}
	return res.StatusCode, got.User, res.Header
}

func TestGuard(t *testing.T) {
	good, gone, token := identity.NewSecret(), identity.NewSecret(), identity.NewSecret()
	loopback := httpauth.Options{Keys: keys{good: "ana"}, AdminToken: token}
	named := loopback
	named.Hosts = []string{"steward.example", "box:9999"}
	named.Origins = []string{"https://app.example/"}
	open := loopback
	open.RequireKey = true
	openNamed := named
	openNamed.RequireKey = true

	local := httpauth.Options{}
	for name, c := range map[string]struct {
		o       httpauth.Options
		host    string // PORT stands for the server's
		headers []string
		status  int
		answer  string
	}{
		"loopback, nothing":          {local, "", nil, 200, "local admin"},
		"loopback by name":           {loopback, "localhost:PORT", nil, 200, "local admin"},
		"loopback in capitals":       {loopback, "LocalHost:PORT", nil, 200, "local admin"},
		"another loopback address":   {loopback, "127.8.9.1:PORT", nil, 200, "local admin"},
		"IPv6 loopback":              {loopback, "[::1]:PORT", nil, 200, "local admin"},
		"rebound name":               {loopback, "evil.example:PORT", nil, 403, "host_refused"},
		"rebound name, no port":      {loopback, "evil.example", nil, 403, "host_refused"},
		"name that begins well":      {loopback, "localhost.evil.example:PORT", nil, 403, "host_refused"},
		"name that begins as IP":     {loopback, "127.0.0.1.evil.example:PORT", nil, 403, "host_refused"},
		"another port":               {loopback, "localhost:1", nil, 403, "host_refused"},
		"no port is port 80":         {loopback, "localhost", nil, 403, "host_refused"},
		"rebound name with a key":    {loopback, "evil.example", []string{"Authorization: Bearer " + good}, 403, "host_refused"},
		"configured name":            {named, "Steward.example", nil, 200, "local admin"},
		"configured name and port":   {named, "box:9999", nil, 200, "local admin"},
		"configured, another port":   {named, "box:9998", nil, 403, "host_refused"},
		"own page":                   {loopback, "localhost:PORT", []string{"Origin: http://localhost:PORT"}, 200, "local admin"},
		"foreign page":               {loopback, "", []string{"Origin: https://evil.example"}, 403, "origin_refused"},
		"page on another port":       {loopback, "localhost:PORT", []string{"Origin: http://localhost:1"}, 403, "origin_refused"},
		"page of localhost, by IP":   {loopback, "127.0.0.1:PORT", []string{"Origin: http://localhost:PORT"}, 403, "origin_refused"},
		"page from a file":           {loopback, "", []string{"Origin: null"}, 403, "origin_refused"},
		"page of another scheme":     {loopback, "localhost:PORT", []string{"Origin: ftp://localhost:PORT"}, 403, "origin_refused"},
		"https on the default port":  {named, "steward.example:443", []string{"Origin: https://steward.example"}, 200, "local admin"},
		"broken origin":              {loopback, "", []string{"Origin: http://%zz"}, 403, "origin_refused"},
		"configured page":            {named, "", []string{"Origin: https://app.example"}, 200, "local admin"},
		"configured page, http":      {named, "", []string{"Origin: http://app.example"}, 403, "origin_refused"},
		"key":                        {loopback, "", []string{"Authorization: Bearer " + good}, 200, "ana"},
		"key, scheme in lower case":  {loopback, "", []string{"Authorization: bearer  " + good}, 200, "ana"},
		"revoked key is not local":   {loopback, "", []string{"Authorization: Bearer " + gone}, 401, "key_unknown"},
		"cut key is not local":       {loopback, "", []string{"Authorization: Bearer sk-steward-"}, 401, "key_unknown"},
		"some other token":           {loopback, "", []string{"Authorization: Bearer none"}, 200, "local admin"},
		"another scheme":             {loopback, "", []string{"Authorization: Basic eDp5"}, 200, "local admin"},
		"through a proxy":            {loopback, "", []string{"X-Forwarded-For: 203.0.113.9"}, 401, "key_missing"},
		"through a proxy, RFC 7239":  {loopback, "", []string{"Forwarded: for=203.0.113.9"}, 401, "key_missing"},
		"through a proxy with a key": {loopback, "", []string{"X-Real-IP: 203.0.113.9", "Authorization: Bearer " + good}, 200, "ana"},
		"admin":                      {loopback, "", []string{"Authorization: Bearer " + token}, 200, "local admin"},
		"no keys known":              {local, "", []string{"Authorization: Bearer " + good}, 401, "key_unknown"},
		"open, nothing":              {open, "", nil, 401, "key_missing"},
		"open, any name, nothing":    {open, "steward.example", nil, 401, "key_missing"},
		"open, some other token":     {open, "", []string{"Authorization: Bearer none"}, 401, "key_unknown"},
		"open, another scheme":       {open, "", []string{"Authorization: Basic eDp5"}, 401, "key_missing"},
		"open, key, any name":        {open, "steward.example", []string{"Authorization: Bearer " + good}, 200, "ana"},
		"open, admin":                {open, "", []string{"Authorization: Bearer " + token}, 200, "local admin"},
		"open, foreign page, key":    {open, "", []string{"Origin: https://evil.example", "Authorization: Bearer " + good}, 403, "origin_refused"},
		"open with names, another":   {openNamed, "evil.example", []string{"Authorization: Bearer " + good}, 403, "host_refused"},
		"open with names, the one":   {openNamed, "steward.example", []string{"Authorization: Bearer " + good}, 200, "ana"},
	} {
		t.Run(name, func(t *testing.T) {
			s, log := serve(t, c.o)
			_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
			put := func(v string) string { return strings.ReplaceAll(v, "PORT", port) }
			for i := range c.headers {
				c.headers[i] = put(c.headers[i])
			}
			status, answer, h := ask(t, s, "GET", put(c.host), c.headers...)
			if status != c.status || answer != c.answer {
				t.Errorf("got %d %q, want %d %q", status, answer, c.status, c.answer)
			}
			if www := h.Get("WWW-Authenticate"); (status == 401) != (www != "") {
				t.Errorf("WWW-Authenticate is %q", www)
			}
			for _, secret := range []string{good, gone, token} {
				if strings.Contains(log.String(), secret) {
					t.Errorf("a secret is in the log: %s", log)
				}
			}
		})
	}
}

func TestCrossOriginAnswers(t *testing.T) {
	s, _ := serve(t, httpauth.Options{Origins: []string{"https://app.example"}, RequireKey: true})
	// A browser's preliminary question bears no key.
	status, _, h := ask(t, s, "OPTIONS", "", "Origin: https://app.example", "Access-Control-Request-Method: POST")
	if status != 204 || h.Get("Access-Control-Allow-Origin") != "https://app.example" || h.Get("Vary") != "Origin" ||
		!strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("got %d %v", status, h)
	}
	// The refusal can be read by the page.
	status, code, h := ask(t, s, "GET", "", "Origin: https://app.example")
	if status != 401 || code != "key_missing" || h.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("got %d %s %v", status, code, h)
	}
	status, _, h = ask(t, s, "OPTIONS", "", "Origin: https://evil.example", "Access-Control-Request-Method: POST")
	if status != 403 || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("got %d %v", status, h)
	}
}

func TestOwnFail(t *testing.T) {
	h := httpauth.New(httpauth.Options{RequireKey: true}).Wrap(http.NotFoundHandler(), func(w http.ResponseWriter, r *http.Request, err error) {
		w.WriteHeader(418)
		io.WriteString(w, fault.Of(err).Code)
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/", nil))
	if w.Code != 418 || w.Body.String() != "key_missing" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestRemoteIsNotLocal(t *testing.T) {
	h := httpauth.New(httpauth.Options{}).Wrap(http.NotFoundHandler(), nil)
	for _, from := range []string{"192.0.2.1:1234", "", "@"} {
		r := httptest.NewRequest("GET", "http://localhost/", nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 401 {
			t.Errorf("from %q: %d", from, w.Code)
		}
	}
}

func TestBareFaceLetsNobodyIn(t *testing.T) {
	if _, err := httpauth.From(t.Context()); !fault.HasCode(err, "unauthenticated") {
		t.Errorf("got %v", err)
	}
	ctx := httpauth.With(t.Context(), httpauth.Caller{})
	if _, err := httpauth.From(ctx); !fault.HasCode(err, "unauthenticated") {
		t.Errorf("a caller without a name: %v", err)
	}
}

func TestRecheck(t *testing.T) {
	secret := identity.NewSecret()
	known := keys{secret: "ana"}
	var caller httpauth.Caller
	h := httpauth.New(httpauth.Options{Keys: known, RequireKey: true}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		caller, _ = httpauth.From(r.Context())
	}), nil)
	r := httptest.NewRequest("GET", "http://x/", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if err := caller.Recheck(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(known, secret)
	if err := caller.Recheck(t.Context()); !fault.HasCode(err, "key_unknown") {
		t.Errorf("got %v after the revocation", err)
	}
	if err := (httpauth.Caller{User: "local"}).Recheck(t.Context()); err != nil {
		t.Errorf("a caller without a key: %v", err)
	}
}

type anyKey struct {
	any bool
	err error
}

func (a anyKey) Any(context.Context) (bool, error) { return a.any, a.err }

func TestRequireKeys(t *testing.T) {
	broken := errors.New("broken")
	for listen, beyond := range map[string]bool{
		"127.0.0.1:80": false, "localhost:0": false, "[::1]:80": false, "127.3.2.1:1": false,
		"0.0.0.0:80": true, ":80": true, "[::]:80": true, "192.168.1.2:80": true, "myhost:80": true, "nonsense": true, "": true,
	} {
		if got := httpauth.BeyondLoopback(listen); got != beyond {
			t.Errorf("BeyondLoopback(%q) = %v", listen, got)
		}
		if need, err := httpauth.RequireKeys(t.Context(), listen, anyKey{any: true}); need != beyond || err != nil {
			t.Errorf("%q with a key: %v, %v", listen, need, err)
		}
		need, err := httpauth.RequireKeys(t.Context(), listen, anyKey{})
		if need != beyond || fault.HasCode(err, "keys_required") != beyond {
			t.Errorf("%q without keys: %v, %v", listen, need, err)
		}
		if _, err := httpauth.RequireKeys(t.Context(), listen, anyKey{err: broken}); errors.Is(err, broken) != beyond {
			t.Errorf("%q with a broken store: %v", listen, err)
		}
	}
}

func TestAdminToken(t *testing.T) {
	dir := t.TempDir()
	if _, err := httpauth.ReadAdminToken(dir); !fault.HasCode(err, "token_missing") {
		t.Errorf("got %v", err)
	}
	first, err := httpauth.WriteAdminToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := httpauth.WriteAdminToken(dir)
	if err != nil || second == first {
		t.Fatalf("the same token again, or %v", err)
	}
	if got, err := httpauth.ReadAdminToken(dir); err != nil || got != second {
		t.Errorf("got %q, %v", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v are left", entries, err)
	}
	path := filepath.Join(dir, entries[0].Name())
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := httpauth.WriteAdminToken(filepath.Join(dir, "absent")); !fault.HasCode(err, "token_unwritable") {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := httpauth.WriteAdminToken(dir); !fault.HasCode(err, "token_unwritable") {
		t.Errorf("over a folder: %v", err)
	}
	if _, err := httpauth.ReadAdminToken(dir); !fault.HasCode(err, "token_unreadable") {
		t.Errorf("a folder: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%v are left", entries)
	}
}

func TestStatusOfEveryKind(t *testing.T) {
	for kind, want := range map[fault.Kind]int{
		fault.Invalid: 400, fault.Unauthentic: 401, fault.Denied: 403, fault.NotFound: 404, fault.Conflict: 409,
		fault.TooLarge: 413, fault.Unsupported: 422, fault.RateLimited: 429, fault.Exhausted: 429,
		fault.Cancelled: 499, fault.Internal: 500, fault.Unavailable: 503, fault.Timeout: 504, "": 500,
	} {
		if got := httpauth.Status(kind); got != want {
			t.Errorf("%s: %d, want %d", kind, got, want)
		}
	}
}

func TestWriteError(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		body   string
		after  string
		logged bool
	}{
		"coded": {fault.New(fault.NotFound, "gone", "no <b> & such").With("look elsewhere").Detail("n", 1), 404,
			`{"error":{"code":"gone","message":"no <b> & such","kind":"not_found","remedy":"look elsewhere","details":{"n":1}}}`, "", false},
		"after": {fault.New(fault.RateLimited, "slow", "too fast").Retrying(fault.RetryAfter, 1500*time.Millisecond), 429,
			`{"error":{"code":"slow","message":"too fast","kind":"rate_limited","retry":"after","retry_after_ms":1500}}`, "2", false},
		"cause": {&fault.Error{Kind: fault.Unavailable, Code: "down", Message: "not reached", Cause: errors.New("refused"), Remedy: "start it"}, 503,
			`{"error":{"code":"down","message":"not reached: refused","kind":"unavailable","remedy":"start it"}}`, "", false},
		"uncoded": {errors.New("open /secret/path"), 500,
			`{"error":{"code":"internal","message":"something went wrong inside Steward","kind":"internal","remedy":"Steward's log says what"}}`, "", true},
		"coded fault of our own": {fault.New(fault.Internal, "store_broken", "it is broken"), 500,
			`{"error":{"code":"store_broken","message":"it is broken","kind":"internal"}}`, "", true},
		"details that are no JSON": {fault.New(fault.Invalid, "x", "y").Detail("f", func() {}), 400,
			`{"error":{"code":"x","message":"y","kind":"invalid"}}`, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			w := httptest.NewRecorder()
			httpauth.WriteError(w, httptest.NewRequest("GET", "/p", nil), slog.New(slog.NewTextHandler(&log, nil)), c.err)
			if w.Code != c.status || strings.TrimSpace(w.Body.String()) != c.body || w.Header().Get("Retry-After") != c.after {
				t.Errorf("got %d %s %v", w.Code, w.Body, w.Header())
			}
			if c.logged != strings.Contains(log.String(), fault.Of(c.err).Message) {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
	httpauth.Log(httptest.NewRequest("GET", "/p", nil), nil, nil)
}
