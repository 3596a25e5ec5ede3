package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"steward/internal/egress"
	"steward/internal/fault"
)

// maxMetadata bounds the metadata of a server, in bytes.
const maxMetadata = 1 << 20

// authority is an authorization server's metadata (RFC 8414, RFC 8628).
type authority struct {
	oauthex.AuthServerMeta
	Device string `json:"device_authorization_endpoint"`
}

// found is what discovery finds for a resource.
type found struct {
	authority
	audience string   // what the token is for: the resource as its metadata names it
	scopes   []string // that the resource knows
}

// discover finds the authorization server of the resource as MCP's specification says:
// modelcontextprotocol.io/specification/2026-07-28/basic/authorization. metadata is the URL that the
// resource itself has named, if any.
func (r *Resource) discover(ctx context.Context, metadata string) (found, error) {
	own, err := url.Parse(r.URL)
	if err != nil || own.Host == "" {
		return found{}, broken("its address is invalid")
	}
	root := url.URL{Scheme: own.Scheme, Host: own.Host}
	places := []string{metadata}
	if metadata == "" {
		const known = "/.well-known/oauth-protected-resource"
		places = slices.Compact([]string{root.String() + known + strings.TrimSuffix(own.Path, "/"), root.String() + known})
	}
	var about oauthex.ProtectedResourceMetadata
	switch there, err := r.first(ctx, places, &about); {
	case err != nil:
		return found{}, err
	case !there && metadata != "":
		return found{}, broken("no metadata at %.300s, the address that it gives", metadata)
	case !there: // as in the specification of 2025-03-26: the server is its own authorization server
		f := found{audience: r.URL}
		f.authority, there, err = r.authority(ctx, root.String())
		if err == nil && !there {
			base := root.String()
			f.Issuer, f.AuthorizationEndpoint, f.TokenEndpoint, f.RegistrationEndpoint = base, base+"/authorize", base+"/token", base+"/register"
		}
		return f, err
	case !coversResource(own, about.Resource):
		return found{}, broken("its metadata belong to another server: %.300q", about.Resource)
	case len(about.AuthorizationServers) == 0:
		return found{}, broken("its metadata name no authorization server")
	}
	f := found{audience: about.Resource, scopes: about.ScopesSupported}
	issuer := about.AuthorizationServers[0]
	var there bool
	if f.authority, there, err = r.authority(ctx, issuer); err == nil && !there {
		err = broken("its authorization server %.300s publishes no metadata", issuer)
	}
	return f, err
}

// coversResource reports whether a resource is the server itself, or a path of the same origin that contains it.
func coversResource(own *url.URL, resource string) bool {
	u, err := url.Parse(resource)
	if err != nil || u.Scheme != own.Scheme || !strings.EqualFold(u.Host, own.Host) {
		return false
	}
	path := strings.TrimSuffix(u.Path, "/")
	return strings.TrimSuffix(own.Path, "/") == path || strings.HasPrefix(own.Path, path+"/")
}

// authority reads and checks the metadata of an authorization server. It reports false if there are none.
func (r *Resource) authority(ctx context.Context, issuer string) (a authority, there bool, err error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" {
		return a, false, broken("its authorization server has no address")
	}
	base, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.Path, "/")
	const plain, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	there, err = r.first(ctx, slices.Compact([]string{base + plain + path, base + openID + path, base + path + openID}), &a)
	switch {
	case err != nil || !there:
		return a, false, err
	case a.Issuer != issuer && a.Issuer != strings.TrimSuffix(issuer, "/") && strings.TrimSuffix(a.Issuer, "/") != issuer:
		return a, false, broken("the metadata of its authorization server %.300s belong to another server: %.300q", issuer, a.Issuer)
	case !slices.Contains(a.CodeChallengeMethodsSupported, "S256"):
		return a, false, broken("its authorization server does not support PKCE with S256")
	case a.AuthorizationEndpoint == "" || a.TokenEndpoint == "":
		return a, false, broken("its authorization server has no endpoints for authorization and tokens")
	}
	for _, end := range []string{a.AuthorizationEndpoint, a.TokenEndpoint, a.RegistrationEndpoint, a.Device} {
		if _, err := r.address(end); end != "" && err != nil {
			return a, false, err
		}
	}
	return a, true, nil
}

// address parses a discovered URL. It must be https, except on this machine or in its network, if the
// resource is there as well.
func (r *Resource) address(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !r.isLocal(u.Hostname())) {
		return nil, broken("it gives an address without https: %.300q", text)
	}
	return u, nil
}

// first decodes the first of several JSON documents that is there. It reports false if none is.
func (r *Resource) first(ctx context.Context, places []string, into any) (bool, error) {
	for _, place := range places {
		if _, err := r.address(place); err != nil {
			return false, err
		}
		there, err := r.read(ctx, place, into)
		if there || err != nil {
			return there, err
		}
	}
	return false, nil
}

func (r *Resource) read(ctx context.Context, place string, into any) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return false, broken("its metadata contain no address")
	}
	req.Header.Set("Accept", "application/json")
	res, err := r.client().Do(req)
	if err != nil {
		return false, unreachable(ctx, err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode >= 400 && res.StatusCode < 500:
		return false, nil
	case res.StatusCode != http.StatusOK:
		return false, fault.New(fault.Unavailable, "oauth_failed", "%.300s answers with %d", place, res.StatusCode).WithHint("try again later")
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxMetadata)).Decode(into); err != nil {
		return false, broken("the document at %.300s cannot be read: %w", place, err)
	}
	return true, nil
}

// register returns Steward's registration with an authorization server: a document that describes it, if
// the server takes that, else an id of the settings, else one that the server issues now.
func (r *Resource) register(ctx context.Context, a *authority, redirect string) (*oauth2.Config, error) {
	conf := &oauth2.Config{RedirectURL: redirect, Endpoint: oauth2.Endpoint{AuthURL: a.AuthorizationEndpoint, TokenURL: a.TokenEndpoint,
		DeviceAuthURL: a.Device, AuthStyle: oauth2.AuthStyleInParams}}
	switch {
	case r.Client.Document != "" && a.ClientIDMetadataDocumentSupported:
		conf.ClientID = r.Client.Document
		return conf, nil
	case r.Client.ID != "":
		conf.ClientID, conf.ClientSecret = r.Client.ID, r.Client.Secret
		conf.Endpoint.AuthStyle = styleOf(secretMethod(a.TokenEndpointAuthMethodsSupported), conf.ClientSecret)
		return conf, nil
	case a.RegistrationEndpoint == "":
		return nil, fault.New(fault.Unsupported, "oauth_client_missing", "the authorization server %.300s does not support client registration", a.Issuer).
			WithHint("register Steward there manually, with the redirect address http://127.0.0.1, and set oauth.client_id of the server in mcp.json")
	}
	method := secretMethod(a.TokenEndpointAuthMethodsSupported)
	if len(a.TokenEndpointAuthMethodsSupported) == 0 || slices.Contains(a.TokenEndpointAuthMethodsSupported, "none") {
		method = "none"
	}
	grants := []string{"authorization_code", "refresh_token"}
	if a.Device != "" {
		grants = append(grants, deviceGrant)
	}
	about := &oauthex.ClientRegistrationMetadata{ClientName: "Steward", RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: method,
		GrantTypes: grants, ResponseTypes: []string{"code"}, ApplicationType: "native"}
	got, err := oauthex.RegisterClient(ctx, a.RegistrationEndpoint, about, r.client())
	if err != nil {
		var no *oauthex.ClientRegistrationError
		if errors.As(err, &no) {
			return nil, fault.New(fault.Denied, "oauth_client_refused", "the authorization server %.300s refused to register Steward (%.100s)", a.Issuer, no.ErrorCode).
				WithHint("register Steward there manually, and set oauth.client_id of the server in mcp.json")
		}
		return nil, unreachable(ctx, err)
	}
	conf.ClientID, conf.ClientSecret = got.ClientID, got.ClientSecret
	conf.Endpoint.AuthStyle = styleOf(cmp.Or(got.TokenEndpointAuthMethod, method), conf.ClientSecret)
	return conf, nil
}

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// secretMethod chooses how a client secret is sent; RFC 8414 names the default.
func secretMethod(supported []string) string {
	if len(supported) > 0 && !slices.Contains(supported, "client_secret_basic") {
		return "client_secret_post"
	}
	return "client_secret_basic"
}

func styleOf(method, secret string) oauth2.AuthStyle {
	if method == "client_secret_basic" && secret != "" {
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}

// client returns the client for discovered URLs. It follows redirects only of metadata, and only within
// one origin.
func (r *Resource) client() *http.Client {
	transport := egress.Dialer{}.Transport()
	transport.DialContext, transport.DisableKeepAlives = r.dial, true
	c := &http.Client{Transport: transport, Timeout: requestTimeout, CheckRedirect: oneOrigin}
	if r.Transport != nil {
		c.Transport = r.Transport
	}
	return c
}

func oneOrigin(req *http.Request, via []*http.Request) error {
	last := via[len(via)-1].URL
	if req.Method != http.MethodGet || req.URL.Scheme != last.Scheme || req.URL.Host != last.Host || len(via) > 3 {
		return fault.New(fault.Denied, "oauth_redirected", "%.300s redirects to %.300s, which is not allowed", last.Redacted(), req.URL.Redacted())
	}
	return nil
}

// dial connects to public addresses, and to private ones only if the user has named the resource there.
func (r *Resource) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var named []string
	if host, _, err := net.SplitHostPort(address); err == nil && r.isLocal(host) {
		named = append(named, address)
	}
	rule, err := egress.Public(named...)
	if err != nil {
		return nil, err
	}
	return egress.Dialer{Rule: rule}.DialContext(ctx, network, address)
}

// isLocal reports whether the resource's own URL names this machine or a host of its network, and the host is
// the same. All names of the loopback interface are the same.
func (r *Resource) isLocal(host string) bool {
	own, err := url.Parse(r.URL)
	if err != nil {
		return false
	}
	at := strings.ToLower(own.Hostname())
	if loopback(at) {
		return loopback(host)
	}
	addr, err := netip.ParseAddr(at)
	private := err == nil && addr.IsPrivate()
	for _, end := range []string{".local", ".lan", ".internal", ".home.arpa"} {
		private = private || strings.HasSuffix(at, end)
	}
	return private && strings.EqualFold(host, at)
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

func broken(format string, args ...any) error {
	return fault.New(fault.Denied, "oauth_discovery_failed", "the sign-in cannot be trusted: "+format, args...).
		WithHint("report this to the operator of the server; a token can also be set as a header")
}

// unreachable returns the coded error for a request that was not answered.
func unreachable(ctx context.Context, err error) error {
	var f *fault.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &f):
		return f
	}
	return fault.New(fault.Unavailable, "oauth_failed", "the sign-in cannot be prepared: %w", err).WithHint("try again later")
}
