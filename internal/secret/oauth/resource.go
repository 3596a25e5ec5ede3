package oauth

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"steward/internal/fault"
)

// Resource is a server that says itself where its tokens come from (RFC 9728), such as an MCP server. A
// token is bound to the server's URL and to its authorization server, and is used for no other URL. Safe
// for concurrent use; do not copy.
type Resource struct {
	Name      string // under which its token is stored
	URL       string
	Client    Registration
	Scopes    []string // requested in any case
	Connect   string   // the command by which a person connects it
	Store     Store
	Learn     func(name, value string) error // receives each token, so that it can be masked; may be nil
	Transport http.RoundTripper              // to discovered URLs; nil: only where it is safe, see Resource.dial

	mu sync.Mutex // held while a token is renewed
}

// Registration is how Steward is known to authorization servers. The zero value: it registers itself.
type Registration struct {
	ID, Secret string // of a registration that was made by hand
	Document   string // URL of a document that describes Steward, for servers that accept it as an id
}

// link is the stored record of a connected resource.
type link struct {
	Resource string           `json:"resource"`        // its URL
	Asked    bool             `json:"asked,omitempty"` // the server has asked for a sign-in, or for more scopes, since
	Metadata string           `json:"resource_metadata,omitempty"`
	Wanted   []string         `json:"wanted,omitempty"` // the scopes that it has asked for
	Audience string           `json:"audience,omitempty"`
	Issuer   string           `json:"issuer,omitempty"`
	TokenURL string           `json:"token_url,omitempty"`
	ClientID string           `json:"client_id,omitempty"`
	Secret   string           `json:"client_secret,omitempty"`
	Style    oauth2.AuthStyle `json:"auth_style,omitempty"`
	Scopes   []string         `json:"scopes,omitempty"`
	Token    *oauth2.Token    `json:"token,omitempty"`
}

// load returns the record of the resource. It is read each time: another process may have changed it.
func (r *Resource) load() link {
	var l link
	text, err := r.Store.Get(SecretName(r.Name))
	if err != nil || json.Unmarshal([]byte(text), &l) != nil || l.Resource != r.URL {
		return link{Resource: r.URL}
	}
	return l
}

func (r *Resource) save(l link) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return r.Store.Set(SecretName(r.Name), string(b))
}

// Lacks returns what the resource has asked for in vain, in words, or "". It also reports whether there is a
// token.
func (r *Resource) Lacks() (what string, connected bool) {
	l := r.load()
	connected = l.Token != nil
	switch {
	case !l.Asked:
		return "", connected
	case len(l.Wanted) > 0 && connected:
		return "it requires more permissions: " + strings.Join(l.Wanted, " "), connected
	}
	return "it requires a sign-in", connected
}

// Token returns the access token for the resource, renewed if necessary, or "" if there is none. Error
// codes: oauth_expired, oauth_failed.
func (r *Resource) Token(ctx context.Context) (string, error) {
	l := r.load()
	switch {
	case l.Token == nil:
		return "", nil
	case l.Token.Valid():
		return r.learn(l.Token)
	}
	return r.Renew(ctx, l.Token.AccessToken)
}

// Renew returns a token in place of one that has expired or was refused. Error codes: see Token.
func (r *Resource) Renew(ctx context.Context, used string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.load()
	if l.Token != nil && l.Token.AccessToken != used {
		return r.learn(l.Token) // another process has renewed it
	}
	if l.Token == nil || l.Token.RefreshToken == "" {
		return "", r.expired()
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	conf := &oauth2.Config{ClientID: l.ClientID, ClientSecret: l.Secret, Endpoint: oauth2.Endpoint{TokenURL: l.TokenURL, AuthStyle: l.Style}}
	// A refresh through oauth2.TokenSource cannot name the resource.
	fresh, err := conf.Exchange(r.with(ctx), "", oauth2.SetAuthURLParam("grant_type", "refresh_token"),
		oauth2.SetAuthURLParam("refresh_token", l.Token.RefreshToken), oauth2.SetAuthURLParam("resource", l.Audience))
	if err != nil {
		if now := r.load(); now.Token != nil && now.Token.AccessToken != used { // another process was faster
			return r.learn(now.Token)
		}
		if err := explain(ctx, err, l.Issuer, "run "+r.Connect); !fault.HasCode(err, "oauth_refused") {
			return "", err
		}
		return "", r.expired()
	}
	l.Token = fresh
	if err := r.save(l); err != nil {
		return "", err
	}
	return r.learn(fresh)
}

func (r *Resource) learn(t *oauth2.Token) (string, error) {
	if r.Learn != nil {
		if err := r.Learn(SecretName(r.Name), t.AccessToken); err != nil {
			return "", err
		}
	}
	return t.AccessToken, nil
}

func (r *Resource) expired() error {
	return fault.New(fault.Unauthentic, "oauth_expired", "the access to %s has ended", r.URL).WithHint("run %s", r.Connect)
}

// maxWanted bounds the scopes of a challenge.
const maxWanted = 100

// Refused records that the server has refused a request, and what it wants (RFC 6750, RFC 9728). It returns
// a coded error that says what to do: oauth_not_connected, oauth_scope_missing; nil if no token would help.
func (r *Resource) Refused(res *http.Response) error {
	asked, err := oauthex.ParseWWWAuthenticate(res.Header.Values("WWW-Authenticate"))
	var about map[string]string
	if i := slices.IndexFunc(asked, func(c oauthex.Challenge) bool { return c.Scheme == "bearer" }); err == nil && i >= 0 {
		about = asked[i].Params
	}
	more := res.StatusCode == http.StatusForbidden
	if more && about["error"] != "insufficient_scope" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.load()
	was := l
	l.Asked, l.Metadata, l.Wanted = true, about["resource_metadata"], nil
	for _, scope := range strings.Fields(about["scope"]) {
		if len(l.Wanted) < maxWanted && strings.IndexFunc(scope, func(c rune) bool { return c < '!' || c > '~' }) < 0 {
			l.Wanted = append(l.Wanted, scope)
		}
	}
	if !was.Asked || was.Metadata != l.Metadata || !slices.Equal(was.Wanted, l.Wanted) {
		if err := r.save(l); err != nil {
			return err
		}
	}
	if more {
		return fault.New(fault.Denied, "oauth_scope_missing", "it requires more permissions than you granted: %.300s", strings.Join(l.Wanted, " ")).
			WithHint("run %s, and consent to them", r.Connect)
	}
	return fault.New(fault.Unauthentic, "oauth_not_connected", "it requires a sign-in").WithHint("run %s", r.Connect)
}

// Consent asks a person to consent, as Service.Consent does, and stores the token. Error codes:
// oauth_discovery_failed, oauth_client_missing, oauth_client_refused, oauth_device_unsupported,
// oauth_refused, oauth_issuer_wrong, oauth_redirected, oauth_failed, oauth_listen_failed, network_denied.
func (r *Resource) Consent(ctx context.Context, device bool, show func(url, code string)) error {
	return r.Ask(ctx, Asking{Device: device, Show: show})
}

// Ask is Consent with more ways to ask.
func (r *Resource) Ask(ctx context.Context, a Asking) error {
	var f found
	var conf *oauth2.Config
	token, err := ask(r.with(ctx), a, func(redirect string) (q *question, err error) {
		f, conf, err = r.prepare(ctx, redirect)
		about := []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("resource", f.audience)}
		return &question{conf: conf, about: about, check: func(answer url.Values) error {
			if iss := answer.Get("iss"); iss != f.Issuer && (iss != "" || f.AuthorizationResponseIssParameterSupported) { // RFC 9207
				return fault.New(fault.Denied, "oauth_issuer_wrong", "the answer comes from %.300q instead of %.300q", iss, f.Issuer).
					WithHint("do not trust the page on which you consented, and report this to the operator of %s", r.URL)
			}
			return nil
		}}, err
	})
	if err != nil {
		return explain(ctx, err, f.Issuer, "run "+r.Connect+" again")
	}
	return r.connected(f, conf, token)
}

// prepare finds the authorization server, and registers with it. The scopes are those that the server has
// asked for, otherwise those that it knows; those that it was given before stay.
func (r *Resource) prepare(ctx context.Context, redirect string) (found, *oauth2.Config, error) {
	l := r.load()
	f, err := r.discover(ctx, l.Metadata)
	if err != nil {
		return f, nil, err
	}
	conf, err := r.register(ctx, &f.authority, redirect)
	if err != nil {
		return f, nil, err
	}
	scopes := l.Wanted
	if len(scopes) == 0 && len(l.Scopes) == 0 {
		scopes = f.scopes
	}
	if scopes = slices.Concat(scopes, r.Scopes); l.Issuer == f.Issuer {
		scopes = append(scopes, l.Scopes...)
	}
	if slices.Contains(f.ScopesSupported, "offline_access") { // for a refresh token
		scopes = append(scopes, "offline_access")
	}
	slices.Sort(scopes)
	conf.Scopes = slices.Compact(scopes)
	return f, conf, nil
}

// connected stores the token that a person has consented to.
func (r *Resource) connected(f found, conf *oauth2.Config, t *oauth2.Token) error {
	if !strings.EqualFold(t.Type(), "Bearer") {
		return fault.New(fault.Unsupported, "oauth_failed", "%.300s issues tokens of the type %.40q, which Steward cannot send", f.Issuer, t.Type())
	}
	scopes := conf.Scopes
	if given, ok := t.Extra("scope").(string); ok {
		scopes = strings.Fields(given)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.save(link{Resource: r.URL, Audience: f.audience, Issuer: f.Issuer, TokenURL: conf.Endpoint.TokenURL,
		ClientID: conf.ClientID, Secret: conf.ClientSecret, Style: conf.Endpoint.AuthStyle, Scopes: scopes, Token: t})
}

// with returns a context by which package oauth2 finds the HTTP client.
func (r *Resource) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, r.client())
}
