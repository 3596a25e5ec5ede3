package api

import (
	"net/http"
	"time"

	"steward/client"
	"steward/internal/identity"
	"steward/internal/server/httpauth"
)

func viewKey(k identity.Key) client.Key {
	return client.Key{ID: k.ID.String(), User: k.User, Name: k.Name, Hint: k.Hint, Created: k.Created, Expires: k.Expires, Revoked: k.Revoked, Usable: k.Usable(time.Now())}
}

func (f *server) keys(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	if err := admin(c); err != nil {
		return err
	}
	list, err := f.Identity.List(r.Context(), r.URL.Query().Get("user"))
	if err != nil {
		return err
	}
	out := struct {
		Keys []client.Key `json:"keys"`
	}{make([]client.Key, len(list))}
	for i, k := range list {
		out.Keys[i] = viewKey(k)
	}
	return reply(w, http.StatusOK, out)
}

func (f *server) createKey(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	if err := admin(c); err != nil {
		return err
	}
	var in struct {
		User    string    `json:"user"`
		Name    string    `json:"name"`
		Expires time.Time `json:"expires"`
	}
	if err := httpauth.Decode(w, r, maxBody, &in); err != nil {
		return err
	}
	k, secret, err := f.Identity.Create(r.Context(), in.User, in.Name, in.Expires)
	if err != nil {
		return err
	}
	out := viewKey(k)
	out.Secret = secret
	return reply(w, http.StatusCreated, out)
}

func (f *server) revokeKey(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	if err := admin(c); err != nil {
		return err
	}
	x, err := pathID(r, "key")
	if err != nil {
		return err
	}
	if err := f.Identity.Revoke(r.Context(), x); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (f *server) profile(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	p, err := f.Identity.Profile(r.Context(), c.User)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, p)
}

func (f *server) setProfile(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var p identity.Profile
	if err := httpauth.Decode(w, r, maxBody, &p); err != nil {
		return err
	}
	p, err := f.Identity.SetProfile(r.Context(), c.User, p)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, p)
}

type modelView struct {
	Name     string    `json:"name"` // "provider/model"
	Provider string    `json:"provider"`
	Created  time.Time `json:"created,omitzero"`
	Window   int       `json:"window,omitzero"`
	Embedder bool      `json:"embedder,omitzero"`
}

type failureView struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitzero"`
}

func (f *server) models(w http.ResponseWriter, r *http.Request, _ httpauth.Caller) error {
	found, aliases := f.Node.Models(r.Context())
	out := struct {
		Aliases []string               `json:"aliases"`
		Models  []modelView            `json:"models"`
		Errors  map[string]failureView `json:"errors,omitempty"` // by provider
	}{append([]string{}, aliases...), make([]modelView, len(found.Models)), map[string]failureView{}}
	for i, m := range found.Models {
		out.Models[i] = modelView{m.Full(), m.Provider, m.Created, m.Window, m.Embedder}
	}
	for provider, err := range found.Errors {
		e := httpauth.Public(err)
		out.Errors[provider] = failureView{e.Code, e.Message, e.Remedy}
	}
	return reply(w, http.StatusOK, out)
}
