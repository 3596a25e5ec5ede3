package runtime_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/policy/rego"
	"steward/internal/runtime"
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

// TestDelegatedRights: an agent that is asked has at most the rights of who
// asks it.
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
	acc := w.sent(runtime.Turn{Agent: "personal", Content: text(ask("email", `call mail.send {"what":"hello"}`))})
	w.until(acc.Conversation, runtime.Cursor{}, isKind(runtime.FrameComplete))
	if got := w.ledger.list(); got != "hello" {
		t.Errorf("by the personal agent, of its own: %q; %s", got, w.results(acc.Conversation)[0].Text())
	}
}

// TestDelegation: to ask an agent is decided by itself, and may be asked about.
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
	f := w.approve(acc.Conversation, runtime.Cursor{}, true)
	if f.Call.Name != "personal.ask" || !strings.Contains(f.Call.Approval.Reason, "may he be asked?") {
		t.Errorf("%+v", f.Call.Approval)
	}
	frames := w.until(acc.Conversation, runtime.Cursor{}, isKind(runtime.FrameComplete))
	if got := said(frames); got != "ok: hello" {
		t.Errorf("%s", got)
	}
}

// noting asks about actions and notes on whose behalf they are wanted.
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

// TestLineageOutlivesRestarts: on whose behalf an agent acts is known after a
// restart too.
func TestLineageOutlivesRestarts(t *testing.T) {
	j := &noting{}
	w := judgedLevels(t, j)
	acc := w.send(id.ID{}, ask("personal", ask("email", `call mail.send {"what":"hello"}`)))
	w.until(acc.Conversation, runtime.Cursor{}, asksPerson)
	w.close()
	before := len(j.got)
	w.open()
	w.approve(acc.Conversation, runtime.Cursor{}, true)
	w.until(acc.Conversation, runtime.Cursor{}, isKind(runtime.FrameComplete))
	if w.ledger.list() != "hello" || before == 0 || len(j.got) <= before {
		t.Fatalf("done: %s; judged %d times before and %d times in all", w.ledger.list(), before, len(j.got))
	}
	for _, who := range j.got {
		if who != "assistant personal personal/email" {
			t.Errorf("wanted by %q", who)
		}
	}
}

// TestModelGate: content goes to the models that policy allows it to go to.
func TestModelGate(t *testing.T) {
	j := policies(t, `stays_local contains "private"

deny contains "not by this agent" if {
	input.point == "model"
	input.agent == "gossip"
}

ask contains "a person would have to say" if {
	input.point == "model"
	input.model.name == "odd"
}`)
	local := func(model string) bool { return strings.HasPrefix(model, "ollama/") }
	gate := runtime.ModelGate(j, local)
	for _, c := range []struct {
		model string
		r     llm.Request
		says  string
	}{
		{"openai/gpt", llm.Request{User: "anna"}, ""},
		{"openai/gpt", llm.Request{User: "anna", Labels: message.Untrusted}, ""},
		{"openai/gpt", llm.Request{User: "anna", Labels: message.Private}, "what is private stays here"},
		{"openai/gpt", llm.Request{User: "anna", Labels: message.Secret}, "what is secret stays here"},
		{"ollama/llama", llm.Request{User: "anna", Labels: message.Private | message.Secret}, ""},
		{"ollama/llama", llm.Request{User: "anna", Agent: "gossip"}, "not by this agent"},
		{"ollama/llama", llm.Request{User: "anna", Agent: "poet", Lineage: []string{"gossip"}}, "not by this agent"},
		{"ollama/odd", llm.Request{User: "anna"}, "a person would have to say"},
	} {
		err := gate(t.Context(), c.model, &c.r)
		if c.says == "" && err == nil {
			continue
		}
		if c.says == "" || !fault.HasCode(err, "model_not_allowed") || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "steward policy show") {
			t.Errorf("%s %+v: %v", c.model, c.r, err)
		}
	}
}

// TestExplainPolicy explains what was judged, and what might be.
func TestExplainPolicy(t *testing.T) {
	w := judgedLevels(t, policies(t, `deny contains "not to eve" if input.args.what == "eve"`))
	acc := w.send(id.ID{}, `call ledger.add {"what":"eve"}`+"\n"+`call ledger.add {"what":"bob"}`)
	w.approve(acc.Conversation, runtime.Cursor{}, true)
	w.until(acc.Conversation, runtime.Cursor{}, isKind(runtime.FrameComplete))

	explain := func(q runtime.PolicyQuestion) []runtime.PolicyAnswer {
		t.Helper()
		got, err := w.ExplainPolicy(t.Context(), "anna", q)
		ok(t, err)
		return got
	}
	both := explain(runtime.PolicyQuestion{Request: acc.Interaction.String()})
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
		again := explain(runtime.PolicyQuestion{Request: r.Intent})
		if len(again) != 1 || again[0].Recorded.Intent != r.Intent {
			t.Errorf("%+v", again)
		}
	}
	for _, c := range []struct {
		q    runtime.PolicyQuestion
		want policy.Verdict
	}{
		{runtime.PolicyQuestion{Tool: "math.multiply"}, policy.Allow},
		{runtime.PolicyQuestion{Tool: "ledger.add", Args: []byte(`{ "what": "eve" }`)}, policy.Deny},
		{runtime.PolicyQuestion{Tool: "ledger.add", Late: true, Labels: "private,untrusted"}, policy.Ask},
		{runtime.PolicyQuestion{Tool: "none.such", Effect: "action"}, policy.Ask},
		{runtime.PolicyQuestion{Point: policy.PointAccess, Action: "read", Type: "home.Note", Space: "user:anna"}, policy.Allow},
		{runtime.PolicyQuestion{Point: policy.PointAccess, Action: "read", Type: "home.Note", Space: "user:bob"}, policy.Deny},
		{runtime.PolicyQuestion{Point: policy.PointModel, Model: "openai/gpt", Labels: "secret"}, policy.Deny},
		{runtime.PolicyQuestion{Point: policy.PointModel, Model: "openai/gpt", Labels: "secret", Local: true}, policy.Allow},
		{runtime.PolicyQuestion{Point: policy.PointAgent, Target: "email"}, policy.Deny},
		{runtime.PolicyQuestion{Point: policy.PointDelegate, Target: "email", Lineage: []string{"personal"}}, policy.Allow},
	} {
		if got := explain(c.q); len(got) != 1 || got[0].Verdict != c.want || got[0].About == "" || got[0].Recorded != nil {
			t.Errorf("%+v: %+v", c.q, got)
		}
	}
	for code, q := range map[string]runtime.PolicyQuestion{
		"intent_not_found":      {Request: "0193b2c4-0000"},
		"tool_unknown":          {Tool: "none.such"},
		"policy_question":       {},
		"policy_point":          {Point: "all"},
		"message_label_unknown": {Tool: "math.multiply", Labels: "public"},
		"args_invalid":          {Tool: "math.multiply", Args: []byte("{")},
	} {
		if got, err := w.ExplainPolicy(t.Context(), "anna", q); !fault.HasCode(err, code) {
			t.Errorf("%s: %+v, %v", code, got, err)
		}
	}
	if got, err := w.ExplainPolicy(t.Context(), "bob", runtime.PolicyQuestion{Request: both[0].Recorded.Intent}); !fault.HasCode(err, "intent_not_found") {
		t.Errorf("another's: %+v, %v", got, err)
	}
	fixed := newWorld(t)
	if _, err := fixed.ExplainPolicy(t.Context(), "anna", runtime.PolicyQuestion{Tool: "math.multiply"}); !fault.HasCode(err, "policy_unexplained") {
		t.Error(err)
	}
}
