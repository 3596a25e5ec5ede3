package mcp

import (
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"steward/internal/sandbox"
	"steward/internal/secret/oauth"
	"steward/internal/tool"
)

// Options are what the servers of mcp.json need besides their declarations. The zero value: they get no
// tokens.
type Options struct {
	Tokens oauth.Store                    // where tokens are kept
	Learn  func(name, value string) error // receives each token, so that it can be masked
}

// OAuth is how Steward signs in at a server that asks for it. Everything may be left out.
type OAuth struct {
	ClientID       string   `yaml:"client_id" json:"client_id,omitempty"` // of a registration made by hand
	ClientSecret   string   `yaml:"client_secret" json:"client_secret,omitempty"`
	ClientMetadata string   `yaml:"client_metadata" json:"client_metadata,omitempty"` // URL of a document that describes Steward
	Scopes         []string `yaml:"scopes" json:"scopes,omitempty"`                   // requested in any case
}

// Opener returns a function that makes the source of a declared server (a Decl). It starts nothing and
// connects to nothing. Errors: mcp_decl_invalid, tool_name_invalid, mcp_sse_unsupported, and those of decode.
func Opener(opt Options) tool.Opener {
	return func(env tool.Env, decode func(any) error) (tool.Source, error) {
		var d Decl
		if err := decode(&d); err != nil {
			return nil, err
		}
		s, err := open(env, d)
		if err != nil {
			return nil, err
		}
		s.opt = opt
		return s, nil
	}
}

// Resource returns a server as what takes tokens. It returns nil if it takes none: a program, a server of an
// agent, or one that has an Authorization header of its own.
func (d *Decl) Resource(env tool.Env, opt Options) (*oauth.Resource, error) {
	word, err := tool.Word(env.Name)
	if err != nil || d.URL == "" || opt.Tokens == nil || env.Dir != "" || env.Agent != "" {
		return nil, err
	}
	for name := range d.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return nil, nil
		}
	}
	e := &sandbox.Expander{Secret: env.Secret}
	u, err := parseURL(e.Expand(d.URL))
	if err != nil {
		return nil, err
	}
	r := &oauth.Resource{Name: "mcp." + word, URL: u.String(), Connect: "steward mcp connect " + env.Name, Store: opt.Tokens, Learn: opt.Learn}
	if o := d.OAuth; o != nil {
		r.Scopes = o.Scopes
		r.Client = oauth.Registration{ID: o.ClientID, Secret: e.Expand(o.ClientSecret), Document: o.ClientMetadata}
	}
	return r, missing(e)
}

func (o *OAuth) check() error {
	switch u, err := url.Parse(o.ClientMetadata); {
	case o.ClientMetadata != "" && (err != nil || u.Scheme != "https" || len(u.Path) < 2):
		return badDecl("oauth.client_metadata is not an https:// URL")
	case o.ClientSecret != "" && o.ClientID == "":
		return badDecl("oauth has a client_secret but no client_id")
	case slices.Contains(o.Scopes, ""):
		return badDecl("oauth.scopes has an empty word")
	}
	return nil
}

// authorized sends a request with the server's token. A token that is refused is renewed once. If the server
// still refuses, the error says how to connect it.
func (g *guard) authorized(out *http.Request) (*http.Response, error) {
	if g.keys == nil {
		return g.declared(out)
	}
	token, err := g.keys.Token(out.Context())
	if err != nil {
		return nil, tool.NotDone(err)
	}
	res, err := g.send(out, token)
	if err == nil && res.StatusCode == http.StatusUnauthorized && token != "" && (out.Body == nil || out.GetBody != nil) {
		if fresh, no := g.keys.Renew(out.Context(), token); no == nil {
			discard(res)
			if out.GetBody != nil {
				if out.Body, err = out.GetBody(); err != nil {
					return nil, err
				}
			}
			res, err = g.send(out, fresh)
		}
	}
	if err != nil || !accessDenied(res.StatusCode) {
		return res, err
	}
	if why := g.keys.Refused(res); why != nil {
		discard(res)
		why = tool.NotDone(why)
		markOf(out.Context()).denied.Store(&why)
		return nil, why
	}
	return res, nil
}

// declared sends a request with the headers of the declaration. If the server refuses it, its secrets are
// read again: one may have been replaced since.
func (g *guard) declared(out *http.Request) (*http.Response, error) {
	res, err := g.base.RoundTrip(out)
	if err != nil || !accessDenied(res.StatusCode) || g.reread == nil || out.Body != nil && out.GetBody == nil {
		return res, err
	}
	now := g.reread()
	if now == nil || maps.EqualFunc(now, *g.headers.Load(), slices.Equal[[]string]) {
		return res, nil
	}
	if out.GetBody != nil {
		body, err := out.GetBody()
		if err != nil {
			return res, nil // the refusal says more
		}
		out.Body = body
	}
	discard(res)
	g.headers.Store(&now)
	maps.Copy(out.Header, now)
	return g.base.RoundTrip(out)
}

func (g *guard) send(out *http.Request, token string) (*http.Response, error) {
	if token != "" {
		out.Header.Set("Authorization", "Bearer "+token)
	}
	return g.base.RoundTrip(out)
}

// discard drains a response that is not used, so that its connection can be used again.
func discard(res *http.Response) {
	_, _ = io.CopyN(io.Discard, res.Body, maxRefusal) // what was read does not matter
	_ = res.Body.Close()
}
