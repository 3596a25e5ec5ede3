package api

import (
	"cmp"
	"context"
	"time"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/explain"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/policy/rego"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/routing"
	"steward/internal/server/auth"
	"steward/internal/store"
	"steward/internal/store/audit"
	"steward/internal/tree"
)

func (f *server) agents() auth.Agents {
	return auth.Agents{Catalog: f.Agents, Authorizer: f.Authorizer}
}

// agentList are the agents that a caller sees.
type agentList struct {
	Agents  []catalog.Listing `json:"agents"`
	Decides bool              `json:"decides"` // the caller decides about agents and sources
}

func (f *server) listAgents(ctx context.Context, c *call, _ struct{}) (agentList, error) {
	list, err := f.agents().List(ctx, c.Caller)
	return agentList{list, f.agents().Decides(ctx, c.Caller)}, err
}

func (f *server) inspectAgent(ctx context.Context, c *call, in struct {
	Body struct {
		Path string `json:"path"`
	} `body:""`
}) (catalog.Inspection, error) {
	return f.agents().Inspect(ctx, c.Caller, in.Body.Path)
}

func (f *server) approveAgent(ctx context.Context, c *call, in struct {
	Body auth.Approval `body:""`
}) (catalog.Listing, error) {
	return f.agents().Approve(ctx, c.Caller, in.Body)
}

// refusal denies or revokes an agent or a source.
type refusal struct {
	Body auth.Refusal `body:""`
}

func (f *server) denyAgent(ctx context.Context, c *call, in refusal) (catalog.Listing, error) {
	return f.agents().Deny(ctx, c.Caller, in.Body)
}

func (f *server) revokeAgent(ctx context.Context, c *call, in refusal) (catalog.Listing, error) {
	return f.agents().Revoke(ctx, c.Caller, in.Body)
}

type modelList struct {
	Aliases []string                `json:"aliases"`
	Models  []modelView             `json:"models"`
	Errors  map[string]modelFailure `json:"errors,omitempty"` // by provider
}

type modelView struct {
	Name     string    `json:"name"` // "provider/model"
	Provider string    `json:"provider"`
	Created  time.Time `json:"created,omitzero"`
	Window   int       `json:"window,omitzero"`
	Embedder bool      `json:"embedder,omitzero"`
}

type modelFailure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitzero"`
}

func (f *server) models(ctx context.Context, _ *call, _ struct{}) (modelList, error) {
	found, aliases := f.Node.Models(ctx)
	out := modelList{all(aliases), make([]modelView, len(found.Models)), map[string]modelFailure{}}
	for i, m := range found.Models {
		out.Models[i] = modelView{m.Full(), m.Provider, m.Created, m.Window, m.Embedder}
	}
	for provider, err := range found.Errors {
		e := auth.Public(err)
		out.Errors[provider] = modelFailure{e.Code, e.Message, e.Remedy}
	}
	return out, nil
}

type policyView struct {
	Version string      `json:"version"`
	Broken  string      `json:"broken,omitzero"` // why the files in the folder are not in force
	Files   []rego.File `json:"files,omitzero"`
}

// policy answers with the version of the policies in force. Only administrators also get
// the files.
func (f *server) policy(_ context.Context, c *call, _ struct{}) (policyView, error) {
	p, ok := f.Authorizer.(*rego.Authorizer)
	if !ok {
		return policyView{}, unsupported("policy", "this Steward has no policies")
	}
	out := policyView{Version: p.Version()}
	if c.Admin {
		if err := p.Broken(); err != nil {
			out.Broken = err.Error()
		}
		out.Files = p.Files()
	}
	return out, nil
}

// policyFile is a file of policies in a body.
type policyFile struct {
	Body client.PolicyFile `body:"" size:"1048576"`
}

// writable returns the policies, if the caller may change a file of them.
func (f *server) writable(c *call, file *client.PolicyFile) (*rego.Authorizer, error) {
	if err := admins(c, "only admins change policies", "ask an admin"); err != nil {
		return nil, err
	}
	p, ok := f.Authorizer.(*rego.Authorizer)
	if !ok {
		return nil, unsupported("policy", "this Steward has no policies")
	}
	if file.New && p.Has(file.Name) {
		return nil, fault.New(fault.Conflict, "policy_exists", "there is a file %.80s already", file.Name).WithHint("edit it, or choose another name")
	}
	return p, nil
}

// maxTried is how many of the caller's recorded actions are decided again.
const maxTried = 100

// tryPolicy decides the caller's newest actions again, as if a file of policies were another.
func (f *server) tryPolicy(ctx context.Context, c *call, in policyFile) (client.PolicyTrial, error) {
	out := client.PolicyTrial{Changes: []client.PolicyChange{}}
	p, err := f.writable(c, &in.Body)
	if err != nil {
		return out, err
	}
	trial, err := p.Try(in.Body.Name, in.Body.Text)
	if err != nil {
		return out, err
	}
	list, _, err := f.Node.Intents(ctx, c.User, requests.IntentFilter{}, "", maxTried)
	if err != nil {
		return out, err
	}
	for _, v := range list {
		answers, err := f.Node.Policy.Explain(ctx, c.User, explain.Question{Request: v.ID})
		if err != nil || len(answers) == 0 { // such as a tool that is gone
			continue
		}
		a := answers[0]
		now, then, err := trial.Decide(a.Point, a.Input)
		if err != nil {
			return out, err
		}
		out.Tried++
		if now.Verdict != then.Verdict {
			out.Changes = append(out.Changes, client.PolicyChange{Intent: v.ID, About: cmp.Or(v.Summary, a.About), At: v.Created, Now: string(now.Verdict), Then: string(then.Verdict), Reason: then.Reason})
		}
	}
	return out, nil
}

// writePolicy writes a file of policies, which is then in force.
func (f *server) writePolicy(ctx context.Context, c *call, in policyFile) (noContent, error) {
	p, err := f.writable(c, &in.Body)
	if err != nil {
		return noContent{}, err
	}
	return noContent{}, p.Write(ctx, in.Body.Name, in.Body.Text)
}

// explainPolicy explains a decision about the caller. Administrators may name another user.
func (f *server) explainPolicy(ctx context.Context, c *call, in struct {
	Body explain.Question `body:""`
}) (map[string][]explain.Answer, error) {
	if in.Body.User != "" && in.Body.User != c.User {
		if err := admins(c, "only administrators can explain policy for other users", "leave the user out to explain it for yourself"); err != nil {
			return nil, err
		}
	}
	answers, err := f.Node.Policy.Explain(ctx, c.User, in.Body)
	return the("answers", answers), err
}

// routeStats answers with figures about the caller's newest decisions of routing.
func (f *server) routeStats(ctx context.Context, c *call, _ struct{}) (routing.Stats, error) {
	return f.Node.RouteStats(ctx, c.User)
}

// explainRoute says which agent a message of the caller would get. It runs nothing.
func (f *server) explainRoute(ctx context.Context, c *call, in struct {
	Body struct {
		Text string `json:"text"`
	} `body:""`
}) (routing.Decision, error) {
	return f.Node.Routing.Explain(ctx, c.User, in.Body.Text)
}

func (f *server) audit() (*audit.Log, error) {
	if f.Audit == nil {
		return nil, unsupported("audit", "the log of this Steward is not audited").WithHint("use the SQLite store")
	}
	return f.Audit, nil
}

// auditHead answers with the head of the chain, which reveals nothing about the entries.
func (f *server) auditHead(ctx context.Context, _ *call, _ struct{}) (store.Head, error) {
	a, err := f.audit()
	if err != nil {
		return store.Head{}, err
	}
	return a.Head(ctx)
}

// auditVerify verifies the whole log. Only administrators get the URI of a flawed entry.
func (f *server) auditVerify(ctx context.Context, c *call, in struct {
	Anchors []string `query:"anchor"`
}) (store.Verdict, error) {
	a, err := f.audit()
	if err != nil {
		return store.Verdict{}, err
	}
	anchors := make([]store.Head, len(in.Anchors))
	for i, s := range in.Anchors {
		if anchors[i], err = audit.ParseHead(s); err != nil {
			return store.Verdict{}, err
		}
	}
	v, err := a.Verify(ctx, anchors...)
	if v.Flaw != nil && !c.Admin {
		v.Flaw.URI = resource.URI{}
	}
	return v, err
}

// auditExport answers with JSON lines: all entries for administrators, the caller's own for others.
// Only the machine's own user gets the entries of its own space.
func (f *server) auditExport(ctx context.Context, c *call, in struct {
	User   string    `query:"user"`
	Since  time.Time `query:"since"`
	Until  time.Time `query:"until"`
	Under  string    `query:"under"`
	Bodies bool      `query:"bodies"`
}) (written, error) {
	a, err := f.audit()
	if err != nil {
		return written{}, err
	}
	q := audit.Query{User: in.User, Since: in.Since, Until: in.Until, Bodies: in.Bodies}
	if in.Under != "" {
		if q.Under, err = tree.Parse(c.User, "", in.Under); err != nil {
			return written{}, err
		}
	}
	return f.stream(c, "application/x-ndjson", func(w *lateHeader) error {
		reader := audit.Reader{User: c.User, All: c.Admin}
		if c.User != identity.Local {
			reader.Closed = append(reader.Closed, resource.UserSpace(identity.Local))
		}
		return a.Export(ctx, reader, q, w)
	})
}
