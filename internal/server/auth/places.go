package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"

	"steward/internal/fault"
)

// Places says which node of a cluster answers a request; package forward implements it. Without a cluster
// there are none, and this node answers everything.
type Places interface {
	// Find returns the place where a request of a caller is answered. Its errors are answers to the request.
	Find(r *http.Request, c Caller) (Place, error)
}

// Place is where a request is answered.
type Place struct {
	Elsewhere func(fail Fail) http.Handler // passes the request on to another node; nil: this node answers it
	Left      <-chan struct{}              // closed when this node begins to let go of the user: connections end; nil: never
	Gone      <-chan struct{}              // closed when it has let go: requests that are left end; nil: never
	Leave     func()                       // must be called at the end of the request; nil: nothing is to be done
}

// errLeft ends requests whose user another node works for from now on.
var errLeft error = fault.New(fault.Unavailable, "space_moved", "another node of the cluster goes on with this").
	WithHint("send the request again").Retrying(fault.RetryImmediate, 0)

// answer passes a request on to next, or to the node that answers it.
func (g *Guard) answer(w http.ResponseWriter, r *http.Request, c Caller, next http.Handler, fail Fail) {
	if g.o.Places == nil {
		next.ServeHTTP(w, r.WithContext(With(r.Context(), c)))
		return
	}
	at, err := g.o.Places.Find(r, c)
	if err != nil {
		fail(w, r, err)
		return
	}
	if at.Leave != nil {
		defer at.Leave()
	}
	if at.Elsewhere != nil {
		at.Elsewhere(fail).ServeHTTP(w, r)
		return
	}
	ctx := With(r.Context(), c)
	if at.Gone != nil {
		c.left = at.Left
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(With(r.Context(), c))
		defer cancel(nil)
		go func() {
			select {
			case <-at.Gone:
				cancel(errLeft)
			case <-ctx.Done():
			}
		}()
	}
	next.ServeHTTP(w, r.WithContext(ctx))
}

// Left is closed when this node must not work for the caller any more, because another node does. It is nil
// without a cluster.
func (c Caller) Left() <-chan struct{} { return c.left }

// ForwardedHeader has the caller of a request that one node of a cluster passes on to another.
const ForwardedHeader = "Steward-Forwarded"

// MaxHops is how often a request is passed on: its user may move meanwhile.
const MaxHops = 3

// forwarded is the content of the header.
type forwarded struct {
	User   string   `json:"user"` // empty: nobody, such as a webhook, whose signature its server checks
	Admin  bool     `json:"admin,omitempty"`
	Roles  []string `json:"roles,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Hops   int      `json:"hops"`
}

// Forward adds a caller to the header of a request that is passed on to another node. In place of r's
// credential, of which the other node may know nothing, it counts there who the caller is.
func Forward(h http.Header, r *http.Request, c Caller) {
	b, err := json.Marshal(forwarded{User: c.User, Admin: c.Admin, Roles: c.Roles, Groups: c.Groups, Hops: Hops(r) + 1})
	if err != nil { // it is a struct of texts
		panic(err)
	}
	h.Del("Authorization")
	h.Set(ForwardedHeader, base64.StdEncoding.EncodeToString(b))
}

type trustedKey struct{}

// Trust returns the context of the requests that arrive at a listener that only the other nodes of the cluster
// reach. There, and nowhere else, a Guard takes the caller from ForwardedHeader: what a request says of itself
// has no part in it.
func Trust(ctx context.Context) context.Context { return context.WithValue(ctx, trustedKey{}, true) }

// Trusted reports whether another node of the cluster has passed a request on to this one.
func Trusted(r *http.Request) bool {
	trusted, _ := r.Context().Value(trustedKey{}).(bool)
	return trusted
}

// Hops returns how often nodes have passed a request on.
func Hops(r *http.Request) int {
	f, err := readForwarded(r)
	if err != nil {
		return 0
	}
	return f.Hops
}

// Untrusted removes from requests what only other nodes of the cluster may say. It is for all listeners but theirs.
func Untrusted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		delete(r.Header, ForwardedHeader)
		next.ServeHTTP(w, r)
	})
}

func readForwarded(r *http.Request) (f forwarded, err error) {
	if !Trusted(r) {
		return f, fault.New(fault.Unauthentic, "forward_untrusted", "this is not a listener of the cluster")
	}
	b, err := base64.StdEncoding.DecodeString(r.Header.Get(ForwardedHeader))
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		return f, fault.New(fault.Unauthentic, "forward_invalid", "another node did not say who is calling").
			WithHint("run the same version of Steward on all nodes")
	}
	return f, nil
}

// forwardedCaller returns the caller of a request that another node has passed on. That node has checked the
// credential, and checks it again while the request lasts; this one checks the rights.
func (g *Guard) forwardedCaller(r *http.Request) (Caller, error) {
	f, err := readForwarded(r)
	if err != nil {
		return Caller{}, err
	}
	c := Caller{User: f.User, Admin: f.Admin, Roles: f.Roles, Groups: f.Groups}
	if g.o.People != nil {
		c.again = func(ctx context.Context) error {
			now, err := g.o.People.Principal(ctx, f.User)
			if err == nil && (!slices.Equal(now.Roles, f.Roles) || !slices.Equal(now.Groups, f.Groups)) {
				err = callerChanged(f.User)
			}
			return err
		}
	}
	return c, nil
}

func callerChanged(user string) error {
	return fault.New(fault.Unauthentic, "caller_changed", "the roles or groups of %s have changed", user).
		WithHint("connect again").Retrying(fault.RetryImmediate, 0)
}
