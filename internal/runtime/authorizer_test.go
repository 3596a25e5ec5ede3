package runtime_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/effect"
	"steward/internal/explain"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/policy/rego"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
)

// policies opens an authorizer over rules.
func policies(t *testing.T, rules string) *rego.Authorizer {
	t.Helper()
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "house.rego"), []byte("package steward\n\n"+rules+"\n"), 0o600))
	j, err := rego.Open(rego.Options{Dir: dir, Log: slog.New(slog.DiscardHandler), Settings: map[string]any{"approve": "actions"}})
	ok(t, err)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// judgedLevels is newLevels under an authorizer.
func judgedLevels(t *testing.T, j policy.Authorizer) *world {
	w, _ := newLevels(t)
	w.close()
	w.judge = j
	w.open()
	return w
}

// An asked agent has at most the rights of the agent that asks it.
func TestDelegatedRights(t *testing.T) {
	w := judgedLevels(t, policies(t, `trusted if input.tool.name == "mail.send"

deny contains "the assistant writes to nobody" if {
	call
	input.agent == "assistant"
	input.tool.name == "mail.send"
}`))
	conv, _ := w.turn(id.ID{}, ask("personal", ask("email", `call mail.send {"what":"hello"}`)))
	if got := w.results(conv)[0].Text(); !strings.Contains(got, "the assistant writes to nobody") || w.ledger.list() != "" {
		t.Errorf("by the assistant: %s; done: %s", got, w.ledger.list())
	}
	acc := w.sent(turn.Input{Agent: "personal", Content: text(ask("email", `call mail.send {"what":"hello"}`))})
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	if got := w.ledger.list(); got != "hello" {
		t.Errorf("by the personal agent, of its own: %q; %s", got, w.results(acc.Conversation)[0].Text())
	}
}

// Policy decides about asking an agent as such, and can require an approval.
func TestDelegation(t *testing.T) {
	w := judgedLevels(t, policies(t, `deny contains "the weather is nobody's business" if {
	input.point == "delegate"
	input.target == "weather"
}

ask contains "may he be asked?" if {
	input.point == "delegate"
	input.target == "personal"
	input.agent == "assistant"
}`))
	conv, _ := w.turn(id.ID{}, ask("weather", "say sunny"))
	if r := w.results(conv)[0]; r.Status != message.DeniedCall || !strings.Contains(r.Text(), "nobody's business") {
		t.Errorf("%s %s", r.Status, r.Text())
	}
	acc := w.send(id.ID{}, ask("personal", "say hello"))
	f := w.approve(acc.Conversation, turn.Cursor{}, true)
	if f.Call.Name != "personal.ask" || !strings.Contains(f.Call.Approval.Reason, "may he be asked?") {
		t.Errorf("%+v", f.Call.Approval)
	}
	frames := w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	if got := said(frames); got != "ok: hello" {
		t.Errorf("%s", got)
	}
}

// noting requires approvals of actions and records on whose behalf they are.
type noting struct {
	mu  sync.Mutex
	got []string
}

func (n *noting) Authorize(_ context.Context, q policy.Question) (policy.Decision, error) {
	if q.Tool.Name != "mail.send" {
		return policy.Decision{Verdict: policy.Allow}, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, strings.Join(append(slices.Clone(q.Lineage), q.Agent), " "))
	return policy.Decision{Verdict: policy.Ask, Reason: "really?"}, nil
}

// After a restart it is still known on whose behalf an agent acts.
func TestLineageSurvivesARestart(t *testing.T) {
	j := &noting{}
	w := judgedLevels(t, j)
	acc := w.send(id.ID{}, ask("personal", ask("email", `call mail.send {"what":"hello"}`)))
	w.until(acc.Conversation, turn.Cursor{}, asksPerson)
	w.close()
	before := len(j.got)
	w.open()
	w.approve(acc.Conversation, turn.Cursor{}, true)
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	if w.ledger.list() != "hello" || before == 0 || len(j.got) <= before {
		t.Fatalf("done: %s; judged %d times before and %d times in all", w.ledger.list(), before, len(j.got))
	}
	for _, who := range j.got {
		if who != "assistant personal personal/email" {
			t.Errorf("wanted by %q", who)
		}
	}
}

// ExplainPolicy explains recorded decisions and hypothetical ones.
func TestExplainPolicy(t *testing.T) {
	w := judgedLevels(t, policies(t, `deny contains "not to eve" if input.args.what == "eve"`))
	acc := w.send(id.ID{}, `call ledger.add {"what":"eve"}`+"\n"+`call ledger.add {"what":"bob"}`)
	w.approve(acc.Conversation, turn.Cursor{}, true)
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))

	ask := func(q explain.Question) []explain.Answer {
		t.Helper()
		got, err := w.Policy.Explain(t.Context(), "anna", q)
		ok(t, err)
		return got
	}
	both := ask(explain.Question{Request: acc.Interaction.String()})
	if len(both) != 2 {
		t.Fatalf("%+v", both)
	}
	for _, a := range both {
		r := a.Recorded
		if r == nil || r.Policy != a.Version || r.Gone || r.Rule == "" {
			t.Fatalf("%+v", a)
		}
		want := policy.Ask
		if r.State == "denied" {
			want = policy.Deny
		}
		if a.Verdict != want || r.Rule != a.Rule || a.About != "ledger.add by assistant for anna" || len(a.Rules) < 5 || len(a.Input) == 0 {
			t.Errorf("%+v", a)
		}
		again := ask(explain.Question{Request: r.Intent})
		if len(again) != 1 || again[0].Recorded.Intent != r.Intent {
			t.Errorf("%+v", again)
		}
	}
	for _, c := range []struct {
		q    explain.Question
		want policy.Verdict
	}{
		{explain.Question{Tool: "math.multiply"}, policy.Allow},
		{explain.Question{Tool: "ledger.add", Args: []byte(`{ "what": "eve" }`)}, policy.Deny},
		{explain.Question{Tool: "ledger.add", Late: true, Labels: "private,untrusted"}, policy.Ask},
		{explain.Question{Tool: "none.such", Effect: "action"}, policy.Ask},
		{explain.Question{Point: policy.PointAccess, Action: "read", Type: "home.Note", Space: "user:anna"}, policy.Allow},
		{explain.Question{Point: policy.PointModel, Model: "openai/gpt", Labels: "secret"}, policy.Deny},
		{explain.Question{Point: policy.PointAgent, Target: "email"}, policy.Deny},
		{explain.Question{Point: policy.PointDelegate, Target: "email", Lineage: []string{"personal"}}, policy.Allow},
	} {
		if got := ask(c.q); len(got) != 1 || got[0].Verdict != c.want || got[0].About == "" || got[0].Recorded != nil {
			t.Errorf("%+v: %+v", c.q, got)
		}
	}
	for code, q := range map[string]explain.Question{
		"intent_not_found":      {Request: "0193b2c4-0000"},
		"tool_unknown":          {Tool: "none.such"},
		"policy_question":       {},
		"policy_point":          {Point: "all"},
		"message_label_unknown": {Tool: "math.multiply", Labels: "public"},
		"args_invalid":          {Tool: "math.multiply", Args: []byte("{")},
	} {
		if got, err := w.Policy.Explain(t.Context(), "anna", q); !fault.HasCode(err, code) {
			t.Errorf("%s: %+v, %v", code, got, err)
		}
	}
	if got, err := w.Policy.Explain(t.Context(), "bob", explain.Question{Request: both[0].Recorded.Intent}); !fault.HasCode(err, "intent_not_found") {
		t.Errorf("another's: %+v, %v", got, err)
	}
	fixed := newWorld(t)
	coded(t, second(fixed.Policy.Explain(t.Context(), "anna", explain.Question{Tool: "math.multiply"})), "policy_unexplained")
}

// swapped is an authorizer that can be replaced between two calls.
type swapped struct{ of *rego.Authorizer }

func (s *swapped) Authorize(ctx context.Context, q policy.Question) (policy.Decision, error) {
	return s.of.Authorize(ctx, q)
}

func (s *swapped) Explain(ctx context.Context, q policy.Question) (rego.Explained, error) {
	return s.of.Explain(ctx, q)
}

// folk is a directory in which everybody is in the group family.
type folk struct{}

func (folk) Principal(_ context.Context, user string) (policy.Principal, error) {
	return policy.Principal{User: user, Roles: []string{policy.RoleMember}, Groups: []string{"family"}}, nil
}

// houses are policies that decide about tools in different ways.
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

// trial is one call of the property below.
type trial struct {
	tool, what, labels string
	alone              bool
}

// outcome makes the call in a new conversation, and returns how it was decided. If
// a person is asked, it gives the answer.
func (w *world) outcome(t *rapid.T, c trial, answer effect.Decision) policy.Verdict {
	call := fmt.Sprintf(`call %s {"what":%q}`, c.tool, c.what)
	words := call
	if c.labels != "" {
		w.order.Store(&call)
		words = "call read." + map[string]string{"untrusted": "open", "private,untrusted": "closed"}[c.labels] + " {}"
	}
	acc := w.sent(turn.Input{Content: text(words), Attended: !c.alone})
	frames := w.until(acc.Conversation, turn.Cursor{}, func(f turn.Frame) bool {
		return f.Kind == turn.FrameComplete || f.Call != nil && f.Call.Approval != nil
	})
	if last := frames[len(frames)-1]; last.Kind != turn.FrameComplete {
		answer.ID, answer.Hash = last.Call.Approval.ID, last.Call.Approval.Hash
		if last.Call.Approval.NoGrant != "" || !answer.Approve {
			answer.Standing = effect.Once
		}
		ok(t, w.Effects.Decide(w.t.Context(), store.ForUser("anna"), answer))
		w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
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

// Over random policies, tools with all kinds of settings and owners, labels and
// standing approvals, a call is decided as ExplainPolicy says.
func TestExplainedDecisionIsWhatHappens(t *testing.T) {
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
		answer := effect.Decision{Approve: rapid.Bool().Draw(t, "approve"), Standing: rapid.SampledFrom([]effect.Standing{effect.Once, effect.Always}).Draw(t, "standing")}
		for range 2 { // the second time after an answer that may stand
			told, err := w.Policy.Explain(w.t.Context(), "anna", explain.Question{Tool: c.tool, Args: fmt.Appendf(nil, `{"what":%q}`, c.what),
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

// toolsOfAllKinds returns tools that differ in everything that decisions depend on.
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

// revokeAll revokes all standing approvals.
func (w *world) revokeAll(t *rapid.T) {
	list, err := w.Effects.Grants(w.t.Context(), "anna", false)
	ok(t, err)
	for _, g := range list {
		ok(t, w.Effects.Revoke(w.t.Context(), "anna", g.ID))
	}
}
