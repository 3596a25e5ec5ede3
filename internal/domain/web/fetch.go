package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/temoto/robotstxt"

	"steward/internal/extract"
	"steward/internal/fault"
)

// Limits of reading pages.
const (
	fetchTimeout = 30 * time.Second
	maxRedirects = 5
	maxRobots    = 500 << 10 // RFC 9309, section 2.5
	robotsFor    = time.Hour // how long the rules of a site are remembered; RFC 9309 allows a day
	freshFor     = 5 * time.Minute
	maxPages     = 64      // pages that are remembered
	maxRemember  = 1 << 20 // bytes of such a page's text
	maxSites     = 500     // sites whose rules are remembered
)

// agent is the name under which pages are asked for. Sites address it in robots.txt as "Steward".
const agent = "Mozilla/5.0 (compatible; Steward)"

// fetcher reads pages, and remembers them for a short time.
type fetcher struct {
	Options

	mu     sync.Mutex
	pages  map[string]*page  // by user and URL
	robots map[string]*rules // by scheme and host
}

// page is a page as it was read.
type page struct {
	url        string // after redirects
	doc        extract.Document
	at         time.Time
	tag, since string // its ETag and Last-Modified
	private    bool   // it must not be remembered
}

// rules are what a site's robots.txt says, as of a time.
type rules struct {
	*robotstxt.RobotsData
	at time.Time
}

// fetch reads a page, or takes the one that was read a short time ago. An older one is only read
// again if it has changed.
func (f *fetcher) fetch(ctx context.Context, user, address string) (*page, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fault.New(fault.Invalid, "url_invalid", "%.200q is no address of a page", address).WithHint("write it like https://example.org/page, without a user name")
	}
	u.Fragment = ""
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout+20*time.Second)
	defer cancel()
	key := user + "\x00" + u.String()
	f.mu.Lock()
	old := f.pages[key]
	f.mu.Unlock()
	if old != nil && f.Now().Sub(old.at) < freshFor {
		return old, nil
	}
	p, err := f.read(ctx, u, old)
	if err != nil {
		return nil, err
	}
	if !p.private && len(p.doc.Text) <= maxRemember {
		f.mu.Lock()
		makeRoom(f.pages, maxPages)
		f.pages[key] = p
		f.mu.Unlock()
	}
	return p, nil
}

// makeRoom removes any entry of a full map.
func makeRoom[V any](m map[string]V, most int) {
	for k := range m {
		if len(m) < most {
			return
		}
		delete(m, k)
	}
}

// read follows redirects to a page and reads it.
func (f *fetcher) read(ctx context.Context, u *url.URL, old *page) (*page, error) {
	for range maxRedirects + 1 {
		if err := f.allowed(ctx, u); err != nil {
			return nil, err
		}
		resp, err := f.get(ctx, u, old)
		if err != nil {
			return nil, err
		}
		next, p, err := f.answer(ctx, u, resp, old)
		if err != nil || p != nil {
			return p, err
		}
		u = next
	}
	return nil, fault.New(fault.Unavailable, "page_redirects", "the page leads from one address to the next more than %d times", maxRedirects)
}

func (f *fetcher) get(ctx context.Context, u *url.URL, old *page) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "url_invalid", "%.200q is no address of a page: %w", u, err)
	}
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.5")
	if old != nil && old.url == u.String() {
		if old.tag != "" {
			req.Header.Set("If-None-Match", old.tag)
		}
		if old.since != "" {
			req.Header.Set("If-Modified-Since", old.since)
		}
	}
	resp, err := f.Transport.RoundTrip(req)
	if err != nil {
		return nil, unreachable(ctx, u, err)
	}
	return resp, nil
}

func unreachable(ctx context.Context, u *url.URL, err error) error {
	if e := (*fault.Error)(nil); errors.As(err, &e) { // of the dialer
		return e
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "page_timeout", "%s did not answer in time", u.Host)
	}
	return fault.New(fault.Unavailable, "page_unreachable", "%s cannot be reached: %w", u.Host, err)
}

// answer reads a response: a redirect, a page, or that a page has not changed.
func (f *fetcher) answer(ctx context.Context, u *url.URL, resp *http.Response, old *page) (next *url.URL, p *page, err error) {
	defer resp.Body.Close() //nolint:errcheck // it is only read
	switch {
	case resp.StatusCode == http.StatusNotModified && old != nil:
		again := *old
		again.at = f.Now()
		return nil, &again, nil
	case resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.Header.Get("Location") != "":
		next, err := u.Parse(resp.Header.Get("Location"))
		if err != nil || next.Scheme != "http" && next.Scheme != "https" || next.User != nil {
			return nil, nil, fault.New(fault.Denied, "page_redirects", "the page leads to an address that is not followed")
		}
		return next, nil, nil
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return nil, nil, fault.New(fault.NotFound, "page_not_found", "there is no page at %s", u)
	case resp.StatusCode != http.StatusOK:
		return nil, nil, fault.New(fault.Unavailable, "page_refused", "%s answers %s", u.Host, resp.Status)
	case resp.Header.Get("Content-Encoding") != "": // gzip alone, which was asked for, is gone by now
		return nil, nil, fault.New(fault.Unsupported, "page_encoding", "%s packs its page as %.40q, which nobody asked for", u.Host, resp.Header.Get("Content-Encoding"))
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, extract.MaxBytes+1))
	if err != nil {
		return nil, nil, unreachable(ctx, u, err)
	}
	doc, err := f.Reader.Read(ctx, extract.Input{Data: data, MediaType: resp.Header.Get("Content-Type"), Base: u.String()})
	if err != nil {
		return nil, nil, err
	}
	h := resp.Header
	return nil, &page{url: u.String(), doc: doc, at: f.Now(), tag: h.Get("ETag"), since: h.Get("Last-Modified"),
		private: strings.Contains(h.Get("Cache-Control"), "no-store")}, nil
}

// allowed asks a site's robots.txt (RFC 9309): rules that cannot be found allow everything, and
// a site that fails to serve them allows nothing.
func (f *fetcher) allowed(ctx context.Context, u *url.URL) error {
	site := u.Scheme + "://" + u.Host
	f.mu.Lock()
	r := f.robots[site]
	f.mu.Unlock()
	if r == nil || f.Now().Sub(r.at) > robotsFor {
		var err error
		if r, err = f.askRobots(ctx, site); err != nil {
			return err
		}
		f.mu.Lock()
		makeRoom(f.robots, maxSites)
		f.robots[site] = r
		f.mu.Unlock()
	}
	if !r.TestAgent(u.RequestURI(), "Steward") {
		return fault.New(fault.Denied, "page_disallowed", "%s does not want programs to read %s (robots.txt)", u.Host, u.Path).
			WithHint("open the page yourself, or look for another one")
	}
	return nil
}

func (f *fetcher) askRobots(ctx context.Context, site string) (*rules, error) {
	u, err := url.Parse(site + "/robots.txt")
	if err != nil {
		return nil, fault.New(fault.Invalid, "url_invalid", "%.200q is no address of a site", site)
	}
	status, body := http.StatusNotFound, []byte(nil)
	for range maxRedirects + 1 {
		resp, err := f.get(ctx, u, nil)
		if err != nil {
			return nil, err
		}
		status = resp.StatusCode
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxRobots))
		resp.Body.Close() //nolint:errcheck // it is only read
		if err != nil {
			return nil, unreachable(ctx, u, err)
		}
		if status < 300 || status >= 400 {
			break
		}
		next, err := u.Parse(resp.Header.Get("Location"))
		if err != nil {
			break
		}
		u = next
	}
	if status >= 300 && status < 400 {
		status = http.StatusNotFound
	}
	data, err := robotstxt.FromStatusAndBytes(status, body)
	if err != nil { // rules that cannot be read are none
		data, err = robotstxt.FromStatusAndBytes(http.StatusNotFound, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("robots.txt of %s: %w", site, err)
	}
	return &rules{data, f.Now()}, nil
}
