// Package httpauth is what the faces over HTTP share: who is calling and from
// where, how much may be sent, how JSON is read, and how errors are told.
package httpauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/policy"
)

// Keys knows whom a secret belongs to; identity.Registry is one.
type Keys interface {
	Authenticate(ctx context.Context, secret string) (user string, err error)
}

// Options of a Guard. The zero value lets in who calls from this machine, as
// the local user, and nobody else.
type Options struct {
	Keys       Keys     // nil: no key opens anything
	AdminToken string   // authenticates as the local user, who is an admin then; empty: there is none
	RequireKey bool     // nobody is let in without a key or the token; see RequireKeys
	Hosts      []string // names besides the loopback's under which we are called: "name" or "name:port"
	Origins    []string // web pages besides our own that may call: "https://app.example"
	Logger     *slog.Logger
	// People knows the roles and groups of callers; identity.Registry does.
	// nil: nobody has any, and the local user is an admin.
	People policy.Directory
}

// Guard stands before the faces. Safe for concurrent use.
type Guard struct {
	o     Options
	token [sha256.Size]byte
}

// New returns a guard.
func New(o Options) *Guard {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Guard{o: o, token: sha256.Sum256([]byte(o.AdminToken))}
}

// Caller is who makes a request.
type Caller struct {
	User   string
	Admin  bool // decides about agents, people and policies: by role, or by the admin token
	Roles  []string
	Groups []string
	again  func(context.Context) error
}

// Principal is the caller as policies know him.
func (c Caller) Principal() policy.Principal {
	return policy.Principal{User: c.User, Roles: c.Roles, Groups: c.Groups}
}

// Attended reports whether somebody is there who can be asked: with a service
// nobody is.
func (c Caller) Attended() bool { return !slices.Contains(c.Roles, policy.RoleService) }

// Recheck tells whether the caller would still be let in, as who he was: for
// connections that outlive a key or a role.
func (c Caller) Recheck(ctx context.Context) error {
	if c.again == nil {
		return nil
	}
	return c.again(ctx)
}

type callerKey struct{}

// With returns ctx carrying the caller.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From returns the caller of a request that came through a Guard. Without
// one it is an error (unauthenticated): a face that was mounted bare lets
// nobody in.
func From(ctx context.Context) (Caller, error) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	if !ok || c.User == "" {
		return Caller{}, fault.New(fault.Unauthentic, "unauthenticated", "nobody has said who is calling")
	}
	return c, nil
}

// Fail writes an error as the answer to a request, in a face's own form.
type Fail func(w http.ResponseWriter, r *http.Request, err error)

// Wrap lets through to next whom the guard lets in, with the Caller in the
// request's context, and answers the others by fail (nil: WriteError).
// Refusals are host_refused, origin_refused (Denied), key_missing and those
// of Keys (Unauthentic).
func (g *Guard) Wrap(next http.Handler, fail Fail) http.Handler {
	if fail == nil {
		fail = func(w http.ResponseWriter, r *http.Request, err error) { WriteError(w, r, g.o.Logger, err) }
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done, err := g.place(w, r)
		if err == nil && done {
			return
		}
		var c Caller
		if err == nil {
			c, err = g.caller(r)
		}
		if err != nil {
			g.o.Logger.InfoContext(r.Context(), "request refused", "code", fault.Of(err).Code, "path", r.URL.Path, "from", r.RemoteAddr)
			if fault.Is(err, fault.Unauthentic) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="steward"`)
			}
			fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(With(r.Context(), c)))
	})
}

// caller finds out who calls. Where no key is needed, a bearer token that is
// none of ours counts as none: many clients insist on sending something.
func (g *Guard) caller(r *http.Request) (Caller, error) {
	secret := bearer(r)
	if g.o.AdminToken != "" && secret != "" {
		if sum := sha256.Sum256([]byte(secret)); subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1 {
			c, err := g.person(r.Context(), identity.Local, "")
			if err != nil { // who holds the token mends it
				c = Caller{User: identity.Local}
			}
			c.Admin = true
			return c, nil
		}
	}
	ours := strings.HasPrefix(secret, identity.Prefix)
	if !ours && !g.o.RequireKey && near(r) {
		return g.person(r.Context(), identity.Local, "")
	}
	if secret == "" {
		return Caller{}, fault.New(fault.Unauthentic, "key_missing", "a key is needed here").
			With("send the header Authorization: Bearer sk-steward-…; steward keys create makes one")
	}
	if g.o.Keys == nil {
		return Caller{}, fault.New(fault.Unauthentic, "key_unknown", "nobody has this key").
			With("make one with steward keys create")
	}
	user, err := g.o.Keys.Authenticate(r.Context(), secret)
	if err != nil {
		return Caller{}, err
	}
	return g.person(r.Context(), user, secret)
}

// person is a user as a caller, with the secret by which he came.
func (g *Guard) person(ctx context.Context, user, secret string) (Caller, error) {
	c := Caller{User: user, Admin: user == identity.Local}
	if g.o.People != nil {
		p, err := g.o.People.Principal(ctx, user)
		if err != nil {
			return Caller{}, err
		}
		c = Caller{User: user, Admin: p.Has(policy.RoleAdmin), Roles: p.Roles, Groups: p.Groups}
	}
	was := c
	c.again = func(ctx context.Context) error {
		if secret != "" {
			if _, err := g.o.Keys.Authenticate(ctx, secret); err != nil {
				return err
			}
		}
		now, err := g.person(ctx, user, secret)
		if err == nil && (!slices.Equal(now.Roles, was.Roles) || !slices.Equal(now.Groups, was.Groups)) {
			err = fault.New(fault.Unauthentic, "caller_changed", "the roles or groups of %s have changed", user).
				With("connect again").Retrying(fault.RetryImmediate, 0)
		}
		return err
	}
	return c, nil
}

func bearer(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

// near reports whether the request comes from this machine, and not through
// a proxy on it that speaks for others.
func near(r *http.Request) bool {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"} {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}
