package api

import (
	"cmp"
	"context"
	"net/http"

	"steward/internal/fault"
	"steward/internal/runtime"
	"steward/internal/server/httpauth"
)

// Requester tells of requests and ends them; runtime.Node is one. which is an
// id, or at least 8 characters of its beginning.
type Requester interface {
	Requests(ctx context.Context, user string, all bool, limit int) ([]runtime.RequestView, error)
	RequestTree(ctx context.Context, user, which string) (runtime.RequestView, error)
	CancelRequest(ctx context.Context, user, which string) error
	ResumeRequest(ctx context.Context, user, which string) error
	// EverybodysRequests are those of all users, for admins.
	EverybodysRequests(ctx context.Context, all bool, limit int) ([]runtime.RequestView, error)
}

// requests answers with the requests that are open, or the newest ones.
func (f *server) requests(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	_, limit, err := page(r)
	if err != nil {
		return err
	}
	all, err := flagOf(r.URL.Query().Get("all"), "all")
	if err != nil {
		return err
	}
	everybody, err := flagOf(r.URL.Query().Get("all_users"), "all_users")
	if err != nil {
		return err
	}
	var list []runtime.RequestView
	switch {
	case !everybody:
		list, err = f.Node.Requests(r.Context(), c.User, all, limit)
	case c.Admin:
		list, err = f.Node.EverybodysRequests(r.Context(), all, limit)
	default:
		err = fault.New(fault.Denied, "admin_only", "only an admin is told of the requests of all users").WithHint("leave all_users out")
	}
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, struct {
		Requests []runtime.RequestView `json:"requests"`
	}{append([]runtime.RequestView{}, list...)})
}

// request answers with the tree of a request.
func (f *server) request(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	tree, err := f.Node.RequestTree(r.Context(), c.User, r.PathValue("id"))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, tree)
}

// cancelRequest ends what a request still does.
func (f *server) cancelRequest(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	return f.onRequest(w, r, c, f.Node.CancelRequest)
}

// resumeRequest goes on with a turn that is parked.
func (f *server) resumeRequest(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	return f.onRequest(w, r, c, f.Node.ResumeRequest)
}

// onRequest does something with a request of the caller, or, for an admin, of
// the user that is named.
func (f *server) onRequest(w http.ResponseWriter, r *http.Request, c httpauth.Caller, do func(ctx context.Context, user, which string) error) error {
	user := cmp.Or(r.URL.Query().Get("user"), c.User)
	if user != c.User && !c.Admin {
		return fault.New(fault.Denied, "admin_only", "only an admin decides about the requests of others").WithHint("leave user out")
	}
	if err := do(r.Context(), user, r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
