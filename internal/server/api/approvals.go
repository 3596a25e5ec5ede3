package api

import (
	"context"
	"net/http"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/runtime"
	"steward/internal/server/httpauth"
)

// Approver puts questions to people and keeps what they have allowed for
// longer; runtime.Node is one.
type Approver interface {
	Approvals(ctx context.Context, user string) ([]effect.Question, error)
	Approval(ctx context.Context, user, which string, p intent.Pattern) (effect.Question, error)
	Decide(ctx context.Context, user string, v runtime.Verdict) error
	Grants(ctx context.Context, user string, all bool) ([]runtime.GrantView, error)
	Grant(ctx context.Context, user string, grant id.ID) (runtime.GrantView, error)
	ShowGrantEdit(ctx context.Context, user string, grant id.ID, ed effect.GrantEdit) (runtime.GrantEdited, error)
	EditGrant(ctx context.Context, user string, grant id.ID, ed effect.GrantEdit) (runtime.GrantView, error)
	RevokeGrant(ctx context.Context, user string, grant id.ID) error
}

// asking are the routes about what waits for a person, and standing approvals.
func (f *server) asking() map[string]serve {
	return map[string]serve{
		"GET /approvals":              f.approvals,
		"GET /approvals/{id}?pattern": f.approval,
		"POST /approvals/{id}":        f.answer,
		"GET /grants?all":             f.grants,
		"GET /grants/{id}":            f.grant,
		"POST /grants/{id}/preview":   f.previewGrant,
		"PATCH /grants/{id}":          f.editGrant,
		"DELETE /grants/{id}":         f.revokeGrant,
	}
}

// approvals answers with what waits for the caller's word.
func (f *server) approvals(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	list, err := f.Node.Approvals(r.Context(), c.User)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, struct {
		Approvals []effect.Question `json:"approvals"`
	}{append([]effect.Question{}, list...)})
}

// approval answers with one question, as it is shown with a pattern.
func (f *server) approval(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var p intent.Pattern
	if s := r.URL.Query().Get("pattern"); s != "" {
		if err := httpauth.Unmarshal([]byte(s), &p); err != nil {
			return err
		}
	}
	q, err := f.Node.Approval(r.Context(), c.User, r.PathValue("id"), p)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, q)
}

// answer records what the caller says to a question.
func (f *server) answer(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var in struct {
		Approve *bool `json:"approve"`
		httpauth.Answer
	}
	if err := httpauth.Decode(w, r, maxAnswer, &in); err != nil {
		return err
	}
	switch {
	case in.Approve == nil:
		return missing("approve")
	case in.Hash == "":
		return missing("hash")
	}
	v, err := in.Verdict(c, r.PathValue("id"), *in.Approve)
	if err == nil {
		err = f.Node.Decide(r.Context(), c.User, v)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// maxAnswer is enough for the arguments of a call as a person wants them.
const maxAnswer = 4 << 20

func missing(member string) error {
	return fault.New(fault.Invalid, "member_missing", "the member %s is missing", member).Detail("member", "/"+member)
}

// grants answers with the caller's standing approvals.
func (f *server) grants(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	all, err := flagOf(r.URL.Query().Get("all"), "all")
	if err != nil {
		return err
	}
	list, err := f.Node.Grants(r.Context(), c.User, all)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, struct {
		Grants []runtime.GrantView `json:"grants"`
	}{append([]runtime.GrantView{}, list...)})
}

func (f *server) grant(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	x, err := pathID(r, "grant")
	if err != nil {
		return err
	}
	g, err := f.Node.Grant(r.Context(), c.User, x)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, g)
}

// changed reads how a standing approval is to be otherwise.
func changed(w http.ResponseWriter, r *http.Request, c httpauth.Caller) (id.ID, effect.GrantEdit, error) {
	x, err := pathID(r, "grant")
	if err != nil {
		return x, effect.GrantEdit{}, err
	}
	var in httpauth.GrantChange
	if err := httpauth.Decode(w, r, maxBody, &in); err != nil {
		return x, effect.GrantEdit{}, err
	}
	ed, err := in.Edit(c)
	return x, ed, err
}

// previewGrant answers with what a change would make of a standing approval.
func (f *server) previewGrant(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	x, ed, err := changed(w, r, c)
	if err != nil {
		return err
	}
	e, err := f.Node.ShowGrantEdit(r.Context(), c.User, x, ed)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, e)
}

func (f *server) editGrant(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	x, ed, err := changed(w, r, c)
	if err != nil {
		return err
	}
	g, err := f.Node.EditGrant(r.Context(), c.User, x, ed)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, g)
}

func (f *server) revokeGrant(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	x, err := pathID(r, "grant")
	if err == nil {
		err = f.Node.RevokeGrant(r.Context(), c.User, x)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
