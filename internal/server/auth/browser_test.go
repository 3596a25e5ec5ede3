package auth_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/server/auth"
)

// sessions maps secrets of cookies to users.
type sessions map[string]string

func (s sessions) AuthenticateSession(_ context.Context, secret string) (identity.Session, error) {
	if user, ok := s[secret]; ok {
		return identity.Session{User: user}, nil
	}
	return identity.Session{}, fault.New(fault.Unauthentic, "session_ended", "the session has ended")
}

// Only our own page, and a person who follows a link to us, get through; and only with a session as somebody.
func TestBrowserGuard(t *testing.T) {
	own := auth.New(auth.Options{Origins: []string{"https://app.example"}})
	s := httptest.NewServer(own.Browser(sessions{"s1": "ana"}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := auth.From(r.Context())
		if err != nil {
			io.WriteString(w, "nobody")
			return
		}
		io.WriteString(w, c.User)
	}), func(w http.ResponseWriter, r *http.Request, err error) {
		w.WriteHeader(403)
		io.WriteString(w, fault.Of(err).Code)
	}))
	defer s.Close()
	here := s.URL
	cookie := "Cookie: steward_" + here[strings.LastIndexByte(here, ':')+1:] + "=s1"
	const json = "Content-Type: application/json"
	for _, c := range []struct {
		name, method, want string
		headers            []string
	}{
		{"a person opens the page", "GET", "ana", []string{cookie, "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"}},
		{"a link on another site opens it", "GET", "ana", []string{cookie, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}},
		{"a program without headers", "GET", "ana", []string{cookie}},
		{"without a cookie", "GET", "nobody", nil},
		{"a wrong cookie", "GET", "nobody", []string{strings.Replace(cookie, "s1", "s2", 1)}},
		{"the cookie of another port", "GET", "nobody", []string{"Cookie: steward_1=s1"}},
		{"our page asks", "GET", "ana", []string{cookie, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"}},
		{"our page acts", "POST", "ana", []string{cookie, json, "Sec-Fetch-Site: same-origin", "Origin: " + here}},
		{"our page in a browser that says less", "POST", "ana", []string{cookie, json, "Origin: " + here}},

		{"an image or script of another site", "GET", "origin_refused", []string{cookie, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}},
		{"a request of another port of this host", "GET", "origin_refused", []string{cookie, "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors", "Origin: http://127.0.0.1:1"}},
		{"another site acts", "POST", "origin_refused", []string{cookie, json, "Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}},
		{"an origin that may call the API acts", "POST", "origin_refused", []string{cookie, json, "Origin: https://app.example"}},
		{"another origin that claims to be ours", "POST", "origin_refused", []string{cookie, json, "Sec-Fetch-Site: same-origin", "Origin: https://evil.example"}},
		{"a navigation that acts", "POST", "origin_refused", []string{cookie, json, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}},
		{"an act that nobody answers for", "POST", "origin_refused", []string{cookie, json}},
		{"an opaque origin", "POST", "origin_refused", []string{cookie, json, "Origin: null"}},
		{"a form of our own origin", "POST", "media_type", []string{cookie, "Content-Type: application/x-www-form-urlencoded", "Sec-Fetch-Site: same-origin", "Origin: " + here}},
		{"a file of our own page", "POST", "ana", []string{cookie, "Content-Type: application/octet-stream", "Sec-Fetch-Site: same-origin", "Origin: " + here}},
		{"a file of another page", "POST", "origin_refused", []string{cookie, "Content-Type: application/octet-stream", "Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), c.method, here+"/x", nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range c.headers {
				name, value, _ := strings.Cut(h, ": ")
				r.Header.Set(name, value)
			}
			res, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if b, _ := io.ReadAll(res.Body); string(b) != c.want {
				t.Errorf("%s, want %s", b, c.want)
			}
		})
	}
	r, _ := http.NewRequestWithContext(t.Context(), "GET", here, nil)
	r.Host = "evil.example" // a name that somebody points at this machine
	r.Header.Set("Cookie", strings.TrimPrefix(cookie, "Cookie: "))
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); string(b) != "host_refused" {
		t.Errorf("%s", b)
	}
}
