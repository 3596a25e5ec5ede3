package api

import (
	"context"
	"net/http"

	"steward/internal/catalog"
	"steward/internal/server/httpauth"
)

// agents are the routes about agents and sources of tools. Paths of agents
// have slashes, so they stand in the query and in bodies.
func (f *server) agents() map[string]serve {
	a := httpauth.Agents{Catalog: f.Agents, Judge: f.Judge}
	return map[string]serve{
		"GET /agents":          listAgents(a),
		"POST /agents/inspect": inspectAgent(a),
		"POST /agents/approve": decideAgent(a.Approve),
		"POST /agents/deny":    decideAgent(a.Deny),
		"POST /agents/revoke":  decideAgent(a.Revoke),
	}
}

func listAgents(a httpauth.Agents) serve {
	return func(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
		list, err := a.List(r.Context(), c)
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, struct {
			Agents []catalog.Listing `json:"agents"`
		}{list})
	}
}

func inspectAgent(a httpauth.Agents) serve {
	return func(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
		var in struct {
			Path string `json:"path"`
		}
		if err := httpauth.Decode(w, r, maxBody, &in); err != nil {
			return err
		}
		insp, err := a.Inspect(r.Context(), c, in.Path)
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, insp)
	}
}

// decideAgent answers with what became of an agent or a source by a decision
// that the body tells.
func decideAgent[In any](decide func(context.Context, httpauth.Caller, In) (catalog.Listing, error)) serve {
	return func(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
		var in In
		if err := httpauth.Decode(w, r, maxBody, &in); err != nil {
			return err
		}
		l, err := decide(r.Context(), c, in)
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, l)
	}
}
