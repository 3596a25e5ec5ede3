package auth

import (
	"context"
	"net/http"
	"strings"

	"steward/internal/fault"
	"steward/internal/identity"
)

// Sessions looks up the session of a browser; identity.Registry implements it.
type Sessions interface {
	AuthenticateSession(ctx context.Context, secret string) (identity.Session, error)
}

// Browser passes requests of browsers on to next. A request with the cookie of a session has its Caller in the
// context; any other request has none, and From refuses it. Pages of other origins can do nothing, not even
// those of Options.Origins: these call the API with a key of their own. Refusals are host_refused and
// origin_refused (Denied), and those of Intake.
func (g *Guard) Browser(sessions Sessions, next http.Handler, fail Fail) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Trusted(r) {
			g.Wrap(next, fail).ServeHTTP(w, r)
			return
		}
		if err := g.ownPage(r); err != nil {
			g.o.Logger.InfoContext(r.Context(), "request refused", "code", fault.Of(err).Code, "path", r.URL.Path, "from", r.RemoteAddr)
			fail(w, r, err)
			return
		}
		cookie, err := r.Cookie(CookieName(r))
		if err != nil {
			next.ServeHTTP(w, r)
			return
		}
		c, err := g.session(r.Context(), sessions, cookie.Value)
		switch {
		case fault.Is(err, fault.Unauthentic):
			next.ServeHTTP(w, r)
			return
		case err != nil:
			fail(w, r, err)
			return
		}
		leave, err := g.o.Intake.enter(&c)
		if err != nil {
			fail(w, r, err)
			return
		}
		defer leave()
		g.answer(w, r, c, next, fail)
	})
}

// ownPage returns an error unless a request is addressed to us and was made by our own page, by the person (a
// link, an address typed), or by a program. What changes something must say that our own page makes it.
func (g *Guard) ownPage(r *http.Request) error {
	if !g.hostAllowed(r) {
		return fault.New(fault.Denied, "host_refused", "unknown host %.100q", r.Host).
			WithHint("use the address that Steward listens on, or add the name to the setting hosts")
	}
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	own := site == "same-origin" && (origin == "" || sameHost(origin, r.Host)) || site == "" && origin != "" && sameHost(origin, r.Host)
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	visit := safe && origin == "" && (site == "" || site == "none" || r.Header.Get("Sec-Fetch-Mode") == "navigate")
	if !own && !visit {
		return fault.New(fault.Denied, "origin_refused", "only Steward's own page may ask for this")
	}
	// A form of another page can send neither of these types.
	if kind := r.Header.Get("Content-Type"); !safe && !strings.HasPrefix(kind, "application/json") && kind != "application/octet-stream" {
		return fault.New(fault.Unsupported, "media_type", "the content type must be application/json, or application/octet-stream for a file")
	}
	return nil
}

// session returns the caller of a session.
func (g *Guard) session(ctx context.Context, sessions Sessions, secret string) (Caller, error) {
	s, err := sessions.AuthenticateSession(ctx, secret)
	if err != nil {
		return Caller{}, err
	}
	return g.person(ctx, s.User, func(ctx context.Context) error {
		_, err := sessions.AuthenticateSession(ctx, secret)
		return err
	})
}

// CookieName returns the name of the cookie of a session. It has the port in it, because browsers share the
// cookies of a host among its ports. Over TLS it begins with __Host-, so that no other name of the same domain,
// and no page without TLS, can put a session of its own in its place.
func CookieName(r *http.Request) string {
	_, port := splitHost(r.Host, defaultPort(r))
	if Secure(r) {
		return "__Host-steward_" + port
	}
	return "steward_" + port
}

// Secure reports whether a browser has sent a request over TLS, to Steward or to the proxy in front of it.
func Secure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}
