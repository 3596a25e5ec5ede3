package runtime

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/effect"
	"steward/internal/kits"
	"steward/internal/lifetime"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/taint"
	"steward/internal/tool"
)

// awaitChange wakes when the first question expires, whatever its place in the
// list.
func TestAwaitChangeWakesAtTheFirstExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var list []effect.Question
		for _, s := range []time.Duration{10, 2, 5} {
			list = append(list, effect.Question{Expires: began.Add(s * time.Second)})
		}
		n := &Node{life: lifetime.New(t.Context())}
		if !n.awaitChange(t.Context(), nil, list) || time.Since(began) != 2*time.Second {
			t.Errorf("it looked after %s", time.Since(began))
		}
	})
}

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
		d, err := authorizerOf(j).Authorize(t.Context(), policy.Question{Point: policy.PointTool, Tool: tool.Spec{Name: "email.ask", Origin: kits.AskedOrigin + "email"}})
		if err != nil || d.Verdict != policy.Ask || d.Approvers != "parents" || d.Cap != 9 || len(d.Mask) != 1 {
			t.Errorf("%+v, %v", d, err)
		}
	}
}

// The material of a summary is bounded: the newest messages are kept.
func TestSummaryUsesTheNewestMessages(t *testing.T) {
	var msgs []*message.Message
	for range 100 {
		msgs = append(msgs, &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: strings.Repeat("word ", 100)}}})
	}
	if n := beyond(msgs, 1_000_000); n != 0 {
		t.Errorf("%d of a few messages are left out", n)
	}
	n := beyond(msgs, 2000)
	if n < 50 || n > 95 {
		t.Errorf("%d are left out", n)
	}
	if _, text := material(msgs[n:], 1_000_000); len(text) > 20_000 {
		t.Errorf("%d bytes of material are left", len(text))
	}
}

// The built-in model is not offered the planning tools.
func TestBuiltInModelGetsNoPlanningTools(t *testing.T) {
	all, rest := llm.NewToolset(taint.Tools()[0].Spec()), llm.NewToolset()
	for _, c := range []struct {
		model string
		plain *llm.Toolset
		want  *llm.Toolset
	}{{"openai/gpt", rest, all}, {"offline/demo", rest, rest}, {"offline/demo", nil, all}} {
		k := kits.Kit{All: all, Plain: c.plain}
		if got := k.ToolsFor([]string{c.model}); got != c.want {
			t.Errorf("%+v: %p, want %p", c, got, c.want)
		}
	}
}
