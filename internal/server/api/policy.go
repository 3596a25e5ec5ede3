package api

import (
	"context"
	"net/http"

	"steward/internal/fault"
	"steward/internal/policy/rego"
	"steward/internal/runtime"
	"steward/internal/server/httpauth"
)

// Policies is what the server tells of policies; rego.Judge is one.
type Policies interface {
	Version() string
	Broken() error
	Files() []rego.File
}

// policyExplainer is a node that explains what policy decides.
type policyExplainer interface {
	ExplainPolicy(ctx context.Context, user string, q runtime.PolicyQuestion) ([]runtime.PolicyAnswer, error)
}

// policies are the routes about policies.
func (f *server) policies() map[string]serve {
	return map[string]serve{
		"GET /policy":          f.policy,
		"POST /policy/explain": f.explainPolicy,
	}
}

// policy tells which policies are in force: of what they say, administrators
// alone.
func (f *server) policy(w http.ResponseWriter, _ *http.Request, c httpauth.Caller) error {
	p, ok := f.Judge.(Policies)
	if !ok {
		return fault.New(fault.Unsupported, "policy_unsupported", "this Steward has no policies")
	}
	out := struct {
		Version string      `json:"version"`
		Broken  string      `json:"broken,omitzero"` // why what lies in the folder is not in force
		Files   []rego.File `json:"files,omitzero"`
	}{Version: p.Version()}
	if c.Admin {
		if err := p.Broken(); err != nil {
			out.Broken = err.Error()
		}
		out.Files = p.Files()
	}
	return reply(w, http.StatusOK, out)
}

// explainPolicy explains a decision: of the caller's own, or, to an
// administrator, of a user that he names.
func (f *server) explainPolicy(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	var q runtime.PolicyQuestion
	if err := httpauth.Decode(w, r, maxBody, &q); err != nil {
		return err
	}
	n, ok := f.Node.(policyExplainer)
	if !ok {
		return fault.New(fault.Unsupported, "policy_unsupported", "this Steward has no policies that could be explained")
	}
	if q.User != "" && q.User != c.User && !c.Admin {
		return fault.New(fault.Denied, "admin_only", "how policy decides for others is told to administrators").WithHint("leave the user out: it is explained for you")
	}
	answers, err := n.ExplainPolicy(r.Context(), c.User, q)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, struct {
		Answers []runtime.PolicyAnswer `json:"answers"`
	}{answers})
}
