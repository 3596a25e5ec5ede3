package kits

import (
	"context"
	"strings"

	"steward/internal/policy"
)

// delegating authorizes tool calls by the policy. A call that asks an agent is
// authorized twice: as a tool call and as a delegation.
type delegating struct{ inner policy.Authorizer }

// Delegating wraps an authorizer, so that a call that asks an agent is decided as a call
// and as a delegation. The fixed authorizer does not decide
// about delegations, so it is returned as it is.
func Delegating(j policy.Authorizer) policy.Authorizer {
	if _, fixed := j.(policy.Fixed); fixed {
		return j
	}
	return delegating{j}
}

// Authorize implements policy.Authorizer. The stricter of the two decisions
// counts, with the obligations of both.
func (j delegating) Authorize(ctx context.Context, q policy.Question) (policy.Decision, error) {
	d, err := j.inner.Authorize(ctx, q)
	target, asks := strings.CutPrefix(q.Tool.Origin, AskedOrigin)
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
