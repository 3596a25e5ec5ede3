// Package auth holds what all HTTP servers share: authentication of the caller, checks of Host
// and Origin, size limits of requests, strict JSON decoding, and the form of errors.
package auth

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

// Keys looks up the owner of a key; identity.Registry implements it.
type Keys interface {
	Authenticate(ctx context.Context, secret string) (user string, err error)
}

// Options configure a Guard. The zero value lets nobody in.
type Options struct {
	Keys Keys // nil: no key is valid
	// Token returns the token of the machine's own user (ReadToken), which makes its bearer an
	// admin. If it returns an error, nobody is let in by a token. If nil, there is no token.
	Token   func() (string, error)
	AnyHost bool     // without Hosts, any name is accepted: for servers that other machines reach under unknown names
	AnyIP   bool     // any IP address is accepted as a name: no DNS server can point one at this server
	Hosts   []string // names besides those of the loopback that requests may be addressed to: "name" or "name:port"
	Origins []string // origins of web pages besides our own that may call: "https://app.example"
	Open    []string // paths that programs on this machine may call without a credential, as identity.Anonymous
	Logger  *slog.Logger
	// People looks up the roles and groups of callers; identity.Registry implements it. If nil,
	// nobody has any, and the local user is an admin.
	People policy.Directory
	Intake *Intake // bounds what callers take; nil: nothing does
	// Limited looks up the owner of a key that is limited to one thing (Guard.Only); nil: there are no such keys.
	Limited func(ctx context.Context, secret, only string) (user string, err error)
	Places  Places // of a cluster; nil: this node answers all requests
}

// Guard authenticates requests before they reach the servers: nobody gets through without a key or
// the token, wherever the request comes from. It is safe for concurrent use.
type Guard struct{ o Options }

// New returns a guard.
func New(o Options) *Guard {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Guard{o}
}

// Caller identifies who makes a request.
type Caller struct {
	User   string
	Admin  bool // may decide about agents, people and policies: by role, or by the token
	Roles  []string
	Groups []string
	again  func(context.Context) error
	share  *share // nil: without bounds
	inside bool   // Inside
	left   <-chan struct{}
}

// Inside returns the caller for requests that are made within the caller's own request, in this process: what
// they carry has its room in memory already, and a request that waited for more while it holds some could wait
// for ever.
func (c Caller) Inside() Caller {
	c.inside = true
	return c
}

// Principal returns the caller as a principal for policy.
func (c Caller) Principal() policy.Principal {
	return policy.Principal{User: c.User, Roles: c.Roles, Groups: c.Groups}
}

// Attended reports whether the caller is a person, who can be asked for approval, and not a service.
func (c Caller) Attended() bool { return !slices.Contains(c.Roles, policy.RoleService) }

// Recheck returns an error if the caller would no longer be let in, or not as the same principal.
// It is for connections that outlive a key or a role.
func (c Caller) Recheck(ctx context.Context) error {
	if c.again == nil {
		return nil
	}
	return c.again(ctx)
}

// Lasting returns the caller for work that outlives its request. Whoever uses it makes sure that the caller may
// still do it: it is not checked again, and takes no share of the Intake.
func (c Caller) Lasting() Caller {
	c.again, c.share = nil, nil
	return c
}

type callerKey struct{}

// With returns ctx carrying the caller.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From returns the caller of a request that passed a Guard. Without one it returns an error
// (unauthenticated), so that a server mounted without a Guard lets nobody in.
func From(ctx context.Context) (Caller, error) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	if !ok || c.User == "" {
		return Caller{}, fault.New(fault.Unauthentic, "unauthenticated", "authentication required")
	}
	return c, nil
}

// Fail writes an error as the answer to a request, in the server's own form.
type Fail func(w http.ResponseWriter, r *http.Request, err error)

// Wrap passes on to next the requests that the guard lets in, with the Caller in the request's
// context. It answers the others with fail (nil: WriteError). Refusals are host_refused,
// origin_refused (Denied), key_missing and those of Keys (Unauthentic), media_type (Unsupported).
func (g *Guard) Wrap(next http.Handler, fail Fail) http.Handler {
	if fail == nil {
		fail = func(w http.ResponseWriter, r *http.Request, err error) { WriteError(w, r, g.o.Logger, err) }
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, done, err := g.letIn(w, r)
		if done {
			return
		}
		if err != nil {
			g.o.Logger.InfoContext(r.Context(), "request refused", "code", fault.Of(err).Code, "path", r.URL.Path, "from", r.RemoteAddr)
			if fault.Is(err, fault.Unauthentic) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="steward"`)
			}
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

// letIn returns the caller of a request. done says that it has been answered. What another node of the cluster
// passes on has been checked there.
func (g *Guard) letIn(w http.ResponseWriter, r *http.Request) (c Caller, done bool, err error) {
	if Trusted(r) {
		c, err = g.forwardedCaller(r)
		return c, false, err
	}
	if done, err = g.place(w, r); err == nil && !done {
		c, err = g.caller(r)
	}
	if err == nil && !done {
		err = refuseForms(r)
	}
	return c, done && err == nil, err
}

// Only passes on the requests of admins, and those with a key that is limited to what is named. It answers others
// as Wrap does, and admin_only (Denied).
func (g *Guard) Only(what string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		here := &Guard{g.o}
		here.o.Places = nil // what this process knows of itself
		admins := here.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c, err := From(r.Context()); err != nil || !c.Admin {
				WriteError(w, r, g.o.Logger, fault.New(fault.Denied, "admin_only", "only admins may read this").WithHint("ask an admin"))
				return
			}
			next.ServeHTTP(w, r)
		}), nil)
		if secret := bearer(r); what != "" && g.o.Limited != nil && strings.HasPrefix(secret, identity.Prefix) && r.Header.Get("Origin") == "" {
			if _, err := g.o.Limited(r.Context(), secret, what); err == nil {
				next.ServeHTTP(w, r)
				return
			}
		}
		admins.ServeHTTP(w, r)
	})
}

// caller authenticates the caller.
func (g *Guard) caller(r *http.Request) (Caller, error) {
	secret := bearer(r)
	if !strings.HasPrefix(secret, identity.Prefix) && g.open(r) { // many clients always send some key, even a dummy
		return Caller{User: identity.Anonymous, Roles: []string{policy.RoleGuest, policy.RoleService}}, nil
	}
	if secret == "" {
		return Caller{}, fault.New(fault.Unauthentic, "key_missing", "authentication required").
			WithHint("send the header Authorization: Bearer …, with the token that steward token prints on this machine, or with a key from steward keys create")
	}
	if g.isToken(secret) == nil {
		c, err := g.person(r.Context(), identity.Local, func(context.Context) error { return g.isToken(secret) })
		if err != nil { // the token's holder must be able to repair the account
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

// open reports whether a request needs no credential: its path is one of Options.Open or below one,
// and it comes from this machine, is addressed to a name of this machine, and was not forwarded by
// a proxy.
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

// isToken returns an error unless the secret is the current token: key_unknown, or token_unusable
// of the kind Unavailable if the token cannot be read now.
func (g *Guard) isToken(secret string) error {
	if g.o.Token == nil {
		return unknown()
	}
	token, err := g.o.Token()
	if err != nil {
		g.o.Logger.Warn("the token cannot be used", "error", err)
		if fault.Is(err, fault.Unavailable) {
			return err // the secret may still be the token
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
	return fault.New(fault.Unauthentic, "key_unknown", "unknown API key").
		WithHint("steward token prints the token of this machine's user, and steward keys create creates a key")
}

// person returns a user as a caller. good rechecks the user's credential.
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
			err = callerChanged(user)
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
