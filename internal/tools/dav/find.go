package dav

import (
	"cmp"
	"context"
	"encoding/xml"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// The kinds of collections.
const (
	Events   = "VEVENT"
	Tasks    = "VTODO"
	Contacts = "VCARD"
)

type response struct {
	Href      string `xml:"DAV: href"`
	Propstats []struct {
		Status string     `xml:"DAV: status"`
		Prop   properties `xml:"DAV: prop"`
	} `xml:"DAV: propstat"`
}

// resource is an answer about one resource.
type resource struct {
	url *url.URL
	properties
}

type hrefs struct {
	List []string `xml:"DAV: href"`
}

// properties are those that are asked for.
type properties struct {
	Name string `xml:"DAV: displayname"`
	ETag string `xml:"DAV: getetag"`
	Type struct {
		Calendar *struct{} `xml:"urn:ietf:params:xml:ns:caldav calendar"`
		Contacts *struct{} `xml:"urn:ietf:params:xml:ns:carddav addressbook"`
	} `xml:"DAV: resourcetype"`
	Holds *struct {
		List []struct {
			Name string `xml:"name,attr"`
		} `xml:"urn:ietf:params:xml:ns:caldav comp"`
	} `xml:"urn:ietf:params:xml:ns:caldav supported-calendar-component-set"`
	Rights *struct {
		List []struct {
			Any []struct{ XMLName xml.Name } `xml:",any"`
		} `xml:"DAV: privilege"`
	} `xml:"DAV: current-user-privilege-set"`
	Principal    hrefs  `xml:"DAV: current-user-principal"`
	CalendarHome hrefs  `xml:"urn:ietf:params:xml:ns:caldav calendar-home-set"`
	ContactsHome hrefs  `xml:"urn:ietf:params:xml:ns:carddav addressbook-home-set"`
	Addresses    hrefs  `xml:"urn:ietf:params:xml:ns:caldav calendar-user-address-set"`
	Outbox       hrefs  `xml:"urn:ietf:params:xml:ns:caldav schedule-outbox-URL"`
	Calendar     string `xml:"urn:ietf:params:xml:ns:caldav calendar-data"`
	Card         string `xml:"urn:ietf:params:xml:ns:carddav address-data"`
}

const propfind = `<d:propfind xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav" xmlns:a="urn:ietf:params:xml:ns:carddav"><d:prop><d:displayname/><d:resourcetype/>` +
	`<c:supported-calendar-component-set/><d:current-user-privilege-set/><d:current-user-principal/><c:calendar-home-set/><a:addressbook-home-set/>` +
	`<c:calendar-user-address-set/><c:schedule-outbox-URL/></d:prop></d:propfind>`

// Collection is a calendar, a to-do list or an address book.
type Collection struct {
	Account   string
	Name      string // ACCOUNT/NAME, as people see it
	Only      bool   // it holds nothing else than its kind
	Write     bool
	Addresses []string // the e-mail addresses of the user
	Sends     bool     // the server sends invitations (RFC 6638)

	client *client
	url    *url.URL
}

// isCollection reports whether a resource is a collection of a kind.
func (p properties) isCollection(kind string) bool {
	if kind == Contacts {
		return p.Type.Contacts != nil
	}
	if p.Type.Calendar == nil || p.Holds == nil || len(p.Holds.List) == 0 {
		return p.Type.Calendar != nil
	}
	for _, c := range p.Holds.List {
		if strings.EqualFold(c.Name, kind) {
			return true
		}
	}
	return false
}

// writable reports whether new objects are taken. Servers that do not say so are asked by writing.
func (p properties) writable() bool {
	if p.Rights == nil {
		return true
	}
	for _, r := range p.Rights.List {
		for _, name := range r.Any {
			if slices.Contains([]string{"all", "write", "write-content", "bind"}, name.XMLName.Local) {
				return true
			}
		}
	}
	return false
}

// collections finds the collections of a kind, from whatever the account's URL names (RFC 6764): one of
// them, the user's home, or the server.
func (c *client) collections(ctx context.Context, kind string) ([]Collection, error) {
	well := map[bool]string{true: "/.well-known/carddav", false: "/.well-known/caldav"}[kind == Contacts]
	start, err := c.multistatus(ctx, "PROPFIND", c.root, "0", propfind)
	if c.root.Path == "/" && (len(start) == 0 || len(start[0].Principal.List) == 0) && !fault.Is(err, fault.Unauthentic) {
		at, _ := c.root.Parse(well) //nolint:errcheck // it is a valid path
		if other, otherErr := c.multistatus(ctx, "PROPFIND", at, "0", propfind); otherErr == nil {
			start, err = other, nil
		} else {
			err = cmp.Or(err, otherErr)
		}
	}
	if err != nil {
		return nil, err
	}
	known := start
	if principals := all(start, func(p properties) hrefs { return p.Principal }); len(principals) > 0 {
		at, err := c.resolve(c.root, principals[0])
		if err != nil {
			return nil, err
		}
		if more, err := c.multistatus(ctx, "PROPFIND", at, "0", propfind); err == nil {
			known = append(known, more...)
		} else if ctx.Err() != nil || fault.Is(err, fault.Unauthentic) {
			return nil, err
		}
	}
	found := start
	if !slices.ContainsFunc(known, func(r resource) bool { return r.isCollection(kind) }) {
		homes := all(known, func(p properties) hrefs {
			return map[bool]hrefs{true: p.ContactsHome, false: p.CalendarHome}[kind == Contacts]
		})
		if len(homes) == 0 {
			homes = []string{c.root.Path} // a home of a server that knows no principals
		}
		found = nil
		for _, home := range homes[:min(len(homes), 5)] {
			at, err := c.resolve(c.root, home)
			if err != nil {
				return nil, err
			}
			in, err := c.multistatus(ctx, "PROPFIND", at, "1", propfind)
			if err != nil {
				return nil, err
			}
			found = append(found, in...)
		}
	}
	return c.chosen(found, kind, known)
}

// all returns the addresses of a kind that the answers give.
func all(answers []resource, of func(properties) hrefs) (out []string) {
	for _, r := range answers {
		out = append(out, of(r.properties).List...)
	}
	return out
}

func (c *client) chosen(found []resource, kind string, known []resource) (out []Collection, err error) {
	own := []string{}
	if c.Address != "" {
		own = append(own, strings.ToLower(c.Address))
	}
	for _, a := range append(all(known, func(p properties) hrefs { return p.Addresses }), "mailto:"+c.User) {
		if rest, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(a)), "mailto:"); ok && strings.Contains(rest, "@") && !slices.Contains(own, rest) {
			own = append(own, rest)
		}
	}
	sends := len(all(known, func(p properties) hrefs { return p.Outbox })) > 0
	for _, r := range found {
		if len(out) == maxCollections {
			break
		}
		if !r.isCollection(kind) || slices.ContainsFunc(out, func(o Collection) bool { return o.url.String() == r.url.String() }) {
			continue
		}
		base := strings.Trim(r.url.Path, "/")
		name := cmp.Or(strings.Join(strings.Fields(r.Name), " "), base[strings.LastIndexByte(base, '/')+1:])
		out = append(out, Collection{Account: c.Name, Name: c.Name + "/" + name, Only: r.Holds != nil && len(r.Holds.List) == 1, Write: r.writable(),
			Addresses: own, Sends: sends, client: c, url: r.url})
	}
	if len(out) == 0 {
		what := map[string]string{Events: "calendar", Tasks: "to-do list", Contacts: "address book"}[kind]
		return nil, tool.NotDone(fault.New(fault.NotFound, "dav_nothing_found", "the account %s has no %s", c.Name, what).WithHint("check %s.url, or create one on the server", c.Setting))
	}
	return out, nil
}

// Accounts are those of the settings.
type Accounts struct {
	List      []Account
	Transport http.RoundTripper                                        // connects only where it is allowed; see egress.Dialer
	Groups    func(ctx context.Context, user string) ([]string, error) // nil: users have no groups
}

// of returns a user's accounts.
func (as Accounts) of(ctx context.Context, user string) ([]Account, error) {
	return local.Own(ctx, user, as.Groups, as.List, Account.Owner)
}

// Has reports whether a user has an account.
func (as Accounts) Has(ctx context.Context, user string) (bool, error) {
	own, err := as.of(ctx, user)
	return len(own) > 0, err
}

// Check logs in at an account, and returns the names of its collections.
func (as Accounts) Check(ctx context.Context, a Account, kind string) (names []string, err error) {
	c, err := open(a, as.Transport)
	if err != nil {
		return nil, err
	}
	found, err := c.collections(ctx, kind)
	for _, f := range found {
		names = append(names, f.Name)
	}
	return names, err
}

// Find returns a user's collections of a kind: all, or those that a name means (an account's, a
// collection's, or both with a slash). problems describes the accounts that do not answer, if others do.
// Error code: collection_unknown.
func (as Accounts) Find(ctx context.Context, user, kind, name string) (found []Collection, problems []string, err error) {
	own, err := as.of(ctx, user)
	if err != nil {
		return nil, nil, err
	}
	var all []Collection
	var errs []error
	for _, a := range own {
		var of []Collection
		c, err := open(a, as.Transport)
		if err == nil {
			of, err = c.collections(ctx, kind)
		}
		if err != nil {
			errs, problems = append(errs, err), append(problems, fault.Of(err).Message)
		}
		all = append(all, of...)
	}
	if len(all) == 0 && len(errs) > 0 {
		return nil, nil, tool.NotDone(errs[0])
	}
	for _, c := range all {
		if _, short, _ := strings.Cut(c.Name, "/"); name == "" || strings.EqualFold(name, c.Name) || strings.EqualFold(name, c.Account) || strings.EqualFold(name, short) {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		var names []string
		for _, c := range all {
			names = append(names, c.Name)
		}
		return nil, nil, tool.NotDone(fault.New(fault.NotFound, "collection_unknown", "there is no %.100q", name).WithHint("there are %s", cmp.Or(strings.Join(names, ", "), "none")))
	}
	return found, problems, nil
}

// ForNew returns the collection that takes a new object: one that holds nothing else, or else the first.
// Error code: dav_denied.
func ForNew(all []Collection) (Collection, error) {
	for _, pick := range []func(Collection) bool{func(c Collection) bool { return c.Write && c.Only }, func(c Collection) bool { return c.Write }} {
		if i := slices.IndexFunc(all, pick); i >= 0 {
			return all[i], nil
		}
	}
	return Collection{}, tool.NotDone(fault.New(fault.Denied, "dav_denied", "it is read-only, so nothing can be added").WithHint("choose another one"))
}

// New returns the place of a new object. The name derives from the key of a call, so that a repeated call
// finds what the first one has made.
func (c Collection) New(name, text string) Object {
	return Object{Account: c.Account, URL: c.url.JoinPath(name).String(), Text: text}
}

// Query returns the objects that a REPORT finds.
func (c Collection) Query(ctx context.Context, report string) ([]Object, error) {
	all, err := c.client.multistatus(ctx, "REPORT", c.url, "1", report)
	if err != nil {
		return nil, err
	}
	var out []Object
	for _, r := range all {
		if text := r.Calendar + r.Card; text != "" && r.ETag != "" {
			out = append(out, Object{c.Account, r.url.String(), r.ETag, text})
		}
	}
	return out, nil
}
