package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/plan"
	"steward/internal/tool"
)

var world = plan.World{
	Tool: func(name string) plan.Code {
		codes := map[string]plan.Code{"weather.forecast": "", "timer.set": "", "shell.run": plan.PermissionDenied, "slack.post": plan.NotApproved}
		code, known := codes[name]
		if !known {
			return plan.UnknownTool
		}
		return code
	},
	Near: func(string) []string { return []string{"weather.forecast"} },
	Agent: func(path string) plan.Code {
		return map[string]plan.Code{"boss": plan.UnknownAgent, "new": plan.NotApproved}[path]
	},
}

func TestBadPlansAreNamed(t *testing.T) {
	t.Parallel()
	deep := step("deepest")
	for range plan.MaxDepth {
		deep = plan.Draft{Name: "d", Purpose: "d", Subtasks: []plan.Draft{deep}}
	}
	var many []plan.Draft
	for i := range 10_000 {
		many = append(many, step(fmt.Sprint("t", i)))
	}
	for name, c := range map[string]struct {
		draft plan.Draft
		want  plan.Code
		say   string
	}{
		"unknown tool":       {plan.Draft{Purpose: "x", Tools: []string{"weather.get"}}, plan.UnknownTool, "did you mean weather.forecast"},
		"permission denied":  {plan.Draft{Purpose: "x", Tools: []string{"shell.run"}}, plan.PermissionDenied, "may not use"},
		"not approved":       {plan.Draft{Purpose: "x", Tools: []string{"slack.post"}}, plan.NotApproved, "waits for a person's approval"},
		"40 tools":           {plan.Draft{Purpose: "x", Tools: strings.Fields(strings.Repeat("x ", 0) + numbered(40))}, plan.TooManyTools, "40 tools"},
		"unknown agent":      {plan.Draft{Purpose: "x", Assistant: "boss"}, plan.UnknownAgent, `no agent "boss"`},
		"agent not approved": {plan.Draft{Purpose: "x", Assistant: "new"}, plan.NotApproved, `the agent "new" waits`},
		"a cycle":            {plan.Draft{Purpose: "x", Subtasks: []plan.Draft{step("a", "c"), step("b", "a"), step("c", "b")}}, plan.Cycle, "wait for each other: a, b, c;"},
		"unknown sibling":    {plan.Draft{Purpose: "x", Subtasks: []plan.Draft{step("a", "z")}}, plan.UnknownTask, "not a sibling"},
		"two of one name":    {plan.Draft{Purpose: "x", Subtasks: []plan.Draft{step("a"), step("A")}}, plan.SameName, `"a"`},
		"too deep":           {plan.Draft{Purpose: "x", Subtasks: []plan.Draft{deep}}, plan.TooDeep, "nested"},
		"10,000 tasks":       {plan.Draft{Purpose: "x", Subtasks: many}, plan.TooManyTasks, "200 tasks"},
		"nothing":            {plan.Draft{}, plan.NoPurpose, "purpose"},
	} {
		got := plan.Check(&c.draft, world)
		if len(got) != 1 || got[0].Code != c.want || !strings.Contains(plan.Describe(got), c.say) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "t%d ", i)
	}
	return b.String()
}

func TestPlansAreCorrectedWhereTheMeaningIsPlain(t *testing.T) {
	t.Parallel()
	d := plan.Draft{Purpose: "x", Tools: []string{"timer.set", "timer.set"}, Iterations: 900, Confidence: 7, Tokens: -1, Assistant: "weather",
		Subtasks: []plan.Draft{step("Find lodging!"), step("book it", "Find Lodging", "find_lodging"), {Purpose: "no name"}}}
	if bad := plan.Check(&d, world); bad != nil {
		t.Fatalf("%+v", bad)
	}
	if len(d.Tools) != 1 || d.Iterations != plan.IterationsComplex || d.Confidence != 1 || d.Tokens != 0 || d.Name != "request" {
		t.Errorf("%+v", d)
	}
	if s := d.Subtasks; s[0].Name != "find_lodging" || s[1].Name != "book_it" || len(s[1].After) != 1 || s[2].Name != "step_3" {
		t.Errorf("%+v", s)
	}
}

func TestParseIsStrict(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]string{
		`{"plan":"x"}`: "", `{"plan":`: "plan_invalid", `{"plan":"x"} {}`: "plan_invalid", `{"steps":1}`: "plan_invalid", `[]`: "plan_invalid",
		`{"plan":"` + strings.Repeat("x", plan.MaxPlanSize) + `"}`: "plan_too_large",
	} {
		if _, err := plan.Parse([]byte(text)); (code == "") != (err == nil) || code != "" && !fault.HasCode(err, code) {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}

func TestSchemasTakeWhatIsParsed(t *testing.T) {
	t.Parallel()
	d := plan.Draft{Analysis: "a", Plan: "p", Confidence: 0.9, Tools: []string{"t"}, Subtasks: []plan.Draft{{Name: "a", Purpose: "b", Subtasks: []plan.Draft{step("c")}}}}
	v := plan.Verdict{Reasons: "r", Subtasks: d.Subtasks}
	for schema, value := range map[string]any{plan.Schema: d, plan.VerdictSchema: v} {
		valid, err := tool.NewValidator([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid.Validate(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if valid.Validate([]byte(`{"analysis":"a","plan":"p","confidence":1,"achieved":true,"reasons":"","subtasks":[{"purpose":"no name"}]}`)) == nil {
			t.Error("a subtask without a name is valid")
		}
	}
}

func TestTheSamePlanMakesTheSameTasks(t *testing.T) {
	t.Parallel()
	d := plan.Draft{Purpose: "x", Subtasks: []plan.Draft{step("a"), step("b", "a")}}
	one, two := plan.Tree(id.Derive("r"), &d, 0), plan.Tree(id.Derive("r"), &d, 0)
	if len(one) != 3 || one[1].ID != two[1].ID || one[2].After[0] != one[1].ID || one[1].Parent != one[0].ID || one[0].Children != 2 {
		t.Errorf("%+v", one)
	}
}

func FuzzPlans(f *testing.F) {
	f.Add(`{"plan":"x","subtasks":[{"name":"a","after":["b"]},{"name":"b"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := plan.Parse([]byte(text))
		if err != nil || plan.Check(d, world) != nil {
			return
		}
		if again := plan.Check(d, world); again != nil {
			t.Errorf("a checked plan does not hold: %+v", again)
		}
		if n := len(plan.Tree(id.Derive("r"), d, 0)); n > plan.MaxTasks {
			t.Errorf("%d tasks", n)
		}
	})
}

func TestANameThatIsThePurposeIsShownOnce(t *testing.T) {
	d := plan.Draft{Subtasks: []plan.Draft{{Name: "buy milk", Purpose: "buy  milk"}}}
	if got := d.Text(); got != "- buy milk\n" {
		t.Errorf("%q", got)
	}
}
