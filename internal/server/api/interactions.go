package api

import (
	"net/http"
	"time"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/server/httpauth"
)

func viewChanges(list []conversation.Optimization) []client.Change {
	out := make([]client.Change, len(list))
	for i, o := range list {
		out[i] = client.Change{Message: o.Message.String(), State: string(o.State), At: o.At, Actor: o.Actor, Tool: o.Tool, Call: o.Call,
			Interaction: o.Interaction.String(), Strategy: o.Strategy, Reason: o.Reason, By: o.By.String(), Undone: o.Undone, UndoneBy: o.UndoneBy}
	}
	return out
}

func (f *server) interaction(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	conv, err := f.read(w, r, nil)
	if err != nil {
		return err
	}
	x, err := element(r, "interaction")
	if err != nil {
		return err
	}
	in, err := f.Node.Interaction(r.Context(), c.User, conv, x)
	if err != nil {
		return err
	}
	type part struct {
		Message id.ID           `json:"message_id"`
		Role    message.Role    `json:"role"`
		State   record.Validity `json:"state"`
	}
	parts := make([]part, len(in.Entries))
	for i, e := range in.Entries {
		parts[i] = part{e.ID, e.Role, e.Change.State}
	}
	return reply(w, http.StatusOK, struct {
		ID       id.ID           `json:"id"`
		Origin   string          `json:"origin"`
		Started  time.Time       `json:"started"`
		Stopped  time.Time       `json:"stopped,omitzero"`
		Outcome  string          `json:"outcome,omitzero"`
		Into     id.ID           `json:"into,omitzero"`
		State    record.Validity `json:"state"`
		By       string          `json:"by,omitzero"`
		Tools    map[string]int  `json:"tools"`
		Messages []part          `json:"messages"`
		Changes  []client.Change `json:"changes"`
	}{in.ID, in.Origin, in.Started, in.Stopped, in.Outcome, in.Into, in.State, in.By, in.Tools, parts, viewChanges(in.Changes)})
}

func (f *server) merge(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var in struct {
		From id.ID `json:"from"`
	}
	conv, err := f.read(w, r, &in)
	if err != nil {
		return err
	}
	into, err := element(r, "interaction")
	if err == nil && in.From.Zero() {
		err = fault.New(fault.Invalid, "interaction_missing", "it is not said which interaction is to be merged").WithHint(`name it: {"from":"…"}`)
	}
	if err == nil {
		err = f.Node.Merge(r.Context(), c.User, conv, into, in.From)
	}
	return done(w, err)
}

func (f *server) rollback(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var in struct {
		Tool string `json:"tool"`
	}
	conv, err := f.read(w, r, &in)
	if err != nil {
		return err
	}
	inter, err := element(r, "interaction")
	if err != nil {
		return err
	}
	n, err := f.Node.Rollback(r.Context(), c.User, conv, inter, in.Tool)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, map[string]int{"restored": n})
}

// changes answers with the audit trail.
func (f *server) changes(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	conv, err := f.read(w, r, nil)
	if err != nil {
		return err
	}
	var inter id.ID
	if s := r.URL.Query().Get("interaction"); s != "" {
		var ok bool
		if inter, ok = id.Parse(s); !ok || inter.Zero() {
			return fault.New(fault.NotFound, "interaction_not_found", "there is no interaction %.80s", s)
		}
	}
	list, err := f.Node.Audit(r.Context(), c.User, conv, inter, r.URL.Query().Get("tool"))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, map[string]any{"changes": viewChanges(list)})
}
