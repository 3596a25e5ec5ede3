package taint_test

import (
	"steward/internal/fault"
	"steward/internal/taint"
	"steward/internal/tool"
	"testing"
)

// Outside a turn, the planning tools are refused.
func TestPlanningToolsWorkInTurnsOnly(t *testing.T) {
	for _, x := range taint.Tools() {
		if _, err := x.Call(t.Context(), tool.Invocation{Args: []byte(`{}`)}); !fault.HasCode(err, "plan_outside") {
			t.Errorf("%s: %v", x.Spec().Name, err)
		}
	}
}
