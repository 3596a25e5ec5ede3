package kits

import (
	"context"
	"testing"

	"steward/internal/policy"
	"steward/internal/tool"
)

// byPoint decides by the point only.
type byPoint map[policy.Point]policy.Decision

func (b byPoint) Authorize(_ context.Context, q policy.Question) (policy.Decision, error) {
	return b[q.Point], nil
}

// The obligations of both decisions about asking an agent apply.
func TestDelegationKeepsBothObligations(t *testing.T) {
	call := policy.Decision{Verdict: policy.Ask, Reason: "really?", Obligations: policy.Obligations{Mask: []string{"/a"}}}
	ask := policy.Decision{Verdict: policy.Ask, Reason: "a parent says", Obligations: policy.Obligations{Approvers: "parents", Cap: 9}}
	for _, j := range []byPoint{
		{policy.PointTool: call, policy.PointDelegate: ask},
		{policy.PointTool: ask, policy.PointDelegate: call},
		{policy.PointTool: {Verdict: policy.Allow, Obligations: call.Obligations}, policy.PointDelegate: ask},
	} {
		d, err := Delegating(j).Authorize(t.Context(), policy.Question{Point: policy.PointTool, Tool: tool.Spec{Name: "email.ask", Origin: AskedOrigin + "email"}})
		if err != nil || d.Verdict != policy.Ask || d.Approvers != "parents" || d.Cap != 9 || len(d.Mask) != 1 {
			t.Errorf("%+v, %v", d, err)
		}
	}
}
