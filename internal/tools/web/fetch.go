package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/temoto/robotstxt"

	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/tools/local"
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
	url     string // after redirects
	doc     extract.Document
	at      time.Time
	private bool // it must not be remembered
}

// rules are what a site's robots.txt says, as of a time.
type rules struct {
	*robotstxt.RobotsData
	at time.Time
}

// fetch reads a page, or takes the one that was read a short time ago.
func (f *fetcher) fetch(ctx context.Context, user, address string) (*page, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fault.New(fault.Invalid, "url_invalid", "%.200q is not the address of a page", address).WithHint("write it like https://example.org/page, without a user name")
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
	p, err := f.read(ctx, u)
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
func (f *fetcher) read(ctx context.Context, u *url.URL) (*page, error) {
	u, resp, data, err := f.follow(ctx, u, extract.MaxBytes+1, f.allowed)
	switch {
	case fault.HasCode(err, "network_denied"):
		return nil, fault.Of(err).WithHint("to allow it, add its host and port to web.hosts in the settings")
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return nil, fault.New(fault.NotFound, "page_not_found", "there is no page at %s", u)
	case resp.StatusCode != http.StatusOK:
		return nil, fault.New(fault.Unavailable, "page_refused", "%s answers %s", u.Host, resp.Status)
	case resp.Header.Get("Content-Encoding") != "": // gzip alone, which was asked for, is gone by now
		return nil, fault.New(fault.Unsupported, "page_encoding", "%s encodes its page as %.40q, which was not requested", u.Host, resp.Header.Get("Content-Encoding"))
	}
	doc, err := f.Reader.Read(ctx, extract.Input{Data: data, MediaType: resp.Header.Get("Content-Type"), Base: u.String()})
	if err != nil {
		return nil, err
	}
	return &page{url: u.String(), doc: doc, at: f.Now(), private: strings.Contains(resp.Header.Get("Cache-Control"), "no-store")}, nil
}

// follow asks for an address, and for those to which it leads, each of which must be allowed. It reads at most
// so many bytes.
func (f *fetcher) follow(ctx context.Context, u *url.URL, most int64, allowed func(context.Context, *url.URL) error) (*url.URL, *http.Response, []byte, error) {
	for range maxRedirects + 1 {
		if err := allowed(ctx, u); err != nil {
			return nil, nil, nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, nil, nil, fault.New(fault.Invalid, "url_invalid", "%.200q is not the address of a page: %w", u, err)
		}
		req.Header.Set("Accept", "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.5")
		resp, body, err := readBody(f.Transport, req, most)
		if err != nil || resp.StatusCode < 300 || resp.StatusCode >= 400 || resp.Header.Get("Location") == "" {
			return u, resp, body, err
		}
		if u, err = u.Parse(resp.Header.Get("Location")); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			return nil, nil, nil, fault.New(fault.Denied, "page_redirects", "the page redirects to an address that is not allowed")
		}
	}
	return nil, nil, nil, fault.New(fault.Unavailable, "page_redirects", "the page redirects more than %d times", maxRedirects)
}

func readBody(t http.RoundTripper, req *http.Request, most int64) (*http.Response, []byte, error) {
	req.Header.Set("User-Agent", agent)
	return local.Ask(t, req, most, "page_unreachable")
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
		return fault.New(fault.Denied, "page_disallowed", "%s does not allow programs to read %s (robots.txt)", u.Host, u.Path).
			WithHint("open the page yourself, or find another one")
	}
	return nil
}

func (f *fetcher) askRobots(ctx context.Context, site string) (*rules, error) {
	u, err := url.Parse(site + "/robots.txt")
	if err != nil {
		return nil, fault.New(fault.Invalid, "url_invalid", "%.200q is not the address of a site", site)
	}
	status := http.StatusNotFound
	_, resp, body, err := f.follow(ctx, u, maxRobots, func(context.Context, *url.URL) error { return nil })
	if err == nil && (resp.StatusCode < 300 || resp.StatusCode >= 400) {
		status = resp.StatusCode
	} else if err != nil && !fault.HasCode(err, "page_redirects") {
		return nil, err
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
