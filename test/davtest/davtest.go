// Package davtest is a server for calendars, to-do lists and address books in tests: the server side of
// github.com/emersion/go-webdav over memory, with passwords, preconditions of changes, and the
// properties of a server that sends invitations (RFC 6638).
package davtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-ical"
	"github.com/emersion/go-vcard"
	"github.com/emersion/go-webdav"
	"github.com/emersion/go-webdav/caldav"
	"github.com/emersion/go-webdav/carddav"
)

// The user of the server, and the user's address.
const (
	User     = "ann"
	Password = "secret of ann"
	Address  = "ann@example.com"
)

// Secret returns the password.
func Secret(context.Context) (string, error) { return Password, nil }

// The collections.
const (
	Home   = "/cal/ann/all/home/"
	Work   = "/cal/ann/all/work/"
	Tasks  = "/cal/ann/all/tasks/"
	People = "/card/ann/all/people/"
)

// Server is a running server.
type Server struct {
	URL string
	// Before is called with each request that has the right password. It may change what there is, or
	// return a status that is answered.
	Before func(r *http.Request) int
	// Lose makes the server drop the connection after it has done a change.
	Lose atomic.Bool

	tb      testing.TB
	mu      sync.Mutex
	texts   map[string]string // path to text
	changes []string
}

// Start starts a server, which ends with the test.
func Start(tb testing.TB) *Server {
	s := &Server{tb: tb, texts: map[string]string{}}
	cal, card := &caldav.Handler{Backend: events{s}, Prefix: "/cal"}, &carddav.Handler{Backend: cards{s}, Prefix: "/card"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, pass, _ := r.BasicAuth(); user != User || pass != Password {
			w.Header().Set("WWW-Authenticate", `Basic realm="dav"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		if s.Before != nil {
			if status := s.Before(r); status != 0 {
				http.Error(w, "as the test wants it", status)
				return
			}
		}
		if !s.precondition(r) {
			http.Error(w, "it has changed", http.StatusPreconditionFailed)
			return
		}
		rec := httptest.NewRecorder()
		var body bytes.Buffer
		r.Body = io.NopCloser(io.TeeReader(r.Body, &body))
		if strings.HasPrefix(r.URL.Path, "/card") || strings.HasSuffix(r.URL.Path, "/carddav") {
			card.ServeHTTP(rec, r)
			if r.Method == http.MethodPut && rec.Code < 300 { // the package writes some characters otherwise
				s.Put(r.URL.Path, body.String())
			}
		} else {
			cal.ServeHTTP(rec, r)
		}
		change := r.Method == http.MethodPut || r.Method == http.MethodDelete
		if change {
			s.mu.Lock()
			s.changes = append(s.changes, r.Method+" "+r.URL.Path)
			s.mu.Unlock()
		}
		if change && s.Lose.Load() {
			panic(http.ErrAbortHandler)
		}
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(rec.Code)
		w.Write(scheduling(r, rec.Body.Bytes())) //nolint:errcheck // the client may be gone
	}))
	tb.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// scheduling adds the properties of a principal whose server sends invitations.
func scheduling(r *http.Request, body []byte) []byte {
	if r.Method != "PROPFIND" || r.URL.Path != "/cal/ann/" {
		return body
	}
	return bytes.Replace(body, []byte("</response>"), []byte(`<propstat xmlns="DAV:"><prop><calendar-user-address-set xmlns="urn:ietf:params:xml:ns:caldav"><href xmlns="DAV:">mailto:`+Address+`</href></calendar-user-address-set>`+
		`<schedule-outbox-URL xmlns="urn:ietf:params:xml:ns:caldav"><href xmlns="DAV:">/cal/ann/outbox/</href></schedule-outbox-URL></prop><status>HTTP/1.1 200 OK</status></propstat></response>`), 1)
}

func (s *Server) precondition(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.texts[r.URL.Path]
	if m := r.Header.Get("If-Match"); m != "" && (!ok || m != `"`+etag(text)+`"`) {
		return false
	}
	return r.Header.Get("If-None-Match") != "*" || !ok
}

func etag(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16] }

// Put writes an object, as another program does.
func (s *Server) Put(at, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[at] = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
}

// Remove removes an object, as another program does.
func (s *Server) Remove(at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.texts, at)
}

// In returns the texts of a collection, in the order of their paths.
func (s *Server) In(collection string) (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.below(collection) {
		texts = append(texts, s.texts[at])
	}
	return texts
}

// Changes returns the requests that have changed something: methods and paths.
func (s *Server) Changes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes)
}

func (s *Server) below(collection string) (paths []string) {
	for at := range s.texts {
		if strings.HasPrefix(at, collection) {
			paths = append(paths, at)
		}
	}
	slices.Sort(paths)
	return paths
}

func (s *Server) list(collection string) (paths, texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.below(collection) {
		paths, texts = append(paths, at), append(texts, s.texts[at])
	}
	return paths, texts
}

func (s *Server) one(at string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.texts[at]
	if !ok {
		return "", webdav.NewHTTPError(http.StatusNotFound, fmt.Errorf("there is no %s", at))
	}
	return text, nil
}

// events is the backend of calendars. What it does not have is not used by Steward.
type events struct{ *Server }

func (events) CurrentUserPrincipal(context.Context) (string, error) { return "/cal/ann/", nil }
func (events) CalendarHomeSetPath(context.Context) (string, error)  { return "/cal/ann/all/", nil }
func (events) CreateCalendar(context.Context, *caldav.Calendar) error {
	return webdav.NewHTTPError(http.StatusForbidden, nil)
}
func (events) ListCalendars(context.Context) ([]caldav.Calendar, error) {
	return []caldav.Calendar{{Path: Home, Name: "Home", SupportedComponentSet: []string{"VEVENT"}}, {Path: Work, Name: "Work", SupportedComponentSet: []string{"VEVENT"}},
		{Path: Tasks, Name: "Tasks", SupportedComponentSet: []string{"VTODO"}}}, nil
}

func (e events) GetCalendar(ctx context.Context, at string) (*caldav.Calendar, error) {
	all, err := e.ListCalendars(ctx)
	for _, c := range all {
		if c.Path == path.Clean(at)+"/" {
			return &c, nil
		}
	}
	return nil, webdav.NewHTTPError(http.StatusNotFound, err)
}

func object(at, text string) (*caldav.CalendarObject, error) {
	cal, err := ical.NewDecoder(strings.NewReader(text)).Decode()
	return &caldav.CalendarObject{Path: at, ETag: etag(text), Data: cal}, err
}

func (e events) GetCalendarObject(_ context.Context, at string, _ *caldav.CalendarCompRequest) (*caldav.CalendarObject, error) {
	text, err := e.one(at)
	if err != nil {
		return nil, err
	}
	return object(at, text)
}

func (e events) ListCalendarObjects(_ context.Context, at string, _ *caldav.CalendarCompRequest) (all []caldav.CalendarObject, err error) {
	paths, texts := e.list(at)
	for i := range paths {
		o, err := object(paths[i], texts[i])
		if err != nil {
			return nil, err
		}
		all = append(all, *o)
	}
	return all, nil
}

func (e events) QueryCalendarObjects(ctx context.Context, at string, q *caldav.CalendarQuery) ([]caldav.CalendarObject, error) {
	all, err := e.ListCalendarObjects(ctx, at, nil)
	if err != nil {
		return nil, err
	}
	return caldav.Filter(q, all)
}

func (e events) PutCalendarObject(_ context.Context, at string, cal *ical.Calendar, _ *caldav.PutCalendarObjectOptions) (*caldav.CalendarObject, error) {
	if _, _, err := caldav.ValidateCalendarObject(cal); err != nil {
		return nil, webdav.NewHTTPError(http.StatusForbidden, err)
	}
	var b bytes.Buffer
	if err := ical.NewEncoder(&b).Encode(cal); err != nil {
		return nil, err
	}
	e.Put(at, b.String())
	return object(at, b.String())
}

func (e events) DeleteCalendarObject(_ context.Context, at string) error {
	_, err := e.one(at)
	e.Remove(at)
	return err
}

// cards is the backend of address books.
type cards struct{ *Server }

func (cards) CurrentUserPrincipal(context.Context) (string, error)   { return "/card/ann/", nil }
func (cards) AddressBookHomeSetPath(context.Context) (string, error) { return "/card/ann/all/", nil }
func (cards) CreateAddressBook(context.Context, *carddav.AddressBook) error {
	return webdav.NewHTTPError(http.StatusForbidden, nil)
}
func (cards) DeleteAddressBook(context.Context, string) error {
	return webdav.NewHTTPError(http.StatusForbidden, nil)
}
func (cards) ListAddressBooks(context.Context) ([]carddav.AddressBook, error) {
	return []carddav.AddressBook{{Path: People, Name: "People"}}, nil
}
func (cards) GetAddressBook(context.Context, string) (*carddav.AddressBook, error) {
	return &carddav.AddressBook{Path: People, Name: "People"}, nil
}

func card(at, text string) (*carddav.AddressObject, error) {
	c, err := vcard.NewDecoder(strings.NewReader(text)).Decode()
	return &carddav.AddressObject{Path: at, ETag: etag(text), Card: c}, err
}

func (c cards) GetAddressObject(_ context.Context, at string, _ *carddav.AddressDataRequest) (*carddav.AddressObject, error) {
	text, err := c.one(at)
	if err != nil {
		return nil, err
	}
	return card(at, text)
}

func (c cards) ListAddressObjects(_ context.Context, at string, _ *carddav.AddressDataRequest) (all []carddav.AddressObject, err error) {
	paths, texts := c.list(at)
	for i := range paths {
		o, err := card(paths[i], texts[i])
		if err != nil {
			return nil, err
		}
		all = append(all, *o)
	}
	return all, nil
}

func (c cards) QueryAddressObjects(ctx context.Context, at string, q *carddav.AddressBookQuery) ([]carddav.AddressObject, error) {
	all, err := c.ListAddressObjects(ctx, at, nil)
	return slices.DeleteFunc(all, func(o carddav.AddressObject) bool { return !matches(o.Card, q.PropFilters) }), err
}

// matches compares without regard to case (RFC 6352, section 8.3), in all fields, which carddav.Filter does
// not.
func matches(c vcard.Card, filters []carddav.PropFilter) bool {
	for _, f := range filters {
		for _, field := range c[f.Name] {
			if strings.Contains(strings.ToLower(field.Value), strings.ToLower(f.TextMatches[0].Text)) {
				return true
			}
		}
	}
	return false
}

func (cards) PutAddressObject(_ context.Context, at string, v vcard.Card, _ *carddav.PutAddressObjectOptions) (*carddav.AddressObject, error) {
	return &carddav.AddressObject{Path: at, Card: v}, nil
}

func (c cards) DeleteAddressObject(_ context.Context, at string) error {
	_, err := c.one(at)
	c.Remove(at)
	return err
}
