package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/tool"
)

// remoteWorld opens a source for an HTTP server with the handler.
func remoteWorld(t *testing.T, h http.Handler, more ...func(*tool.Env, *Decl)) *world {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	env := tool.Env{Name: "far"}
	w := &world{}
	env.Changed = func() { w.changed.Add(1) }
	d := Decl{URL: s.URL + "/mcp"}
	for _, f := range more {
		f(&env, &d)
	}
	var err error
	if w.source, err = open(env, d); err != nil {
		t.Fatal(err)
	}
	w.keeper.Pause, w.startFor, w.listFor = time.Millisecond, ample, ample
	t.Cleanup(func() { w.Close() })
	return w
}

func friendlyHTTP(opt *sdk.StreamableHTTPOptions) http.Handler {
	s := friendly()
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, opt)
}

func TestHTTP(t *testing.T) {
	for name, opt := range map[string]*sdk.StreamableHTTPOptions{
		"sessions": {}, "JSON": {JSONResponse: true}, "stateless": {Stateless: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := remoteWorld(t, friendlyHTTP(opt))
			wantText(t, w.tool(t, "far.echo"), `{"a":1}`, `{"a":1}`)
			wantText(t, w.tool(t, "far.read_resource"), `{"uri":"test://a"}`, "[test://a]\nthe text of test://a")
			if _, err := call(t.Context(), w.tool(t, "far.read_resource"), `{"uri":"no://a"}`); !fault.Is(err, fault.Invalid) {
				t.Error(err)
			}
			if !opt.Stateless {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(50*time.Millisecond, cancel)
				if _, err := call(ctx, w.tool(t, "far.wait"), `{}`); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			wantText(t, w.tool(t, "far.echo"), `{"a":2}`, `{"a":2}`)
		})
	}
}

func TestHTTPChanges(t *testing.T) {
	w := remoteWorld(t, friendlyHTTP(nil))
	echo, change := w.tool(t, "far.echo"), w.tool(t, "far.change")
	wantText(t, change, `{}`, "changed")
	eventually(t, "the change is told", func() bool { return w.changed.Load() > 0 })
	_, err := call(t.Context(), echo, `{}`)
	wantCode(t, err, fault.Denied, "tool_changed")
}

// far is a handwritten HTTP server of an older protocol version that answers with plain JSON.
type far struct {
	lists atomic.Int32
	get   http.HandlerFunc
	call  atomic.Pointer[answer]
}

// answer answers a call.
type answer func(w http.ResponseWriter, r *http.Request, id string)

func (f *far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if f.get != nil {
			f.get(w, r)
			return
		}
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	result := ""
	switch m.Method {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"far","version":"1"}}`
	case "tools/list":
		f.lists.Add(1)
		result = oneTool
	case "tools/call":
		if call := f.call.Load(); call != nil {
			(*call)(w, r, string(m.ID))
			return
		}
		result = worked
	case "ping":
		result = "{}"
	case "notifications/initialized", "notifications/cancelled":
		w.WriteHeader(http.StatusAccepted)
		return
	default:
		respond(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID))
		return
	}
	respond(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
}

func respond(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, body)
}

func floodHTTP(w io.Writer, piece string, n int) {
	block := []byte(strings.Repeat(piece, 1+(64<<10)/len(piece)))
	for ; n > 0; n -= len(block) {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// Whatever an HTTP server answers, a call has one result, in time and in bounded memory.
func TestHostileHTTP(t *testing.T) {
	stream := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream"); w.WriteHeader(200) }
	for name, c := range map[string]struct {
		call answer
		code string
		same bool // the session continues
	}{
		"wrong id": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			respond(w, `{"jsonrpc":"2.0","id":4711,"result":`+worked+`}`)
		}, "mcp_answer_invalid", true},
		"half JSON": {func(w http.ResponseWriter, _ *http.Request, id string) {
			respond(w, `{"jsonrpc":"2.0","id":`+id+`,"result":{"con`)
		}, "mcp_answer_invalid", true},
		"a request": {func(w http.ResponseWriter, _ *http.Request, id string) {
			respond(w, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)
		}, "mcp_answer_invalid", true},
		"cut": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Length", "100")
			respond(w, `{"jsonrpc"`)
		}, "mcp_answer_invalid", true},
		"large": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Type", "application/json")
			floodHTTP(w, "x", 1<<30)
		}, "mcp_answer_too_large", true},
		"told large": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Length", "99999999")
			respond(w, "{")
		}, "mcp_answer_too_large", true},
		"large event": {func(w http.ResponseWriter, _ *http.Request, _ string) { stream(w); floodHTTP(w, "data: x", 1<<30) }, "mcp_server_failed", false},
		"events":      {func(w http.ResponseWriter, _ *http.Request, _ string) { stream(w); floodHTTP(w, "data:\n\n", 1<<30) }, "mcp_timeout", true},
		"no answer":   {func(w http.ResponseWriter, _ *http.Request, _ string) { stream(w); fmt.Fprint(w, ": nothing\n\n") }, "mcp_server_failed", true},
		"hang":        {func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() }, "mcp_timeout", true},
		"page":        {func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, "<html>") }, "mcp_server_failed", false},
		"busy":        {func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(503); floodHTTP(w, "x", 1<<30) }, "mcp_server_failed", true},
		"keep out":    {func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(401) }, "mcp_unauthorized", false},
		"hang up": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			c, _, _ := w.(http.Hijacker).Hijack()
			c.Close()
		}, "mcp_server_failed", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &far{}
			w := remoteWorld(t, f)
			work := w.tool(t, "far.work")
			lists := f.lists.Load()
			f.call.Store(&c.call)
			rise := memory(t)
			patience := ample
			if c.code == "mcp_timeout" {
				patience = 2 * time.Second // by then the call has been sent
			}
			_, err := call(within(t, patience), work, `{}`)
			// What is no event, or too large for one, ends the session. The call may notice that first.
			ended := c.code == "mcp_server_failed" && !c.same && fault.HasCode(err, "mcp_server_ended")
			if !fault.HasCode(err, c.code) && !ended || tool.CertainlyNotDone(err) != (c.code == "mcp_unauthorized") {
				t.Errorf("%v; want %s", err, c.code)
			}
			if most := rise(); most > 64<<20 {
				t.Errorf("memory has risen by %d MiB", most>>20)
			}
			f.call.Store(nil)
			eventually(t, "it works again", func() bool {
				r, err := call(t.Context(), work, `{}`)
				return err == nil && text(r) == "worked"
			})
			if c.same && f.lists.Load() != lists {
				t.Error("the session was ended for it")
			}
		})
	}
}

// If a server no longer knows the session, it has done nothing, and the call is repeated in a new one.
func TestSessionForgotten(t *testing.T) {
	f := &far{}
	w := remoteWorld(t, f)
	work := w.tool(t, "far.work")
	var calls atomic.Int32
	again := answer(func(rw http.ResponseWriter, _ *http.Request, id string) {
		if calls.Add(1) == 1 {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		respond(rw, `{"jsonrpc":"2.0","id":`+id+`,"result":`+worked+`}`)
	})
	f.call.Store(&again)
	wantText(t, work, `{}`, "worked")
	if calls.Load() != 2 {
		t.Errorf("%d calls", calls.Load())
	}
}

// A header's secret that was replaced is read again when the server refuses the old one.
func TestReplacedHeader(t *testing.T) {
	var key atomic.Pointer[string]
	one, two := "number-one", "number-two"
	key.Store(&one)
	f := &far{}
	w := remoteWorld(t, f, func(e *tool.Env, d *Decl) {
		e.Secret = func(string) (string, bool) { return *key.Load(), true }
		d.Headers = map[string]string{"X-Api-Key": "${KEY}"}
	})
	work := w.tool(t, "far.work")
	takesTwo := answer(func(rw http.ResponseWriter, r *http.Request, id string) {
		if r.Header.Get("X-Api-Key") != two {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		respond(rw, `{"jsonrpc":"2.0","id":`+id+`,"result":`+worked+`}`)
	})
	f.call.Store(&takesTwo)
	key.Store(&two)
	wantText(t, work, `{}`, "worked")
	wantText(t, work, `{}`, "worked")
}

// The stream of a server's own messages may be refused, left open, or hang.
func TestOwnStream(t *testing.T) {
	for name, get := range map[string]http.HandlerFunc{
		"not found": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"hangs":     func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a page":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := remoteWorld(t, &far{get: get})
			wantText(t, w.tool(t, "far.work"), `{}`, "worked")
		})
	}
}

func TestStormHTTP(t *testing.T) {
	f := &far{get: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		floodHTTP(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n", 1<<30)
	}}
	w := remoteWorld(t, f)
	work := w.tool(t, "far.work")
	rise := memory(t)
	for range 50 {
		wantText(t, work, `{}`, "worked")
	}
	if most := rise(); most > 64<<20 {
		t.Errorf("memory has risen by %d MiB", most>>20)
	}
	if w.changed.Load() != 0 {
		t.Error("nothing has changed")
	}
}

// The answers to a server that sends many requests are bounded.
func TestAskingHTTP(t *testing.T) {
	var answers, most atomic.Int32
	f := &far{get: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 2000 {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"q%d\",\"method\":\"roots/list\"}\n\n", i)
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}}
	w := remoteWorld(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if strings.Contains(string(b), `"q`) {
			most.Store(max(most.Load(), answers.Add(1)))
			<-r.Context().Done() // until the client ends the request
			answers.Add(-1)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(b)))
		f.ServeHTTP(rw, r)
	}))
	wantText(t, w.tool(t, "far.work"), `{}`, "worked")
	eventually(t, "it is answered", func() bool { return most.Load() > 0 })
	if most.Load() > maxPending {
		t.Errorf("%d answers at once", most.Load())
	}
}

// Secret headers and arguments go only to the declared server.
func TestRedirects(t *testing.T) {
	var leaked sync.Map
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		leaked.Store(r.URL.Path, fmt.Sprint(r.Header, string(b)))
		(&far{}).ServeHTTP(w, r)
	}))
	defer other.Close()
	secret := func(e *tool.Env, d *Decl) {
		e.Secret = func(string) (string, bool) { return "hunter2hunter2", true }
		d.Headers = map[string]string{"X-Api-Key": "${KEY}", "Authorization": "Bearer ${KEY}"}
	}
	for _, code := range []int{301, 302, 303, 307, 308} {
		f := &far{}
		w := remoteWorld(t, f, secret)
		work := w.tool(t, "far.work")
		away := answer(func(w http.ResponseWriter, r *http.Request, _ string) {
			if r.Header.Get("X-Api-Key") != "hunter2hunter2" || r.Header.Get("Authorization") != "Bearer hunter2hunter2" {
				t.Errorf("%v", r.Header)
			}
			http.Redirect(w, r, other.URL+"/stolen", code)
		})
		f.call.Store(&away)
		_, err := call(t.Context(), work, `{"private":1}`)
		wantCode(t, err, fault.Denied, "mcp_redirected")
		if strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}

		whole := remoteWorld(t, http.RedirectHandler(other.URL+"/start", code), secret)
		_, err = whole.Announce(t.Context())
		wantCode(t, err, fault.Denied, "mcp_redirected")
	}
	leaked.Range(func(k, v any) bool { t.Errorf("%v: %v", k, v); return true })

	// A redirect within the server is followed; a redirect loop is refused.
	mux := http.NewServeMux()
	mux.Handle("/mcp", http.RedirectHandler("/new", http.StatusTemporaryRedirect))
	mux.Handle("/new", &far{})
	wantText(t, remoteWorld(t, mux, secret).tool(t, "far.work"), `{}`, "worked")
	circle := remoteWorld(t, http.RedirectHandler("/mcp", http.StatusTemporaryRedirect))
	_, err := circle.Announce(t.Context())
	if !fault.HasCode(err, "mcp_redirected") {
		t.Error(err)
	}
	g, _ := newHTTP(t.Context(), &url.URL{Scheme: "https", Host: "example.org"}, nil, nil, nil, func() {})
	if _, err := g.RoundTrip(httptest.NewRequest("GET", "https://example.org:8443/", nil)); !fault.HasCode(err, "mcp_redirected") {
		t.Error(err)
	}
}

func TestHTTPNotDone(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	address := s.URL
	s.Close()
	w := remoteWorld(t, http.NotFoundHandler(), func(_ *tool.Env, d *Decl) { d.URL = address })
	_, err := w.Announce(t.Context())
	wantCode(t, err, fault.Unavailable, "mcp_start_failed")
	if !tool.CertainlyNotDone(err) {
		t.Error(err)
	}
	missing := remoteWorld(t, http.NotFoundHandler(), func(_ *tool.Env, d *Decl) { d.URL = "https://${HOST}/mcp" })
	_, err = missing.Announce(t.Context())
	wantCode(t, err, fault.Unavailable, "mcp_secret_missing")
	bad := remoteWorld(t, http.NotFoundHandler(), func(e *tool.Env, d *Decl) {
		d.URL = "${ALL}"
		e.Secret = func(string) (string, bool) { return "ftp://x", true }
	})
	_, err = bad.Announce(t.Context())
	wantCode(t, err, fault.Unavailable, "mcp_decl_invalid")
}
