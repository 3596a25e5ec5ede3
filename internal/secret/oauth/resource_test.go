package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/secret"
	"steward/internal/secret/oauth"
	"steward/test/signin"
)

func resource(t *testing.T, w *signin.World) *oauth.Resource {
	transport := &http.Transport{DisableKeepAlives: true} // the safe dialer reaches nothing that this process serves
	return &oauth.Resource{Name: "mcp.double", URL: w.URL(), Connect: "steward mcp connect double", Store: secret.NewStore(t.TempDir()), Transport: transport}
}

// asked has the server refuse a request.
func asked(t *testing.T, w *signin.World, r *oauth.Resource) {
	t.Helper()
	if err := refusal(t, w, r, "tools/list", ""); !fault.HasCode(err, "oauth_not_connected") {
		t.Fatal(err)
	}
}

// refusal sends a request with the resource's token, and returns what the refusal means.
func refusal(t *testing.T, w *signin.World, r *oauth.Resource, method, name string) error {
	t.Helper()
	token, err := r.Token(t.Context())
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, w.URL(), strings.NewReader(fmt.Sprintf(`{"method":%q,"params":{"name":%q}}`, method, name)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
		return r.Refused(res)
	}
	return nil
}

// consents is a person who consents: a browser that follows the redirects.
func consents(t *testing.T) func(url, code string) {
	return func(url, _ string) {
		go func() {
			res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
			if err == nil {
				err = res.Body.Close()
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
}

func TestResource(t *testing.T) {
	w := signin.New(t)
	r := resource(t, w)
	if lacks, connected := r.Lacks(); lacks != "" || connected {
		t.Error(lacks, connected)
	}
	asked(t, w, r)
	if lacks, connected := r.Lacks(); lacks != "it requires a sign-in" || connected {
		t.Error(lacks, connected)
	}
	if err := r.Consent(t.Context(), false, consents(t)); err != nil {
		t.Fatal(err)
	}
	if err := refusal(t, w, r, "tools/call", "read"); err != nil {
		t.Error(err)
	}
	// A token that is refused is renewed, for the same resource.
	token, err := r.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := r.Renew(t.Context(), token)
	if err != nil || fresh == token {
		t.Fatal(fresh, err)
	}
	if again, err := r.Renew(t.Context(), token); err != nil || again != fresh {
		t.Error("a token that somebody else has renewed is renewed again", again, err)
	}
	// More scopes are asked for beside those that it has.
	if err := refusal(t, w, r, "tools/call", "change"); !fault.HasCode(err, "oauth_scope_missing") {
		t.Error(err)
	}
	if lacks, connected := r.Lacks(); lacks != "it requires more permissions: change" || !connected {
		t.Error(lacks, connected)
	}
	if err := r.Consent(t.Context(), false, consents(t)); err != nil {
		t.Fatal(err)
	}
	if err := refusal(t, w, r, "tools/call", "change"); err != nil {
		t.Error(err)
	}
	want := []string{"register", "authorize basic " + w.URL(), "token authorization_code " + w.URL(), "token refresh_token " + w.URL(),
		"register", "authorize basic change " + w.URL(), "token authorization_code " + w.URL()}
	if got := w.Log(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// When nothing can be renewed any more, the person is told.
	w.RevokeAll()
	token, _ = r.Token(t.Context())
	if _, err := r.Renew(t.Context(), token); !fault.HasCode(err, "oauth_expired") || !strings.Contains(fault.Of(err).Remedy, "steward mcp connect double") {
		t.Error(err)
	}
	// The token is for this URL alone.
	other := &oauth.Resource{Name: r.Name, URL: w.Server.URL + "/other", Store: r.Store}
	if token, err := other.Token(t.Context()); token != "" || err != nil {
		t.Error("another server gets the token", err)
	}
}

// A person whose browser runs on another machine copies the address that it could not reach.
func TestResourceWithACopiedAddress(t *testing.T) {
	w := signin.New(t)
	r := resource(t, w)
	asked(t, w, r)
	answers, shown := make(chan url.Values), make(chan string, 1)
	done := make(chan error, 1)
	go func() {
		done <- r.Ask(t.Context(), oauth.Asking{Answers: answers, Show: func(url, _ string) { shown <- url }})
	}()
	at := <-shown
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close() //nolint:errcheck // only where it leads counts
	address := res.Header.Get("Location")
	for _, wrong := range []string{"", "http://127.0.0.1", address[:strings.Index(address, "state=")], strings.Replace(address, "state=", "state=x", 1), "://"} {
		if q, err := oauth.Answer(at, wrong); !fault.HasCode(err, "oauth_address_wrong") {
			t.Errorf("%q: %v %v", wrong, q, err)
		}
	}
	answers <- url.Values{"state": {"of another"}, "code": {"x"}}
	q, err := oauth.Answer(at, " "+address+"\n")
	if err != nil {
		t.Fatal(err)
	}
	answers <- q
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if token, err := r.Token(t.Context()); err != nil || token == "" {
		t.Error(token, err)
	}
}

func TestResourceOnAnotherDevice(t *testing.T) {
	w := signin.New(t)
	r := resource(t, w)
	asked(t, w, r)
	var shown string
	if err := r.Consent(t.Context(), true, func(url, code string) { shown = url + " " + code }); err != nil {
		t.Fatal(err)
	}
	if err := refusal(t, w, r, "tools/call", "read"); err != nil || shown != "https://authority.example/device ABCD-EFGH" {
		t.Error(shown, err)
	}
	w.NoDevice = true
	if err := r.Consent(t.Context(), true, nil); !fault.HasCode(err, "oauth_device_unsupported") {
		t.Error(err)
	}
}

func TestRegistrations(t *testing.T) {
	w := signin.New(t)
	w.ClientID, w.Documents = "by-hand", true
	for _, own := range []oauth.Registration{{ID: "by-hand"}, {Document: "https://steward.example/client.json"}} {
		r := resource(t, w)
		r.Client = own
		asked(t, w, r)
		if err := r.Consent(t.Context(), false, consents(t)); err != nil {
			t.Errorf("%+v: %v", own, err)
		}
	}
	r := resource(t, w)
	asked(t, w, r)
	if err := r.Consent(t.Context(), false, consents(t)); !fault.HasCode(err, "oauth_client_missing") {
		t.Error(err)
	}
	if slices.Contains(w.Log(), "register") {
		t.Error("it has registered itself")
	}
}

// What does not fit together is refused before anything is sent that could be of use to others.
func TestResourceRefuses(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("somebody else is asked: %s %s", r.Method, r.URL)
	}))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		change func(*signin.World)
		code   string
		log    int // requests to the authorization server
	}{
		"the resource of another server":     {func(w *signin.World) { w.Resource = "https://evil.example/mcp" }, "oauth_discovery_failed", 0},
		"no authorization server":            {func(w *signin.World) { w.Authorities = []string{} }, "oauth_discovery_failed", 0},
		"an authorization server in plain":   {func(w *signin.World) { w.Authorities = []string{"http://authority.example"} }, "oauth_discovery_failed", 0},
		"metadata of another issuer":         {func(w *signin.World) { w.Issuer = "https://evil.example" }, "oauth_discovery_failed", 0},
		"a token endpoint in plain":          {func(w *signin.World) { w.TokenAt = "http://evil.example/token" }, "oauth_discovery_failed", 0},
		"an answer of another issuer":        {func(w *signin.World) { w.Iss = "https://evil.example" }, "oauth_issuer_wrong", 2},
		"an answer of an almost same issuer": {func(w *signin.World) { w.Iss = w.Authority.URL + "/" }, "oauth_issuer_wrong", 2},
		"an answer without its issuer":       {func(w *signin.World) { w.Iss = "-" }, "oauth_issuer_wrong", 2},
		"a token endpoint that redirects":    {func(w *signin.World) { w.Moved = elsewhere.URL }, "oauth_redirected", 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := signin.New(t)
			c.change(w)
			r := resource(t, w)
			asked(t, w, r)
			if err := r.Consent(t.Context(), false, consents(t)); !fault.HasCode(err, c.code) || len(w.Log()) != c.log {
				t.Errorf("%v after %q", err, w.Log())
			}
			if token, err := r.Token(t.Context()); token != "" || err != nil {
				t.Error(token, err)
			}
		})
	}
}

// A server of the internet cannot lead Steward to addresses of this machine or its network.
func TestDiscoveredAddresses(t *testing.T) {
	for _, at := range []string{"https://127.0.0.1:1", "https://localhost:1", "https://10.0.0.1", "https://169.254.169.254", "https://[::1]:1"} {
		r := &oauth.Resource{Name: "mcp.double", URL: "https://mcp.example/mcp", Store: secret.NewStore(t.TempDir())}
		res := &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {`Bearer resource_metadata="` + at + `/about"`}}}
		if err := r.Refused(res); !fault.HasCode(err, "oauth_not_connected") {
			t.Fatal(err)
		}
		if err := r.Consent(t.Context(), false, func(string, string) { t.Error("it goes on") }); !fault.HasCode(err, "network_denied") {
			t.Errorf("%s: %v", at, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := signin.New(t)
	if err := resource(t, w).Consent(ctx, false, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A server without metadata is its own authorization server, as in the specification of 2025-03-26.
func TestResourceWithoutMetadata(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"client_id":"old","client_secret":"old-secret","token_endpoint_auth_method":"client_secret_basic"}`)
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"/?code=c&state="+q.Get("state"), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if id, key, ok := r.BasicAuth(); !ok || id != "old" || key != "old-secret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"old-token","token_type":"bearer"}`)
	})
	old := httptest.NewServer(mux)
	defer old.Close()
	r := &oauth.Resource{Name: "mcp.old", URL: old.URL + "/mcp", Store: secret.NewStore(t.TempDir()), Transport: &http.Transport{DisableKeepAlives: true}}
	if err := r.Consent(t.Context(), false, consents(t)); err != nil {
		t.Fatal(err)
	}
	if token, err := r.Token(t.Context()); token != "old-token" || err != nil {
		t.Error(token, err)
	}
}
