package runtime

import (
	"context"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/tool"
)

// Outside of a turn there is nothing to plan, and nobody who reads.
func TestPlanningIsForTurns(t *testing.T) {
	for _, x := range []tool.Tool{planTool{}, extractTool{}} {
		if _, err := x.Call(context.Background(), tool.Invocation{Args: []byte(`{}`)}); !fault.HasCode(err, "plan_outside") {
			t.Errorf("%s: %v", x.Spec().Name, err)
		}
	}
}

// The built-in model is not offered what it cannot use.
func TestToolsWithoutPlanning(t *testing.T) {
	all, rest := llm.NewToolset(planTool{}.Spec()), llm.NewToolset()
	for _, c := range []struct {
		model string
		plain *llm.Toolset
		want  *llm.Toolset
	}{{"openai/gpt", rest, all}, {"offline/demo", rest, rest}, {"offline/demo", nil, all}} {
		k := agentKit{tools: all, plain: c.plain}
		if got := k.without([]string{c.model}); got != c.want {
			t.Errorf("%+v: %p, want %p", c, got, c.want)
		}
	}
}
