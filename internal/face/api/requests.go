package api

import (
	"context"
	"net/http"
	"strconv"

	"steward/internal/face/httpauth"
	"steward/internal/fault"
	"steward/internal/runtime"
)

// Requester tells of requests and ends them; runtime.Node is one. which is an
// id, or at least 8 characters of its beginning.
type Requester interface {
	Requests(ctx context.Context, user string, all bool, limit int) ([]runtime.RequestView, error)
	RequestTree(ctx context.Context, user, which string) (runtime.RequestView, error)
	CancelRequest(ctx context.Context, user, which string) error
}

// requests answers with the requests that are open, or the newest ones.
func (f *face) requests(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	_, limit, err := page(r)
	if err != nil {
		return err
	}
	all := false
	if s := r.URL.Query().Get("all"); s != "" {
		if all, err = strconv.ParseBool(s); err != nil {
			return fault.New(fault.Invalid, "all_invalid", "all=%.40q is neither true nor false", s).With("use true or false")
		}
	}
	list, err := f.Node.Requests(r.Context(), c.User, all, limit)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, struct {
		Requests []runtime.RequestView `json:"requests"`
	}{append([]runtime.RequestView{}, list...)})
}

// request answers with the tree of a request.
func (f *face) request(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	tree, err := f.Node.RequestTree(r.Context(), c.User, r.PathValue("id"))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, tree)
}

// cancelRequest ends what a request still does.
func (f *face) cancelRequest(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	if err := f.Node.CancelRequest(r.Context(), c.User, r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
