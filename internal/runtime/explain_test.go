package runtime_test

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/effect"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/policy/rego"
	"steward/internal/runtime"
	"steward/internal/tool"
)

// swapped is an authorizer that is exchanged between two calls.
type swapped struct{ of *rego.Authorizer }

func (s *swapped) Authorize(ctx context.Context, q policy.Question) (policy.Decision, error) {
	return s.of.Authorize(ctx, q)
}

func (s *swapped) Explain(ctx context.Context, q policy.Question) (rego.Explained, error) {
	return s.of.Explain(ctx, q)
}

// folk knows one family.
type folk struct{}

func (folk) Principal(_ context.Context, user string) (policy.Principal, error) {
	return policy.Principal{User: user, Roles: []string{policy.RoleMember}, Groups: []string{"family"}}, nil
}

// houses are policies that decide about tools each in its own way.
var houses = []string{
	``,
	`trusted if true`,
	`trusted if input.args.what == "b"

deny contains "not that" if input.args.what == "c"`,
	`approvers contains "family" if input.tool.asks

trusted if not input.tool.asks`,
	`approvers contains "family" if {
	input.point == "intent"
	input.args.what == "a"
}`,
	`trusted if input.point == "tool"

ask contains "really?" if {
	input.tool.effect == "query"
	input.args.what == "a"
}`,
	`deny contains "only with somebody there" if {
	input.args.what == "b"
	not input.attended
}

trusted if input.labels.private`,
}

// trial is one call of the property below: what it is of, and how it is asked for.
type trial struct {
	tool, what, labels string
	alone              bool
}

// outcome makes the call in a conversation of its own, and tells what became of
// it: a person was asked (and gave the answer), or it was allowed or denied.
func (w *world) outcome(t *rapid.T, c trial, answer runtime.Verdict) policy.Verdict {
	call := fmt.Sprintf(`call %s {"what":%q}`, c.tool, c.what)
	words := call
	if c.labels != "" {
		w.order.Store(&call)
		words = "call read." + map[string]string{"untrusted": "open", "private,untrusted": "closed"}[c.labels] + " {}"
	}
	acc := w.sent(runtime.Turn{Content: text(words), Attended: !c.alone})
	frames := w.until(acc.Conversation, runtime.Cursor{}, func(f runtime.Frame) bool {
		return f.Kind == runtime.FrameComplete || f.Call != nil && f.Call.Approval != nil
	})
	if last := frames[len(frames)-1]; last.Kind != runtime.FrameComplete {
		answer.ID, answer.Hash = last.Call.Approval.ID, last.Call.Approval.Hash
		if last.Call.Approval.NoGrant != "" || !answer.Approve {
			answer.Standing = effect.Once
		}
		ok(t, w.Decide(w.t.Context(), "anna", answer))
		w.until(acc.Conversation, runtime.Cursor{}, isKind(runtime.FrameComplete))
		return policy.Ask
	}
	results := w.results(acc.Conversation)
	switch r := results[len(results)-1]; {
	case r.Name != c.tool:
		t.Fatalf("%+v was not called: %s", c, told(frames))
	case r.Status == message.OK:
		return policy.Allow
	case r.Status != message.DeniedCall:
		t.Fatalf("%+v: %s %s", c, r.Status, r.Text())
	}
	return policy.Deny
}

// TestExplainTellsWhatTheCallDoes: over random policies, tools with settings
// and owners of all kinds, labels and standing approvals, what is explained is
// what then happens.
func TestExplainTellsWhatTheCallDoes(t *testing.T) {
	t.Parallel()
	var judges []*rego.Authorizer
	for _, rules := range houses {
		judges = append(judges, policies(t, rules))
	}
	now := &swapped{judges[0]}
	w := made(t, &world{judge: now})
	w.opt.People = folk{}
	var names []string
	for _, spec := range toolsOfAllKinds() {
		one := newTool(spec, func(context.Context, tool.Invocation, struct {
			What string `json:"what"`
		}) (string, error) {
			return "done", nil
		})
		w.more, names = append(w.more, one), append(names, spec.Name)
	}
	for name, yields := range map[string]message.Labels{"read.open": message.Untrusted, "read.closed": message.Untrusted | message.Private} {
		one := newTool(tool.Spec{Name: name, Description: "It orders.", Effect: tool.Query, Reach: tool.ReachHere, Yields: yields},
			func(context.Context, tool.Invocation, struct{}) (string, error) {
				return "then " + *w.order.Load(), nil
			})
		w.more = append(w.more, one)
	}
	w.open()
	rapid.Check(t, func(t *rapid.T) {
		now.of = judges[rapid.IntRange(0, len(judges)-1).Draw(t, "policy")]
		c := trial{tool: rapid.SampledFrom(names).Draw(t, "tool"), what: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "what"),
			labels: rapid.SampledFrom([]string{"", "untrusted", "private,untrusted"}).Draw(t, "labels"), alone: rapid.IntRange(0, 3).Draw(t, "alone") == 0}
		answer := runtime.Verdict{Approve: rapid.Bool().Draw(t, "approve"), Standing: rapid.SampledFrom([]effect.Standing{effect.Once, effect.Always}).Draw(t, "standing")}
		for range 2 { // the second time after an answer that may stand
			told, err := w.ExplainPolicy(w.t.Context(), "anna", runtime.PolicyQuestion{Tool: c.tool, Args: fmt.Appendf(nil, `{"what":%q}`, c.what),
				Labels: c.labels, Late: c.labels != "", Alone: c.alone})
			ok(t, err)
			if got := w.outcome(t, c, answer); got != told[0].Verdict {
				t.Fatalf("%+v was explained as %s (%s), and became %s", c, told[0].Verdict, told[0].Reason, got)
			}
		}
		if rapid.Bool().Draw(t, "revoke") {
			w.revokeAll(t)
		}
	})
}

// toolsOfAllKinds are tools that differ in all that a decision goes by.
func toolsOfAllKinds() (out []tool.Spec) {
	for _, eff := range []tool.Effect{tool.Query, tool.Action} {
		for _, asks := range []bool{false, true} {
			for who, audience := range map[string]*tool.Audience{"all": nil, "ann": {Users: []string{"anna"}}, "fam": {Groups: []string{"family"}}, "bob": {Users: []string{"bob"}}} {
				for _, reach := range []tool.Reach{tool.ReachHere, tool.ReachOut} {
					out = append(out, tool.Spec{Name: fmt.Sprintf("%s.%s_%v_%s", eff, who, asks, reach), Description: "It does something.", Effect: eff,
						Asks: asks, For: audience, Reach: reach, Origin: "mcp:" + who})
				}
			}
		}
	}
	return out
}

// revokeAll takes back all standing approvals.
func (w *world) revokeAll(t *rapid.T) {
	list, err := w.Grants(w.t.Context(), "anna", false)
	ok(t, err)
	for _, g := range list {
		ok(t, w.RevokeGrant(w.t.Context(), "anna", g.ID))
	}
}
