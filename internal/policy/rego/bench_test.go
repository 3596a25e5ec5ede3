package rego

import (
	"context"
	"testing"
	"time"

	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
)

// benchQuestion returns a question about an action after something untrusted was
// read. Most of the default rules must be evaluated for it.
func benchQuestion() policy.Question {
	return policy.Question{Point: policy.PointTool, User: "ann", Agent: "assistant", Attended: true,
		Labels: message.Private | message.Untrusted, Args: []byte(`{"to":"bob@example.org"}`),
		Tool: tool.Spec{Name: "email.send", Effect: tool.Action, Origin: "domain:email"}}
}

func openBench(b *testing.B) *Authorizer {
	j, err := Open(Options{Directory: people{"ann": {User: "ann", Roles: []string{policy.RoleMember}, Groups: []string{"family"}}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { closed(b, j) })
	return j
}

// BenchmarkUncached measures a decision that is not cached.
func BenchmarkUncached(b *testing.B) {
	for _, c := range []struct {
		name string
		q    policy.Question
	}{
		{"action", benchQuestion()},
		{"query", policy.Question{User: "ann", Attended: true, Tool: tool.Spec{Name: "time.now", Effect: tool.Query}}},
		{"access", policy.Question{Point: policy.PointAccess, User: "ann", Action: policy.Read, Resource: policy.Resource{Type: "note.Note", Space: "user:ann"}}},
		{"model", policy.Question{Point: policy.PointModel, User: "ann", Labels: message.Private, Model: policy.Model{Provider: "openai", Name: "gpt"}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			j := openBench(b)
			p := j.now.Load()
			q := c.q
			if q.Point == "" {
				q.Point = policy.PointTool
			}
			at, ctx := p.points[q.Point], b.Context()
			took := make([]time.Duration, 0, 1<<16)
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				a := asked{Question: q, opt: &j.opt}
				if err := a.identify(ctx); err != nil {
					b.Fatal(err)
				}
				d, err := j.evaluate(ctx, p, at, &a)
				if err != nil || d.Verdict == "" {
					b.Fatal(d, err)
				}
				if len(took) < cap(took) {
					took = append(took, time.Since(began))
				}
			}
			b.ReportMetric(float64(median(took).Nanoseconds()), "median-ns")
		})
	}
}

// BenchmarkCached measures a cached decision.
func BenchmarkCached(b *testing.B) {
	j, q, ctx := openBench(b), benchQuestion(), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if d, err := j.Authorize(ctx, q); err != nil || d.Verdict != policy.Ask {
			b.Fatal(d, err)
		}
	}
}

// BenchmarkOpen measures opening the default policies at start-up.
func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		j, err := Open(Options{Settings: map[string]any{"approve": "actions"}})
		if err != nil {
			b.Fatal(err)
		}
		closed(b, j)
	}
}
