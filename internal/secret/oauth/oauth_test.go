package oauth_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/oauth2"

	"steward/internal/fault"
	"steward/internal/secret"
	"steward/internal/secret/oauth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an authorization server: the requests and answers of RFC 6749, 7636 and 8628.
type server struct {
	*httptest.Server
	mu        sync.Mutex
	challenge string
	redirect  string
	pending   int    // how often the device flow is still pending
	refuse    string // the error of each request for a token
	refreshes int
	valid     string // the refresh token that is valid
}

func newServer(t *testing.T) *server {
	s := &server{valid: "refresh-0"}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /device", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"device_code":"dev","user_code":"ABCD-EFGH","verification_uri":"https://vendor.example/device","expires_in":60,"interval":1}`)
	})
	mux.HandleFunc("POST /token", s.token)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != "steward-desktop" || q.Get("code_challenge_method") != "S256" || q.Get("scope") != "mail.all offline" || q.Get("prompt") != "consent" {
		http.Error(w, "bad request: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.challenge, s.redirect = q.Get("code_challenge"), q.Get("redirect_uri")
	s.mu.Unlock()
	http.Redirect(w, r, s.redirect+"/?"+url.Values{"code": {"the-code"}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (s *server) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fail := func(code string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":%q,"error_description":"secret-detail"}`, code)
	}
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	switch grant := r.FormValue("grant_type"); {
	case s.refuse != "":
		fail(s.refuse)
	case grant == "authorization_code" && (r.FormValue("code") != "the-code" || r.FormValue("redirect_uri") != s.redirect ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != s.challenge):
		fail("invalid_grant")
	case strings.HasSuffix(grant, "device_code") && s.pending > 0:
		s.pending--
		fail("authorization_pending")
	case grant == "refresh_token" && r.FormValue("refresh_token") != s.valid:
		fail("invalid_grant")
	default:
		if grant == "refresh_token" {
			s.refreshes++
			s.valid = fmt.Sprintf("refresh-%d", s.refreshes)
		}
		fmt.Fprintf(w, `{"access_token":"access-token-%d","token_type":"Bearer","refresh_token":%q,"expires_in":3600}`, s.refreshes, s.valid)
	}
}

func (s *server) service() oauth.Service {
	return oauth.Service{Name: "vendor", ClientID: "steward-desktop", AuthURL: s.URL + "/authorize", TokenURL: s.URL + "/token", DeviceURL: s.URL + "/device",
		Uses: map[string][]string{oauth.Mail: {"offline", "mail.all"}}, Params: map[string]string{"prompt": "consent"}, HTTP: s.Client()}
}

// browse opens a URL as a browser does, and returns the last page.
func browse(t *testing.T, at string) string {
	t.Helper()
	resp, err := http.Get(at)
	if err != nil {
		t.Error(err)
		return ""
	}
	b, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return string(b)
}

func TestBrowser(t *testing.T) {
	s := newServer(t)
	for _, localhost := range []bool{false, true} {
		service := s.service()
		service.Localhost = localhost
		var wg sync.WaitGroup
		token, err := service.Consent(t.Context(), false, func(at, _ string) {
			wg.Go(func() {
				if page := browse(t, at); !strings.Contains(page, "close this page") {
					t.Errorf("the page says %q", page)
				}
			})
		}, oauth.Mail)
		wg.Wait()
		if err != nil || token.RefreshToken != "refresh-0" || strings.Contains(s.redirect, "localhost") != localhost {
			t.Errorf("%+v, %v, %s", token, err, s.redirect)
		}
	}
}

// Answers with another state are ignored, whoever sends them.
func TestAnswersOfOthers(t *testing.T) {
	back, err := oauth.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, path := range []string{"/favicon.ico", "/?code=x", "/?code=forged&state=other", "/?code=right&state=mine"} {
			browse(t, back.URL+path)
		}
	})
	q, err := back.Wait(t.Context(), "mine", nil)
	wg.Wait()
	if err != nil || q.Get("code") != "right" {
		t.Error(q, err)
	}
	wg.Go(func() { browse(t, back.URL+"/?error=access_denied&state=mine") })
	if _, err := back.Wait(t.Context(), "mine", nil); !fault.HasCode(err, "oauth_refused") {
		t.Error(err)
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := back.Wait(ctx, "mine", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestDevice(t *testing.T) {
	s := newServer(t)
	s.pending = 1
	var shown string
	token, err := s.service().Consent(t.Context(), true, func(at, code string) { shown = at + " " + code }, oauth.Mail)
	if err != nil || token.RefreshToken != "refresh-0" || shown != "https://vendor.example/device ABCD-EFGH" {
		t.Errorf("%+v, %v, %s", token, err, shown)
	}
	s.refuse = "access_denied"
	if _, err := s.service().Consent(t.Context(), true, func(string, string) {}, oauth.Mail); !fault.HasCode(err, "oauth_refused") || strings.Contains(err.Error(), "secret-detail") {
		t.Error(err)
	}
	google, _ := oauth.Preset("google")
	google.ClientID = "x"
	if _, err := google.Consent(t.Context(), true, nil, oauth.Mail); !fault.HasCode(err, "oauth_device_unsupported") {
		t.Error(err)
	}
}

func TestWhatIsMissing(t *testing.T) {
	google, known := oauth.Preset("google")
	microsoft, _ := oauth.Preset("microsoft")
	other, unknown := oauth.Preset("other")
	if !known || unknown {
		t.Error(known, unknown)
	}
	microsoft.ClientID, other.ClientID = "x", "x"
	for want, err := range map[string]error{
		"oauth_client_missing":     google.Check(oauth.Mail),
		"oauth_service_incomplete": other.Check(oauth.Mail),
		"oauth_use_unknown":        microsoft.Check(oauth.Mail, oauth.Contacts),
	} {
		if !fault.HasCode(err, want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := google.Consent(t.Context(), false, nil, oauth.Mail); !fault.HasCode(err, "oauth_client_missing") {
		t.Error(err)
	}
}

func account(t *testing.T, s *server, expiry time.Time) *oauth.Account {
	t.Helper()
	store := secret.NewStore(t.TempDir())
	if err := oauth.Save(store, "work", &oauth2.Token{AccessToken: "access-token-old", RefreshToken: "refresh-0", Expiry: expiry}); err != nil {
		t.Fatal(err)
	}
	return &oauth.Account{Name: "work", Service: s.service(), Store: store}
}

// Many at once refresh a token once, keep the new refresh token, and do so again after a restart.
func TestTokensAreRefreshedOnce(t *testing.T) {
	s := newServer(t)
	a := account(t, s, time.Now().Add(-time.Hour))
	var learned []string
	a.Learn = func(_, value string) error { learned = append(learned, value); return nil }
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := a.Token(t.Context()); got != "access-token-1" || err != nil {
				t.Error(got, err)
			}
		})
	}
	wg.Wait()
	if s.refreshes != 1 || strings.Join(learned, " ") != "access-token-1" {
		t.Error(s.refreshes, learned)
	}
	text, err := a.Store.Get(oauth.SecretName("work"))
	var kept oauth2.Token
	if err != nil || json.Unmarshal([]byte(text), &kept) != nil || kept.RefreshToken != "refresh-1" {
		t.Errorf("%s, %v", text, err)
	}
	restarted := &oauth.Account{Name: "work", Service: s.service(), Store: a.Store}
	if got, err := restarted.Token(t.Context()); got != "access-token-1" || err != nil || s.refreshes != 1 {
		t.Error(got, err, s.refreshes)
	}
}

func TestTokensThatCannotBeHad(t *testing.T) {
	s := newServer(t)
	for want, change := range map[string]func(*oauth.Account){
		"oauth_not_connected": func(a *oauth.Account) { a.Name = "other" },
		"oauth_expired":       func(a *oauth.Account) { s.refuse = "invalid_grant" },
		"oauth_failed":        func(a *oauth.Account) { s.refuse = "invalid_client" },
	} {
		a := account(t, s, time.Now().Add(-time.Hour))
		change(a)
		if _, err := a.Token(t.Context()); !fault.HasCode(err, want) || strings.Contains(err.Error(), "secret-detail") {
			t.Errorf("%s: %v", want, err)
		}
		s.refuse = ""
	}
	a := account(t, s, time.Now().Add(-time.Hour))
	if err := oauth.Save(a.Store, "work", &oauth2.Token{AccessToken: "without-refresh", Expiry: time.Now().Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Token(t.Context()); !fault.HasCode(err, "oauth_expired") {
		t.Error(err)
	}
	s.Close()
	if _, err := account(t, s, time.Now().Add(-time.Hour)).Token(t.Context()); !fault.HasCode(err, "oauth_failed") {
		t.Error(err)
	}
}
