package effect

import (
	"context"
	"testing"

	"steward/internal/policy"
	"steward/internal/tool"
)

// BenchmarkQuery is what a query costs beyond the tool's own work.
func BenchmarkQuery(b *testing.B) {
	e := engine(openStore(b), policy.Fixed{})
	type pair struct {
		A float64 `json:"a" jsonschema:"the first factor"`
		B float64 `json:"b" jsonschema:"the second factor"`
	}
	t, err := tool.New(tool.Spec{Name: "math.multiply", Description: "Multiplies.", Effect: tool.Query},
		func(_ context.Context, _ tool.Invocation, in pair) (float64, error) { return in.A * in.B, nil })
	if err != nil {
		b.Fatal(err)
	}
	c := callOf(t, `{"b": 7, "a": 6}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Run(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}
