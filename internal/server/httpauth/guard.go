// Package httpauth is what the servers over HTTP share: who is calling and from
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

// Options of a Guard. With the zero value nobody is let in.
type Options struct {
	Keys Keys // nil: no key opens anything
	// Token reads the token of the machine's own user (ReadToken), who is an
	// admin by it. An error lets nobody in. nil: there is none.
	Token   func() (string, error)
	AnyHost bool     // without Hosts, any name will do: for what other machines reach under names that nobody has told
	Hosts   []string // names besides the loopback's under which we are called: "name" or "name:port"
	Origins []string // web pages besides our own that may call: "https://app.example"
	Open    []string // paths that programs of this machine may use without a credential, as identity.Anonymous
	Logger  *slog.Logger
	// People knows the roles and groups of callers; identity.Registry does.
	// nil: nobody has any, and the local user is an admin.
	People policy.Directory
}

// Guard stands before the servers: nobody comes through without a key or the
// token, wherever he calls from. Safe for concurrent use.
type Guard struct{ o Options }

// New returns a guard.
func New(o Options) *Guard {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Guard{o}
}

// Caller is who makes a request.
type Caller struct {
	User   string
	Admin  bool // decides about agents, people and policies: by role, or by the token
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
// one it is an error (unauthenticated): a server that was mounted bare lets
// nobody in.
func From(ctx context.Context) (Caller, error) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	if !ok || c.User == "" {
		return Caller{}, fault.New(fault.Unauthentic, "unauthenticated", "nobody has said who is calling")
	}
	return c, nil
}

// Fail writes an error as the answer to a request, in a server's own form.
type Fail func(w http.ResponseWriter, r *http.Request, err error)

// Wrap lets through to next whom the guard lets in, with the Caller in the
// request's context, and answers the others by fail (nil: WriteError).
// Refusals are host_refused, origin_refused (Denied), key_missing and those
// of Keys (Unauthentic), media_type (Unsupported).
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
		if err == nil {
			err = formless(r)
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

// caller finds out who calls.
func (g *Guard) caller(r *http.Request) (Caller, error) {
	secret := bearer(r)
	if !strings.HasPrefix(secret, identity.Prefix) && g.open(r) { // many clients insist on sending something
		return Caller{User: identity.Anonymous, Roles: []string{policy.RoleGuest, policy.RoleService}}, nil
	}
	if secret == "" {
		return Caller{}, fault.New(fault.Unauthentic, "key_missing", "a credential is needed here").
			WithHint("send the header Authorization: Bearer …, with what steward token prints on this machine, or with a key of steward keys create")
	}
	if g.isToken(secret) == nil {
		c, err := g.person(r.Context(), identity.Local, func(context.Context) error { return g.isToken(secret) })
		if err != nil { // who holds the token mends it
			c = Caller{User: identity.Local}
		}
		c.Admin = true
		return c, nil
	}
	if g.o.Keys == nil {
		return Caller{}, unknown()
	}
	user, err := g.o.Keys.Authenticate(r.Context(), secret)
	if err != nil {
		return Caller{}, err
	}
	return g.person(r.Context(), user, func(ctx context.Context) error {
		_, err := g.o.Keys.Authenticate(ctx, secret)
		return err
	})
}

// open reports whether a request needs no credential: it is for a path that the
// settings name, or below one, and comes from this machine, under a name of
// this machine, and not through a proxy that speaks for others.
func (g *Guard) open(r *http.Request) bool {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"} {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	name, _ := splitHost(r.Host, "")
	return err == nil && net.ParseIP(from).IsLoopback() && loopbackName(name) && slices.ContainsFunc(g.o.Open, func(path string) bool {
		return r.URL.Path == path || strings.HasPrefix(r.URL.Path, path+"/")
	})
}

// isToken refuses a secret that is not the token as it is now (key_unknown, or
// token_unusable of the kind Unavailable where that cannot be told).
func (g *Guard) isToken(secret string) error {
	if g.o.Token == nil {
		return unknown()
	}
	token, err := g.o.Token()
	if err != nil {
		g.o.Logger.Warn("the token opens nothing", "error", err)
		if fault.Is(err, fault.Unavailable) {
			return err // it may still be the one
		}
		return unknown()
	}
	got, want := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return unknown()
	}
	return nil
}

func unknown() error {
	return fault.New(fault.Unauthentic, "key_unknown", "nobody has this key").
		WithHint("steward token prints the token of this machine's user, and steward keys create makes a key")
}

// person is a user as a caller, whose credential good looks at again.
func (g *Guard) person(ctx context.Context, user string, good func(context.Context) error) (Caller, error) {
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
		if err := good(ctx); err != nil {
			return err
		}
		now, err := g.person(ctx, user, good)
		if err == nil && (!slices.Equal(now.Roles, was.Roles) || !slices.Equal(now.Groups, was.Groups)) {
			err = fault.New(fault.Unauthentic, "caller_changed", "the roles or groups of %s have changed", user).
				WithHint("connect again").Retrying(fault.RetryImmediate, 0)
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
