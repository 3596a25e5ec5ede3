package auth_test

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
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/server/auth"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// keys maps secrets to users. Tests may remove some.
type keys map[string]string

func (k keys) Authenticate(_ context.Context, secret string) (string, error) {
	if user, ok := k[secret]; ok {
		return user, nil
	}
	return "", fault.New(fault.Unauthentic, "key_unknown", "unknown API key")
}

// fixed is a token that stays the same.
func fixed(token string) func() (string, error) {
	return func() (string, error) { return token, nil }
}

// serve runs a guarded handler that answers with the caller's name.
func serve(t *testing.T, o auth.Options) (*httptest.Server, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	h := auth.New(o).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := auth.From(r.Context())
		if err != nil {
			t.Error(err)
		}
		body, _ := json.Marshal(map[string]any{"user": c.User, "admin": c.Admin})
		auth.Reply(w, 200, body)
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
	loopback := auth.Options{Keys: keys{good: "ana"}, Token: fixed(token)}
	named := loopback
	named.Hosts = []string{"steward.example", "box:9999"}
	named.Origins = []string{"https://app.example/"}
	open := loopback
	open.AnyHost = true
	openNamed := named
	openNamed.AnyHost = true
	untold := loopback
	untold.Token = func() (string, error) { return "", errors.New("damaged") }
	mine := "Authorization: Bearer " + token

	for name, c := range map[string]struct {
		o       auth.Options
		host    string // PORT stands for the server's
		headers []string
		status  int
		answer  string
	}{
		"loopback":                   {loopback, "", []string{mine}, 200, "local admin"},
		"loopback by name":           {loopback, "localhost:PORT", []string{mine}, 200, "local admin"},
		"loopback in capitals":       {loopback, "LocalHost:PORT", []string{mine}, 200, "local admin"},
		"another loopback address":   {loopback, "127.8.9.1:PORT", []string{mine}, 200, "local admin"},
		"IPv6 loopback":              {loopback, "[::1]:PORT", []string{mine}, 200, "local admin"},
		"rebound name":               {loopback, "evil.example:PORT", []string{mine}, 403, "host_refused"},
		"rebound name, no port":      {loopback, "evil.example", []string{mine}, 403, "host_refused"},
		"name that begins well":      {loopback, "localhost.evil.example:PORT", []string{mine}, 403, "host_refused"},
		"name that begins as IP":     {loopback, "127.0.0.1.evil.example:PORT", []string{mine}, 403, "host_refused"},
		"another port":               {loopback, "localhost:1", []string{mine}, 403, "host_refused"},
		"no port is port 80":         {loopback, "localhost", []string{mine}, 403, "host_refused"},
		"rebound name with a key":    {loopback, "evil.example", []string{"Authorization: Bearer " + good}, 403, "host_refused"},
		"configured name":            {named, "Steward.example", []string{mine}, 200, "local admin"},
		"configured name and port":   {named, "box:9999", []string{mine}, 200, "local admin"},
		"configured, another port":   {named, "box:9998", []string{mine}, 403, "host_refused"},
		"own page":                   {loopback, "localhost:PORT", []string{mine, "Origin: http://localhost:PORT"}, 200, "local admin"},
		"foreign page":               {loopback, "", []string{mine, "Origin: https://evil.example"}, 403, "origin_refused"},
		"page on another port":       {loopback, "localhost:PORT", []string{mine, "Origin: http://localhost:1"}, 403, "origin_refused"},
		"page of localhost, by IP":   {loopback, "127.0.0.1:PORT", []string{mine, "Origin: http://localhost:PORT"}, 403, "origin_refused"},
		"page from a file":           {loopback, "", []string{mine, "Origin: null"}, 403, "origin_refused"},
		"page of another scheme":     {loopback, "localhost:PORT", []string{mine, "Origin: ftp://localhost:PORT"}, 403, "origin_refused"},
		"https on the default port":  {named, "steward.example:443", []string{mine, "Origin: https://steward.example"}, 200, "local admin"},
		"broken origin":              {loopback, "", []string{mine, "Origin: http://%zz"}, 403, "origin_refused"},
		"configured page":            {named, "", []string{mine, "Origin: https://app.example"}, 200, "local admin"},
		"configured page, http":      {named, "", []string{mine, "Origin: http://app.example"}, 403, "origin_refused"},
		"key":                        {loopback, "", []string{"Authorization: Bearer " + good}, 200, "ana"},
		"key, scheme in lower case":  {loopback, "", []string{"Authorization: bearer  " + good}, 200, "ana"},
		"key, no token":              {untold, "", []string{"Authorization: Bearer " + good}, 200, "ana"},
		"nothing":                    {loopback, "", nil, 401, "key_missing"},
		"revoked key":                {loopback, "", []string{"Authorization: Bearer " + gone}, 401, "key_unknown"},
		"cut key":                    {loopback, "", []string{"Authorization: Bearer sk-steward-"}, 401, "key_unknown"},
		"some other token":           {loopback, "", []string{"Authorization: Bearer none"}, 401, "key_unknown"},
		"another scheme":             {loopback, "", []string{"Authorization: Basic eDp5"}, 401, "key_missing"},
		"two credentials":            {loopback, "", []string{"Authorization: Bearer none, " + token}, 401, "key_unknown"},
		"through a proxy":            {loopback, "", []string{"X-Forwarded-For: 127.0.0.1"}, 401, "key_missing"},
		"through a proxy with a key": {loopback, "", []string{"X-Real-IP: 203.0.113.9", "Authorization: Bearer " + good}, 200, "ana"},
		"no keys known":              {auth.Options{}, "", []string{"Authorization: Bearer " + good}, 401, "key_unknown"},
		"token that is damaged":      {untold, "", []string{mine}, 401, "key_unknown"},
		"token of nobody":            {auth.Options{Token: fixed("")}, "", []string{"Authorization: Bearer  "}, 401, "key_missing"},
		"open, nothing":              {open, "", nil, 401, "key_missing"},
		"open, any name, nothing":    {open, "steward.example", nil, 401, "key_missing"},
		"open, key, any name":        {open, "steward.example", []string{"Authorization: Bearer " + good}, 200, "ana"},
		"open, token":                {open, "", []string{mine}, 200, "local admin"},
		"open, foreign page, key":    {open, "", []string{"Origin: https://evil.example", "Authorization: Bearer " + good}, 403, "origin_refused"},
		"open with names, another":   {openNamed, "evil.example", []string{"Authorization: Bearer " + good}, 403, "host_refused"},
		"open with names, the one":   {openNamed, "steward.example", []string{"Authorization: Bearer " + good}, 200, "ana"},
	} {
		t.Run(name, func(t *testing.T) {
			s, log := serve(t, c.o)
			_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
			put := func(v string) string { return strings.ReplaceAll(v, "PORT", port) }
			c.headers = slices.Clone(c.headers)
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
	s, _ := serve(t, auth.Options{Origins: []string{"https://app.example"}})
	// A browser's preflight request has no key.
	status, _, h := ask(t, s, "OPTIONS", "", "Origin: https://app.example", "Access-Control-Request-Method: POST")
	if status != 204 || h.Get("Access-Control-Allow-Origin") != "https://app.example" || h.Get("Vary") != "Origin" ||
		!strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("got %d %v", status, h)
	}
	// The page can read the refusal.
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
	h := auth.New(auth.Options{}).Wrap(http.NotFoundHandler(), func(w http.ResponseWriter, r *http.Request, err error) {
		w.WriteHeader(418)
		io.WriteString(w, fault.Of(err).Code)
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/", nil))
	if w.Code != 418 || w.Body.String() != "key_missing" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestBareFaceLetsNobodyIn(t *testing.T) {
	if _, err := auth.From(t.Context()); !fault.HasCode(err, "unauthenticated") {
		t.Errorf("got %v", err)
	}
	ctx := auth.With(t.Context(), auth.Caller{})
	if _, err := auth.From(ctx); !fault.HasCode(err, "unauthenticated") {
		t.Errorf("a caller without a name: %v", err)
	}
}

func TestRecheck(t *testing.T) {
	secret := identity.NewSecret()
	known := keys{secret: "ana"}
	var caller auth.Caller
	h := auth.New(auth.Options{Keys: known, AnyHost: true}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		caller, _ = auth.From(r.Context())
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
	if err := (auth.Caller{User: "local"}).Recheck(t.Context()); err != nil {
		t.Errorf("a caller without a key: %v", err)
	}
}

func TestBeyondLoopback(t *testing.T) {
	for listen, beyond := range map[string]bool{
		"127.0.0.1:80": false, "localhost:0": false, "[::1]:80": false, "127.3.2.1:1": false,
		"0.0.0.0:80": true, ":80": true, "[::]:80": true, "192.168.1.2:80": true, "myhost:80": true, "nonsense": true, "": true,
	} {
		if got := auth.BeyondLoopback(listen); got != beyond {
			t.Errorf("BeyondLoopback(%q) = %v", listen, got)
		}
	}
}

func TestTokenIsMadeOnceAndReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := auth.ReadToken(dir); !fault.HasCode(err, "token_missing") {
		t.Errorf("got %v", err)
	}
	made := make(chan string)
	for range 8 {
		go func() {
			token, err := auth.MakeToken(dir)
			if err != nil {
				t.Error(err)
			}
			made <- token
		}()
	}
	first := <-made
	for range 7 {
		if other := <-made; other != first || first == "" {
			t.Errorf("two tokens: %q, %q", first, other)
		}
	}
	if got, err := auth.MakeToken(dir); err != nil || got != first {
		t.Errorf("it is not kept: %v", err)
	}
	second, err := auth.NewToken(dir)
	if err != nil || second == first {
		t.Fatalf("the same token again, or %v", err)
	}
	if got, err := auth.ReadToken(dir); err != nil || got != second {
		t.Errorf("got %q, %v", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v are left", entries, err)
	}
	if info, err := os.Stat(auth.TokenFile(dir)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestTokenThatCannotBeTrusted(t *testing.T) {
	good := identity.NewSecret()
	for name, lay := range map[string]func(path string) error{
		"empty":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"cut":       func(path string) error { return os.WriteFile(path, []byte(good[:30]), 0o600) },
		"two lines": func(path string) error { return os.WriteFile(path, []byte(good+"\n"+good), 0o600) },
		"group reads it": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(good), 0o600), os.Chmod(path, 0o640))
		},
		"all read it": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(good), 0o600), os.Chmod(path, 0o604))
		},
		"a folder": func(path string) error { return os.MkdirAll(filepath.Join(path, "sub"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := lay(auth.TokenFile(dir)); err != nil {
				t.Fatal(err)
			}
			for _, get := range []func(string) (string, error){auth.ReadToken, auth.MakeToken} {
				if token, err := get(dir); token != "" || !fault.HasCode(err, "token_unusable") || !strings.Contains(err.Error(), "steward token --new") {
					t.Errorf("got %q, %v", token, err)
				}
			}
			if name == "a folder" {
				if _, err := auth.NewToken(dir); !fault.HasCode(err, "token_unwritable") {
					t.Errorf("got %v", err)
				}
				return
			}
			token, err := auth.NewToken(dir)
			if err != nil || token == good {
				t.Fatalf("got %v", err)
			}
			if got, err := auth.MakeToken(dir); err != nil || got != token {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.MakeToken(file); !fault.HasCode(err, "token_unusable") {
		t.Errorf("below a file: %v", err)
	}
}

func TestTokenOfSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	if _, err := auth.NewToken(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(auth.TokenFile(dir), 65534, 65534); err != nil {
		if os.Geteuid() == 0 {
			t.Fatal(err)
		}
		return // only root can give a file away
	}
	if _, err := auth.ReadToken(dir); !fault.HasCode(err, "token_unusable") {
		t.Errorf("got %v", err)
	}
}

func TestAReplacedTokenOpensNothing(t *testing.T) {
	dir := t.TempDir()
	first, err := auth.MakeToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	guard := auth.New(auth.Options{Token: func() (string, error) { return auth.ReadToken(dir) }})
	c, code := let(t, guard, first)
	if code != "" || !c.Admin {
		t.Fatalf("%+v %s", c, code)
	}
	second, err := auth.NewToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, code := let(t, guard, first); code != "key_unknown" {
		t.Errorf("the old one: %s", code)
	}
	if err := c.Recheck(t.Context()); !fault.HasCode(err, "key_unknown") || !fault.Is(err, fault.Unauthentic) {
		t.Errorf("a connection of the old one stays: %v", err)
	}
	if c, code := let(t, guard, second); code != "" || c.Recheck(t.Context()) != nil {
		t.Errorf("the new one: %s", code)
	}
	// A connection survives a check that fails temporarily.
	var broken error
	busy := auth.New(auth.Options{Token: func() (string, error) { return second, broken }})
	c, _ = let(t, busy, second)
	broken = fault.New(fault.Unavailable, "token_unusable", "too many open files")
	if err := c.Recheck(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
}

func TestStatusOfEveryKind(t *testing.T) {
	for kind, want := range map[fault.Kind]int{
		fault.Invalid: 400, fault.Unauthentic: 401, fault.Denied: 403, fault.NotFound: 404, fault.Conflict: 409,
		fault.TooLarge: 413, fault.Unsupported: 422, fault.RateLimited: 429, fault.Exhausted: 429, fault.NoSpace: 507,
		fault.Cancelled: 499, fault.Internal: 500, fault.Unavailable: 503, fault.Timeout: 504, "": 500,
	} {
		if got := auth.Status(kind); got != want {
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
		"coded": {fault.New(fault.NotFound, "gone", "no <b> & such").WithHint("look elsewhere").Detail("n", 1), 404,
			`{"error":{"code":"gone","message":"no <b> & such","kind":"not_found","remedy":"look elsewhere","details":{"n":1}}}`, "", false},
		"after": {fault.New(fault.RateLimited, "slow", "too fast").Retrying(fault.RetryAfter, 1500*time.Millisecond), 429,
			`{"error":{"code":"slow","message":"too fast","kind":"rate_limited","retry":"after","retry_after_ms":1500}}`, "2", false},
		"cause": {&fault.Error{Kind: fault.Unavailable, Code: "down", Message: "not reached", Cause: errors.New("refused"), Remedy: "start it"}, 503,
			`{"error":{"code":"down","message":"not reached: refused","kind":"unavailable","remedy":"start it"}}`, "", false},
		"uncoded": {errors.New("open /secret/path"), 500,
			`{"error":{"code":"internal","message":"internal error","kind":"internal","remedy":"see Steward's log"}}`, "", true},
		"coded fault of our own": {fault.New(fault.Internal, "store_broken", "it is broken"), 500,
			`{"error":{"code":"store_broken","message":"it is broken","kind":"internal"}}`, "", true},
		"details that are no JSON": {fault.New(fault.Invalid, "x", "y").Detail("f", func() {}), 400,
			`{"error":{"code":"x","message":"y","kind":"invalid"}}`, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			w := httptest.NewRecorder()
			auth.WriteError(w, httptest.NewRequest("GET", "/p", nil), slog.New(slog.NewTextHandler(&log, nil)), c.err)
			if w.Code != c.status || strings.TrimSpace(w.Body.String()) != c.body || w.Header().Get("Retry-After") != c.after {
				t.Errorf("got %d %s %v", w.Code, w.Body, w.Header())
			}
			if c.logged != strings.Contains(log.String(), fault.Of(c.err).Message) {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
	auth.Log(httptest.NewRequest("GET", "/p", nil), nil, nil)
}

func TestAnOpenPathNeedsNoCredentialOnThisMachine(t *testing.T) {
	guard := auth.New(auth.Options{Token: fixed("token"), AnyHost: true, Open: []string{"/v1/models"}})
	for name, c := range map[string]struct {
		path, host, from string
		header           [2]string
		answer           string // the user or an error code
	}{
		"open":                  {"/v1/models", "localhost:7420", "127.0.0.1:9", [2]string{}, identity.Anonymous},
		"below":                 {"/v1/models/x", "127.0.0.1", "127.0.0.1:9", [2]string{}, identity.Anonymous},
		"IPv6":                  {"/v1/models", "[::1]:7420", "[::1]:9", [2]string{}, identity.Anonymous},
		"some other credential": {"/v1/models", "localhost", "127.0.0.1:9", [2]string{"Authorization", "Bearer none"}, identity.Anonymous},
		"a key that is not good": {"/v1/models", "localhost", "127.0.0.1:9",
			[2]string{"Authorization", "Bearer " + identity.NewSecret()}, "key_unknown"},
		"the token":           {"/v1/models", "localhost", "127.0.0.1:9", [2]string{"Authorization", "Bearer token"}, identity.Anonymous},
		"another path":        {"/v1/modelsx", "localhost", "127.0.0.1:9", [2]string{}, "key_missing"},
		"another machine":     {"/v1/models", "localhost", "192.0.2.1:9", [2]string{}, "key_missing"},
		"from nowhere":        {"/v1/models", "localhost", "@", [2]string{}, "key_missing"},
		"a rebound name":      {"/v1/models", "evil.example", "127.0.0.1:9", [2]string{}, "key_missing"},
		"through a proxy":     {"/v1/models", "localhost", "127.0.0.1:9", [2]string{"X-Forwarded-For", "127.0.0.1"}, "key_missing"},
		"another page":        {"/v1/models", "localhost", "127.0.0.1:9", [2]string{"Sec-Fetch-Site", "cross-site"}, "origin_refused"},
		"a page of this host": {"/v1/models", "localhost", "127.0.0.1:9", [2]string{"Sec-Fetch-Site", "same-origin"}, identity.Anonymous},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "http://x"+c.path, nil)
			r.Host, r.RemoteAddr = c.host, c.from
			if c.header[0] != "" {
				r.Header.Set(c.header[0], c.header[1])
			}
			got := ""
			guard.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				caller, err := auth.From(r.Context())
				if got = caller.User; err != nil || caller.Admin || caller.Attended() || caller.Recheck(t.Context()) != nil {
					t.Errorf("%+v, %v", caller, err)
				}
			}), func(_ http.ResponseWriter, _ *http.Request, err error) { got = fault.Of(err).Code }).ServeHTTP(httptest.NewRecorder(), r)
			if got != c.answer {
				t.Errorf("got %q, want %q", got, c.answer)
			}
		})
	}
}
