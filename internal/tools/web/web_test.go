package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a site, and the tools that may reach it.
type world struct {
	t     *testing.T
	mux   *http.ServeMux
	site  *httptest.Server
	tools map[string]tool.Tool
	now   time.Time
}

func newWorld(t *testing.T, s Search) *world {
	w := &world{t: t, mux: http.NewServeMux(), now: time.Now()}
	w.site = httptest.NewServer(w.mux)
	t.Cleanup(w.site.Close)
	w.offer(s)
	return w
}

func (w *world) offer(s Search) {
	rule, err := egress.Public()
	if err != nil {
		w.t.Fatal(err)
	}
	safe := egress.Dialer{Rule: rule, Resolver: nobody{}}
	tr := safe.Transport()
	tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if "http://"+address == w.site.URL { // it listens in this process, which no rule can allow
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		return safe.DialContext(ctx, network, address)
	}
	w.t.Cleanup(tr.CloseIdleConnections)
	k := local.NewKit(tool.Env{Name: "web"}, "domain:web")
	Add(k, Options{Transport: tr, Search: s, Now: func() time.Time { return w.now }})
	list, err := k.Tools()
	if err != nil {
		w.t.Fatal(err)
	}
	w.tools = map[string]tool.Tool{}
	for _, x := range list {
		w.tools[x.Spec().Name] = x
		if s := x.Spec(); s.Yields != message.Untrusted || !s.Out() || s.Effect != tool.Query {
			w.t.Errorf("%+v", s)
		}
	}
}

// nobody resolves names to addresses of this machine's network, as a hostile name server does.
type nobody struct{}

func (nobody) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host == "metadata.example" {
		return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func (w *world) page(path, media, body string) {
	w.mux.HandleFunc(path, func(r http.ResponseWriter, _ *http.Request) {
		r.Header().Set("Content-Type", media)
		io.WriteString(r, body) //nolint:errcheck // the caller may be gone
	})
}

func (w *world) try(name string, args any) (string, error) {
	w.t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := w.tools[name].Call(w.t.Context(), tool.Invocation{Args: b, User: "ann"})
	if err != nil {
		return "", err
	}
	return res.Content[0].(*message.Text).Text, nil
}

func (w *world) call(name string, args any) string {
	w.t.Helper()
	text, err := w.try(name, args)
	if err != nil {
		w.t.Fatalf("%s %v: %v", name, args, err)
	}
	return text
}

func (w *world) refused(code string, args any) {
	w.t.Helper()
	if text, err := w.try("web.fetch", args); !fault.HasCode(err, code) {
		w.t.Errorf("%v: %q, %v, want %s", args, text, err, code)
	}
}

type m = map[string]any

func TestFetch(t *testing.T) {
	w := newWorld(t, Search{})
	w.page("/page", "text/html; charset=utf-8", `<title>Opening hours</title><p>Open from <b>nine</b> to five.</p><a href="/more">More</a>`)
	got := w.call("web.fetch", m{"url": w.site.URL + "/page#top"})
	want := "Opening hours\n" + w.site.URL + "/page\n\nOpen from **nine** to five.\n\n[More](" + w.site.URL + "/more)\n\nLinks:\n- More: " + w.site.URL + "/more\n"
	if got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	w.refused("page_not_found", m{"url": w.site.URL + "/none"})
	for _, bad := range []string{"file:///etc/passwd", "ftp://example.org/", "http://user:secret@example.org/", "https://"} {
		w.refused("url_invalid", m{"url": bad})
	}
}

// A long text comes in parts that together are the whole.
func TestALongPageIsReadInParts(t *testing.T) {
	w := newWorld(t, Search{})
	var long strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&long, "Line %d of a long text.\n", i)
	}
	w.page("/long", "text/plain", long.String())
	var all strings.Builder
	from := 0
	for range 20 {
		part := w.call("web.fetch", m{"url": w.site.URL + "/long", "from": from})
		_, part, _ = strings.Cut(part, "\n\n")
		text, rest, more := strings.Cut(part, "\n\n[The text continues: read on from ")
		all.WriteString(text)
		if !more {
			break
		}
		if _, err := fmt.Sscanf(rest, "%d", &from); err != nil {
			t.Fatal(err)
		}
	}
	if all.String() != strings.TrimSpace(long.String()) {
		t.Errorf("%d bytes of %d were read", all.Len(), long.Len())
	}
}

func TestRobots(t *testing.T) {
	w := newWorld(t, Search{})
	w.page("/robots.txt", "text/plain", "User-agent: *\nDisallow: /\n\nUser-agent: Steward\nDisallow: /private\n")
	w.page("/open", "text/plain", "open")
	w.page("/private/x", "text/plain", "private")
	w.mux.HandleFunc("/leads", func(r http.ResponseWriter, q *http.Request) { http.Redirect(r, q, "/private/x", http.StatusFound) })
	w.call("web.fetch", m{"url": w.site.URL + "/open"})
	w.refused("page_disallowed", m{"url": w.site.URL + "/private/x"})
	w.refused("page_disallowed", m{"url": w.site.URL + "/leads"})
}

func TestASiteWhoseRulesFailIsNotRead(t *testing.T) {
	w := newWorld(t, Search{})
	w.mux.HandleFunc("/robots.txt", func(r http.ResponseWriter, _ *http.Request) { r.WriteHeader(http.StatusBadGateway) })
	w.page("/", "text/plain", "page")
	w.refused("page_disallowed", m{"url": w.site.URL + "/"})
}

// A page is asked for again only when it is old.
func TestPagesAreRemembered(t *testing.T) {
	w := newWorld(t, Search{})
	var asked atomic.Int32
	w.mux.HandleFunc("/page", func(r http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		r.Header().Set("Content-Type", "text/plain")
		io.WriteString(r, "the page") //nolint:errcheck // the caller may be gone
	})
	for _, c := range []struct {
		after time.Duration
		asked int32
	}{{0, 1}, {time.Minute, 1}, {freshFor, 2}} {
		w.now = w.now.Add(c.after)
		if got := w.call("web.fetch", m{"url": w.site.URL + "/page"}); !strings.Contains(got, "the page") || asked.Load() != c.asked {
			t.Errorf("after %s: %q, asked %d times", c.after, got, asked.Load())
		}
	}
}

// Whatever name or redirect leads there, this machine and its network are not reached.
func TestInternalAddressesAreNotReached(t *testing.T) {
	w := newWorld(t, Search{})
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	t.Cleanup(inside.Close)
	for path, to := range map[string]string{"/a": inside.URL, "/b": "http://metadata.example/latest", "/c": "http://[::1]:1/", "/d": "http://rebound.example" + inside.URL[strings.LastIndex(inside.URL, ":"):]} {
		w.mux.HandleFunc(path, func(r http.ResponseWriter, q *http.Request) { http.Redirect(r, q, to, http.StatusFound) })
		w.refused("network_denied", m{"url": w.site.URL + path})
		w.refused("network_denied", m{"url": to})
	}
	if _, err := w.try("web.fetch", m{"url": inside.URL}); err == nil || !strings.Contains(err.Error(), "web.hosts in the settings") {
		t.Errorf("it does not say what would let it be read: %v", err)
	}
	w.mux.HandleFunc("/file", func(r http.ResponseWriter, _ *http.Request) {
		r.Header().Set("Location", "file:///etc/passwd")
		r.WriteHeader(http.StatusFound)
	})
	w.refused("page_redirects", m{"url": w.site.URL + "/file"})
	w.mux.HandleFunc("/loop", func(r http.ResponseWriter, q *http.Request) { http.Redirect(r, q, "/loop", http.StatusFound) })
	w.refused("page_redirects", m{"url": w.site.URL + "/loop"})
}

func TestTooMuch(t *testing.T) {
	w := newWorld(t, Search{})
	w.mux.HandleFunc("/endless", func(r http.ResponseWriter, q *http.Request) {
		r.Header().Set("Content-Type", "text/html")
		for q.Context().Err() == nil {
			if _, err := r.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	w.refused("extract_too_large", m{"url": w.site.URL + "/endless"})
}

// The answers are shaped as the vendors document them, in November 2026:
//   - SearXNG: docs.searxng.org/dev/search_api.html
//   - Brave: api-dashboard.search.brave.com/docs, model WebSearchApiResponse
//   - Tavily: docs.tavily.com/documentation/api-reference/endpoint/search
//   - Exa: exa.ai/docs/reference/search, and a result of exa.ai/docs/sdks/typescript-sdk-specification
//   - DuckDuckGo has no documentation: html.duckduckgo.com/html as it is served, with links that are direct or
//     a redirect, and advertisements by y.js
func TestSearch(t *testing.T) {
	const found = "1. A lens\n   https://example.org/lens\n   Rings of glass & light.\n2. Cordouan\n   https://example.org/cordouan\n   A tower.\n"
	key := func(context.Context) (string, error) { return "the-key", nil }
	for name, c := range map[string]struct {
		check  func(q *http.Request, body string) bool
		answer string
	}{
		"searxng": {func(q *http.Request, _ string) bool {
			return q.URL.Path == "/search" && q.FormValue("q") == "old lens" && q.FormValue("format") == "json"
		}, `{"query":"x","number_of_results":2,"results":[{"url":"https://example.org/lens","title":"A lens","content":"Rings of glass &amp; light.","engine":"x","score":1.0},{"url":"https://example.org/cordouan","title":"Cordouan","content":"A tower."},{"url":"javascript:alert(1)","title":"bad"}],"answers":[]}`},
		"brave": {func(q *http.Request, _ string) bool {
			return q.Header.Get("X-Subscription-Token") == "the-key" && q.FormValue("q") == "old lens" && q.FormValue("count") == "2"
		}, `{"type":"search","web":{"type":"search","results":[{"title":"A lens","url":"https://example.org/lens","description":"Rings of <strong>glass</strong> &amp; light."},{"title":"Cordouan","url":"https://example.org/cordouan","description":"A tower."}]}}`},
		"tavily": {func(q *http.Request, body string) bool {
			return q.Header.Get("Authorization") == "Bearer the-key" && body == `{"max_results":2,"query":"old lens"}`
		}, `{"query":"x","results":[{"title":"A lens","url":"https://example.org/lens","content":"Rings of glass & light.","score":0.9},{"title":"Cordouan","url":"https://example.org/cordouan","content":"A tower."}]}`},
		"exa": {func(q *http.Request, body string) bool {
			return q.Header.Get("X-Api-Key") == "the-key" && strings.Contains(body, `"query":"old lens"`) && strings.Contains(body, `"numResults":2`)
		}, `{"requestId":"1","results":[{"title":"A lens","id":"https://example.org/lens","url":"https://example.org/lens","publishedDate":"2026-01-01","author":null,"text":"Rings of glass\n& light."},{"title":"Cordouan","url":"https://example.org/cordouan","text":"A tower."}]}`},
		"duckduckgo": {func(_ *http.Request, body string) bool { return body == "q=old+lens" },
			`<div class="result results_links"><h2 class="result__title"><a rel="nofollow" class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.org%2Flens&amp;rut=1">A lens</a></h2><a class="result__snippet" href="x">Rings of <b>glass</b> &amp; light.</a></div>` +
				`<div class="result result--ad"><a class="result__a" href="https://duckduckgo.com/y.js?ad_domain=x">Buy</a></div>` +
				`<div class="result results_links results_links_deep web-result"><div class="links_main links_deep result__body"><h2 class="result__title"><a rel="nofollow" class="result__a" href="https://example.org/cordouan">Cordouan</a></h2><a class="result__snippet">A tower.</a></div></div>`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Search{})
			w.mux.HandleFunc("/", func(r http.ResponseWriter, q *http.Request) {
				body, err := io.ReadAll(q.Body)
				if q.Body = io.NopCloser(strings.NewReader(string(body))); err != nil || !c.check(q, string(body)) {
					t.Errorf("%s %s %v %s", q.Method, q.URL, q.Header, body)
				}
				io.WriteString(r, c.answer) //nolint:errcheck // the caller may be gone
			})
			w.offer(Search{Engine: name, URL: w.site.URL, Key: key})
			if got := w.call("web.search", m{"query": "old lens", "count": 2}); got != found {
				t.Errorf("%q\nwant %q", got, found)
			}
		})
	}
}

func TestWhatASearchEngineRefuses(t *testing.T) {
	for _, c := range []struct {
		code   string
		status int // 422: Brave's for an invalid key; 202: DuckDuckGo's for programs; 432, 433: Tavily's for a plan that is used up
	}{{"search_refused", http.StatusForbidden}, {"search_refused", http.StatusUnauthorized}, {"search_refused", http.StatusUnprocessableEntity}, {"search_limited", http.StatusTooManyRequests},
		{"search_limited", http.StatusAccepted}, {"search_limited", 432}, {"search_limited", 433}, {"search_failed", http.StatusInternalServerError}, {"search_damaged", http.StatusOK}} {
		w := newWorld(t, Search{})
		code := c.code
		w.mux.HandleFunc("/search", func(r http.ResponseWriter, _ *http.Request) {
			r.WriteHeader(c.status)
			io.WriteString(r, "<html>") //nolint:errcheck // the caller may be gone
		})
		w.offer(Search{Engine: "searxng", URL: w.site.URL})
		if _, err := w.try("web.search", m{"query": "x"}); !fault.HasCode(err, code) {
			t.Errorf("%v, want %s", err, code)
		}
	}
	w := newWorld(t, Search{})
	w.page("/", "text/html", `<div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div>`)
	w.offer(Search{URL: w.site.URL})
	if _, err := w.try("web.search", m{"query": "x"}); !fault.HasCode(err, "search_limited") {
		t.Error(err)
	}
	for _, s := range []Search{{Engine: "altavista"}, {Engine: "searxng"}, {Engine: "brave"}} {
		if err := s.Check(t.Context()); fault.Of(err).Remedy == "" {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if u, err := url.Parse("https://" + (Search{}).host()); err != nil || u.Host != "html.duckduckgo.com" {
		t.Error(u, err)
	}
}
