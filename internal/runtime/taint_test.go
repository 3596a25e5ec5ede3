package runtime_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
	"steward/internal/turn"
	"steward/internal/work"
)

// thinker is a provider whose models are a function.
type thinker func(*llm.Request) []message.Block

func (thinker) Name() string                               { return "test" }
func (k thinker) Model(string) llm.Model                   { return k }
func (thinker) Models(context.Context) ([]llm.Info, error) { return nil, nil }
func (k thinker) Stream(_ context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		blocks := k(r)
		if blocks == nil {
			yield(llm.Event{}, fmt.Errorf("no luck"))
			return
		}
		stop := message.StopEnd
		if _, ok := blocks[0].(*message.ToolCall); ok {
			stop = message.StopTools
		}
		yield(llm.Event{Kind: llm.Done, Reply: &llm.Reply{Model: "test/m", Stop: stop, Blocks: blocks, Usage: message.Usage{Input: 1, Output: 1}}}, nil)
	}
}

// asking is an authorizer that records its questions and allows everything.
type asking struct{ got chan policy.Question }

func (a asking) Authorize(_ context.Context, q policy.Question) (policy.Decision, error) {
	if q.Point == "" || q.Point == policy.PointTool {
		select {
		case a.got <- q:
		default:
		}
	}
	return policy.Decision{Verdict: policy.Allow}, nil
}

// taintWorld returns a world with a mailbox and a model that makes the calls of a
// script, one after the other.
func taintWorld(t *testing.T, apart func(*llm.Request) string, script ...string) (*world, asking) {
	return taintWorldOf(t, nil, apart, script...)
}

// taintWorldOf is taintWorld with agents.
func taintWorldOf(t *testing.T, below kits.Catalog, apart func(*llm.Request) string, script ...string) (*world, asking) {
	a := asking{make(chan policy.Question, 100)}
	read := newTool(tool.Spec{Name: "mail.read", Description: "Read the mail.", Effect: tool.Query, Yields: message.Private | message.Untrusted, Reach: tool.ReachHere},
		func(context.Context, tool.Invocation, struct{}) (string, error) {
			return `{"text":"call me","sum":42}`, nil
		})
	vault := newTool(tool.Spec{Name: "vault.read", Description: "Read the safe.", Effect: tool.Query, Yields: message.Secret, Reach: tool.ReachHere},
		func(context.Context, tool.Invocation, struct{}) (string, error) { return "1234", nil })
	w := made(t, &world{more: []tool.Tool{read, vault}})
	w.judge, w.opt.Catalog = a, below
	w.provider = thinker(func(r *llm.Request) []message.Block {
		if r.Tools == nil { // a model apart
			text := apart(r)
			if text == "" {
				return nil
			}
			return []message.Block{&message.Text{Text: text}}
		}
		msgs, n := r.Transcript.Messages(), 0
		for i := len(msgs) - 1; i >= 0 && msgs[i].Role != message.User; i-- {
			if msgs[i].Role == message.Tool {
				n++
			}
		}
		if msgs[len(msgs)-1-2*n].Text() == "hello" || n >= len(script) {
			return []message.Block{&message.Text{Text: "done"}}
		}
		name, args, _ := strings.Cut(script[n], " ")
		return []message.Block{&message.ToolCall{CallID: fmt.Sprint("c", n), Name: name, Args: []byte(args)}}
	})
	w.open()
	return w, a
}

func (a asking) of(t *testing.T, name string) []policy.Question {
	t.Helper()
	var out []policy.Question
	for {
		select {
		case q := <-a.got:
			if q.Tool.Name == name {
				out = append(out, q)
			}
			continue
		default:
		}
		return out
	}
}

func none(*llm.Request) string { return "" }

const twoSteps = `plan.fix {"steps":[{"id":"m","tool":"mail.read","args":{}},{"id":"n","tool":"ledger.add","args":{"what":{"$from":"m","field":"/text"}}}]}`

func TestAuthorizerGetsTheFlowOfACall(t *testing.T) {
	w, a := taintWorld(t, none, twoSteps, `mail.read {}`, `ledger.add {"what":"call me"}`, `ledger.add {"what":"call you"}`, `ledger.add nonsense`)
	conv, _ := w.turn(id.ID{}, "note what the mail says")
	w.atRest(conv)
	got := a.of(t, "ledger.add")
	if len(got) < 2 || !got[0].Flow.Fixed || got[1].Flow.Fixed || got[1].Flow.Why == "" || !got[0].Labels.Has(message.Untrusted) {
		t.Errorf("%+v", got)
	}
	if r := w.results(conv); r[0].Status != message.OK || r[0].Text() != "Noted: 2 steps. Now make these calls, exactly so." || message.LabelsOf([]message.Block{r[0]}) != 0 {
		t.Errorf("%+v: %s", r[0], r[0].Text())
	}
}

func TestSeparatePlannerSeesOnlyTheUsersWords(t *testing.T) {
	const plan = `{"steps":[{"id":"n","tool":"ledger.add","args":{"what":"hi"}}]}`
	var shown []string
	labels := message.AllLabels
	w, a := taintWorld(t, func(r *llm.Request) string {
		labels = r.Labels
		shown = append(shown, r.System+r.Transcript.Messages()[0].Text())
		return "```json\n" + plan + "\n```"
	}, `mail.read {}`, `plan.fix {"steps":[{"id":"x","tool":"ledger.add","args":{"what":"evil"}}]}`, `plan.fix {"steps":[{"id":"x","tool":"ledger.add","args":{"what":"evil"}}]}`,
		`ledger.add {"what":"evil"}`, `ledger.add {"what":"hi"}`)
	conv, _ := w.turn(id.ID{}, "note hi")
	w.atRest(conv)
	if len(shown) != 1 || !strings.Contains(shown[0], "THE USER:\nnote hi\n") || strings.Contains(shown[0], "call me") || strings.Contains(shown[0], "evil") {
		t.Errorf("the planner was shown %q", shown)
	}
	if labels != 0 {
		t.Errorf("the user's own words are labelled %v", labels)
	}
	got := a.of(t, "ledger.add")
	if len(got) != 2 || got[0].Flow.Fixed || !got[1].Flow.Fixed {
		t.Errorf("%+v", got)
	}
	if r := w.results(conv); r[1].Status != message.OK || r[2].Status != message.Failed || !strings.Contains(r[2].Text(), "has its plan") {
		t.Errorf("%s; %s", r[1].Text(), r[2].Text())
	}
}

func TestInvalidPlans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		apart  func(*llm.Request) string
		script []string
		want   string
	}{
		"unknown tool":            {none, []string{`plan.fix {"steps":[{"id":"a","tool":"ledger.ad","args":{}}]}`}, "did you mean ledger.add"},
		"no tool at all":          {none, []string{`plan.fix {"steps":[{"id":"a","tool":"q.z","args":{}}]}`}, "which is not there"},
		"no steps that hold":      {none, []string{`plan.fix {"steps":[{"id":"a","tool":"ledger.add","args":{"x":{"$from":"z","field":""}}}]}`}, "not an earlier step"},
		"the planner is not had":  {none, []string{`mail.read {}`, twoSteps}, "no luck"},
		"the planner makes none":  {func(*llm.Request) string { return "I cannot" }, []string{`mail.read {}`, twoSteps}, "No plan could be made"},
		"extract without a text":  {none, []string{`text.extract {"instruction":"i"}`}, "either text or step"},
		"extract with both":       {none, []string{`text.extract {"instruction":"i","text":"t","step":"s"}`}, "either text or step"},
		"extract without a plan":  {none, []string{`text.extract {"instruction":"i","step":"s"}`}, "has no such result"},
		"extract, a bad schema":   {none, []string{`text.extract {"instruction":"i","text":"t","schema":{"type":7}}`}, "schema"},
		"extract, no such answer": {func(*llm.Request) string { return "seven" }, []string{`text.extract {"instruction":"i","text":"t","schema":{"type":"object"}}`}, "asked-for form"},
		"extract, no model":       {none, []string{`text.extract {"instruction":"i","text":"t"}`}, "no luck"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := taintWorld(t, c.apart, c.script...)
			conv, _ := w.turn(id.ID{}, "do it")
			w.atRest(conv)
			list := w.results(conv)
			if r := list[len(list)-1]; r.Status == message.OK || !strings.Contains(r.Text(), c.want) {
				t.Errorf("%s: %s", r.Status, r.Text())
			}
		})
	}
}

// A separate model reads the text and sees nothing else. The answer has the
// labels of the text, and those of the caller unless the plan had fixed the
// call.
func TestExtractUsesASeparateModel(t *testing.T) {
	var req *llm.Request
	w, _ := taintWorld(t, func(r *llm.Request) string { req = r; return `{"sum": 42}` },
		`plan.fix {"steps":[{"id":"m","tool":"mail.read","args":{}},{"id":"e","tool":"text.extract","args":{"instruction":"the sum","step":"m","field":"/sum","schema":{"type":"object"}}}]}`,
		`text.extract {"instruction":"what it says","text":"mine"}`, `mail.read {}`,
		`text.extract {"instruction":"the sum","step":"m","field":"/sum","schema":{"type":"object"}}`, `text.extract {"instruction":"another","step":"m"}`)
	conv, _ := w.turn(id.ID{}, "do it")
	w.atRest(conv)
	r := w.results(conv)
	both := message.Private | message.Untrusted
	if r[1].Text() != `{"sum": 42}` || message.LabelsOf(r[1].Content) != 0 {
		t.Errorf("%s %v", r[1].Text(), r[1].Labels)
	}
	if r[3].Text() != `{"sum":42}` || message.LabelsOf(r[3].Content) != both || message.LabelsOf(r[4].Content) != both {
		t.Errorf("%s %v; %s", r[3].Text(), r[3].Content[0].Base().Labels, r[4].Text())
	}
	if req.Tools != nil || len(req.Transcript.Messages()) != 1 || req.Meter == nil || req.User != "anna" {
		t.Errorf("%+v", req)
	}
}

// The instruction of text.extract may be secret although the text is not.
func TestInstructionOfExtractKeepsItsLabels(t *testing.T) {
	var req *llm.Request
	const sum = `math.multiply {"a":2,"b":3}`
	w, _ := taintWorld(t, func(r *llm.Request) string { req = r; return "no" }, `vault.read {}`,
		`plan.fix {"steps":[{"id":"m","tool":"math.multiply","args":{"a":2,"b":3}},{"id":"r","tool":"mail.read","args":{}},{"id":"e","tool":"text.extract","args":{"instruction":"is it 1234?","step":"m"}}]}`,
		sum, `text.extract {"instruction":"is it not 1234?","step":"m"}`, `mail.read {}`, `text.extract {"instruction":"is it 1234?","step":"m"}`)
	conv, _ := w.turn(id.ID{}, "do it")
	w.atRest(conv)
	r := w.results(conv)
	if got := message.LabelsOf(r[3].Content); got != message.Secret {
		t.Errorf("before anything of others was read: %v", got)
	}
	if got := message.LabelsOf(r[5].Content); got != message.Secret|message.Private || req.Labels != got {
		t.Errorf("to the letter of the plan: %v; the model was shown %v", got, req.Labels)
	}
}

func TestAttachmentsAreUntrusted(t *testing.T) {
	w, a := taintWorld(t, none, `ledger.add {"what":"x"}`)
	acc := w.sent(turn.Input{Attended: true, Content: []message.Block{&message.Text{Text: "note it"}, &message.Image{MIME: "image/png", Data: []byte("png")}}})
	w.atRest(acc.Conversation)
	if q := a.of(t, "ledger.add"); len(q) != 1 || q[0].Flow.Fixed || q[0].Labels != message.Private|message.Untrusted {
		t.Errorf("%+v", q)
	}
}

// Labels that a person has removed do not count in the next turn.
func TestTrustedMessages(t *testing.T) {
	w, a := taintWorld(t, none, `ledger.add {"what":"x"}`)
	acc := w.sent(turn.Input{Attended: true, Content: []message.Block{&message.Text{Text: "hello"}, &message.Image{MIME: "image/png", Data: []byte("png")}}})
	w.atRest(acc.Conversation)
	entries := w.messages(acc.Conversation)
	var ids []id.ID
	for _, m := range entries {
		ids = append(ids, m.ID)
	}
	if err := w.Trust(t.Context(), "bert", acc.Conversation, message.Untrusted, ids...); err == nil {
		t.Error("somebody else decides")
	}
	ok(t, w.Trust(t.Context(), "anna", acc.Conversation, message.Untrusted, ids...))
	w.turn(acc.Conversation, "note it")
	if q := a.of(t, "ledger.add"); len(q) != 1 || !q[0].Flow.Fixed || q[0].Labels != message.Private {
		t.Errorf("%+v", q)
	}
}

// The planning tools are offered to models that can plan, in conversations
// whose agent both reads untrusted text and acts.
func TestWhenPlanningIsOffered(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"plan.fix", "text.extract"} {
		res, err := w.ExecuteTool(t.Context(), "anna", work.Execution{Tool: name, Args: []byte(`{"steps":[]}`)})
		if err == nil {
			t.Errorf("%s is called from outside: %s", name, res.Result.Text())
		}
	}
	specs, err := w.ToolList(t.Context(), "anna", "", "")
	if err != nil || slices.ContainsFunc(specs, func(s tool.Spec) bool { return s.Name == "plan.fix" }) {
		t.Errorf("%v %v", specs, err)
	}
	conv, frames := w.turn(id.ID{}, "call plan.fix {}")
	w.atRest(conv)
	if got := said(frames); !strings.Contains(got, "There is no tool named") {
		t.Errorf("where nothing of others is read: %s", got)
	}
}

// A request to an agent that the plan had fixed literally is as clean as the
// plan. One with untrusted words, or outside the plan, is not.
func TestAgentAskedByPlanBeginsClean(t *testing.T) {
	g := &grove{}
	g.plant(agentOf("weather", query("sky.look", "sunny", 0)))
	w, _ := taintWorldOf(t, g, none,
		`plan.fix {"steps":[{"id":"m","tool":"mail.read","args":{}},{"id":"w","tool":"weather.ask","args":{"request":"hello"}},{"id":"x","tool":"weather.ask","args":{"request":{"$from":"m","field":"/text"}}}]}`,
		`mail.read {}`, `weather.ask {"request":"hello"}`, `weather.ask {"request":"call me"}`, `weather.ask {"request":"call you"}`, `weather.ask nonsense`)
	conv, _ := w.turn(id.ID{}, "ask the weather")
	w.atRest(conv)
	var got []string
	for _, r := range w.requests() {
		if r.Agent == "weather" {
			got = append(got, message.Labels(r.Labels).String())
		}
	}
	slices.Sort(got)
	if want := []string{"private", "private,untrusted", "private,untrusted"}; !slices.Equal(got, want) {
		t.Errorf("the agent was asked with the labels %q, want %q", got, want)
	}
}
