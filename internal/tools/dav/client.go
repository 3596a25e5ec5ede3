// Package dav reads and changes calendars (CalDAV, RFC 4791), to-do lists and address books (CardDAV,
// RFC 6352) on servers of others. A change names the ETag of what it replaces, so that a change that
// somebody else has made in between is never overwritten. An Edit is noted before it is sent: after a
// crash the server can be asked whether it has happened, and it can be undone.
package dav

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Limits.
const (
	MaxBody        = 10 << 20 // bytes of an answer
	maxRedirects   = 5
	maxCollections = 50 // of an account
	requestTimeout = 30 * time.Second
)

// Account is an account at a server.
type Account struct {
	Setting string // where it is in the settings, such as calendars.home
	Name    string
	URL     string // of the server, of a user's home, or of one collection
	User    string
	Address string                                    // the user's own e-mail address; empty: what the server says
	Secret  func(ctx context.Context) (string, error) // the password, or an access token
	OAuth   bool                                      // Secret returns an access token
	For     *tool.Audience
}

// Owner returns whom the account belongs to.
func (a Account) Owner() *tool.Audience { return a.For }

// client makes requests for an account.
type client struct {
	Account
	root      *url.URL
	transport http.RoundTripper
}

// open checks the address of an account. Error codes: dav_url_invalid, dav_tls_required.
func open(a Account, transport http.RoundTripper) (*client, error) {
	u, err := url.Parse(a.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return nil, fault.New(fault.Invalid, "dav_url_invalid", "%.200q is not the address of a server", a.URL).WithHint("set %s.url to one like https://dav.example.com/", a.Setting)
	}
	ip, _ := netip.ParseAddr(u.Hostname()) //nolint:errcheck // a name is not a loopback address
	if u.Scheme == "http" && !ip.IsLoopback() {
		return nil, fault.New(fault.Denied, "dav_tls_required", "%s is not on this machine, so the password is only sent with TLS", u.Host).WithHint("set %s.url to an address with https", a.Setting)
	}
	u.Path = cmp.Or(u.Path, "/")
	return &client{a, u, transport}, nil
}

// answer is what a server says.
type answer struct {
	status int
	header http.Header
	body   []byte
	at     *url.URL // after redirects
}

// trusts reports whether the account's password may be sent to an address: to the host of the settings,
// and over TLS to its neighbours, because some services keep each account on a host of its own.
func (c *client) trusts(u *url.URL) bool {
	if u.Scheme == c.root.Scheme && u.Host == c.root.Host {
		return true
	}
	site, err := publicsuffix.EffectiveTLDPlusOne(c.root.Hostname())
	return err == nil && c.root.Scheme == "https" && u.Scheme == "https" && u.User == nil && strings.HasSuffix("."+u.Hostname(), "."+site)
}

// resolve returns the address that a server names. Error code: dav_foreign_address.
func (c *client) resolve(base *url.URL, ref string) (*url.URL, error) {
	u, err := base.Parse(strings.TrimSpace(ref))
	if err != nil {
		return nil, c.protocolError(err)
	}
	if u.Fragment = ""; !c.trusts(u) {
		return nil, fault.New(fault.Denied, "dav_foreign_address", "the server of %s redirects to %.200s, a different server; the password is not sent there", c.Name, u.Host).
			WithHint("if you trust it, set %s.url to its address", c.Setting)
	}
	return u, nil
}

// do makes a request, and follows redirects of those that change nothing.
func (c *client) do(ctx context.Context, method string, at *url.URL, header map[string]string, body string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for range maxRedirects {
		a, err := c.roundTrip(ctx, method, at, header, body)
		if err != nil {
			return nil, err
		}
		to := a.header.Get("Location")
		if a.status < 300 || a.status >= 400 || to == "" {
			return a, c.refused(a)
		}
		if method == http.MethodPut || method == http.MethodDelete {
			return nil, tool.NotDone(c.protocolError(errors.New("it redirects a change")))
		}
		if at, err = c.resolve(at, to); err != nil {
			return nil, tool.NotDone(err)
		}
	}
	return nil, tool.NotDone(c.protocolError(errors.New("it redirects too often")))
}

func (c *client) roundTrip(ctx context.Context, method string, at *url.URL, header map[string]string, body string) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, at.String(), strings.NewReader(body))
	if err != nil {
		return nil, tool.NotDone(c.protocolError(err))
	}
	if c.Secret == nil {
		return nil, tool.NotDone(fault.New(fault.Invalid, "dav_password_missing", "the account %s has no password", c.Name).
			WithHint("run steward secrets set NAME, and set %s.password to store:NAME", c.Setting))
	}
	secret, err := c.Secret(ctx)
	if err != nil {
		return nil, tool.NotDone(err)
	}
	if c.OAuth {
		req.Header.Set("Authorization", "Bearer "+secret)
	} else {
		req.SetBasicAuth(c.User, secret)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, b, err := local.Ask(c.transport, req, MaxBody+1, "dav_unavailable")
	if err != nil {
		return nil, err
	}
	if len(b) > MaxBody {
		return nil, fault.New(fault.TooLarge, "dav_too_large", "the server of %s answered with more than %d MB", c.Name, MaxBody>>20).WithHint("ask for less: fewer days, or one calendar")
	}
	return &answer{resp.StatusCode, resp.Header, b, at}, nil
}

// protocolError is the error for a server that does not follow the protocol.
func (c *client) protocolError(err error) error {
	return fault.New(fault.Unavailable, "dav_answer_invalid", "the server of %s returned an unexpected answer: %w", c.Name, err).
		WithHint("check %s.url: it must be the address for CalDAV or CardDAV, not that of a page", c.Setting)
}

// refused returns the error for an unsuccessful answer. A request that was refused has changed
// nothing.
func (c *client) refused(a *answer) error {
	say := strings.Join(strings.Fields(strings.ToValidUTF8(string(a.body[:min(len(a.body), 300)]), "")), " ")
	switch {
	case a.status < 300:
		return nil
	case a.status == http.StatusUnauthorized:
		return tool.NotDone(fault.New(fault.Unauthentic, "dav_login_refused", "the server rejects the login of the account %s", c.Name).
			WithHint("check %s in the settings; many services want an app password, or steward accounts connect %s", c.Setting, c.Name))
	case a.status == http.StatusForbidden:
		return tool.NotDone(fault.New(fault.Denied, "dav_denied", "the server of %s does not allow that: %.300s", c.Name, say).WithHint("it may be read only"))
	case a.status == http.StatusNotFound, a.status == http.StatusGone:
		return tool.NotDone(fault.New(fault.NotFound, "dav_not_found", "the server of %s has no resource at %.200s", c.Name, a.at.Path).WithHint("check %s.url", c.Setting))
	case a.status == http.StatusPreconditionFailed:
		return tool.NotDone(fault.New(fault.Conflict, "changed_since", "it was changed in the meantime").WithHint("read it again, and decide again"))
	case a.status >= 500:
		return fault.New(fault.Unavailable, "dav_unavailable", "the server of %s failed: %d %.300s", c.Name, a.status, say).WithHint("try again later")
	}
	return tool.NotDone(c.protocolError(fault.New(fault.Unavailable, "dav_status", "status %d %.300s", a.status, say)))
}

// Object is an event, a task or a contact as the server stores it.
type Object struct {
	Account string
	URL     string
	ETag    string
	Text    string // iCalendar or vCard
}

// get reads an object. It returns the zero Object if there is none.
func (c *client) get(ctx context.Context, at *url.URL) (Object, error) {
	a, err := c.do(ctx, http.MethodGet, at, nil, "")
	if fault.HasCode(err, "dav_not_found") {
		return Object{}, nil
	}
	if err != nil {
		return Object{}, err
	}
	return Object{c.Name, at.String(), a.header.Get("ETag"), string(a.body)}, nil
}

// multistatus makes a request that is answered with properties of several resources (RFC 4918, section 13).
func (c *client) multistatus(ctx context.Context, method string, at *url.URL, depth, body string) ([]resource, error) {
	a, err := c.do(ctx, method, at, map[string]string{"Content-Type": "application/xml; charset=utf-8", "Depth": depth}, xml.Header+body)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusMultiStatus {
		return nil, c.protocolError(fault.New(fault.Unavailable, "dav_status", "status %d instead of 207", a.status))
	}
	var ms struct {
		Responses []response `xml:"DAV: response"`
	}
	d := xml.NewDecoder(bytes.NewReader(a.body))
	if err := d.Decode(&ms); err != nil {
		return nil, c.protocolError(err)
	}
	var out []resource
	for _, r := range ms.Responses {
		for _, p := range r.Propstats {
			if p.Status == "" || strings.Contains(p.Status, " 200 ") || strings.HasSuffix(p.Status, " 200") {
				u, err := c.resolve(a.at, r.Href)
				if err != nil {
					return nil, err
				}
				out = append(out, resource{u, p.Prop})
			}
		}
	}
	return out, nil
}
