package dav_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/tools/dav"
	"steward/test/davtest"
)

func accounts(url string) dav.Accounts {
	return dav.Accounts{Transport: http.DefaultTransport, List: []dav.Account{{Setting: "calendars.x", Name: "x", URL: url, User: davtest.User, Secret: davtest.Secret}}}
}

// What the address of an account may be: the server, the principal, the home, or one collection.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	s := davtest.Start(t)
	for _, c := range []struct{ path, kind, want string }{
		{"", dav.Events, "x/Home x/Work"}, {"/", dav.Tasks, "x/Tasks"}, {"/cal/ann/", dav.Events, "x/Home x/Work"}, {"/cal/ann/all/", dav.Events, "x/Home x/Work"},
		{davtest.Work, dav.Events, "x/Work"}, {"/.well-known/caldav", dav.Events, "x/Home x/Work"}, {"/card/", dav.Contacts, "x/People"},
		{"/.well-known/carddav", dav.Contacts, "x/People"}, {davtest.People, dav.Contacts, "x/People"},
	} {
		as := accounts(s.URL + c.path)
		got, err := as.Check(t.Context(), as.List[0], c.kind)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q %s: %q %v", c.path, c.kind, got, err)
		}
	}
	as := accounts(s.URL)
	as.List[0].Secret = func(context.Context) (string, error) { return "wrong", nil }
	if _, err := as.Check(t.Context(), as.List[0], dav.Events); !fault.HasCode(err, "dav_login_refused") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("%v", err)
	}
	for url, code := range map[string]string{"http://dav.example.com/": "dav_tls_required", "dav.example.com": "dav_url_invalid", "https://ann:x@dav.example.com/": "dav_url_invalid", s.URL + "/nothing": "dav_nothing_found"} {
		as := accounts(url)
		if _, err := as.Check(t.Context(), as.List[0], dav.Events); !fault.HasCode(err, code) {
			t.Errorf("%s: %v, want %s", url, err, code)
		}
	}
}

// trap is a server that must not be reached.
func trap(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the trap was reached: %s %s, with a password: %v", r.Method, r.URL, r.Header.Get("Authorization") != "")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// The password goes nowhere else, whether a server redirects or names another one in its answer.
func TestServersThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere := trap(t)
	for name, handle := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere+"/", http.StatusPermanentRedirect)
		},
		"metadata": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		},
		"principal": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusMultiStatus)
			fmt.Fprintf(w, `<multistatus xmlns="DAV:"><response><href>/</href><propstat><prop><current-user-principal><href>%s/me</href></current-user-principal></prop><status>HTTP/1.1 200 OK</status></propstat></response></multistatus>`, elsewhere)
		},
		"href": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusMultiStatus)
			fmt.Fprintf(w, `<multistatus xmlns="DAV:"><response><href>%s/home/</href><propstat><prop><resourcetype><calendar xmlns="urn:ietf:params:xml:ns:caldav"/></resourcetype></prop><status>HTTP/1.1 200 OK</status></propstat></response></multistatus>`, elsewhere)
		},
	} {
		s := httptest.NewServer(handle)
		t.Cleanup(s.Close)
		as := accounts(s.URL + "/dav/")
		if _, err := as.Check(t.Context(), as.List[0], dav.Events); !fault.HasCode(err, "dav_foreign_address") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An address of the settings that is internal is not reached through a name.
	rule, err := egress.Public()
	if err != nil {
		t.Fatal(err)
	}
	as := accounts(elsewhere)
	as.Transport = egress.Dialer{Rule: rule}.Transport()
	if _, err := as.Check(t.Context(), as.List[0], dav.Events); !fault.HasCode(err, "network_denied") {
		t.Errorf("%v", err)
	}
	loop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
	}))
	t.Cleanup(loop.Close)
	as = accounts(loop.URL + "/dav")
	if _, err := as.Check(t.Context(), as.List[0], dav.Events); !fault.HasCode(err, "dav_answer_invalid") {
		t.Errorf("%v", err)
	}
}

// An account of very many calendars does not keep Steward busy: the first ones count.
func TestManyCollections(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusMultiStatus)
		fmt.Fprint(w, `<multistatus xmlns="DAV:">`)
		for i := range 20_000 {
			fmt.Fprintf(w, `<response><href>/%d/</href><propstat><prop><resourcetype><calendar xmlns="urn:ietf:params:xml:ns:caldav"/></resourcetype></prop><status>HTTP/1.1 200 OK</status></propstat></response>`, i)
		}
		fmt.Fprint(w, `</multistatus>`)
	}))
	t.Cleanup(s.Close)
	as := accounts(s.URL + "/dav/")
	if got, err := as.Check(t.Context(), as.List[0], dav.Events); err != nil || len(got) != 50 {
		t.Errorf("%d, %v", len(got), err)
	}
}

// Whatever a server answers, reading it ends, with an error that says what is wrong.
func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, code string
		status     int
	}{
		"a page":      {"<!doctype html><p>Welcome", "dav_answer_invalid", 200},
		"half an XML": {`<multistatus xmlns="DAV:"><response>`, "dav_answer_invalid", 207},
		"11 MB":       {strings.Repeat(" ", 11<<20), "dav_too_large", 207},
		"deep XML":    {strings.Repeat("<a>", 1<<20), "dav_answer_invalid", 207},
		"bytes":       {"\x00\xff\xfe<", "dav_answer_invalid", 207},
		"nothing":     {`<multistatus xmlns="DAV:"/>`, "dav_nothing_found", 207},
		"an error":    {"oh no", "dav_unavailable", 500},
		"forbidden":   {"no", "dav_denied", 403},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		t.Cleanup(s.Close)
		as := accounts(s.URL + "/dav/")
		_, err := as.Check(t.Context(), as.List[0], dav.Events)
		if !fault.HasCode(err, c.code) || len(err.Error()) > 1000 {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	a := "BEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\nATTENDEE;PARTSTAT=ACCEPTED;CN=Bob:mailto:bob@example.org\r\nSUMMARY:A long \r\n one\r\nBEGIN:VALARM\r\nDESCRIPTION:x\r\nEND:VALARM\r\nEND:VEVENT\r\n"
	b := "BEGIN:VEVENT\nATTENDEE;SCHEDULE-STATUS=1.1;PARTSTAT=accepted:MAILTO:Bob@example.org\nSUMMARY:A long one\nDTSTAMP:20270101T000000Z\nUID:1\nEND:VEVENT\n"
	if !dav.Same(a, b) || !dav.Same("", "") || dav.Same(a, "") || dav.Same(a, strings.Replace(a, "ACCEPTED", "DECLINED", 1)) || dav.Same(a, strings.Replace(a, "long", "short", 1)) {
		t.Error("what counts is compared, and nothing else")
	}
}

// A VTIMEZONE has the offsets of its zone, also in the southern hemisphere and where the clocks never
// change.
func TestZone(t *testing.T) {
	t.Parallel()
	for name, wants := range map[string][]string{
		"Europe/Vienna":    {"BEGIN:DAYLIGHT\r\nDTSTART:20260329T020000\r\nTZOFFSETFROM:+0100\r\nTZOFFSETTO:+0200\r\nTZNAME:CEST\r\nEND:DAYLIGHT", "DTSTART:20261025T030000\r\nTZOFFSETFROM:+0200\r\nTZOFFSETTO:+0100"},
		"Australia/Sydney": {"BEGIN:STANDARD\r\nDTSTART:20260405T030000\r\nTZOFFSETFROM:+1100\r\nTZOFFSETTO:+1000"},
		"Asia/Kolkata":     {"TZOFFSETTO:+0530"},
	} {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		got := dav.Zone(loc, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC))
		for _, want := range append(wants, "TZID:"+name+"\r\n") {
			if !strings.Contains(got, want) || len(got) > 4000 {
				t.Errorf("%s lacks %q:\n%s", name, want, got)
			}
		}
	}
}
