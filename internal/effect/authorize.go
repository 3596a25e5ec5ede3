package effect

import (
	"context"
	"fmt"
	"strings"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/policy"
)

// Authorization is the decision about a call before it begins.
type Authorization struct {
	policy.Decision
	Grant    string          // URI text of the standing approval that answers the question
	Question policy.Question // the first question that policy was asked
}

// Authorize makes the same decision about a call as Run does at the given point. It
// records nothing and runs nothing. Empty arguments are not checked. Error codes: those of
// the tool's check of the arguments.
func (e *Engine) Authorize(ctx context.Context, point policy.Point, c Call) (Authorization, error) {
	c = e.masked(c)
	j := &toolCall{e: e, c: c, spec: c.Tool.Spec(), args: []byte("{}")}
	if strings.TrimSpace(string(c.Args)) != "" {
		var err error
		if j.args, err = e.check(&c); err != nil {
			return Authorization{}, err
		}
	}
	r := Authorization{Question: j.question(point, c.Attended)}
	if point == policy.PointIntent {
		if r.Decision = j.askPolicy(ctx, point, c.Attended); !c.Attended {
			r.Decision = unattended(r.Decision)
		}
	} else {
		f := &execution{toolCall: j, intentRecord: j.draft(j.intentURI())}
		var a *intent.Approval
		if r.Decision, a = f.authorize(ctx); a != nil {
			r.Grant = a.Grant
		}
	}
	if err := ctx.Err(); err != nil {
		return r, fault.Of(err)
	}
	return r, nil
}

// authorize decides about a call that has not begun. It combines policy and the tool's own
// settings with an approval that answers the question, if there is one: a standing
// approval, or the person's own request for the retry or undo that this call is. If no
// approval does and no person can be asked, the call is denied.
func (f *execution) authorize(ctx context.Context) (policy.Decision, *intent.Approval) {
	d := f.planned(ctx, f.c.Attended)
	if d.Verdict != policy.Ask {
		return d, nil
	}
	if d.Approvers != "" && f.e.opt.Directory == nil {
		return policy.Decision{Verdict: policy.Deny, Rule: d.Rule, Version: d.Version,
			Reason: "the group " + d.Approvers + " would have to approve it, but groups are not available"}, nil
	}
	a := f.impliedApproval(d)
	if a == nil {
		a = f.granted(ctx, d)
	}
	if a == nil && !f.c.Attended {
		d = unattended(d)
	}
	return d, a
}

// planned authorizes a new action. If a person is to be asked, it names the group that
// must answer at either point (tool and intent), because one approval serves both.
func (j *toolCall) planned(ctx context.Context, attended bool) policy.Decision {
	d := j.askPolicy(ctx, policy.PointTool, attended)
	if d.Verdict != policy.Ask {
		return d
	}
	begin := j.askPolicy(ctx, policy.PointIntent, attended)
	if begin.Verdict != policy.Ask || begin.Approvers == "" {
		return d
	}
	return policy.Stricter(d, policy.Decision{Verdict: policy.Allow, Obligations: policy.Obligations{Approvers: begin.Approvers}, Rule: begin.Rule})
}

// unattended denies what a person would have to be asked about, because no person is present.
func unattended(d policy.Decision) policy.Decision {
	if d.Verdict != policy.Ask {
		return d
	}
	return policy.Decision{Verdict: policy.Deny, Rule: d.Rule, Version: d.Version,
		Reason: "not approved: nobody can be asked here; use steward chat, or steward ask at a terminal (" + d.Reason + ")"}
}

// askPolicy asks the authorizer about the call. An error and an unknown verdict mean Deny.
// If policy allows a tool that is set to ask, the verdict becomes Ask.
func (j *toolCall) askPolicy(ctx context.Context, point policy.Point, attended bool) policy.Decision {
	if why := j.exclusionReason(ctx); why != "" {
		return policy.Decision{Verdict: policy.Deny, Reason: why, Rule: "tool.audience", Always: true}
	}
	d, err := j.e.opt.Authorizer.Authorize(ctx, j.question(point, attended))
	switch {
	case err != nil:
		j.e.log.WarnContext(ctx, "policy evaluation failed: tool call denied", "tool", j.spec.Name, "error", err)
		return policy.Decision{Verdict: policy.Deny, Reason: "policy evaluation failed: " + err.Error()}
	case d.Verdict == policy.Allow && j.spec.Asks:
		d.Verdict, d.Rule = policy.Ask, "tool.asks"
		d.Reason = j.spec.Name + " always asks first, although policy allows it"
	case d.Verdict != policy.Allow && d.Verdict != policy.Ask && d.Verdict != policy.Deny:
		return policy.Decision{Verdict: policy.Deny, Reason: fmt.Sprintf("policy returned an unknown verdict (%q)", d.Verdict), Rule: d.Rule, Version: d.Version}
	}
	return d
}

// exclusionReason returns why this user may not call the tool, or "". No policy can override that.
func (j *toolCall) exclusionReason(ctx context.Context) string {
	user := j.c.Request.User
	if j.spec.For.Admits(user, nil) {
		return ""
	}
	groups, err := j.e.groupsOf(ctx, user)
	switch {
	case err != nil:
		return "the groups of " + user + " are not known: " + err.Error()
	case j.spec.For.Admits(user, groups):
		return ""
	}
	return j.spec.Name + " is not shared with you: its owner can add you, or one of your groups, under users or groups"
}

// question returns the question that policy is asked about the call.
func (j *toolCall) question(point policy.Point, attended bool) policy.Question {
	return policy.Question{Point: point, User: j.c.Request.User, Agent: j.c.Agent, Lineage: j.c.Lineage, Tool: j.spec, Args: j.args,
		Labels: j.c.Labels, Flow: j.c.Flow, Left: j.c.Left, Attended: attended, Action: j.c.Action, At: j.c.At}
}
