package kits

import (
	"testing"

	"steward/internal/llm"
	"steward/internal/taint"
)

// The built-in model is not offered the planning tools.
func TestBuiltInModelGetsNoPlanningTools(t *testing.T) {
	all, rest := llm.NewToolset(taint.Tools()[0].Spec()), llm.NewToolset()
	for _, c := range []struct {
		model string
		plain *llm.Toolset
		want  *llm.Toolset
	}{{"openai/gpt", rest, all}, {"offline/demo", rest, rest}, {"offline/demo", nil, all}} {
		k := Kit{All: all, Plain: c.plain}
		if got := k.ToolsFor([]string{c.model}); got != c.want {
			t.Errorf("%+v: %p, want %p", c, got, c.want)
		}
	}
}
