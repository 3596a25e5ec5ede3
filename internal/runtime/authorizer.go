package runtime

import (
	"context"
	"strings"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/policy"
)

// authorizer authorizes tool calls by the policy. A call that asks an agent is
// authorized twice: as a tool call and as a delegation.
type authorizer struct{ inner policy.Authorizer }

// authorizerOf wraps the node's authorizer. The fixed authorizer does not decide
// about delegations, so it is returned as it is.
func authorizerOf(j policy.Authorizer) policy.Authorizer {
	if _, fixed := j.(policy.Fixed); fixed {
		return j
	}
	return authorizer{j}
}

// askedOrigin is the prefix of the origin of a tool that asks an agent; the
// agent's path follows.
const askedOrigin = "agent:"

// Authorize implements policy.Authorizer. The stricter of the two decisions
// counts, with the obligations of both.
func (j authorizer) Authorize(ctx context.Context, q policy.Question) (policy.Decision, error) {
	d, err := j.inner.Authorize(ctx, q)
	target, asks := strings.CutPrefix(q.Tool.Origin, askedOrigin)
	if !asks || err != nil || d.Verdict != policy.Allow && d.Verdict != policy.Ask {
		return d, err
	}
	q.Point, q.Target = policy.PointDelegate, target
	other, err := j.inner.Authorize(ctx, q)
	if err != nil {
		return other, err
	}
	return policy.Stricter(d, other), nil
}

// left is what the turn of an interaction may still spend.
func (c *chat) left(inter id.ID) policy.Left {
	live := c.running(inter)
	if live == nil || live.meter == nil {
		return policy.Left{}
	}
	b := live.meter.Left()
	return policy.Left{Tokens: int(b.MaxTokens), Cost: b.MaxCost}
}

// ModelGate returns what keeps content from models that policy does not allow
// it to go to; see llm.Config.Allow. local says of a "provider/model" whether
// what it is sent stays on this machine and its own network. Nobody can be
// asked before each call of a model: to ask means no.
func ModelGate(p policy.Authorizer, local func(model string) bool) func(context.Context, string, *llm.Request) error {
	return func(ctx context.Context, model string, r *llm.Request) error {
		provider, name, _ := strings.Cut(model, "/")
		q := policy.Question{Point: policy.PointModel, User: r.User, Agent: r.Agent, Lineage: r.Lineage, Labels: r.Labels,
			Model: policy.Model{Provider: provider, Name: name, Local: local(model)}}
		d, err := p.Authorize(ctx, q)
		switch {
		case err != nil:
			return llm.NotAllowed(model, "policy could not be asked: "+err.Error()).WithHint("try again")
		case d.Verdict == policy.Allow:
			return nil
		}
		e := llm.NotAllowed(model, d.Reason)
		if d.Rule == "" {
			return e.WithHint("allow it by a rule of your own: steward policy show")
		}
		return e.WithHint("talk to a model that may be asked (--model, /model), name one further on in the alias (models.default), or change the rule at %s: steward policy show", d.Rule)
	}
}
