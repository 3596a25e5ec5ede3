// Package signin has doubles of an MCP server that asks for a sign-in and of its authorization server, for
// tests. They speak as RFC 6749, 7591, 7636, 8414, 8628, 8707, 9207 and 9728 and MCP's specification of
// 2026-07-28 say (basic/authorization).
package signin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// World is a server and its authorization server. Change the exported fields before they are used, or with
// Set.
type World struct {
	Server, Authority *httptest.Server

	Resource    string   // in the server's metadata; empty: the server's own
	Issuer      string   // in the authorization server's metadata; empty: its own
	Iss         string   // in the redirect to the client; empty: the authorization server's own; "-": none
	Authorities []string // in the server's metadata; nil: the authorization server
	TokenAt     string   // the token endpoint in the metadata; empty: its own
	Moved       string   // where the token endpoint redirects to; empty: nowhere
	Lifetime    int      // of tokens, in seconds; 0: an hour
	ClientID    string   // the only client; empty: clients register themselves
	Documents   bool     // client ids may be the addresses of documents
	NoDevice    bool

	mu      sync.Mutex
	issued  int
	codes   map[string]url.Values // authorization requests by code
	valid   map[string]string     // scopes of valid access tokens
	refresh string
	log     []string
}

// New starts both. Its MCP server has the tools read, which needs the scope basic, and change, which needs
// the scope change as well.
func New(t testing.TB) *World {
	w := &World{codes: map[string]url.Values{}, valid: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", w.metadata)
	mux.HandleFunc("POST /register", w.register)
	mux.HandleFunc("GET /authorize", w.authorize)
	mux.HandleFunc("POST /device", func(rw http.ResponseWriter, r *http.Request) {
		w.note("device", r.FormValue("scope"), r.FormValue("resource"))
		w.mu.Lock()
		w.codes["device"] = url.Values{"scope": {r.FormValue("scope")}, "resource": {r.FormValue("resource")}, "client_id": {r.FormValue("client_id")}}
		w.mu.Unlock()
		reply(rw, 200, map[string]any{"device_code": "device", "user_code": "ABCD-EFGH", "verification_uri": "https://authority.example/device", "expires_in": 60, "interval": 1})
	})
	mux.HandleFunc("POST /token", w.token)
	w.Authority = httptest.NewServer(mux)
	t.Cleanup(w.Authority.Close)

	server := sdk.NewServer(&sdk.Implementation{Name: "double", Version: "1"}, nil)
	for name, what := range map[string]string{"read": "Read the temperature of the living room", "change": "Ventilate the greenhouse through its roof windows"} {
		sdk.AddTool(server, &sdk.Tool{Name: name, Description: what, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
			func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: name + " done"}}}, nil, nil
			})
	}
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{JSONResponse: true})
	front := http.NewServeMux()
	front.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", w.about)
	front.HandleFunc("/mcp", func(rw http.ResponseWriter, r *http.Request) { w.guard(rw, r, inner) })
	w.Server = httptest.NewServer(front)
	t.Cleanup(w.Server.Close)
	return w
}

// URL is the address of the MCP server.
func (w *World) URL() string { return w.Server.URL + "/mcp" }

// Set changes the world while it is used.
func (w *World) Set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// Revoke makes all access tokens invalid.
func (w *World) Revoke() { w.Set(func() { clear(w.valid) }) }

// RevokeAll makes refresh tokens invalid as well.
func (w *World) RevokeAll() { w.Set(func() { clear(w.valid); w.refresh = "" }) }

// Log returns what was asked for: "register", "authorize SCOPES RESOURCE", "token GRANT RESOURCE" and others.
func (w *World) Log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

func (w *World) note(words ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, strings.Join(words, " "))
}

func (w *World) get(field *string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *field
}

func reply(rw http.ResponseWriter, status int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	json.NewEncoder(rw).Encode(v) //nolint:errcheck // the client sees what is missing
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func (w *World) about(rw http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	authorities := w.Authorities
	w.mu.Unlock()
	if authorities == nil {
		authorities = []string{w.Authority.URL}
	}
	reply(rw, 200, map[string]any{"resource": or(w.get(&w.Resource), w.URL()), "authorization_servers": authorities, "scopes_supported": []string{"basic", "change", "rare"}})
}

func (w *World) metadata(rw http.ResponseWriter, _ *http.Request) {
	base := w.Authority.URL
	m := map[string]any{"issuer": or(w.get(&w.Issuer), base), "authorization_endpoint": base + "/authorize", "token_endpoint": or(w.get(&w.TokenAt), base+"/token"),
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none", "client_secret_post"},
		"authorization_response_iss_parameter_supported": true, "client_id_metadata_document_supported": w.Documents}
	if w.ClientID == "" {
		m["registration_endpoint"] = base + "/register"
	}
	if !w.NoDevice {
		m["device_authorization_endpoint"] = base + "/device"
	}
	reply(rw, 200, m)
}

func (w *World) register(rw http.ResponseWriter, r *http.Request) {
	w.note("register")
	var m struct {
		RedirectURIs []string `json:"redirect_uris"`
		Method       string   `json:"token_endpoint_auth_method"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&m); err != nil || len(m.RedirectURIs) != 1 || m.Method != "none" {
		reply(rw, 400, map[string]any{"error": "invalid_client_metadata"})
		return
	}
	reply(rw, 201, map[string]any{"client_id": "registered", "redirect_uris": m.RedirectURIs, "token_endpoint_auth_method": "none"})
}

func (w *World) knows(client string) bool {
	return client == or(w.ClientID, "registered") || w.Documents && strings.HasPrefix(client, "https://")
}

func (w *World) authorize(rw http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	w.note("authorize", q.Get("scope"), q.Get("resource"))
	if !w.knows(q.Get("client_id")) || q.Get("code_challenge_method") != "S256" || !strings.HasPrefix(q.Get("redirect_uri"), "http://127.0.0.1:") {
		http.Error(rw, "bad request: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	w.issued++
	code := fmt.Sprint("code-", w.issued)
	w.codes[code] = q
	w.mu.Unlock()
	back := url.Values{"code": {code}, "state": {q.Get("state")}}
	if iss := w.get(&w.Iss); iss != "-" {
		back.Set("iss", or(iss, w.Authority.URL))
	}
	http.Redirect(rw, r, q.Get("redirect_uri")+"/?"+back.Encode(), http.StatusFound)
}

func (w *World) token(rw http.ResponseWriter, r *http.Request) {
	grant := r.FormValue("grant_type")
	w.note("token", grant[strings.LastIndexByte(grant, ':')+1:], r.FormValue("resource"))
	if to := w.get(&w.Moved); to != "" {
		http.Redirect(rw, r, to, http.StatusTemporaryRedirect)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	asked, ok := w.codes[r.FormValue("code")+r.FormValue("device_code")]
	scope := asked.Get("scope")
	switch grant {
	case "authorization_code":
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		ok = ok && base64.RawURLEncoding.EncodeToString(sum[:]) == asked.Get("code_challenge") && r.FormValue("redirect_uri") == asked.Get("redirect_uri")
		delete(w.codes, r.FormValue("code"))
	case "refresh_token":
		var have bool
		scope, have = strings.CutPrefix(w.refresh, "refresh-token-"+fmt.Sprint(w.issued)+" ")
		ok = have && r.FormValue("refresh_token") == "refresh-token-"+fmt.Sprint(w.issued)
	}
	if !ok || !w.knows(r.FormValue("client_id")) || r.FormValue("resource") != or(w.Resource, w.URL()) {
		reply(rw, 400, map[string]any{"error": "invalid_grant"})
		return
	}
	w.issued++
	token := fmt.Sprint("access-token-", w.issued)
	w.valid[token] = scope
	w.refresh = fmt.Sprint("refresh-token-", w.issued, " ", scope)
	life := w.Lifetime
	if life == 0 {
		life = 3600
	}
	reply(rw, 200, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": life, "scope": scope, "refresh_token": fmt.Sprint("refresh-token-", w.issued)})
}

// guard lets requests with a valid token pass to the MCP server.
func (w *World) guard(rw http.ResponseWriter, r *http.Request, inner http.Handler) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.mu.Lock()
	scope, ok := w.valid[token]
	w.mu.Unlock()
	refuse := func(status int, more string) {
		rw.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer %s, resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, more, w.Server.URL))
		rw.WriteHeader(status)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	var m struct {
		Method string
		Params struct{ Name string }
	}
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &m)
	}
	switch {
	case err != nil:
		rw.WriteHeader(http.StatusBadRequest)
	case !ok:
		refuse(http.StatusUnauthorized, `scope="basic"`)
	case m.Method == "tools/call" && m.Params.Name == "change" && !slices.Contains(strings.Fields(scope), "change"):
		refuse(http.StatusForbidden, `error="insufficient_scope", scope="change"`)
	default:
		inner.ServeHTTP(rw, r)
	}
}
