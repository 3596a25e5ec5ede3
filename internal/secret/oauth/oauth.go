// Package oauth obtains OAuth 2 tokens for accounts at other services and keeps them fresh. A person
// consents in a browser on this machine (RFC 8252, with PKCE as in RFC 7636), or on another device
// (RFC 8628). Tokens are kept in a store of secrets and refreshed when they are used.
package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/oauth2"

	"steward/internal/fault"
)

// requestTimeout is the time limit of one request to an authorization server.
const requestTimeout = 30 * time.Second

// What an account is used for.
const (
	Mail     = "mail"
	Calendar = "calendar"
	Contacts = "contacts"
)

// Service is an authorization server and Steward's registration with it.
type Service struct {
	Name         string // for people, and of the preset
	ClientID     string
	ClientSecret string // Google issues one to programs as well; it is not confidential there
	AuthURL      string
	TokenURL     string
	DeviceURL    string              // empty: it does not offer the flow for other devices
	Uses         map[string][]string // the scopes of each use
	Params       map[string]string   // more parameters of the authorization request
	Localhost    bool                // it redirects to localhost, not to 127.0.0.1
	HTTP         *http.Client        // nil: a client with a time limit
}

// Preset returns a known service. The result lacks the client's id. It reports false for others.
func Preset(name string) (Service, bool) {
	switch name {
	case "google":
		// developers.google.com/identity/protocols/oauth2/native-app and …/gmail/imap/xoauth2-protocol.
		// Google's device flow does not grant these scopes.
		return Service{Name: name, AuthURL: "https://accounts.google.com/o/oauth2/v2/auth", TokenURL: "https://oauth2.googleapis.com/token",
			Uses: map[string][]string{
				Mail:     {"https://mail.google.com/"},
				Calendar: {"https://www.googleapis.com/auth/calendar"},
				Contacts: {"https://www.googleapis.com/auth/carddav"},
			},
			Params: map[string]string{"access_type": "offline", "prompt": "consent"}}, true
	case "microsoft":
		// learn.microsoft.com/exchange/client-developer/legacy-protocols/how-to-authenticate-an-imap-pop-smtp-application-by-using-oauth.
		// There is no CalDAV and no CardDAV.
		const base = "https://login.microsoftonline.com/common/oauth2/v2.0/"
		return Service{Name: name, AuthURL: base + "authorize", TokenURL: base + "token", DeviceURL: base + "devicecode",
			Uses:      map[string][]string{Mail: {"https://outlook.office.com/IMAP.AccessAsUser.All", "https://outlook.office.com/SMTP.Send", "offline_access"}},
			Localhost: true}, true
	}
	return Service{Name: name}, false
}

// Check reports what is missing for the given uses. Error codes: oauth_client_missing,
// oauth_service_incomplete, oauth_use_unknown.
func (s Service) Check(uses ...string) error {
	switch {
	case s.ClientID == "":
		return fault.New(fault.Invalid, "oauth_client_missing", "there is no client id for %s", s.Name).
			WithHint("register a desktop program with %s and set oauth.%s.client_id", s.Name, s.Name)
	case s.AuthURL == "" || s.TokenURL == "":
		return fault.New(fault.Invalid, "oauth_service_incomplete", "%s has no auth_url or no token_url", s.Name).
			WithHint("set both in oauth.%s, or use google or microsoft", s.Name)
	}
	for _, use := range uses {
		if _, ok := s.Uses[use]; !ok {
			return fault.New(fault.Unsupported, "oauth_use_unknown", "%s offers no %s by OAuth", s.Name, use)
		}
	}
	return nil
}

func (s Service) config(redirect string, uses []string) *oauth2.Config {
	var scopes []string
	for _, use := range uses {
		scopes = append(scopes, s.Uses[use]...)
	}
	slices.Sort(scopes)
	return &oauth2.Config{ClientID: s.ClientID, ClientSecret: s.ClientSecret, RedirectURL: redirect, Scopes: slices.Compact(scopes),
		Endpoint: oauth2.Endpoint{AuthURL: s.AuthURL, TokenURL: s.TokenURL, DeviceAuthURL: s.DeviceURL}}
}

// with returns a context by which package oauth2 finds the HTTP client.
func (s Service) with(ctx context.Context) context.Context {
	client := s.HTTP
	if client == nil {
		client = &http.Client{Timeout: requestTimeout}
	}
	return context.WithValue(ctx, oauth2.HTTPClient, client)
}

// Consent asks a person to consent in a browser on this machine or, if device is true, on another device.
// show gets the URL to open and, for another device, the code to type. Error codes: oauth_listen_failed,
// oauth_device_unsupported, oauth_refused, oauth_failed, and those of Check.
func (s Service) Consent(ctx context.Context, device bool, show func(url, code string), uses ...string) (*oauth2.Token, error) {
	if err := s.Check(uses...); err != nil {
		return nil, err
	}
	token, err := ask(s.with(ctx), Asking{Device: device, Show: show}, func(redirect string) (*question, error) {
		if s.Localhost {
			redirect = strings.Replace(redirect, "127.0.0.1", "localhost", 1)
		}
		q := &question{conf: s.config(redirect, uses), check: func(url.Values) error { return nil }}
		for k, v := range s.Params {
			q.params = append(q.params, oauth2.SetAuthURLParam(k, v))
		}
		return q, nil
	})
	return token, s.explain(ctx, err)
}

// question is a request for a person's consent.
type question struct {
	conf   *oauth2.Config
	params []oauth2.AuthCodeOption       // more parameters of the authorization request
	about  []oauth2.AuthCodeOption       // what the token is for (RFC 8707); nil: the service knows
	check  func(answer url.Values) error // judges the answer of a browser
}

// Asking is how a person is asked for consent.
type Asking struct {
	Device bool                   // on another device, with a code
	Show   func(url, code string) // gets the URL to open and, for another device, the code to type

	// Answers are the parameters of redirects that did not reach this machine, because the browser runs on
	// another one; see Answer. It may be nil.
	Answers <-chan url.Values
}

// Answer returns the parameters of the address to which an authorization server has sent a browser, such as
// http://127.0.0.1:4711/?code=…&state=…, as a person copies it. at is the URL at which the consent was given. Error
// codes: oauth_address_wrong.
func Answer(at, address string) (url.Values, error) {
	wrong := func(why string) error {
		return fault.New(fault.Invalid, "oauth_address_wrong", "this is not the address that the sign-in led to: %s", why).
			WithHint("consent, and then copy the whole address of the page that cannot be reached; it begins with http://127.0.0.1")
	}
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || len(address) > 10_000 {
		return nil, wrong("it is not an address")
	}
	asked, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	switch {
	case q.Get("state") == "" || q.Get("code") == "" && q.Get("error") == "":
		return nil, wrong("it has no code")
	case q.Get("state") != asked.Query().Get("state"):
		return nil, wrong("it is of another sign-in")
	}
	return q, nil
}

// ask asks a person to consent, and returns the token. prepare makes the question for a redirect URI.
func ask(ctx context.Context, a Asking, prepare func(redirect string) (*question, error)) (*oauth2.Token, error) {
	if a.Device {
		q, err := prepare("http://127.0.0.1")
		if err != nil {
			return nil, err
		}
		return q.onDevice(ctx, a.Show)
	}
	back, err := Listen()
	if err != nil {
		return nil, err
	}
	defer back.Close() //nolint:errcheck // it only listened
	q, err := prepare(back.URL)
	if err != nil {
		return nil, err
	}
	verifier, state := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	a.Show(q.conf.AuthCodeURL(state, slices.Concat(q.params, q.about, []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)})...), "")
	answer, err := back.Wait(ctx, state, a.Answers)
	if err == nil {
		err = q.check(answer)
	}
	if err != nil {
		return nil, err
	}
	return q.conf.Exchange(ctx, answer.Get("code"), append(q.about, oauth2.VerifierOption(verifier))...)
}

func (q *question) onDevice(ctx context.Context, show func(url, code string)) (*oauth2.Token, error) {
	if q.conf.Endpoint.DeviceAuthURL == "" {
		return nil, fault.New(fault.Unsupported, "oauth_device_unsupported", "the service does not support sign-in on another device").
			WithHint("run it without --device on a machine with a browser")
	}
	d, err := q.conf.DeviceAuth(ctx, q.about...)
	if err != nil {
		return nil, err
	}
	at := cmp.Or(d.VerificationURIComplete, d.VerificationURI)
	if u, err := url.Parse(at); err != nil || u.Scheme != "https" && u.Scheme != "http" || len(d.UserCode) > 100 {
		return nil, fault.New(fault.Denied, "oauth_failed", "the service gives no valid page for consent: %.300q", at)
	}
	show(at, strings.ToValidUTF8(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, d.UserCode), ""))
	return q.conf.DeviceAccessToken(ctx, d, q.about...)
}

func (s Service) explain(ctx context.Context, err error) error {
	return explain(ctx, err, s.Name, "check the client id and secret in oauth."+s.Name)
}

// explain returns the coded error for one of package oauth2, without what the server sent besides
// its error code: that may hold tokens.
func explain(ctx context.Context, err error, name, remedy string) error {
	var answer *oauth2.RetrieveError
	var f *fault.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &f):
		return f
	case errors.As(err, &answer) && slices.Contains([]string{"access_denied", "expired_token", "invalid_grant"}, answer.ErrorCode):
		return refused(name, answer.ErrorCode)
	case errors.As(err, &answer):
		status := 0
		if answer.Response != nil {
			status = answer.Response.StatusCode
		}
		return fault.New(fault.Unavailable, "oauth_failed", "%s refuses the request for a token (%d %.100s)", name, status, answer.ErrorCode).
			WithHint("%s", remedy)
	}
	return fault.New(fault.Unavailable, "oauth_failed", "%s could not be asked for a token: %w", name, err)
}

func refused(name, code string) error {
	return fault.New(fault.Denied, "oauth_refused", "%s gave no access (%.100s)", name, code).WithHint("connect the account again, and consent")
}

// Store keeps secrets. secret.Store is one.
type Store interface {
	Get(name string) (string, error)
	Set(name, value string) error
}

// SecretName returns the name under which an account's token is stored.
func SecretName(account string) string { return "oauth." + account }

// Save stores the token of an account.
func Save(store Store, account string, token *oauth2.Token) error {
	b, err := json.Marshal(token)
	if err != nil {
		return err
	}
	return store.Set(SecretName(account), string(b))
}

// Account hands out access tokens of a connected account. Use one Account for all users of the
// same token. Safe for concurrent use; do not copy.
type Account struct {
	Name    string
	Service Service
	Store   Store
	Learn   func(name, value string) error // receives each token, so that it can be masked; may be nil

	mu    sync.Mutex
	token *oauth2.Token
}

// Token returns an access token that is still valid, and refreshes it if necessary. Error codes:
// oauth_not_connected, oauth_expired (the person has to connect the account again), oauth_failed.
func (a *Account) Token(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token.Valid() {
		return a.token.AccessToken, nil
	}
	// It is read each time: the account may have been connected again.
	text, err := a.Store.Get(SecretName(a.Name))
	var stored oauth2.Token
	if err != nil || json.Unmarshal([]byte(text), &stored) != nil {
		return "", a.reconnectError(fault.New(fault.Unauthentic, "oauth_not_connected", "the account %s is not connected", a.Name))
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	fresh, err := a.Service.config("", nil).TokenSource(a.Service.with(ctx), &stored).Token()
	if err != nil {
		if err := a.Service.explain(ctx, err); !fault.HasCode(err, "oauth_refused") && stored.RefreshToken != "" {
			return "", err
		}
		return "", a.reconnectError(fault.New(fault.Unauthentic, "oauth_expired", "the access to the account %s has ended", a.Name))
	}
	if a.Learn != nil {
		if err := a.Learn(SecretName(a.Name), fresh.AccessToken); err != nil {
			return "", err
		}
	}
	if fresh.AccessToken != stored.AccessToken {
		if err := Save(a.Store, a.Name, fresh); err != nil {
			return "", err
		}
	}
	a.token = fresh
	return fresh.AccessToken, nil
}

func (a *Account) reconnectError(err *fault.Error) error {
	return err.WithHint("run steward accounts connect %s", a.Name)
}
