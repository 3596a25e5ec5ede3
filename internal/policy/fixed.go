package policy

import (
	"context"

	"steward/internal/tool"
)

// Fixed is the judge that needs no configuration: queries are allowed, actions
// ask the person who is there, and with nobody there they are denied. An
// effect that is neither is denied.
type Fixed struct{}

// Judge implements Judge. It never fails.
func (Fixed) Judge(_ context.Context, q Question) (Decision, error) {
	switch {
	case q.Tool.Effect == tool.Query:
		return Decision{Verdict: Allow, Reason: "queries change nothing", Rule: "fixed.query"}, nil
	case q.Tool.Effect != tool.Action:
		return Decision{
			Verdict: Deny,
			Reason:  "the tool says neither that it reads nor that it changes something",
			Rule:    "fixed.effect",
		}, nil
	case q.Attended:
		return Decision{Verdict: Ask, Reason: q.Tool.Name + " changes something", Rule: "fixed.action"}, nil
	}
	return Decision{
		Verdict: Deny,
		Reason: q.Tool.Name + " changes something, and nobody is there to approve it; " +
			"use `steward chat` or a WebSocket client, where a person can be asked",
		Rule: "fixed.unattended",
	}, nil
}
