package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html"

	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

const (
	searchTimeout = 20 * time.Second
	maxAnswer     = 4 << 20 // bytes of a search engine's answer
	maxExcerpt    = 400     // characters
)

// Search says which search engine is asked. The zero value is DuckDuckGo, which needs no key.
type Search struct {
	Engine string                                    // a key of engines
	URL    string                                    // where the engine is; empty: where its vendor has it
	Key    func(ctx context.Context) (string, error) // nil: none
	// Call has another tool search, in place of an engine. It judges and makes the call like any call of that tool.
	Call func(ctx context.Context, in tool.Invocation, query string) (tool.Result, error)
}

// Result is a page that was found.
type Result struct{ Title, URL, Excerpt string }

// engine is the protocol of a search engine.
type engine struct {
	url   string                         // where its vendor has it; empty: it must be given
	key   string                         // the header for its key, and what stands before it; empty: it needs none
	query func(query string, n int) any  // url.Values for GET, or what is posted as JSON
	read  func([]byte) ([]Result, error) // reads the answer
}

// engines are the engines by name. The protocols are as their vendors document them:
// docs.searxng.org/dev/search_api.html, api-dashboard.search.brave.com/app/documentation,
// docs.tavily.com/documentation/api-reference/endpoint/search, exa.ai/docs/reference/search.
// DuckDuckGo has no API: its page for browsers without scripts is read.
var engines = map[string]engine{
	"duckduckgo": {"https://html.duckduckgo.com/html/", "", func(q string, _ int) any { return url.Values{"q": {q}} }, readDuckDuckGo},
	"searxng":    {"", "", func(q string, _ int) any { return url.Values{"q": {q}, "format": {"json"}} }, readJSON},
	"brave": {"https://api.search.brave.com/res/v1/web/search", "X-Subscription-Token: ", func(q string, n int) any {
		return url.Values{"q": {q}, "count": {strconv.Itoa(n)}}
	}, readJSON},
	"tavily": {"https://api.tavily.com/search", "Authorization: Bearer ", func(q string, n int) any {
		return map[string]any{"query": q, "max_results": n}
	}, readJSON},
	"exa": {"https://api.exa.ai/search", "x-api-key: ", func(q string, n int) any {
		return map[string]any{"query": q, "numResults": n, "contents": map[string]any{"text": map[string]any{"maxCharacters": maxExcerpt}}}
	}, readJSON},
}

// request returns the request for a search.
func (e configuredEngine) request(ctx context.Context, query string, n int) (*http.Request, error) {
	to, body, media := e.URL, "", ""
	if e.Engine == "searxng" {
		to = strings.TrimRight(to, "/") + "/search"
	}
	switch q := e.query(query, n).(type) {
	case url.Values:
		if e.Engine == "duckduckgo" { // it answers forms alone
			body, media = q.Encode(), "application/x-www-form-urlencoded"
		} else {
			to += "?" + q.Encode()
		}
	default:
		b, err := json.Marshal(q)
		if err != nil {
			return nil, err
		}
		body, media = string(b), "application/json"
	}
	method := map[bool]string{true: http.MethodGet, false: http.MethodPost}[body == ""]
	r, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(body))
	if err != nil {
		return nil, fault.New(fault.Invalid, "search_incomplete", "the address of %s is invalid: %w", e.Engine, err).WithHint("correct web.search.url")
	}
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	r.Header.Set("Accept", "application/json, text/html;q=0.9")
	if header, before, ok := strings.Cut(e.key, ": "); ok {
		r.Header.Set(header, before+e.Key)
	}
	return r, nil
}

// hit is a result in JSON. Each engine names the excerpt in its own way.
type hit struct{ Title, URL, Content, Description, Text string }

// readJSON reads an answer in JSON. Brave's is one level deeper than the others'.
func readJSON(body []byte) (out []Result, _ error) {
	var a struct {
		Results []hit
		Web     struct{ Results []hit }
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, err
	}
	for _, h := range append(a.Results, a.Web.Results...) {
		out = append(out, Result{h.Title, h.URL, cmp.Or(h.Content, h.Description, h.Text)})
	}
	return out, nil
}

// configuredEngine is an engine with its address and key.
type configuredEngine struct {
	engine
	Engine, URL, Key string
}

// complete fills in the defaults, and says what is missing.
func (s Search) complete(ctx context.Context) (configuredEngine, error) {
	e := configuredEngine{Engine: s.Name()}
	var ok bool
	if e.engine, ok = engines[e.Engine]; !ok {
		return e, fault.New(fault.Invalid, "search_unknown", "%.40q is not a search engine", e.Engine).WithHint("the engines are duckduckgo, searxng, brave, tavily and exa")
	}
	e.URL = cmp.Or(s.URL, e.url)
	if e.URL == "" {
		return e, fault.New(fault.Invalid, "search_incomplete", "the address of %s is missing", e.Engine).WithHint("set web.search.url, for example to http://localhost:8080")
	}
	if s.Key != nil {
		var err error
		if e.Key, err = s.Key(ctx); err != nil {
			return e, err
		}
	}
	if e.key != "" && e.Key == "" {
		return e, fault.New(fault.Invalid, "search_incomplete", "the key of %s is missing", e.Engine).WithHint("get one from the vendor and set web.search.key, best as store:NAME")
	}
	return e, nil
}

// Name returns the name of the engine.
func (s Search) Name() string { return cmp.Or(s.Engine, "duckduckgo") }

// Check returns an error that says what is missing in the settings.
func (s Search) Check(ctx context.Context) error {
	_, err := s.complete(ctx)
	return err
}

// host returns the host of the engine, if it is known.
func (s Search) host() string {
	u, err := url.Parse(cmp.Or(s.URL, engines[s.Name()].url))
	if err != nil {
		return ""
	}
	return u.Host
}

// run asks the engine. Redirects are not followed: none of the engines makes any, and the key
// goes nowhere else.
func (s Search) run(ctx context.Context, t http.RoundTripper, query string, count int) ([]Result, error) {
	e, err := s.complete(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	req, err := e.request(ctx, query, count)
	if err != nil {
		return nil, err
	}
	resp, body, err := readBody(t, req, maxAnswer)
	if err == nil {
		err = refusal(e.Engine, resp.StatusCode)
	}
	if err != nil {
		return nil, err
	}
	found, err := e.read(body)
	if err != nil {
		if ce := fault.Of(err); ce.Code == "search_limited" {
			return nil, err
		}
		return nil, fault.New(fault.Unavailable, "search_damaged", "%s did not return results: %w", e.Engine, err)
	}
	return usableResults(found, count), nil
}

// refusal returns the error for a status other than 200.
func refusal(engine string, status int) error {
	switch {
	case status == http.StatusOK:
		return nil
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusUnprocessableEntity: // Brave: 422 SUBSCRIPTION_TOKEN_INVALID
		return fault.New(fault.Denied, "search_refused", "%s refuses the search", engine).
			WithHint("check web.search.key; SearXNG must allow the format json in its settings.yml")
	case status == http.StatusTooManyRequests, status == http.StatusAccepted, status == 432, status == 433: // Tavily: the plan is used up
		return limitedBy(engine)
	}
	return fault.New(fault.Unavailable, "search_failed", "%s answers with status %d", engine, status)
}

func limitedBy(engine string) error {
	return fault.New(fault.RateLimited, "search_limited", "%s accepts no more searches for now", engine).
		WithHint("try later, or set another engine with web.search.engine: a SearXNG of your own, brave, tavily or exa")
}

// usableResults keeps usable results, on one line each.
func usableResults(found []Result, count int) (out []Result) {
	for _, r := range found {
		u, err := url.Parse(r.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(r.URL) > 2000 {
			continue
		}
		out = append(out, Result{line(r.Title, 200), u.String(), line(r.Excerpt, maxExcerpt)})
		if len(out) == count {
			break
		}
	}
	return out
}

// line is a text on one line, without the marks of HTML that some engines put into excerpts.
func line(s string, most int) string {
	s = strings.NewReplacer("<strong>", "", "</strong>", "", "<b>", "", "</b>", "").Replace(s)
	return local.Line(html.UnescapeString(s), most)
}

// readDuckDuckGo reads DuckDuckGo's page for browsers without scripts: links of class result__a,
// whose address is the parameter uddg of a redirect, and excerpts of class result__snippet.
func readDuckDuckGo(body []byte) ([]Result, error) {
	page, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	var out []Result
	for n := range page.Descendants() {
		class := extract.Attribute(n, "class")
		switch {
		case strings.Contains(class, "anomaly-modal"):
			return nil, limitedBy("duckduckgo")
		case strings.Contains(class, "result__a"):
			if u := target(extract.Attribute(n, "href")); u != "" {
				out = append(out, Result{Title: extract.TextOf(n), URL: u})
			}
		case strings.Contains(class, "result__snippet") && len(out) > 0 && out[len(out)-1].Excerpt == "":
			out[len(out)-1].Excerpt = extract.TextOf(n)
		}
	}
	return out, nil
}

// target returns where a link of DuckDuckGo leads. It leaves out advertisements, which lead to
// duckduckgo.com/y.js.
func target(href string) string {
	u, err := url.Parse(href)
	if err != nil {
		return ""
	}
	if to := u.Query().Get("uddg"); to != "" {
		return to
	}
	if strings.HasSuffix(u.Host, "duckduckgo.com") || u.Host == "" {
		return ""
	}
	return href
}
