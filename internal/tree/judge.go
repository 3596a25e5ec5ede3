package tree

import (
	"context"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
)

// mayRead decides whether stored resources of a type in a space may be read. It
// asks policy once per call. If the authorizer fails, the answer is no.
func (c *call) mayRead(ctx context.Context, typ string, space resource.Space) (policy.Decision, bool, error) {
	if c.hidden(typ, space) {
		return policy.Decision{}, false, nil
	}
	return c.decide(ctx, typ, space)
}

// mayView is mayRead for mounted resources.
func (c *call) mayView(ctx context.Context, m Mount, typ string) (policy.Decision, bool, error) {
	return c.decide(ctx, typ, owner(m, c.User))
}

func (c *call) decide(ctx context.Context, typ string, space resource.Space) (policy.Decision, bool, error) {
	at := decisionUnit{typ, space}
	d, ok := c.decided[at]
	if !ok {
		var err error
		if d, err = c.authorize(ctx, policy.Read, policy.Resource{Type: typ, Space: space}); err != nil {
			return d, false, err
		}
		c.decided[at] = d
	}
	return d, d.Verdict == policy.Allow, nil
}

// authorize asks policy. If policy cannot decide, the answer is no. The only error is
// that the call was cancelled.
func (c *call) authorize(ctx context.Context, action string, r policy.Resource) (policy.Decision, error) {
	d, err := c.opt.Authorizer.Authorize(ctx, policy.Question{Point: policy.PointAccess, User: c.User, Agent: c.Agent,
		Lineage: c.Lineage, Attended: c.Attended, Action: action, Resource: r})
	if ctx.Err() != nil {
		return policy.Decision{}, fault.Of(context.Cause(ctx))
	}
	if err != nil {
		e := fault.Of(err)
		return policy.Decision{Verdict: policy.Deny, Reason: "policy evaluation failed: " + e.Message}, nil
	}
	return d, nil
}

// mayChange decides whether a resource may be written or deleted. Nobody is asked
// for approval here: an agent makes such changes through a tool. Error:
// access_denied.
func (c *call) mayChange(ctx context.Context, action string, r policy.Resource) error {
	d, err := c.authorize(ctx, action, r)
	if err != nil || d.Verdict == policy.Allow {
		return err
	}
	why := d.Reason
	if why == "" {
		why = "no rule allows it"
	}
	verb := map[string]string{policy.Write: "written", policy.Delete: "deleted"}[action]
	return fault.New(fault.Denied, "access_denied", "%s may not be %s: %s", r.URI, verb, why).
		WithHint("an admin can change the policies")
}
