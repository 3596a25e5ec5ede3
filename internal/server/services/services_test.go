package services_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"steward/internal/fault"
	"steward/internal/server/auth"
	"steward/internal/server/services"
	"steward/internal/service"
	"steward/internal/service/local"
	"steward/internal/service/remote"
	"steward/test/storetest"
)

// world is a Steward's services, over HTTP and beside it.
type world struct {
	*service.Manager
	tokens *services.Tokens
	url    string
	said   *bytes.Buffer
	server *httptest.Server
}

func keyed(key string) service.Key { return func() (string, error) { return key, nil } }

func open(t *testing.T, bindings map[string]service.Bindings) *world {
	t.Helper()
	w := &world{tokens: &services.Tokens{}, said: &bytes.Buffer{}}
	db := &local.DB{Dir: t.TempDir()}
	var mu sync.Mutex
	w.Manager = service.NewManager(service.Options{
		Bindings: func(agent string) (service.Bindings, error) {
			if b, ok := bindings[agent]; ok {
				return b, nil
			}
			return nil, fault.New(fault.NotFound, "agent_not_found", "there is no agent %q", agent)
		},
		KV: local.KV{Store: storetest.NewModel()}, DB: db,
		Profile: func(_ context.Context, user string) (json.RawMessage, error) {
			return json.Marshal(map[string]string{"name": user, "units": "metric"})
		},
		Dial:    func(url string, key service.Key) (service.RemoteBackend, error) { return remote.Dial(url, key), nil },
		DialLog: remote.DialLog,
		Secret: func(agent, name string) (string, bool) {
			return "sk-far", name == "FAR_KEY"
		},
		Log: slog.New(slog.NewTextHandler(locked{&mu, w.said}, nil)),
	})
	chat := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		c, err := auth.From(r.Context())
		body, _ := io.ReadAll(r.Body)
		auth.Reply(rw, 200, []byte(`{"user":"`+c.User+`","path":"`+r.URL.Path+`","sent":`+string(body)+`}`))
		if err != nil {
			t.Error(err)
		}
	})
	server := services.Handler(services.Options{Services: w.Manager, Tokens: w.tokens, Chat: chat,
		Known: func(_ context.Context, user, agent string) (services.Grant, error) {
			return services.Grant{Caller: service.Caller{Agent: agent, User: user}, Services: service.Names()}, nil
		}})
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer sk-far" { // as the guard does by a key
			r = r.WithContext(auth.With(r.Context(), auth.Caller{User: "far"}))
		}
		server.ServeHTTP(rw, r)
	}))
	w.url = w.server.URL + services.Prefix
	t.Cleanup(func() {
		if err := errors.Join(w.Manager.Close(), db.Close()); err != nil {
			t.Error(err)
		}
		w.server.Close()
	})
	return w
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (w *world) token(agent, user string, names ...service.Name) string {
	t, _ := w.tokens.Mint(services.Grant{Caller: service.Caller{Agent: agent, User: user}, Services: names, Model: "fast", Expires: time.Now().Add(time.Hour)})
	return t
}

// call is what a program does.
func (w *world) call(t *testing.T, token, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(b))
}

func rootOnly() map[string]service.Bindings { return map[string]service.Bindings{"pa": service.Root()} }

// A program that is served a model speaks to no agent in the user's name.
func TestAnAgentIsNoModel(t *testing.T) {
	w := open(t, rootOnly())
	token, _ := w.tokens.Mint(services.Grant{Caller: service.Caller{Agent: "pa", User: "ann"}, Services: service.Names(), Model: "agent:assistant", Expires: time.Now().Add(time.Hour)})
	if status, body := w.call(t, token, "POST", "/llm/chat/completions", `{"messages":[]}`); status != 403 || !strings.Contains(body, "service_unsupported") {
		t.Errorf("%d %s", status, body)
	}
}

func TestAProgramUsesWhatItIsServed(t *testing.T) {
	w := open(t, rootOnly())
	token := w.token("pa", "ann", service.Names()...)
	for _, c := range []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"GET", "/state/a", "", 404, "not_found"},
		{"PUT", "/state/a", `{"n":1}`, 204, ""},
		{"PUT", "/state/x/y%20z", `"v"`, 204, ""},
		{"GET", "/state/a", "", 200, `{"n":1}`},
		{"GET", "/state/x/y%20z", "", 200, `"v"`},
		{"GET", "/state?prefix=x", "", 200, `{"keys":["x/y z"]}`},
		{"GET", "/state?limit=1", "", 200, `{"keys":["a"]}`},
		{"GET", "/state?limit=1&after=a", "", 200, `{"keys":["x/y z"]}`},
		{"GET", "/state?limit=x", "", 400, "limit_invalid"},
		{"PUT", "/state/a", `{`, 400, "state_value_invalid"},
		{"PUT", "/state/a", strings.Repeat("x", 2<<20), 413, "too_large"},
		{"DELETE", "/state/a", "", 204, ""},
		{"DELETE", "/state/a", "", 404, "not_found"},
		{"POST", "/db/exec", `{"statements":[{"sql":"CREATE TABLE t (a)"},{"sql":"INSERT INTO t VALUES (?),(2)","args":[1]}]}`, 200, `{"changed":2}`},
		{"POST", "/db/query", `{"sql":"SELECT a FROM t ORDER BY a"}`, 200, `{"columns":["a"],"rows":[[1],[2]]}`},
		{"POST", "/db/query", `{"sql":"ATTACH 'x' AS y"}`, 403, "sql_refused"},
		{"POST", "/db/exec", `{`, 400, "error"},
		{"POST", "/db/query", `nonsense`, 400, "error"},
		{"GET", "/user", "", 200, `{"name":"ann","units":"metric"}`},
		{"POST", "/log", `{"level":"warn","message":"the mailbox is full","attrs":{"box":"inbox"}}`, 204, ""},
		{"POST", "/log", `{"level":"loud","message":"x"}`, 400, "level_invalid"},
		{"POST", "/log", `nonsense`, 400, "error"},
		{"POST", "/llm/chat/completions", `{"model":"strong","messages":[]}`, 200, `{"user":"ann","path":"/v1/chat/completions","sent":{"messages":[],"model":"fast"}}`},
		{"POST", "/llm/chat/completions", `{"metadata":{"conversation_id":"x"},"messages":[]}`, 200, `"sent":{"messages":[],"model":"fast"}}`},
		{"POST", "/llm/chat/completions", `[]`, 400, "body_invalid"},
		{"POST", "/llm/chat/completions", `null`, 400, "body_invalid"},
		{"GET", "/nowhere", "", 404, "unknown_url"},
	} {
		status, answer := w.call(t, token, c.method, c.path, c.body)
		if status != c.status || c.answer == "" && answer != "" || !strings.Contains(answer, c.answer) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.path, c.body, status, answer, c.status, c.answer)
		}
	}
	if s := w.said.String(); !strings.Contains(s, "the mailbox is full") || !strings.Contains(s, "agent=pa") || !strings.Contains(s, "user=ann") || !strings.Contains(s, "box=inbox") {
		t.Errorf("the log: %s", s)
	}
}

func TestTokens(t *testing.T) {
	w := open(t, rootOnly())
	grant := services.Grant{Caller: service.Caller{Agent: "pa", User: "ann"}, Services: []service.Name{service.State}, Expires: time.Now().Add(time.Hour)}
	token, revoke := w.tokens.Mint(grant)
	if status, _ := w.call(t, token, "PUT", "/state/a", "1"); status != 204 {
		t.Error(status)
	}
	if status, answer := w.call(t, token, "POST", "/db/query", `{"sql":"SELECT 1"}`); status != 403 || !strings.Contains(answer, "service_not_offered") {
		t.Error("a service that was not offered: ", status, answer)
	}
	if status, answer := w.call(t, w.token("pa", "bob", service.State), "GET", "/state/a", ""); status != 404 {
		t.Error("another user's value: ", status, answer)
	}
	revoke()
	for name, bad := range map[string]string{"revoked": token, "none": "", "foreign": "sts_AAAA", "no token": "x"} {
		if status, answer := w.call(t, bad, "GET", "/state/a", ""); status != 401 {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	grant.Expires = time.Now().Add(-time.Second)
	old, _ := w.tokens.Mint(grant)
	if _, err := w.tokens.Find(old, time.Now()); !fault.HasCode(err, "service_token_invalid") {
		t.Error(err)
	}
	if a, b := w.token("pa", "ann"), w.token("pa", "ann"); a == b || len(a) < 40 {
		t.Error("tokens can be guessed")
	}
}

// far binds agents to the services of another Steward at a URL.
func far(t *testing.T, url string, fallback service.Source, names ...service.Name) map[string]service.Bindings {
	own := service.Configs{}
	for _, n := range names {
		own[n] = service.Config{Source: service.Remote, URL: url, Key: "FAR_KEY", Fallback: fallback}
	}
	b, wrong := service.Resolve("pa", own, service.Root())
	if wrong != nil {
		t.Fatal(wrong)
	}
	child, wrong := service.Resolve("pa/email", service.Configs{}, b)
	if wrong != nil {
		t.Fatal(wrong)
	}
	return map[string]service.Bindings{"pa": b, "pa/email": child}
}

func TestServicesOfAnotherSteward(t *testing.T) {
	there := open(t, rootOnly())
	here := open(t, far(t, there.url, "", service.State, service.DB, service.User))
	ctx, ann := context.Background(), service.Caller{Agent: "pa", User: "ann"}
	if err := here.Put(ctx, ann, "a b/c", json.RawMessage(`{"x":1}`)); err != nil {
		t.Fatal(err)
	}
	v, err := there.Get(ctx, service.Caller{Agent: "pa", User: "far"}, "a b/c")
	if err != nil || string(v) != `{"x":1}` {
		t.Errorf("what was put is not there: %s, %v", v, err)
	}
	if v, err = here.Get(ctx, ann, "a b/c"); err != nil || string(v) != `{"x":1}` {
		t.Errorf("%s, %v", v, err)
	}
	if keys, err := here.List(ctx, ann, "a", "", 10); err != nil || !slices.Equal(keys, []string{"a b/c"}) {
		t.Error(keys, err)
	}
	if err := here.Delete(ctx, ann, "a b/c"); err != nil {
		t.Error(err)
	}
	_, err = here.Get(ctx, ann, "a b/c")
	if !fault.HasCode(err, "not_found") || fault.Of(err).Remedy == "" {
		t.Errorf("the other one's error: %v", err)
	}
	if n, err := here.Exec(ctx, ann, service.Statement{SQL: "CREATE TABLE t (a)"}, service.Statement{SQL: "INSERT INTO t VALUES (?)", Args: []any{"x"}}); n != 1 || err != nil {
		t.Error(n, err)
	}
	rows, err := here.Query(ctx, ann, "SELECT a FROM t WHERE a = ?", "x")
	if err != nil || !reflect.DeepEqual(rows, service.Rows{Columns: []string{"a"}, Rows: [][]any{{"x"}}}) {
		t.Error(rows, err)
	}
	if p, err := here.Profile(ctx, ann); err != nil || string(p) != `{"name":"far","units":"metric"}` {
		t.Errorf("%s, %v", p, err)
	}
}

func TestAServiceThatCannotBeReached(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	ctx, ann := context.Background(), service.Caller{Agent: "pa", User: "ann"}
	alone := open(t, far(t, gone.URL, "", service.State, service.DB, service.User))
	if _, err := alone.Get(ctx, ann, "a"); !fault.HasCode(err, "service_unreachable") || !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	both := open(t, far(t, gone.URL, service.Local, service.State, service.DB, service.User, service.Logging))
	if err := both.Put(ctx, ann, "a", json.RawMessage(`1`)); err != nil {
		t.Fatal(err)
	}
	if v, err := both.Get(ctx, ann, "a"); err != nil || string(v) != "1" {
		t.Errorf("%s, %v", v, err)
	}
	if _, err := both.Profile(ctx, ann); err != nil {
		t.Error(err)
	}
	if !strings.Contains(both.said.String(), "using the local one") {
		t.Error("nobody was told: ", both.said)
	}
}

// Lines that a remote log does not accept are written to the node's log, or their loss is.
func TestLogThatCannotBeReached(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	defer refuses.Close()
	for _, url := range []string{gone.URL, refuses.URL} {
		both := open(t, far(t, url, service.Local, service.Logging))
		l, err := both.Logger("pa")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3000 {
			l.Warn("hello", "n", i, "of", 3000)
		}
		if err := both.Close(); err != nil {
			t.Error(err)
		}
		said := both.said.String()
		if n := strings.Count(said, "level=WARN msg=hello agent=pa n="); n != 3000 || !strings.Contains(said, "n=2999 of=3000") || strings.Count(said, "rejects lines") != 1 {
			t.Errorf("%d lines are in the log: %.400s", n, said)
		}
	}
	alone := open(t, far(t, refuses.URL, "", service.Logging))
	l, err := alone.Logger("pa")
	if err != nil {
		t.Fatal(err)
	}
	l.Warn("hello")
	if err := alone.Close(); err != nil {
		t.Error(err)
	}
	if said := alone.said.String(); strings.Contains(said, "hello") || !strings.Contains(said, "lines are lost") || !strings.Contains(said, "lines=1") {
		t.Errorf("%s", said)
	}
}

// A key that was replaced is read again when the service refuses it.
func TestReplacedKeyOfAService(t *testing.T) {
	key := "one-one-one"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		io.WriteString(w, `{"keys":["`+key+`"]}`) //nolint:errcheck // the caller may be gone
	}))
	defer s.Close()
	c := remote.Dial(s.URL, func() (string, error) { return key, nil })
	for _, key = range []string{"one-one-one", "two-two-two", "two-two-two"} {
		if got, err := c.List(t.Context(), service.Caller{Agent: "pa", User: "ann"}, "", "", 1); err != nil || !slices.Equal(got, []string{key}) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// What was kept at one place is not missed at another: once the far service
// was used, its absence is an error, whatever the fallback.
func TestFallbackDoesNotSplitWhatIsKept(t *testing.T) {
	there := open(t, rootOnly())
	here := open(t, far(t, there.url, service.Local, service.State))
	ctx, ann := context.Background(), service.Caller{Agent: "pa", User: "ann"}
	if err := here.Put(ctx, ann, "a", json.RawMessage(`1`)); err != nil {
		t.Fatal(err)
	}
	there.server.Close()
	if _, err := here.Get(ctx, ann, "a"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a value that is elsewhere: %v", err)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	ctx, who := context.Background(), service.Caller{Agent: "pa", User: "ann"}
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		code  string
	}{
		"html": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "service_answer_broken"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.com/", http.StatusFound)
		}, "service_refused"},
		"status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "service_refused"},
		"flood": {func(w http.ResponseWriter, _ *http.Request) {
			for b := bytes.Repeat([]byte("x"), 1<<20); ; {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		}, "answer_too_large"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "{")
		}, "service_unreachable"},
	} {
		s := httptest.NewServer(c.serve)
		_, err := remote.Dial(s.URL, keyed("k")).List(ctx, who, "", "", 1)
		if !fault.HasCode(err, c.code) {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
	}
	for _, bad := range []string{"http://\x7f", "http://127.0.0.1:1"} {
		if _, err := remote.Dial(bad, keyed("")).Get(ctx, who, "a"); err == nil {
			t.Error(bad)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := remote.Dial("http://127.0.0.1:1", keyed("")).Get(ended, who, "a"); !fault.Is(err, fault.Cancelled) {
		t.Error(err)
	}
}

// Lines reach a collector that speaks OpenTelemetry's protocol, with the key,
// and those below the level do not.
func TestRemoteLog(t *testing.T) {
	var mu sync.Mutex
	var lines, keys []string
	coll := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var in collector.ExportLogsServiceRequest
		if err := proto.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, r.Header.Get("Authorization")+" "+r.URL.Path)
		for _, res := range in.ResourceLogs {
			for _, sc := range res.ScopeLogs {
				for _, rec := range sc.LogRecords {
					lines = append(lines, rec.SeverityText+" "+rec.Body.GetStringValue())
				}
			}
		}
	}))
	defer coll.Close()
	b, wrong := service.Resolve("pa", service.Configs{service.Logging: {Source: service.Remote, URL: coll.URL, Key: "FAR_KEY", Level: "warn", Offering: service.Serve}}, service.Root())
	if wrong != nil {
		t.Fatal(wrong)
	}
	w := open(t, map[string]service.Bindings{"pa": b})
	l, err := w.Logger("pa")
	if err != nil {
		t.Fatal(err)
	}
	l.Info("not this one")
	l.Warn("the battery is low")
	if again, _ := w.Logger("pa"); again != l {
		t.Error("a logger for each line")
	}
	if err := w.Manager.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(lines) != 1 || !strings.HasSuffix(lines[0], "the battery is low") || keys[0] != "Bearer sk-far /v1/logs" {
		t.Errorf("%q %q", lines, keys)
	}
}

func TestManagerRefuses(t *testing.T) {
	ctx := context.Background()
	bare := service.NewManager(service.Options{Bindings: func(agent string) (service.Bindings, error) {
		if agent == "none" {
			return service.Bindings{}, nil
		}
		b := service.Binding{Source: service.Remote, Config: service.Config{URL: "http://x", Key: "NOT_SET"}, Owner: agent}
		if agent == "open" {
			b.Key = ""
		}
		return service.Bindings{service.State: b, service.Logging: b, service.User: {Source: service.Local}}, nil
	}})
	check := func(err error, code string) {
		t.Helper()
		if !fault.HasCode(err, code) {
			t.Errorf("%v, want %s", err, code)
		}
	}
	_, err := bare.Get(ctx, service.Caller{Agent: "none"}, "a")
	check(err, "service_unknown")
	_, err = bare.Get(ctx, service.Caller{Agent: "shut"}, "a")
	check(err, "secret_missing")
	_, err = bare.Get(ctx, service.Caller{Agent: "open"}, "a")
	check(err, "service_unsupported")
	_, err = bare.Profile(ctx, service.Caller{Agent: "open"})
	check(err, "service_unsupported")
	_, err = bare.Logger("open")
	check(err, "service_unsupported")
	if err := bare.Close(); err != nil {
		t.Error(err)
	}
	_, err = bare.Get(ctx, service.Caller{Agent: "later"}, "a")
	check(err, "closing")
}
