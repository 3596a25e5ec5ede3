package policy

import (
	"context"

	"steward/internal/tool"
)

// Fixed is the authorizer that needs no configuration. It allows queries, and actions that change
// only an agent's own state. For other actions it asks the person who is present, and denies if
// there is nobody. It denies an effect that is neither.
type Fixed struct{}

// Authorize implements Authorizer. It never fails. It decides about tools only: everyone who may
// make requests at all may read, write, choose a model and ask an agent.
func (Fixed) Authorize(_ context.Context, q Question) (Decision, error) {
	switch {
	case q.Point != "" && q.Point != PointTool && q.Point != PointIntent:
		return Decision{Verdict: Allow, Reason: "only tools are judged", Rule: "fixed.point"}, nil
	case q.Tool.Effect == tool.Query:
		return Decision{Verdict: Allow, Reason: "queries change nothing", Rule: "fixed.query"}, nil
	case q.Tool.Effect != tool.Action:
		return Decision{
			Verdict: Deny,
			Reason:  "the tool says neither that it reads nor that it changes something",
			Rule:    "fixed.effect",
		}, nil
	case q.Tool.Origin == tool.OriginOwn:
		return Decision{Verdict: Allow, Reason: "it changes nothing but the agent's own notes", Rule: "fixed.own"}, nil
	case q.Attended:
		return Decision{Verdict: Ask, Reason: q.Tool.Name + " changes something", Rule: "fixed.action"}, nil
	}
	return Decision{
		Verdict: Deny,
		Reason: q.Tool.Name + " changes something, and is not approved: nobody can be asked here; " +
			"use steward chat, or steward ask at a terminal",
		Rule: "fixed.unattended",
	}, nil
}
